"""What the controller needs of an AnymalState, read straight from its serialised bytes.

The message holds some sixty objects, and rclpy makes them all: that was the longest part of a tick.
The bytes are plain CDR (OMG DDS-XTypes 1.3, 7.4.1): every number is aligned to its size, counted
from the fifth byte; strings and sequences begin with their length. `check_layout` compares with
rclpy, so that another definition of the message is noticed before the controller is configured.
"""

from __future__ import annotations

import struct
from collections.abc import Callable
from dataclasses import astuple, dataclass

import numpy as np
from anymal_msgs.msg import AnymalState, Contact

_POINT = 3
_TWIST = 6
_CONTACT_NUMBERS = 6 + 3 + 3 + 2  # wrench, position, normal, friction and restitution coefficient


class WireError(ValueError):
    """The bytes are not an AnymalState as this module knows it."""


@dataclass(frozen=True)
class StateFields:
    """Fields of an AnymalState, in its units, frames and joint order.

    contacts: state of each contact by its name.
    """

    stamp_ns: int
    robot_state: int
    position: tuple[float, ...]  # 3
    orientation: tuple[float, ...]  # 4, xyzw
    twist_frame: str
    linear: tuple[float, ...]  # 3
    angular: tuple[float, ...]  # 3
    joint_names: list[str]
    joint_position: np.ndarray
    joint_velocity: np.ndarray
    joint_effort: np.ndarray
    contacts: dict[str, int]


class _Cursor:
    """Walks through CDR bytes."""

    def __init__(self, content: bytes):
        if len(content) < 4 or content[0] != 0 or content[1] > 1:
            raise WireError(
                f"found encapsulation {content[:2].hex()}, allowed: plain CDR, 00 or 01"
            )
        self._content = content
        self._order = "<" if content[1] else ">"
        self._at = 4

    def numbers(self, form: str, size: int) -> tuple:
        """Numbers of one struct form, each `size` bytes."""
        at = self._at + (4 - self._at) % size
        self._at = at + struct.calcsize(self._order + form)
        return struct.unpack_from(self._order + form, self._content, at)

    def length(self) -> int:
        return self.numbers("I", 4)[0]

    def string(self) -> str:
        size = self.length()
        start, self._at = self._at, self._at + size
        if size < 1 or self._at > len(self._content):
            raise WireError(
                f"found a string of {size} bytes with {len(self._content) - start} left"
            )
        return str(self._content[start : self._at - 1], "utf-8")

    def doubles(self) -> np.ndarray:
        """A sequence of float64."""
        count = self.length()
        if count == 0:
            return np.empty(0)
        start = self._at + (4 - self._at) % 8
        self._at = start + 8 * count
        if self._at > len(self._content):
            raise WireError(f"found {count} numbers with {len(self._content) - start} bytes left")
        return np.frombuffer(self._content, self._order + "f8", count, start)

    def stamp_ns(self) -> int:
        """Stamp of a header; its frame is left behind."""
        seconds, nanoseconds = self.numbers("iI", 4)
        return seconds * 1_000_000_000 + nanoseconds

    def header(self) -> tuple[int, str]:
        return self.stamp_ns(), self.string()


def unpack_state(content: bytes) -> StateFields:
    """Read the bytes of a serialised AnymalState; WireError if they end too early."""
    try:
        cursor = _Cursor(content)
        stamp_ns, _ = cursor.header()
        robot_state = cursor.numbers("b", 1)[0]
        cursor.header()
        pose = cursor.numbers("7d", 8)
        _, twist_frame = cursor.header()
        twist = cursor.numbers("6d", 8)
        cursor.header()
        names = [cursor.string() for _ in range(cursor.length())]
        joint_position, joint_velocity, _, joint_effort = (cursor.doubles() for _ in range(4))
        contacts = {}
        for _ in range(cursor.length()):
            cursor.header()
            name = cursor.string()
            contacts[name] = cursor.numbers("B", 1)[0]
            cursor.numbers(f"{_CONTACT_NUMBERS}d", 8)
    except (struct.error, UnicodeDecodeError) as error:
        raise WireError(f"found {len(content)} bytes that are no AnymalState: {error}") from error
    return StateFields(
        stamp_ns=stamp_ns,
        robot_state=robot_state,
        position=pose[:_POINT],
        orientation=pose[_POINT:],
        twist_frame=twist_frame,
        linear=twist[:_POINT],
        angular=twist[_POINT:_TWIST],
        joint_names=names,
        joint_position=joint_position,
        joint_velocity=joint_velocity,
        joint_effort=joint_effort,
        contacts=contacts,
    )


def fields_of(message: AnymalState) -> StateFields:
    """The same from a message object: what `unpack_state` must find in its bytes."""
    p, q = message.pose.pose.position, message.pose.pose.orientation
    v, w = message.twist.twist.linear, message.twist.twist.angular
    joints = message.joints
    return StateFields(
        stamp_ns=message.header.stamp.sec * 1_000_000_000 + message.header.stamp.nanosec,
        robot_state=message.state,
        position=(p.x, p.y, p.z),
        orientation=(q.x, q.y, q.z, q.w),
        twist_frame=message.twist.header.frame_id,
        linear=(v.x, v.y, v.z),
        angular=(w.x, w.y, w.z),
        joint_names=list(joints.name),
        joint_position=np.asarray(joints.position),
        joint_velocity=np.asarray(joints.velocity),
        joint_effort=np.asarray(joints.effort),
        contacts={contact.name: contact.state for contact in message.contacts},
    )


def check_layout(serialize: Callable[[AnymalState], bytes]) -> None:
    """Raise WireError if the installed AnymalState has other bytes than this module reads.

    serialize: of the middleware, rclpy.serialization.serialize_message.
    """
    numbers = iter(np.arange(1.0, 100.0))
    message = AnymalState(state=-2)
    message.header.stamp.sec, message.header.stamp.nanosec = 3, 4
    message.header.frame_id, message.twist.header.frame_id = "odom", "base"
    for part in (
        message.pose.pose.position,
        message.pose.pose.orientation,
        message.twist.twist.linear,
        message.twist.twist.angular,
    ):
        for name in part.get_fields_and_field_types():
            setattr(part, name, next(numbers))
    message.joints.name = ["a", "bcd"]
    for name in ("position", "velocity", "acceleration", "effort"):
        setattr(message.joints, name, [next(numbers), next(numbers)])
    message.contacts = [Contact(name="LF_FOOT", state=1), Contact(name="x", state=2)]
    message.contacts[0].header.frame_id = "odd"
    wanted = fields_of(message)
    try:
        found = unpack_state(serialize(message))
    except WireError as error:
        raise WireError(f"{_OTHER_LAYOUT} ({error})") from error
    if not all(np.array_equal(a, b) for a, b in zip(astuple(found), astuple(wanted), strict=True)):
        raise WireError(f"{_OTHER_LAYOUT} (found {found}, wanted {wanted})")


_OTHER_LAYOUT = (
    "the installed anymal_msgs/AnymalState is not the one this controller was written for; "
    "allowed: the fields of docs/interfaces.md; install matching message packages"
)
