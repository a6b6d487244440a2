"""Report of a suite: one page that needs nothing beside it, and all numbers as JSON."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import asdict
from html import escape
from importlib import resources
from pathlib import Path
from typing import Any

from policy_controller.verification.bench import CaseResult
from policy_controller.verification.layout import Run
from policy_controller.verification.metrics import RobotLimits
from policy_controller.verification.page import embed_figure, table
from policy_controller.verification.plots import PLOTS
from policy_controller.verification.recording import load_recording
from policy_controller.verification.report import plain
from policy_controller.verification.style import house_style
from policy_controller.verification.summary import Summary
from policy_controller.verification.verdict import Check, quantity

SCHEMA_VERSION = 1
SHOWN_FAILURES, SHOWN_PASSES = 4, 2  # cases with plots; each figure is up to half a megabyte


def write_suite_report(
    directory: Path,
    summary: Summary,
    results: Sequence[CaseResult],
    limits: RobotLimits,
    provenance: dict[str, Any],
) -> Path:
    """Write index.html and report.json; returns the page."""
    directory.mkdir(parents=True, exist_ok=True)
    content = {
        "schema_version": SCHEMA_VERSION,
        **asdict(summary),
        "margins": [
            {"check": _check(row.check), "case": row.case, "engine": row.engine}
            | {"failed": row.failed, "measured": row.measured}
            for row in summary.margins
        ],
        "provenance": provenance,
        "results": [_case(result) for result in results],
    }
    text = json.dumps(plain(content), indent=1, allow_nan=False)
    (directory / "report.json").write_text(text + "\n", encoding="utf-8")
    page = directory / "index.html"
    page.write_text(_page(directory, summary, results, limits, provenance), encoding="utf-8")
    return page


def _check(check: Check) -> dict[str, Any]:
    return asdict(check) | {"passed": check.passed, "margin": check.margin}


def _case(result: CaseResult) -> dict[str, Any]:
    case = result.case
    return {
        "name": case.name,
        "family": case.family,
        "engine": case.engine,
        "passed": result.verdict.passed,
        "parameters": dict(case.parameters),
        "commands": {s.name: s.command for s in case.scenario.segments},
        "failure": asdict(result.failure) if result.failure else None,
        "checks": [_check(check) for check in result.verdict.checks],
        "wall_time": result.wall_time,
    }


def _page(
    directory: Path,
    summary: Summary,
    results: Sequence[CaseResult],
    limits: RobotLimits,
    provenance: dict[str, Any],
) -> str:
    word = "PASS" if summary.passed else "FAIL"
    style = resources.files(__package__).joinpath("page.css").read_text(encoding="utf-8")
    kept = f"{summary.cases - summary.failed} of {summary.cases} cases passed"
    margins = [
        (
            row.check.title,
            quantity(row.check.value, row.check.unit),
            ("≤ " if row.check.upper else "≥ ") + quantity(row.check.limit, row.check.unit),
            "" if row.check.margin is None else f"{100 * row.check.margin:+.0f} %",
            f"{row.failed} of {row.measured}",
            f"{row.case} ({row.engine})",
            row.check.where,
        )
        for row in summary.margins
    ]
    joints = [
        (
            j.joint,
            *(f"{v:.3f}" for v in (j.torque_rms, j.torque, j.speed, j.position)),
        )
        for j in summary.joints
    ]
    facts = [(name, value) for name, value in provenance.items()]
    parts = [
        '<!doctype html><html lang="en"><head><meta charset="utf-8">',
        f"<title>Verification: {word}</title><style>{style}</style></head><body>",
        '<header><div><div><div class="eyebrow">Footlight verification</div>',
        f"<h1>{summary.cases} cases on hard contact</h1><p>{escape(summary.pattern)}</p></div>",
        f'<div class="stamp {word.lower()}"><b>{word}</b><span>{kept}</span></div></div></header>',
        "<main><h2>Limits<small>smallest margin over all cases, the nearest first</small></h2>",
        table("Limit; Worst; Allowed; Margin; Failed; Case; Where", margins),
        "<h2>Families</h2>",
        table("Family; Engine; Passed; Cases", _families(results)),
        "<h2>Engines<small>mean difference over the same cases on Warp and MuJoCo</small></h2>",
        table("Joint; Torque RMS|N m; Torque peak|N m; Speed peak|rad/s; Range|rad", joints),
        *_figures(directory, results, limits),
        "<h2>Cases</h2>",
        table("Case; Engine; Verdict; Limits not kept; Parameters", map(_row, results)),
        "<h2>Reproduce</h2>",
        table("What; Value", facts),
        "<footer>All numbers are in <code>report.json</code>, in SI units.</footer>",
        "</main></body></html>\n",
    ]
    return "".join(parts)


def _families(results: Sequence[CaseResult]) -> list[tuple[Any, ...]]:
    groups: dict[tuple[str, str], list[bool]] = {}
    for result in results:
        key = (result.case.family, result.case.engine)
        groups.setdefault(key, []).append(result.verdict.passed)
    return [(*key, sum(passed), len(passed)) for key, passed in groups.items()]


def _row(result: CaseResult) -> tuple[str, ...]:
    broken = ", ".join(
        f"{check.title} {quantity(check.value, check.unit)} {check.where}"
        for check in result.verdict.failures
    )
    reason = f"{result.failure.reason}; " if result.failure else ""
    varied = ", ".join(f"{key} {value:g}" for key, value in result.case.parameters.items())
    verdict = "PASS" if result.verdict.passed else "FAIL"
    return result.case.name, result.case.engine, verdict, reason + broken, varied


def _figures(directory: Path, results: Sequence[CaseResult], limits: RobotLimits) -> list[str]:
    failed = [result for result in results if not result.verdict.passed][:SHOWN_FAILURES]
    passed = [result for result in results if result.verdict.passed][:SHOWN_PASSES]
    parts = []
    with house_style():
        for result in (*failed, *passed):
            run = Run(
                load_recording(result.recording), result.case.scenario, result.metrics, limits
            )
            word = "PASS" if result.verdict.passed else "FAIL"
            parts.append(f"<h2>{escape(result.case.name)} ({result.case.engine}): {word}</h2>")
            for plot in PLOTS:
                figure = plot.draw(run)
                if figure is not None:
                    path = directory / "figure.png"
                    figure.savefig(path, dpi=80)
                    parts.append(embed_figure(plot, path))
                    path.unlink()
    return parts
