"""Adjoint of the step against central differences in float64, by contact phase and horizon.

Nothing is frozen: state, targets of every control period and params are all probed. Where a foot
changes between sticking, slipping and separation the step has a kink; the phases below stay clear
of kinks by more than the step of the differences.
"""

from types import SimpleNamespace

import numpy as np
import pytest
import warp as wp

from diffsim_trainer.physics import ContactModel, Terrain

pytestmark = pytest.mark.physics

SMOOTHED, HARD, SOFT = ContactModel.SMOOTHED, ContactModel.HARD, ContactModel.SOFT
PHASES = ("air", "approach", "touchdown", "stick", "slip", "lift-off")
COPIES = 4  # random variants of each phase, one environment each
DIRECTIONS = 3
PARAM_SCALE = np.array([0.1, 1.0, 0.01, 0.01, 0.01, 0.1, 0.1, 0.1, 10.0])


@pytest.fixture
def phases(bench, robot):
    """Function: a bench of len(PHASES) * COPIES environments, their states and first targets."""

    def make(law, **settings):
        n = len(PHASES) * COPIES
        b = bench(robot, n, dtype="float64", contact=law, **settings)
        rng = np.random.default_rng(5)
        state = b.standing()
        target = robot.default_pose + 0.1 * rng.normal(size=(n, 12))
        state[:, 3:6] = 0.004 * rng.normal(size=(n, 3))
        state[:, 3:7] /= np.linalg.norm(state[:, 3:7], axis=1, keepdims=True)
        state[:, 7:13] = 0.1 * rng.normal(size=(n, 6))
        state[:, 25:] = 0.3 * rng.normal(size=(n, 12))
        index = {name: slice(i * COPIES, (i + 1) * COPIES) for i, name in enumerate(PHASES)}
        state[index["air"], 2] += 0.3
        state[index["approach"], 2] += 0.02
        state[index["approach"], 9] = -0.5
        state[index["touchdown"], 2] += 0.002
        state[index["touchdown"], 9] = -0.8
        state[index["stick"], 2] -= 0.004
        state[index["stick"], 7:13] *= 0.1
        state[index["stick"], 25:] *= 0.1
        state[index["slip"], 2] -= 0.004
        state[index["slip"], 7] = 1.5
        state[index["lift-off"], 2] -= 0.003
        state[index["lift-off"], 9] = 0.8
        b.params[:, 0] = 1.2
        b.params[index["slip"], 0] = 0.3
        b.params[:, 1] = 2.0
        b.delay[:] = 1
        return b, state, target, index

    return make


@pytest.fixture
def weights():
    rng = np.random.default_rng(11)
    sensors = rng.normal(size=(4, 10)) * np.array([0.1] * 3 + [10.0] + [1.0] * 3 + [0.01] * 3)
    return SimpleNamespace(state=rng.normal(size=37), sensors=sensors)


def differences(b, state, targets, substeps, weights, h):
    """For random directions: (what, numeric, analytic, scale) of the directional derivative [N]."""
    rng = np.random.default_rng(13)
    base_params = b.params.copy()
    gradient = b.gradient(state, targets, substeps, weights)
    values = {"state": state, "targets": targets, "params": base_params}
    for what, bar in zip(values, gradient, strict=True):
        for _ in range(DIRECTIONS):
            direction = rng.normal(size=values[what].shape)
            if what == "params":
                direction *= PARAM_SCALE
            loss = []
            for sign in (1.0, -1.0):
                probe = {**values, what: values[what] + sign * h * direction}
                b.params = probe["params"]
                loss.append(b.loss(probe["state"], probe["targets"], substeps, weights))
            b.params = base_params
            product = bar * direction
            axes = tuple(i for i in range(product.ndim) if i != product.ndim - 2)
            scale = np.sqrt((product**2).sum(axes))
            yield what, (loss[0] - loss[1]) / (2 * h), product.sum(axes), scale


def assert_gradient(b, state, targets, substeps, weights, h, tolerance):
    worst = {}
    for what, numeric, analytic, scale in differences(b, state, targets, substeps, weights, h):
        error = np.abs(numeric - analytic) / (scale + 1e-6)
        worst[what] = max(worst.get(what, 0.0), error.max())
    assert max(worst.values()) < tolerance, worst


def test_the_phases_are_what_they_say(phases):
    b, state, target, index = phases(HARD)
    _, sensors = b.step(state, target)
    force, slip = sensors[..., 7:10], np.linalg.norm(sensors[..., 4:6], axis=-1)
    assert np.all(force[index["air"]] == 0.0)
    assert np.all(force[index["approach"], :, 2] == 0.0)
    assert np.all(force[index["touchdown"], :, 2].max(1) > 100.0)
    gripping = (slip < 1e-3) & (force[..., 2] > 10.0)
    assert np.all(gripping[index["stick"]].sum(1) >= 2)
    assert np.all(slip[index["slip"]].max(1) > 0.5)
    assert np.all(force[index["lift-off"], :, 2].sum(1) < 1.0)


@pytest.mark.parametrize("substeps", [1, 4])
@pytest.mark.parametrize("law", [SMOOTHED, HARD])
def test_one_control_step(phases, weights, law, substeps):
    # h^2 f''' / 6 with f''' up to kappa^3 v, and eps / h
    b, state, target, _ = phases(law)
    assert_gradient(b, state, target[None], substeps, weights, 1e-6, 1e-5)


def test_one_soft_step(phases, weights):
    b, state, target, _ = phases(SOFT, dt=0.0005)
    assert_gradient(b, state, target[None], 1, weights, 1e-7, 1e-4)


@pytest.mark.parametrize("correction", [True, False])
@pytest.mark.parametrize("periods", [4, 12])
def test_many_control_steps(phases, weights, periods, correction):
    # up to 48 steps through landing, grip and slip
    b, state, target, _ = phases(SMOOTHED, position_correction=correction)
    rng = np.random.default_rng(17)
    targets = target + 0.1 * rng.normal(size=(periods, *target.shape))
    assert_gradient(b, state, targets, 4, weights, 1e-7, 1e-4)


@pytest.mark.parametrize("phase", PHASES)
def test_direction_over_the_horizon(phases, bench, robot, weights, phase):
    # every coordinate of state and targets by central differences, one pair of environments each
    few, state, target, index = phases(SMOOTHED)
    env = index[phase].start
    targets = target + 0.1 * np.random.default_rng(17).normal(size=(12, *target.shape))
    state_bar, target_bars, _ = few.gradient(state, targets, 4, weights)
    analytic = np.concatenate([state_bar[env], target_bars[:, env].ravel()])
    size, h = analytic.size, 1e-6
    steps = h * np.concatenate([np.eye(size), -np.eye(size)])
    many = bench(robot, 2 * size, dtype="float64", contact=SMOOTHED)
    many.params[:], many.delay[:] = few.params[env], few.delay[env]
    moved_targets = targets[:, env, None] + steps[:, 37:].reshape(-1, 12, 12).swapaxes(0, 1)
    loss = many.loss(state[env] + steps[:, :37], moved_targets, 4, weights)
    numeric = (loss[:size] - loss[size:]) / (2.0 * h)
    cosine = analytic @ numeric / np.linalg.norm(analytic) / np.linalg.norm(numeric)
    assert cosine > 0.999
    assert np.linalg.norm(analytic - numeric) < 1e-3 * np.linalg.norm(numeric)


def test_many_hard_control_steps(phases, weights):
    b, state, target, _ = phases(HARD)
    rng = np.random.default_rng(17)
    targets = target + 0.1 * rng.normal(size=(4, *target.shape))
    assert_gradient(b, state, targets, 4, weights, 1e-7, 1e-4)


@pytest.mark.parametrize("law", [SMOOTHED, HARD])
def test_rough_ground(phases, weights, law):
    # bumps of 5 mm and slopes up to 0.2: normals, contact axes and curvature carry gradient too
    bumps = Terrain(0.005 * np.random.default_rng(2).normal(size=(16, 16)), 0.1)
    b, state, target, _ = phases(law, terrain=bumps)
    rng = np.random.default_rng(19)
    b.sim.ground_offset.assign(rng.uniform(-1.0, 1.0, (b.num_envs, 2)))
    assert_gradient(b, state, target[None], 1, weights, 1e-6, 1e-5)
    targets = target + 0.1 * rng.normal(size=(4, *target.shape))
    assert_gradient(b, state, targets, 4, weights, 1e-7, 1e-3)


def test_targets_move_the_loss(phases, weights):
    # every joint target of every phase reaches the joint velocities with the sign of its torque
    b, state, target, _ = phases(SMOOTHED)
    b.delay[:] = 0
    for joint in range(12):
        pick = SimpleNamespace(state=np.eye(37)[25 + joint], sensors=np.zeros((4, 10)))
        bar = b.gradient(state, target[None], 1, pick)[1][0, :, joint]
        assert np.all(bar > 1e-3)


def test_delayed_target_gets_its_gradient(phases):
    # with all substeps late, only the previous target acts
    b, state, target, _ = phases(SMOOTHED)
    b.delay[:] = 4
    rng = np.random.default_rng(1)
    pick = SimpleNamespace(state=rng.normal(size=37), sensors=np.zeros((4, 10)))
    bar = b.gradient(state, np.array([target, target + 0.1]), 4, pick)[1]
    assert np.abs(bar[0]).min(0).max() > 0.0 and np.all(bar[1] == 0.0)


def test_air_feels_the_ground(phases, weights):
    # force from a distance: s(d) = e^(-kappa d) has a gradient at 2 cm, none is needed at 30 cm
    b, state, target, index = phases(SMOOTHED)
    pick = SimpleNamespace(state=np.zeros(37), sensors=np.zeros((4, 10)))
    pick.sensors[:, 9] = 1.0
    bar = b.gradient(state, target[None], 1, pick)[0][:, 2]
    assert np.all(bar[index["approach"]] < -1e-3)
    assert np.all(np.isfinite(bar[index["air"]])) and np.all(np.abs(bar[index["air"]]) < 1e-20)


@pytest.mark.parametrize(
    ("law", "dtype"),
    [
        (SMOOTHED, "float32"),
        (SMOOTHED, "float64"),
        (HARD, "float32"),
        (HARD, "float64"),
        (SOFT, "float64"),
    ],
)
def test_finite_at_singular_states(bench, robot, law, dtype):
    # exactly: zero gap, zero slip, zero velocity, identity rotation, target = position; straight
    # legs; no friction; far above and deep below the ground
    b = bench(robot, 6, dtype=dtype, dt=0.0005 if law is SOFT else 0.005, contact=law)
    state = b.standing()
    lowest = b.step(state)[1][0, :, 3].min()
    state[:, 2] -= lowest
    state[1, 13:25] = 0.0
    state[1, 2] = 0.7
    state[2, 2] += 100.0
    state[3, 2] -= 0.5
    b.params[4, 0] = 0.0
    b.params[5, 5:8] = 0.0
    ones = SimpleNamespace(state=np.ones(37), sensors=np.ones((4, 10)))
    after, sensors = b.step(state, state[:, 13:25])
    assert np.all(np.isfinite(after)) and np.all(np.isfinite(sensors))
    for bar in b.gradient(state, state[None, :, 13:25], 4, ones):
        assert np.all(np.isfinite(bar))


def test_adjoint_is_repeatable(phases, weights):
    b, state, target, _ = phases(SMOOTHED)
    first = b.gradient(state, target[None], 4, weights)
    for _ in range(3):
        for a, c in zip(first, b.gradient(state, target[None], 4, weights), strict=True):
            np.testing.assert_array_equal(a, c)


def test_adjoint_adds_and_params_are_optional(phases):
    # adj_*_in accumulate; adj_params may be None; adj_*_out are only read
    b, state, target, _ = phases(SMOOTHED)
    n = b.num_envs
    arrays = [b.array(x) for x in (state, target, target, b.params)]
    delay = wp.array(b.delay, dtype=wp.int32)
    out, sensors = b.nan(37), b.nan(4, 10)
    bars = [b.array(np.zeros((n, k))) for k in (37, 12, 12)]
    results = []
    for _ in range(2):
        state_bar, sensors_bar = b.array(np.ones((n, 37))), b.array(np.ones((n, 4, 10)))
        b.sim.step_adjoint(*arrays, delay, 1, out, sensors, *bars, None, state_bar, sensors_bar)
        results.append([bar.numpy().copy() for bar in bars])
        assert np.all(state_bar.numpy() == 1.0) and np.all(sensors_bar.numpy() == 1.0)
    for once, twice in zip(*results, strict=True):
        np.testing.assert_allclose(twice, 2.0 * once, rtol=1e-12)
