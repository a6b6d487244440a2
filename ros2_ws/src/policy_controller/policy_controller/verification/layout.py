"""What several figures share: the run they show, segments in the background, legends."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.patches import Rectangle

from policy_controller.verification import style
from policy_controller.verification.metrics import Metrics, RobotLimits, motion_state_at
from policy_controller.verification.recording import NANO, Mark, Recording
from policy_controller.verification.scenario import MOTION_STATES, Measure, Scenario

CYCLE = 0.5
"""Length [s] of the moving average drawn over signals that oscillate with the gait: a step cycle of
about 2 Hz."""
EXCERPT = 2.5
"""Length [s] of the excerpts that show single steps."""


@dataclass(frozen=True)
class Run:
    """All that a figure may show."""

    recording: Recording
    scenario: Scenario
    metrics: Metrics
    limits: RobotLimits

    def marks(self, *measures: Measure) -> list[Mark]:
        """Marks of the completed segments with one of `measures`."""
        kinds = {segment.name: segment.measure for segment in self.scenario.segments}
        return [m for m in self.recording.marks if m.completed and kinds[m.name] in measures]

    def excerpt(self) -> tuple[Mark, int, int] | None:
        """First tracking segment, and start and end [ns] of an excerpt of its steady part."""
        for mark in self.marks(Measure.TRACKING):
            return mark, mark.steady, min(mark.end, mark.steady + round(EXCERPT / NANO))
        return None


def legend_above(figure: Figure, ax: Axes) -> None:
    """The legend of `ax` above the whole figure, where it hides nothing."""
    legend = figure.legend(*ax.get_legend_handles_labels(), loc="outside upper right", ncols=6)
    for line in legend.get_lines():
        line.set_linewidth(2.0)
        line.set_alpha(1.0)


def moving_mean(signal: np.ndarray, stamp: np.ndarray) -> np.ndarray:
    """Centred mean over CYCLE, shorter at the ends."""
    step = float(np.median(np.diff(stamp))) * NANO if len(stamp) > 1 else CYCLE
    width = max(1, min(round(CYCLE / step), len(signal)))
    kernel = np.ones(width)
    return np.convolve(signal, kernel, "same") / np.convolve(np.ones_like(signal), kernel, "same")


def shade(ax: Axes, run: Run) -> None:
    """Steady parts of judged segments in a band; borders of all segments as thin lines."""
    seconds = run.recording.seconds
    for mark in run.marks(Measure.TRACKING, Measure.STANDSTILL):
        ax.axvspan(seconds(mark.steady), seconds(mark.end), color=style.BAND, linewidth=0, zorder=0)
    for mark in run.recording.marks:
        ax.axvline(seconds(mark.requested), color="#D5DBE0", linewidth=0.7, zorder=1)


def segment_strip(ax: Axes, run: Run) -> None:
    """Names of the segments above the plots."""
    seconds = run.recording.seconds
    kinds = {segment.name: segment.measure for segment in run.scenario.segments}
    for mark in run.recording.marks:
        start, end = float(seconds(mark.requested)), float(seconds(mark.end))
        colour = style.SETTLE if kinds[mark.name] is Measure.NOTHING else "#CFE0EE"
        ax.add_patch(
            Rectangle(
                (start, 0.0), end - start, 1.0, facecolor=colour, edgecolor="white", linewidth=1.2
            )
        )
        upright = end - start < 4.0
        ax.text(
            (start + end) / 2,
            0.5,
            mark.name,
            ha="center",
            va="center",
            fontsize=6.6 if upright else 7.6,
            rotation=90 if upright else 0,
        )
    ax.set_ylim(0.0, 1.0)
    ax.axis("off")


def state_strip(ax: Axes, run: Run) -> None:
    """Motion state over time as a coloured strip."""
    colours = ("#C9CFD5", style.ORANGE, style.SKY, style.BLUE, style.PURPLE, style.VERMILLION)
    stamp = run.recording.state.stamp
    stamp = stamp[stamp >= run.recording.origin]
    states = motion_state_at(run.recording, stamp)
    time = run.recording.seconds(stamp)
    edges = np.concatenate(([0], np.flatnonzero(np.diff(states)) + 1, [len(states) - 1]))
    for first, last in zip(edges[:-1], edges[1:], strict=True):
        index = int(states[first])
        ax.axvspan(time[first], time[last], color=colours[index], linewidth=0)
        if time[last] - time[first] > 2.0:
            ax.text(
                (time[first] + time[last]) / 2,
                0.46,
                MOTION_STATES[index].replace("_", " "),
                ha="center",
                va="center",
                fontsize=7.2,
                color="white" if index in (3, 4, 5) else style.INK,
            )
    ax.set_ylim(0.0, 1.0)
    ax.axis("off")
