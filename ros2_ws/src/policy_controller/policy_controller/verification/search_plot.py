"""Plot of a margin search: one row for each direction, what passed and what failed."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Protocol

import matplotlib.pyplot as plt

from policy_controller.verification.style import GREEN, VERMILLION, house_style

PASSED, FAILED = GREEN, VERMILLION


class Found(Protocol):
    """What of a search.Direction is drawn."""

    parameter: str
    nominal: float
    to: float
    last_pass: float
    points: Sequence


def draw_directions(directions: Sequence[Found], path: Path) -> None:
    """Each row runs from the nominal value (left) to the farthest one tried (right)."""
    with house_style():
        figure, axes = plt.subplots(figsize=(9.0, 1.2 + 0.42 * len(directions)))
        for row, found in enumerate(directions):

            def share(value: float, found: Found = found) -> float:
                return (value - found.nominal) / (found.to - found.nominal)

            axes.plot([0.0, share(found.last_pass)], [row, row], color=PASSED, linewidth=5)
            for point in found.points:
                color = PASSED if point.passed else FAILED
                axes.plot(share(point.value), row, "o" if point.passed else "x", color=color)
            axes.text(1.03, row, f"{found.last_pass:g} of {found.to:g}", va="center")
        names = [f"{found.parameter} ({found.nominal:g})" for found in directions]
        axes.set_yticks(range(len(directions)), names)
        axes.set_xlim(-0.02, 1.25)
        axes.set_xticks([0.0, 0.5, 1.0], ["nominal", "half way", "farthest tried"])
        axes.invert_yaxis()
        axes.set_title("How far the robot may differ: green passes, crosses fail")
        figure.savefig(path, dpi=110)
        plt.close(figure)
