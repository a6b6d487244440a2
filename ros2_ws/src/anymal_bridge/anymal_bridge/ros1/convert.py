"""ROS 1 messages <-> packets. Runs in the ROS 1 process only; joints and feet go by name."""

from __future__ import annotations

import math
from collections.abc import Sequence

import layout

ODOM_FRAME = "odom"
BASE_FRAME = "base"
_NOWHERE = (math.nan, math.nan, math.nan)
_NO_FORCE = (0.0, 0.0, 0.0)


class MessageError(ValueError):
    """A message that does not fit the robot's joints; the text names them."""


def _nanoseconds(stamp) -> int:
    return stamp.secs * 1_000_000_000 + stamp.nsecs


def _set_header(header, stamp_ns: int, frame: str) -> None:
    header.stamp.secs, header.stamp.nsecs = divmod(stamp_ns, 1_000_000_000)
    header.frame_id = frame


def _xyz(vector) -> tuple[float, float, float]:
    return vector.x, vector.y, vector.z


def _set_xyz(vector, values: Sequence[float]) -> None:
    vector.x, vector.y, vector.z = values


class Order:
    """Index in a message of every joint of the robot; remembered while the names stay the same."""

    def __init__(self, joint_names: Sequence[str], what: str, unnamed_by_index: bool) -> None:
        """``unnamed_by_index``: a message without any name has the robot's order."""
        self._joint_names, self._what = list(joint_names), what
        self._unnamed_by_index = unnamed_by_index
        self._names: list[str] | None = None
        self._order: list[int] = []

    def find(self, names: list[str]) -> list[int]:
        """
        Raises:
            MessageError: a joint is missing or is there twice.
        """
        if names != self._names:
            self._order = self._find(names)
            self._names = list(names)
        return self._order

    def _find(self, names: list[str]) -> list[int]:
        wanted = self._joint_names
        if self._unnamed_by_index and not any(names) and len(names) == len(wanted):
            return list(range(len(wanted)))
        for problem, joints in (
            ("lacks", [name for name in wanted if name not in names]),
            ("has twice", [name for name in wanted if names.count(name) > 1]),
        ):
            if joints:
                raise MessageError(
                    f"{self._what} {problem} {', '.join(joints)}; it names "
                    f"{', '.join(names) or 'none'}, wanted each joint of the robot once"
                )
        return [names.index(name) for name in wanted]


class StateConverter:
    """AnymalState <-> ``layout.State``."""

    def __init__(self, joint_names: Sequence[str], foot_names: Sequence[str]) -> None:
        self._joint_names, self._foot_names = list(joint_names), list(foot_names)
        self._order = Order(joint_names, "the robot's state", unnamed_by_index=False)

    def read(self, message) -> layout.State:
        """A foot that is not listed has no contact: OPEN, force 0, position NaN.

        Raises:
            MessageError: a joint is missing or doubled, or an array is shorter than the names.
        """
        joints, pose, twist = message.joints, message.pose.pose, message.twist.twist
        order = self._order.find(joints.name)
        for field in ("position", "velocity"):
            if len(getattr(joints, field)) != len(joints.name):
                raise MessageError(
                    f"the robot's state has {len(getattr(joints, field))} values in joints.{field} "
                    f"for {len(joints.name)} names; wanted as many values as names"
                )

        def pick(values: Sequence[float]) -> list[float]:
            if len(values) != len(joints.name):
                return [math.nan] * len(order)  # acceleration and effort may be left empty
            return [values[i] for i in order]

        values = [*_xyz(pose.position), *_xyz(pose.orientation), pose.orientation.w]
        values += [*_xyz(twist.linear), *_xyz(twist.angular)]
        values += pick(joints.position) + pick(joints.velocity)
        values += pick(joints.acceleration) + pick(joints.effort)
        contacts = {contact.name: contact for contact in message.contacts}
        feet = [contacts.get(name) for name in self._foot_names]
        for foot in feet:
            values += _xyz(foot.position) if foot else _NOWHERE
        for foot in feet:
            values += _xyz(foot.wrench.force) if foot else _NO_FORCE
        known = [foot for foot in feet if foot]
        return layout.State(
            _nanoseconds(message.header.stamp),
            message.state,
            [foot.state if foot else 0 for foot in feet],
            _friction(known[0]) if known else math.nan,
            values,
        )

    def write(self, message, state: layout.State) -> None:
        """Fill an empty message in place."""
        stamp_ns, values = state.stamp_ns, list(state.values)

        def take(count: int) -> list[float]:
            taken = values[:count]
            del values[:count]
            return taken

        for header, frame in (
            (message.header, ODOM_FRAME),
            (message.pose.header, ODOM_FRAME),
            (message.twist.header, BASE_FRAME),
            (message.joints.header, BASE_FRAME),
        ):
            _set_header(header, stamp_ns, frame)
        message.state = state.robot_state
        pose, twist, joints = message.pose.pose, message.twist.twist, message.joints
        _set_xyz(pose.position, take(3))
        _set_xyz(pose.orientation, take(3))
        (pose.orientation.w,) = take(1)
        _set_xyz(twist.linear, take(3))
        _set_xyz(twist.angular, take(3))
        joints.name = self._joint_names
        joints.position, joints.velocity = take(12), take(12)
        joints.acceleration, joints.effort = take(12), take(12)
        positions, forces = take(12), take(12)
        for i, contact in enumerate(message.contacts):
            _set_header(contact.header, stamp_ns, ODOM_FRAME)
            contact.name, contact.state = self._foot_names[i], state.foot_contacts[i]
            _set_xyz(contact.position, positions[3 * i : 3 * i + 3])
            _set_xyz(contact.wrench.force, forces[3 * i : 3 * i + 3])
            contact.normal.z = 1.0
            _set_friction(contact, state.friction)


def _friction(contact) -> float:
    """Either spelling of the field."""
    if hasattr(contact, "friction_coefficient"):
        return contact.friction_coefficient
    return contact.frictionCoefficient


def _set_friction(contact, value: float) -> None:
    if hasattr(contact, "friction_coefficient"):
        contact.friction_coefficient = value
    else:
        contact.frictionCoefficient = value


class ReadingsConverter:
    """SeActuatorReadings <-> ``layout.Readings``; real robots leave the names empty."""

    def __init__(self, joint_names: Sequence[str]) -> None:
        self._joint_names = list(joint_names)
        self._order = Order(joint_names, "a set of readings", unnamed_by_index=True)

    def read(self, message) -> layout.Readings:
        """
        Raises:
            MessageError: a joint is missing or doubled.
        """
        order = self._order.find([reading.state.name for reading in message.readings])
        readings = [message.readings[i] for i in order]
        values: list[float] = []
        for s in (reading.state for reading in readings):
            values += (s.current, s.gear_position, s.gear_velocity, s.joint_position)
            values += (s.joint_velocity, s.joint_acceleration, s.joint_torque)
        for c in (reading.commanded for reading in readings):
            values += (c.current, c.position, c.velocity, c.joint_torque)
            values += (c.pid_gains_p, c.pid_gains_i, c.pid_gains_d)
        return layout.Readings(
            _nanoseconds(message.readings[0].header.stamp),  # that of the set, whatever the order
            _nanoseconds(readings[0].commanded.header.stamp),
            readings[0].commanded.mode,
            [reading.state.statusword for reading in readings],
            values,
        )

    def write(self, message, readings: layout.Readings) -> None:
        """Fill a message of twelve empty readings in place."""
        values = iter(readings.values)
        pairs = list(zip(message.readings, self._joint_names, strict=True))
        for i, (reading, name) in enumerate(pairs):
            state = reading.state
            _set_header(reading.header, readings.stamp_ns, BASE_FRAME)
            _set_header(state.header, readings.stamp_ns, BASE_FRAME)
            state.name, state.statusword = name, readings.statuswords[i]
            for field in (
                "current", "gear_position", "gear_velocity", "joint_position", "joint_velocity",
                "joint_acceleration", "joint_torque",
            ):  # fmt: skip
                setattr(state, field, next(values))
        for reading, name in pairs:
            command = reading.commanded
            _set_header(command.header, readings.commanded_stamp_ns, BASE_FRAME)
            command.name, command.mode = name, readings.mode
            for field in (
                "current", "position", "velocity", "joint_torque", "pid_gains_p", "pid_gains_i",
                "pid_gains_d",
            ):  # fmt: skip
                setattr(command, field, next(values))


class CommandsConverter:
    """SeActuatorCommands <-> ``layout.Command``."""

    def __init__(self, joint_names: Sequence[str]) -> None:
        self._joint_names = list(joint_names)
        self._order = Order(joint_names, "a command", unnamed_by_index=False)

    def read(self, message) -> layout.Command:
        """
        Raises:
            MessageError: a joint is missing or doubled, the modes differ, or I is not 0.
        """
        order = self._order.find([command.name for command in message.commands])
        commands = [message.commands[i] for i in order]
        modes = {command.mode for command in commands}
        if len(modes) != 1 or any(command.pid_gains_i for command in commands):
            raise MessageError(f"a command has modes {sorted(modes)}; wanted one mode, and I = 0")
        rows = [
            (c.position, c.velocity, c.joint_torque, c.pid_gains_p, c.pid_gains_d) for c in commands
        ]
        columns = [value for column in zip(*rows, strict=True) for value in column]
        return layout.Command(_nanoseconds(commands[0].header.stamp), modes.pop(), columns)

    def write(self, message, command: layout.Command) -> None:
        """Fill a message of twelve commands in place."""
        for i, (to, name) in enumerate(zip(message.commands, self._joint_names, strict=True)):
            _set_header(to.header, command.stamp_ns, BASE_FRAME)
            to.name, to.mode = name, command.mode
            to.position, to.velocity, to.joint_torque, to.pid_gains_p, to.pid_gains_d = (
                command.values[i::12]
            )
