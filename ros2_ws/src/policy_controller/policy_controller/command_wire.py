"""Joint commands as serialised SeActuatorCommands: a template whose numbers are written in place.

To let rclpy convert and serialise twelve objects was a sixth of a tick. Where the numbers stand is
found by serialising a message of numbers that occur once, so another definition of the message is
either followed or noticed.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from series_elastic_actuator_msgs.msg import SeActuatorCommand, SeActuatorCommands

from policy_controller.state import JOINT_NAMES, NUM_JOINTS, JointCommand

_ENCAPSULATION = 4  # bytes before the first that alignment is counted from
_FLOATS = ("position", "velocity", "joint_torque")
_GAINS = ("pid_gains_p", "pid_gains_d")


class CommandWriter:
    """JointCommand to the bytes of one SeActuatorCommands: twelve drives in canonical order."""

    def __init__(self, serialize: Callable[[SeActuatorCommands], bytes]):
        """serialize: of the middleware, rclpy.serialization.serialize_message.

        Raises ValueError if the installed message has no place of its own for each number.
        """
        mode = SeActuatorCommand.MODE_JOINT_POSITION_VELOCITY_TORQUE_PID_GAINS
        message = SeActuatorCommands(
            commands=[SeActuatorCommand(name=name, mode=mode) for name in JOINT_NAMES]
        )
        marks = iter(range(1_000_001, 2_000_000))
        names = ("sec", "nanosec", *_FLOATS, *_GAINS)
        table = {name: [next(marks) for _ in range(NUM_JOINTS)] for name in names}
        for row, drive in enumerate(message.commands):
            drive.header.stamp.sec, drive.header.stamp.nanosec = (
                table["sec"][row],
                table["nanosec"][row],
            )
            for name in (*_FLOATS, *_GAINS):
                setattr(drive, name, float(table[name][row]))
        content = serialize(message)
        self._size = len(content)
        padded = content[_ENCAPSULATION:].ljust(-(-self._size // 8) * 8, b"\0")
        self._head, self._body = content[:_ENCAPSULATION], np.frombuffer(bytearray(padded), "u1")
        self._seconds, self._nanoseconds = self._body.view("i4"), self._body.view("u4")
        self._doubles, self._singles = self._body.view("f8"), self._body.view("f4")
        self._at_seconds = self._find(self._seconds, "sec", table)
        self._at_nanoseconds = self._find(self._nanoseconds, "nanosec", table)
        self._at_floats = np.stack([self._find(self._doubles, n, table) for n in _FLOATS])
        self._at_gains = np.stack([self._find(self._singles, n, table) for n in _GAINS])

    @staticmethod
    def _find(values: np.ndarray, name: str, table: dict[str, list[int]]) -> np.ndarray:
        """Place of the number of each drive, shape [12]."""
        rows = [np.flatnonzero(values == mark) for mark in table[name]]
        if any(len(row) != 1 for row in rows):
            raise ValueError(
                f"the installed SeActuatorCommands has no single place for {name} of each drive; "
                "allowed: the fields of docs/interfaces.md; install matching message packages"
            )
        return np.concatenate(rows)

    def write(self, command: JointCommand, state_stamp_ns: int) -> bytes:
        """The message for a command that answers the state of this stamp."""
        seconds, nanoseconds = divmod(state_stamp_ns, 1_000_000_000)
        self._seconds[self._at_seconds] = seconds
        self._nanoseconds[self._at_nanoseconds] = nanoseconds
        self._doubles[self._at_floats] = (command.position, command.velocity, command.torque)
        self._singles[self._at_gains] = (command.kp, command.kd)
        return (self._head + self._body.tobytes())[: self._size]
