"""Robots in namespaces do not meet: all that the nodes name is relative to theirs."""

from __future__ import annotations

import pytest
from packages import ROOT

pytest.importorskip("rclpy")
pytest.importorskip("anymal_msgs")
pytest.importorskip("warp")

from anymal_msgs.msg import AnymalState  # noqa: E402
from footlight_msgs.msg import ControllerStatus  # noqa: E402

pytestmark = [pytest.mark.ros, pytest.mark.slow]

ROBOT = ROOT / "config" / "robot" / "anymal_d.yaml"
INSIDE = {
    "/alpha/policy_controller/cmd_vel",
    "/alpha/joy",
    "/alpha/robot/motion_control_manager/actuator_commands",
}
SHARED_BY_ALL = {"/diagnostics", "/rosout", "/parameter_events"}


def test_nodes_in_a_namespace_stay_in_it_and_find_each_other(start, observer):
    """Robot, bridge, controller and teleop, with their parameter files as the launch
    files give them. The robot is where the bridge looks for it: in `robot` below its own."""
    config = ROOT / "config"
    bundle = {"bundle": config / "bundles" / "anymal_d", "autostart": "true"}
    for module, file, parameters, namespace in (
        ("anymal_bridge.sim_node", "sim", {"robot": ROBOT}, "/alpha/robot"),
        ("anymal_bridge.bridge_node", "bridge", {"robot": ROBOT}, "/alpha"),
        ("policy_controller.node", "controller", {"robot": ROBOT} | bundle, "/alpha"),
        ("policy_controller.teleop.node", "teleop/xbox", {}, "/alpha"),
    ):
        file = config / f"{file}.yaml"
        start(module, parameters, "--params-file", file, "-r", f"__ns:={namespace}")
    state = observer.watch(AnymalState, "/alpha/state_estimator/anymal_state")
    status = observer.watch(ControllerStatus, "/alpha/policy_controller/status")
    observer.until(lambda: state() and status(), what="the controller's status")
    observer.until(lambda: status().motion_state == ControllerStatus.PASSIVE)
    observer.until(lambda: status().state_age < 1.0, what="the robot's state in the controller")
    node = observer.node

    def names() -> set[str]:
        return {name for name, _ in node.get_topic_names_and_types()}

    # One of each node, and its last one: then its others are known as well.
    observer.until(lambda: names() >= INSIDE, what=lambda: f"{sorted(INSIDE - names())}")
    outside = {name for name in names() if not name.startswith("/alpha/")}
    for name in outside - SHARED_BY_ALL:  # the observer's own
        ends = node.get_publishers_info_by_topic(name) + node.get_subscriptions_info_by_topic(name)
        assert {end.node_name for end in ends} == {"observer"}, name
