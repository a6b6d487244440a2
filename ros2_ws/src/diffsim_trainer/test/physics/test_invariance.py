"""What must not change: mirror image, heading, distance from the origin, precision."""

from dataclasses import replace
from types import SimpleNamespace

import numpy as np
import pytest

from diffsim_trainer.physics import ContactModel

pytestmark = pytest.mark.physics

LEG_SWAP = [3, 4, 5, 0, 1, 2, 9, 10, 11, 6, 7, 8]  # left legs for right legs
HAA_FLIP = np.array([-1.0, 1.0, 1.0] * 4)


@pytest.fixture
def moving():
    """Function: states of robots about to touch the ground with random motion."""

    def make(b, seed=3):
        rng = np.random.default_rng(seed)
        state = b.standing()
        state[:, 2] += rng.uniform(-0.01, 0.02, b.num_envs)
        state[:, 3:6] = 0.03 * rng.normal(size=(b.num_envs, 3))
        state[:, 3:7] /= np.linalg.norm(state[:, 3:7], axis=1, keepdims=True)
        state[:, 7:13] = 0.5 * rng.normal(size=(b.num_envs, 6))
        state[:, 13:25] += 0.1 * rng.normal(size=(b.num_envs, 12))
        state[:, 25:] = rng.normal(size=(b.num_envs, 12))
        return state, b.robot.default_pose + 0.2 * rng.normal(size=(b.num_envs, 12))

    return make


@pytest.fixture
def weights():
    """Of a loss that does not depend on heading and place: height, joints, foot heights."""
    rng = np.random.default_rng(7)
    state, sensors = np.zeros(37), np.zeros((4, 10))
    state[2], state[13:] = 1.0, rng.normal(size=24)
    sensors[:, 3] = rng.normal(size=4)
    return SimpleNamespace(state=state, sensors=sensors)


def mirror_state(state):
    out = state.copy()
    out[..., 1] *= -1.0
    out[..., [3, 5]] *= -1.0
    out[..., 8] *= -1.0
    out[..., [10, 12]] *= -1.0
    out[..., 13:25] = mirror_joints(state[..., 13:25])
    out[..., 25:37] = mirror_joints(state[..., 25:37])
    return out


def mirror_joints(q):
    return q[..., LEG_SWAP] * HAA_FLIP


@pytest.fixture
def mirrored_robot(robot):
    """D made equal to its own mirror image about the x-z plane."""
    flip = np.diag([1.0, -1.0, 1.0])
    bodies = [0, *(1 + j for j in LEG_SWAP)]

    def even(value, swap):
        return 0.5 * (value + swap(value))

    actuator = replace(
        robot.actuator,
        armature=even(robot.actuator.armature, lambda x: x[LEG_SWAP]),
        viscous=even(robot.actuator.viscous, lambda x: x[LEG_SWAP]),
        coulomb=even(robot.actuator.coulomb, lambda x: x[LEG_SWAP]),
    )
    return replace(
        robot,
        mass=even(robot.mass, lambda x: x[bodies]),
        com=even(robot.com, lambda x: x[bodies] @ flip),
        inertia=even(robot.inertia, lambda x: flip @ x[bodies] @ flip),
        joint_offset=even(robot.joint_offset, lambda x: x[LEG_SWAP] @ flip),
        foot_offset=even(robot.foot_offset, lambda x: x[[1, 0, 3, 2]] @ flip),
        actuator=actuator,
    )


@pytest.mark.parametrize("law", [ContactModel.SMOOTHED, ContactModel.HARD])
def test_mirror_image(bench, mirrored_robot, moving, law):
    # sweeps update the left feet first, so symmetry holds for the converged impulses
    b = bench(mirrored_robot, 8, dtype="float64", contact=law, sweeps=16)
    state, target = moving(b)
    left, _ = b.run(state, 20, target=target)
    right, _ = b.run(mirror_state(state), 20, target=mirror_joints(target))
    np.testing.assert_allclose(mirror_state(left[-1]), right[-1], atol=1e-7)


def turn_state(state, yaw):
    out = state.copy()
    c, s = np.cos(yaw), np.sin(yaw)
    out[..., 0] = c * state[..., 0] - s * state[..., 1]
    out[..., 1] = s * state[..., 0] + c * state[..., 1]
    x, y, z, w = np.moveaxis(state[..., 3:7], -1, 0)
    c, s = np.cos(0.5 * yaw), np.sin(0.5 * yaw)
    out[..., 3:7] = np.stack([c * x - s * y, c * y + s * x, c * z + s * w, c * w - s * z], -1)
    return out


@pytest.mark.parametrize("law", [ContactModel.SMOOTHED, ContactModel.HARD])
def test_heading_does_not_matter(bench, robot, moving, weights, law):
    b = bench(robot, 8, dtype="float64", contact=law)
    state, target = moving(b)
    turned = turn_state(state, 1.234)
    here, _ = b.run(state, 20, target=target)
    there, _ = b.run(turned, 20, target=target)
    np.testing.assert_allclose(turn_state(here[-1], 1.234), there[-1], atol=1e-9)
    _, here_bar, _ = b.gradient(state, target[None], 4, weights)
    _, there_bar, _ = b.gradient(turned, target[None], 4, weights)
    np.testing.assert_allclose(there_bar, here_bar, atol=1e-9 * np.abs(here_bar).max())


@pytest.mark.parametrize("dtype", ["float64", "float32"])
@pytest.mark.parametrize("distance", [10.0, 1000.0])
def test_distance_does_not_matter(bench, robot, moving, weights, dtype, distance):
    # nothing but the horizontal position may know where the robot is, to the last bit
    b = bench(robot, 8, dtype=dtype, contact=ContactModel.SMOOTHED)
    state, target = moving(b)
    far = state.copy()
    far[:, :2] += distance
    here, here_sensors = b.run(state, 20, target=target)
    there, there_sensors = b.run(far, 20, target=target)
    np.testing.assert_array_equal(here[..., 2:], there[..., 2:])
    np.testing.assert_array_equal(here_sensors, there_sensors)
    moved = there[-1, :, :2] - here[-1, :, :2] - distance
    assert np.abs(moved).max() < 40 * distance * np.finfo(dtype).eps
    for here_bar, there_bar in zip(
        b.gradient(state, target[None], 4, weights),
        b.gradient(far, target[None], 4, weights),
        strict=True,
    ):
        np.testing.assert_array_equal(here_bar, there_bar)


@pytest.mark.parametrize("law", [ContactModel.SMOOTHED, ContactModel.HARD])
def test_float32_follows_float64(bench, robot, moving, law):
    # one step: eps = 6e-8, times up to 1e3 between the mass of the robot and that of a foot, times
    # joint velocities of up to 5 rad/s
    result = []
    for dtype in ("float64", "float32"):
        b = bench(robot, 32, dtype=dtype, contact=law)
        state, target = moving(b)
        result.append(b.step(state.astype(np.float32), target))
    np.testing.assert_allclose(result[0][0], result[1][0], atol=5e-4)
    np.testing.assert_allclose(result[0][1][..., 3:7], result[1][1][..., 3:7], atol=5e-4)


@pytest.mark.parametrize("law", [ContactModel.SMOOTHED, ContactModel.HARD])
def test_environments_do_not_see_each_other(bench, robot, moving, law):
    b, single = bench(robot, 4, contact=law), bench(robot, 1, contact=law)
    state, target = moving(b)
    together, _ = b.step(state, target)
    for env in range(4):
        alone, _ = single.step(state[env : env + 1], target[env : env + 1])
        np.testing.assert_array_equal(alone[0], together[env])
