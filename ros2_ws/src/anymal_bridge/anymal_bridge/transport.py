"""The way to the robot, behind one small interface, and that over ROS 2; ``ros1`` has the other.

State and readings pass through as serialised messages, because the bridge sends nearly all of them
on as they are.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Protocol

import rclpy
from rclpy.context import Context
from rclpy.duration import Duration
from rclpy.node import Node
from rclpy.signals import SignalHandlerOptions

from .conversions import CommandsWriter
from .interface import COMMANDS, LATEST_SENSOR_QOS, READINGS, STATE
from .joint_command import JointCommand
from .process import SpinThread

LAST_COMMAND_TIMEOUT = Duration(seconds=0.5)  # for the robot to get the last command before the end
Receive = Callable[[bytes], None]  # a message in ROS 2 serialisation (CDR)


class Transport(Protocol):
    """What the bridge needs of the robot's side. Callbacks come in a thread of the transport."""

    def start(self, on_state: Receive, on_readings: Receive) -> None:
        """Connect; from now on every AnymalState and SeActuatorReadings is handed over."""

    def send(self, command: JointCommand) -> None:
        """Give one command to the robot. Must not block."""

    def release(self) -> None:
        """No command follows: from now on the robot is left to itself or to others."""

    def other_drivers(self) -> int:
        """How many others could be sending commands to the robot at this moment."""

    def problem(self) -> str:
        """What keeps the robot from being heard, in words for an operator; empty when nothing."""

    def close(self) -> None:
        """Disconnect; no callback runs after this returns."""


@dataclass(frozen=True)
class RobotTopics:
    """Topic names on the robot's side."""

    state: str
    readings: str
    commands: str


class Ros2Transport:
    """A robot that speaks ROS 2, in a context of its own, so that it may be on another domain."""

    def __init__(
        self, topics: RobotTopics, domain_id: int | None, joint_names: Sequence[str]
    ) -> None:
        """``domain_id``: ROS domain of the robot; None is the one of this process."""
        self._topics, self._domain_id = topics, domain_id
        self._writer = CommandsWriter(joint_names)

    def start(self, on_state: Receive, on_readings: Receive) -> None:
        self._context = Context()
        rclpy.init(
            context=self._context,
            domain_id=self._domain_id,
            signal_handler_options=SignalHandlerOptions.NO,
        )
        # Arguments of the command line (name, remaps) are meant for the bridge node alone.
        self._node = node = Node(
            "anymal_bridge_robot_side",
            context=self._context,
            use_global_arguments=False,
            start_parameter_services=False,
        )
        self._commands = node.create_publisher(COMMANDS.type, self._topics.commands, COMMANDS.qos)
        for topic, name, receive in (
            (STATE, self._topics.state, on_state),
            (READINGS, self._topics.readings, on_readings),
        ):
            node.create_subscription(topic.type, name, receive, LATEST_SENSOR_QOS, raw=True)
        self._spin = SpinThread(node, self._context)

    def send(self, command: JointCommand) -> None:
        self._commands.publish(self._writer.write(command))

    def release(self) -> None:
        pass  # nobody speaks in the bridge's place

    def problem(self) -> str:
        if self._node.count_publishers(self._topics.state):
            return ""
        return f"nobody publishes {self._topics.state}"

    def other_drivers(self) -> int:
        return max(self._node.count_publishers(self._topics.commands) - 1, 0)

    def close(self) -> None:
        self._spin.stop()
        self._commands.wait_for_all_acked(LAST_COMMAND_TIMEOUT)
        self._node.destroy_node()
        rclpy.shutdown(context=self._context)
