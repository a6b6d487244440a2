"""One instant of the robot as plain arrays: what messages are filled from."""

from __future__ import annotations

import enum
from dataclasses import dataclass, field

import numpy as np

from .robot_file import NUM_FEET, NUM_JOINTS

STATE_SIZE = 37
POSITION = slice(0, 3)  # m, base origin in odom
ORIENTATION = slice(3, 7)  # base -> odom, xyzw
LINEAR_VELOCITY = slice(7, 10)  # m/s, of the base origin, base frame
ANGULAR_VELOCITY = slice(10, 13)  # rad/s, base frame
JOINT_POSITION = slice(13, 25)  # rad
JOINT_VELOCITY = slice(25, 37)  # rad/s


class RobotState(enum.IntEnum):
    """Health of the robot; the numbers are those of ``AnymalState.state``. Only OK is good."""

    ERROR_SENSOR = -3
    ERROR_ESTIMATOR = -2
    ERROR_UNKNOWN = -1
    OK = 0
    UNINITIALIZED = 1


class FootContact(enum.IntEnum):
    """Contact of a foot; the numbers are those of ``Contact.state``."""

    OPEN = 0
    CLOSED = 1
    SLIPPING = 2


def _zeros(*shape: int):
    return field(default_factory=lambda: np.zeros(shape))


@dataclass
class RobotSample:
    """Preallocated, float64, written in place; joints and feet in the robot file's order."""

    state: np.ndarray = _zeros(STATE_SIZE)  # [37], packed as the slices above
    joint_acceleration: np.ndarray = _zeros(NUM_JOINTS)  # [12], rad/s^2
    joint_torque: np.ndarray = _zeros(NUM_JOINTS)  # [12], N m, applied by the drives
    foot_position: np.ndarray = _zeros(NUM_FEET, 3)  # [4, 3], m, lowest point of the foot in odom
    foot_force: np.ndarray = _zeros(NUM_FEET, 3)  # [4, 3], N, ground on foot, odom axes
    ground_height: np.ndarray = _zeros(1 + NUM_FEET)  # [5], m in odom, below the base and each foot
    foot_contact: list[FootContact] = field(default_factory=lambda: [FootContact.OPEN] * NUM_FEET)
    robot_state: RobotState = RobotState.OK

    def copy_from(self, other: RobotSample) -> None:
        """Take over every value of ``other`` without allocating arrays."""
        self.state[:] = other.state
        self.joint_acceleration[:] = other.joint_acceleration
        self.joint_torque[:] = other.joint_torque
        self.foot_position[:] = other.foot_position
        self.foot_force[:] = other.foot_force
        self.ground_height[:] = other.ground_height
        self.foot_contact[:] = other.foot_contact
        self.robot_state = other.robot_state
