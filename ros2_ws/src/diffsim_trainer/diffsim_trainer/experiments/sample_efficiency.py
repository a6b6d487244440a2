"""Return against samples and wall-clock, SHAC and PPO on the same task and machine (Fig. 4).

SHAC trains in smoothed contact through the simulator; PPO trains in hard contact, which needs no
gradient. Both are judged in hard contact, without exploration. Seconds are those of training alone,
without compiling, recording graphs and judging.
"""

from __future__ import annotations

import contextlib
import io
import time

import numpy as np
import torch

from diffsim_trainer.experiments import output
from diffsim_trainer.experiments.ppo import STEPS, MeanAction, build_ppo
from diffsim_trainer.experiments.task import ReturnMeter, Settings, build_env, build_shac, train
from diffsim_trainer.physics import ContactModel

HARD = ContactModel.HARD
PPO_ROBOTS = 4096
GPU_ITERATIONS, CPU_ITERATIONS = 640, 30  # of PPO: 63 and 2.9 million samples
STOPS = 6  # times that each run is judged
LEVELS = (0.5, 0.8, 0.9, 0.95, 1.0)  # shares of SHAC's final return


def run(settings: Settings) -> None:
    seeds = range(settings.seeds)
    rows = [row for one in (_run_shac, _run_ppo) for seed in seeds for row in one(settings, seed)]
    _report(settings, rows)


def _run_shac(settings: Settings, seed: int) -> list[output.Row]:
    config = settings.training(seed)
    shac = build_shac(config, ContactModel.SMOOTHED, settings.device)
    meter = ReturnMeter(settings.judging(), HARD, settings.device, shac.actor)
    rows, seconds = [], 0.0
    for stop in _stops(config.iterations):
        if stop > shac.iteration:
            seconds += train(shac, stop)
        samples = shac.iteration * config.shac.horizon * config.env.num_envs
        rows.append(_row("SHAC", seed, samples, seconds, meter.measure(shac.actor)))
    return rows


def _run_ppo(settings: Settings, seed: int) -> list[output.Row]:
    iterations = GPU_ITERATIONS if settings.on_gpu else CPU_ITERATIONS
    config = settings.sized(PPO_ROBOTS, iterations, seed)
    torch.manual_seed(seed)
    runner = build_ppo(config, build_env(config, HARD, settings.device))
    judged = settings.judging()
    meter = ReturnMeter(judged, HARD, settings.device, MeanAction(runner))
    rows, seconds, done = [], 0.0, 0
    for stop in _stops(config.iterations):
        start = time.perf_counter()
        with contextlib.redirect_stdout(io.StringIO()):  # one page per iteration
            runner.learn(stop - done)
        if torch.device(settings.device).type == "cuda":
            torch.cuda.synchronize()
        seconds, done = seconds + time.perf_counter() - start, stop
        samples = done * STEPS * config.env.num_envs
        rows.append(_row("PPO", seed, samples, seconds, meter.measure(MeanAction(runner))))
    return rows


def _stops(iterations: int, count: int = STOPS) -> list[int]:
    """Iterations to judge after, closer together at the start."""
    share = np.linspace(0.0, 1.0, count + 1)[1:] ** 2
    return sorted({max(1, round(iterations * s)) for s in share})


def _row(
    method: str, seed: int, samples: int, seconds: float, judged: tuple[float, float]
) -> output.Row:
    row = {"method": method, "seed": seed, "samples": samples, "seconds": seconds}
    row |= {"return": judged[0], "falls": judged[1]}
    print(output.format_table([row]).splitlines()[1], flush=True)
    return row


def _report(settings: Settings, rows: list[output.Row]) -> None:
    figure, axes = output.new_figure(1, 2, (9, 3.6), sharey=True)
    final = np.mean([curve[-1]["return"] for curve in _curves(rows, "SHAC")])
    for ax, key in zip(axes[0], ("samples", "seconds"), strict=True):
        for method in ("SHAC", "PPO"):
            for i, curve in enumerate(_curves(rows, method)):
                label = method if i == 0 else None
                x, y = ([r[k] for r in curve] for k in (key, "return"))
                ax.plot(x, y, color=output.COLOURS[method], label=label, alpha=0.8)
        ax.set_xscale("log")
        ax.set_xlabel({"samples": "samples (control steps)", "seconds": "training, s"}[key])
    axes[0, 0].set_ylabel("return in hard contact")
    axes[0, 0].set_ylim(bottom=0.0)
    axes[0, 0].legend()
    table = [_compare(rows, level, level * final) for level in LEVELS]
    output.save(settings.out, "sample_efficiency", figure, rows, table)


def _compare(rows: list[output.Row], level: float, goal: float) -> output.Row:
    """Medians over seeds of what it took to reach a return for the first time; infinite for a seed
    that never did."""
    row: output.Row = {"share of SHAC's": level, "return": goal}
    for key in ("samples", "seconds"):
        shac, ppo = (
            float(np.median([_first(curve, key, goal) for curve in _curves(rows, method)]))
            for method in ("SHAC", "PPO")
        )
        row |= {
            f"{key} SHAC": shac,
            f"{key} PPO": ppo,
            f"PPO / SHAC {key}": ppo / shac if shac else float("inf"),
        }
    return row


def _first(curve: list[output.Row], key: str, goal: float) -> float:
    return next((row[key] for row in curve if row["return"] >= goal), float("inf"))


def _curves(rows: list[output.Row], method: str) -> list[list[output.Row]]:
    mine = [r for r in rows if r["method"] == method]
    return [[r for r in mine if r["seed"] == seed] for seed in sorted({r["seed"] for r in mine})]
