"""Phase portraits of gaits trained in smoothed and in hard contact, and how periodic they are.

Both policies walk at 0.6 m/s in hard contact, on the nominal robot without pushes. Periodicity is
the share of a signal's variance that the gait clock explains: the fit of a Fourier series of its
phase. 1 is a gait that repeats itself exactly.
"""

from __future__ import annotations

import dataclasses

import numpy as np
import torch
from torch import nn

from diffsim_trainer.config import CommandConfig, EnvConfig, RandomizationConfig
from diffsim_trainer.experiments import output
from diffsim_trainer.experiments.task import Settings, build_env, trained_actor
from diffsim_trainer.physics import ContactModel

COMMAND = (0.6, 0.0, 0.0)  # m/s, m/s, rad/s
HARMONICS = 5
SETTLE, LAST = 150, 650  # control steps: 3 s, 13 s
JOINTS = ("LF_HAA", "LF_HFE", "LF_KFE")


def run(settings: Settings) -> None:
    figure, axes = output.new_figure(2, 3, (9, 5.5), sharex="col")
    rows: list[output.Row] = []
    for i, law in enumerate((ContactModel.SMOOTHED, ContactModel.HARD)):
        for seed in range(settings.seeds):
            actor, _ = trained_actor(settings, law, seed)
            state, action, phase = walk(settings, actor)
            rows.append({"trained": law.value, "seed": seed} | judge(state, action, phase))
            if seed == 0:
                for j, name in enumerate(JOINTS):
                    colour = output.COLOURS[law.value]
                    ax = axes[i, j]
                    ax.plot(state[:, 0, 13 + j], state[:, 0, 25 + j], color=colour, lw=0.6)
                    ax.set_title(f"{name}, trained in {law.value}", fontsize=9)
                    ax.set_xlabel("rad")
                axes[i, 0].set_ylabel("rad/s")
    output.save(settings.out, "motion_quality", figure, rows, rows)


def steady(env: EnvConfig, num_envs: int) -> EnvConfig:
    """The task with one constant command, the nominal robot, no pushes and no end."""
    commands = CommandConfig(COMMAND, COMMAND, 0.0, 0.0, 0.0)
    same = dict.fromkeys(("kp_scale", "kd_scale", "motor_strength"), (1.0, 1.0))
    nominal = RandomizationConfig(
        (0.8, 0.8), (0.0, 0.0), 0.0, **same, encoder_bias=0.0, delay_steps=(1, 1),
        push_probability=0.0,
    )  # fmt: skip
    return dataclasses.replace(
        env, num_envs=num_envs, commands=commands, randomization=nominal, episode_steps=10**6
    )


@torch.no_grad()
def walk(settings: Settings, actor: nn.Module) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """State [T, N, 37], action [T, N, 12] and phase [T, N] at the control rate, hard contact."""
    config = settings.sized(8, 1, 0)
    config = dataclasses.replace(config, env=steady(config.env, 8))
    torch.manual_seed(0)
    env = build_env(config, ContactModel.HARD, settings.device)
    records = []
    for step in range(settings.pick(LAST, 60)):
        action = actor(env.observe())
        env.step(action)
        if step >= settings.pick(SETTLE, 10):
            records.append((env.state.clone(), action, env.phase.clone()))
    return tuple(torch.stack(x).cpu().numpy() for x in zip(*records, strict=True))


def judge(state: np.ndarray, action: np.ndarray, phase: np.ndarray) -> output.Row:
    """Means over robots: periodicity of joint positions and velocities, speed, roughness."""
    robots = range(state.shape[1])
    position, velocity = (
        np.mean([periodicity(state[:, n, part], phase[:, n]) for n in robots])
        for part in (slice(13, 25), slice(25, 37))
    )
    return {
        "periodicity q": position,
        "periodicity dq": velocity,
        "speed m/s": state[..., 7].mean(),
        "action rate rms": np.sqrt(np.square(np.diff(action, axis=0)).mean()),
        "joint speed change rms": np.sqrt(np.square(np.diff(state[..., 25:], axis=0)).mean()),
    }


def periodicity(signal: np.ndarray, phase: np.ndarray) -> float:
    """Share of the variance of `signal` [T, K], all columns together, that a Fourier series with
    HARMONICS terms in `phase` [T] (rad) explains by least squares."""
    waves = [f(k * phase) for k in range(1, HARMONICS + 1) for f in (np.sin, np.cos)]
    basis = np.stack([np.ones_like(phase), *waves], 1)
    residual = signal - basis @ np.linalg.lstsq(basis, signal, rcond=None)[0]
    return float(1.0 - residual.var(0).sum() / signal.var(0).sum())
