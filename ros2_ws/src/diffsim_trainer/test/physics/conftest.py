"""Fixtures of the physics tests: the real robots, a NumPy front of the simulator, and rigid-body
sums computed link by link in NumPy, independent of the kernels."""

from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest
import warp as wp

from diffsim_trainer.physics import Simulator, load_robot

CONFIG = Path(__file__).parents[5] / "config" / "robot"


class Bench:
    """A simulator that takes and returns NumPy arrays; every output starts as NaN."""

    def __init__(self, robot, num_envs: int, **settings):
        self.robot, self.num_envs = robot, num_envs
        self.sim = Simulator(robot, num_envs, **settings)
        self.params = self.sim.default_params()
        self.delay = np.zeros(num_envs, dtype=np.int32)

    def array(self, value) -> wp.array:
        return wp.array(np.ascontiguousarray(value), dtype=self.sim.real, device=self.sim.device)

    def nan(self, *shape) -> wp.array:
        return self.array(np.full((self.num_envs, *shape), np.nan))

    def standing(self, height: float | None = None) -> np.ndarray:
        """State [N, 37] at rest in the default pose, on the ground unless a height is given."""
        state = np.zeros((self.num_envs, 37))
        state[:, 2] = self.robot.stand_height if height is None else height
        state[:, 6] = 1.0
        state[:, 13:25] = self.robot.default_pose
        return state

    def step(self, state, target=None, target_prev=None, substep: int = 0):
        """State and sensors after one step, float64."""
        target = self.robot.default_pose if target is None else target
        target_prev = target if target_prev is None else target_prev
        target = np.broadcast_to(target, (self.num_envs, 12))
        target_prev = np.broadcast_to(target_prev, (self.num_envs, 12))
        state_out, sensors = self.nan(37), self.nan(4, 10)
        self.sim.step(
            self.array(state),
            self.array(target_prev),
            self.array(target),
            self.array(self.params),
            wp.array(self.delay, dtype=wp.int32, device=self.sim.device),
            substep,
            state_out,
            sensors,
        )
        return state_out.numpy().astype(float), sensors.numpy().astype(float)

    def run(self, state, steps: int, target=None, every: int = 1):
        """States [.., N, 37] and sensors [.., N, 4, 10] of every `every`-th of `steps` steps."""
        target = self.robot.default_pose if target is None else target
        target = self.array(np.broadcast_to(target, (self.num_envs, 12)))
        params = self.array(self.params)
        delay = wp.array(self.delay, dtype=wp.int32, device=self.sim.device)
        now, after, sensors = self.array(state), self.nan(37), self.nan(4, 10)
        states, readings = [], []
        for k in range(steps):
            self.sim.step(now, target, target, params, delay, 0, after, sensors)
            now, after = after, now
            if (k + 1) % every == 0:
                states.append(now.numpy().astype(float))
                readings.append(sensors.numpy().astype(float))
        return np.array(states), np.array(readings)

    def loss(self, state, targets, substeps: int, weights) -> np.ndarray:
        """Sum over env of weights on the final state and on every sensor reading, [N]."""
        return self._roll(state, targets, substeps, weights)[0]

    def gradient(self, state, targets, substeps: int, weights):
        """Gradients of `loss` with respect to state, targets [T, N, 12] and params."""
        with wp.Tape():  # for Warp's detector of overwritten arrays (`test_rollout.py`)
            total, tape, target_arrays, params = self._roll(state, targets, substeps, weights)
        state_bar = self.array(np.broadcast_to(weights.state, (self.num_envs, 37)))
        target_bars = [wp.zeros_like(target) for target in target_arrays]
        params_bar = wp.zeros_like(params)
        delay = wp.array(self.delay, dtype=wp.int32, device=self.sim.device)
        for period, k, before, after, sensors in reversed(tape):
            before_bar = wp.zeros_like(before)
            sensors_bar = self.array(np.broadcast_to(weights.sensors, (self.num_envs, 4, 10)))
            previous = max(period - 1, 0)
            self.sim.step_adjoint(
                before,
                target_arrays[previous],
                target_arrays[period],
                params,
                delay,
                k,
                after,
                sensors,
                before_bar,
                target_bars[previous],
                target_bars[period],
                params_bar,
                state_bar,
                sensors_bar,
            )
            state_bar = before_bar
        return state_bar.numpy(), np.array([bar.numpy() for bar in target_bars]), params_bar.numpy()

    def _roll(self, state, targets, substeps, weights):
        target_arrays = [self.array(target) for target in targets]
        params = self.array(self.params)
        delay = wp.array(self.delay, dtype=wp.int32, device=self.sim.device)
        before, tape, total = self.array(state), [], np.zeros(self.num_envs)
        for period in range(len(targets)):
            for k in range(substeps):
                after, sensors = self.nan(37), self.nan(4, 10)
                previous = target_arrays[max(period - 1, 0)]
                self.sim.step(
                    before, previous, target_arrays[period], params, delay, k, after, sensors
                )
                tape.append((period, k, before, after, sensors))
                total = total + (sensors.numpy() * weights.sensors).sum((1, 2))
                before = after
        total = total + (before.numpy() * weights.state).sum(1)
        return total, tape, target_arrays, params


def rotation_of(quaternion) -> np.ndarray:
    """Rotation matrix of an xyzw quaternion."""
    v, w = np.asarray(quaternion[:3]), quaternion[3]
    k = cross_matrix(v)
    return np.eye(3) + 2.0 * w * k + 2.0 * k @ k


def cross_matrix(v) -> np.ndarray:
    return np.array([[0.0, -v[2], v[1]], [v[2], 0.0, -v[0]], [-v[1], v[0], 0.0]])


def rotation_about(axis, angle: float) -> np.ndarray:
    k = cross_matrix(axis)
    return np.eye(3) + np.sin(angle) * k + (1.0 - np.cos(angle)) * k @ k


def place_bodies(robot, state):
    """Rotation, origin, angular and linear velocity of the 13 bodies in the world."""
    R = rotation_of(state[3:7])
    bodies = [(R, state[0:3], R @ state[10:13], R @ state[7:10])]
    for joint in range(12):
        Rp, pp, wp_, vp = bodies[0 if joint % 3 == 0 else joint]
        arm = Rp @ robot.joint_offset[joint]
        omega = wp_ + Rp @ robot.joint_axis[joint] * state[25 + joint]
        bodies.append(
            (
                Rp @ rotation_about(robot.joint_axis[joint], state[13 + joint]),
                pp + arm,
                omega,
                vp + np.cross(wp_, arm),
            )
        )
    return bodies


def momentum(robot, state):
    """Linear momentum, angular momentum about the com, and position of the com, in the world."""
    total = robot.mass.sum()
    parts = []
    for (R, p, omega, v), m, com, inertia in zip(
        place_bodies(robot, state), robot.mass, robot.com, robot.inertia, strict=True
    ):
        arm = R @ com
        parts.append((m, p + arm, v + np.cross(omega, arm), R @ inertia @ R.T @ omega))
    centre = sum(m * r for m, r, _, _ in parts) / total
    linear = sum(m * v for m, _, v, _ in parts)
    angular = sum(spin + np.cross(r - centre, m * v) for m, r, v, spin in parts)
    return linear, angular, centre


def foot_centres(robot, state) -> np.ndarray:
    """Centres of the foot spheres in the world, [4, 3]."""
    bodies = place_bodies(robot, state)
    return np.array(
        [bodies[3 * i + 3][1] + bodies[3 * i + 3][0] @ robot.foot_offset[i] for i in range(4)]
    )


@pytest.fixture(scope="session")
def config_dir() -> Path:
    return CONFIG


@pytest.fixture(scope="session")
def robots() -> dict:
    return {name: load_robot(CONFIG / f"anymal_{name}.yaml") for name in "bcd"}


@pytest.fixture(scope="session")
def robot(robots):
    """ANYmal D."""
    return robots["d"]


@pytest.fixture
def bench():
    """Class: Bench(robot, num_envs, **settings of Simulator)."""
    return Bench


@pytest.fixture
def reference() -> SimpleNamespace:
    return SimpleNamespace(
        rotation_of=rotation_of,
        place_bodies=place_bodies,
        momentum=momentum,
        foot_centres=foot_centres,
    )


@pytest.fixture
def passive():
    """Function: the robot without drives, friction and armature, a chain of free joints."""

    def make(robot):
        zero = np.zeros(12)
        actuator = replace(robot.actuator, viscous=zero, coulomb=zero, armature=zero)
        return replace(robot, kp=0.0, kd=0.0, actuator=actuator)

    return make


@pytest.fixture
def rng() -> np.random.Generator:
    return np.random.default_rng(0)
