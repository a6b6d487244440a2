"""Public face: settings and shapes that are refused, and the limits of the three contact laws."""

import numpy as np
import pytest
import warp as wp

from diffsim_trainer.physics import ContactModel, Simulator
from diffsim_trainer.physics.contact import SOFT_STIFFNESS

pytestmark = pytest.mark.physics


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"dtype": "float16"}, r"dtype is 'float16'; use one of \['float32', 'float64'\]"),
        ({"dt": 0.0}, "dt is 0.0 s; it must be positive"),
        ({"sweeps": 0}, "sweeps is 0; use 1 to 16"),
        ({"sweeps": 17}, "sweeps is 17; use 1 to 16"),
    ],
)
def test_bad_settings_are_refused(robot, settings, message):
    with pytest.raises(ValueError, match=message):
        Simulator(robot, 1, **settings)


@pytest.mark.parametrize(
    ("index", "shape", "message"),
    [
        (0, (1, 37), r"state_in has shape \(1, 37\); it must be \(2, 37\)"),
        (3, (2, 8), r"params has shape \(2, 8\); it must be \(2, 9\)"),
        (6, (2, 4, 9), r"sensors_out has shape \(2, 4, 9\); it must be \(2, 4, 10\)"),
    ],
)
def test_wrong_shapes_are_refused(robot, index, shape, message):
    sim = Simulator(robot, 2, contact=ContactModel.HARD)
    shapes = [(2, 37), (2, 12), (2, 12), (2, 9), (2,), (2, 37), (2, 4, 10)]
    shapes[index] = shape
    arrays = [wp.zeros(s, dtype=wp.int32 if len(s) == 1 else wp.float32) for s in shapes]
    with pytest.raises(ValueError, match=message):
        sim.step(*arrays[:5], 0, *arrays[5:])


def test_step_in_place_is_refused(robot):
    sim = Simulator(robot, 2, contact=ContactModel.HARD)
    shapes = [(2, 37), (2, 12), (2, 12), (2, 9), (2,), (2, 4, 10)]
    arrays = [wp.zeros(s, dtype=wp.int32 if len(s) == 1 else wp.float32) for s in shapes]
    with pytest.raises(ValueError, match="state_out lies on the memory of state_in"):
        sim.step(*arrays[:5], 0, arrays[0], arrays[5])


def test_default_params(robot):
    params = Simulator(robot, 2, contact=ContactModel.HARD).default_params()
    np.testing.assert_array_equal(params, np.tile([0.8, 0, 0, 0, 0, 1, 1, 1, 300.0], (2, 1)))


def test_smoothed_becomes_hard_as_kappa_grows(bench, robot):
    # 2 mm inside the ground s = 1 / (1 + exp(-0.002 kappa)): 1 at kappa = 1e5
    result = []
    for law in (ContactModel.HARD, ContactModel.SMOOTHED):
        b = bench(robot, 1, dtype="float64", contact=law)
        b.params[:, 8] = 1e5
        state = b.standing()
        state[:, 2] -= 0.002
        state[:, 7:10] = [0.3, 0.1, -0.5]
        result.append(b.step(state))
    np.testing.assert_allclose(result[0][0], result[1][0], atol=1e-12)
    np.testing.assert_allclose(result[0][1], result[1][1], atol=1e-9)


def test_kappa_can_be_annealed(bench, robot):
    # s = 1 / (1 + exp(kappa d)) with the kappa of each environment and launch
    b = bench(robot, 3, dtype="float64", contact=ContactModel.SMOOTHED)
    state = b.standing()
    state[:, 2] += 0.004
    state[:, 9] = -1.0
    for kappa in ([100.0, 300.0, 1000.0], [200.0, 400.0, 2000.0]):
        b.params[:, 8] = kappa
        together = b.step(state)[1][..., 9].sum(1)
        assert together[0] > together[1] > together[2] > 0.0
        for env, value in enumerate(kappa):
            alone = bench(robot, 1, dtype="float64", contact=ContactModel.SMOOTHED)
            alone.params[:, 8] = value
            assert alone.step(state[:1])[1][..., 9].sum() == together[env]


def test_position_correction_holds_the_feet_up(bench, robot):
    # standing creeps downward by ln(1 + kappa a dt t) / kappa without correction, and not with it
    depth = {}
    for correction in (True, False):
        settings = dict(contact=ContactModel.SMOOTHED, position_correction=correction)
        b = bench(robot, 1, dtype="float64", **settings)
        _, sensors = b.run(b.standing(), 600, every=200)
        depth[correction] = -sensors[:, 0, :, 3].min(1)
    assert depth[True].max() < 4e-3 and np.ptp(depth[True]) < 1e-3
    assert depth[False][-1] > 2.0 * depth[True][-1]
    assert np.all(np.diff(depth[False]) > 0.0)


def test_soft_robot_stands_at_the_depth_of_its_springs(bench, robot):
    # m g / (4 k) = 14 mm
    b = bench(robot, 1, dtype="float64", dt=0.0005, contact=ContactModel.SOFT)
    _, sensors = b.run(b.standing(), 4000, every=4000)
    expected = robot.mass.sum() * 9.81 / 4 / SOFT_STIFFNESS
    assert -sensors[-1, 0, :, 3].mean() == pytest.approx(expected, rel=0.05)
