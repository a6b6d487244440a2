"""Ctrl-C reaches all nodes of a launch file at once. The controller then lays the robot down, and
what it moves the robot through stays until it is done."""

from __future__ import annotations

import signal

import pytest
import yaml
from packages import ROOT

pytest.importorskip("rclpy")
pytest.importorskip("anymal_msgs")
pytest.importorskip("warp")

from anymal_msgs.msg import AnymalState  # noqa: E402

from policy_controller.verification.recorder import Topics  # noqa: E402

pytestmark = [pytest.mark.ros, pytest.mark.slow]

ROBOT = ROOT / "config" / "robot" / "anymal_d.yaml"
STAND_HEIGHT = yaml.safe_load(ROBOT.read_text())["stand_height"]  # m


def test_robot_lies_when_simulation_and_controller_have_ended(start, observer):
    shared = {"robot": ROBOT, "lockstep": "true"}
    bundle = {"bundle": ROOT / "config" / "bundles" / "anymal_d", "autostart": "true"}
    nodes = [
        start("anymal_bridge.sim_node", shared),
        start("policy_controller.node", shared | bundle),
    ]
    state = observer.watch(AnymalState, Topics.state)
    observer.until(state)
    observer.ask_until_granted("stand")
    observer.until(lambda: state().pose.pose.position.z > 0.95 * STAND_HEIGHT)
    for node in nodes:
        node.send_signal(signal.SIGINT)
        node.send_signal(signal.SIGINT)  # of the terminal, and of launch
    observer.until(lambda: all(node.poll() is not None for node in nodes))
    assert [node.returncode for node in nodes] == [0, 0]
    assert state().pose.pose.position.z < 0.3 * STAND_HEIGHT
