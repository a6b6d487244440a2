"""Fault injection over real DDS: every guard of the register is tripped from outside.

One node and one robot for all cases; a recorder writes what the node commands meanwhile, and the
recording is scanned at the end. What cannot be tripped from outside is in NOT_FROM_OUTSIDE, with
the test that shows it instead. A guard without an entry here fails the first test.
"""

from __future__ import annotations

import math
import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass, replace

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper

rclpy = pytest.importorskip("rclpy")
pytest.importorskip("anymal_msgs")

from anymal_msgs.msg import AnymalState  # noqa: E402
from footlight_msgs.msg import ControllerStatus as S  # noqa: E402
from lockstep_robot import PERIOD_NS, LockstepRobot, own_context, wait_for  # noqa: E402
from rclpy.lifecycle import TransitionCallbackReturn  # noqa: E402
from rclpy.parameter import Parameter  # noqa: E402
from sample_policies import DEFAULT_POSE, LOWER, UPPER, build_golden  # noqa: E402
from series_elastic_actuator_msgs.msg import SeActuatorCommands  # noqa: E402

from policy_controller.bag.reader import BagReader  # noqa: E402
from policy_controller.bundle import save_bundle  # noqa: E402
from policy_controller.contract import JointLimits  # noqa: E402
from policy_controller.guard import GUARDS  # noqa: E402
from policy_controller.node import PolicyControllerNode  # noqa: E402
from policy_controller.process import SpinThread  # noqa: E402
from policy_controller.safety import EVENTS  # noqa: E402
from policy_controller.sample import Outcome, Reason  # noqa: E402

pytestmark = pytest.mark.ros

COMMANDS = "/motion_control_manager/actuator_commands"
NARROW = 0.3  # rad, upper limit of LF_HAA in the bundle, so that a target can exceed it
WALKING = (0.3, 0.0, 0.0)  # m/s, m/s, rad/s
SUCCESS = TransitionCallbackReturn.SUCCESS


def obedient_policy() -> bytes:
    """action = 2 v, for every joint, v the forward velocity in m/s; NaN where v > 0.9.

    So a robot that reports a velocity decides what the policy puts out.
    """
    pick = np.zeros((50, 12), dtype=np.float32)
    pick[0] = 1.0
    constants = {"pick": pick, "two": np.float32(2), "top": np.float32(0.9), "nil": np.float32(0)}
    nodes = [
        helper.make_node("MatMul", ["observation", "pick"], ["v"]),
        helper.make_node("Mul", ["v", "two"], ["twice"]),
        helper.make_node("Sub", ["top", "v"], ["below"]),
        helper.make_node("Log", ["below"], ["logarithm"]),
        helper.make_node("Mul", ["logarithm", "nil"], ["poison"]),
        helper.make_node("Add", ["twice", "poison"], ["action"]),
    ]
    graph = helper.make_graph(
        nodes,
        "policy",
        [helper.make_tensor_value_info("observation", TensorProto.FLOAT, ["batch", 50])],
        [helper.make_tensor_value_info("action", TensorProto.FLOAT, ["batch", 12])],
        [numpy_helper.from_array(value, name) for name, value in constants.items()],
    )
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)
    onnx.checker.check_model(model)
    return model.SerializeToString()


@dataclass(frozen=True)
class Fault:
    """What goes wrong on the robot's side, and by when the controller has to have reacted.

    edit(message, tick): changes the state of the tick-th control period since the fault began.
    ticks: control periods until the reason is in the status. twist: velocity command meanwhile.
    also: reasons that come with it, where the robot goes on walking.
    """

    edit: Callable[[AnymalState, int], None] = lambda message, tick: None
    ticks: int = 1
    twist: tuple[float, float, float] | None = WALKING
    also: tuple[Reason, ...] = ()


def forward(speed: Callable[[int], float]) -> Callable[[AnymalState, int], None]:
    def edit(message: AnymalState, tick: int) -> None:
        message.twist.twist.linear.x = speed(tick)

    return edit


def joint(field: str, value: float) -> Callable[[AnymalState, int], None]:
    def edit(message: AnymalState, tick: int) -> None:
        getattr(message.joints, field)[0] = value

    return edit


def roll(angle: Callable[[int], float], rate: float = 0.0) -> Callable[[AnymalState, int], None]:
    def edit(message: AnymalState, tick: int) -> None:
        half = angle(tick) / 2.0
        orientation = message.pose.pose.orientation
        orientation.x, orientation.w = math.sin(half), math.cos(half)
        message.twist.twist.angular.x = rate

    return edit


def hold_joint(message: AnymalState, tick: int) -> None:
    """One reading stands still while the policy moves all targets by 0.4 rad."""
    message.joints.position[0] = 0.1
    message.twist.twist.linear.x = 0.2 * math.sin(0.3 * tick)


def lose_joint(message: AnymalState, tick: int) -> None:
    message.joints.name = [*message.joints.name[:-1], "SPARE"]


def report_error(message: AnymalState, tick: int) -> None:
    message.state = AnymalState.STATE_ERROR_UNKNOWN


def stretch_quaternion(message: AnymalState, tick: int) -> None:
    message.pose.pose.orientation.w = 1.1


FAULTS = {
    Reason.STATE_MALFORMED: Fault(lose_joint),
    Reason.STATE_NONFINITE: Fault(joint("velocity", math.nan)),
    Reason.ROBOT_ERROR: Fault(report_error),
    Reason.QUATERNION_NORM: Fault(stretch_quaternion),
    Reason.ORIENTATION_JUMP: Fault(roll(lambda tick: 0.5)),
    Reason.TILT: Fault(roll(lambda tick: 0.1 * tick, rate=5.0), ticks=9),
    Reason.BASE_VELOCITY: Fault(forward(lambda tick: -3.5)),
    Reason.JOINT_POSITION: Fault(joint("position", NARROW + 0.2)),
    Reason.JOINT_VELOCITY: Fault(joint("velocity", -11.0)),
    Reason.JOINT_TORQUE: Fault(joint("effort", 100.0)),
    Reason.TORQUE_SATURATED: Fault(joint("effort", -78.0), ticks=27),
    Reason.JOINT_STUCK: Fault(hold_joint, ticks=25),
    Reason.COMMAND_NONFINITE: Fault(twist=(math.nan, 0.0, 0.0), ticks=5),
    Reason.COMMAND_STALE: Fault(twist=None, ticks=20, also=(Reason.COMMAND_NOT_REARMED,)),
    Reason.COMMAND_RANGE: Fault(twist=(2.0, 0.0, 0.0), ticks=5),
    Reason.VELOCITY_SIGN: Fault(forward(lambda tick: -0.1), ticks=110),
    Reason.ACTION_NONFINITE: Fault(forward(lambda tick: 0.95)),
    Reason.ACTION_CLIPPED: Fault(forward(lambda tick: 0.6), also=(Reason.TARGET_POSITION,)),
    Reason.ACTION_JUMP: Fault(forward(lambda tick: 0.85)),
    Reason.ACTION_OSCILLATION: Fault(forward(lambda tick: 0.25 * (-1) ** tick), ticks=14),
    Reason.TARGET_POSITION: Fault(forward(lambda tick: 0.4)),
}
"""Guards that a changed state or velocity command trips."""
OTHERS = {
    Reason.CLOCK_JUMP,
    Reason.COMMAND_NOT_REARMED,
    Reason.EMERGENCY_STOP,
    Reason.SECOND_PUBLISHER,
    Reason.STATE_STALE,
}
"""Those with a test of their own below."""
NOT_FROM_OUTSIDE = {
    Reason.OBSERVATION_NONFINITE: "the guards of the state and of the command are asked first; "
    "test_guards.py",
    Reason.OVERRUN: "needs a processor that is taken away; test_loop.py, test_guards.py",
    Reason.INTERNAL_ERROR: "a mistake in the code; test_control_thread.py",
}


def test_every_reason_has_its_fault():
    assert FAULTS.keys() | OTHERS | NOT_FROM_OUTSIDE.keys() == {g.reason for g in GUARDS} | set(
        EVENTS
    )


@pytest.fixture(scope="module")
def context():
    """A ROS context in a domain that no other test uses."""
    with own_context() as context:
        yield context


@pytest.fixture
def files(make_bundle, robot_file):
    """Parameters: a bundle with obedient_policy and the robot file."""
    model = obedient_policy()
    limits = JointLimits(LOWER, (NARROW, *UPPER[1:]), velocity=8.5, torque=80.0)
    bundle = make_bundle(onnx_model=model, limits=limits)
    bundle = replace(bundle, golden_npz=build_golden(model, bundle.clock))
    save_bundle(robot_file.parent / "bundle", bundle)
    return {"bundle": str(robot_file.parent / "bundle"), "robot": str(robot_file)}


class Running:
    """An active controller."""

    def __init__(self, context, **parameters):
        overrides = [Parameter(name, value=value) for name, value in parameters.items()]
        self.node = PolicyControllerNode(context=context, parameter_overrides=overrides)
        self._spin = SpinThread(self.node)
        self._spin.start()
        assert self.node.trigger_configure() == SUCCESS and self.node.trigger_activate() == SUCCESS

    def command_publisher(self):
        """The node's publisher of joint commands."""
        return next(p for p in self.node.publishers if p.topic_name == COMMANDS)

    def close(self) -> None:
        self._spin.stop()
        self.node.trigger_shutdown()
        self.node.destroy_node()


_shared: dict[str, object] = {}


@pytest.fixture(scope="module")
def bag(context, tmp_path_factory):
    """Folder of a recording of all commands of this file; ends when `_shared["recorder"]` does."""
    folder = tmp_path_factory.mktemp("bag")
    topic = f"{COMMANDS} series_elastic_actuator_msgs/msg/SeActuatorCommands"
    options = ("min_free:=0", f"folder:={folder}", f"topics:=['{topic}']")
    process = subprocess.Popen(
        [sys.executable, "-m", "policy_controller.record", "--ros-args"]
        + [part for option in options for part in ("-p", option)],
        env=os.environ | {"ROS_DOMAIN_ID": str(context.get_domain_id())},
    )
    _shared["recorder"] = process
    yield folder
    process.kill()
    process.wait()


@pytest.fixture(scope="module")
def robot_side(context, bag):
    """The robot's side."""
    robot = LockstepRobot(context, DEFAULT_POSE)
    yield robot
    robot.close()


@pytest.fixture
def walking(context, robot_side, files):
    """The robot, walking at WALKING; the node is made by the first test that needs it."""
    if "node" not in _shared:
        _shared["node"] = Running(context, lockstep=True, **files)
        # Asked of the node, not of the robot's side: what it sends before it knows them is lost.
        publisher = _shared["node"].command_publisher()
        count = publisher.get_subscription_count
        wait_for(lambda: count() >= 2, "recorder and robot to be known to the controller")
    robot_side.edit, robot_side.twist = (lambda message: None), (0.0, 0.0, 0.0)
    status = robot_side.run(3)
    if status.motion_state == S.FAULT:
        assert robot_side.trigger("clear_fault").success
        status = robot_side.run(1)
    if status.motion_state != S.WALK:
        robot_side.walk()
    robot_side.twist = WALKING
    robot_side.run(15)
    assert robot_side.statuses[-1].motion_state == S.WALK, robot_side.statuses[-1].detail
    return robot_side


@pytest.fixture(scope="module", autouse=True)
def end_node():
    """The shared node ends with the file."""
    yield
    node = _shared.pop("node", None)
    if node:
        node.close()


def begin(robot: LockstepRobot, fault: Fault) -> None:
    start_ns = robot.stamp_ns
    robot.edit = lambda message: fault.edit(message, (robot.stamp_ns - start_ns) // PERIOD_NS)
    robot.twist = fault.twist


def run_until_reason(robot: LockstepRobot, reason: Reason, ticks: int) -> S:
    for _ in range(ticks):
        status = robot.run(1)
        if reason in status.reasons:
            return status
    raise AssertionError(f"no {reason} within {ticks} ticks: {status.detail}")


def assert_damped(robot: LockstepRobot) -> None:
    """The command of the tick with the newest status damps all drives."""
    assert all(d.pid_gains_p == 0.0 < d.pid_gains_d for d in robot.commands[-1].commands)


def assert_latched(robot: LockstepRobot, status: S) -> None:
    """FAULT, damped, also when the cause is gone, and only an operator ends it."""
    assert status.motion_state == S.FAULT, status.detail
    assert_damped(robot)
    robot.edit, robot.twist = (lambda message: None), (0.0, 0.0, 0.0)
    status = robot.run(5)
    assert status.motion_state == S.FAULT
    assert_damped(robot)
    assert not robot.request(S.STAND).success


@pytest.mark.parametrize("reason", FAULTS)
def test_fault_leads_to_its_safe_state_in_time(walking, reason):
    fault = FAULTS[reason]
    (guard,) = [g for g in GUARDS if g.reason == reason]
    begin(walking, fault)
    status = run_until_reason(walking, reason, fault.ticks)
    if guard.outcome == Outcome.DAMPING:
        assert_latched(walking, status)
        return
    assert status.motion_state == S.WALK and set(status.reasons) <= {reason, *fault.also}
    if guard.outcome == Outcome.ZERO_COMMAND:
        walking.run(25)  # 0.3 m/s at 1.5 m/s^2
        assert walking.command_received((0.0, 0.0, 0.0))


def test_jump_of_the_clock(walking):
    walking.stamp_ns += 10 * PERIOD_NS
    assert_latched(walking, run_until_reason(walking, Reason.CLOCK_JUMP, 1))


def test_command_that_comes_back_counts_after_a_zero_one_only(walking):
    walking.twist = None
    run_until_reason(walking, Reason.COMMAND_STALE, 20)
    walking.run(20)
    walking.twist = WALKING
    status = run_until_reason(walking, Reason.COMMAND_NOT_REARMED, 5)
    walking.run(20)
    assert status.motion_state == S.WALK and walking.command_received((0.0, 0.0, 0.0))


def test_emergency_stop(walking):
    assert walking.trigger("emergency_stop").success
    assert_latched(walking, run_until_reason(walking, Reason.EMERGENCY_STOP, 1))


def test_second_publisher_of_commands(walking):
    """The graph is looked at once a second."""
    other = walking.node.create_publisher(SeActuatorCommands, COMMANDS, 1)
    end = time.monotonic() + 30.0
    while Reason.SECOND_PUBLISHER not in walking.run(1).reasons:
        assert time.monotonic() < end, "the second publisher was not noticed"
    assert walking.statuses[-1].motion_state == S.FAULT
    assert_damped(walking)
    walking.node.destroy_publisher(other)

    def over() -> bool:
        assert (
            walking.trigger("clear_fault").success or walking.statuses[-1].motion_state == S.PASSIVE
        )
        return Reason.SECOND_PUBLISHER not in walking.run(1).reasons

    wait_for(over, "the end of the second publisher to be noticed")


def test_state_that_stops_coming(walking, context, files):
    """In real time; when it damps is tested with the guard itself, on a clock of its own."""
    _shared.pop("node").close()
    node = Running(context, lockstep=False, **files)
    sending = threading.Event()
    sending.set()
    walking.twist = None

    def stream() -> None:
        while sending.is_set():
            walking.stamp_ns = node.node.get_clock().now().nanoseconds
            walking.publish_state()
            time.sleep(0.0025)

    walking.position = dict(zip(walking.names, (0.3, *DEFAULT_POSE[1:]), strict=True))
    sender = threading.Thread(target=stream)
    sender.start()
    try:
        motion = lambda: walking.statuses[-1].motion_state  # noqa: E731
        wait_for(lambda: walking.request(S.STAND).success, "standing up")
        wait_for(
            lambda: motion() == S.STAND_UP and walking.commands[-1].commands[0].pid_gains_p, ""
        )
        sending.clear()
        sender.join()
        wait_for(lambda: not walking.commands[-1].commands[0].pid_gains_p, "damping")
        wait_for(lambda: motion() == S.FAULT, "the status")
        assert Reason.STATE_STALE in walking.statuses[-1].reasons
        assert_damped(walking)
    finally:
        sending.clear()
        sender.join()
        node.close()


def test_no_bad_number_was_ever_commanded(bag, request):
    """Scan of the recording of all the tests above."""
    calls = [item.callspec for item in request.session.items if hasattr(item, "callspec")]
    if not FAULTS.keys() <= {call.params.get("reason") for call in calls}:
        pytest.skip("scans what the other tests of this file recorded; run the whole file")
    process = _shared["recorder"]
    process.send_signal(signal.SIGINT)
    assert process.wait(30) == 0
    reader = BagReader(next(bag.iterdir()))
    commands = [message.decode().commands for message in reader.read()]
    assert len(commands) > 1000 and not reader.unfinished
    rows = np.array(
        [
            [
                (
                    d.position,
                    d.velocity,
                    d.joint_torque,
                    d.pid_gains_p,
                    d.pid_gains_i,
                    d.pid_gains_d,
                )
                for d in command
            ]
            for command in commands
        ]
    )
    assert rows.shape[1:] == (12, 6) and np.isfinite(rows).all()
    upper = (NARROW, *UPPER[1:])
    assert (rows[:, :, 0] >= LOWER).all() and (rows[:, :, 0] <= upper).all()
    assert (rows[:, :, 3] >= 0.0).all() and (rows[:, :, 3] <= 200.0).all()
    assert (rows[:, :, 3].max(axis=1) == 0.0).any() and (rows[:, :, 3] == 85.0).any()
