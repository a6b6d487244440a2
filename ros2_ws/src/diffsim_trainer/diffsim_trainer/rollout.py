"""Plays a policy through the control contract, without gradients: gait clock, previous action,
target, delay.

The order in one control step is that of the bundle: observation from state, command, phase and
previous action; action; target; then the phase advances. Used for evaluation in hard contact, for
the check in MuJoCo and for the golden data of a bundle.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass

import numpy as np
import torch

from diffsim_trainer import observation as obs
from diffsim_trainer.config import GaitConfig
from diffsim_trainer.networks import ACTION_SIZE
from diffsim_trainer.physics import Robot

Policy = Callable[[np.ndarray], np.ndarray]  # observation float32 [N, 50] -> action [N, 12]
Step = Callable[
    [np.ndarray, np.ndarray], tuple[np.ndarray, np.ndarray]
]  # state, target -> state', sensors


@dataclass(frozen=True)
class PolicyContract:
    """What a policy needs around it: default pose and limits of the joint targets (both of the
    robot), action_scale rad, gait clock, control_period s."""

    robot: Robot
    action_scale: float
    gait: GaitConfig
    control_period: float


@dataclass(frozen=True)
class ControlStep:
    """What was decided in one control step of N robots (float32): state [N, 37] and command [N, 3]
    it was decided from, phase [N], previous_action [N, 12], observation [N, 50], action [N, 12],
    target [N, 12] rad."""

    state: np.ndarray
    command: np.ndarray
    phase: np.ndarray
    previous_action: np.ndarray
    observation: np.ndarray
    action: np.ndarray
    target: np.ndarray


class ControlLoop:
    """Holds phase and previous action of N robots; `decide` is one control step."""

    def __init__(self, policy: Policy, contract: PolicyContract, num_envs: int) -> None:
        self.policy, self.contract, robot = policy, contract, contract.robot
        self.default_pose, self.position_lower, self.position_upper = (
            torch.tensor(np.asarray(values), dtype=torch.float32)
            for values in (robot.default_pose, robot.position_lower, robot.position_upper)
        )
        self.phase = torch.zeros(num_envs)
        self.previous_action = torch.zeros(num_envs, ACTION_SIZE)

    @torch.no_grad()
    def decide(self, state: np.ndarray, command: np.ndarray) -> ControlStep:
        c = self.contract
        state_t = torch.tensor(state, dtype=torch.float32)
        command_t = torch.tensor(command, dtype=torch.float32)
        moving = obs.is_moving(command_t, c.gait)
        phase = torch.where(moving, self.phase, torch.zeros_like(self.phase))
        observation = obs.build_observation(
            state_t, command_t, phase, self.previous_action, self.default_pose, c.gait
        )
        action = torch.as_tensor(self.policy(observation.numpy())).clamp(-1.0, 1.0)
        target = self.default_pose + c.action_scale * action
        target = torch.maximum(torch.minimum(target, self.position_upper), self.position_lower)
        arrays = (state_t, command_t, phase, self.previous_action, observation, action, target)
        self.previous_action = action
        self.phase = obs.advance_phase(phase, moving, c.gait, c.control_period)
        return ControlStep(*(x.numpy() for x in arrays))


@dataclass(frozen=True)
class SubstepRecord:
    """After one physics substep: time s, state [N, 37], sensors [N, 4, 10], command [N, 3], and the
    control step that led here."""

    time: float
    state: np.ndarray
    sensors: np.ndarray
    command: np.ndarray
    decided: ControlStep


def play(
    loop: ControlLoop,
    step: Step,
    state: np.ndarray,
    command_at: Callable[[float], np.ndarray],
    seconds: float,
    dt: float,
    delay: float = 0.0,
) -> Iterator[SubstepRecord]:
    """Yields every physics substep. `step` advances N robots by `dt` under a joint target; a new
    target acts `delay` seconds after it was decided; `command_at(time)` returns [N, 3]."""
    period = loop.contract.control_period
    substeps, delay_steps = round(period / dt), round(delay / dt)
    previous = np.broadcast_to(loop.default_pose.numpy(), (state.shape[0], ACTION_SIZE))
    for i in range(round(seconds / period)):
        command = command_at(i * period)
        decided = loop.decide(state, command)
        for k in range(substeps):
            state, sensors = step(state, previous if k < delay_steps else decided.target)
            yield SubstepRecord((i * substeps + k + 1) * dt, state, sensors, command, decided)
        previous = decided.target


def standing_state(robot: Robot, num_envs: int) -> np.ndarray:
    """Packed state [N, 37]: at rest in the default pose, feet touching the ground."""
    state = np.zeros((num_envs, 37), dtype=np.float32)
    state[:, 2], state[:, 6] = robot.stand_height, 1.0
    state[:, 13:25] = robot.default_pose
    return state
