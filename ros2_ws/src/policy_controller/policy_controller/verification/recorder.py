"""Recorder: keeps the bytes of messages while the robot moves and reads them after the run.

Reading 400 states a second in Python, or only being called back for each, costs a fifth of a core;
on a small computer that is time the control loop needs. So messages are taken from the middleware
in batches, states and commands stay serialised, and only the controller status (50 a second), and
now and then a state, are read at once for the operator.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

import numpy as np
from anymal_msgs.msg import AnymalState, Contact
from builtin_interfaces.msg import Time
from footlight_msgs.msg import ControllerStatus
from rclpy.node import Node
from rclpy.qos import QoSProfile, ReliabilityPolicy
from rclpy.serialization import deserialize_message
from rclpy.subscription import Subscription
from series_elastic_actuator_msgs.msg import SeActuatorCommands

from policy_controller.verification.recording import (
    JointCommandTrack,
    Mark,
    Recording,
    StateTrack,
    StatusTrack,
)

QUEUE = 400  # messages, a second of states: a late recorder must not lose any
_NANO = 1_000_000_000


@dataclass(frozen=True)
class Topics:
    """Names of what is recorded and commanded."""

    state: str = "/state_estimator/anymal_state"
    robot_commands: str = "/motion_control_manager/actuator_commands"  # what the robot obeys
    joint_commands: str = robot_commands  # what the controller sends; passed on if it differs
    controller: str = "/policy_controller"  # the node, above its own topics and services
    robot: str = "/anymal_sim"  # the node of a simulated robot, above its own services
    bridge: str = "/anymal_bridge"  # the node, where there is one


class Recorder:
    """Keeps all states, joint commands and controller statuses that `poll` finds.

    `node` must not be in an executor: its messages would be taken there.
    """

    def __init__(self, node: Node, topics: Topics) -> None:
        self.status: ControllerStatus | None = None  # newest
        self._states: list[tuple[bytes, int]] = []  # message, system time of sending [ns]
        self._commands: list[tuple[bytes, int]] = []
        self._statuses: list[ControllerStatus] = []
        sensor = QoSProfile(depth=QUEUE, reliability=ReliabilityPolicy.BEST_EFFORT)
        reliable = QoSProfile(depth=QUEUE, reliability=ReliabilityPolicy.RELIABLE)
        self._subscriptions = [
            node.create_subscription(kind, name, lambda _: None, qos, raw=True)
            for kind, name, qos in (
                (AnymalState, topics.state, sensor),
                (SeActuatorCommands, topics.joint_commands, reliable),
                (ControllerStatus, f"{topics.controller}/status", reliable),
            )
        ]

    def clear(self) -> None:
        """Forget all but the newest state and status."""
        self._states, self._statuses = self._states[-1:], self._statuses[-1:]
        self._commands = []

    def poll(self) -> None:
        """Take what has arrived; call it at least every second, or messages are lost."""
        states, commands, statuses = self._subscriptions
        self._states += _take_all(states)
        self._commands += _take_all(commands)
        self._statuses += [deserialize_message(d, ControllerStatus) for d, _ in _take_all(statuses)]
        if self._statuses:
            self.status = self._statuses[-1]

    def count_publishers(self) -> dict[str, int]:
        """Publishers of each recorded topic that the graph shows now."""
        return {s.topic_name: s.get_publisher_count() for s in self._subscriptions}

    @property
    def stamp(self) -> int | None:
        """Stamp [ns] of the newest state, the clock of a run; None before the first."""
        return _stamp_of(self._states[-1][0]) if self._states else None

    @property
    def status_stamp(self) -> int | None:
        """Stamp [ns] of the newest status; None before the first."""
        return _to_ns(self.status.header.stamp) if self.status else None

    @property
    def state_count(self) -> int:
        return len(self._states)

    @property
    def status_count(self) -> int:
        return len(self._statuses)

    def latest_state(self) -> AnymalState:
        """The newest state, read now."""
        return deserialize_message(self._states[-1][0], AnymalState)

    def decode(
        self,
        joint_names: Sequence[str],
        foot_names: Sequence[str],
        control_period: float,
        marks: Sequence[Mark],
        progress: Callable[[float], None],
    ) -> Recording:
        """All that was recorded, joints and feet put in the given order by their names.

        `progress` is called with the share done. Raises ValueError if a message lacks a joint.
        """
        return decode_messages(
            self._states,
            self._commands,
            self._statuses,
            joint_names,
            foot_names,
            control_period,
            marks,
            progress,
        )


def decode_messages(
    states: Sequence[tuple[bytes, int]],
    commands: Sequence[tuple[bytes, int]],
    statuses: Sequence[ControllerStatus],
    joint_names: Sequence[str],
    foot_names: Sequence[str],
    control_period: float,
    marks: Sequence[Mark],
    progress: Callable[[float], None],
) -> Recording:
    """A Recording of serialised states and commands, each with its time of sending [ns], and of
    statuses; as `Recorder.decode`."""
    total = max(1, len(states) + len(commands))

    def counted(
        messages: Sequence[tuple[bytes, int]], kind: type, done: int
    ) -> Iterator[tuple[object, int]]:
        for index, (data, sent) in enumerate(messages):
            if index % 500 == 0:
                progress((done + index) / total)
            yield deserialize_message(data, kind), sent

    state = _read_states(counted(states, AnymalState, 0), joint_names, foot_names)
    command = _read_commands(counted(commands, SeActuatorCommands, len(states)), joint_names)
    progress(1.0)
    return Recording(
        joint_names=tuple(joint_names),
        foot_names=tuple(foot_names),
        control_period=control_period,
        state=state,
        command=command,
        status=_read_statuses(statuses),
        marks=tuple(marks),
    )


def _take_all(subscription: Subscription) -> list[tuple[bytes, int]]:
    taken = []
    with subscription.handle:
        while (found := subscription.handle.take_message(subscription.msg_type, True)) is not None:
            data, info = found
            taken.append((data, info["source_timestamp"]))
    return taken


def _stamp_of(data: bytes) -> int:
    """Stamp [ns] of a serialised message that starts with a header: after 4 bytes of encapsulation,
    int32 s and uint32 ns."""
    little_endian = data[1] & 1
    seconds, nanoseconds = struct.unpack_from("<iI" if little_endian else ">iI", data, 4)
    return seconds * _NANO + nanoseconds


def _to_ns(stamp: Time) -> int:
    return stamp.sec * _NANO + stamp.nanosec


class _Order:
    """Index of wanted names in the names of a message, computed again only when those change."""

    def __init__(self, wanted: Sequence[str], what: str) -> None:
        self._wanted, self._what = tuple(wanted), what
        self._names: list[str] = []
        self._index: list[int] = []

    def of(self, names: list[str]) -> list[int]:
        if names != self._names:
            missing = [name for name in self._wanted if name not in names]
            if missing:
                raise ValueError(
                    f"a {self._what} message lacks {', '.join(missing)}; found {', '.join(names)}"
                )
            self._names, self._index = list(names), [names.index(name) for name in self._wanted]
        return self._index


def _read_states(
    messages: Iterator[tuple[AnymalState, int]],
    joint_names: Sequence[str],
    foot_names: Sequence[str],
) -> StateTrack:
    joints, feet = _Order(joint_names, "state"), _Order(foot_names, "state")
    stamps, sents, flags, contacts, rows, grounds = [], [], [], [], [], []
    frames = ["ground", *(f"ground/{foot}" for foot in foot_names)]
    for message, sent in messages:
        order = joints.of(message.joints.name)
        foot_order = feet.of([contact.name for contact in message.contacts])
        pose, twist = message.pose.pose, message.twist.twist
        p, o, v, w = pose.position, pose.orientation, twist.linear, twist.angular
        row = [p.x, p.y, p.z, o.x, o.y, o.z, o.w, v.x, v.y, v.z, w.x, w.y, w.z]
        for values in (message.joints.position, message.joints.velocity, message.joints.effort):
            row += [values[i] for i in order]
        foot_contacts = [message.contacts[i] for i in foot_order]
        for contact in foot_contacts:
            row += [contact.position.x, contact.position.y, contact.position.z]
        for contact in foot_contacts:
            row += [contact.wrench.force.x, contact.wrench.force.y, contact.wrench.force.z]
        stamps.append(_to_ns(message.header.stamp))
        sents.append(sent)
        flags.append(message.state)
        contacts.append([contact.state != Contact.STATE_OPEN for contact in foot_contacts])
        rows.append(row)
        grounds.append(ground_heights(message, frames))
    n, f = len(joint_names), len(foot_names)
    data = np.array(rows, dtype=np.float64).reshape(len(rows), 13 + 3 * n + 6 * f)
    position, orientation, linear, angular, q, qd, torque, foot, force = np.split(
        data, np.cumsum([3, 4, 3, 3, n, n, n, 3 * f]), axis=1
    )
    return StateTrack(
        stamp=np.array(stamps, dtype=np.int64),
        sent=np.array(sents, dtype=np.int64),
        robot_state=np.array(flags, dtype=np.int8),
        base_position=position,
        base_orientation=orientation,
        base_linear_velocity=linear,
        base_angular_velocity=angular,
        joint_position=q,
        joint_velocity=qd,
        joint_torque=torque,
        foot_contact=np.array(contacts, dtype=bool).reshape(len(rows), f),
        foot_position=foot.reshape(len(rows), f, 3),
        foot_force=force.reshape(len(rows), f, 3),
        ground_height=np.array(grounds, dtype=np.float64).reshape(len(rows), 1 + f),
    )


def ground_heights(message: AnymalState, frames: Sequence[str]) -> list[float]:
    """Height [m] of each of these frames of a simulated robot's true state; 0 for level ground,
    which has none."""
    if not message.frame_transforms:
        return [0.0] * len(frames)
    found = {t.child_frame_id: t.transform.translation.z for t in message.frame_transforms}
    return [found[frame] for frame in frames]


def _read_commands(
    messages: Iterator[tuple[SeActuatorCommands, int]], joint_names: Sequence[str]
) -> JointCommandTrack:
    joints = _Order(joint_names, "joint command")
    stamps, sents, rows = [], [], []
    for message, sent in messages:
        order = joints.of([command.name for command in message.commands])
        commands = [message.commands[i] for i in order]
        stamps.append(_to_ns(commands[0].header.stamp))
        sents.append(sent)
        rows.append([[c.position, c.pid_gains_p, c.pid_gains_d] for c in commands])
    data = np.array(rows, dtype=np.float64).reshape(len(rows), len(joint_names), 3)
    return JointCommandTrack(
        stamp=np.array(stamps, dtype=np.int64),
        sent=np.array(sents, dtype=np.int64),
        position=data[:, :, 0],
        kp=data[:, :, 1],
        kd=data[:, :, 2],
    )


def _read_statuses(messages: Sequence[ControllerStatus]) -> StatusTrack:
    def column(name: str, kind: type) -> np.ndarray:
        return np.array([getattr(message, name) for message in messages], dtype=kind)

    command = [[m.command.x, m.command.y, m.command.z] for m in messages]
    return StatusTrack(
        stamp=np.array([_to_ns(message.header.stamp) for message in messages], dtype=np.int64),
        motion_state=column("motion_state", np.uint8),
        velocity_command=np.array(command, dtype=np.float64).reshape(len(messages), 3),
        state_age=column("state_age", np.float64),
        command_age=column("command_age", np.float64),
        period=column("period", np.float64),
        tick_duration=column("tick_duration", np.float64),
        ticks=column("ticks", np.int64),
        overruns=column("overruns", np.int64),
        reasons=tuple(tuple(message.reasons) for message in messages),
        bundle=messages[-1].bundle if messages else "",
    )
