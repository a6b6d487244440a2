"""Norm and direction of the policy gradient against the horizon, ANYmal and a light robot (Fig. 5).

The gradient is that of the mean reward of windows of h steps, smoothed contact, without critic and
without any clipping, at a policy trained before. Groups of robots with different starts, commands
and pushes give independent estimates of it: their norm, and the cosine between two of them. The
light robot has a third of ANYmal's mass and inertia, and the same drives and friction.
"""

from __future__ import annotations

import dataclasses
import math

import numpy as np
import torch

from diffsim_trainer.env import LocomotionEnv
from diffsim_trainer.experiments import output
from diffsim_trainer.experiments.task import Settings, build_env, build_shac, train, trained_actor
from diffsim_trainer.networks import Actor
from diffsim_trainer.physics import ContactModel, Robot, load_robot

SMOOTHED = ContactModel.SMOOTHED
HORIZONS = (2, 4, 8, 12, 16, 24, 32, 48, 64)
LIGHT = 1.0 / 3.0
WALK_ON = 50  # control steps between two windows


def run(settings: Settings) -> None:
    robot = load_robot(settings.config.robot)
    figure, axes = output.new_figure(1, 3, (11, 3.4))
    rows: list[output.Row] = []
    light = lighten(robot)
    shac = build_shac(settings.training(0), SMOOTHED, settings.device, light)
    train(shac, shac.iterations)
    policies = (
        (robot.name, robot, trained_actor(settings, SMOOTHED, 0)[0]),
        (f"{robot.name}, light", light, shac.actor),
    )
    judged = settings.sized(64, 1, 0)
    for name, one, actor in policies:
        env = build_env(judged, SMOOTHED, settings.device, one)
        env.cotangent_clip = math.inf
        mine = [
            {"robot": name, "horizon": h} | measure(env, actor, h, settings.pick(8, 2))
            for h in HORIZONS[: settings.pick(len(HORIZONS), 3)]
        ]
        rows += mine
        for ax, key in zip(axes[0], ("median norm", "largest cotangent", "cosine"), strict=True):
            ax.plot([r["horizon"] for r in mine], [r[key] for r in mine], "o-", label=name)
            ax.set_title(key)
            ax.set_xlabel("horizon, control steps")
    axes[0, 0].set_yscale("log")
    axes[0, 1].set_yscale("log")
    axes[0, 2].set_ylim(-0.1, 1.0)
    axes[0, 0].legend()
    output.save(settings.out, "gradient_horizon", figure, rows, rows)


def lighten(robot: Robot) -> Robot:
    return dataclasses.replace(robot, mass=LIGHT * robot.mass, inertia=LIGHT * robot.inertia)


def measure(env: LocomotionEnv, actor: Actor, horizon: int, groups: int) -> output.Row:
    """Statistics over `groups` gradients of `env.num_envs` robots each. largest cotangent: of one
    robot, in reward per unit of state."""
    torch.manual_seed(1)
    parameters = [p for p in actor.net.parameters()]
    gradients, largest = [], 0.0
    for _ in range(groups):
        env.cotangents.reset()
        loss = _window(env, actor, horizon)
        gradient = torch.autograd.grad(loss, parameters)
        env.detach()
        gradients.append(torch.cat([g.flatten() for g in gradient]))
        nonfinite, _, cotangent = env.cotangents.values.tolist()
        if nonfinite:
            raise FloatingPointError(f"horizon {horizon}: {nonfinite:.0f} gradients not finite")
        largest = max(largest, cotangent * horizon * env.num_envs)
    stacked = torch.stack(gradients)
    norm = stacked.norm(dim=1)
    unit = stacked / norm[:, None]
    pairs = torch.triu_indices(groups, groups, offset=1)
    cosine = (unit @ unit.T)[pairs[0], pairs[1]]
    return {
        "median norm": norm.median().item(),
        "largest norm": norm.max().item(),
        "largest cotangent": largest,
        "cosine": float(np.mean(cosine.tolist())),
    }


def _window(env: LocomotionEnv, actor: Actor, horizon: int) -> torch.Tensor:
    """Loss -mean(reward) over `horizon` steps, some time after the last window."""
    with torch.no_grad():
        for _ in range(WALK_ON):
            env.step(actor(env.observe()))
    env.detach()
    rewards = []
    for _ in range(horizon):
        rewards.append(env.step(actor(env.observe())).reward)
    return -torch.stack(rewards).mean()
