"""Tables and figures of all experiments, in one style."""

from __future__ import annotations

import csv
from pathlib import Path

import matplotlib

matplotlib.use("Agg")
import matplotlib.pyplot as plt

COLOURS = {
    "smoothed": "tab:blue",
    "hard": "black",
    "soft": "tab:purple",
    "mujoco": "tab:green",
    "SHAC": "tab:blue",
    "PPO": "tab:red",
}

Row = dict[str, float | str]


def new_figure(rows: int, columns: int, size: tuple[float, float], **keys):
    """Figure and axes [rows, columns]; size in inches."""
    figure, axes = plt.subplots(rows, columns, figsize=size, squeeze=False, **keys)
    for one in axes.flat:
        one.grid(alpha=0.3)
    return figure, axes


def save(out: Path, name: str, figure, rows: list[Row], table: list[Row]) -> None:
    """Writes OUT/name.png and OUT/name.csv (all `rows`) and prints `table`, a digest of them."""
    out.mkdir(parents=True, exist_ok=True)
    figure.tight_layout()
    figure.savefig(out / f"{name}.png", dpi=90)
    plt.close(figure)
    with open(out / f"{name}.csv", "w", newline="") as file:
        writer = csv.DictWriter(file, list(rows[0]), lineterminator="\n")
        writer.writeheader()
        writer.writerows({k: _text(v) for k, v in row.items()} for row in rows)
    print(format_table(table))
    print(f"{out / name}.png, {out / name}.csv", flush=True)


def format_table(rows: list[Row]) -> str:
    cells = [list(rows[0]), *([_text(v) for v in row.values()] for row in rows)]
    widths = [max(len(line[i]) for line in cells) for i in range(len(cells[0]))]
    return "\n".join(
        "  ".join(f"{cell:>{width}}" for cell, width in zip(line, widths, strict=True))
        for line in cells
    )


def _text(value: float | str) -> str:
    return value if isinstance(value, str) else f"{value:.5g}"
