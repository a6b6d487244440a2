"""Robot file, tiny ONNX policies and bundles for the tests; all numbers from fixed seeds."""

from __future__ import annotations

import hashlib
import sys
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import yaml
from hypothesis import settings

from policy_controller import bundle as contract
from policy_controller.controller import PolicyController, TickResult
from policy_controller.motion import MotionState
from policy_controller.observation import STANDARD_OBSERVATION
from policy_controller.policy import OnnxPolicy
from policy_controller.robot import RobotDescription, load_robot_description
from policy_controller.sample import LoopHealth
from policy_controller.state import FOOT_NAMES, JOINT_NAMES, RobotState, VelocityCommand

sys.path.insert(0, str(Path(__file__).parent))  # for lockstep_robot, sample_policies

from sample_policies import (  # noqa: E402
    DEFAULT_POSE,
    LOWER,
    LYING_POSE,
    OBSERVATION_WITH_PAST,
    UPPER,
    build_golden,
    build_onnx,
)

settings.register_profile("million", max_examples=20_000)  # for test_controller_fuzz.py


@pytest.fixture
def make_onnx() -> Callable[..., bytes]:
    """The function build_onnx."""
    return build_onnx


@pytest.fixture
def robot_file(tmp_path: Path) -> Path:
    """A robot file with a URDF beside it."""
    (tmp_path / "robot.urdf").write_text("<robot name='anymal_d'/>\n")
    path = tmp_path / "robot.yaml"
    path.write_text(
        yaml.safe_dump(
            {
                "name": "anymal_d",
                "urdf": "robot.urdf",
                "joint_names": list(JOINT_NAMES),
                "foot_names": list(FOOT_NAMES),
                "default_pose": list(DEFAULT_POSE),
                "lying_pose": list(LYING_POSE),
                "position_lower": list(LOWER),
                "position_upper": list(UPPER),
                "velocity_limit": 8.5,
                "torque_limit": 80.0,
                "kp": 85.0,
                "kd": 0.6,
            }
        )
    )
    return path


@pytest.fixture
def robot(robot_file: Path) -> RobotDescription:
    """The robot of robot_file."""
    return load_robot_description(robot_file)


@pytest.fixture
def make_bundle(robot: RobotDescription) -> Callable[..., contract.PolicyBundle]:
    """make_bundle(onnx_model=..., field=value, ...) -> PolicyBundle that fits `robot`."""

    def make(
        onnx_model: bytes | None = None, observation=STANDARD_OBSERVATION, **changes
    ) -> contract.PolicyBundle:
        bundle = contract.PolicyBundle(
            robot=contract.RobotIdentity(robot.name, robot.urdf_sha256),
            joint_names=JOINT_NAMES,
            default_pose=DEFAULT_POSE,
            action=contract.ActionScaling(scale=0.5, clip=1.0, applied_by="controller"),
            gains=contract.Gains(kp=(85.0,) * 12, kd=(0.6,) * 12),
            control_period=0.02,
            observation=observation,
            gait=contract.GaitSettings(frequency=1.75, stand_command_threshold=0.1),
            command=contract.CommandRange((-1.0, -0.5, -1.0), (1.0, 0.5, 1.0)),
            limits=contract.JointLimits(LOWER, UPPER, velocity=8.5, torque=80.0),
            training=contract.TrainingRecord(
                config_sha256=hashlib.sha256(b"config").hexdigest(),
                git_commit="0" * 40,
                software_version="0.1.0",
                seed=1,
                samples=1000,
            ),
            onnx=onnx_model or build_onnx(),
            golden_npz=b"",
        )
        golden = build_golden(bundle.onnx, bundle.clock, terms=observation)
        bundle = replace(bundle, golden_npz=golden)
        return replace(bundle, **changes)

    return make


@pytest.fixture
def bundle_with_past(make_bundle) -> contract.PolicyBundle:
    """A bundle whose policy sees OBSERVATION_WITH_PAST; its golden data are three runs of six
    control steps."""
    model = build_onnx(inputs=sum(term.width for term in OBSERVATION_WITH_PAST))
    bundle = make_bundle(onnx_model=model, observation=OBSERVATION_WITH_PAST)
    return replace(
        bundle, golden_npz=build_golden(model, bundle.clock, 18, OBSERVATION_WITH_PAST, 6)
    )


class Rig:
    """A controller with a robot whose joints go half of the way to the target at every tick.

    There is no physics in it: it shows what the controller commands, not how a robot moves.
    """

    PERIOD_NS = 20_000_000

    def __init__(self, controller: PolicyController):
        self.controller = controller
        self.now_ns = 1_000_000_000
        self.position = np.array(LYING_POSE)
        self.velocity = np.zeros(12)
        self.command: VelocityCommand | None = None
        self.results: list[TickResult] = []

    def state(self, **changes) -> RobotState:
        """Upright, at rest, feet on the ground, 2 ms old at the coming tick."""
        fresh = RobotState(
            stamp_ns=self.now_ns + self.PERIOD_NS - 2_000_000,
            base_position=np.array((0.0, 0.0, 0.5)),
            base_orientation=np.array((0.0, 0.0, 0.0, 1.0)),
            base_linear_velocity=np.zeros(3),
            base_angular_velocity=np.zeros(3),
            joint_position=self.position.copy(),
            joint_velocity=self.velocity.copy(),
            joint_torque=np.zeros(12),
            robot_ok=0,
            foot_contact=np.ones(4, dtype=bool),
        )
        return replace(fresh, **changes)

    def give(self, vx: float, vy: float = 0.0, yaw_rate: float = 0.0) -> None:
        """A velocity command as new as the coming tick."""
        self.command = VelocityCommand(vx, vy, yaw_rate, self.now_ns + self.PERIOD_NS)

    def tick(
        self,
        state: RobotState | None = None,
        health: LoopHealth | None = None,
        step_ns: int = PERIOD_NS,
    ) -> TickResult:
        """One control period later; a healthy state if none is given."""
        state = state or self.state()
        self.now_ns += step_ns
        result = self.controller.tick(self.now_ns, state, self.command, health or LoopHealth())
        self.position = self.position + 0.5 * np.where(
            result.command.kp > 0.0, result.command.position - self.position, 0.0
        )
        self.results.append(result)
        return result

    def run_until(self, motion: MotionState, ticks: int = 1000, fresh: tuple | None = None) -> None:
        """Tick until a motion state is reached; `fresh`: velocity command renewed at every tick."""
        for _ in range(ticks):
            if fresh is not None:
                self.give(*fresh)
            if self.tick().motion == motion:
                return
        raise AssertionError(f"{motion.name} not reached: {self.results[-1].detail}")

    def stand(self) -> None:
        """From PASSIVE to STAND."""
        self.tick()
        assert self.controller.request(MotionState.STAND).accepted
        self.run_until(MotionState.STAND)

    def walk(self, *command: float, ticks: int = 50) -> None:
        """From PASSIVE to WALK, `ticks` ticks into it, with this velocity command."""
        self.stand()
        for _ in range(50):  # the joints come to rest
            self.tick()
        answer = self.controller.request(MotionState.WALK)
        assert answer.accepted, answer.message
        for _ in range(ticks):
            self.give(*(command or (0.0,)))
            self.tick()
        assert self.controller.motion == MotionState.WALK, self.results[-1].detail


@pytest.fixture
def make_rig(make_bundle, robot) -> Callable[..., Rig]:
    """make_rig(limits=..., motion=..., bundle fields ...) -> Rig."""

    def make(limits=None, motion=None, **changes) -> Rig:
        bundle = make_bundle(**changes)
        policy = OnnxPolicy(bundle.onnx, bundle.observation_size, 12)
        settings = {key: value for key, value in (("limits", limits), ("motion", motion)) if value}
        return Rig(PolicyController(bundle, robot, policy, **settings))

    return make


@pytest.fixture
def rig(make_rig) -> Rig:
    """A Rig with the default policy and settings."""
    return make_rig()


@pytest.fixture
def rig_with_past(bundle_with_past, robot) -> Rig:
    """A Rig whose policy sees OBSERVATION_WITH_PAST."""
    policy = OnnxPolicy(bundle_with_past.onnx, bundle_with_past.observation_size, 12)
    return Rig(PolicyController(bundle_with_past, robot, policy))
