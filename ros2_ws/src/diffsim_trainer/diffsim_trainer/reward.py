"""Reward of one control step, batched over environments [N] and differentiable.

Every term i has a feature vector x_i and is

    b_i exp(-|x_i|^2 / width) - c_i |x_i|^2

with b_i zero for all but the two tracking terms and the constant `alive` (which has no feature).
So one matrix product gives all the squared norms and a handful of operations the reward, which
matters because this runs in every control step, forward and backward. `compute_reward` says what
the terms look at, `_coefficients` how much they weigh; the weights are in `RewardConfig`.

The recipe follows the task of Schwarke et al. (CoRL 2025): velocity tracking, a smooth foot-height
target instead of the usual air-time bonus (which has no gradient), and small regularisers. What was
added: quadratic tails of the tracking terms (exp is flat far from the command), a slip penalty, a
soft joint-speed limit, and terms that hold only at zero command.

Arrays: state [N, 37] and sensors [N, 4, 10] as in diffsim_trainer.physics, command [N, 3], actions
[N, 12].
"""

from __future__ import annotations

from functools import lru_cache

import torch

from diffsim_trainer.config import GaitConfig, RewardConfig
from diffsim_trainer.observation import is_moving, projected_gravity

LEG_SIGN = (1.0, -1.0, -1.0, 1.0)  # LF, RF, LH, RH: LF and RH lift while sin(phase) > 0
CONTACT_HEIGHT = 0.01  # m, foot height at which the slip gate is half open
CONTACT_STEEPNESS = 300.0  # 1/m
MAX_SLIP = (
    1.0  # m^2/s^2 per foot, cap of the squared slip speed: a kick must not dominate the batch
)

TERM_NAMES = (
    "alive",
    "linear_tracking",
    "yaw_tracking",
    "foot_height",
    "vertical_velocity",
    "roll_pitch_rate",
    "orientation",
    "base_height",
    "action_rate",
    "action_magnitude",
    "torque",
    "torque_excess",
    "joint_speed",
    "stand_joint_speed",
    "stand_base_speed",
    "stand_torque",
    "stand_pose",
    "foot_slip",
)


def compute_reward(
    state: torch.Tensor,
    sensors: torch.Tensor,
    command: torch.Tensor,
    phase: torch.Tensor,
    action: torch.Tensor,
    previous_action: torch.Tensor,
    default_pose: torch.Tensor,
    config: RewardConfig,
    gait: GaitConfig,
) -> tuple[torch.Tensor, torch.Tensor]:
    """Returns the reward [N] and its weighted terms [N, len(TERM_NAMES)]. `phase` [N] is the clock
    at the time of `state`."""
    moving = is_moving(command, gait)
    motor_torque = sensors[:, :, 0:3].flatten(1)
    joint_speed = state[:, 25:37]
    features = {
        "linear_tracking": state[:, 7:9] - command[:, :2],
        "yaw_tracking": state[:, 12:13] - command[:, 2:],
        "foot_height": sensors[:, :, 3] - foot_height_target(phase, moving, gait),
        "vertical_velocity": state[:, 9:10],
        "roll_pitch_rate": state[:, 10:12],
        "orientation": projected_gravity(state)[:, :2],
        "base_height": state[:, 2:3] - config.base_height_target,
        "action_rate": action - previous_action,
        "action_magnitude": action,
        "torque": motor_torque,
        "torque_excess": excess(motor_torque, config.torque_soft_limit),
        "joint_speed": excess(joint_speed, config.joint_speed_limit),
        "stand_joint_speed": joint_speed,
        "stand_base_speed": state[:, 7:13],
        "stand_torque": motor_torque,
        "stand_pose": state[:, 13:25] - default_pose,
    }
    slip = foot_slip(sensors)
    squares = torch.cat([torch.cat(list(features.values()), 1).square(), slip], 1)
    columns = [(name, x.shape[1]) for name, x in features.items()] + [("foot_slip", slip.shape[1])]
    norms = squares @ _term_of_column(tuple(columns), state.device, state.dtype)
    bonus, rate, walking, still = _coefficients(config, state.device, state.dtype)
    cost = torch.where(moving[:, None], walking, still)
    terms = bonus * torch.exp(rate * norms) - cost * norms
    return terms.sum(1), terms


@lru_cache
def _term_of_column(
    columns: tuple[tuple[str, int], ...], device: torch.device, dtype: torch.dtype
) -> torch.Tensor:
    """[columns, terms]: 1 where a column belongs to a term; `columns` are names and widths."""
    owner = torch.tensor([TERM_NAMES.index(name) for name, width in columns for _ in range(width)])
    return torch.nn.functional.one_hot(owner, len(TERM_NAMES)).to(device, dtype)


@lru_cache
def _coefficients(
    c: RewardConfig, device: torch.device, dtype: torch.dtype
) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor, torch.Tensor]:
    """b, -1 / width, and c of every term while walking and while standing, each [terms]."""
    tracked = ("linear_tracking", "yaw_tracking")
    bonus = {"alive": c.alive} | {name: getattr(c, name) for name in tracked}
    rate = {name: -1.0 / c.tracking_width for name in tracked}
    cost = {name: getattr(c, name) for name in TERM_NAMES if name not in bonus}
    cost |= {name: getattr(c, f"{name}_tail") for name in tracked}
    walking = {name: value for name, value in cost.items() if not name.startswith("stand_")}
    rows = [[row.get(name, 0.0) for name in TERM_NAMES] for row in (bonus, rate, walking, cost)]
    return torch.tensor(rows, device=device, dtype=dtype).unbind()


def excess(x: torch.Tensor, limit: float) -> torch.Tensor:
    """By how much |x| exceeds the limit, with the sign of x."""
    return x - x.clamp(-limit, limit)


def foot_height_target(phase: torch.Tensor, moving: torch.Tensor, gait: GaitConfig) -> torch.Tensor:
    """Height of each foot above ground [N, 4]: h max(0, +-sin(phase)) for the diagonal pairs; 0
    while standing."""
    height = gait.swing_height * phase.sin() * moving
    first, second = height.clamp(min=0.0), (-height).clamp(min=0.0)
    return torch.stack([first if sign > 0 else second for sign in LEG_SIGN], 1)


def foot_slip(sensors: torch.Tensor) -> torch.Tensor:
    """Squared horizontal speed of the feet on the ground [N, 4]. The contact gate carries no
    gradient, otherwise lifting a foot would look like a cure for slipping."""
    on_ground = torch.sigmoid(-CONTACT_STEEPNESS * (sensors[:, :, 3].detach() - CONTACT_HEIGHT))
    speed2 = sensors[:, :, 4:6].square().sum(2)
    return (on_ground * speed2).clamp(max=MAX_SLIP)
