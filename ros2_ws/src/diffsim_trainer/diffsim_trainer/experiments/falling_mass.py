"""What the contact laws do to a falling mass, and to the gradient of where it ends up.

A mass of 1 kg falls onto the ground at 1 m/s, in one dimension and with the laws of
`diffsim_trainer.physics.contact`: HARD with its gap term b, SMOOTHED with s(d) = 1 / (1 + e^(kd)),
SOFT with its spring and damper. s(d) is the share of the times that the foot touches, d + e < 0,
when e is logistic noise of scale 1 / k: stochastic smoothing draws the noise, normal with
sigma = 1.7 / k, at every step and applies the mean of the stopping impulses.
"""

from __future__ import annotations

import numpy as np

from diffsim_trainer.experiments import output
from diffsim_trainer.experiments.task import Settings
from diffsim_trainer.physics.contact import (
    CORRECTION_RATE,
    CORRECTION_SPEED,
    SOFT_DAMPING,
    SOFT_STIFFNESS,
)

G, DT, DURATION = 9.81, 0.005, 0.06  # m/s^2, s, s
SPEED = -1.0  # m/s at the start
KAPPAS = (100.0, 300.0, 1000.0)  # 1/m
KAPPA = 300.0  # 1/m, of the training and of the comparison with stochastic smoothing
SAMPLES = 256  # draws per step of the stochastic smoothing
LEG_LOAD = 57.0 / 4.0  # kg on a foot: the soft law is made for it


def fall_hard(height: np.ndarray) -> np.ndarray:
    """Heights (m) DURATION after `height`; any shape. Moreau steps, as in all laws but SOFT."""

    def contact(middle: np.ndarray, free: np.ndarray) -> np.ndarray:
        depth = CORRECTION_RATE * np.minimum(middle, 0.0) / DT
        bias = np.maximum(middle, 0.0) / DT + np.maximum(depth, -CORRECTION_SPEED)
        return np.maximum(free, -bias)

    return _fall(height, DT, contact)


def fall_smoothed(height: np.ndarray, kappa: float) -> np.ndarray:
    def contact(middle: np.ndarray, free: np.ndarray) -> np.ndarray:
        share = 1.0 / (1.0 + np.exp(np.clip(kappa * middle, -100.0, 50.0)))
        return free + share * np.maximum(-free, 0.0)

    return _fall(height, DT, contact)


def fall_soft(height: np.ndarray) -> np.ndarray:
    """Substeps of 1 ms; the mass on one foot of the robot, so that the stiffness means the same."""
    dt = DT / 5

    def contact(middle: np.ndarray, free: np.ndarray) -> np.ndarray:
        speed = free + G * dt
        force = -SOFT_STIFFNESS * middle - SOFT_DAMPING * np.minimum(speed, 0.0)
        return free + np.where(middle < 0.0, dt * force / LEG_LOAD, 0.0)

    return _fall(height, dt, contact)


def _fall(height: np.ndarray, dt: float, contact) -> np.ndarray:
    d, v = height.copy(), np.full_like(height, SPEED)
    for _ in range(round(DURATION / dt)):
        middle = d + 0.5 * dt * v
        v = contact(middle, v - G * dt)
        d = middle + 0.5 * dt * v
    return d


def fall_stochastic(height: np.ndarray, sigma: float) -> tuple[np.ndarray, np.ndarray]:
    """Heights and their derivative by `height` [M]: forward sensitivities, with the score-function
    estimate E[1{d + sigma e < 0} e] / sigma of the share's derivative, since the indicator itself
    has none."""
    rng = np.random.default_rng(0)
    d, v = height.copy(), np.full_like(height, SPEED)
    dd, dv = np.ones_like(d), np.zeros_like(d)
    for _ in range(round(DURATION / DT)):
        noise = rng.standard_normal((SAMPLES // 2, 1))
        noise = np.concatenate([noise, -noise])  # antithetic
        middle, d_middle = d + 0.5 * DT * v, dd + 0.5 * DT * dv
        touching = middle + sigma * noise < 0.0
        share, slope = touching.mean(0), (touching * noise).mean(0) / sigma
        free = v - G * DT
        v = free + share * np.maximum(-free, 0.0)
        dv = dv + slope * d_middle * np.maximum(-free, 0.0) - share * (free < 0.0) * dv
        d, dd = middle + 0.5 * DT * v, d_middle + 0.5 * DT * dv
    return d, dd


def run(settings: Settings) -> None:
    start = np.linspace(-0.002, 0.1, settings.pick(2000, 200))
    curves = {"hard": fall_hard(start), "soft": fall_soft(start)}
    curves |= {f"smoothed, κ = {k:.0f} /m": fall_smoothed(start, k) for k in KAPPAS}
    gradients = {name: np.gradient(end, start) for name, end in curves.items()}
    sigma = 1.702 / KAPPA  # closest normal to a logistic distribution
    name = f"stochastic, σ = {1e3 * sigma:.1f} mm"
    curves[name], gradients[name] = fall_stochastic(start, sigma)

    figure, axes = output.new_figure(2, 1, (7, 6), sharex=True)
    for name, end in curves.items():
        colour = output.COLOURS.get(name)
        style = dict(color=colour, linestyle="--" if name == "hard" else "-")
        if name.startswith("stochastic"):
            style = dict(color="tab:red", linewidth=0.8, alpha=0.8)
        axes[0, 0].plot(1e3 * start, 1e3 * end, label=name, **style)
        axes[1, 0].plot(1e3 * start, gradients[name], **style)
    axes[0, 0].set_ylabel("height after 60 ms, mm")
    axes[1, 0].set_ylabel("d(height after 60 ms) / d(height at start)")
    axes[1, 0].set_ylim(-1.5, 2.0)  # the soft law jumps from one number of substeps to the next
    axes[1, 0].set_xlabel("height at start, mm (falling at 1 m/s)")
    axes[0, 0].legend(fontsize=8)
    rows = [
        {"law": name, "start": float(s), "end": float(e), "gradient": float(g)}
        for name, end in curves.items()
        for s, e, g in zip(start[::10], end[::10], gradients[name][::10], strict=True)
    ]
    analytic = f"smoothed, κ = {KAPPA:.0f} /m"
    landed = start < 0.07  # in the hard law
    table: list[output.Row] = [
        {
            "law": name.replace("κ", "kappa").replace("σ", "sigma"),
            "mean |gradient|, landed": float(np.abs(gradients[name][landed]).mean()),
            "rms from analytic, mm": 1e3 * _rms(end - curves[analytic]),
            "gradient, rms from analytic": _rms(gradients[name] - gradients[analytic]),
        }
        for name, end in curves.items()
    ]
    output.save(settings.out, "falling_mass", figure, rows, table)


def _rms(x: np.ndarray) -> float:
    return float(np.sqrt(np.square(x).mean()))
