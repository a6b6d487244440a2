"""Session: everything one run needs, started and taken down again: a ROS domain of its own, the
nodes, the runner."""

from __future__ import annotations

import enum
import os
import random
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Protocol

import rclpy
from domain_coordinator import domain_id
from rclpy.signals import SignalHandlerOptions

from policy_controller.bundle import PolicyBundle
from policy_controller.state import FOOT_NAMES, JOINT_NAMES
from policy_controller.verification.processes import NodeCommand, NodeProcesses
from policy_controller.verification.recorder import Topics
from policy_controller.verification.recording import Failure, Recording
from policy_controller.verification.runner import RunFailedError, Runner, RunWatcher
from policy_controller.verification.scenario import Scenario

TIMING_REASONS = ("STATE_STALE", "COMMAND_STALE", "CLOCK_JUMP", "OVERRUN")
"""Guards that trip when a process does not get the processor in time."""
TOO_BUSY = (
    "If this computer is slow or busy, that is the cause, not the policy: end other programs, or "
    "run with --lockstep, where time waits."
)


class Link(enum.Enum):
    """How the controller reaches the simulated robot. Its own command line is the same in all."""

    DIRECT = "direct"  # no bridge: the robot has the topics that the controller knows
    ROS2 = "ros2"  # through the bridge, to a robot with ROS 2 topics of its own
    ROS1 = "ros1"  # through the bridge, to a robot on a roscore


_ROBOT_TOPICS = (  # key of the robot's parameter topics.<key>, name without a bridge
    ("state", Topics.state),
    ("readings", "/anymal_low_level_controller/actuator_readings"),
    ("commands", Topics.robot_commands),
    ("joint_states", "/joint_states"),
    ("odometry", "/odom"),
    ("imu", "/imu/data"),
)


@dataclass(frozen=True)
class Setup:
    """What is run against what."""

    bundle_path: Path
    bundle: PolicyBundle
    robot_path: Path
    scenario: Scenario
    lockstep: bool  # simulated time that waits for the controller, instead of real time
    seed: int
    real_time: bool  # the nodes run under SCHED_FIFO
    engine: str = "warp"  # of the simulated robot: warp or mujoco
    settings: Path | None = None  # parameter file of the controller
    link: Link = Link.DIRECT
    roscore_port: int = 0  # for Link.ROS1
    start_pose: str = "lying"  # of the simulated robot: lying or standing

    @property
    def topics(self) -> Topics:
        """In lockstep the joint commands go through the operator (relay.py), and what is
        recorded is where the simulated robot is, not what its estimator says."""
        if self.lockstep:
            return Topics(
                state="/anymal_sim/ground_truth",
                joint_commands="/footlight_operator/joint_commands",
            )
        return Topics()

    def nodes(self) -> tuple[NodeCommand, ...]:
        """Command lines of the robot, of what leads to it, and of the controller."""
        shared = {"robot": self.robot_path.resolve(), "lockstep": str(self.lockstep).lower()}
        robot = shared | {"control_period": self.bundle.control_period, "seed": self.seed}
        robot |= {"engine": self.engine, "start_pose": self.start_pose}
        if self.lockstep:
            robot["lockstep_patience"] = 60.0  # s; time must not run while the operator is busy
        controller = shared | {
            "bundle": self.bundle_path.resolve(),
            "command_topic": self.topics.joint_commands,
        }
        return (
            *self._robot_nodes(robot),
            NodeCommand(
                "controller", _python_node("policy_controller.node", controller, self.settings)
            ),
        )

    def _robot_nodes(self, robot: dict[str, object]) -> tuple[NodeCommand, ...]:
        if self.link is Link.DIRECT:
            return (NodeCommand("robot", _python_node("anymal_bridge.sim_node", robot)),)
        transport = {"transport": self.link.value}
        roscore: tuple[NodeCommand, ...] = ()
        if self.link is Link.ROS1:
            transport["ros1_master_uri"] = f"http://localhost:{self.roscore_port}"
            line = ("rosmaster", "--core", "-p", str(self.roscore_port))
            roscore = (NodeCommand("roscore", line),)
        # The robot has its topics where the bridge's robot_topics.* are by default.
        robot = robot | transport | {f"topics.{k}": f"/robot{name}" for k, name in _ROBOT_TOPICS}
        bridge = transport | {"robot": self.robot_path.resolve(), "dry_run": "false"}
        return (
            *roscore,
            NodeCommand("robot", _python_node("anymal_bridge.sim_node", robot)),
            NodeCommand("bridge", _python_node("anymal_bridge.bridge_node", bridge)),
        )


class Watcher(RunWatcher, Protocol):
    """Who is told how the session goes on."""

    def on_stage(self, text: str) -> None:
        """A new stage has begun: starting, reading, ..."""

    def on_progress(self, share: float) -> None:
        """Share of the present stage that is done."""


def record_run(
    setup: Setup, log_directory: Path, watcher: Watcher
) -> tuple[Recording, Failure | None]:
    """Start the nodes, run the scenario, stop the nodes, return what was recorded.

    Raises RunFailedError, OperatorError or NodeDiedError if the run could not begin; what goes
    wrong later is the Failure.
    """
    with (
        own_domain(),
        NodeProcesses(
            setup.nodes(), log_directory, _environment(setup.link, log_directory), setup.real_time
        ) as processes,
    ):
        rclpy.init(
            signal_handler_options=SignalHandlerOptions.NO
        )  # Ctrl-C stays a KeyboardInterrupt
        nodes = [rclpy.create_node(f"footlight_{role}") for role in ("operator", "recorder")]
        runner = Runner(*nodes, setup.topics, setup.scenario, processes, watcher)
        try:
            watcher.on_stage("Starting the robot and the controller")
            runner.bring_up()
            if setup.link is not Link.DIRECT:
                runner.arm_bridge()
            if runner.bundle != setup.bundle.sha256:
                raise RunFailedError(
                    f"the controller runs bundle {runner.bundle[:12]}, {setup.bundle_path} is "
                    f"{setup.bundle.sha256[:12]}; do not change it while it runs"
                )
            watcher.on_stage("Running the scenario")
            outcome = runner.run()
        finally:
            runner.close()
            for node in nodes:
                node.destroy_node()
            rclpy.shutdown()
    watcher.on_stage("Reading the recording")
    recording = outcome.recorder.decode(
        JOINT_NAMES, FOOT_NAMES, setup.bundle.control_period, outcome.marks, watcher.on_progress
    )
    failure = outcome.failure
    if failure and not setup.lockstep and any(code in failure.reason for code in TIMING_REASONS):
        failure = replace(failure, detail=f"{failure.detail}\n{TOO_BUSY}")
    return recording, failure


@contextmanager
def own_domain() -> Iterator[None]:
    """A ROS domain of its own, invisible from other computers, for this process and its children.

    The number is drawn at random, because people use the first ones by hand.
    """
    reserved = domain_id(lambda: random.randint(1, 100))
    domain = reserved.__enter__()  # no `with`: it would swallow every OSError from inside the block
    before = dict(os.environ)
    os.environ |= {"ROS_DOMAIN_ID": str(domain), "ROS_AUTOMATIC_DISCOVERY_RANGE": "LOCALHOST"}
    try:
        yield
    finally:
        os.environ.clear()
        os.environ |= before
        reserved.__exit__(None, None, None)


def _environment(link: Link, log_directory: Path) -> dict[str, str]:
    """Ours; on ROS 1 also where its logs go, and the name by which its nodes find each other."""
    if link is not Link.ROS1:
        return dict(os.environ)
    logs = str(log_directory.resolve() / "ros1")
    return os.environ | {"ROS_HOSTNAME": "localhost", "ROS_LOG_DIR": logs}


def _python_node(
    module: str, parameters: dict[str, object], file: Path | None = None
) -> tuple[str, ...]:
    options = [part for name, value in parameters.items() for part in ("-p", f"{name}:={value}")]
    files = ("--params-file", str(file)) if file else ()
    return (sys.executable, "-m", module, "--ros-args", *files, *options)
