"""One moment of a run, read from the messages of the robot and of the controller. No rclpy."""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np
from anymal_msgs.msg import AnymalState, Contact
from footlight_msgs.msg import ControllerStatus
from series_elastic_actuator_msgs.msg import SeActuatorCommands

MOTION_STATES = {
    getattr(ControllerStatus, name): name
    for name in ("PASSIVE", "STAND_UP", "STAND", "WALK", "LIE_DOWN", "FAULT")
}
"""Name of each motion state, by its number in ControllerStatus."""


@dataclass(frozen=True)
class Foot:
    """A foot that the robot lists."""

    position: np.ndarray  # m, lowest point, odom axes [3]
    force: np.ndarray  # N, of the ground on the foot, odom axes [3]
    state: int  # Contact.STATE_...


@dataclass(frozen=True)
class Frame:
    """What is shown of one moment. Joint values are by joint name."""

    stamp: float  # s, of the robot's state
    position: np.ndarray  # m, of the base in odom [3]
    orientation: np.ndarray  # base -> odom, wxyz [4]
    velocity: np.ndarray  # measured: x, y m/s in the base frame, yaw rate rad/s [3]
    joint_position: dict[str, float]  # rad
    joint_torque: dict[str, float]  # N m
    feet: dict[str, Foot] = field(default_factory=dict)
    command: np.ndarray | None = None  # given to the policy, as `velocity`; None: no status yet
    joint_target: dict[str, float] = field(default_factory=dict)  # rad
    motion: str = ""  # name of the motion state; empty: no status yet
    reasons: tuple[str, ...] = ()
    detail: str = ""


def read_frame(
    state: AnymalState,
    status: ControllerStatus | None = None,
    commands: SeActuatorCommands | None = None,
) -> Frame:
    """The frame of a robot's state, with the newest of the controller's messages if there are
    any."""
    pose, twist = state.pose.pose, state.twist.twist
    q, names = pose.orientation, state.joints.name
    return Frame(
        stamp=state.header.stamp.sec + 1e-9 * state.header.stamp.nanosec,
        position=np.array((pose.position.x, pose.position.y, pose.position.z)),
        orientation=np.array((q.w, q.x, q.y, q.z)),
        velocity=np.array((twist.linear.x, twist.linear.y, twist.angular.z)),
        joint_position=dict(zip(names, state.joints.position, strict=False)),
        joint_torque=dict(zip(names, state.joints.effort, strict=False)),
        feet={contact.name: _read_foot(contact) for contact in state.contacts},
        command=None
        if status is None
        else np.array((status.command.x, status.command.y, status.command.z)),
        joint_target={}
        if commands is None
        else {drive.name: drive.position for drive in commands.commands},
        motion="" if status is None else MOTION_STATES.get(status.motion_state, "?"),
        reasons=() if status is None else tuple(status.reasons),
        detail="" if status is None else status.detail,
    )


def _read_foot(contact: Contact) -> Foot:
    place, force = contact.position, contact.wrench.force
    return Foot(
        np.array((place.x, place.y, place.z)),
        np.array((force.x, force.y, force.z)),
        contact.state,
    )
