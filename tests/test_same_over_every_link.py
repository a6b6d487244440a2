"""The controller's process commands the same, bit for bit, whatever leads to the robot.

One walk of the simulated robot under the pure control step is recorded first. Its states are then
sent, stamp by stamp, by a robot of this test: with the controller's own topics, through the bridge
from a robot on ROS 2, and through the bridge from a robot on a roscore. The controller is a process
of its own, in lockstep, so that it answers states and not the time.
"""

from __future__ import annotations

import itertools
import socket
import subprocess
import time
from collections.abc import Callable
from dataclasses import dataclass
from shutil import which

import numpy as np
import pytest
from packages import ROOT

pytest.importorskip("rclpy")
pytest.importorskip("anymal_msgs")
pytest.importorskip("warp")
pytest.importorskip("onnxruntime")

from guarded_robot import BUNDLE, ROBOT, GuardedRobot  # noqa: E402

from anymal_bridge.conversions import StateWriter, read_commands  # noqa: E402
from anymal_bridge.interface import COMMANDS, READINGS, STATE  # noqa: E402
from anymal_bridge.joint_command import JointCommand, damping_command  # noqa: E402
from anymal_bridge.robot_file import load_robot_file  # noqa: E402
from anymal_bridge.robot_sample import RobotSample  # noqa: E402
from anymal_bridge.ros1.link import check_ros1  # noqa: E402
from anymal_bridge.ros1.robot_side import Ros1RobotSide  # noqa: E402
from anymal_bridge.transport import RobotTopics  # noqa: E402
from policy_controller.motion import MotionState  # noqa: E402

pytestmark = [pytest.mark.ros, pytest.mark.slow]

PERIOD_NS = 20_000_000
VELOCITY = (0.4, 0.1, 0.3)
WALK_TICKS = 75
Publish = Callable[[int, RobotSample], None]  # stamp in ns, sample


@dataclass
class Script:
    """States of a walk, one per control period; when a motion state is asked for, and what the pure
    control step commands: position, P and D, each [12]."""

    samples: list[RobotSample]
    requests: dict[int, str]  # before this tick
    commands: list[np.ndarray]


@pytest.fixture(scope="module")
def script() -> Script:
    return record_script()


def record_script() -> Script:
    samples, requests, commands = [], {}, []
    robot = GuardedRobot()
    robot.velocity = VELOCITY

    def tick() -> None:
        robot.run(PERIOD_NS * 1e-9)
        sample = RobotSample()
        sample.copy_from(robot.sim.report())
        samples.append(sample)
        command = robot.result.command
        commands.append(np.array((command.position, command.kp, command.kd)))

    def ask(motion: MotionState) -> None:
        robot.request(motion)
        requests[len(samples)] = motion.name.lower()

    tick()
    ask(MotionState.STAND)
    while robot.controller.motion is not MotionState.STAND:
        tick()
    for _ in range(25):
        tick()
    ask(MotionState.WALK)
    for _ in range(WALK_TICKS):
        tick()
    assert robot.controller.motion is MotionState.WALK, robot.result.detail
    return Script(samples, requests, commands)


def play(script: Script, publish: Publish, observer) -> list[np.ndarray]:
    """Send the states, each when the one before it is answered; returns the answers."""
    joint_names = load_robot_file(ROBOT).joint_names
    answers: dict[int, JointCommand] = {}

    def take(message) -> None:
        command = read_commands(message, joint_names)
        answers[command.stamp_ns] = command

    observer.node.create_subscription(COMMANDS.type, COMMANDS.name, take, COMMANDS.qos)
    stamps_ns = itertools.count(PERIOD_NS, PERIOD_NS)

    # A state is answered once, and DDS finds its peers in any order: an answer that came before
    # this node was found is lost. So the first state is sent under new stamps until one is heard.
    def heard() -> bool:
        publish(next(stamps_ns), script.samples[0])
        return bool(answers)

    observer.until(heard, what="any answer")
    commands = []
    for sample in script.samples:
        stamp_ns = next(stamps_ns)
        if request := script.requests.get(len(commands)):
            observer.operator.request_motion_state(request, timeout=60.0)
        observer.operator.command(VELOCITY)
        again = 0.0

        def answered(stamp_ns=stamp_ns, sample=sample) -> bool:
            nonlocal again
            if time.monotonic() > again:  # best effort may have lost it
                publish(stamp_ns, sample)
                again = time.monotonic() + 1.0
            return stamp_ns in answers

        observer.until(answered, what=f"an answer to state {len(commands)}")
        answer = answers[stamp_ns]
        commands.append(np.array((answer.position, answer.kp, answer.kd)))
    return commands


@pytest.fixture
def direct(observer) -> Publish:
    """The controller's own topics."""
    return ros2_robot(observer.node, STATE.name)


@pytest.fixture
def ros2(start, observer) -> Publish:
    """Through the bridge, from a robot on ROS 2."""
    start("anymal_bridge.bridge_node", {"robot": ROBOT})
    return ros2_robot(observer.node, f"/robot/{STATE.name}")


def ros2_robot(node, topic: str) -> Publish:
    robot = load_robot_file(ROBOT)
    writer = StateWriter(robot.joint_names, robot.foot_names)
    states = node.create_publisher(STATE.type, topic, STATE.qos)
    return lambda stamp_ns, sample: states.publish(writer.write(stamp_ns, sample, 0.8))


@pytest.fixture
def ros1(start, tmp_path, monkeypatch):
    """Through the bridge, from a robot on a roscore."""
    if reason := check_ros1() or ("" if which("rosmaster") else "no rosmaster"):
        pytest.skip(reason)
    monkeypatch.setenv("ROS_HOSTNAME", "localhost")
    monkeypatch.setenv("ROS_LOG_DIR", str(tmp_path))
    reserved = socket.socket()
    # With this option rosmaster may bind the port as well, but nobody else is given it.
    reserved.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    reserved.bind(("localhost", 0))
    port = reserved.getsockname()[1]
    roscore = subprocess.Popen(["rosmaster", "--core", "-p", str(port)])
    uri = f"http://localhost:{port}"
    link = {"transport": "ros1", "ros1_master_uri": uri}
    start("anymal_bridge.bridge_node", {"robot": ROBOT} | link)
    robot = load_robot_file(ROBOT)
    topics = RobotTopics(*(f"/robot/{topic.name}" for topic in (STATE, READINGS, COMMANDS)))
    side = Ros1RobotSide(
        topics, robot.joint_names, robot.foot_names, uri, False, lambda _: None, lambda _: None
    )
    obeyed = damping_command(0, 5.0)
    yield lambda stamp_ns, sample: side.publish(stamp_ns, sample, obeyed, 0.8)
    side.close()
    roscore.kill()
    roscore.wait()
    reserved.close()


@pytest.mark.parametrize("link", ["direct", "ros2", "ros1"])
def test_process_commands_what_the_pure_control_step_commands(
    script, link, request, start, observer
):
    publish = request.getfixturevalue(link)
    parameters = {"bundle": BUNDLE, "robot": ROBOT, "lockstep": "true", "autostart": "true"}
    file = ROOT / "config" / "controller.yaml"
    start("policy_controller.node", parameters, "--params-file", file)
    commands = np.array(play(script, publish, observer))
    expected = np.array(script.commands)
    assert len(commands) == len(expected) > 150
    assert np.ptp(expected[-WALK_TICKS:, 0], axis=0).min() > 0.01  # every target moves
    assert commands[:, 0].tobytes() == expected[:, 0].tobytes()
    gains = expected[:, 1:].astype(np.float32).astype(np.float64)  # as the message has them
    assert commands[:, 1:].tobytes() == gains.tobytes()
