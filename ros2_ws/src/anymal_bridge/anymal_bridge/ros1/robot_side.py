"""The simulated robot's way out as a robot that speaks ROS 1."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np

from ..joint_command import CommandError, JointCommand, Mode, Refusal
from ..robot_sample import JOINT_POSITION, JOINT_VELOCITY, RobotSample
from ..transport import RobotTopics
from .layout import NUM_JOINTS, Packet, Readings, State
from .layout import Command as CommandPacket
from .link import Ros1Link, SideOptions

NODE_NAME = "anymal_sim"


class Ros1RobotSide:
    """See ``robot_side.RobotSide``; a side process of the role ``robot`` speaks ROS 1."""

    def __init__(
        self,
        topics: RobotTopics,
        joint_names: Sequence[str],
        foot_names: Sequence[str],
        master_uri: str,
        camel_case: bool,
        receive: Callable[[JointCommand], None],
        refuse: Callable[[CommandError], None],
    ) -> None:
        """
        Raises:
            RuntimeError: there is no ROS 1 here.
        """
        self._receive, self._refuse = receive, refuse
        # Damping and silence matter in the other role; a robot damps by its own time-out.
        options = SideOptions(
            "robot", NODE_NAME, topics.state, topics.readings, topics.commands, joint_names,
            foot_names, master_uri, 0.0, 1.0, camel_case,
        )  # fmt: skip
        self._link = Ros1Link(options, self._on_packet)

    def publish(
        self, stamp_ns: int, sample: RobotSample, obeyed: JointCommand, friction: float
    ) -> None:
        """Send what belongs to one instant; arguments as those of the ROS 2 writers."""
        self._link.send(_readings(stamp_ns, sample, obeyed))
        values = np.concatenate(
            [
                sample.state,
                sample.joint_acceleration,
                sample.joint_torque,
                sample.foot_position.ravel(),
                sample.foot_force.ravel(),
            ]
        ).tolist()
        contacts = [int(contact) for contact in sample.foot_contact]
        self._link.send(State(stamp_ns, int(sample.robot_state), contacts, friction, values))

    def publish_state_again(self) -> None:
        raise AssertionError("only lockstep asks for this, and ROS 1 has none")

    def commanders(self) -> int:
        """Publishers of commands."""
        return self._link.health.drivers

    def problem(self) -> str:
        return self._link.health.problem

    def close(self) -> None:
        self._link.close()

    def _on_packet(self, packet: Packet) -> None:
        if not isinstance(packet, CommandPacket):
            return
        try:
            command = _command(packet)
        except CommandError as error:
            self._refuse(error)
            return
        self._receive(command)


def _command(packet: CommandPacket) -> JointCommand:
    if packet.mode not in {mode.value for mode in Mode}:
        allowed = ", ".join(f"{mode.value} ({mode.name})" for mode in Mode)
        raise CommandError(Refusal.MODE, f"mode {packet.mode} is not supported; allowed: {allowed}")
    values = np.array(packet.values).reshape(-1, NUM_JOINTS)
    if not np.isfinite(values).all():
        raise CommandError(Refusal.NOT_FINITE, "command holds NaN or infinity; wanted numbers")
    return JointCommand(packet.stamp_ns, Mode(packet.mode), *values)


def _readings(stamp_ns: int, sample: RobotSample, obeyed: JointCommand) -> Readings:
    zero = np.zeros(NUM_JOINTS)
    joint_position, joint_velocity = sample.state[JOINT_POSITION], sample.state[JOINT_VELOCITY]
    measured = np.stack(
        [
            zero, joint_position, joint_velocity, joint_position, joint_velocity,
            sample.joint_acceleration, sample.joint_torque,
        ],
        axis=1,
    )  # fmt: skip
    commanded = np.stack(
        [zero, obeyed.position, obeyed.velocity, obeyed.torque, obeyed.kp, zero, obeyed.kd], axis=1
    )
    return Readings(
        stamp_ns,
        obeyed.stamp_ns,
        int(obeyed.mode),
        [0] * NUM_JOINTS,
        np.concatenate([measured.ravel(), commanded.ravel()]).tolist(),
    )
