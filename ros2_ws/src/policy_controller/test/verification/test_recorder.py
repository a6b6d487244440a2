"""The recorder with real messages over the real middleware."""

import os
import random

import numpy as np
import pytest

pytestmark = pytest.mark.ros

rclpy = pytest.importorskip("rclpy")
pytest.importorskip("footlight_msgs.msg", reason="message packages are not built")

from anymal_msgs.msg import AnymalState, Contact  # noqa: E402
from domain_coordinator import domain_id  # noqa: E402
from footlight_msgs.msg import ControllerStatus  # noqa: E402
from geometry_msgs.msg import TransformStamped  # noqa: E402
from rclpy.qos import QoSProfile, ReliabilityPolicy  # noqa: E402
from series_elastic_actuator_msgs.msg import (  # noqa: E402
    SeActuatorCommand,
    SeActuatorCommands,
)

from policy_controller.verification.recorder import Recorder, Topics, ground_heights  # noqa: E402

JOINTS = tuple(f"{leg}_{j}" for leg in ("LF", "RF", "LH", "RH") for j in ("HAA", "HFE", "KFE"))
FEET = ("LF_FOOT", "RF_FOOT", "LH_FOOT", "RH_FOOT")
STAMP = (1_700_000_000, 123_456_789)


@pytest.fixture
def nodes(monkeypatch):
    """A publishing node and a recording node in a domain of their own."""
    with domain_id(lambda: random.randint(1, 100)) as domain:
        monkeypatch.setitem(os.environ, "ROS_AUTOMATIC_DISCOVERY_RANGE", "LOCALHOST")
        context = rclpy.Context()
        rclpy.init(context=context, domain_id=int(domain))
        made = [rclpy.create_node(name, context=context) for name in ("source", "recorder")]
        yield made
        for node in made:
            node.destroy_node()
        rclpy.shutdown(context=context)


def state_message(order, foot_order) -> AnymalState:
    """Joint j has position j, speed 10 + j, torque 20 + j; foot f is at (f, 0.1 f, 0.01 f)."""
    message = AnymalState()
    message.header.stamp.sec, message.header.stamp.nanosec = STAMP
    message.pose.pose.position.x, message.pose.pose.position.z = 1.5, 0.55
    message.pose.pose.orientation.x, message.pose.pose.orientation.w = 0.6, 0.8
    message.twist.twist.linear.y, message.twist.twist.angular.z = -0.25, 0.75
    message.joints.name = [JOINTS[j] for j in order]
    message.joints.position = [float(j) for j in order]
    message.joints.velocity = [10.0 + j for j in order]
    message.joints.effort = [20.0 + j for j in order]
    for f in foot_order:
        contact = Contact(name=FEET[f], state=Contact.STATE_CLOSED if f else Contact.STATE_OPEN)
        contact.position.x, contact.position.y, contact.position.z = f * 1.0, f * 0.1, f * 0.01
        contact.wrench.force.z = 100.0 * f
        message.contacts.append(contact)
    return message


def test_messages_are_recorded_and_put_in_order_by_name(nodes):
    source, sink = nodes
    recorder = Recorder(sink, Topics())
    best_effort = QoSProfile(depth=5, reliability=ReliabilityPolicy.BEST_EFFORT)
    states = source.create_publisher(AnymalState, Topics.state, best_effort)
    commands = source.create_publisher(SeActuatorCommands, Topics.joint_commands, 1)
    statuses = source.create_publisher(ControllerStatus, f"{Topics.controller}/status", 10)

    backwards = list(reversed(range(12)))
    command = SeActuatorCommands()
    for j in backwards:
        one = SeActuatorCommand(
            name=JOINTS[j], position=float(j), pid_gains_p=85.0, pid_gains_d=0.5
        )
        one.header.stamp.sec, one.header.stamp.nanosec = STAMP
        command.commands.append(one)
    status = ControllerStatus(motion_state=ControllerStatus.WALK, reasons=["TILT"], bundle="ab")
    status.command.x, status.period, status.ticks = 0.5, 0.02, 7

    def received() -> bool:
        recorder.poll()
        return None not in (recorder.stamp, recorder.status) and bool(recorder._commands)

    clock, give_up = source.get_clock(), 20.0
    start = clock.now()
    while not received():
        assert (clock.now() - start).nanoseconds * 1e-9 < give_up, "messages did not arrive"
        states.publish(state_message(backwards, (2, 0, 3, 1)))
        commands.publish(command)
        statuses.publish(status)

    recording = recorder.decode(JOINTS, FEET, 0.02, (), lambda share: None)
    state, stamp = recording.state, STAMP[0] * 10**9 + STAMP[1]
    assert recorder.stamp == stamp and state.stamp[0] == stamp
    assert abs(state.sent[0] - start.nanoseconds) < give_up * 1e9
    np.testing.assert_array_equal(state.joint_position[0], np.arange(12.0))
    np.testing.assert_array_equal(state.joint_velocity[0], 10.0 + np.arange(12.0))
    np.testing.assert_array_equal(state.joint_torque[0], 20.0 + np.arange(12.0))
    np.testing.assert_array_equal(state.foot_contact[0], [False, True, True, True])
    np.testing.assert_allclose(state.foot_position[0, :, 1], [0.0, 0.1, 0.2, 0.3])
    np.testing.assert_allclose(state.foot_force[0, :, 2], [0.0, 100.0, 200.0, 300.0])
    np.testing.assert_allclose(state.base_orientation[0], [0.6, 0.0, 0.0, 0.8])
    assert (state.base_linear_velocity[0, 1], state.base_angular_velocity[0, 2]) == (-0.25, 0.75)
    np.testing.assert_array_equal(recording.command.position[0], np.arange(12.0))
    assert recording.command.stamp[0] == stamp
    assert recording.status.motion_state[0] == ControllerStatus.WALK
    assert recording.status.reasons[0] == ("TILT",) and recording.status.bundle == "ab"


def test_heights_of_the_ground_are_found_by_frame():
    message = AnymalState()
    assert ground_heights(message, ["ground", "ground/RF_FOOT"]) == [0.0, 0.0]
    for frame, height in (("ground/RF_FOOT", 0.02), ("ground", -0.01)):
        transform = TransformStamped(child_frame_id=frame)
        transform.transform.translation.z = height
        message.frame_transforms.append(transform)
    assert ground_heights(message, ["ground", "ground/RF_FOOT"]) == [-0.01, 0.02]


def test_message_without_a_joint_is_refused(nodes):
    source, sink = nodes
    recorder = Recorder(sink, Topics())
    best_effort = QoSProfile(depth=5, reliability=ReliabilityPolicy.BEST_EFFORT)
    states = source.create_publisher(AnymalState, Topics.state, best_effort)
    while recorder.stamp is None:
        states.publish(state_message(range(11), range(4)))
        recorder.poll()
    with pytest.raises(ValueError, match="state message lacks RH_KFE"):
        recorder.decode(JOINTS, FEET, 0.02, (), lambda share: None)
