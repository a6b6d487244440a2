"""The HTML page of a report: one file, no script, nothing loaded from elsewhere."""

from __future__ import annotations

import base64
import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from html import escape
from importlib import resources
from pathlib import Path
from typing import Any

from policy_controller.verification.layout import Run
from policy_controller.verification.plots import Plot
from policy_controller.verification.recording import Failure
from policy_controller.verification.timing import Spread
from policy_controller.verification.verdict import Check, Verdict, quantity

CARDS = ("velocity_rmse", "yaw_rate_rmse", "drift", "swing_apex", "penetration", "period_share")
"""Checks shown large at the top."""
SHOWN_EVENTS = 8
"""Falls and guard trips spelled out at the top; report.json has all."""


@dataclass(frozen=True)
class Provenance:
    """What was run, so that it can be run again."""

    command: str  # shell line that repeats the run
    started: str  # local time with offset
    robot: str
    engine: str
    timing_mode: str  # "real time" or "lockstep"
    scheduling: str  # of the nodes: "SCHED_FIFO" or "normal"
    seed: int
    bundle: str  # path as given
    bundle_sha256: str
    scenario: str  # path as given
    scenario_sha256: str
    training: dict[str, Any]  # as in bundle.json
    versions: dict[str, str]
    host: str
    nodes: dict[str, str]  # name -> command line


def render(
    run: Run,
    verdict: Verdict,
    provenance: Provenance,
    failure: Failure | None,
    figures: Sequence[tuple[Plot, Path]],
) -> str:
    """The page as text."""
    title = f"{provenance.robot}, scenario '{run.scenario.name}'"
    style = resources.files(__package__).joinpath("page.css").read_text(encoding="utf-8")
    parts = [
        '<!doctype html><html lang="en"><head><meta charset="utf-8">',
        f"<title>{escape(title)}: {_word(verdict.passed)}</title>",
        '<meta name="viewport" content="width=device-width, initial-scale=1">',
        f"<style>{style}</style></head><body>",
        _header(title, run, verdict, provenance),
        "<main>",
        _alert(run, verdict, failure),
        _cards(verdict),
        _limits_table(verdict),
        *(embed_figure(plot, path) for plot, path in figures),
        _segment_table(run),
        _foot_table(run),
        _joint_table(run),
        _timing_table(run, provenance),
        _reproduce(provenance),
        "<footer>Measured from the topics of the robot and of the controller only. ",
        "All numbers are in <code>report.json</code>, in SI units.</footer></main></body></html>\n",
    ]
    return "".join(parts)


def _header(title: str, run: Run, verdict: Verdict, provenance: Provenance) -> str:
    decisive = [check for check in verdict.checks if check.decides]
    facts = (
        provenance.started,
        f"engine {provenance.engine}",
        provenance.timing_mode,
        f"{run.metrics.duration:.0f} s",
        f"{run.metrics.distance:.1f} m walked",
    )
    return (
        '<header><div><div><div class="eyebrow">Footlight verification report</div>'
        f"<h1>{escape(title)}</h1><p>{escape(run.scenario.description)}</p>"
        f"<p>{escape(' · '.join(facts))}</p></div>"
        f'<div class="stamp {_class(verdict.passed)}"><b>{_word(verdict.passed)}</b>'
        f"<span>{sum(c.passed for c in decisive)} of {len(decisive)} limits kept</span></div>"
        "</div></header>"
    )


def _alert(run: Run, verdict: Verdict, failure: Failure | None) -> str:
    lines = []
    if failure:
        where = f"Ended early in segment '{escape(failure.segment)}':"
        lines.append(f"<p><b>{where}</b> {escape(failure.reason)}</p>")
        if failure.detail:
            lines.append(f"<pre>{escape(failure.detail)}</pre>")
    for check in verdict.failures:
        lines.append(f"<p><b>{escape(check.title)}</b>: {_reading(check)}</p>")
    for name, events in (("Fall", run.metrics.falls), ("Guard trip", run.metrics.guard_trips)):
        for event in events[:SHOWN_EVENTS]:
            when = f"{name} at {event.time:.2f} s in '{escape(event.segment)}'"
            lines.append(f"<p>{when}: {escape(event.what)}</p>")
    return f'<div class="alert">{"".join(lines)}</div>' if lines else ""


def _reading(check: Check) -> str:
    value, limit = quantity(check.value, check.unit), quantity(check.limit, check.unit)
    where = f" ({escape(check.where)})" if check.where else ""
    return f"{value}, {'at most' if check.upper else 'at least'} {limit} allowed{where}"


def _cards(verdict: Verdict) -> str:
    cards = []
    by_key = {check.key: check for check in verdict.checks}
    for check in (by_key[key] for key in CARDS if key in by_key):
        bad = " fail" if check.decides and not check.passed else ""
        value, title = quantity(check.value, check.unit), escape(check.title)
        cards.append(f'<div class="card{bad}"><b>{value}</b><span>{title}</span></div>')
    return f'<div class="cards">{"".join(cards)}</div>'


def _limits_table(verdict: Verdict) -> str:
    rows = []
    for check in verdict.checks:
        if check.decides:
            kind, word = _class(check.passed), _word(check.passed)
        else:
            kind, word = "note", "met" if check.passed else "not met"
        sign = "=" if check.limit == 0.0 else "≤" if check.upper else "≥"
        rows.append(
            f'<tr class="{kind}"><td>{escape(check.title)}</td>'
            f'<td class="num">{quantity(check.value, check.unit)}</td>'
            f'<td class="num soft">{sign} {quantity(check.limit, check.unit)}</td>'
            f'<td>{_bar(check, kind)}</td><td class="num soft">{_margin(check)}</td>'
            f'<td class="soft">{escape(check.where)}</td>'
            f'<td><span class="tag {kind}">{word}</span></td></tr>'
        )
    return (
        "<h2>Limits<small>grey rows are targets: reported, without effect on the verdict</small>"
        '</h2><table><thead><tr><th>Quantity</th><th class="num">Measured, worst</th>'
        '<th class="num">Limit</th><th>Share of limit used</th><th class="num">Margin</th>'
        f"<th>Where</th><th></th></tr></thead><tbody>{''.join(rows)}</tbody></table>"
    )


def _bar(check: Check, kind: str) -> str:
    """Used share of the limit: value / limit for an upper limit, limit / value for a lower one."""
    if check.unit == "" or not math.isfinite(check.value):
        return ""
    if check.upper:
        used = check.value / check.limit
    else:
        used = check.limit / check.value if check.value > 0.0 else 1.0
    width = 100.0 * min(1.0, used)
    return f'<div class="bar {kind}"><i style="width:{width:.0f}%"></i></div>'


def _margin(check: Check) -> str:
    if check.unit == "" or check.margin is None or not math.isfinite(check.margin):
        return ""
    return f"{100.0 * check.margin:+.0f} %"


def embed_figure(plot: Plot, path: Path) -> str:
    """A figure with its title and caption, the image inside."""
    data = base64.b64encode(path.read_bytes()).decode("ascii")
    title = escape(plot.title)
    return (
        f'<h2>{title}</h2><figure id="{plot.key}">'
        f'<img alt="{title}" src="data:image/png;base64,{data}">'
        f"<figcaption>{escape(plot.caption)}</figcaption></figure>"
    )


def _segment_table(run: Run) -> str:
    rows = [
        (
            segment.name,
            f"{segment.start:.1f}",
            f"{segment.steady:.1f}",
            _triple(segment.command),
            _triple(segment.mean_velocity),
            _number(segment.velocity_rmse),
            _number(segment.yaw_rate_rmse),
            _number(1e3 * segment.drift, 1),
            _number(segment.joint_speed_rms),
            _number(math.degrees(segment.tilt), 1),
            _number(segment.height),
        )
        for segment in run.metrics.segments
    ]
    head = (
        "Segment; Start|s; Length|s; Command|m/s, m/s, rad/s; Mean velocity|m/s, m/s, rad/s; "
        "RMS error|m/s; RMS error|rad/s; Drift|mm; Joint speed|RMS, rad/s; Tilt|max, °; "
        "Height|mean, m"
    )
    return "<h2>Segments<small>over the steady part</small></h2>" + table(head, rows)


def _foot_table(run: Run) -> str:
    rows = [
        (
            foot.name,
            foot.swings,
            _number(1e3 * foot.swing_apex, 1),
            _number(1e3 * foot.swing_apex_lowest, 1),
            _number(100 * foot.duty_factor, 1),
            _number(foot.step_frequency, 2),
            _number(foot.stance_slip),
            _number(foot.stance_slip_peak),
            _number(1e3 * depth, 2),
        )
        for foot, depth in zip(run.metrics.feet, run.metrics.penetration, strict=True)
    ]
    head = (
        "Foot; Swings; Apex, median|mm; Apex, lowest|mm; Duty|%; Steps|Hz; Slip, mean|m/s; "
        "Slip, p99|m/s; Penetration|mm"
    )
    return (
        "<h2>Feet<small>steady parts of the tracking segments; penetration over the whole run"
        f"</small></h2>{table(head, rows)}"
        '<p class="soft">Slip is the speed of the material contact point, from base twist and '
        "joint speeds. Reported feet and robot file agree within "
        f"{_number(1e3 * run.metrics.foot_model_error, 1)} mm.</p>"
    )


def _joint_table(run: Run) -> str:
    rows = [
        (
            joint.name,
            f"{joint.position_lowest:+.2f} to {joint.position_highest:+.2f}",
            _number(joint.position_margin, 2),
            _number(joint.speed, 2),
            _number(joint.speed_margin, 2),
            _number(joint.torque, 1),
            _number(joint.torque_rms, 1),
            _number(joint.torque_margin, 1),
        )
        for joint in run.metrics.joints
    ]
    head = (
        "Joint; Position|rad; Margin|rad; Speed, peak|rad/s; Margin|rad/s; Torque, peak|N m; "
        "Torque, RMS|N m; Margin|N m"
    )
    return (
        f"<h2>Joints<small>whole run; limits of the bundle: {run.limits.velocity:g} rad/s, "
        f"{run.limits.torque:g} N m</small></h2>{table(head, rows)}"
    )


def _timing_table(run: Run, provenance: Provenance) -> str:
    timing = run.metrics.timing

    def row(name: str, spread: Spread) -> tuple[Any, ...]:
        times = (spread.p50, spread.p99, spread.max)
        return (name, spread.samples, *(_number(1e3 * value, 2) for value in times))

    note = f"from the first request on; scheduling of the nodes: {provenance.scheduling}"
    if provenance.timing_mode == "lockstep":
        note += "; periods and ages are in simulated time, which waits for the controller"
    rows = [
        row(f"Control period, nominal {1e3 * timing.nominal_period:g} ms", timing.period),
        row("Control tick, state to published command", timing.tick),
        row("Age of the state when used", timing.state_age),
        row("State sent to command sent, between processes", timing.latency),
    ]
    return (
        f"<h2>Timing<small>{note}</small></h2>"
        + table("Duration; Samples; p50|ms; p99|ms; Max|ms", rows)
        + f'<p class="soft">{100 * timing.period_share:.2f} % of the periods within '
        f"±{1e3 * timing.period_tolerance:g} ms; {timing.overruns} ticks ended after their "
        f"deadline; {100 * run.metrics.recorded_share:.1f} % of the states recorded.</p>"
    )


def _reproduce(provenance: Provenance) -> str:
    def listing(values: dict[str, Any]) -> str:
        return ", ".join(f"{key} {value}" for key, value in values.items())

    rows = {
        "Bundle": provenance.bundle,
        "Bundle SHA-256": provenance.bundle_sha256,
        "Scenario": provenance.scenario,
        "Scenario SHA-256": provenance.scenario_sha256,
        "Engine, mode, seed": f"{provenance.engine}, {provenance.timing_mode}, {provenance.seed}",
        "Training": listing(provenance.training),
        "Versions": listing(provenance.versions),
        "Computer": provenance.host,
    }
    body = "".join(
        f"<tr><td class='soft'>{name}</td><td>{escape(value)}</td></tr>"
        for name, value in rows.items()
    )
    nodes = "\n".join(f"# {name}\n{line}" for name, line in provenance.nodes.items())
    return (
        f"<h2>Reproduce</h2><pre>{escape(provenance.command)}</pre>"
        f'<table class="facts"><tbody>{body}</tbody></table>'
        f"<p class='soft'>The run started these processes:</p><pre>{escape(nodes)}</pre>"
    )


def table(head: str, rows: Iterable[Sequence[Any]]) -> str:
    """A table from heads "a; b|unit"; the first column left, the others right."""
    titles, body = [], []
    for column, title in enumerate(head.split("; ")):
        text = escape(title).replace("|", "<br>")
        titles.append(f'<th class="num">{text}</th>' if column else f"<th>{text}</th>")
    for row in rows:
        first, *others = (escape(str(cell)) for cell in row)
        cells = "".join(f'<td class="num">{cell}</td>' for cell in others)
        body.append(f"<tr><td>{first}</td>{cells}</tr>")
    return f"<table><thead><tr>{''.join(titles)}</tr></thead><tbody>{''.join(body)}</tbody></table>"


def _number(value: float, digits: int = 3) -> str:
    return f"{value:.{digits}f}" if math.isfinite(value) else ""


def _triple(values: Sequence[float]) -> str:
    if not all(map(math.isfinite, values)):
        return ""
    return "  ".join(f"{round(value, 2) + 0.0:.2f}" for value in values)  # no minus sign on zero


def _class(passed: bool) -> str:
    return "pass" if passed else "fail"


def _word(passed: bool) -> str:
    return "PASS" if passed else "FAIL"
