"""What config/anymal.rviz and config/anymal.foxglove.json show exists: each topic and service in
the graph of running nodes with the type that is meant, each field of a plot in that type."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from importlib import import_module

import pytest
import yaml
from packages import ROOT

pytest.importorskip("rclpy")
pytest.importorskip("anymal_msgs")
pytest.importorskip("warp")

pytestmark = [pytest.mark.ros, pytest.mark.slow]

ROBOT = ROOT / "config" / "robot" / "anymal_d.yaml"
RVIZ_TYPES = {
    "rviz_default_plugins/RobotModel": "std_msgs/msg/String",
    "rviz_default_plugins/Odometry": "nav_msgs/msg/Odometry",
}
TRIGGER = "std_srvs/srv/Trigger"
LAYER_TYPES = {"topic": "std_msgs/msg/String", "jointStatesTopic": "sensor_msgs/msg/JointState"}


def rviz_topics() -> dict[str, str]:
    """Topic -> type, of the displays that have one."""
    content = yaml.safe_load((ROOT / "config" / "anymal.rviz").read_text())
    topics = {}
    for display in content["Visualization Manager"]["Displays"]:
        for key in ("Topic", "Description Topic"):
            if key in display:
                topics[display[key]["Value"]] = RVIZ_TYPES[display["Class"]]
    return topics


class Foxglove:
    """What the layout names."""

    def __init__(self) -> None:
        self.content = json.loads((ROOT / "config" / "anymal.foxglove.json").read_text())
        self.topics: dict[str, str] = {}
        self.services: dict[str, str] = {}
        self.paths: list[str] = []
        for name, panel in self.content["configById"].items():
            self.paths += [path["value"] for path in panel.get("paths", ())]
            kind = name.partition("!")[0]
            if kind == "3D":
                self.topics |= dict.fromkeys(panel["topics"], "nav_msgs/msg/Odometry")
                for layer in panel["layers"].values():
                    self.topics |= {layer[k]: t for k, t in LAYER_TYPES.items() if k in layer}
            elif kind == "DiagnosticSummary":
                self.topics[panel["topicToRender"]] = "diagnostic_msgs/msg/DiagnosticArray"
            elif kind == "CallService":
                self.services[panel["serviceName"]] = TRIGGER

    def placed(self) -> list[str]:
        """Panels that the layout shows."""

        def leaves(part) -> Iterator[str]:
            if isinstance(part, str):
                yield part
            else:
                yield from leaves(part["first"])
                yield from leaves(part["second"])

        return list(leaves(self.content["layout"]))


def resolve(kind: str, fields: str) -> str:
    """Type of ``.a.b[3].c`` in a message type. AssertionError if there is no such field."""
    for name, index in re.findall(r"\.(\w+)(\[\d+\])?", fields):
        package, message = kind.split("/")[0], kind.split("/")[-1]
        known = getattr(import_module(f"{package}.msg"), message).get_fields_and_field_types()
        assert name in known, f"{kind} has no {name}"
        kind = known[name]
        element = re.fullmatch(r"sequence<(.+?)(?:, \d+)?>|(.+)\[\d+\]", kind)
        assert bool(element) == bool(index), f"{name} is {kind}"
        kind = next(filter(None, element.groups())) if element else kind
    return kind


def test_fields_are_looked_for_in_the_type():
    """If the search found everything, the test below would prove nothing."""
    state = "anymal_msgs/msg/AnymalState"
    assert resolve(state, ".contacts[1].wrench.force.z") == "double"
    for wrong in (".contact[1]", ".contacts.state", ".pose.pose.position[0]"):
        with pytest.raises(AssertionError):
            resolve(state, wrong)


def test_every_panel_is_placed_once():
    foxglove = Foxglove()
    assert sorted(foxglove.placed()) == sorted(foxglove.content["configById"])


def test_everything_that_is_shown_exists(start, observer):
    foxglove, rviz = Foxglove(), rviz_topics()
    assert len(rviz) == 2 and len(foxglove.paths) > 15
    shared = {"robot": ROBOT, "lockstep": "true", "start_pose": "standing"}
    bundle = {"bundle": ROOT / "config" / "bundles" / "anymal_d", "autostart": "true"}
    start("anymal_bridge.sim_node", shared)
    start("policy_controller.node", {"robot": ROBOT} | bundle)
    plotted = {path.split(".")[0] for path in foxglove.paths}
    wanted = plotted | rviz.keys() | foxglove.topics.keys() | foxglove.services.keys()

    def graph() -> dict[str, list[str]]:
        node = observer.node
        return dict(node.get_topic_names_and_types() + node.get_service_names_and_types())

    found: dict[str, list[str]] = {}  # all that was ever seen: a busy node may be lost for a while

    def complete() -> bool:
        found.update(graph())
        return wanted <= found.keys()

    observer.until(complete, what=lambda: f"{sorted(wanted - found.keys())}")
    for name, kind in (rviz | foxglove.topics | foxglove.services).items():
        assert found[name] == [kind], name
    for path in foxglove.paths:
        topic = path.split(".")[0]
        assert "/" not in resolve(found[topic][0], path.removeprefix(topic)), "no number to plot"
