"""Packets between a ROS 2 process and its ROS 1 side process, one per datagram. Standard library.

Little endian, no padding, first byte the kind. Joints and feet have the order of the robot file, so
no packet carries a name. Units and frames are those of ``robot_sample`` and ``joint_command``.
"""

from __future__ import annotations

import struct
from collections.abc import Sequence
from typing import NamedTuple

NUM_JOINTS = 12
NUM_FEET = 4
STATE_VALUES = 37 + 2 * NUM_JOINTS + 2 * 3 * NUM_FEET
READING_VALUES = 7
COMMANDED_VALUES = 7
COMMAND_VALUES = 5
MAX_PACKET = 4096  # bytes


class LayoutError(ValueError):
    """Bytes that are no packet of this layout."""


class State(NamedTuple):
    """AnymalState as the bridge needs it."""

    STRUCT = struct.Struct(f"<Bqb{NUM_FEET}Bd{STATE_VALUES}d")
    KIND = 1

    stamp_ns: int
    robot_state: int
    foot_contacts: Sequence[int]  # [4]
    friction: float  # 1
    # state [37], joint acceleration and torque [12] each, foot position and force [4, 3] each
    values: Sequence[float]

    def pack(self) -> bytes:
        return self.STRUCT.pack(
            self.KIND, self.stamp_ns, self.robot_state, *self.foot_contacts, self.friction,
            *self.values,
        )  # fmt: skip

    @classmethod
    def read(cls, packet: bytes) -> State:
        _, stamp_ns, robot_state, *rest = cls.STRUCT.unpack(packet)
        friction, values = rest[NUM_FEET], rest[NUM_FEET + 1 :]
        return cls(stamp_ns, robot_state, rest[:NUM_FEET], friction, values)


class Readings(NamedTuple):
    """SeActuatorReadings without the IMUs of the drives."""

    STRUCT = struct.Struct(f"<Bqqh{NUM_JOINTS}I{NUM_JOINTS * (READING_VALUES + COMMANDED_VALUES)}d")
    KIND = 2

    stamp_ns: int
    commanded_stamp_ns: int
    mode: int  # of the command that the drives obey
    statuswords: Sequence[int]  # [12]
    # [12, 7]: current, gear position, gear velocity, joint position, velocity, acceleration, torque
    # [12, 7]: commanded current, position, velocity, torque, P, I, D
    values: Sequence[float]

    def pack(self) -> bytes:
        return self.STRUCT.pack(
            self.KIND, self.stamp_ns, self.commanded_stamp_ns, self.mode, *self.statuswords,
            *self.values,
        )  # fmt: skip

    @classmethod
    def read(cls, packet: bytes) -> Readings:
        _, stamp_ns, commanded_stamp_ns, mode, *rest = cls.STRUCT.unpack(packet)
        return cls(stamp_ns, commanded_stamp_ns, mode, rest[:NUM_JOINTS], rest[NUM_JOINTS:])


class Command(NamedTuple):
    """SeActuatorCommands: one mode, stamp and set of values for all joints; I and current are 0."""

    STRUCT = struct.Struct(f"<Bqh{NUM_JOINTS * COMMAND_VALUES}d")
    KIND = 3

    stamp_ns: int
    mode: int
    values: Sequence[float]  # [5, 12]: position, velocity, torque, P, D

    def pack(self) -> bytes:
        return self.STRUCT.pack(self.KIND, self.stamp_ns, self.mode, *self.values)

    @classmethod
    def read(cls, packet: bytes) -> Command:
        _, stamp_ns, mode, *values = cls.STRUCT.unpack(packet)
        return cls(stamp_ns, mode, values)


class Release(NamedTuple):
    """To the side process: no command follows, and none is to be made up."""

    STRUCT = struct.Struct("<B")
    KIND = 4

    def pack(self) -> bytes:
        return self.STRUCT.pack(self.KIND)

    @classmethod
    def read(cls, packet: bytes) -> Release:
        cls.STRUCT.unpack(packet)
        return cls()


class Health(NamedTuple):
    """From the side process, several times a second: what it knows of the ROS 1 graph."""

    STRUCT = struct.Struct("<BBH")
    KIND = 5

    has_master: bool
    drivers: int  # publishers of commands besides this one
    problem: str  # words for the operator, or empty

    def pack(self) -> bytes:
        text = self.problem.encode()[:1000]
        return self.STRUCT.pack(self.KIND, self.has_master, self.drivers) + text

    @classmethod
    def read(cls, packet: bytes) -> Health:
        _, has_master, drivers = cls.STRUCT.unpack_from(packet)
        text = packet[cls.STRUCT.size :].decode(errors="replace")
        return cls(bool(has_master), drivers, text)


Packet = State | Readings | Command | Release | Health
_KINDS = {kind.KIND: kind for kind in (State, Readings, Command, Release, Health)}


def read_packet(packet: bytes) -> Packet:
    """Bytes -> the packet they hold.

    Raises:
        LayoutError: the kind is unknown, or the length is not that of the kind.
    """
    kind = _KINDS.get(packet[0]) if packet else None
    if kind is None:
        raise LayoutError(f"packet of kind {packet[:1].hex() or 'none'}, allowed: {sorted(_KINDS)}")
    try:
        return kind.read(packet)
    except struct.error as error:
        raise LayoutError(
            f"{kind.__name__} packet of {len(packet)} bytes, wanted {kind.STRUCT.size}"
        ) from error
