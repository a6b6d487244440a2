"""What the guards look at and what can follow from it."""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import Enum, IntEnum

import numpy as np

from policy_controller.contract import JointLimits
from policy_controller.state import RobotState, VelocityCommand


class Outcome(IntEnum):
    """What follows from a tripped guard; the greatest of all tripped guards is applied."""

    NORMAL = 0
    LIMIT = 1
    """The value is cut to its limit and used."""
    ZERO_COMMAND = 2
    """The velocity command counts as zero; the robot slows down as for a stop."""
    DAMPING = 3
    """The drives are damped in the same tick, and FAULT is latched unless the robot was PASSIVE."""


class Stage(IntEnum):
    """When in a tick a guard is asked."""

    INPUT = 0
    COMMAND = 1
    OBSERVATION = 2
    ACTION = 3
    TARGET = 4


class Reason(str, Enum):
    """Reason codes, as they appear in the status, in diagnostics and in docs/safety.md."""

    STATE_STALE = "STATE_STALE"
    STATE_MALFORMED = "STATE_MALFORMED"
    STATE_NONFINITE = "STATE_NONFINITE"
    CLOCK_JUMP = "CLOCK_JUMP"
    OVERRUN = "OVERRUN"
    ROBOT_ERROR = "ROBOT_ERROR"
    SECOND_PUBLISHER = "SECOND_PUBLISHER"
    QUATERNION_NORM = "QUATERNION_NORM"
    ORIENTATION_JUMP = "ORIENTATION_JUMP"
    TILT = "TILT"
    BASE_VELOCITY = "BASE_VELOCITY"
    VELOCITY_SIGN = "VELOCITY_SIGN"
    JOINT_POSITION = "JOINT_POSITION"
    JOINT_VELOCITY = "JOINT_VELOCITY"
    JOINT_TORQUE = "JOINT_TORQUE"
    TORQUE_SATURATED = "TORQUE_SATURATED"
    JOINT_STUCK = "JOINT_STUCK"
    COMMAND_NONFINITE = "COMMAND_NONFINITE"
    COMMAND_STALE = "COMMAND_STALE"
    COMMAND_NOT_REARMED = "COMMAND_NOT_REARMED"
    COMMAND_RANGE = "COMMAND_RANGE"
    OBSERVATION_NONFINITE = "OBSERVATION_NONFINITE"
    ACTION_NONFINITE = "ACTION_NONFINITE"
    ACTION_CLIPPED = "ACTION_CLIPPED"
    ACTION_JUMP = "ACTION_JUMP"
    ACTION_OSCILLATION = "ACTION_OSCILLATION"
    TARGET_POSITION = "TARGET_POSITION"
    EMERGENCY_STOP = "EMERGENCY_STOP"
    INTERNAL_ERROR = "INTERNAL_ERROR"

    def __str__(self) -> str:
        return self.value


@dataclass(frozen=True)
class LoopHealth:
    """What the caller of the tick knows about its surroundings.

    consecutive_overruns: ticks in a row, up to the last one, that ended after their deadline.
    command_publishers: publishers on the topic of joint commands, this controller included.
    state_publishers: publishers on the topic of the robot's state.
    state_error: why the newest message of the robot's state cannot be used; empty if it can.
    """

    consecutive_overruns: int = 0
    command_publishers: int = 1
    state_publishers: int = 1
    state_error: str = ""


@dataclass
class Sample:
    """Everything the guards may look at in one tick; later stages fill in their part.

    command_range: least and greatest (vx, vy, yaw rate), shape [2, 3].
    action_clip: bound of the raw action. control_period: s.
    clock_step: s since the tick before; None at the first.
    state_age, command_age: s, infinite if there is none. previous: state of the tick before.
    gravity, previous_gravity: direction in the base frame, shape [3]. tilt: rad.
    command_moves: the command asks for more than standing.
    velocity_command: (vx, vy, yaw rate) that the policy is given; None unless walking, shape [3].
    action, previous_action: output of the policy, shape [12].
    target: joint position targets, rad, shape [12].
    """

    limits: JointLimits
    command_range: np.ndarray
    action_clip: float
    control_period: float
    clock_step: float | None = None
    state: RobotState | None = None
    state_age: float = np.inf
    previous: RobotState | None = None
    gravity: np.ndarray | None = None
    previous_gravity: np.ndarray | None = None
    tilt: float = np.nan
    health: LoopHealth = field(default_factory=LoopHealth)
    command: VelocityCommand | None = None
    command_age: float = np.inf
    command_moves: bool = False
    velocity_command: np.ndarray | None = None
    observation: np.ndarray | None = None
    action: np.ndarray | None = None
    previous_action: np.ndarray | None = None
    target: np.ndarray | None = None
