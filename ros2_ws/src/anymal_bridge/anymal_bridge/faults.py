"""Faults that the simulated robot can be given: of its links, its sensors, its health. No ROS."""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass

import numpy as np

from .joint_command import JointCommand
from .robot_sample import JOINT_POSITION, JOINT_VELOCITY, ORIENTATION, RobotSample, RobotState


@dataclass(frozen=True)
class Faults:
    """Which faults are on. The default is none."""

    command_delay: float = 0.0  # s, on top of the drives' own delay
    command_jitter: float = 0.0  # s, greatest further delay, uniform
    command_loss: float = 0.0  # share of command messages that are lost, 0..1
    state_loss: float = 0.0  # share of state and readings messages that are lost, 0..1
    nan_joint: int | None = None  # index of a joint whose position and velocity read NaN
    quaternion_wxyz: bool = False  # orientation is sent in the order w, x, y, z
    robot_state: RobotState = RobotState.OK  # health that the robot reports


class CommandLink:
    """The way of a command to the drives: some are lost, the others come late and in order."""

    def __init__(self, drive_delay: float, seed: int) -> None:
        """``drive_delay`` [s] is the robot's own, without any fault."""
        self._drive_delay = drive_delay
        self._random = np.random.default_rng(seed)
        self._waiting: deque[tuple[int, JointCommand]] = deque()

    def send(self, now_ns: int, command: JointCommand, faults: Faults) -> None:
        """The robot got a command at ``now_ns`` of its time."""
        if faults.command_loss > 0.0 and self._random.random() < faults.command_loss:
            return
        delay = self._drive_delay + faults.command_delay
        if faults.command_jitter > 0.0:
            delay += faults.command_jitter * self._random.random()
        due_ns = now_ns + round(delay * 1e9)
        if self._waiting:
            due_ns = max(due_ns, self._waiting[-1][0])  # commands do not overtake each other
        self._waiting.append((due_ns, command))

    def receive(self, now_ns: int) -> JointCommand | None:
        """The newest command that is due at ``now_ns``, None when there is none."""
        command = None
        while self._waiting and self._waiting[0][0] <= now_ns:
            command = self._waiting.popleft()[1]
        return command


class StateLink:
    """The way of a sample from the robot to its messages: some are lost."""

    def __init__(self, seed: int) -> None:
        self._random = np.random.default_rng(seed)

    def lost(self, faults: Faults) -> bool:
        """Whether this cycle's sample is lost."""
        return faults.state_loss > 0.0 and self._random.random() < faults.state_loss


def corrupt(sample: RobotSample, faults: Faults) -> None:
    """Put the sensor faults into ``sample``, in place."""
    if faults.nan_joint is not None:
        sample.state[JOINT_POSITION][faults.nan_joint] = np.nan
        sample.state[JOINT_VELOCITY][faults.nan_joint] = np.nan
    if faults.quaternion_wxyz:
        sample.state[ORIENTATION] = np.roll(sample.state[ORIENTATION], 1)
    if faults.robot_state is not RobotState.OK:
        sample.robot_state = faults.robot_state
