"""Relay: joint commands pass through here on their way to a robot in lockstep.

In lockstep simulated time waits for the joint command of every control period, and for nothing
else: on a busy computer it would run seconds ahead of the operator, whose velocity commands would
then be stale. With the relay in between, time waits for the operator too.
"""

from __future__ import annotations

from collections.abc import Callable

from rclpy.node import Node
from rclpy.qos import QoSProfile, ReliabilityPolicy
from series_elastic_actuator_msgs.msg import SeActuatorCommands

_COMMAND_QOS = QoSProfile(depth=1, reliability=ReliabilityPolicy.RELIABLE)


class Relay:
    """Passes the bytes of every message from one topic to another, after calling `before`."""

    def __init__(self, node: Node, source: str, target: str, before: Callable[[], None]) -> None:
        self._before = before
        self._publisher = node.create_publisher(SeActuatorCommands, target, _COMMAND_QOS)
        node.create_subscription(SeActuatorCommands, source, self._pass_on, _COMMAND_QOS, raw=True)

    def _pass_on(self, message: bytes) -> None:
        self._before()
        self._publisher.publish(message)
