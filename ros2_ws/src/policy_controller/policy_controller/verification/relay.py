"""Relay: joint commands pass through here on their way to a robot in lockstep.

In lockstep simulated time waits for the joint command of every control period, and for nothing
else. With the relay in between, time stands still for as long as the relay holds the command: what
the operator does meanwhile happens at the same instant in every run, however busy the computer is.
"""

from __future__ import annotations

import struct

from rclpy.node import Node
from rclpy.qos import QoSProfile, ReliabilityPolicy
from series_elastic_actuator_msgs.msg import SeActuatorCommands

_COMMAND_QOS = QoSProfile(depth=1, reliability=ReliabilityPolicy.RELIABLE)
_STAMP_OFFSET = 8  # bytes: encapsulation and number of commands; then the first command's stamp
_NANO = 1_000_000_000


class Relay:
    """Holds the newest message of one topic until it may go on to another.

    `stamp` [ns]: of the command that is held, which is the stamp of the state that it answers; None
    while there is none.
    """

    def __init__(self, node: Node, source: str, target: str) -> None:
        self.stamp: int | None = None
        self._message = b""
        self._publisher = node.create_publisher(SeActuatorCommands, target, _COMMAND_QOS)
        node.create_subscription(SeActuatorCommands, source, self._hold, _COMMAND_QOS, raw=True)

    def release(self) -> None:
        """Let the command that is held go on, if there is one."""
        if self.stamp is not None:
            self.stamp = None
            self._publisher.publish(self._message)

    def _hold(self, message: bytes) -> None:
        self._message = message
        order = "<" if message[1] & 1 else ">"
        seconds, nanoseconds = struct.unpack_from(order + "iI", message, _STAMP_OFFSET)
        self.stamp = seconds * _NANO + nanoseconds
