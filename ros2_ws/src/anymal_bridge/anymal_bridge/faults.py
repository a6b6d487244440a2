"""Faults that the simulated robot can be given: of its links, its sensors, its health. No ROS."""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass

import numpy as np

from .joint_command import JointCommand
from .kinematics import rotation_matrix
from .robot_sample import (
    ANGULAR_VELOCITY,
    JOINT_POSITION,
    JOINT_VELOCITY,
    LINEAR_VELOCITY,
    ORIENTATION,
    RobotSample,
    RobotState,
)


@dataclass(frozen=True)
class Faults:
    """Which faults are on. The default is none."""

    command_delay: float = 0.0  # s, on top of the drives' own delay
    command_jitter: float = 0.0  # s, greatest further delay, uniform
    command_loss: float = 0.0  # share of command messages that are lost, 0..1
    command_reorder: float = 0.0  # share that arrive after their successor, 0..1
    command_duplicate: float = 0.0  # share that arrive once more after their successor, 0..1
    state_loss: float = 0.0  # share of state and readings messages that are lost, 0..1
    nan_joint: int | None = None  # index of a joint whose position and velocity read NaN
    stuck_joint: int | None = None  # index of a joint that reads as it did when the fault began
    quaternion_wxyz: bool = False  # orientation is sent in the order w, x, y, z
    twist_in_odom: bool = False  # velocities of the base are sent in odom axes
    stamp_offset: float = 0.0  # s, added to the robot's stamps: its clock jumps
    second_publisher: bool = False  # somebody else announces commands to the robot
    low_battery: bool = False  # the drives switch off; nothing says so
    robot_state: RobotState = RobotState.OK  # health that the robot reports


class CommandLink:
    """The way of a command to the drives: late, and in order unless a fault is on."""

    def __init__(self, drive_delay: float, seed: int) -> None:
        """``drive_delay`` [s] is the robot's own, without any fault."""
        self._drive_delay = drive_delay
        self._random = np.random.default_rng(seed)
        self._waiting: deque[tuple[int, JointCommand]] = deque()
        self._held: JointCommand | None = None  # arrives right after the next one

    def send(self, now_ns: int, command: JointCommand, faults: Faults) -> None:
        """The robot got a command at ``now_ns`` of its time."""
        if self._happens(faults.command_loss):
            return
        delay = self._drive_delay + faults.command_delay
        if faults.command_jitter > 0.0:
            delay += faults.command_jitter * self._random.random()
        due_ns = now_ns + round(delay * 1e9)
        if self._waiting:
            due_ns = max(due_ns, self._waiting[-1][0])  # jitter lets none overtake another
        overtaken, self._held = self._held, None
        if self._happens(faults.command_reorder):
            self._held = command
        else:
            self._waiting.append((due_ns, command))
            if self._happens(faults.command_duplicate):
                self._held = command
        if overtaken is not None:
            self._waiting.append((due_ns, overtaken))

    def receive(self, now_ns: int) -> JointCommand | None:
        """The last command to arrive until ``now_ns``, None when there is none."""
        command = None
        while self._waiting and self._waiting[0][0] <= now_ns:
            command = self._waiting.popleft()[1]
        return command

    def _happens(self, share: float) -> bool:
        return share > 0.0 and self._random.random() < share


class StateLink:
    """The way of a sample from the robot to its messages: some are lost."""

    def __init__(self, seed: int) -> None:
        self._random = np.random.default_rng(seed)

    def lost(self, faults: Faults) -> bool:
        """Whether this cycle's sample is lost."""
        return faults.state_loss > 0.0 and self._random.random() < faults.state_loss


class StuckJoint:
    """An encoder that goes on to tell what it told when the fault began: at rest, there."""

    def __init__(self) -> None:
        self._joint: int | None = None
        self._position = 0.0  # rad

    def hold(self, sample: RobotSample, faults: Faults) -> None:
        """Put the fault into ``sample``, in place; call with every sample."""
        joint = faults.stuck_joint
        if joint != self._joint:
            self._joint = joint
            self._position = 0.0 if joint is None else sample.state[JOINT_POSITION][joint]
        if joint is not None:
            sample.state[JOINT_POSITION][joint] = self._position
            sample.state[JOINT_VELOCITY][joint] = 0.0


def corrupt(sample: RobotSample, faults: Faults) -> None:
    """Put the sensor faults that need no memory into ``sample``, in place."""
    if faults.twist_in_odom:
        turn = rotation_matrix(sample.state[ORIENTATION])  # base -> odom
        for velocity in (LINEAR_VELOCITY, ANGULAR_VELOCITY):
            sample.state[velocity] = turn @ sample.state[velocity]
    if faults.nan_joint is not None:
        sample.state[JOINT_POSITION][faults.nan_joint] = np.nan
        sample.state[JOINT_VELOCITY][faults.nan_joint] = np.nan
    if faults.quaternion_wxyz:
        sample.state[ORIENTATION] = np.roll(sample.state[ORIENTATION], 1)
    if faults.robot_state is not RobotState.OK:
        sample.robot_state = faults.robot_state
