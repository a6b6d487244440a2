"""Report of a run: index.html, report.json with all numbers, and the figures as PNG."""

from __future__ import annotations

import json
import math
from dataclasses import asdict
from enum import Enum
from pathlib import Path
from typing import Any

import numpy as np

from policy_controller.verification.layout import Run
from policy_controller.verification.page import Provenance, render
from policy_controller.verification.plots import PLOTS, Plot
from policy_controller.verification.recording import Failure
from policy_controller.verification.style import house_style
from policy_controller.verification.verdict import Verdict

SCHEMA_VERSION = 1


def write_report(
    directory: Path,
    run: Run,
    verdict: Verdict,
    provenance: Provenance,
    failure: Failure | None = None,
) -> Path:
    """Write index.html, report.json and figures/*.png into `directory`.

    Returns the path of the page, which has the figures inside and needs nothing beside it.
    """
    directory.mkdir(parents=True, exist_ok=True)
    figures = draw_figures(run, directory / "figures")
    document = json.dumps(as_json(run, verdict, provenance, failure), indent=2, allow_nan=False)
    (directory / "report.json").write_text(document + "\n", encoding="utf-8")
    page = directory / "index.html"
    page.write_text(render(run, verdict, provenance, failure, figures), encoding="utf-8")
    return page


def draw_figures(run: Run, directory: Path) -> list[tuple[Plot, Path]]:
    """Draw each figure of PLOTS that the run has data for; older figures are removed."""
    directory.mkdir(parents=True, exist_ok=True)
    drawn = []
    with house_style():
        for plot in PLOTS:
            path = directory / f"{plot.key}.png"
            path.unlink(missing_ok=True)
            figure = plot.draw(run)
            if figure is not None:
                figure.savefig(path)
                drawn.append((plot, path))
    return drawn


def as_json(
    run: Run, verdict: Verdict, provenance: Provenance, failure: Failure | None
) -> dict[str, Any]:
    """All numbers of a run as plain data in SI units; what could not be measured is null."""
    checks = [
        asdict(check) | {"passed": check.passed, "margin": check.margin} for check in verdict.checks
    ]
    return plain(
        {
            "schema_version": SCHEMA_VERSION,
            "passed": verdict.passed,
            "failure": asdict(failure) if failure else None,
            "checks": checks,
            "metrics": asdict(run.metrics),
            "scenario": asdict(run.scenario),
            "provenance": asdict(provenance),
        }
    )


def plain(value: Any) -> Any:
    """Nested data as JSON can hold it; NaN and infinity become null."""
    if isinstance(value, dict):
        return {str(key): plain(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [plain(item) for item in value]
    if isinstance(value, np.ndarray | np.generic):
        return plain(value.tolist())
    if isinstance(value, Enum):
        return value.value
    if isinstance(value, float) and not math.isfinite(value):
        return None
    return value
