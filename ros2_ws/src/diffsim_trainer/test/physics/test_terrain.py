"""Height field: the spline against closed forms, slopes against Coulomb, flat field against plane.

The gradient on rough ground is in test_gradient.
"""

import numpy as np
import pytest
import warp as wp

from diffsim_trainer.physics import ContactModel, Terrain
from diffsim_trainer.physics.terrain import build_terrain

pytestmark = pytest.mark.physics
G = 9.81
HEIGHT, VELOCITY, FORCE = 3, slice(4, 7), slice(7, 10)


@pytest.fixture(scope="module")
def bumps() -> Terrain:
    """Random heights of ±4 cm, 20 cm apart: slopes up to 0.4."""
    return Terrain(0.02 * np.random.default_rng(1).normal(size=(24, 20)), 0.2)


def ramp(angle: float) -> Terrain:
    """Roof of 10 m flanks along x that rise and fall by `angle`; ±4 m around x = 5 is a plane."""
    x = 0.1 * np.arange(200)
    profile = np.tan(angle) * np.where(x < 10.0, x, 20.0 - x)
    return Terrain(np.tile(profile[:, None], (1, 4)), 0.1)


@pytest.fixture(scope="module")
def look_up():
    """Function: height and slopes [n, 3] that the kernel functions find on a terrain."""
    real = wp.float64
    field = build_terrain(real)

    @wp.kernel(module="unique", enable_backward=False)
    def evaluate(
        c: wp.array2d(dtype=real),
        rate: real,
        points: wp.array2d(dtype=real),
        out: wp.array2d(dtype=real),
    ):
        i = wp.tid()
        found = field.surface(c, rate, points[i, 0], points[i, 1])
        for k in range(3):
            out[i, k] = found[k]

    def run(terrain, points):
        c, where, out = (
            wp.array(np.ascontiguousarray(x), dtype=real, device="cpu")
            for x in (terrain.coefficients(), points, np.full((len(points), 3), np.nan))
        )
        inputs = [c, 1.0 / terrain.spacing, where]
        wp.launch(evaluate, len(points), inputs=inputs, outputs=[out], device="cpu")
        return out.numpy()

    return run


def test_spline_passes_through_the_samples(bumps, look_up):
    rows, columns = np.meshgrid(np.arange(-30, 30), np.arange(-30, 30), indexing="ij")
    points = 0.2 * np.stack([rows.ravel(), columns.ravel()], 1)
    expected = bumps.heights[rows % 24, columns % 20].ravel()
    # a point that rounding puts into the neighbouring cell has the same height there
    np.testing.assert_allclose(look_up(bumps, points)[:, 0], expected, atol=1e-12)
    np.testing.assert_allclose(bumps.height(*points.T), expected, atol=1e-12)


def test_slopes_are_the_derivatives_of_the_height(bumps, look_up, rng):
    points, h = rng.uniform(-9.0, 9.0, (500, 2)), 1e-6
    found = look_up(bumps, points)
    np.testing.assert_allclose(found[:, 0], bumps.height(*points.T), atol=1e-14)
    for axis in range(2):
        step = h * np.eye(2)[axis]
        numeric = bumps.height(*(points + step).T) - bumps.height(*(points - step).T)
        np.testing.assert_allclose(found[:, 1 + axis], numeric / (2 * h), atol=1e-8)


def test_spline_converges_to_a_smooth_ground(look_up, rng):
    # h = A sin(k x): spline error is of fourth order in the height, third in the slope
    k, points, errors = 2.0 * np.pi / 3.2, rng.uniform(-4.0, 4.0, (500, 2)), []
    exact = np.stack([np.sin(k * points[:, 0]), k * np.cos(k * points[:, 0])], 1)
    for spacing in (0.2, 0.1):
        x = spacing * np.arange(round(3.2 / spacing))
        terrain = Terrain(np.tile(np.sin(k * x)[:, None], (1, 4)), spacing)
        errors.append(np.abs(look_up(terrain, points)[:, :2] - exact).max(0))
    assert errors[1][0] < errors[0][0] / 14.0 and errors[1][1] < errors[0][1] / 7.0
    assert errors[1][0] < 2e-5 and errors[1][1] < 5e-4


@pytest.mark.parametrize("law", [ContactModel.SMOOTHED, ContactModel.HARD])
def test_flat_field_is_a_plane(bench, robot, rng, law):
    # at height 0.1; states, sensors and gradients of both kernels up to rounding
    n = 16
    plane = bench(robot, n, dtype="float64", contact=law)
    field = bench(robot, n, dtype="float64", contact=law, terrain=Terrain(np.full((4, 4), 0.1), 1))
    state = plane.standing()
    state[:, 2] += rng.uniform(-0.01, 0.02, n)
    state[:, 7:13] = 0.5 * rng.normal(size=(n, 6))
    state[:, 25:] = rng.normal(size=(n, 12))
    raised = state.copy()
    raised[:, 2] += 0.1
    expected, expected_sensors = plane.run(state, 20)
    found, sensors = field.run(raised, 20)
    found[..., 2] -= 0.1
    np.testing.assert_allclose(found, expected, atol=1e-9)
    np.testing.assert_allclose(sensors, expected_sensors, atol=1e-5)


@pytest.fixture
def on_slope(bench, robot):
    """Function: bench on a ramp, and the stance of a stiff robot turned with the slope."""

    def make(angle, num_envs=1, **settings):
        b = bench(robot, num_envs, terrain=ramp(angle), **settings)
        b.params[:, 5:8] = 10.0, 100.0, 5.0
        state = b.standing()
        normal = np.array([-np.sin(angle), 0.0, np.cos(angle)])
        state[:, :3] = np.array([5.0, 0.0, 5.0 * np.tan(angle)]) + robot.stand_height * normal
        state[:, 4], state[:, 6] = -np.sin(0.5 * angle), np.cos(0.5 * angle)
        return b, state

    return make


def test_robot_holds_on_a_slope_below_the_friction_angle(on_slope):
    # tan(angle) < mu: the feet do not move (stiff legs strain against each other: many sweeps)
    angle = np.deg2rad(15.0)
    b, state = on_slope(angle, 2, contact=ContactModel.HARD, sweeps=16)
    b.params[:, 0] = [1.3 * np.tan(angle), 1.0]
    _, sensors = b.run(state, 600, every=10)
    assert np.linalg.norm(sensors[20:, ..., VELOCITY], axis=-1).max() < 1e-4
    assert np.abs(sensors[20:, ..., HEIGHT]).max() < 1e-4


def test_robot_slides_on_a_slope_above_the_friction_angle(on_slope):
    # all feet slip: a = g (sin - mu cos) downhill
    angle, mu = np.deg2rad(15.0), np.array([0.05, 0.12])
    b, state = on_slope(angle, 2, contact=ContactModel.HARD)
    b.params[:, 0] = mu
    _, sensors = b.run(state, 240, every=80)
    downhill = np.array([-np.cos(angle), 0.0, -np.sin(angle)])
    speed = sensors[..., VELOCITY].mean(2) @ downhill
    expected = G * (np.sin(angle) - mu * np.cos(angle))
    np.testing.assert_allclose((speed[2] - speed[0]) / 0.8, expected, rtol=2e-3)


def test_load_on_a_slope(on_slope, robot):
    # at rest the forces, in world axes, add up to the weight
    b, state = on_slope(np.deg2rad(15.0), contact=ContactModel.HARD, sweeps=16)
    _, sensors = b.run(state, 600, every=20)
    total = sensors[-5:, 0, :, FORCE].sum(1).mean(0)
    weight = robot.mass.sum() * G
    np.testing.assert_allclose(total, [0.0, 0.0, weight], atol=1e-3 * weight)


@pytest.mark.parametrize("degrees", [0.0, 12.0])
def test_smoothed_feet_creep_by_the_logarithm_of_time(on_slope, degrees):
    # d(t) = -ln(1 + kappa a dt t) / kappa, whatever a: from 1 s to 4 s by ln(4) / kappa
    settings = dict(dtype="float64", contact=ContactModel.SMOOTHED, position_correction=False)
    b, state = on_slope(np.deg2rad(degrees), **settings)
    _, sensors = b.run(state, 800, every=200)
    sunk = sensors[0, 0, :, HEIGHT] - sensors[3, 0, :, HEIGHT]
    assert sunk.mean() == pytest.approx(np.log(4.0) / 300.0, rel=0.05)


def test_standing_on_bumps(bench, robot, bumps, rng):
    # every environment on other ground: no foot sinks, and the feet carry the weight
    n = 16
    b = bench(robot, n, contact=ContactModel.HARD, terrain=bumps)
    offset = rng.uniform(-3.0, 3.0, (n, 2))
    b.sim.ground_offset.assign(offset)
    state = b.standing(height=robot.stand_height + 0.06)
    _, sensors = b.run(state, 800, every=10)
    assert sensors[..., HEIGHT].min() > -5e-3
    assert np.abs(sensors[40:, ..., HEIGHT].min()) < 1e-3
    load = sensors[-20:, ..., 9].sum(-1).mean(0)
    np.testing.assert_allclose(load, robot.mass.sum() * G, rtol=2e-3)


def test_offset_moves_the_ground_under_an_environment(bench, robot, bumps, rng):
    # the same as moving the robot; it may change between launches
    b = bench(robot, 4, dtype="float64", terrain=bumps)
    state = b.standing()
    offset = rng.uniform(-5.0, 5.0, (4, 2))
    moved = state.copy()
    moved[:, :2] += offset
    expected, expected_sensors = b.step(moved)
    b.sim.ground_offset.assign(offset)
    found, sensors = b.step(state)
    np.testing.assert_allclose(found[:, 2:], expected[:, 2:], atol=1e-9)
    np.testing.assert_allclose(sensors, expected_sensors, atol=1e-6)
    assert np.ptp(sensors[:, 0, HEIGHT]) > 1e-3


@pytest.mark.parametrize(
    ("heights", "spacing", "message"),
    [
        (np.zeros(16), 0.1, r"heights has shape \(16,\); at least 4 × 4 samples needed"),
        (np.zeros((4, 3)), 0.1, r"heights has shape \(4, 3\)"),
        (np.full((4, 4), np.nan), 0.1, "heights has 16 values not finite"),
        (np.zeros((4, 4)), 0.0, "spacing is 0.0 m; it must be positive"),
    ],
)
def test_bad_terrain_is_refused(heights, spacing, message):
    with pytest.raises(ValueError, match=message):
        Terrain(heights, spacing)
