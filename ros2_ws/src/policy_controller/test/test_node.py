"""The node over real DDS: lifecycle, messages, services, faults."""

from __future__ import annotations

import json
from contextlib import contextmanager
from pathlib import Path

import numpy as np
import pytest

rclpy = pytest.importorskip("rclpy")
pytest.importorskip("anymal_msgs")

from anymal_msgs.msg import AnymalState  # noqa: E402
from diagnostic_msgs.msg import DiagnosticArray  # noqa: E402
from footlight_msgs.msg import ControllerStatus  # noqa: E402
from geometry_msgs.msg import TwistStamped  # noqa: E402
from lockstep_robot import LockstepRobot, own_context, stamp_of, wait_for  # noqa: E402
from rclpy.lifecycle import TransitionCallbackReturn  # noqa: E402
from rclpy.parameter import Parameter  # noqa: E402
from series_elastic_actuator_msgs.msg import SeActuatorCommand, SeActuatorCommands  # noqa: E402

from policy_controller.bundle import save_bundle  # noqa: E402
from policy_controller.limits import SafetyLimits  # noqa: E402
from policy_controller.motion import MotionSettings  # noqa: E402
from policy_controller.node import PolicyControllerNode  # noqa: E402
from policy_controller.parameters import (  # noqa: E402
    ControllerParams,
    NodeSettings,
    read_parameters,
)
from policy_controller.process import SpinThread  # noqa: E402
from policy_controller.state import JOINT_NAMES  # noqa: E402

pytestmark = pytest.mark.ros

SUCCESS, FAILURE = TransitionCallbackReturn.SUCCESS, TransitionCallbackReturn.FAILURE
DEMO = Path(__file__).parents[4] / "config" / "scenarios" / "demo.yaml"
LYING = (-0.05, 1.57, -2.75, 0.05, 1.57, -2.75, -0.05, -1.57, 2.75, 0.05, -1.57, 2.75)
S = ControllerStatus


@pytest.fixture
def context():
    """A ROS context in a domain that no other test uses."""
    with own_context() as context:
        yield context


@pytest.fixture
def bundle_path(tmp_path, make_bundle):
    """A saved bundle."""
    save_bundle(tmp_path / "bundle", make_bundle())
    return tmp_path / "bundle"


@pytest.fixture
def start(context, bundle_path, robot_file):
    """start(parameter=value, ...) -> context manager of a spinning node, not yet configured."""

    @contextmanager
    def run(**parameters):
        given = {"bundle": str(bundle_path), "robot": str(robot_file), "lockstep": True}
        given |= {name.replace("__", "."): value for name, value in parameters.items()}
        node = PolicyControllerNode(
            context=context,
            parameter_overrides=[Parameter(name, value=value) for name, value in given.items()],
        )
        spin = SpinThread(node)
        spin.start()
        try:
            yield node
        finally:
            spin.stop()
            node.trigger_shutdown()
            node.destroy_node()

    return run


@pytest.fixture
def robot_side(context):
    """The other side of the topics."""
    robot = LockstepRobot(context, LYING)
    yield robot
    robot.close()


@pytest.fixture
def active(start):
    """An active node in lockstep."""
    with start() as node:
        assert node.trigger_configure() == SUCCESS and node.trigger_activate() == SUCCESS
        yield node


def edit_json(path, change):
    data = json.loads((path / "bundle.json").read_text())
    change(data)
    (path / "bundle.json").write_text(json.dumps(data))


def swap_joints(data):
    names = data["joint_names"]
    names[0], names[3] = names[3], names[0]


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (swap_joints, "joint_names: found"),
        (lambda d: d.update(onnx_sha256="0" * 64), "hash of policy.onnx: found"),
        (lambda d: d["robot"].update(name="anymal_x"), "robot.name: found 'anymal_x'"),
        (lambda d: d["gains"].update(kp=[40.0] * 12), "gains.kp LF_HAA: found 40.0, allowed: 85.0"),
        (lambda d: d["observation"][5].update(scale=0.5), "golden observation joint_velocity[0]"),
    ],
)
def test_configure_refuses_a_bad_bundle_and_says_why(start, bundle_path, capfd, change, message):
    edit_json(bundle_path, change)
    with start() as node:
        assert node.trigger_configure() == FAILURE
        assert message in capfd.readouterr().err
        assert node._made == []  # connected to nothing


@pytest.mark.parametrize(
    ("parameters", "message"),
    [
        (dict(bundle=""), "bundle: found '', allowed: text that is not empty"),
        (dict(bundle="/absent"), "/absent refused"),
        (dict(robot="/absent.yaml"), "/absent.yaml refused"),
        (dict(safety__max_tilt=3.2), "safety.max_tilt: found 3.2, allowed: number from 0.1 to 1.4"),
        (dict(safety__max_tilt="0.5"), "safety.max_tilt: found '0.5'"),
        (dict(safty__max_tilt=0.5), "safty.max_tilt: unknown parameter, allowed: safety.max_tilt"),
        (dict(motion__damping=0.0), "motion.damping: found 0.0"),
        (dict(safety__max_action_jump=2.0), "max_action_jump: found 2.0"),
        (dict(lockstep="yes"), "lockstep: found 'yes', allowed: true or false"),
        (dict(state_topic="not a name"), "'not a name'"),
    ],
)
def test_configure_refuses_a_bad_parameter_and_says_why(start, capfd, parameters, message):
    with start(**parameters) as node:
        assert node.trigger_configure() == FAILURE
        assert message in capfd.readouterr().err


def test_uncertified_bundle_is_refused_where_certificates_are_required(start, capfd):
    with start(require_certificate=True, verified_limits=str(DEMO)) as node:
        assert node.trigger_configure() == FAILURE
    assert "certificate.json refused" in capfd.readouterr().err


def test_override_of_the_certificate_is_in_every_status(start, robot_side):
    reason = "hoist test"
    with start(
        require_certificate=True, verified_limits=str(DEMO), certificate_override=reason
    ) as node:
        assert node.trigger_configure() == SUCCESS and node.trigger_activate() == SUCCESS
        states_arrive(robot_side, node)
        _, status = robot_side.step()
        assert "NOT CERTIFIED, overridden by the operator (hoist test)" in status.detail


def test_corrected_parameter_is_taken_at_the_next_configure(start):
    with start(safety__max_tilt=3.2) as node:
        assert node.trigger_configure() == FAILURE
        assert node.set_parameters([Parameter("safety.max_tilt", value=1)])[0].successful
        assert node.trigger_configure() == SUCCESS
        refused = node.set_parameters([Parameter("safety.max_tilt", value=0.5)])[0]
        assert not refused.successful and "clean up first" in refused.reason
        assert node.trigger_cleanup() == SUCCESS
        assert node.set_parameters([Parameter("safety.max_tilt", value=0.5)])[0].successful


def test_shipped_parameter_file_holds_the_defaults(context):
    file = Path(__file__).parents[4] / "config" / "controller.yaml"
    node = PolicyControllerNode(
        context=context,
        cli_args=["--ros-args", "--params-file", str(file), "-p", "bundle:=b", "-p", "robot:=r"],
    )
    defaults = ControllerParams(NodeSettings("b", "r"), SafetyLimits(), MotionSettings())
    assert read_parameters(node) == defaults
    node.destroy_node()


def states_arrive(robot_side, node):
    """Publish the present state until the node has received three more."""
    wanted = node._inbox.received + 3

    def arrived():
        robot_side.publish_state()
        return node._inbox.received >= wanted

    wait_for(arrived, "states")


def test_inactive_node_publishes_nothing(start, robot_side):
    with start() as node:
        assert node.trigger_configure() == SUCCESS
        states_arrive(robot_side, node)
        answer = robot_side.request(S.STAND)
        assert not answer.success and "not active" in answer.message
        assert robot_side.commands == [] and robot_side.statuses == []
        assert node.trigger_activate() == SUCCESS
        robot_side.stamp_ns += 10**9
        robot_side.step()
        assert node.trigger_deactivate() == SUCCESS
        count = len(robot_side.commands)
        robot_side.stamp_ns += 10**9
        states_arrive(robot_side, node)
        assert len(robot_side.commands) <= count + 1  # the damping sent by deactivate
        assert len(robot_side.statuses) == robot_side.statuses[-1].ticks + 1


def test_passive_commands_are_damping_in_mode_13(active, robot_side):
    command, status = robot_side.step(advance=False)
    assert [drive.name for drive in command.commands] == list(JOINT_NAMES)
    assert stamp_of(command) == robot_side.stamp_ns
    for drive in command.commands:
        assert drive.mode == SeActuatorCommand.MODE_JOINT_POSITION_VELOCITY_TORQUE_PID_GAINS == 13
        assert (drive.pid_gains_p, drive.pid_gains_i, drive.pid_gains_d) == (0.0, 0.0, 10.0)
        assert drive.velocity == drive.joint_torque == 0.0
    assert status.motion_state == S.PASSIVE and status.reasons == []
    assert status.bundle == active._controller.bundle.sha256


def test_stand_walk_stop_and_lie_down(active, robot_side):
    robot_side.twist = (0.5, 0.0, 0.2)
    robot_side.walk()
    status = robot_side.run(30)
    assert status.motion_state == S.WALK and status.reasons == []
    assert robot_side.command_received((0.5, 0.0, 0.2))
    assert np.abs(status.action).max() > 0.0 and status.command_age <= 0.1
    drives = robot_side.commands[-1].commands
    assert {(round(d.pid_gains_p, 4), round(d.pid_gains_d, 4)) for d in drives} == {(85.0, 0.6)}
    assert active.trigger_deactivate() == FAILURE  # it would drop
    assert robot_side.request(S.PASSIVE).success
    seen = [robot_side.run(1).motion_state for _ in range(400)]
    assert list(dict.fromkeys(seen)) == [S.WALK, S.STAND, S.LIE_DOWN, S.PASSIVE]
    assert active.trigger_deactivate() == SUCCESS
    assert robot_side.bad_numbers() == []


def targets_by_name(start, robot_side, names):
    """Targets of a short walk, per joint name, if the states list the joints in this order."""
    robot_side.names = names
    first = len(robot_side.commands)
    robot_side.position = dict(zip(JOINT_NAMES, LYING, strict=True))
    with start() as node:
        assert node.trigger_configure() == SUCCESS and node.trigger_activate() == SUCCESS
        robot_side.stamp_ns = 1_000_000_000
        robot_side.walk()
        by_stamp = {stamp_of(message): message for message in robot_side.commands[first:]}
        return {
            (stamp, drive.name): drive.position
            for stamp, message in by_stamp.items()
            for drive in message.commands
        }


def test_order_of_joints_in_the_message_does_not_matter(start, robot_side):
    """B23: the robot's order, leg-major, joint-major, and shuffled with joints of a payload."""
    legs, parts = ("LF", "LH", "RF", "RH"), ("HAA", "HFE", "KFE")
    expected = targets_by_name(start, robot_side, list(JOINT_NAMES))
    moved = {name: [v for (_, n), v in expected.items() if n == name] for name in JOINT_NAMES}
    assert all(np.ptp(values) > 0.01 for values in moved.values())
    shuffled = ["payload_pan", *np.random.default_rng(3).permutation(JOINT_NAMES).tolist(), "lidar"]
    for names in (
        [f"{leg}_{part}" for leg in legs for part in parts],
        [f"{leg}_{part}" for part in parts for leg in legs],
        shuffled,
    ):
        found = targets_by_name(start, robot_side, names)
        common = expected.keys() & found.keys()
        assert len(common) > 12 * 100
        assert all(found[key] == expected[key] for key in common)


def fault_of(robot_side, edit):
    """Status and command of the tick that answers one edited state."""
    robot_side.edit = edit
    command, status = robot_side.step()
    assert status.motion_state == S.FAULT
    assert all(d.pid_gains_p == 0.0 and d.pid_gains_d == 10.0 for d in command.commands)
    assert robot_side.bad_numbers() == []
    return status


def drop_joint(message: AnymalState):
    for values in (
        message.joints.name,
        message.joints.position,
        message.joints.velocity,
        message.joints.effort,
    ):
        del values[5]


def set_nan(message: AnymalState):
    message.joints.velocity[5] = float("nan")


def empty_velocity(message: AnymalState):
    message.joints.velocity = []


def wrong_frame(message: AnymalState):
    message.twist.header.frame_id = "odom"


@pytest.mark.parametrize(
    ("edit", "reason", "detail"),
    [
        (drop_joint, "STATE_MALFORMED", "found RF_KFE 0 times"),
        (empty_velocity, "STATE_MALFORMED", "joints.velocity of AnymalState: found 0 values"),
        (wrong_frame, "STATE_MALFORMED", "found frame 'odom'"),
        (set_nan, "STATE_NONFINITE", "joint_velocity of RF_KFE"),
    ],
)
def test_bad_state_message_is_a_fault_in_the_same_tick(active, robot_side, edit, reason, detail):
    robot_side.run(2)
    robot_side.request(S.STAND)
    robot_side.run_until(S.STAND)
    status = fault_of(robot_side, edit)
    assert reason in status.reasons and detail in status.detail
    robot_side.edit = lambda message: None
    assert robot_side.run(5).motion_state == S.FAULT
    assert not robot_side.request(S.STAND).success
    assert robot_side.trigger("clear_fault").success
    assert robot_side.run(1).motion_state == S.PASSIVE


def test_policy_that_gives_nan_is_stopped_in_the_same_tick(
    start, robot_side, tmp_path, make_bundle, make_onnx
):
    save_bundle(tmp_path / "nan", make_bundle(onnx_model=make_onnx(nan_above_speed=0.45)))
    with start(bundle=str(tmp_path / "nan")) as node:
        assert node.trigger_configure() == SUCCESS and node.trigger_activate() == SUCCESS
        robot_side.walk()

        def go_fast(message: AnymalState):
            message.twist.twist.linear.x = 0.5

        assert "ACTION_NONFINITE" in fault_of(robot_side, go_fast).reasons


def test_lost_velocity_commands_stop_the_robot(active, robot_side):
    robot_side.twist = (0.6, 0.0, 0.0)
    robot_side.walk()
    robot_side.run(20)
    assert robot_side.command_received((0.6, 0.0, 0.0))
    robot_side.twist = None
    status = robot_side.run(21)  # 0.2 s until it is stale, 0.2 s to slow down
    assert status.motion_state == S.WALK and "COMMAND_STALE" in status.reasons
    assert robot_side.command_received((0.0, 0.0, 0.0))
    robot_side.twist = (0.6, 0.0, 0.0)
    assert robot_side.run(10).reasons == ["COMMAND_NOT_REARMED"]


def test_velocity_command_in_another_frame_is_not_used(active, robot_side):
    robot_side.walk()
    message = TwistStamped()
    message.header.frame_id = "map"
    message.twist.linear.x = 0.5

    def refused():
        robot_side.send_twist(message)
        return active._counters.bad_commands > 0

    wait_for(refused, "the refused command")
    assert robot_side.run(2).command.x == 0.0


def test_unstamped_twist(start, context):
    robot = LockstepRobot(context, LYING, stamped=False)
    try:
        with start(use_stamped_cmd_vel=False) as node:
            assert node.trigger_configure() == SUCCESS and node.trigger_activate() == SUCCESS
            robot.twist = (0.3, 0.0, 0.0)
            robot.walk()
            assert robot.command_received((0.3, 0.0, 0.0))
    finally:
        robot.close()


def test_emergency_stop_service(active, robot_side):
    robot_side.run(2)
    robot_side.request(S.STAND)
    robot_side.run(20)
    assert robot_side.trigger("emergency_stop").success
    status = robot_side.run(1)
    assert status.motion_state == S.FAULT and status.reasons == ["EMERGENCY_STOP"]


def test_request_of_an_unknown_motion_state(active, robot_side):
    robot_side.run(1)
    answer = robot_side.request(17)
    assert not answer.success and "found 17, allowed: 0 PASSIVE" in answer.message


def test_repeated_and_late_states_are_dropped(active, robot_side):
    robot_side.run(3)
    ticks = robot_side.statuses[-1].ticks
    dropped = active._inbox.dropped
    robot_side.stamp_ns -= 2 * 20_000_000
    states_arrive(robot_side, active)
    assert active._inbox.dropped >= dropped + 3
    robot_side.stamp_ns += 2 * 20_000_000
    assert robot_side.run(1).ticks == ticks + 1


def test_second_publisher_and_diagnostics_in_real_time(start, context, robot_side):
    """Real time, where the machine may be slow: only what must come sooner or later is waited
    for."""
    seen = []
    robot_side.node.create_subscription(DiagnosticArray, "/diagnostics", seen.append, 10)
    with start(lockstep=False) as node:
        assert node.trigger_configure() == SUCCESS and node.trigger_activate() == SUCCESS

        def stream(condition):
            def look():
                robot_side.stamp_ns += 2_500_000
                robot_side.publish_state()
                return condition()

            return look

        wait_for(stream(lambda: robot_side.statuses and seen), "status and diagnostics")
        parts = {status.name.split(": ")[1]: status for status in seen[-1].status}
        assert parts.keys() == {"safety", "loop", "inputs"}
        keys = {pair.key for part in parts.values() for pair in part.values}
        assert {
            "rate [Hz]",
            "jitter p99 [ms]",
            "tick duration p50 [ms]",
            "overruns",
            "missed slots",
            "state rate [Hz]",
            "state age [s]",
            "command age [s]",
            "reasons",
            "RH_KFE targets limited",
        } <= keys
        for kind, topic, what in (
            (AnymalState, "/state_estimator/anymal_state", "the robot's state"),
            (SeActuatorCommands, "/motion_control_manager/actuator_commands", "joint commands"),
        ):
            robot_side.node.create_publisher(kind, topic, 1)
            wanted = f"2 publishers of {what}"
            wait_for(stream(lambda: wanted in robot_side.statuses[-1].detail), wanted)  # noqa: B023
        assert "SECOND_PUBLISHER" in robot_side.statuses[-1].reasons
        assert robot_side.statuses[-1].motion_state == S.PASSIVE
        assert not robot_side.request(S.STAND).success
