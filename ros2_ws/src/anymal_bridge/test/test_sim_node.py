"""The simulated robot as a process, over DDS."""

import itertools
import shlex
import signal
import struct
from collections import deque

import numpy as np
import pytest
import yaml

pytest.importorskip("anymal_msgs", reason="needs the message packages")
pytest.importorskip("warp", reason="needs Warp")
pytestmark = pytest.mark.ros

from anymal_msgs.msg import AnymalState, Contact  # noqa: E402
from rcl_interfaces.msg import Parameter as ParameterMessage  # noqa: E402
from rcl_interfaces.msg import ParameterValue  # noqa: E402
from rcl_interfaces.srv import GetParameters, SetParameters  # noqa: E402
from rosgraph_msgs.msg import Clock  # noqa: E402
from std_srvs.srv import Trigger  # noqa: E402

from anymal_bridge.conversions import CommandsWriter, StateReader, stamp_to_ns  # noqa: E402
from anymal_bridge.interface import (  # noqa: E402
    COMMANDS,
    DIAGNOSTICS,
    IMU,
    JOINT_STATES,
    ODOMETRY,
    READINGS,
    ROBOT_DESCRIPTION,
    STATE,
)
from anymal_bridge.joint_command import JointCommand, Mode  # noqa: E402
from anymal_bridge.robot_file import load_robot_file  # noqa: E402

STEP_NS = 2_500_000
PERIOD_NS = 20_000_000
FIRST_START_S = 180.0


@pytest.fixture(scope="module")
def robot(request):
    return load_robot_file(request.config.rootpath / "config/robot/anymal_d.yaml")


class Commander:
    """Answers the states of a robot, one per control period, as a controller in lockstep does."""

    def __init__(self, peer, robot, target_of, kp: float, kd: float) -> None:
        """``target_of`` (sample) -> joint targets [12], rad."""
        self._target_of = target_of
        self._reader = StateReader(robot.joint_names, robot.foot_names)
        self._writer = CommandsWriter(robot.joint_names)
        self._gains = np.full(12, kp), np.full(12, kd)
        self._publisher = peer.node.create_publisher(COMMANDS.type, COMMANDS.name, COMMANDS.qos)
        self.answered_ns: list[int] = []
        self.states: list[np.ndarray] = []  # answered ones
        self._subscription = peer.node.create_subscription(
            STATE.type, STATE.name, self._on_state, STATE.qos
        )
        self._node = peer.node

    def stop(self) -> None:
        """No answer from now on."""
        self._node.destroy_subscription(self._subscription)
        self._node.destroy_publisher(self._publisher)

    def _on_state(self, message: AnymalState) -> None:
        stamp_ns = stamp_to_ns(message.header.stamp)
        if self.answered_ns and stamp_ns < self.answered_ns[-1] + PERIOD_NS - 1000:
            if stamp_ns != self.answered_ns[-1]:
                return
            # The robot sends a state again when its answer may be lost.
            self._publisher.publish(self._writer.message)
            return
        sample = self._reader.read(message)
        target = self._target_of(sample)
        zero = np.zeros(12)
        command = JointCommand(stamp_ns, Mode.PID_GAINS, target, zero, zero, *self._gains)
        self._publisher.publish(self._writer.write(command))
        self.answered_ns.append(stamp_ns)
        self.states.append(sample.state.copy())


def test_robot_tells_its_state_400_times_a_second(start_node, peer):
    start_node("sim_node")
    stamps = deque(maxlen=400)
    # Stamps only, straight from the serialised message, so that this process can keep up.
    peer.node.create_subscription(
        STATE.type,
        STATE.name,
        lambda data: stamps.append(struct.unpack_from("<iI", data, 4)),
        STATE.qos,
        raw=True,
    )

    def median_period_ns() -> float:
        return np.median(np.diff([sec * 10**9 + ns for sec, ns in stamps]))

    # A busy machine may need several attempts; a robot of another rate never gets there.
    peer.until(
        lambda: len(stamps) == 400 and abs(median_period_ns() / STEP_NS - 1.0) < 0.1,
        timeout=FIRST_START_S,
    )
    assert sorted(stamps) == list(stamps)


def test_lying_robot_is_at_rest_and_complete(start_node, peer, robot):
    start_node("sim_node")
    newest_state, newest_readings = peer.newest(STATE), peer.newest(READINGS)
    joint_states, odometry, imu = map(peer.collect, (JOINT_STATES, ODOMETRY, IMU))
    peer.until(lambda: newest_state() and newest_readings(), timeout=FIRST_START_S)
    first = newest_state()
    peer.until(lambda: len(joint_states) > 25 and odometry and imu)
    last, readings = newest_state(), newest_readings().readings

    assert last.state == AnymalState.STATE_OK
    assert tuple(last.joints.name) == robot.joint_names
    assert tuple(contact.name for contact in last.contacts) == robot.foot_names
    assert (last.header.frame_id, last.twist.header.frame_id) == ("odom", "base")
    # Lying on the ground, not sinking, not sliding.
    for axis in "xyz":
        moved = getattr(last.pose.pose.position, axis) - getattr(first.pose.pose.position, axis)
        assert abs(moved) < 1e-3
    assert 0.05 < last.pose.pose.position.z < 0.3 * robot.stand_height
    np.testing.assert_allclose(last.joints.position, robot.lying_pose, atol=0.1)
    assert max(map(abs, last.joints.velocity)) < 0.01

    assert [reading.state.name for reading in readings] == list(robot.joint_names)
    commanded = readings[0].commanded
    assert (commanded.pid_gains_p, commanded.pid_gains_d) == (0.0, 5.0)
    assert joint_states[-1].name == list(robot.joint_names)
    assert (odometry[-1].header.frame_id, odometry[-1].child_frame_id) == ("odom", "base")
    assert imu[-1].header.frame_id == "base" and abs(imu[-1].orientation.w) > 0.99
    assert imu[-1].linear_acceleration_covariance[0] == -1.0  # there is none


def test_description_reaches_who_comes_later(start_node, peer, robot):
    start_node("sim_node", start_pose="standing")
    state = peer.newest(STATE)
    peer.until(state, timeout=FIRST_START_S)
    descriptions = peer.collect(ROBOT_DESCRIPTION)
    peer.until(lambda: descriptions)
    assert descriptions[0].data == robot.path.with_name("anymal_d.urdf").read_text()
    assert all(f'name="{name}"' in descriptions[0].data for name in robot.joint_names)


def test_robot_stands_up_and_stays(start_node, peer, robot):
    """From lying to the default pose in 1.5 s by joint interpolation, then 1 s of standing."""
    start_node("sim_node", lockstep=True)
    lying, answers = [], itertools.count()

    def interpolate(sample):
        lying.append(sample.state[13:25].copy())
        share = min(next(answers) / 75, 1.0)
        return (1.0 - share) * lying[0] + share * robot.default_pose

    states, clock = peer.collect(STATE), []
    peer.node.create_subscription(Clock, "/clock", clock.append, 10)
    commander = Commander(peer, robot, interpolate, kp=200.0, kd=2.0)
    peer.until(lambda: len(commander.states) > 125, timeout=FIRST_START_S)

    heights = np.array([state[2] for state in commander.states])
    np.testing.assert_allclose(heights[-25:], robot.stand_height, atol=0.06)
    assert np.ptp(heights[-25:]) < 0.01
    contacts = states[-1].contacts
    assert [contact.state for contact in contacts] == [Contact.STATE_CLOSED] * 4
    assert [contact.position.z for contact in contacts] == pytest.approx([0.0] * 4, abs=2e-3)
    weight = 57.03 * 9.81
    assert sum(c.wrench.force.z for c in contacts) == pytest.approx(weight, rel=0.05)
    # Every control period was answered, on the grid; /clock is the time of the states.
    assert np.diff(commander.answered_ns).tolist() == [PERIOD_NS] * (len(commander.states) - 1)
    peer.until(lambda: clock[-1].clock == states[-1].header.stamp)


def test_lockstep_runs_are_equal_bit_for_bit(start_node, peer, robot):
    """Two processes, commands that depend on the state alone, noise from one seed: equal states."""
    noise = {"noise.joint_position": 0.01, "noise.linear_velocity": 0.05, "seed": 3}

    def scatter(sample):
        random = np.random.default_rng(sample.state.view(np.uint64))
        return robot.default_pose + random.uniform(-0.1, 0.1, 12)

    def run() -> np.ndarray:
        node = start_node("sim_node", lockstep=True, start_pose="standing", **noise)
        commander = Commander(peer, robot, scatter, robot.kp, robot.kd)
        peer.until(lambda: len(commander.states) > 150, timeout=FIRST_START_S)
        commander.stop()
        assert node.end() == 0
        states = np.array(commander.states)
        # How long the robot was held before the first answer came is up to the host.
        held = (states == states[0]).all(axis=1).sum()
        return states[held:][:120]

    first, second = run(), run()
    assert len(first) == 120 and np.ptp(first[:, 2]) > 0.01
    assert first.tobytes() == second.tobytes()


def test_ground_truth_is_the_state_without_noise(start_node, peer, robot):
    """Of a robot that is held in its start pose, since nobody answers."""
    noise = {"noise.joint_position": 0.05}
    start_node("sim_node", lockstep=True, start_pose="standing", **noise)
    states, truths = peer.collect(STATE), peer.collect(STATE, "/anymal_sim/ground_truth")
    peer.until(lambda: len(states) > 20 and len(truths) > 20, timeout=FIRST_START_S)
    told = np.array([state.joints.position for state in states])
    true = np.array([truth.joints.position for truth in truths])
    np.testing.assert_allclose(true, np.tile(robot.default_pose, (len(true), 1)), atol=1e-6)
    assert np.abs(told - true[0]).max(axis=1).min() > 0.01


def test_robot_damps_when_commands_end(start_node, peer, robot):
    start_node("sim_node", start_pose="standing")
    readings = peer.newest(READINGS)
    commander = Commander(peer, robot, lambda sample: robot.default_pose, robot.kp, robot.kd)

    def gains():
        commanded = readings().readings[0].commanded
        return commanded.pid_gains_p, commanded.pid_gains_d

    peer.until(lambda: readings() and gains()[0] == robot.kp, timeout=FIRST_START_S)
    commander.stop()
    peer.until(lambda: gains() == (0.0, 5.0))


def test_lockstep_runs_free_when_nobody_answers(start_node, peer, robot):
    """... and the robot falls under damping rather than standing still in time."""
    start_node("sim_node", lockstep=True, start_pose="standing")
    states = peer.collect(STATE)
    commander = Commander(peer, robot, lambda sample: robot.default_pose, robot.kp, robot.kd)
    peer.until(lambda: len(commander.states) > 20, timeout=FIRST_START_S)
    commander.stop()
    stopped = commander.answered_ns[-1]
    peer.until(lambda: stamp_to_ns(states[-1].header.stamp) > stopped + 2_000_000_000)
    assert states[-1].pose.pose.position.z < 0.8 * robot.stand_height


def test_faults_are_set_while_it_runs(start_node, peer, robot):
    start_node("sim_node", start_pose="standing")
    states = peer.collect(STATE)
    peer.until(lambda: states, timeout=FIRST_START_S)

    (result,) = peer.set_parameters("/anymal_sim", fault__nan_joint="RF_KFE")
    assert result.successful
    peer.until(lambda: np.isnan(states[-1].joints.position[5]))
    assert np.isfinite(np.delete(states[-1].joints.position, 5)).all()

    peer.set_parameters("/anymal_sim", fault__nan_joint="", fault__robot_state=-3)
    peer.until(lambda: states[-1].state == AnymalState.STATE_ERROR_SENSOR)
    peer.until(lambda: np.isfinite(states[-1].joints.position).all())

    peer.set_parameters("/anymal_sim", fault__robot_state=0, fault__quaternion_wxyz=True)
    # Nearly upright: w is close to 1 and now stands where x belongs.
    peer.until(lambda: abs(states[-1].pose.pose.orientation.x) > 0.7)

    before = stamp_to_ns(states[-1].header.stamp)
    peer.set_parameters("/anymal_sim", fault__stamp_offset=-9.0)
    peer.until(lambda: stamp_to_ns(states[-1].header.stamp) < before)

    for wanted in (True, False):
        (result,) = peer.set_parameters("/anymal_sim", fault__second_publisher=wanted)
        assert result.successful, result.reason
        peer.until(
            lambda wanted=wanted: peer.node.count_publishers(COMMANDS.name) == wanted,
            missing=lambda: f"{peer.node.count_publishers(COMMANDS.name)} publishers",
        )


def test_service_call_of_the_documentation_sets_faults(start_node, peer, request):
    text = (request.config.rootpath / "docs/interfaces.md").read_text()
    (line,) = [line for line in text.splitlines() if "rcl_interfaces/srv/SetParameters" in line]
    service, _, content = shlex.split(line)[3:]
    wanted = yaml.safe_load(content)["parameters"]
    message = SetParameters.Request()
    message.parameters = [
        ParameterMessage(name=item["name"], value=ParameterValue(**item["value"]))
        for item in wanted
    ]
    start_node("sim_node", start_pose="standing")
    results = peer.call(SetParameters, service, message).results
    assert len(results) == 2 and all(result.successful for result in results)
    names = [item["name"] for item in wanted]
    found = peer.call(
        GetParameters, "/anymal_sim/get_parameters", GetParameters.Request(names=names)
    )
    assert list(found.values) == [parameter.value for parameter in message.parameters]


BAD_SETTINGS = [
    ({"fault__nan_joint": "LF_XYZ"}, "LF_XYZ"),
    ({"fault__stuck_joint": "LF_XYZ"}, "fault.stuck_joint"),
    ({"push_velocity": [9.0, 0.0, 0.0]}, "push_velocity"),
    ({"push_velocity": [1.0]}, "push_velocity"),
    ({"fault__command_loss": 1.5}, "range"),
    ({"engine": "mujoco"}, "read-only"),
]


def test_bad_fault_is_refused_with_a_reason(start_node, peer):
    start_node("sim_node", start_pose="standing")
    for values, named in BAD_SETTINGS:
        (result,) = peer.set_parameters("/anymal_sim", **values)
        assert not result.successful
        assert named in result.reason


def test_push_and_reset(start_node, peer, robot):
    start_node("sim_node", start_pose="standing")
    states = peer.collect(STATE)
    peer.until(lambda: states, timeout=FIRST_START_S)
    peer.set_parameters("/anymal_sim", push_velocity=[0.0, 1.5, 0.0])
    peer.until(lambda: states[-1].twist.twist.linear.y > 0.5)
    # The robot has no commands and comes to the ground; reset puts it up again.
    peer.until(lambda: states[-1].pose.pose.position.z < 0.8 * robot.stand_height)
    assert peer.call(Trigger, "/anymal_sim/reset").success
    peer.until(lambda: states[-1].pose.pose.position.z > 0.95 * robot.stand_height)


def test_refused_command_and_second_publisher_are_told(start_node, peer, robot):
    start_node("sim_node", start_pose="standing")
    diagnostics = peer.collect(DIAGNOSTICS)
    commander = Commander(peer, robot, lambda sample: robot.default_pose, robot.kp, robot.kd)
    commander._writer.message.commands[4].name = "RF_XXX"
    second = peer.node.create_publisher(COMMANDS.type, COMMANDS.name, COMMANDS.qos)

    def commands():
        values = {}
        for message in diagnostics[-1:]:
            for status in message.status:
                if status.name == "anymal_sim: commands":
                    values = {item.key: item.value for item in status.values}
                    values["message"] = status.message
        return values

    peer.until(lambda: "RF_XXX" in commands().get("last_refusal", ""), timeout=FIRST_START_S)
    peer.until(lambda: "allowed 1" in commands()["message"])
    peer.node.destroy_publisher(second)
    peer.until(lambda: "allowed 1" not in commands()["message"])


def test_publisher_of_another_qos_is_told(start_node, peer):
    """A best-effort publisher and a reliable robot never connect; silence would be the result."""
    start_node("sim_node", start_pose="standing")
    diagnostics = peer.collect(DIAGNOSTICS)
    peer.node.create_publisher(COMMANDS.type, COMMANDS.name, STATE.qos)
    peer.until(
        lambda: (
            diagnostics
            and any("RELIABILITY" in status.message for status in diagnostics[-1].status)
        ),
        timeout=FIRST_START_S,
    )


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_two_signals_end_the_node_cleanly(start_node, peer, number):
    node = start_node("sim_node", start_pose="standing")
    states = peer.collect(STATE)
    peer.until(lambda: states, timeout=FIRST_START_S)
    assert node.end((number, number)) == 0
    assert "Traceback" not in node.output()


def test_robot_stays_until_its_controller_has_ended(start_node, peer, robot):
    node = start_node("sim_node", start_pose="standing", lockstep=True)
    commander = Commander(peer, robot, lambda sample: robot.default_pose, robot.kp, robot.kd)
    readings = peer.newest(READINGS)
    peer.until(
        lambda: readings() and readings().readings[0].commanded.pid_gains_p == robot.kp,
        timeout=FIRST_START_S,
    )
    node.process.send_signal(signal.SIGINT)
    count = len(commander.answered_ns) + 50  # 1 s of the robot
    peer.until(lambda: len(commander.answered_ns) > count)
    assert node.process.poll() is None
    commander.stop()
    assert node.process.wait(FIRST_START_S) == 0


@pytest.mark.parametrize(
    ("parameters", "named"),
    [
        ({"robot": "nowhere.yaml"}, "nowhere.yaml"),
        ({"start_pose": "flying"}, "lying or standing"),
        ({"control_period": 0.019}, "multiples of 0.0025"),
        ({"max_real_time_factor": 1.0}, "lockstep:=true"),
        ({"damping": -1.0}, "damping"),
        ({"world.friction": 9.0}, "friction"),
        ({"fault.nan_joint": "XX"}, "XX"),
    ],
)
def test_bad_parameter_stops_the_start(start_node, parameters, named):
    node = start_node("sim_node", **parameters)
    assert node.process.wait(FIRST_START_S) == 1
    assert named in node.output()
    assert "Traceback" not in node.output()
