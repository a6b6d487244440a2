"""Reward of one control step, batched over environments [N] and differentiable.

Every term i has a feature vector x_i and is

    b_i exp(-|x_i|^2 / width) - c_i |x_i|^2

with b_i zero for all but the two tracking terms and the constant `alive` (which has no feature).
So one matrix product gives all the squared norms and a handful of operations the reward, which
matters because this runs in every control step, forward and backward. `_features` says what the
terms look at, `_coefficients` how much they weigh; the weights are in `RewardConfig`.

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

FEATURE_SIZES = {
    "alive": 0,
    "linear_tracking": 2,
    "yaw_tracking": 1,
    "foot_height": 4,
    "vertical_velocity": 1,
    "roll_pitch_rate": 2,
    "orientation": 2,
    "base_height": 1,
    "action_rate": 12,
    "action_magnitude": 12,
    "torque": 12,
    "torque_excess": 12,
    "joint_speed": 12,
    "stand_joint_speed": 12,
    "stand_base_speed": 6,
    "stand_torque": 12,
    "stand_pose": 12,
    "foot_slip": 4,
}
TERM_NAMES = tuple(FEATURE_SIZES)


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
    features = [
        state[:, 7:9] - command[:, :2],
        state[:, 12:13] - command[:, 2:],
        sensors[:, :, 3] - foot_height_target(phase, moving, gait),
        state[:, 9:10],
        state[:, 10:12],
        projected_gravity(state)[:, :2],
        state[:, 2:3] - config.base_height_target,
        action - previous_action,
        action,
        motor_torque,
        excess(motor_torque, config.torque_soft_limit),
        excess(joint_speed, config.joint_speed_limit),
        joint_speed,
        state[:, 7:13],
        motor_torque,
        state[:, 13:25] - default_pose,
    ]
    squares = torch.cat([torch.cat(features, 1).square(), foot_slip(sensors)], 1)
    norms = squares @ _term_of_feature(state.device, state.dtype)
    bonus, rate, walking, still = _coefficients(config, state.device, state.dtype)
    cost = torch.where(moving[:, None], walking, still)
    terms = bonus * torch.exp(rate * norms) - cost * norms
    return terms.sum(1), terms


@lru_cache
def _term_of_feature(device: torch.device, dtype: torch.dtype) -> torch.Tensor:
    """[features, terms]: 1 where a feature belongs to a term."""
    sizes = torch.tensor(list(FEATURE_SIZES.values()))
    owner = torch.repeat_interleave(torch.arange(len(sizes)), sizes)
    return torch.nn.functional.one_hot(owner, len(sizes)).to(device, dtype)


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
