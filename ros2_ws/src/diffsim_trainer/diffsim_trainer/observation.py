"""What the policy sees: 50 numbers in the order of the bundle, and the gait clock (torch).

The robot's side (`policy_controller.observation`) computes the same in numpy; a test compares the
two. The running normaliser is
not applied here: it is part of the actor and hence of the exported network.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import torch

from diffsim_trainer.config import GaitConfig, NoiseConfig


@dataclass(frozen=True)
class ObservationTerm:
    """Name, size and factor on the raw value; unit and frame are defined by the reader,
    policy_controller.observation."""

    name: str
    size: int
    scale: float = 1.0


OBSERVATION_TERMS = (
    ObservationTerm("base_linear_velocity", 3),
    ObservationTerm("base_angular_velocity", 3),
    ObservationTerm("projected_gravity", 3),
    ObservationTerm("command", 3),
    ObservationTerm("joint_position", 12),
    ObservationTerm("joint_velocity", 12, scale=0.1),
    ObservationTerm("previous_action", 12),
    ObservationTerm("gait_clock", 2),
)
OBSERVATION_SIZE = sum(term.size for term in OBSERVATION_TERMS)


def projected_gravity(state: torch.Tensor) -> torch.Tensor:
    """Unit gravity direction in the base frame [N, 3]: minus the third row of the rotation matrix
    base -> world."""
    x, y, z, w = state[:, 3:7].unbind(1)
    return torch.stack([-2 * (x * z - w * y), -2 * (y * z + w * x), -(1 - 2 * (x * x + y * y))], 1)


def build_observation(
    state: torch.Tensor,
    command: torch.Tensor,
    phase: torch.Tensor,
    previous_action: torch.Tensor,
    default_pose: torch.Tensor,
    gait: GaitConfig,
) -> torch.Tensor:
    """state [N, 37] (packed, see diffsim_trainer.physics), command [N, 3], phase [N] rad,
    previous_action [N, 12] -> [N, 50]."""
    values = {
        "base_linear_velocity": state[:, 7:10],
        "base_angular_velocity": state[:, 10:13],
        "projected_gravity": projected_gravity(state),
        "command": command,
        "joint_position": state[:, 13:25] - default_pose,
        "joint_velocity": state[:, 25:37],
        "previous_action": previous_action,
        "gait_clock": gait_clock(phase, is_moving(command, gait)),
    }
    terms = [
        values[t.name] if t.scale == 1.0 else t.scale * values[t.name] for t in OBSERVATION_TERMS
    ]
    return torch.cat(terms, 1)


def noise_scale(noise: NoiseConfig) -> torch.Tensor:
    """Half width of the uniform observation noise [50]: zero for terms that the robot knows
    exactly."""
    parts = [
        torch.full((t.size,), t.scale * getattr(noise, t.name, 0.0)) for t in OBSERVATION_TERMS
    ]
    return torch.cat(parts)


def encoder_offset(bias: torch.Tensor) -> torch.Tensor:
    """What an encoder bias [N, 12] (rad, measured minus true) adds to an observation [N, 50]."""
    zeros = bias.new_zeros(bias.shape[0], OBSERVATION_SIZE)
    parts = [
        t.scale * bias if t.name == "joint_position" else zeros[:, : t.size]
        for t in OBSERVATION_TERMS
    ]
    return torch.cat(parts, 1)


def is_moving(command: torch.Tensor, gait: GaitConfig) -> torch.Tensor:
    """Bool [N]: the command asks to walk; otherwise the clock stands still."""
    return command.square().sum(1) > gait.stand_command_threshold**2


def gait_clock(phase: torch.Tensor, moving: torch.Tensor) -> torch.Tensor:
    """(sin, cos) of the phase [N, 2]; (0, 0) while standing."""
    clock = torch.stack([phase.sin(), phase.cos()], 1)
    return torch.where(moving[:, None], clock, torch.zeros_like(clock))


def advance_phase(
    phase: torch.Tensor, moving: torch.Tensor, gait: GaitConfig, control_period: float
) -> torch.Tensor:
    """Phase after one control step [N], in [0, 2 pi); held at 0 while standing."""
    step = 2 * math.pi * gait.frequency * control_period
    return torch.where(moving, (phase + step).remainder(2 * math.pi), torch.zeros_like(phase))
