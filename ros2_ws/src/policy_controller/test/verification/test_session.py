"""What a session starts: the controller is the same process whatever leads to the robot."""

from __future__ import annotations

from pathlib import Path

import pytest

from policy_controller.bundle import load_bundle
from policy_controller.verification.scenario import load_scenario
from policy_controller.verification.session import Link, Setup

ROOT = Path(__file__).parents[5]
BUNDLE = ROOT / "config" / "bundles" / "anymal_d"


@pytest.fixture
def lines():
    """lines(link) -> command line of each node, by its name, in the order of their start."""
    bundle = load_bundle(BUNDLE)
    scenario = load_scenario(ROOT / "config" / "scenarios" / "demo.yaml")

    def make(link: Link) -> dict[str, str]:
        setup = Setup(
            BUNDLE,
            bundle,
            ROOT / "config" / "robot" / "anymal_d.yaml",
            scenario,
            lockstep=False,
            seed=0,
            real_time=False,
            link=link,
            roscore_port=11312,
        )
        return {command.name: command.line for command in setup.nodes()}

    return make


@pytest.mark.parametrize(
    ("link", "others"),
    [
        (Link.DIRECT, ["robot"]),
        (Link.ROS2, ["robot", "bridge"]),
        (Link.ROS1, ["roscore", "robot", "bridge"]),
    ],
)
def test_every_link_has_the_same_controller_and_its_own_way_to_the_robot(lines, link, others):
    started, direct = lines(link), lines(Link.DIRECT)
    assert list(started) == [*others, "controller"]
    assert started["controller"] == direct["controller"]


def test_bridge_does_send_and_meets_the_robot_on_its_topics_and_transport(lines):
    for link, transport in ((Link.ROS2, "ros2"), (Link.ROS1, "ros1")):
        started = lines(link)
        assert "dry_run:=false" in started["bridge"]
        assert f"transport:={transport}" in started["bridge"]
        assert f"transport:={transport}" in started["robot"]
        assert (
            "topics.commands:=/robot/motion_control_manager/actuator_commands" in started["robot"]
        )
    uri = "ros1_master_uri:=http://localhost:11312"
    assert uri in started["bridge"] and uri in started["robot"]
    assert "11312" in started["roscore"]
