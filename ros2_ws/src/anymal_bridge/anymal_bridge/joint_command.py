"""The joint command as both nodes understand it: set points, gains and a mode for twelve joints.

The drive evaluates, in mode 13:  P (position - q) + D (velocity - dq/dt) + torque.
"""

from __future__ import annotations

import enum
from dataclasses import dataclass

import numpy as np

from .robot_file import NUM_JOINTS


class Mode(enum.IntEnum):
    """Drive modes that are accepted; the numbers are those of ``SeActuatorCommand``."""

    FREEZE = 1  # the drive brakes itself
    DISABLE = 2  # the drive gives no torque
    PID_GAINS = 13  # joint position, velocity, torque and gains, all from the command


class Refusal(enum.Enum):
    """Why a command message cannot be obeyed."""

    UNKNOWN_JOINT = "unknown_joint"
    MISSING_JOINT = "missing_joint"
    DUPLICATE_JOINT = "duplicate_joint"
    UNNAMED_JOINT = "unnamed_joint"
    MODE = "mode"
    MIXED_MODES = "mixed_modes"
    NOT_FINITE = "not_finite"
    GAIN = "gain"


class CommandError(ValueError):
    """A command that is refused as a whole: ``reason`` for programs, the text for people."""

    def __init__(self, reason: Refusal, text: str) -> None:
        super().__init__(text)
        self.reason = reason


@dataclass(frozen=True)
class JointCommand:
    """Command for twelve joints. Arrays are float64 [12] in the robot file's joint order."""

    stamp_ns: int  # ns, stamp of the robot state that this command answers
    mode: Mode
    position: np.ndarray  # rad
    velocity: np.ndarray  # rad/s
    torque: np.ndarray  # N m, feed-forward
    kp: np.ndarray  # N m/rad
    kd: np.ndarray  # N m s/rad


def damping_command(stamp_ns: int, kd: float) -> JointCommand:
    """Command that only brakes: P 0, target velocity 0, the same D [N m s/rad] on every joint.

    Its torque never adds energy, whatever the robot does, so it is what everything falls back to.
    """
    zero = np.zeros(NUM_JOINTS)
    return JointCommand(stamp_ns, Mode.PID_GAINS, zero, zero, zero, zero, np.full(NUM_JOINTS, kd))
