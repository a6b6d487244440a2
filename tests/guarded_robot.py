"""Simulated robot, guard of the bridge and controller in one loop of simulated time: the pure
cores, with neither ROS nor a clock between them."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import yaml
from packages import ROOT

from anymal_bridge.estimator_noise import NoiseLevels
from anymal_bridge.guard import Guard, GuardLimits, Output
from anymal_bridge.hard_contact import STEP_S, Engine, HardContactSim, StartPose, World
from anymal_bridge.joint_command import JointCommand, Mode
from anymal_bridge.robot_file import load_robot_file
from anymal_bridge.robot_sample import JOINT_POSITION, FootContact, RobotSample
from policy_controller.controller import PolicyController, TickResult
from policy_controller.limits import SafetyLimits
from policy_controller.motion import MotionSettings, MotionState
from policy_controller.sample import LoopHealth
from policy_controller.state import RobotState, VelocityCommand

ROBOT = ROOT / "config" / "robot" / "anymal_d.yaml"
BUNDLE = ROOT / "config" / "bundles" / "anymal_d"
READ_EVERY = 4  # steps: the bridge's guard looks at the robot, and at its clock, at 100 Hz


def controller_settings() -> tuple[SafetyLimits, MotionSettings]:
    """What config/controller.yaml gives the controller."""
    parameters = read_parameters("controller", "policy_controller")
    return SafetyLimits(**parameters["safety"]), MotionSettings(**parameters["motion"])


def guard_limits() -> GuardLimits:
    """What config/bridge.yaml and the robot file give the guard."""
    robot = load_robot_file(ROBOT)
    return GuardLimits(
        joint_names=robot.joint_names,
        position_lower=robot.position_lower,
        position_upper=robot.position_upper,
        velocity=robot.velocity_limit,
        torque=robot.torque_limit,
        **read_parameters("bridge", "anymal_bridge")["guard"],
    )


def read_parameters(file: str, node: str) -> dict:
    """Parameters of a node in config/<file>.yaml."""
    content = yaml.safe_load((ROOT / "config" / f"{file}.yaml").read_text())
    return content[f"/**/{node}"]["ros__parameters"]


class GuardedRobot:
    """A lying robot, an armed guard, and a controller in PASSIVE.

    Attributes:
        sim, guard, controller: the cores.
        velocity: command (vx m/s, vy m/s, yaw rate rad/s) given afresh at every tick.
        health: what the controller's surroundings tell it.
        result: TickResult of the last tick.
        passed: Output of the guard for the last command of the controller.
    """

    def __init__(self) -> None:
        self.sim = HardContactSim(
            ROBOT, StartPose.LYING, World(), NoiseLevels(), 5.0, 0.1, 0, Engine.WARP
        )
        self.guard = Guard(guard_limits(), dry_run=False)
        self.controller = PolicyController.from_files(BUNDLE, ROBOT, *controller_settings())
        self._tick_every = round(self.controller.bundle.control_period / STEP_S)
        self.velocity = (0.0, 0.0, 0.0)
        self.health = LoopHealth()
        self.result: TickResult | None = None
        self.passed: Output | None = None
        self._state: RobotState | None = None
        self._cycles = 0
        self.guard.observe_publishers(commanders=1, drivers=0)
        self.run(0.1)
        assert (refusal := self.guard.arm(self.now)) is None, refusal

    @property
    def now(self) -> float:
        """Simulated time, s."""
        return self.sim.time_ns * 1e-9

    def run(self, seconds: float) -> None:
        """Let ``seconds`` pass."""
        for _ in range(round(seconds / STEP_S)):
            self.step()

    def step(self) -> None:
        """One step of the robot, and whatever belongs to that instant."""
        self.sim.step()
        self._cycles += 1
        sample = self.sim.report()
        if sample is not None:
            self._receive(sample)
        if self._cycles % self._tick_every == 0:
            self._tick()
        if self._cycles % READ_EVERY == 0:
            intruders = int(self.sim.faults.second_publisher)
            self.guard.observe_publishers(commanders=1, drivers=intruders)
            self._give(self.guard.watch(self.now))

    def walk(self) -> None:
        """Stand up and begin to walk on the spot."""
        self.request(MotionState.STAND)
        self.run_until(MotionState.STAND)
        self.run(0.5)
        self.request(MotionState.WALK)
        self.run(1.0)

    def request(self, motion: MotionState) -> None:
        answer = self.controller.request(motion)
        assert answer.accepted, answer.message

    def run_until(self, motion: MotionState, seconds: float = 20.0) -> None:
        """Let time pass until the controller is in a motion state; fails after ``seconds``."""
        end = self.now + seconds
        while self.controller.motion != motion:
            assert self.now < end, f"in {self.result.detail}; guard: {self.guard.detail}"
            self.step()

    def _receive(self, sample: RobotSample) -> None:
        stamp_ns = self.sim.time_ns + round(self.sim.faults.stamp_offset * 1e9)
        if self._cycles % READ_EVERY == 0:
            self.guard.observe_state(
                self.now, stamp_ns, sample.state[JOINT_POSITION], sample.robot_state
            )
        state = RobotState.from_packed(sample.state.copy(), stamp_ns, sample.joint_torque.copy())
        contact = np.array([foot is not FootContact.OPEN for foot in sample.foot_contact])
        self._state = replace(
            state,
            robot_ok=int(sample.robot_state),
            foot_contact=contact,
            received_ns=self.sim.time_ns,
        )

    def _tick(self) -> None:
        now_ns = self.sim.time_ns
        velocity = VelocityCommand(*self.velocity, now_ns)
        self.result = self.controller.tick(now_ns, self._state, velocity, self.health)
        command = self.result.command
        self.passed = self.guard.offer(
            self.now,
            JointCommand(
                self._state.stamp_ns if self._state else now_ns,
                Mode.PID_GAINS,
                command.position,
                command.velocity,
                command.torque,
                command.kp,
                command.kd,
            ),
        )
        self._give(self.passed)

    def _give(self, output: Output | None) -> None:
        if output is not None and output.send:
            self.sim.command(output.command)
