"""The touch sensor: height of every body above ground, against closed forms."""

import numpy as np
import pytest
import warp as wp

from diffsim_trainer.physics import ContactModel, Terrain
from diffsim_trainer.physics.discs import contact_discs

pytestmark = pytest.mark.physics
needs_cuda = [pytest.mark.gpu, pytest.mark.skipif(not wp.is_cuda_available(), reason="needs CUDA")]
DEVICES = ["cpu", pytest.param("cuda:0", marks=needs_cuda)]


@pytest.fixture
def above_plane(reference):
    """Function: height [13] of the bodies of a state over the plane through a point."""

    def find(robot, state, normal, origin):
        heights = np.full(13, np.inf)
        bodies = reference.place_bodies(robot, state)
        for body, centre, axis, radius in zip(*contact_discs(robot), strict=True):
            R, p, _, _ = bodies[body]
            # a disc reaches down by radius * sqrt(1 - (a.n)^2); a sphere has no axis
            reach = radius * np.sqrt(max(1.0 - (normal @ R @ axis) ** 2, 0.0))
            heights[body] = min(heights[body], normal @ (p + R @ centre - origin) - reach)
        return heights

    return find


def random_states(b, rng):
    state = b.standing(height=0.7)
    state[:, :2] += rng.uniform(-0.5, 0.5, (b.num_envs, 2))
    state[:, 3:7] = rng.normal(size=(b.num_envs, 4))
    state[:, 3:7] /= np.linalg.norm(state[:, 3:7], axis=1, keepdims=True)
    state[:, 13:25] += rng.uniform(-1.5, 1.5, (b.num_envs, 12))
    return state


def measure(b, state):
    clearance = b.nan(13)
    b.sim.measure_clearance(b.array(state), clearance)
    return clearance.numpy().astype(float)


@pytest.mark.parametrize("device", DEVICES)
@pytest.mark.parametrize("name", "bcd")
def test_height_above_the_plane(robots, bench, above_plane, rng, name, device):
    robot = robots[name]
    b = bench(robot, 64, dtype="float64", device=device)
    state = random_states(b, rng)
    expected = [above_plane(robot, x, np.array([0.0, 0.0, 1.0]), np.zeros(3)) for x in state]
    np.testing.assert_allclose(measure(b, state), expected, atol=1e-12)


def test_height_above_a_slope(robot, bench, above_plane, rng):
    # a roof along x; its flanks are planes but near the ridge
    angle, x = 0.3, 0.1 * np.arange(200)
    profile = np.tan(angle) * np.where(x < 10.0, x, 20.0 - x)
    b = bench(robot, 32, dtype="float64", terrain=Terrain(np.tile(profile[:, None], (1, 4)), 0.1))
    state = random_states(b, rng)
    state[:, 2] += 5.0 * np.tan(angle)
    b.sim.ground_offset.assign(np.tile([5.0, 0.0], (32, 1)))
    normal = np.array([-np.sin(angle), 0.0, np.cos(angle)])
    origin = np.array([0.0, 0.0, 5.0 * np.tan(angle)])
    expected = [above_plane(robot, x, normal, origin) for x in state]
    np.testing.assert_allclose(measure(b, state), expected, atol=1e-9)


@pytest.mark.parametrize("leg", range(4))
def test_exactly_one_knee_touches(robot, bench, reference, leg):
    # hip and knee folded so that the knee is the lowest point; base put 1 mm too low for it
    b = bench(robot, 1, dtype="float64")
    state = b.standing()
    fold = np.sign(robot.default_pose[3 * leg + 1])
    state[0, 14 + 3 * leg : 16 + 3 * leg] = 0.2 * fold, -2.6 * fold
    heights = measure(b, state)[0]
    shank = 3 * leg + 3
    state[0, 2] -= heights[shank - 1 : shank + 1].min() + 1e-3
    touching = measure(b, state)[0] < 0.0
    assert touching.any() and set(np.flatnonzero(touching)) <= {shank - 1, shank}
    assert measure(b, state)[0].min() == pytest.approx(-1e-3, abs=1e-12)


def test_standing_and_lying(robots, bench):
    # feet alone carry a standing robot, even 5 mm too deep; a lying one touches with its bodies
    for robot in robots.values():
        b = bench(robot, 1)
        state = b.standing()
        state[:, 2] -= 0.005
        assert measure(b, state).min() > 0.1
        state[:, 2] = 0.05
        state[:, 13:25] = robot.lying_pose
        assert measure(b, state)[0, 0] < 0.0


def test_rests_with_the_contacts_that_it_senses(robot, bench):
    # what HARD body contacts leave of a lying robot's lowest body
    b = bench(robot, 1, dt=0.0025, contact=ContactModel.HARD, body_contacts=True)
    state = b.standing(height=0.3)
    state[:, 13:25] = robot.lying_pose
    states, _ = b.run(state, 600, target=robot.lying_pose, every=600)
    assert abs(measure(b, states[-1]).min()) < 2e-3


def test_wrong_shapes_are_refused(robot, bench):
    b = bench(robot, 2)
    with pytest.raises(ValueError, match=r"clearance has shape \(2, 12\); it must be \(2, 13\)"):
        b.sim.measure_clearance(b.nan(37), b.nan(12))
    with pytest.raises(ValueError, match=r"state has shape \(2, 36\); it must be \(2, 37\)"):
        b.sim.measure_clearance(b.nan(36), b.nan(13))
