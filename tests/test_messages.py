"""The ANYmal messages: against the table of the public interface, and between two processes.

The table is independent of the .msg files: name, type and order of every field and every constant,
as the public users of ANYmal's interface show them. A package of the same name from a sourced ROS 2
must pass as well.
"""

import importlib
import json
import os
import re
import subprocess
import sys
import time
from pathlib import Path

import pytest

pytestmark = pytest.mark.ros

HEADER = "std_msgs/Header header; "
CONTACT_STATES = "uint8 STATE_OPEN=0; uint8 STATE_CLOSED=1; uint8 STATE_SLIPPING=2; "
SE_STATE = (
    HEADER + "string name; uint32 statusword; float64 current; float64 gear_position; "
    "float64 gear_velocity; float64 joint_position; float64 joint_velocity; "
    "float64 joint_acceleration; float64 joint_torque; sensor_msgs/Imu imu; "
)
MODES = (
    "NA FREEZE DISABLE CURRENT MOTOR_POSITION MOTOR_VELOCITY GEAR_POSITION GEAR_VELOCITY "
    "JOINT_POSITION JOINT_VELOCITY JOINT_TORQUE JOINT_POSITION_VELOCITY "
    "JOINT_POSITION_VELOCITY_TORQUE JOINT_POSITION_VELOCITY_TORQUE_PID_GAINS"
).split()

TABLE = {
    "any_msgs/ExtendedJointState": HEADER
    + "string[] name; float64[] position; float64[] velocity; float64[] acceleration; "
    "float64[] effort",
    "any_msgs/ImuWithTrigger": "sensor_msgs/Imu imu; bool trigger_indicator",
    "any_msgs/PointContact": CONTACT_STATES
    + HEADER
    + "geometry_msgs/Wrench wrench; geometry_msgs/Point position; geometry_msgs/Twist twist; "
    "geometry_msgs/Vector3 normal; uint8 state",
    "anymal_msgs/AnymalState": "int8 STATE_ERROR_SENSOR=-3; int8 STATE_ERROR_ESTIMATOR=-2; "
    "int8 STATE_ERROR_UNKNOWN=-1; int8 STATE_OK=0; int8 STATE_UNINITIALIZED=1; "
    + HEADER
    + "int8 state; geometry_msgs/PoseStamped pose; geometry_msgs/TwistStamped twist; "
    "any_msgs/ExtendedJointState joints; anymal_msgs/Contact[] contacts; "
    "geometry_msgs/TransformStamped[] frame_transforms",
    "anymal_msgs/Contact": CONTACT_STATES
    + HEADER
    + "string name; uint8 state; geometry_msgs/Wrench wrench; geometry_msgs/Point position; "
    "geometry_msgs/Vector3 normal; float64 friction_coefficient; float64 restitution_coefficient",
    "series_elastic_actuator_msgs/SeActuatorCommand": "".join(
        f"int16 MODE_{name}={value}; " for value, name in enumerate(MODES)
    )
    + HEADER
    + "string name; int16 mode; float64 current; float64 position; float64 velocity; "
    "float64 joint_torque; float32 pid_gains_p; float32 pid_gains_i; float32 pid_gains_d",
    "series_elastic_actuator_msgs/SeActuatorCommands": (
        "series_elastic_actuator_msgs/SeActuatorCommand[] commands"
    ),
    "series_elastic_actuator_msgs/SeActuatorState": SE_STATE,
    "series_elastic_actuator_msgs/SeActuatorStates": (
        "series_elastic_actuator_msgs/SeActuatorState[] states"
    ),
    "series_elastic_actuator_msgs/SeActuatorStateExtended": SE_STATE
    + "float64 motor_position; float64 motor_velocity; int32 gear_position_ticks; "
    "int32 joint_position_ticks; float64 temperature; float64 voltage; uint64 timestamp; "
    "float64 desired_current_d; float64 measured_current_d; float64 desired_current_q; "
    "float64 measured_current_q; float64 measured_current_phase_u; "
    "float64 measured_voltage_phase_u; float64 measured_current_phase_v; "
    "float64 measured_voltage_phase_v; float64 measured_current_phase_w; "
    "float64 measured_voltage_phase_w",
    "series_elastic_actuator_msgs/SeActuatorReading": HEADER
    + "series_elastic_actuator_msgs/SeActuatorState state; "
    "series_elastic_actuator_msgs/SeActuatorCommand commanded",
    "series_elastic_actuator_msgs/SeActuatorReadings": (
        "series_elastic_actuator_msgs/SeActuatorReading[] readings"
    ),
    "series_elastic_actuator_msgs/SeActuatorReadingExtended": HEADER
    + "series_elastic_actuator_msgs/SeActuatorStateExtended state; "
    "series_elastic_actuator_msgs/SeActuatorCommand commanded",
    "series_elastic_actuator_msgs/SeActuatorReadingsExtended": (
        "series_elastic_actuator_msgs/SeActuatorReadingExtended[] readings"
    ),
}
OUR_PACKAGES = ("any_msgs", "anymal_msgs", "series_elastic_actuator_msgs")


def read_definition(name: str) -> tuple[list[str], list[str]]:
    """Constants and fields of an installed .msg file, each as `type name` with full type names."""
    from ament_index_python import get_package_share_directory

    package, message = name.split("/")
    text = Path(get_package_share_directory(package), "msg", f"{message}.msg").read_text()
    lines = [" ".join(line.split("#")[0].split()) for line in text.splitlines()]
    constants = [re.sub(r" ?= ?", "=", line) for line in lines if "=" in line]
    fields = [line for line in lines if line and "=" not in line]
    return constants, [
        f"{package}/{field}" if re.match(r"[A-Z]", field) else field for field in fields
    ]


@pytest.mark.parametrize("name", TABLE)
def test_definition_is_that_of_the_public_interface(name):
    expected = [entry for entry in TABLE[name].split("; ") if entry]
    constants, fields = read_definition(name)
    assert constants == [entry for entry in expected if "=" in entry]
    assert fields == [entry for entry in expected if "=" not in entry]


@pytest.mark.parametrize("name", TABLE)
def test_generated_class_has_the_fields_and_constants(name):
    """What Python code sees: a stale build differs from the .msg file beside it."""
    package, message = name.split("/")
    generated = getattr(importlib.import_module(f"{package}.msg"), message)
    expected = [entry for entry in TABLE[name].split("; ") if entry]
    idl = {"float64": "double", "float32": "float", "bool": "boolean"}
    fields = []
    for entry in expected:
        kind, field = entry.split(" ")
        if "=" in field:
            constant, value = field.split("=")
            assert getattr(generated, constant) == int(value)
            continue
        base = idl.get(kind.removesuffix("[]"), kind.removesuffix("[]"))
        fields.append((field, f"sequence<{base}>" if kind.endswith("[]") else base))
    assert list(generated.get_fields_and_field_types().items()) == fields


def test_the_table_names_every_message_of_our_packages():
    source = Path(__file__).parents[1] / "ros2_ws" / "src"
    ours = {
        f"{package}/{path.stem}"
        for package in OUR_PACKAGES
        for path in (source / package / "msg").glob("*.msg")
    }
    assert ours == set(TABLE)


def test_state_and_commands_cross_two_processes():
    """A peer publishes an AnymalState, we answer with commands: both arrive as they were sent."""
    import rclpy
    from anymal_msgs.msg import AnymalState
    from domain_coordinator import domain_id
    from rclpy.executors import SingleThreadedExecutor
    from rclpy.qos import qos_profile_sensor_data
    from series_elastic_actuator_msgs.msg import SeActuatorCommand, SeActuatorCommands

    with domain_id() as domain:
        environment = dict(
            os.environ, ROS_DOMAIN_ID=str(domain), ROS_AUTOMATIC_DISCOVERY_RANGE="LOCALHOST"
        )
        peer = subprocess.Popen(
            [sys.executable, str(Path(__file__).with_name("message_peer.py"))],
            env=environment,
            stdout=subprocess.PIPE,
            text=True,
        )
        context = rclpy.Context()
        rclpy.init(context=context, domain_id=domain)
        node = rclpy.create_node("controller_side", context=context)
        executor = SingleThreadedExecutor(context=context)
        executor.add_node(node)
        states = []
        node.create_subscription(AnymalState, "state", states.append, qos_profile_sensor_data)
        publisher = node.create_publisher(SeActuatorCommands, "commands", 1)
        commands = SeActuatorCommands()
        for index, joint in enumerate(("LF_HAA", "RH_KFE")):
            command = SeActuatorCommand(name=joint, position=0.25 + index, velocity=-1.5)
            command.mode = SeActuatorCommand.MODE_JOINT_POSITION_VELOCITY_TORQUE_PID_GAINS
            command.pid_gains_p, command.pid_gains_d = 85.0, 0.5
            command.header.stamp.nanosec = 7 + index
            commands.commands.append(command)
        try:
            deadline = time.monotonic() + 30.0  # discovery takes up to 3.5 s after an unclean exit
            while peer.poll() is None and time.monotonic() < deadline:
                executor.spin_once(timeout_sec=0.05)
                if states:
                    publisher.publish(commands)
        finally:
            peer.terminate()
            output, _ = peer.communicate()
            executor.shutdown()
            node.destroy_node()
            rclpy.shutdown(context=context)

    assert states, "no AnymalState arrived within 30 s"
    state = states[0]
    assert state.state == AnymalState.STATE_ERROR_ESTIMATOR
    assert (state.header.stamp.sec, state.header.frame_id) == (12, "odom")
    orientation = state.pose.pose.orientation
    assert (orientation.x, orientation.y, orientation.z, orientation.w) == (0.1, 0.2, 0.3, 0.9)
    assert state.twist.twist.angular.z == -0.75
    assert list(state.joints.name) == ["LF_HAA", "LF_HFE"]
    assert list(state.joints.position) == [0.1, -0.8]
    assert [contact.name for contact in state.contacts] == ["LF_FOOT"]
    assert state.contacts[0].friction_coefficient == 0.6
    assert json.loads(output) == [
        ["LF_HAA", 13, 0.25, -1.5, 85.0, 0.5, 7],
        ["RH_KFE", 13, 1.25, -1.5, 85.0, 0.5, 8],
    ]
