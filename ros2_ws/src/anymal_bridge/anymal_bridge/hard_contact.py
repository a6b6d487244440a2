"""The simulated robot: hard contacts, drives that obey mode 13, a command timeout. No ROS.

The physics package knows one pair of gains for all joints and the set point only. Mode 13 has
gains, velocity and feed-forward for every joint, so each step hands over the set point q' that
gives the commanded torque at the moment m when the physics evaluates it, the middle of the step:

    P (q* - q_m) + D (v* - v) + tau  =  K (q' - q_m) - B v,   q_m = q + v dt / 2

with K, B the largest P, D of the twelve. B >= D keeps the braking stable.
"""

from __future__ import annotations

import enum
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from diffsim_trainer.physics import Robot, Terrain, load_robot

from .estimator_noise import EstimatorNoise, NoiseLevels
from .faults import CommandLink, Faults, StateLink, StuckJoint, corrupt
from .ground import LEVEL, Ground, make_terrain
from .joint_command import JointCommand, Mode, damping_command
from .kinematics import FootKinematics, rotation_matrix, small_rotation
from .robot_file import NUM_JOINTS
from .robot_sample import (
    ANGULAR_VELOCITY,
    JOINT_POSITION,
    JOINT_VELOCITY,
    LINEAR_VELOCITY,
    ORIENTATION,
    POSITION,
    FootContact,
    RobotSample,
    RobotState,
)

STEP_NS = 2_500_000  # ns, period of the robot's low-level loop
STEP_S = STEP_NS * 1e-9

CONTACT_FORCE = 1.0  # N, normal force from which a foot counts as closed
SLIP_SPEED = 0.05  # m/s, horizontal, from which a closed foot counts as slipping
WEAK_SPRING = (
    1.0  # N m/rad, carries feed-forward torque when P is 0; 0.01 N m of error at top speed
)

LYING_DROP_HEIGHT = 0.5  # base height from which the folded robot is let down, in stand heights
SETTLE_S = 2.0  # s
SETTLE_ATTEMPTS = 5
SETTLED_SPEED = 0.005  # m/s and rad/s
VELOCITIES = np.r_[LINEAR_VELOCITY, ANGULAR_VELOCITY, JOINT_VELOCITY]


class Engine(enum.Enum):
    WARP = "warp"
    MUJOCO = "mujoco"


class StartPose(enum.Enum):
    LYING = "lying"
    STANDING = "standing"


@dataclass(frozen=True)
class World:
    """Where the simulated robot may differ from the robot file. The default is no difference."""

    friction: float = 0.8  # Coulomb coefficient of feet and ground
    payload: float = 0.0  # kg, added to the base
    com_x: float = 0.0  # m, shift of the base's centre of mass, forward
    com_y: float = 0.0  # m, to the left
    kp_scale: float = 1.0  # gain error: what the drives make of P
    kd_scale: float = 1.0  # gain error: what the drives make of D
    motor_strength: float = 1.0  # scales torque and torque limit
    encoder_bias: float = 0.0  # share of the robot file's bias that the encoders have


class HardContactSim:
    """One robot, stepped at 400 Hz.

    Attributes:
        time_ns: simulated time since construction.
        seed, noise, ground: of the next reset.
        obeyed: JointCommand that the drives obey now.
        sample: RobotSample, the truth after the last step.
        world, faults: may be exchanged between steps.
    """

    def __init__(
        self,
        robot_path: str | Path,
        start_pose: StartPose,
        world: World,
        noise: NoiseLevels,
        damping: float,
        command_timeout: float,
        seed: int,
        engine: Engine,
        ground: Ground = LEVEL,
    ) -> None:
        """
        Args:
            damping: N m s/rad, D of the robot without commands, and of mode FREEZE.
            command_timeout: s, after which the robot damps.
        """
        robot = load_robot(robot_path)
        self.world, self.faults = world, Faults()
        self._robot, self.noise, self.ground, self.seed = robot, noise, ground, seed
        self._start_pose, self._engine_kind = start_pose, engine
        self._timeout_ns = round(command_timeout * 1e9)
        self._damping = damping_command(0, damping)
        self._feet = FootKinematics(
            robot.joint_offset, robot.joint_axis, robot.foot_offset, robot.foot_radius
        )
        self._terrain: Terrain | None = None
        self._terrain_of: tuple[Ground, int] | None = None

        self.time_ns = 0
        self.sample = RobotSample()
        self._reported = RobotSample()
        self.reset()

    def reset(self) -> None:
        """Put the robot into its start pose, at rest, without a command; time goes on.

        Noise and losses start anew; ground of another shape is laid.
        """
        wanted = (self.ground, self.seed * (self.ground.roughness > 0.0))
        if self._terrain_of != wanted:
            self._terrain_of = wanted
            self._lay_ground()
        self._command_link = CommandLink(self._robot.actuator.delay, self.seed)
        self._state_link = StateLink(self.seed)
        self._noise = EstimatorNoise(self.noise, self.seed)
        self._stuck_joint = StuckJoint()
        self._received_ns: int | None = None
        self._obey(self._damping)
        self.sample.robot_state = RobotState.OK
        self._engine.state_in[0] = self._engine.state_out[0] = self._start_state
        self._engine.sensors[:] = 0.0
        self._read_sample()

    def command(self, command: JointCommand) -> None:
        """The robot gets a command; the drives obey it after their delay."""
        self._command_link.send(self.time_ns, command, self.faults)

    def command_age(self) -> float:
        """Simulated time [s] since the drives last got a command; infinity when there was none."""
        if self._received_ns is None:
            return float("inf")
        return (self.time_ns - self._received_ns) * 1e-9

    def push(self, velocity: np.ndarray) -> None:
        """Change the velocity of the base at once by ``velocity`` [3] m/s, world frame."""
        state = self._engine.state_out[0]
        state[LINEAR_VELOCITY] += rotation_matrix(state[ORIENTATION]).T @ velocity
        self._read_sample()

    def step(self) -> None:
        """Advance 2.5 ms. The order of one step of the robot, each line one call."""
        self._receive_command()
        self._move()
        self.time_ns += STEP_NS
        self._refuse_not_finite()
        self._read_sample()

    def report(self) -> RobotSample | None:
        """The sample as the robot tells it, with noise and sensor faults; None when it is lost.

        The same object every time.
        """
        if self._state_link.lost(self.faults):
            return None
        self._reported.copy_from(self.sample)
        self._reported.state[JOINT_POSITION] += self._encoder_bias()
        self._noise.add(self._reported)
        self._stuck_joint.hold(self._reported, self.faults)
        corrupt(self._reported, self.faults)
        return self._reported

    def _move(self) -> None:
        """One step of physics under ``obeyed``."""
        self._engine.state_in[:] = self._engine.state_out
        self._set_params()
        self._set_target()
        self._engine.step()

    def _receive_command(self) -> None:
        command = self._command_link.receive(self.time_ns)
        if command is not None:
            self._received_ns = self.time_ns
            self._obey(command)
        elif self.obeyed is not self._damping and self._command_is_late():
            self._obey(self._damping)

    def _command_is_late(self) -> bool:
        return self.time_ns - self._received_ns > self._timeout_ns

    def _obey(self, command: JointCommand) -> None:
        self.obeyed = command  # what the drives do now
        self._kp, self._kd = self._gains(command)

    def _set_params(self) -> None:
        world, robot, params = self.world, self._robot, self._engine.params[0]
        params[0] = world.friction
        params[1] = world.payload
        params[2:4] = world.com_x, world.com_y
        params[5] = self._kp / robot.kp * world.kp_scale
        params[6] = self._kd / robot.kd * world.kd_scale
        params[7] = 0.0 if self.faults.low_battery else world.motor_strength

    def _gains(self, command: JointCommand) -> tuple[float, float]:
        """K [N m/rad] and B [N m s/rad] of the module docstring."""
        if command.mode is Mode.DISABLE:
            return 0.0, 0.0
        if command.mode is Mode.FREEZE:
            return 0.0, float(self._damping.kd[0])
        kp, kd = float(command.kp.max()), float(command.kd.max())
        feed_forward = command.torque.any() or (command.kd * command.velocity).any()
        if kp == 0.0 and (feed_forward or (command.kd != kd).any()):
            kp = WEAK_SPRING
        return kp, kd

    def _encoder_bias(self) -> np.ndarray:
        """Measured minus true joint position [12] rad, for the drives as for the estimator."""
        return self.world.encoder_bias * self._robot.actuator.encoder_bias

    def _set_target(self) -> None:
        if self._kp == 0.0:
            return  # no spring: the set point has no effect
        command, state = self.obeyed, self._engine.state_in[0]
        velocity = state[JOINT_VELOCITY]
        position = state[JOINT_POSITION] + (0.5 * STEP_S) * velocity
        measured = position + self._encoder_bias()
        torque = command.kp * (command.position - measured) + command.kd * command.velocity
        torque += command.torque + (self._kd - command.kd) * velocity
        self._engine.target[0] = position + torque / self._kp

    def _refuse_not_finite(self) -> None:
        """A simulation that has diverged stays where it was, in error, until it is reset."""
        if not np.isfinite(self._engine.state_out).all():
            self._engine.state_out[:] = self._engine.state_in
            self._engine.sensors[:] = 0.0
            self.sample.robot_state = RobotState.ERROR_UNKNOWN

    def _read_sample(self) -> None:
        sample, sensors = self.sample, self._engine.sensors[0]
        velocity_before = self._engine.state_in[0, JOINT_VELOCITY]
        sample.state[:] = self._engine.state_out[0]
        sample.joint_acceleration[:] = (sample.state[JOINT_VELOCITY] - velocity_before) / STEP_S
        sample.joint_torque[:] = sensors[:, 0:3].reshape(12)
        sample.foot_force[:] = sensors[:, 7:10]
        self._feet.lowest_points(sample.state, sample.foot_position)
        if self._terrain is not None:
            sample.ground_height[0] = self._terrain.height(*sample.state[POSITION][:2])
            sample.ground_height[1:] = sample.foot_position[:, 2] - sensors[:, 3]
        for foot, (vx, vy, _, _, _, fz) in enumerate(sensors[:, 4:10].tolist()):
            if fz < CONTACT_FORCE:
                sample.foot_contact[foot] = FootContact.OPEN
            elif vx * vx + vy * vy > SLIP_SPEED**2:
                sample.foot_contact[foot] = FootContact.SLIPPING
            else:
                sample.foot_contact[foot] = FootContact.CLOSED

    def _lay_ground(self) -> None:
        """The engine with the ground that is wanted, and where the robot starts on it."""
        self._terrain = make_terrain(self.ground, self.seed)
        self.sample.ground_height[:] = 0.0
        self._engine = _make_engine(self._engine_kind, self._robot, self._terrain)
        self._start_state = self._find_start_state(self._start_pose)

    def _find_start_state(self, start_pose: StartPose) -> np.ndarray:
        """State [37] at rest in the start pose."""
        robot, state = self._robot, self._engine.state_out[0]
        state[:] = 0.0
        state[2] = robot.stand_height
        state[ORIENTATION] = small_rotation(np.array([0.0, -self.ground.slope, 0.0]))
        state[JOINT_POSITION] = robot.default_pose
        state[2] -= self._lowest_clearance(state)
        if start_pose is StartPose.LYING:
            # Folded up in the air, let down, and left alone until nothing moves any more.
            state[2] -= (1.0 - LYING_DROP_HEIGHT) * robot.stand_height
            state[JOINT_POSITION] = robot.lying_pose
            self._settle(self._hold_command(robot.lying_pose), SETTLE_S)
            for _ in range(SETTLE_ATTEMPTS):
                self._settle(self._damping, SETTLE_S)
                speed = float(np.abs(state[VELOCITIES]).max())
                if speed < SETTLED_SPEED:
                    break
            else:
                raise RuntimeError(
                    f"the lying robot still moves at {speed:.3g} m/s or rad/s after "
                    f"{SETTLE_ATTEMPTS * SETTLE_S:g} s, wanted < {SETTLED_SPEED}; check lying_pose "
                    "and the collision shapes of the robot file"
                )
            state[VELOCITIES] = 0.0
        return state.copy()

    def _lowest_clearance(self, state: np.ndarray) -> float:
        """Height of the lowest foot above the ground straight below it, m; 0 on the plane."""
        if self._terrain is None:
            return 0.0
        feet = np.empty((4, 3))
        self._feet.lowest_points(state, feet)
        return float((feet[:, 2] - self._terrain.height(feet[:, 0], feet[:, 1])).min())

    def _settle(self, command: JointCommand, seconds: float) -> None:
        self._obey(command)
        for _ in range(round(seconds / STEP_S)):
            self._move()

    def _hold_command(self, position: np.ndarray) -> JointCommand:
        zero, one = np.zeros(NUM_JOINTS), np.ones(NUM_JOINTS)
        kp, kd = self._robot.kp * one, self._robot.kd * one
        return JointCommand(0, Mode.PID_GAINS, position, zero, zero, kp, kd)


def _make_engine(engine: Engine, robot: Robot, terrain: Terrain | None):
    """The engine of that name; MuJoCo is not needed for the other one."""
    if engine is Engine.MUJOCO:
        from .mujoco_engine import MujocoEngine

        return MujocoEngine(robot, STEP_S, terrain)
    from .warp_engine import WarpEngine

    return WarpEngine(robot, STEP_S, terrain)
