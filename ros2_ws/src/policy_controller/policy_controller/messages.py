"""ROS messages to and from the controller's types. Pure functions; message types, but no rclpy."""

from __future__ import annotations

import math

import numpy as np
from anymal_msgs.msg import Contact
from builtin_interfaces.msg import Time
from footlight_msgs.msg import ControllerStatus
from geometry_msgs.msg import Twist, TwistStamped

from policy_controller.controller import TickResult
from policy_controller.state import (
    FOOT_NAMES,
    JOINT_NAMES,
    RobotState,
    VelocityCommand,
)
from policy_controller.state_wire import unpack_state

BASE_FRAMES = ("base", "base_link", "")
"""Frames in which velocities may be given; the empty one means the base."""


class MessageError(ValueError):
    """A message cannot be used; says what was found and what is allowed."""


def to_nanoseconds(stamp: Time) -> int:
    """A ROS time in ns."""
    return stamp.sec * 1_000_000_000 + stamp.nanosec


def to_time(nanoseconds: int) -> Time:
    """The inverse of to_nanoseconds."""
    seconds, rest = divmod(nanoseconds, 1_000_000_000)
    return Time(sec=seconds, nanosec=rest)


class StateReader:
    """AnymalState to RobotState; remembers where the joints were, since that hardly ever
    changes."""

    def __init__(self) -> None:
        self._names: list[str] = []
        self._order: list[int] = []

    def read(self, content: bytes, received_ns: int) -> RobotState:
        """The state in a serialised AnymalState, in the canonical joint order whatever its own.

        Joints are found by name and others are ignored. NaN is passed on: the safety filter names
        it.
        received_ns: time of reception in the control clock.
        Raises MessageError if a joint is missing or named twice, if an array has not the length of
        `name`, or if the twist is not in the base frame; WireError if it is no AnymalState.
        """
        fields = unpack_state(content)
        if fields.twist_frame not in BASE_FRAMES:
            raise MessageError(
                f"twist of AnymalState: found frame {fields.twist_frame!r}, allowed: "
                f"{BASE_FRAMES}; publish it in the base frame"
            )
        self._find_joints(fields.joint_names)
        contacts = fields.contacts
        return RobotState(
            stamp_ns=fields.stamp_ns,
            base_position=np.array(fields.position),
            base_orientation=np.array(fields.orientation),
            base_linear_velocity=np.array(fields.linear),
            base_angular_velocity=np.array(fields.angular),
            joint_position=self._reorder("position", fields.joint_position),
            joint_velocity=self._reorder("velocity", fields.joint_velocity),
            joint_torque=self._reorder("effort", fields.joint_effort),
            robot_ok=fields.robot_state,
            foot_contact=np.array(
                [
                    contacts.get(foot, Contact.STATE_OPEN) != Contact.STATE_OPEN
                    for foot in FOOT_NAMES
                ]
            ),
            received_ns=received_ns,
        )

    def _find_joints(self, names: list[str]) -> None:
        if names == self._names:
            return
        for joint in JOINT_NAMES:
            count = names.count(joint)
            if count != 1:
                raise MessageError(
                    f"joints of AnymalState: found {joint} {count} times, allowed: once; "
                    "check the joint names of the publisher"
                )
        self._names, self._order = names, [names.index(joint) for joint in JOINT_NAMES]

    def _reorder(self, field: str, values: np.ndarray) -> np.ndarray:
        if len(values) != len(self._names):
            raise MessageError(
                f"joints.{field} of AnymalState: found {len(values)} values, allowed: "
                f"{len(self._names)}, one per name; the publisher must fill it"
            )
        return values[self._order].astype(np.float64)


def read_twist_stamped(message: TwistStamped, received_ns: int, ros_now_ns: int) -> VelocityCommand:
    """TwistStamped to VelocityCommand; the zero stamp means now.

    received_ns: time of reception in the control clock. ros_now_ns: the same moment in ROS time. A
    command that was under way for some time is as old as its stamp says, never younger.
    Raises MessageError if it is not in the base frame.
    """
    frame, stamp_ns = message.header.frame_id, to_nanoseconds(message.header.stamp)
    if frame not in BASE_FRAMES:
        raise MessageError(
            f"velocity command: found frame {frame!r}, allowed: {BASE_FRAMES}; "
            "send it in the base frame"
        )
    delay_ns = max(0, ros_now_ns - stamp_ns) if stamp_ns else 0
    return read_twist(message.twist, received_ns - delay_ns)


def read_twist(message: Twist, stamp_ns: int) -> VelocityCommand:
    """Twist to VelocityCommand. stamp_ns: control clock."""
    return VelocityCommand(message.linear.x, message.linear.y, message.angular.z, stamp_ns)


def write_status(message: ControllerStatus, result: TickResult) -> None:
    """Fill in what the control step knows; the caller adds the loop's numbers."""
    message.motion_state = int(result.motion)
    message.reasons = list(result.reasons)
    message.detail = result.detail
    message.command.x, message.command.y, message.command.z = result.velocity_command.tolist()
    message.action = result.action.astype(np.float32)
    message.state_age = result.state_age if math.isfinite(result.state_age) else -1.0
    message.command_age = result.command_age if math.isfinite(result.command_age) else -1.0
