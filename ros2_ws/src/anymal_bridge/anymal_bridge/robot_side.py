"""The simulated robot's way out on ROS 2; ``ros1.robot_side`` is that on ROS 1."""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol

from rclpy.node import Node

from .conversions import ReadingsWriter, StateWriter, read_commands
from .interface import COMMANDS, READINGS, STATE, advertise, listen
from .joint_command import CommandError, JointCommand
from .robot_file import RobotFile
from .robot_sample import RobotSample


class RobotSide(Protocol):
    """What the simulated robot needs of its side of the interface."""

    def publish(
        self, stamp_ns: int, sample: RobotSample, obeyed: JointCommand, friction: float
    ) -> None:
        """Send what belongs to one instant: the sample, and the command that the drives obey."""

    def publish_state_again(self) -> None:
        """Send the last state once more, because it seems to be lost."""

    def commanders(self) -> int:
        """Number of nodes that publish commands."""

    def problem(self) -> str:
        """What keeps the robot from being heard, for an operator; empty when nothing."""

    def close(self) -> None:
        """Nothing is sent or received after this returns."""


class Ros2RobotSide:
    """See ``RobotSide``; commands come in the executor's thread."""

    def __init__(
        self,
        node: Node,
        topic_names: dict[str, str],
        robot: RobotFile,
        unnamed_by_index: bool,
        receive: Callable[[JointCommand], None],
        refuse: Callable[[CommandError], None],
    ) -> None:
        """``topic_names``: by key of the interface table."""
        self._node, self._joint_names = node, robot.joint_names
        self._unnamed_by_index = unnamed_by_index
        self._receive, self._refuse = receive, refuse
        self._problem = ""
        self._state_writer = StateWriter(robot.joint_names, robot.foot_names)
        self._readings_writer = ReadingsWriter(robot.joint_names)
        self._states = advertise(node, STATE, topic_names[STATE.key])
        self._readings = advertise(node, READINGS, topic_names[READINGS.key])
        self._commands = listen(
            node, COMMANDS, topic_names[COMMANDS.key], self._on_commands, self._on_unconnected
        )

    def publish(
        self, stamp_ns: int, sample: RobotSample, obeyed: JointCommand, friction: float
    ) -> None:
        # The state goes last: when the controller answers it, everything of this instant is out.
        if self._readings.get_subscription_count():  # twelve nested messages cost more than a step
            self._readings.publish(self._readings_writer.write(stamp_ns, sample, obeyed))
        self._states.publish(self._state_writer.write(stamp_ns, sample, friction))

    def publish_state_again(self) -> None:
        self._states.publish(self._state_writer.message)

    def commanders(self) -> int:
        return self._node.count_publishers(self._commands.topic_name)

    def problem(self) -> str:
        return self._problem

    def close(self) -> None:
        pass  # the node's end is the end of its publishers

    def _on_commands(self, message) -> None:
        try:
            command = read_commands(message, self._joint_names, self._unnamed_by_index)
        except CommandError as error:
            self._refuse(error)
            return
        self._receive(command)

    def _on_unconnected(self, text: str) -> None:
        self._problem = text
        self._node.get_logger().error(text)
