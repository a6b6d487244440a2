"""Robot messages <-> plain arrays: joints by name, quaternions xyzw, twists in the base frame.

The writers run 400 times a second in the simulated robot, so each keeps one message and changes it
in place: arrays of the message are written through numpy views, and its headers share one stamp.
"""

from __future__ import annotations

import array
import math
from collections.abc import Sequence

import numpy as np
from anymal_msgs.msg import AnymalState, Contact
from builtin_interfaces.msg import Time
from geometry_msgs.msg import TransformStamped
from series_elastic_actuator_msgs.msg import (
    SeActuatorCommand,
    SeActuatorCommands,
    SeActuatorReading,
    SeActuatorReadings,
)
from std_msgs.msg import Header

from .interface import BASE_FRAME, ODOM_FRAME
from .joint_command import CommandError, JointCommand, Mode, Refusal
from .robot_sample import (
    ANGULAR_VELOCITY,
    JOINT_POSITION,
    JOINT_VELOCITY,
    LINEAR_VELOCITY,
    ORIENTATION,
    POSITION,
    FootContact,
    RobotSample,
    RobotState,
)

_NANOSECONDS = 1_000_000_000
_MODES = {mode.value for mode in Mode}
_ROBOT_STATES = {state.value for state in RobotState}
_FOOT_CONTACTS = {contact.value for contact in FootContact}


class StateError(ValueError):
    """A state message that cannot be mapped to the robot's joints; the message names the joints."""


def stamp_to_ns(stamp: Time) -> int:
    """Time message -> nanoseconds."""
    return stamp.sec * _NANOSECONDS + stamp.nanosec


def set_stamp(stamp: Time, ns: int) -> None:
    """Nanoseconds -> Time message, in place."""
    stamp.sec, stamp.nanosec = divmod(ns, _NANOSECONDS)


def _set_vector(message, values: np.ndarray) -> None:
    message.x, message.y, message.z = values.tolist()


def _view_of_array(message, field: str, size: int) -> np.ndarray:
    """Make a float64[] field ``size`` long and return the numpy view that writes it."""
    setattr(message, field, array.array("d", bytes(8 * size)))
    return np.frombuffer(getattr(message, field), dtype=np.float64)


class StateWriter:
    """Fills one ``AnymalState``, the same object at every ``write``."""

    def __init__(self, joint_names: Sequence[str], foot_names: Sequence[str]) -> None:
        self._stamp = Time()
        odom = Header(stamp=self._stamp, frame_id=ODOM_FRAME)
        base = Header(stamp=self._stamp, frame_id=BASE_FRAME)
        self.message = message = AnymalState()
        message.header = odom
        message.pose.header = odom
        message.twist.header = base
        message.joints.header = base
        message.joints.name = list(joint_names)
        self._position = _view_of_array(message.joints, "position", len(joint_names))
        self._velocity = _view_of_array(message.joints, "velocity", len(joint_names))
        self._acceleration = _view_of_array(message.joints, "acceleration", len(joint_names))
        self._effort = _view_of_array(message.joints, "effort", len(joint_names))
        self._contacts = [Contact(header=odom, name=name) for name in foot_names]
        message.contacts = self._contacts
        for contact in self._contacts:
            contact.normal.z = 1.0

    def write(self, stamp_ns: int, sample: RobotSample, friction: float) -> AnymalState:
        """Put one sample into the message; ``friction`` [1] is told with every contact.

        A foot whose position is NaN is not listed, as ``StateReader`` reads it.
        """
        set_stamp(self._stamp, stamp_ns)
        message, state = self.message, sample.state
        message.state = int(sample.robot_state)
        _set_vector(message.pose.pose.position, state[POSITION])
        orientation = message.pose.pose.orientation
        orientation.x, orientation.y, orientation.z, orientation.w = state[ORIENTATION].tolist()
        _set_vector(message.twist.twist.linear, state[LINEAR_VELOCITY])
        _set_vector(message.twist.twist.angular, state[ANGULAR_VELOCITY])
        self._position[:] = state[JOINT_POSITION]
        self._velocity[:] = state[JOINT_VELOCITY]
        self._acceleration[:] = sample.joint_acceleration
        self._effort[:] = sample.joint_torque
        positions, forces = sample.foot_position.tolist(), sample.foot_force.tolist()
        for contact, position, force, closed in zip(
            self._contacts, positions, forces, sample.foot_contact, strict=True
        ):
            contact.state = int(closed)
            contact.friction_coefficient = friction
            point, push = contact.position, contact.wrench.force
            point.x, point.y, point.z = position
            push.x, push.y, push.z = force
        known = [contact for contact in self._contacts if not math.isnan(contact.position.z)]
        if len(known) != len(message.contacts):
            message.contacts = known
        return message


class GroundWriter:
    """Tells the ground of a simulated robot in the ``frame_transforms`` of its true state: odom to
    ``ground`` and ``ground/<foot>``, the points of the ground below the base and each foot. Nothing
    for level ground."""

    def __init__(self, foot_names: Sequence[str]) -> None:
        frames = ("ground", *(f"ground/{foot}" for foot in foot_names))
        self._transforms = [TransformStamped(child_frame_id=frame) for frame in frames]

    def write(self, message: AnymalState, sample: RobotSample) -> None:
        """``message``: the true state that was just written."""
        if not sample.ground_height.any():
            message.frame_transforms = []
            return
        above = (sample.state[POSITION], *sample.foot_position)
        for transform, point, z in zip(
            self._transforms, above, sample.ground_height.tolist(), strict=True
        ):
            transform.header = message.header
            translation = transform.transform.translation
            translation.x, translation.y, translation.z = float(point[0]), float(point[1]), z
        message.frame_transforms = self._transforms


def make_readings(
    joint_names: Sequence[str], stamp: Time, command_stamp: Time
) -> SeActuatorReadings:
    """A message with one reading a joint; all share the two stamps."""
    header = Header(stamp=stamp, frame_id=BASE_FRAME)
    command_header = Header(stamp=command_stamp, frame_id=BASE_FRAME)
    message = SeActuatorReadings()
    for name in joint_names:
        reading = SeActuatorReading(header=header)
        reading.state.header, reading.state.name = header, name
        reading.commanded.header, reading.commanded.name = command_header, name
        message.readings.append(reading)
    return message


class ReadingsWriter:
    """Fills one ``SeActuatorReadings``, the same object at every ``write``.

    The simulation has no motor side, so gear and joint values are equal; current, statusword and
    the drives' IMUs are not simulated and stay 0.
    """

    def __init__(self, joint_names: Sequence[str]) -> None:
        self._stamp, self._command_stamp = Time(), Time()
        self.message = make_readings(joint_names, self._stamp, self._command_stamp)
        self._command: JointCommand | None = None

    def write(
        self, stamp_ns: int, sample: RobotSample, command: JointCommand
    ) -> SeActuatorReadings:
        """Put one sample, and the command that the drives obeyed, into the message."""
        set_stamp(self._stamp, stamp_ns)
        for reading, q, dq, ddq, torque in zip(
            self.message.readings,
            sample.state[JOINT_POSITION].tolist(),
            sample.state[JOINT_VELOCITY].tolist(),
            sample.joint_acceleration.tolist(),
            sample.joint_torque.tolist(),
            strict=True,
        ):
            state = reading.state
            state.gear_position = state.joint_position = q
            state.gear_velocity = state.joint_velocity = dq
            state.joint_acceleration = ddq
            state.joint_torque = torque
        if command is not self._command:
            set_stamp(self._command_stamp, command.stamp_ns)
            _fill_commands([reading.commanded for reading in self.message.readings], command)
            self._command = command
        return self.message


class CommandsWriter:
    """Fills one ``SeActuatorCommands``, the same object at every ``write``."""

    def __init__(self, joint_names: Sequence[str]) -> None:
        self._stamp = Time()
        header = Header(stamp=self._stamp, frame_id=BASE_FRAME)
        self.message = SeActuatorCommands()
        self.message.commands = [
            SeActuatorCommand(header=header, name=name) for name in joint_names
        ]

    def write(self, command: JointCommand) -> SeActuatorCommands:
        """Put one command into the message; the stamp goes into all twelve headers."""
        set_stamp(self._stamp, command.stamp_ns)
        _fill_commands(self.message.commands, command)
        return self.message


def _fill_commands(messages: Sequence[SeActuatorCommand], command: JointCommand) -> None:
    for message, position, velocity, torque, kp, kd in zip(
        messages,
        command.position.tolist(),
        command.velocity.tolist(),
        command.torque.tolist(),
        command.kp.tolist(),
        command.kd.tolist(),
        strict=True,
    ):
        message.mode = int(command.mode)
        message.position, message.velocity, message.joint_torque = position, velocity, torque
        message.pid_gains_p, message.pid_gains_d = kp, kd


def read_commands(
    message: SeActuatorCommands, joint_names: Sequence[str], unnamed_by_index: bool = False
) -> JointCommand:
    """Command message, joints in any order -> ``JointCommand`` in the order of ``joint_names``.

    Args:
        unnamed_by_index: accept a message in which every name is empty and take its order as
            ``joint_names``.

    Raises:
        CommandError: a joint is unknown, missing, twice there or unnamed; a mode is not supported
            or not the same for all; a number is not finite; a gain is negative; the integral gain
            is not 0.
    """
    commands = message.commands
    order = _order_by_name([c.name for c in commands], joint_names, unnamed_by_index)
    modes = {c.mode for c in commands}
    if len(modes) > 1:
        raise CommandError(
            Refusal.MIXED_MODES,
            f"joints have different modes {sorted(modes)}; send one mode for all",
        )
    (mode,) = modes
    if mode not in _MODES:
        allowed = ", ".join(f"{m.value} ({m.name})" for m in Mode)
        raise CommandError(
            Refusal.MODE,
            f"mode {mode} is not supported; allowed: {allowed}. "
            "Other modes use gains that are stored in the drives",
        )
    values = np.array(
        [
            (c.position, c.velocity, c.joint_torque, c.pid_gains_p, c.pid_gains_d, c.pid_gains_i)
            for c in commands
        ]
    )[order].T
    if not np.isfinite(values).all():
        bad = sorted({joint_names[i] for i in np.flatnonzero(~np.isfinite(values).all(axis=0))})
        raise CommandError(
            Refusal.NOT_FINITE,
            f"command of {', '.join(bad)} holds NaN or infinity; wanted finite numbers",
        )
    position, velocity, torque, kp, kd, ki = values
    if (kp < 0.0).any() or (kd < 0.0).any() or (ki != 0.0).any():
        bad = [
            joint_names[i] for i in np.flatnonzero((kp < 0.0) | (kd < 0.0) | (ki != 0.0)).tolist()
        ]
        raise CommandError(
            Refusal.GAIN,
            f"gains of {', '.join(bad)} are not usable; wanted P >= 0, D >= 0 and I = 0",
        )
    return JointCommand(
        stamp_ns=stamp_to_ns(commands[0].header.stamp),
        mode=Mode(mode),
        position=position,
        velocity=velocity,
        torque=torque,
        kp=kp,
        kd=kd,
    )


def _order_by_name(
    names: Sequence[str], joint_names: Sequence[str], unnamed_by_index: bool
) -> list[int]:
    """For each of ``joint_names`` its index in ``names``."""
    if not any(names):
        if unnamed_by_index and len(names) == len(joint_names):
            return list(range(len(names)))
        raise CommandError(
            Refusal.UNNAMED_JOINT,
            f"message of {len(names)} commands has no joint names; name all {len(joint_names)}, "
            "or set parameter unnamed_commands_by_index and send all in the robot's order",
        )
    index = {name: i for i, name in enumerate(names)}
    if index.keys() == set(joint_names) and len(names) == len(joint_names):
        return [index[name] for name in joint_names]
    wanted = f"; wanted each of {', '.join(joint_names)} once"
    if unknown := [name for name in names if name not in joint_names]:
        raise CommandError(Refusal.UNKNOWN_JOINT, f"unknown joint {unknown[0]!r}{wanted}")
    if missing := [name for name in joint_names if name not in index]:
        raise CommandError(Refusal.MISSING_JOINT, f"no command for {', '.join(missing)}{wanted}")
    twice = sorted({name for name in names if names.count(name) > 1})
    raise CommandError(Refusal.DUPLICATE_JOINT, f"several commands for {', '.join(twice)}{wanted}")


class StateReader:
    """Reads ``AnymalState`` into one ``RobotSample``, joints and feet by name, others ignored."""

    def __init__(self, joint_names: Sequence[str], foot_names: Sequence[str]) -> None:
        self._joint_names, self._foot_names = tuple(joint_names), tuple(foot_names)
        self._seen_names: list[str] = []
        self._order: list[int] = []
        self.sample = RobotSample()

    def read(self, message: AnymalState) -> RobotSample:
        """Message -> sample (the same object every time).

        A foot that the message does not list has no contact: force 0, position NaN, state OPEN.

        Raises:
            StateError: a joint is missing or there twice, or a joint array is shorter than the
                names.
        """
        joints, sample = message.joints, self.sample
        if joints.name != self._seen_names:
            missing = [name for name in self._joint_names if name not in joints.name]
            if missing:
                raise StateError(
                    f"state lacks joint {', '.join(missing)}; "
                    f"it names {', '.join(joints.name) or 'none'}"
                )
            twice = [name for name in self._joint_names if joints.name.count(name) > 1]
            if twice:
                raise StateError(
                    f"state names {', '.join(twice)} more than once; wanted each joint once"
                )
            self._seen_names = list(joints.name)
            self._order = [self._seen_names.index(name) for name in self._joint_names]
        for field in ("position", "velocity"):
            if len(getattr(joints, field)) != len(joints.name):
                raise StateError(
                    f"state has {len(getattr(joints, field))} values in joints.{field} "
                    f"for {len(joints.name)} names; wanted as many values as names"
                )
        state = sample.state
        pose, twist = message.pose.pose, message.twist.twist
        state[POSITION] = pose.position.x, pose.position.y, pose.position.z
        q = pose.orientation
        state[ORIENTATION] = q.x, q.y, q.z, q.w
        state[LINEAR_VELOCITY] = twist.linear.x, twist.linear.y, twist.linear.z
        state[ANGULAR_VELOCITY] = twist.angular.x, twist.angular.y, twist.angular.z
        state[JOINT_POSITION] = np.take(joints.position, self._order)
        state[JOINT_VELOCITY] = np.take(joints.velocity, self._order)
        sample.joint_acceleration[:] = self._optional(joints.acceleration)
        sample.joint_torque[:] = self._optional(joints.effort)
        sample.robot_state = _robot_state(message.state)
        contacts = {contact.name: contact for contact in message.contacts}
        for i, name in enumerate(self._foot_names):
            contact = contacts.get(name)
            if contact is None:
                sample.foot_position[i] = math.nan
                sample.foot_force[i] = 0.0
                sample.foot_contact[i] = FootContact.OPEN
                continue
            point, force = contact.position, contact.wrench.force
            sample.foot_position[i] = point.x, point.y, point.z
            sample.foot_force[i] = force.x, force.y, force.z
            known = contact.state in _FOOT_CONTACTS
            sample.foot_contact[i] = FootContact(contact.state) if known else FootContact.OPEN
        return sample

    def _optional(self, values: Sequence[float]) -> np.ndarray | float:
        """Values of a joint array that a robot may leave empty, in our order; NaN if it has."""
        if len(values) != len(self._seen_names):
            return math.nan
        return np.take(values, self._order)


def _robot_state(value: int) -> RobotState:
    """Health from its number; of a number this project does not know, only the sign is certain."""
    if value in _ROBOT_STATES:
        return RobotState(value)
    return RobotState.ERROR_UNKNOWN if value < 0 else RobotState.UNINITIALIZED
