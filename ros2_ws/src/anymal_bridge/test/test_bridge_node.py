"""The bridge between a controller of the test and the simulated robot, all over DDS.

The simulated robot has its topics under /robot, as the bridge's parameters expect them. Its own
command timeout gives damping with stamp 0, damping of the bridge carries the stamp of a state: so
the tests can tell who stopped the robot without measuring time. Timeouts are ten times those of
the robot, so that a busy machine does not trip them.
"""

import os
import signal
import time
from functools import partial
from pathlib import Path

import numpy as np
import pytest

pytest.importorskip("anymal_msgs", reason="needs the message packages")
pytest.importorskip("warp", reason="needs Warp")
pytestmark = pytest.mark.ros

from rcl_interfaces.srv import ListParameters  # noqa: E402
from rclpy.serialization import deserialize_message  # noqa: E402
from std_srvs.srv import Trigger  # noqa: E402

from anymal_bridge.conversions import CommandsWriter, stamp_to_ns  # noqa: E402
from anymal_bridge.interface import COMMANDS, DIAGNOSTICS, INTERFACE, READINGS, STATE  # noqa: E402
from anymal_bridge.joint_command import JointCommand, Mode  # noqa: E402
from anymal_bridge.robot_file import load_robot_file  # noqa: E402

START_S = 180.0
RELAXED = {
    "robot_command_timeout": 1.0,
    "guard.command_timeout": 0.6,
    "guard.state_timeout": 1.0,
}
ROBOT_SIDE = {
    f"topics.{topic.key}": f"/robot/{topic.name.removeprefix('/')}" for topic in INTERFACE
}


@pytest.fixture(scope="module")
def robot(request):
    return load_robot_file(request.config.rootpath / "config/robot/anymal_d.yaml")


class Controller:
    """Holds the robot where it is: answers every eighth state that comes from the bridge."""

    def __init__(self, peer, robot) -> None:
        self._node, self._robot = peer.node, robot
        self.writer = CommandsWriter(robot.joint_names)
        self._publisher = self._node.create_publisher(COMMANDS.type, COMMANDS.name, COMMANDS.qos)
        self._count = 0
        self.last_stamp_ns = 0
        self.targets: dict[int, list[float]] = {}  # sent, by stamp
        self._subscription = self._node.create_subscription(
            STATE.type, STATE.name, self._on_state, STATE.qos, raw=True
        )

    def _on_state(self, serialised: bytes) -> None:
        self._count += 1
        if self._count % 8:
            return
        message = deserialize_message(serialised, STATE.type)
        zero, one = np.zeros(12), np.ones(12)
        self.last_stamp_ns = stamp_to_ns(message.header.stamp)
        command = JointCommand(
            self.last_stamp_ns,
            Mode.PID_GAINS,
            np.array(message.joints.position),
            zero,
            zero,
            self._robot.kp * one,
            self._robot.kd * one,
        )
        self.targets[self.last_stamp_ns] = list(message.joints.position)
        self._publisher.publish(self.writer.write(command))

    def stop(self) -> None:
        self._node.destroy_subscription(self._subscription)
        self._node.destroy_publisher(self._publisher)


class Rig:
    """Simulated robot, bridge, and what of both is seen."""

    def __init__(
        self, start_node, peer, roscore=None, program="bridge_node", **bridge_parameters
    ) -> None:
        """With a ``roscore``, robot and bridge meet there, and readings are those of the bridge.
        ``program``: that is started as the bridge."""
        self.peer = peer
        link = {"transport": "ros1", "ros1_master_uri": roscore.uri} if roscore else {}
        self._start = partial(start_node, "sim_node", command_timeout=1.0, **link, **ROBOT_SIDE)
        self.start_robot()
        self.bridge = start_node(program, **RELAXED, **link, **bridge_parameters)
        self.robot_readings = peer.newest(
            READINGS, READINGS.name if roscore else f"/robot/{READINGS.name}"
        )
        self.sent = peer.collect(COMMANDS, f"/robot/{COMMANDS.name}")
        self.diagnostics = peer.collect(DIAGNOSTICS)
        peer.until(lambda: self.robot_readings() and self.diagnostics, timeout=START_S)

    def start_robot(self) -> None:
        """The simulated robot; again, when it was killed."""
        self.sim = self._start()

    def arm(self) -> Trigger.Response:
        return self.peer.call(Trigger, "/anymal_bridge/arm")

    def arm_when_it_lets(self) -> None:
        self.peer.until(lambda: self.arm().success)

    def obeyed(self) -> tuple[float, float, int]:
        """P, D and stamp of the command that the robot obeys."""
        commanded = self.robot_readings().readings[0].commanded
        stamp_ns = stamp_to_ns(commanded.header.stamp)
        return commanded.pid_gains_p, commanded.pid_gains_d, stamp_ns

    def guard(self) -> dict[str, str]:
        """Newest diagnostics of the guard."""
        (status,) = self.diagnostics[-1].status
        return {item.key: item.value for item in status.values} | {"message": status.message}


def test_dry_run_is_the_default_and_sends_nothing(start_node, peer, robot):
    rig = Rig(start_node, peer)
    Controller(peer, robot)
    rig.arm_when_it_lets()
    peer.until(lambda: rig.guard()["guard"] == "armed" and float(rig.guard()["commands_hz"]) > 0)
    peer.until(lambda: "would send mode PID_GAINS, P 85" in rig.bridge.output())
    assert rig.guard()["dry_run"] == "True"
    assert float(rig.guard()["sent_hz"]) == 0.0
    assert rig.sent == []
    assert rig.obeyed() == (0.0, 5.0, 0)


def test_commands_pass_only_when_armed_and_damping_follows_when_they_end(start_node, peer, robot):
    rig = Rig(start_node, peer, dry_run=False)
    controller = Controller(peer, robot)
    peer.until(lambda: rig.diagnostics and float(rig.guard()["commands_hz"]) > 0)
    assert rig.sent == [] and rig.guard()["guard"] == "disarmed"

    rig.arm_when_it_lets()
    peer.until(lambda: rig.sent and rig.obeyed()[:2] == (robot.kp, pytest.approx(robot.kd)))
    sent = rig.sent[-1].commands
    assert [command.name for command in sent] == list(robot.joint_names)
    stamp_ns = stamp_to_ns(sent[0].header.stamp)
    np.testing.assert_allclose([c.position for c in sent], controller.targets[stamp_ns])
    assert [command.mode for command in sent] == [13] * 12

    # The controller dies. The bridge damps before the robot's own 0.1 s are over.
    controller.stop()
    peer.until(lambda: rig.obeyed()[0] == 0.0)
    p, d, stamp_ns = rig.obeyed()
    assert (p, d) == (0.0, 5.0) and stamp_ns > controller.last_stamp_ns
    peer.until(lambda: "command_age" in rig.guard()["message"])

    # A controller that comes back changes nothing until an operator arms again.
    sent_before = len(rig.sent)
    again = Controller(peer, robot)
    peer.until(lambda: again.last_stamp_ns and len(rig.sent) > sent_before + 50)
    assert not any(c.pid_gains_p for m in rig.sent[sent_before:] for c in m.commands)
    rig.arm_when_it_lets()
    peer.until(lambda: rig.obeyed()[0] == robot.kp)

    # The operator stops it, then hands the robot over: nothing is sent any more.
    assert rig.peer.call(Trigger, "/anymal_bridge/stop").success
    peer.until(lambda: rig.obeyed()[0] == 0.0)
    assert rig.peer.call(Trigger, "/anymal_bridge/disarm").success
    peer.until(lambda: float(rig.guard()["sent_hz"]) == 0.0)


def test_bridge_damps_while_its_executor_is_blocked(start_node, peer, robot):
    """The controller goes on; but nothing takes its commands, nor counts publishers."""
    rig = Rig(start_node, peer, program="blocked_bridge.py", dry_run=False)
    controller = Controller(peer, robot)
    rig.arm_when_it_lets()
    peer.until(lambda: rig.obeyed()[0] == robot.kp)
    block = peer.node.create_client(Trigger, "/anymal_bridge/block")
    peer.until(block.service_is_ready)
    block.call_async(Trigger.Request())
    # Only damping of the bridge carries the stamp of a state.
    peer.until(lambda: rig.obeyed()[:2] == (0.0, 5.0) and rig.obeyed()[2] > 0)
    stamp_ns = rig.obeyed()[2]
    peer.until(lambda: controller.last_stamp_ns > stamp_ns + 10**9)  # it still sends springs
    assert rig.obeyed()[:2] == (0.0, 5.0) and rig.obeyed()[2] > stamp_ns
    # Ctrl-C ends it all the same, and it damps to the last.
    rig.bridge.process.send_signal(signal.SIGINT)
    peer.until(lambda: rig.bridge.process.poll() == 1)
    assert "did not end within" in rig.bridge.output()
    assert not any(command.pid_gains_p for command in rig.sent[-1].commands)


def test_wrong_joint_name_stops_the_robot(start_node, peer, robot):
    rig = Rig(start_node, peer, dry_run=False)
    controller = Controller(peer, robot)
    rig.arm_when_it_lets()
    peer.until(lambda: rig.obeyed()[0] == robot.kp)
    controller.writer.message.commands[4].name = "RF_XXX"
    peer.until(lambda: rig.obeyed()[0] == 0.0 and rig.obeyed()[2] > 0)
    peer.until(lambda: "RF_XXX" in rig.guard()["message"])
    assert rig.guard()["reason"] == "command_refused"


def test_second_publisher_on_either_side_stops_the_robot(start_node, peer, robot):
    rig = Rig(start_node, peer, dry_run=False)
    Controller(peer, robot)
    for name, reason in (
        (COMMANDS.name, "second_commander"),
        (f"/robot/{COMMANDS.name}", "second_driver"),
    ):
        rig.arm_when_it_lets()
        peer.until(lambda: rig.obeyed()[0] == robot.kp)
        intruder = peer.node.create_publisher(COMMANDS.type, name, COMMANDS.qos)
        peer.until(lambda: rig.obeyed()[0] == 0.0 and rig.obeyed()[2] > 0)
        peer.until(lambda reason=reason: rig.guard()["reason"] == reason)
        assert reason in rig.arm().message  # and it cannot be armed while the other is there
        peer.node.destroy_publisher(intruder)


def test_robot_error_stops_the_robot(start_node, peer, robot):
    rig = Rig(start_node, peer, dry_run=False)
    Controller(peer, robot)
    rig.arm_when_it_lets()
    peer.until(lambda: rig.obeyed()[0] == robot.kp)
    peer.set_parameters("/anymal_sim", fault__robot_state=-2)
    peer.until(lambda: rig.obeyed()[0] == 0.0 and rig.obeyed()[2] > 0)
    peer.until(lambda: "ERROR_ESTIMATOR" in rig.guard()["message"])


def test_robot_damps_by_itself_when_the_bridge_is_killed(start_node, peer, robot):
    """B37: kill -9, so nobody can say goodbye."""
    rig = Rig(start_node, peer, dry_run=False)
    Controller(peer, robot)
    rig.arm_when_it_lets()
    peer.until(lambda: rig.obeyed()[0] == robot.kp)
    rig.bridge.process.kill()
    peer.until(lambda: rig.obeyed() == (0.0, 5.0, 0))


def test_bridge_that_is_asked_to_end_stays_until_its_controller_has_ended(start_node, peer, robot):
    rig = Rig(start_node, peer, dry_run=False)
    controller = Controller(peer, robot)
    rig.arm_when_it_lets()
    peer.until(lambda: rig.sent and rig.obeyed()[0] == robot.kp)
    rig.bridge.process.send_signal(signal.SIGINT)
    peer.until(lambda: "ends when the controller has ended" in rig.bridge.output())
    sent = len(rig.sent)
    peer.until(lambda: len(rig.sent) > sent + 25 and rig.obeyed()[0] == robot.kp)
    assert rig.bridge.process.poll() is None
    controller.stop()
    peer.until(lambda: rig.bridge.process.poll() == 0)
    assert not any(command.pid_gains_p for command in rig.sent[-1].commands)


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_second_signal_ends_the_bridge_and_leaves_the_robot_damping(
    start_node, peer, robot, number
):
    rig = Rig(start_node, peer, dry_run=False)
    Controller(peer, robot)
    rig.arm_when_it_lets()
    peer.until(lambda: rig.sent and rig.obeyed()[0] == robot.kp)
    for _ in range(2):
        rig.bridge.process.send_signal(number)
        later = time.monotonic() + 1.5  # s, so that the two are not one Ctrl-C
        peer.until(lambda later=later: time.monotonic() > later)
    peer.until(lambda: rig.bridge.process.poll() == 0)
    assert not any(command.pid_gains_p for command in rig.sent[-1].commands)
    assert "Traceback" not in rig.bridge.output()


def test_robot_on_ros1_is_held_and_damped_like_one_on_ros2(start_node, peer, robot, roscore):
    rig = Rig(start_node, peer, roscore, dry_run=False)
    controller = Controller(peer, robot)
    rig.arm_when_it_lets()
    peer.until(lambda: rig.obeyed()[:2] == (robot.kp, pytest.approx(robot.kd)))
    readings = rig.robot_readings().readings
    commanded = [reading.commanded for reading in readings]
    assert [command.name for command in commanded] == list(robot.joint_names)
    assert {command.mode for command in commanded} == {13}
    stamp_ns = stamp_to_ns(commanded[0].header.stamp)
    np.testing.assert_array_equal([c.position for c in commanded], controller.targets[stamp_ns])

    controller.stop()
    peer.until(lambda: rig.obeyed()[0] == 0.0)
    assert rig.obeyed()[1] == 5.0 and rig.obeyed()[2] > controller.last_stamp_ns
    peer.until(lambda: "command_age" in rig.guard()["message"])


def test_ros1_robot_survives_the_loss_of_the_side_process(start_node, peer, robot, roscore):
    rig = Rig(start_node, peer, roscore, dry_run=False)
    Controller(peer, robot)
    rig.arm_when_it_lets()
    peer.until(lambda: rig.obeyed()[0] == robot.kp)
    (side,) = children(rig.bridge.process.pid)
    os.kill(side, signal.SIGKILL)
    peer.until(lambda: rig.guard()["guard"] == "latched")  # the robot was not heard any more
    rig.arm_when_it_lets()  # no restart of anything but the side process
    peer.until(lambda: rig.obeyed()[0] == robot.kp)


def test_ros1_robot_is_held_while_the_roscore_is_away_and_found_again(
    start_node, peer, robot, roscore
):
    rig = Rig(start_node, peer, roscore, dry_run=False)
    Controller(peer, robot)
    rig.arm_when_it_lets()
    peer.until(lambda: rig.obeyed()[0] == robot.kp)
    roscore.kill()
    peer.until(lambda: "no roscore" in rig.guard()["transport"])
    stamp_ns = rig.obeyed()[2]
    peer.until(lambda: rig.obeyed()[2] > stamp_ns + 10**9)  # commands go on for a second
    assert (rig.guard()["guard"], rig.obeyed()[0]) == ("armed", robot.kp)

    roscore.start()
    peer.until(lambda: rig.guard()["transport"] == "")
    rig.sim.process.kill()  # and a robot that registers with the new roscore is found
    # Commands end with the states. Until the last state is too old the bridge could be armed again.
    peer.until(lambda: "state_age" in rig.arm().message)
    stamp_ns = rig.obeyed()[2]
    rig.start_robot()
    rig.arm_when_it_lets()
    peer.until(lambda: rig.obeyed()[0] == robot.kp and rig.obeyed()[2] > stamp_ns, timeout=START_S)


def children(pid: int) -> list[int]:
    """Process ids of the children of a process, whichever thread started them."""
    lists = Path(f"/proc/{pid}/task").glob("*/children")
    return [int(word) for path in lists for word in path.read_text().split()]


def endpoints(peer, node_name: str) -> dict[str, tuple]:
    """Topic -> (direction, type, reliability, durability) of one running node."""
    result = {}
    for name, _ in peer.node.get_topic_names_and_types():
        for direction, infos in (
            ("published", peer.node.get_publishers_info_by_topic(name)),
            ("subscribed", peer.node.get_subscriptions_info_by_topic(name)),
        ):
            for info in infos:
                if info.node_name == node_name:
                    qos = info.qos_profile
                    result[name] = (
                        direction,
                        info.topic_type,
                        qos.reliability.name,
                        qos.durability.name,
                    )
    return {name: value for name, value in result.items() if name not in ROS_OWN}


def absolute(name: str) -> str:
    """Name of a topic for a node that has no namespace."""
    return f"/{name.removeprefix('/')}"


ROS_OWN = ("/rosout", "/parameter_events")
ROS_PARAMETERS = ("use_sim_time", "qos_overrides", "start_type_description_service")


def test_simulated_robot_and_bridge_have_the_same_interface(start_node, peer):
    """Names, directions, types and QoS, as the graph has them, and as the table says."""
    start_node("sim_node", start_pose="standing")
    start_node("bridge_node")
    table = {
        absolute(topic.name): (
            topic.direction.value,
            f"{topic.type.__module__.split('.')[0]}/msg/{topic.type.__name__}",
            topic.qos.reliability.name,
            topic.qos.durability.name,
        )
        for topic in INTERFACE
    }
    for node in ("anymal_sim", "anymal_bridge"):
        found: dict[str, tuple] = {}

        def complete(node=node, found=found) -> bool:
            found.update(endpoints(peer, node))
            return found.keys() >= table.keys()

        peer.until(complete, START_S, lambda found=found: f"{sorted(table.keys() - found.keys())}")
        assert found == table, node


def test_documentation_names_every_topic_and_parameter(start_node, peer, request):
    text = (request.config.rootpath / "docs/interfaces.md").read_text()
    for topic in INTERFACE:
        assert f"`{topic.name}`" in text and topic.type.__name__ in text
    start_node("sim_node", start_pose="standing")
    start_node("bridge_node")
    for node in ("anymal_sim", "anymal_bridge"):
        names = peer.call(ListParameters, f"/{node}/list_parameters").result.names
        ours = [name for name in names if not name.startswith(("topics.", *ROS_PARAMETERS))]
        missing = [name for name in ours if name.split(".")[-1] not in text]
        assert len(ours) > 10 and missing == []
