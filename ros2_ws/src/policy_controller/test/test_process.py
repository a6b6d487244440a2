"""The whole process: it starts by itself, and ends slowly and cleanly on a signal."""

from __future__ import annotations

import gc
import itertools
import os
import signal
import subprocess
import sys

import pytest

rclpy = pytest.importorskip("rclpy")
pytest.importorskip("anymal_msgs")

from domain_coordinator import domain_id  # noqa: E402
from footlight_msgs.msg import ControllerStatus as S  # noqa: E402
from lifecycle_msgs.msg import State  # noqa: E402
from lifecycle_msgs.srv import GetState  # noqa: E402
from lockstep_robot import PATIENCE, LockstepRobot, wait_for  # noqa: E402

from policy_controller.bundle import save_bundle  # noqa: E402

pytestmark = pytest.mark.ros

LYING = (-0.05, 1.57, -2.75, 0.05, 1.57, -2.75, -0.05, -1.57, 2.75, 0.05, -1.57, 2.75)


@pytest.fixture
def domain(monkeypatch):
    """A ROS domain for this test and its child."""
    gc.collect()  # a lifecycle node stays in the graph while anything refers to it
    numbers = itertools.count(os.getpid())
    with domain_id(lambda: next(numbers) % 100 + 1) as number:
        monkeypatch.setenv("ROS_DOMAIN_ID", str(number))
        monkeypatch.setenv("ROS_AUTOMATIC_DISCOVERY_RANGE", "LOCALHOST")
        yield number


@pytest.fixture
def robot_side(domain):
    """The other side of the topics."""
    context = rclpy.Context()
    rclpy.init(context=context, domain_id=domain)
    robot = LockstepRobot(context, LYING)
    yield robot
    robot.close()
    rclpy.shutdown(context=context)


@pytest.fixture
def launch(domain, tmp_path, robot_file, make_bundle):
    """launch(parameter=value, ...) -> the running process; killed at the end if it still runs."""
    save_bundle(tmp_path / "bundle", make_bundle())
    processes = []

    def start(**changes):
        values = dict(
            bundle=tmp_path / "bundle", robot=robot_file, lockstep="true", autostart="true"
        )
        options = [f"{name}:={value}" for name, value in (values | changes).items()]
        processes.append(
            subprocess.Popen(
                [sys.executable, "-m", "policy_controller.node", "--ros-args"]
                + [part for option in options for part in ("-p", option)],
                stderr=subprocess.PIPE,
                text=True,
            )
        )
        return processes[-1]

    yield start
    for process in processes:
        process.kill()
        process.communicate()


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_signal_while_walking_lays_the_robot_down(launch, robot_side, number):
    process = launch()
    robot_side.twist = (0.5, 0.0, 0.0)
    robot_side.walk()
    process.send_signal(number)
    stopping = [robot_side.run(1)]
    wait_for(
        lambda: stopping.append(robot_side.run(1)) or "stopping" in stopping[-1].detail, "stop"
    )
    process.send_signal(number)  # as launch does
    seen = list(stopping)
    while seen[-1].motion_state != S.PASSIVE:
        seen.append(robot_side.run(1))
        assert len(seen) < 600
    process.wait(PATIENCE)
    assert process.returncode == 0, process.stderr.read()
    order = list(dict.fromkeys(status.motion_state for status in seen))
    assert order == [S.WALK, S.STAND, S.LIE_DOWN, S.PASSIVE]
    assert all(d.pid_gains_p == 0.0 for d in robot_side.commands[-1].commands)
    assert robot_side.bad_numbers() == []


def test_signal_ends_the_process_even_if_the_robot_is_gone(launch, robot_side):
    process = launch()
    robot_side.run(2)
    robot_side.request(S.STAND)
    robot_side.run(5)
    process.send_signal(signal.SIGINT)  # no more states: no tick, no way to lie down
    process.wait(PATIENCE)
    assert process.returncode == 0
    assert "not at rest: LIE_DOWN; damping now" in process.stderr.read()
    wait_for(lambda: all(d.pid_gains_p == 0.0 for d in robot_side.commands[-1].commands), "damping")


def test_autostart_that_is_refused_ends_the_process(launch):
    process = launch(bundle="/absent")
    process.wait(PATIENCE)
    assert process.returncode == 1
    assert "/absent refused" in process.stderr.read()


@pytest.mark.parametrize("arguments", [("--params-file", "/absent.yaml"), ("-p", "bundle:=")])
def test_ros_arguments_that_cannot_be_read_are_named(arguments):
    command = [sys.executable, "-m", "policy_controller.node", "--ros-args", *arguments]
    process = subprocess.run(command, capture_output=True, text=True, timeout=PATIENCE)
    assert process.returncode == 1
    assert arguments[1] in process.stderr and "allowed: -p NAME:=VALUE" in process.stderr


def test_without_autostart_the_node_waits(launch, robot_side):
    process = launch(autostart="false")
    client = robot_side.node.create_client(GetState, "/policy_controller/get_state")
    answer = robot_side.call(client, GetState.Request())
    assert answer.current_state.id == State.PRIMARY_STATE_UNCONFIGURED
    process.send_signal(signal.SIGINT)
    process.wait(PATIENCE)
    assert process.returncode == 0, process.stderr.read()
    assert robot_side.commands == []
