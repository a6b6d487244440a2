"""Report of a run: one HTML page that needs nothing beside it, report.json with all numbers, and the figures as PNG."""

from __future__ import annotations

import base64
import json
import math
from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass
from html import escape
from importlib import resources
from pathlib import Path
from typing import Any

import numpy as np

from policy_controller.verification.plots import PLOTS, Plot, Run
from policy_controller.verification.recording import Failure
from policy_controller.verification.style import house_style
from policy_controller.verification.timing import Spread
from policy_controller.verification.verdict import Check, Verdict, quantity

CARDS = ("velocity_rmse", "yaw_rate_rmse", "drift", "swing_apex", "penetration", "period_share")
"""Checks shown large at the top."""


@dataclass(frozen=True)
class Provenance:
    """What was run, so that it can be run again."""

    command: str  # shell line that repeats the run
    started: str  # ISO 8601 with time zone
    robot: str
    engine: str
    timing_mode: str  # "real time" or "lockstep"
    seed: int
    bundle: str  # path as given
    bundle_sha256: str
    scenario: str  # path as given
    scenario_sha256: str
    training: dict[str, Any]  # as in bundle.json
    versions: dict[str, str]
    host: str
    nodes: dict[str, str]  # name -> command line


def write_report(directory: Path, run: Run, verdict: Verdict, provenance: Provenance, failure: Failure | None = None) -> Path:
    """Write index.html, report.json and figures/*.png into `directory`; returns the path of the page."""
    directory.mkdir(parents=True, exist_ok=True)
    figures = draw_figures(run, directory / "figures")
    document = as_json(run, verdict, provenance, failure)
    (directory / "report.json").write_text(json.dumps(document, indent=2, allow_nan=False) + "\n", encoding="utf-8")
    page = directory / "index.html"
    page.write_text(render(run, verdict, provenance, failure, figures), encoding="utf-8")
    return page


def draw_figures(run: Run, directory: Path) -> list[tuple[Plot, Path]]:
    """Draw each figure of PLOTS that the run has data for."""
    directory.mkdir(parents=True, exist_ok=True)
    drawn = []
    with house_style():
        for plot in PLOTS:
            figure = plot.draw(run)
            if figure is not None:
                path = directory / f"{plot.key}.png"
                figure.savefig(path)
                drawn.append((plot, path))
    return drawn


def as_json(run: Run, verdict: Verdict, provenance: Provenance, failure: Failure | None) -> dict[str, Any]:
    """All numbers of a run as plain data; what could not be measured is null."""
    return _plain(
        {
            "schema_version": 1,
            "passed": verdict.passed,
            "failure": asdict(failure) if failure else None,
            "checks": [asdict(check) | {"passed": check.passed, "margin": check.margin} for check in verdict.checks],
            "metrics": asdict(run.metrics),
            "scenario": asdict(run.scenario),
            "provenance": asdict(provenance),
        }
    )


def render(
    run: Run, verdict: Verdict, provenance: Provenance, failure: Failure | None, figures: Sequence[tuple[Plot, Path]]
) -> str:
    """The HTML page."""
    passed = verdict.passed
    decisive = [check for check in verdict.checks if check.decides]
    title = f"{provenance.robot}, scenario '{run.scenario.name}'"
    style = resources.files(__package__).joinpath("page.css").read_text(encoding="utf-8")
    parts = [
        f'<!doctype html><html lang="en"><head><meta charset="utf-8"><title>{escape(title)}: {_word(passed)}</title>',
        f'<meta name="viewport" content="width=device-width, initial-scale=1"><style>{style}</style></head><body>',
        '<header><div><div><div class="eyebrow">Footlight verification report</div>',
        f"<h1>{escape(title)}</h1><p>{escape(run.scenario.description)}</p>",
        f"<p>{escape(provenance.started)} · engine {escape(provenance.engine)} · {escape(provenance.timing_mode)} · "
        f"{run.metrics.duration:.0f} s · {run.metrics.distance:.1f} m walked</p></div>",
        f'<div class="stamp {_class(passed)}"><b>{_word(passed)}</b><span>{sum(c.passed for c in decisive)} of '
        f"{len(decisive)} limits kept</span></div></div></header><main>",
        _alert(run, verdict, failure),
        _cards(verdict),
        _limits_table(verdict),
    ]
    for plot, path in figures:
        data = base64.b64encode(path.read_bytes()).decode("ascii")
        parts.append(
            f'<h2>{escape(plot.title)}</h2><figure id="{plot.key}"><img alt="{escape(plot.title)}" '
            f'src="data:image/png;base64,{data}"><figcaption>{escape(plot.caption)}</figcaption></figure>'
        )
    parts += [_segment_table(run), _foot_table(run), _joint_table(run), _timing_table(run), _reproduce(run, provenance)]
    parts.append(
        "<footer>Measured from the topics of the robot and of the controller only. All numbers in SI units are in "
        "<code>report.json</code>.</footer></main></body></html>\n"
    )
    return "".join(parts)


def _alert(run: Run, verdict: Verdict, failure: Failure | None) -> str:
    lines = []
    if failure:
        lines.append(f"<p><b>Ended early in segment '{escape(failure.segment)}':</b> {escape(failure.reason)}</p>")
        if failure.detail:
            lines.append(f"<pre>{escape(failure.detail)}</pre>")
    for check in verdict.failures:
        lines.append(f"<p><b>{escape(check.title)}</b>: {_reading(check)}</p>")
    for name, events in (("Fall", run.metrics.falls), ("Guard trip", run.metrics.guard_trips)):
        lines += [
            f"<p>{name} at {event.time:.2f} s in '{escape(event.segment)}': {escape(event.what)}</p>" for event in events[:8]
        ]
    return f'<div class="alert">{"".join(lines)}</div>' if lines else ""


def _reading(check: Check) -> str:
    relation = "at most" if check.upper else "at least"
    where = f" ({escape(check.where)})" if check.where else ""
    return f"{quantity(check.value, check.unit)}, {relation} {quantity(check.limit, check.unit)} allowed{where}"


def _cards(verdict: Verdict) -> str:
    cards = []
    by_key = {check.key: check for check in verdict.checks}
    for check in (by_key[key] for key in CARDS if key in by_key):
        bad = " fail" if check.decides and not check.passed else ""
        cards.append(
            f'<div class="card{bad}"><b>{quantity(check.value, check.unit)}</b><span>{escape(check.title)}</span></div>'
        )
    return f'<div class="cards">{"".join(cards)}</div>'


def _limits_table(verdict: Verdict) -> str:
    rows = []
    for check in verdict.checks:
        kind = _class(check.passed) if check.decides else "note"
        word = _word(check.passed) if check.decides else ("met" if check.passed else "not met")
        sign = "≤" if check.upper else "≥"
        if check.limit == 0.0:
            sign = "="
        rows.append(
            f'<tr class="{kind if kind == "fail" else ""}"><td>{escape(check.title)}</td>'
            f'<td class="num">{quantity(check.value, check.unit)}</td>'
            f'<td class="num soft">{sign} {quantity(check.limit, check.unit)}</td><td>{_bar(check, kind)}</td>'
            f'<td class="num soft">{_margin(check)}</td><td class="soft">{escape(check.where)}</td>'
            f'<td><span class="tag {kind}">{word}</span></td></tr>'
        )
    return (
        "<h2>Limits<small>the last rows are targets: reported, without effect on the verdict</small></h2><table>"
        '<thead><tr><th>Quantity</th><th class="num">Measured, worst</th><th class="num">Limit</th><th>Share of limit used</th>'
        f'<th class="num">Margin</th><th>Where</th><th></th></tr></thead><tbody>{"".join(rows)}</tbody></table>'
    )


def _bar(check: Check, kind: str) -> str:
    """Used share of the limit: value / limit for an upper limit, limit / value for a lower one."""
    if check.unit == "" or not math.isfinite(check.value) or (not check.upper and check.value <= 0.0):
        return ""
    used = check.value / check.limit if check.upper else check.limit / check.value
    return f'<div class="bar {kind}"><i style="width:{100.0 * min(1.0, used):.0f}%"></i></div>'


def _margin(check: Check) -> str:
    if check.margin is None or not math.isfinite(check.margin) or check.unit == "":
        return ""
    return f"{100.0 * check.margin:+.0f} %"


def _segment_table(run: Run) -> str:
    rows = []
    for segment in run.metrics.segments:
        rows.append([
            segment.name, f"{segment.start:.1f} s", f"{segment.steady:.1f} s", _triple(segment.command),
            _triple(segment.mean_velocity), _number(segment.velocity_rmse), _number(segment.yaw_rate_rmse),
            _number(1e3 * segment.drift, 1), _number(segment.joint_speed_rms), _number(math.degrees(segment.tilt), 1),
            _number(segment.height),
        ])
    return "<h2>Segments<small>over the steady part</small></h2>" + _table(
        ["Segment", "Start", "Length", "Command<br>m/s, m/s, rad/s", "Mean velocity<br>m/s, m/s, rad/s", "RMS error<br>m/s",
         "RMS error<br>rad/s", "Drift<br>mm", "Joint speed<br>RMS, rad/s", "Tilt<br>max, °", "Height<br>mean, m"], rows)


def _foot_table(run: Run) -> str:
    rows = [
        [foot.name, foot.swings, _number(1e3 * foot.swing_apex, 1), _number(1e3 * foot.swing_apex_lowest, 1),
         _number(100 * foot.duty_factor, 1), _number(foot.step_frequency, 2), _number(foot.stance_slip),
         _number(foot.stance_slip_peak), _number(1e3 * depth, 2)]
        for foot, depth in zip(run.metrics.feet, run.metrics.penetration, strict=True)
    ]
    agreement = _number(1e3 * run.metrics.foot_model_error, 1)
    return (
        "<h2>Feet<small>steady parts of the tracking segments; penetration over the whole run</small></h2>"
        + _table(["Foot", "Swings", "Apex, median<br>mm", "Apex, lowest<br>mm", "Duty<br>%", "Steps<br>Hz", "Slip, mean<br>m/s",
                  "Slip, p99<br>m/s", "Penetration<br>mm"], rows)
        + f'<p class="soft">Slip is the speed of the material contact point, from base twist and joint speeds. Reported feet and '
        f"robot file agree within {agreement} mm.</p>"
    )


def _joint_table(run: Run) -> str:
    limits = run.limits
    rows = [
        [joint.name, f"{joint.position_lowest:+.2f} to {joint.position_highest:+.2f}", _number(joint.position_margin, 2),
         _number(joint.speed, 2), _number(joint.speed_margin, 2), _number(joint.torque, 1), _number(joint.torque_rms, 1),
         _number(joint.torque_margin, 1)]
        for joint in run.metrics.joints
    ]
    return (
        f"<h2>Joints<small>whole run; limits of the bundle: {limits.velocity:g} rad/s, {limits.torque:g} N m</small></h2>"
        + _table(["Joint", "Position<br>rad", "Margin<br>rad", "Speed, peak<br>rad/s", "Margin<br>rad/s", "Torque, peak<br>N m",
                  "Torque, RMS<br>N m", "Margin<br>N m"], rows)
    )


def _timing_table(run: Run) -> str:
    timing = run.metrics.timing

    def row(name: str, spread: Spread) -> list[Any]:
        return [name, spread.samples, _number(1e3 * spread.p50, 2), _number(1e3 * spread.p99, 2), _number(1e3 * spread.max, 2)]

    rows = [
        row(f"Control period, nominal {1e3 * timing.nominal_period:g} ms", timing.period),
        row("Control tick, state to published command", timing.tick),
        row("Age of the state when used", timing.state_age),
        row("State sent to command sent, between processes", timing.latency),
    ]
    return (
        "<h2>Timing<small>from the first request on</small></h2>"
        + _table(["Duration", "Samples", "p50<br>ms", "p99<br>ms", "Max<br>ms"], rows)
        + f'<p class="soft">{100 * timing.period_share:.2f} % of the periods within '
        f"±{1e3 * timing.period_tolerance:g} ms; {timing.overruns} ticks ended after their deadline; "
        f"{100 * run.metrics.recorded_share:.1f} % of the states recorded.</p>"
    )


def _reproduce(run: Run, provenance: Provenance) -> str:
    rows = [
        ["Bundle", f"<code>{escape(provenance.bundle)}</code>"],
        ["Bundle SHA-256", f"<code>{escape(provenance.bundle_sha256)}</code>"],
        ["Scenario", f"<code>{escape(provenance.scenario)}</code>"],
        ["Scenario SHA-256", f"<code>{escape(provenance.scenario_sha256)}</code>"],
        ["Engine, mode, seed", escape(f"{provenance.engine}, {provenance.timing_mode}, {provenance.seed}")],
        ["Training", escape(", ".join(f"{key} {value}" for key, value in provenance.training.items()))],
        ["Versions", escape(", ".join(f"{key} {value}" for key, value in provenance.versions.items()))],
        ["Computer", escape(provenance.host)],
    ]
    nodes = "\n".join(f"# {name}\n{line}" for name, line in provenance.nodes.items())
    body = "".join(f"<tr><td class='soft'>{name}</td><td>{value}</td></tr>" for name, value in rows)
    return (
        f"<h2>Reproduce</h2><pre>{escape(provenance.command)}</pre><table><tbody>{body}</tbody></table>"
        f"<p class='soft'>The run started these processes:</p><pre>{escape(nodes)}</pre>"
    )


def _table(head: Iterable[str], rows: Iterable[Sequence[Any]]) -> str:
    """First column left, others right. Heads are markup of this file; cells are escaped."""
    titles = "".join(f'<th{" class=num" if i else ""}>{title}</th>' for i, title in enumerate(head))
    body = "".join(
        "<tr>" + "".join(f'<td{" class=num" if i else ""}>{escape(str(cell))}</td>' for i, cell in enumerate(row)) + "</tr>"
        for row in rows
    )
    return f"<table><thead><tr>{titles}</tr></thead><tbody>{body}</tbody></table>"


def _number(value: float, digits: int = 3) -> str:
    return f"{value:.{digits}f}" if math.isfinite(value) else ""


def _triple(values: Sequence[float]) -> str:
    return "  ".join(f"{round(value, 2) + 0.0:.2f}" for value in values) if all(map(math.isfinite, values)) else ""


def _class(passed: bool) -> str:
    return "pass" if passed else "fail"


def _word(passed: bool) -> str:
    return "PASS" if passed else "FAIL"


def _plain(value: Any) -> Any:
    """Nested data with numpy and enum values, as JSON can hold it; NaN and infinity become null."""
    if isinstance(value, dict):
        return {str(key): _plain(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [_plain(item) for item in value]
    if isinstance(value, np.ndarray | np.generic):
        return _plain(value.tolist())
    if hasattr(value, "value") and not isinstance(value, int | float | str):
        return _plain(value.value)
    if isinstance(value, float) and not math.isfinite(value):
        return None
    return value
