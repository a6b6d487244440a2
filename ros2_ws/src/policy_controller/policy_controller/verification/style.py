"""One look for all figures: colours, sizes, axes. The palette is Okabe and Ito's, readable with
colour-blind eyes."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import matplotlib
from matplotlib.axes import Axes

BLUE, ORANGE, GREEN, VERMILLION = "#0072B2", "#E69F00", "#009E73", "#D55E00"
SKY, PURPLE, BROWN = "#56B4E9", "#CC79A7", "#8C5A2B"
INK, GREY = "#22282F", "#8A939C"
BAND, SETTLE = "#E8EFF5", "#F6F7F8"
LEGS = (BLUE, VERMILLION, GREEN, PURPLE)
"""Colours of LF, RF, LH, RH."""

_SETTINGS = {
    "figure.dpi": 110,
    "savefig.dpi": 150,
    "figure.facecolor": "white",
    "figure.constrained_layout.use": True,
    "font.family": "DejaVu Sans",
    "font.size": 8.5,
    "axes.titlesize": 9.5,
    "axes.titleweight": "bold",
    "axes.titlelocation": "left",
    "axes.labelsize": 8.5,
    "axes.labelcolor": INK,
    "axes.edgecolor": "#B9C0C7",
    "axes.linewidth": 0.8,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.grid": True,
    "axes.axisbelow": True,
    "grid.color": "#E3E7EB",
    "grid.linewidth": 0.6,
    "xtick.color": "#59636D",
    "ytick.color": "#59636D",
    "text.color": INK,
    "lines.linewidth": 1.4,
    "lines.solid_joinstyle": "round",
    "legend.frameon": False,
    "legend.framealpha": 0.9,
    "legend.edgecolor": "none",
    "legend.fontsize": 8,
}


@contextmanager
def house_style() -> Iterator[None]:
    """Matplotlib settings of this project inside the block; drawing needs no display."""
    with matplotlib.rc_context(_SETTINGS):
        yield


def limit_line(axes: Axes, value: float, label: str | None = None) -> None:
    """A horizontal limit."""
    axes.axhline(
        value, color=VERMILLION, linewidth=1.0, linestyle=(0, (5, 3)), label=label, zorder=3
    )
