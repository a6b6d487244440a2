"""Draws docs/images/falling_mass.png: what the contact laws do to a falling mass and its gradient.

    python scripts/plot_falling_mass.py

A mass of 1 kg falls onto the ground at 1 m/s, in one dimension and with the laws of
`diffsim_trainer.physics.contact`: HARD with its gap term b, SMOOTHED with s(d) = 1 / (1 + e^(kd)).
"""

from pathlib import Path

import matplotlib

matplotlib.use("Agg")
import matplotlib.pyplot as plt
import numpy as np

G, DT, STEPS = 9.81, 0.005, 12
KAPPAS = (100.0, 300.0, 1000.0)


def fall(height: np.ndarray, kappa: float | None) -> np.ndarray:
    """Heights after STEPS Moreau steps from `height` at -1 m/s; kappa None is the HARD law."""
    d, v = height.copy(), np.full_like(height, -1.0)
    for _ in range(STEPS):
        middle = d + 0.5 * DT * v
        free = v - G * DT
        if kappa is None:
            bias = np.maximum(middle, 0.0) / DT + np.maximum(0.2 * np.minimum(middle, 0) / DT, -0.5)
            v = np.maximum(free, -bias)
        else:
            share = 1.0 / (1.0 + np.exp(np.clip(kappa * middle, -100.0, 50.0)))
            v = free + share * np.maximum(-free, 0.0)
        d = middle + 0.5 * DT * v
    return d


def main() -> None:
    start = np.linspace(-0.002, 0.1, 2000)
    laws = {"hard": None, **{f"smoothed, κ = {k:.0f} /m": k for k in KAPPAS}}
    figure, (top, bottom) = plt.subplots(2, 1, figsize=(7, 6), sharex=True)
    for name, kappa in laws.items():
        end = fall(start, kappa)
        style = dict(color="black", linestyle="--") if kappa is None else {}
        top.plot(1e3 * start, 1e3 * end, label=name, **style)
        bottom.plot(1e3 * start, np.gradient(end, start), **style)
    top.set_ylabel("height after 60 ms, mm")
    bottom.set_ylabel("d(height after 60 ms) / d(height at start)")
    bottom.set_xlabel("height at start, mm (falling at 1 m/s)")
    top.legend()
    for axes in (top, bottom):
        axes.grid(alpha=0.3)
    figure.tight_layout()
    target = Path(__file__).parents[1] / "docs" / "images" / "falling_mass.png"
    figure.savefig(target, dpi=110)
    print(target)


if __name__ == "__main__":
    main()
