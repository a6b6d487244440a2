"""The whole body on a height field: slopes against Coulomb, a flat field against the plane."""

import numpy as np
import pytest

from diffsim_trainer.physics import ContactModel, Terrain

pytestmark = pytest.mark.physics
DT = 0.0025
G = 9.81


def roof(angle: float) -> Terrain:
    """10 m flanks along x that rise and fall by `angle`, planes but near the ridges."""
    x = 0.1 * np.arange(200)
    profile = np.tan(angle) * np.where(x < 10.0, x, 20.0 - x)
    return Terrain(np.tile(profile[:, None], (1, 4)), 0.1)


@pytest.fixture
def on_slope(robot, bench):
    """Function: bench whose robot lies in its lying pose along the rising flank, and its state."""

    def make(angle: float, height: float):
        terrain = roof(angle)
        b = bench(robot, 1, dt=DT, contact=ContactModel.HARD, body_contacts=True, terrain=terrain)
        state = b.standing()
        state[:, 0] = 5.0
        state[:, 2] = 5.0 * np.tan(angle) + height / np.cos(angle)
        state[:, 4], state[:, 6] = -np.sin(0.5 * angle), np.cos(0.5 * angle)  # pitched up
        state[:, 13:25] = robot.lying_pose
        return b, state

    return make


def lowest(b, state) -> float:
    """Smallest height of a body above ground, m."""
    clearance = b.nan(13)
    b.sim.measure_clearance(b.array(state), clearance)
    return float(clearance.numpy().min())


def test_lying_robot_rests_on_a_slope(robot, on_slope):
    # atan(0.8) = 39°: at 15° it must stay, at no time 5 mm deep, in the end touching
    b, state = on_slope(np.deg2rad(15.0), 0.3)
    states, _ = b.run(state, 1200, target=robot.lying_pose, every=40)
    assert np.all(np.isfinite(states))
    assert min(lowest(b, x) for x in states) > -5e-3
    assert abs(lowest(b, states[-1])) < 1e-3
    assert np.abs(states[-1, 0, 7:13]).max() < 1e-2
    assert np.linalg.norm(states[-1, 0, :3] - states[-10, 0, :3]) < 1e-3


def test_lying_robot_slides_down_a_steep_slope(robot, on_slope):
    # friction 0.2 on 20°: a = g (sin - mu cos) along the slope
    angle, friction = np.deg2rad(20.0), 0.2
    b, state = on_slope(angle, 0.12)
    b.params[:, 0] = friction
    states, _ = b.run(state, 400, target=robot.lying_pose, every=40)
    distance = (state[0, 0] - states[:, 0, 0]) / np.cos(angle)
    time = DT * 40 * np.arange(1, len(distance) + 1)
    acceleration = 2.0 * np.polyfit(time[2:], distance[2:], 2)[0]
    expected = G * (np.sin(angle) - friction * np.cos(angle))
    assert acceleration == pytest.approx(expected, rel=0.02)
    assert min(lowest(b, x) for x in states) > -5e-3


def test_flat_field_is_the_plane(robot, bench, rng):
    # a level field at z = 0 that is reached through the terrain kernel: falls end alike
    settings = dict(dt=DT, dtype="float64", contact=ContactModel.HARD, body_contacts=True)
    plane = bench(robot, 4, **settings)
    field = bench(robot, 4, terrain=Terrain(np.zeros((4, 4)), 0.5), **settings)
    state = plane.standing(height=0.7)
    state[:, 3] = 0.5 * rng.normal(size=4)
    state[:, 3:7] /= np.linalg.norm(state[:, 3:7], axis=1, keepdims=True)
    state[:, 13:25] += rng.uniform(-0.5, 0.5, (4, 12))
    a, _ = plane.run(state, 200, every=20)
    b, _ = field.run(state, 200, every=20)
    np.testing.assert_allclose(a, b, atol=1e-6)


def test_damped_robot_goes_down_on_rough_ground(robot, bench):
    # bumps of 2 cm, 60 cm apart: corners and discs do not sink; at rest in the end
    heights = 0.02 * np.random.default_rng(1).normal(size=(24, 20))
    b = bench(
        robot,
        4,
        dt=DT,
        contact=ContactModel.HARD,
        body_contacts=True,
        terrain=Terrain(heights, 0.6),
    )
    b.sim.ground_offset.assign(np.random.default_rng(2).uniform(0.0, 9.0, (4, 2)))
    b.params[:, 5], b.params[:, 6] = 0.0, 5.0 / robot.kd
    states, _ = b.run(b.standing(height=robot.stand_height + 0.1), 1200, every=40)
    assert np.all(np.isfinite(states))
    assert min(lowest(b, x) for x in states) > -5e-3
    assert np.abs(states[-1, :, 7:13]).max() < 0.1
    assert np.all(states[-1, :, 2] < 0.35)
