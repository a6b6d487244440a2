"""Conversions between ROS messages and the controller's types."""

from __future__ import annotations

import numpy as np
import pytest

pytest.importorskip("anymal_msgs")
pytest.importorskip("rclpy")

from anymal_msgs.msg import AnymalState, Contact  # noqa: E402
from footlight_msgs.msg import ControllerStatus  # noqa: E402
from geometry_msgs.msg import Twist, TwistStamped  # noqa: E402
from rclpy.serialization import deserialize_message, serialize_message  # noqa: E402
from series_elastic_actuator_msgs.msg import SeActuatorCommands  # noqa: E402

from policy_controller.command_wire import CommandWriter  # noqa: E402
from policy_controller.messages import (  # noqa: E402
    MessageError,
    StateReader,
    read_twist,
    read_twist_stamped,
    to_nanoseconds,
    to_time,
    write_status,
)
from policy_controller.motion import MotionState  # noqa: E402
from policy_controller.state import JOINT_NAMES, JointCommand  # noqa: E402

pytestmark = pytest.mark.ros


def make_state(order=range(12), extra=()):
    """Every number of the message is another one; joint k has position k, velocity 20 + k, ..."""
    message = AnymalState(state=0)
    message.header.stamp.sec, message.header.stamp.nanosec = 5, 7
    message.twist.header.frame_id = "base"
    p, q = message.pose.pose.position, message.pose.pose.orientation
    p.x, p.y, p.z, q.x, q.y, q.z, q.w = 61.0, 62.0, 63.0, 0.1, 0.2, 0.3, 0.9
    v, w = message.twist.twist.linear, message.twist.twist.angular
    v.x, v.y, v.z, w.x, w.y, w.z = 71.0, 72.0, 73.0, 81.0, 82.0, 83.0
    joints = message.joints
    joints.name = [JOINT_NAMES[k] for k in order] + list(extra)
    joints.position = [float(k) for k in order] + [99.0] * len(extra)
    joints.velocity = [20.0 + k for k in order] + [float("nan")] * len(extra)
    joints.effort = [40.0 + k for k in order] + [99.0] * len(extra)
    message.contacts = [
        Contact(name="RF_FOOT", state=Contact.STATE_CLOSED),
        Contact(name="LF_FOOT", state=Contact.STATE_OPEN),
        Contact(name="RH_FOOT", state=Contact.STATE_SLIPPING),
    ]
    return message


def read(message, reader=None):
    return (reader or StateReader()).read(serialize_message(message), received_ns=11)


@pytest.mark.parametrize("seed", range(3))
def test_joints_are_found_by_name(seed):
    order = np.random.default_rng(seed).permutation(12).tolist()
    state = read(make_state(order, extra=("arm_1", "arm_2")))
    np.testing.assert_array_equal(state.joint_position, np.arange(12.0))
    np.testing.assert_array_equal(state.joint_velocity, 20.0 + np.arange(12))
    np.testing.assert_array_equal(state.joint_torque, 40.0 + np.arange(12))


def test_order_may_change_between_two_messages():
    reader = StateReader()
    read(make_state(), reader)
    state = read(make_state(range(11, -1, -1)), reader)
    np.testing.assert_array_equal(state.joint_position, np.arange(12.0))


def test_every_other_field_has_its_place():
    state = read(make_state())
    assert (state.stamp_ns, state.received_ns, state.robot_ok) == (5_000_000_007, 11, 0)
    np.testing.assert_array_equal(state.base_position, (61, 62, 63))
    np.testing.assert_array_equal(state.base_orientation, (0.1, 0.2, 0.3, 0.9))
    np.testing.assert_array_equal(state.base_linear_velocity, (71, 72, 73))
    np.testing.assert_array_equal(state.base_angular_velocity, (81, 82, 83))
    # open, closed, not mentioned, slipping
    np.testing.assert_array_equal(state.foot_contact, (False, True, False, True))


def rename(message):
    message.joints.name[3] = "RF_HIP"


def duplicate(message):
    message.joints.name[3] = "LF_HAA"


@pytest.mark.parametrize(
    ("edit", "text"),
    [
        (rename, "found RF_HAA 0 times, allowed: once"),
        (duplicate, "found LF_HAA 2 times"),
        (lambda m: m.joints.effort.pop(), "joints.effort of AnymalState: found 11 values"),
        (
            lambda m: setattr(m.joints, "velocity", []),
            "joints.velocity .*found 0 values, allowed: 12",
        ),
        (lambda m: setattr(m.twist.header, "frame_id", "odom"), "found frame 'odom'"),
    ],
)
def test_message_that_cannot_be_used_is_named(edit, text):
    message = make_state()
    edit(message)
    with pytest.raises(MessageError, match=text):
        read(message)


def test_stamps():
    assert to_nanoseconds(to_time(1_796_031_110_446_000_001)) == 1_796_031_110_446_000_001


def make_twist(stamp_ns=0, frame="base"):
    message = TwistStamped()
    message.header.stamp, message.header.frame_id = to_time(stamp_ns), frame
    message.twist.linear.x, message.twist.linear.y = 0.1, 0.2
    message.twist.angular.z = 0.3
    return message


@pytest.mark.parametrize(
    ("stamp_ns", "ros_now_ns", "age_ns"),
    [
        (0, 10**18, 0),  # the zero stamp means now
        (10**18 - 250_000_000, 10**18, 250_000_000),  # was under way for 0.25 s
        (10**18 + 250_000_000, 10**18, 0),  # the sender's clock is ahead: not younger than now
    ],
)
def test_age_of_a_velocity_command(stamp_ns, ros_now_ns, age_ns):
    command = read_twist_stamped(make_twist(stamp_ns), 5_000_000_000, ros_now_ns)
    assert 5_000_000_000 - command.stamp_ns == age_ns
    assert (command.linear_x, command.linear_y, command.yaw_rate) == (0.1, 0.2, 0.3)


@pytest.mark.parametrize("frame", ["base", "base_link", ""])
def test_velocity_command_in_the_base_frame(frame):
    read_twist_stamped(make_twist(frame=frame), 0, 0)


def test_velocity_command_in_another_frame():
    with pytest.raises(MessageError, match="found frame 'odom', allowed"):
        read_twist_stamped(make_twist(frame="odom"), 0, 0)


def test_unstamped_twist():
    message = Twist()
    message.linear.x, message.linear.y, message.angular.z = 0.1, 0.2, 0.3
    command = read_twist(message, 7)
    assert (command.linear_x, command.linear_y, command.yaw_rate) == (0.1, 0.2, 0.3)
    assert command.stamp_ns == 7


def test_commands_in_serialised_form():
    writer = CommandWriter(serialize_message)
    for begin, stamp_ns in ((0.0, 3_000_000_004), (-1e3, 2**31 * 10**9 - 1)):
        rows = [begin + np.arange(12.0) / 8 + 100 * k for k in range(5)]
        content = writer.write(JointCommand(*rows), stamp_ns)
        message = deserialize_message(content, SeActuatorCommands)
        assert serialize_message(message) == content
        for k, drive in enumerate(message.commands):
            assert drive.name == JOINT_NAMES[k] and drive.mode == 13
            found = (drive.position, drive.velocity, drive.joint_torque)
            assert (*found, drive.pid_gains_p, drive.pid_gains_d) == tuple(r[k] for r in rows)
            assert drive.pid_gains_i == drive.current == 0.0
            assert to_nanoseconds(drive.header.stamp) == stamp_ns


def test_commands_of_another_definition_are_refused():
    with pytest.raises(ValueError, match="no single place for sec"):
        CommandWriter(lambda message: bytes(8))


def test_status(rig):
    rig.walk(0.5)
    message = ControllerStatus()
    write_status(message, rig.results[-1])
    assert message.motion_state == ControllerStatus.WALK and message.command.x == 0.5
    np.testing.assert_allclose(message.action, rig.results[-1].action, rtol=1e-6)
    assert message.state_age == pytest.approx(0.002)
    rig.command = None
    write_status(message, rig.tick())
    assert message.command_age == -1.0 and message.reasons == ["COMMAND_STALE"]


def test_motion_states_are_those_of_the_message():
    for state in MotionState:
        assert getattr(ControllerStatus, state.name) == state.value
