"""Messages <-> arrays: round trips, joints in any order, quaternions, and what is refused."""

import random

import numpy as np
import pytest

pytest.importorskip("anymal_msgs", reason="needs the message packages")
pytestmark = pytest.mark.ros

from anymal_msgs.msg import AnymalState, Contact  # noqa: E402
from rclpy.serialization import deserialize_message, serialize_message  # noqa: E402
from series_elastic_actuator_msgs.msg import (  # noqa: E402
    SeActuatorCommand,
    SeActuatorCommands,
    SeActuatorReadings,
)

from anymal_bridge.conversions import (  # noqa: E402
    CommandsWriter,
    GroundWriter,
    ReadingsWriter,
    StateError,
    StateReader,
    StateWriter,
    read_commands,
    stamp_to_ns,
)
from anymal_bridge.joint_command import CommandError, JointCommand, Mode, Refusal  # noqa: E402
from anymal_bridge.kinematics import rotation_matrix  # noqa: E402
from anymal_bridge.robot_sample import FootContact, RobotSample, RobotState  # noqa: E402

LEGS, JOINTS = ("LF", "RF", "LH", "RH"), ("HAA", "HFE", "KFE")
NAMES = tuple(f"{leg}_{joint}" for leg in LEGS for joint in JOINTS)
FEET = tuple(f"{leg}_FOOT" for leg in LEGS)
ORDERS = {
    "robot": NAMES,
    "alphabetical": tuple(f"{leg}_{j}" for leg in ("LF", "LH", "RF", "RH") for j in JOINTS),
    "joint_major": tuple(f"{leg}_{j}" for j in JOINTS for leg in ("LF", "LH", "RF", "RH")),
}


def make_sample() -> RobotSample:
    """Every number different, a rotation without symmetry."""
    sample = RobotSample()
    sample.state[:] = np.arange(37) * 0.01 + 0.1
    sample.state[3:7] = np.array([0.1, -0.2, 0.3, 0.9]) / np.sqrt(0.95)
    sample.joint_acceleration[:] = np.arange(12) + 100.0
    sample.joint_torque[:] = np.arange(12) + 200.0
    sample.foot_position[:] = np.arange(12).reshape(4, 3) + 300.0
    sample.foot_force[:] = np.arange(12).reshape(4, 3) + 400.0
    sample.foot_contact[:] = [
        FootContact.CLOSED,
        FootContact.OPEN,
        FootContact.SLIPPING,
        FootContact.CLOSED,
    ]
    sample.robot_state = RobotState.ERROR_ESTIMATOR
    return sample


def make_command(**changes) -> JointCommand:
    ramp = np.arange(12.0)
    fields = {
        "stamp_ns": 12_345_678_901,
        "mode": Mode.PID_GAINS,
        "position": ramp * 0.1,
        "velocity": ramp + 20,
        "torque": ramp - 6,
        "kp": ramp + 50,
        "kd": ramp * 0.25,
    }
    return JointCommand(**(fields | changes))


def over_the_wire(message):
    return deserialize_message(serialize_message(message), type(message))


def assert_equal(a: JointCommand, b: JointCommand) -> None:
    assert (a.stamp_ns, a.mode) == (b.stamp_ns, b.mode)
    for field in ("position", "velocity", "torque", "kp", "kd"):
        np.testing.assert_array_equal(getattr(a, field), getattr(b, field), err_msg=field)


def test_state_survives_the_wire():
    sample = make_sample()
    message = over_the_wire(StateWriter(NAMES, FEET).write(5_000_000_123, sample, 0.7))
    got = StateReader(NAMES, FEET).read(message)
    for field in ("state", "joint_acceleration", "joint_torque", "foot_position", "foot_force"):
        np.testing.assert_array_equal(getattr(got, field), getattr(sample, field), err_msg=field)
    assert got.foot_contact == sample.foot_contact
    assert got.robot_state is RobotState.ERROR_ESTIMATOR
    for header in (message.header, message.pose.header, message.twist.header):
        assert stamp_to_ns(header.stamp) == 5_000_000_123
    assert message.header.frame_id == message.pose.header.frame_id == "odom"
    assert message.twist.header.frame_id == "base"
    assert [contact.friction_coefficient for contact in message.contacts] == [0.7] * 4


def test_true_state_tells_the_ground_unless_it_is_level():
    sample, message = make_sample(), AnymalState()
    writer = GroundWriter(FEET)
    sample.ground_height[:] = 0.1, 0.2, 0.3, 0.4, 0.5
    writer.write(message, sample)
    found = {
        t.child_frame_id: t.transform.translation for t in over_the_wire(message).frame_transforms
    }
    assert (found["ground"].x, found["ground"].z) == (sample.state[0], 0.1)
    assert (found["ground/RF_FOOT"].y, found["ground/RF_FOOT"].z) == (304.0, 0.3)
    sample.ground_height[:] = 0.0
    writer.write(message, sample)
    assert not message.frame_transforms


def test_writer_leaves_nothing_of_the_sample_before():
    writer, fresh = StateWriter(NAMES, FEET), StateWriter(NAMES, FEET)
    writer.write(1, make_sample(), 0.3)
    assert writer.write(2, RobotSample(), 0.8) == fresh.write(2, RobotSample(), 0.8)


def test_orientation_is_xyzw_from_base_to_odom():
    """90 deg yaw, then nose 10 deg down: x of the base points along y of odom and down."""
    half_yaw, half_pitch = np.pi / 4, np.radians(5.0)
    cy, sy, cp, sp = np.cos(half_yaw), np.sin(half_yaw), np.cos(half_pitch), np.sin(half_pitch)
    sample = RobotSample()
    sample.state[3:7] = -sy * sp, cy * sp, sy * cp, cy * cp
    orientation = StateWriter(NAMES, FEET).write(1, sample, 0.8).pose.pose.orientation
    xyzw = np.array([orientation.x, orientation.y, orientation.z, orientation.w])
    forward = rotation_matrix(xyzw) @ [1, 0, 0]
    expected = [0, np.cos(np.radians(10)), -np.sin(np.radians(10))]
    np.testing.assert_allclose(forward, expected, atol=1e-12)
    # The other order is another rotation: a mix-up cannot hide behind this test.
    wrong = rotation_matrix(np.roll(xyzw, 1)) @ [1, 0, 0]
    assert np.abs(wrong - expected).max() > 0.5


@pytest.mark.parametrize("order", [*ORDERS, "shuffled"])
def test_state_is_read_by_name(order):
    sample, reader = make_sample(), StateReader(NAMES, FEET)
    names = ORDERS.get(order)
    for seed in range(3):
        message = over_the_wire(StateWriter(NAMES, FEET).write(1, sample, 0.8))
        shuffled = list(names or NAMES)
        if names is None:
            random.Random(seed).shuffle(shuffled)
        joints, index = message.joints, [NAMES.index(name) for name in shuffled]
        # A payload joint that is not ours, with NaN velocity (B24).
        joints.name = [*shuffled, "PAYLOAD"]
        joints.position = [*np.take(joints.position, index), 1.0]
        joints.velocity = [*np.take(joints.velocity, index), np.nan]
        joints.effort = [*np.take(joints.effort, index), 0.0]
        joints.acceleration = []
        message.contacts.reverse()
        got = reader.read(message)
        np.testing.assert_array_equal(got.state, sample.state)
        np.testing.assert_array_equal(got.joint_torque, sample.joint_torque)
        np.testing.assert_array_equal(got.foot_force, sample.foot_force)
        assert np.isnan(got.joint_acceleration).all()


def test_foot_that_is_not_listed_is_in_the_air():
    message = StateWriter(NAMES, FEET).write(1, make_sample(), 0.8)
    del message.contacts[2]
    got = StateReader(NAMES, FEET).read(message)
    assert got.foot_contact[2] is FootContact.OPEN
    assert not got.foot_force[2].any() and np.isnan(got.foot_position[2]).all()
    assert got.foot_contact[3] is FootContact.CLOSED


@pytest.mark.parametrize(
    ("value", "expected"),
    [(0, RobotState.OK), (-3, RobotState.ERROR_SENSOR), (1, RobotState.UNINITIALIZED)]
    + [(-7, RobotState.ERROR_UNKNOWN), (5, RobotState.UNINITIALIZED)],
)
def test_only_state_0_is_ok(value, expected):
    message = StateWriter(NAMES, FEET).write(1, make_sample(), 0.8)
    message.state = value
    assert StateReader(NAMES, FEET).read(message).robot_state is expected


def test_state_without_a_joint_is_refused_by_name():
    message = StateWriter(NAMES, FEET).write(1, make_sample(), 0.8)
    message.joints.name = list(NAMES[:11])
    with pytest.raises(StateError, match="RH_KFE"):
        StateReader(NAMES, FEET).read(message)


def test_state_with_a_joint_twice_is_refused_by_name():
    message = StateWriter(NAMES, FEET).write(1, make_sample(), 0.8)
    joints = message.joints
    joints.name = [*NAMES, NAMES[4]]
    for field in ("position", "velocity", "acceleration", "effort"):
        setattr(joints, field, [0.0] * 13)
    with pytest.raises(StateError, match=f"{NAMES[4]} more than once"):
        StateReader(NAMES, FEET).read(message)


def test_foot_without_a_position_is_not_listed():
    writer, sample = StateWriter(NAMES, FEET), make_sample()
    sample.foot_position[1] = np.nan
    assert [c.name for c in writer.write(1, sample, 0.8).contacts] == [FEET[0], *FEET[2:]]
    assert [c.name for c in writer.write(2, make_sample(), 0.8).contacts] == list(FEET)


def test_state_with_an_empty_velocity_array_is_refused():
    message = StateWriter(NAMES, FEET).write(1, make_sample(), 0.8)
    message.joints.velocity = []
    with pytest.raises(StateError, match="velocity"):
        StateReader(NAMES, FEET).read(message)


def test_readings_hold_state_and_obeyed_command():
    sample, command = make_sample(), make_command()
    writer = ReadingsWriter(NAMES)
    message = over_the_wire(writer.write(7_000_000_001, sample, command))
    assert isinstance(message, SeActuatorReadings)
    assert tuple(reading.state.name for reading in message.readings) == NAMES
    for i, reading in enumerate(message.readings):
        state, commanded = reading.state, reading.commanded
        assert stamp_to_ns(reading.header.stamp) == 7_000_000_001
        assert stamp_to_ns(commanded.header.stamp) == command.stamp_ns
        assert state.joint_position == state.gear_position == sample.state[13 + i]
        assert state.joint_velocity == state.gear_velocity == sample.state[25 + i]
        assert state.joint_acceleration == sample.joint_acceleration[i]
        assert state.joint_torque == sample.joint_torque[i]
        assert commanded.mode == 13 and commanded.name == NAMES[i]
        assert commanded.position == command.position[i]
        assert commanded.pid_gains_p == command.kp[i]
    # A new command replaces every field of the one before.
    other = make_command(mode=Mode.FREEZE, kp=np.zeros(12), stamp_ns=3)
    message = writer.write(8, sample, other)
    assert [r.commanded.mode for r in message.readings] == [1] * 12
    assert [r.commanded.pid_gains_p for r in message.readings] == [0.0] * 12


def test_command_survives_the_wire():
    command = make_command()
    assert_equal(read_commands(over_the_wire(CommandsWriter(NAMES).write(command)), NAMES), command)


@pytest.mark.parametrize("seed", range(5))
def test_commands_are_read_by_name_in_any_order(seed):
    command = make_command()
    message = CommandsWriter(NAMES).write(command)
    random.Random(seed).shuffle(message.commands)
    assert_equal(read_commands(message, NAMES), command)


@pytest.mark.parametrize("order", ORDERS)
def test_orders_of_other_stacks_give_the_same_command(order):
    command = make_command()
    by_name = {c.name: c for c in CommandsWriter(NAMES).write(command).commands}
    message = SeActuatorCommands(commands=[by_name[name] for name in ORDERS[order]])
    assert_equal(read_commands(message, NAMES), command)


def unnamed() -> SeActuatorCommands:
    message = CommandsWriter(NAMES).write(make_command())
    for command in message.commands:
        command.name = ""
    return message


def test_unnamed_commands_go_by_index_only_when_declared():
    assert_equal(read_commands(unnamed(), NAMES, unnamed_by_index=True), make_command())
    with pytest.raises(CommandError) as caught:
        read_commands(unnamed(), NAMES)
    assert caught.value.reason is Refusal.UNNAMED_JOINT


def rename(index, name):
    return lambda message: setattr(message.commands[index], "name", name)


def change(index, field, value):
    return lambda message: setattr(message.commands[index], field, value)


def set_all_modes(value):
    return lambda message: [setattr(c, "mode", value) for c in message.commands]


REFUSED = [
    (rename(3, "RF_HXA"), Refusal.UNKNOWN_JOINT, "RF_HXA"),
    (rename(3, ""), Refusal.UNKNOWN_JOINT, "''"),
    (lambda message: message.commands.pop(4), Refusal.MISSING_JOINT, "RF_HFE"),
    (rename(3, "LF_HAA"), Refusal.MISSING_JOINT, "RF_HAA"),
    (
        lambda message: message.commands.append(SeActuatorCommand(name="LH_KFE", mode=13)),
        Refusal.DUPLICATE_JOINT,
        "LH_KFE",
    ),
    (lambda message: message.commands.clear(), Refusal.UNNAMED_JOINT, "0 commands"),
    (change(2, "mode", 12), Refusal.MIXED_MODES, r"\[12, 13\]"),
    *((set_all_modes(mode), Refusal.MODE, f"mode {mode} ") for mode in (0, *range(3, 13), 14)),
    (change(5, "position", float("nan")), Refusal.NOT_FINITE, "RF_KFE"),
    (change(5, "velocity", float("inf")), Refusal.NOT_FINITE, "RF_KFE"),
    (change(5, "joint_torque", float("nan")), Refusal.NOT_FINITE, "RF_KFE"),
    (change(5, "pid_gains_d", float("nan")), Refusal.NOT_FINITE, "RF_KFE"),
    (change(7, "pid_gains_p", -1.0), Refusal.GAIN, "LH_HFE"),
    (change(7, "pid_gains_d", -1.0), Refusal.GAIN, "LH_HFE"),
    (change(7, "pid_gains_i", 0.1), Refusal.GAIN, "LH_HFE"),
]


@pytest.mark.parametrize(("spoil", "reason", "named"), REFUSED)
def test_command_is_refused_with_reason_and_name(spoil, reason, named):
    message = CommandsWriter(NAMES).write(make_command())
    spoil(message)
    with pytest.raises(CommandError, match=named) as caught:
        read_commands(message, NAMES)
    assert caught.value.reason is reason


def test_every_refusal_is_tested():
    assert {reason for _, reason, _ in REFUSED} == set(Refusal)


@pytest.mark.parametrize("mode", Mode)
def test_supported_modes_are_read(mode):
    command = make_command(mode=mode)
    assert read_commands(CommandsWriter(NAMES).write(command), NAMES).mode is mode


def test_numbers_are_those_of_the_messages():
    for state in RobotState:
        name = "STATE_" + state.name
        assert getattr(AnymalState, name) == state
    for contact in FootContact:
        assert getattr(Contact, f"STATE_{contact.name}") == contact
    assert Mode.FREEZE == SeActuatorCommand.MODE_FREEZE
    assert Mode.DISABLE == SeActuatorCommand.MODE_DISABLE
    assert Mode.PID_GAINS == SeActuatorCommand.MODE_JOINT_POSITION_VELOCITY_TORQUE_PID_GAINS
