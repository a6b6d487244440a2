"""The bridge's way to a robot that speaks ROS 1."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from builtin_interfaces.msg import Time
from rclpy.serialization import serialize_message
from series_elastic_actuator_msgs.msg import SeActuatorReadings

from ..conversions import StateWriter, make_readings, set_stamp
from ..joint_command import JointCommand
from ..robot_sample import STATE_SIZE, RobotSample
from ..transport import Receive, RobotTopics
from .layout import (
    COMMANDED_VALUES,
    NUM_FEET,
    NUM_JOINTS,
    READING_VALUES,
    Packet,
    Readings,
    Release,
    State,
)
from .layout import Command as CommandPacket
from .link import Ros1Link, SideOptions

NODE_NAME = "anymal_bridge"
STATE_FIELDS = (
    "current", "gear_position", "gear_velocity", "joint_position", "joint_velocity",
    "joint_acceleration", "joint_torque",
)  # fmt: skip
COMMANDED_FIELDS = (
    "current", "position", "velocity", "joint_torque", "pid_gains_p", "pid_gains_i", "pid_gains_d",
)  # fmt: skip


@dataclass(frozen=True)
class Ros1Settings:
    """What the ROS 1 side needs besides the topic names."""

    joint_names: Sequence[str]
    foot_names: Sequence[str]
    master_uri: str
    damping: float  # N m s/rad
    silence: float  # s from a command until the side process damps by itself


class Ros1Transport:
    """See ``transport.Transport``. Messages are made anew from the packets of the side process."""

    def __init__(self, topics: RobotTopics, settings: Ros1Settings) -> None:
        self._options = SideOptions(
            "bridge",
            NODE_NAME,
            topics.state,
            topics.readings,
            topics.commands,
            settings.joint_names,
            settings.foot_names,
            settings.master_uri,
            settings.damping,
            settings.silence,
        )
        self._state = StateMaker(settings.joint_names, settings.foot_names)
        self._readings = ReadingsMaker(settings.joint_names)

    def start(self, on_state: Receive, on_readings: Receive) -> None:
        """
        Raises:
            RuntimeError: there is no ROS 1 here.
        """
        self._on_state, self._on_readings = on_state, on_readings
        self._link = Ros1Link(self._options, self._on_packet)

    def send(self, command: JointCommand) -> None:
        rows = (command.position, command.velocity, command.torque, command.kp, command.kd)
        values = np.concatenate(rows).tolist()
        self._link.send(CommandPacket(command.stamp_ns, int(command.mode), values))

    def release(self) -> None:
        self._link.send(Release())

    def other_drivers(self) -> int:
        return self._link.health.drivers

    def problem(self) -> str:
        return self._link.health.problem

    def close(self) -> None:
        self._link.close()

    def _on_packet(self, packet: Packet) -> None:
        if isinstance(packet, State):
            self._on_state(serialize_message(self._state.make(packet)))
        elif isinstance(packet, Readings):
            self._on_readings(serialize_message(self._readings.make(packet)))


class StateMaker:
    """Packet -> ``AnymalState`` of ROS 2, the same object every time."""

    def __init__(self, joint_names: Sequence[str], foot_names: Sequence[str]) -> None:
        self._writer = StateWriter(joint_names, foot_names)
        self._sample = RobotSample()

    def make(self, packet: State):
        sample, values = self._sample, np.array(packet.values)
        state, acceleration, torque, foot_position, foot_force = np.split(
            values, STATE_SIZE + np.cumsum([0, NUM_JOINTS, NUM_JOINTS, 3 * NUM_FEET])
        )
        sample.state[:] = state
        sample.joint_acceleration[:] = acceleration
        sample.joint_torque[:] = torque
        sample.foot_position[:] = foot_position.reshape(NUM_FEET, 3)
        sample.foot_force[:] = foot_force.reshape(NUM_FEET, 3)
        sample.foot_contact[:] = packet.foot_contacts
        sample.robot_state = packet.robot_state
        return self._writer.write(packet.stamp_ns, sample, packet.friction)


class ReadingsMaker:
    """Packet -> ``SeActuatorReadings`` of ROS 2, the same object every time."""

    def __init__(self, joint_names: Sequence[str]) -> None:
        self._stamp, self._commanded_stamp = Time(), Time()
        self._message = make_readings(joint_names, self._stamp, self._commanded_stamp)

    def make(self, packet: Readings) -> SeActuatorReadings:
        set_stamp(self._stamp, packet.stamp_ns)
        set_stamp(self._commanded_stamp, packet.commanded_stamp_ns)
        measured, commanded = 0, NUM_JOINTS * READING_VALUES
        for reading, statusword in zip(self._message.readings, packet.statuswords, strict=True):
            reading.state.statusword = statusword
            reading.commanded.mode = packet.mode
            for field, value in zip(STATE_FIELDS, packet.values[measured:], strict=False):
                setattr(reading.state, field, value)
            for field, value in zip(COMMANDED_FIELDS, packet.values[commanded:], strict=False):
                setattr(reading.commanded, field, value)
            measured, commanded = measured + READING_VALUES, commanded + COMMANDED_VALUES
        return self._message
