"""Robot in flight: free fall and the conserved momenta. Law HARD, float64, no contact in reach."""

import numpy as np
import pytest

from diffsim_trainer.physics import ContactModel

pytestmark = pytest.mark.physics
G = 9.81


@pytest.fixture
def flying(bench, passive, robot):
    """Function: passive robot with the given step, far above ground, and a tumbling state."""

    def make(dt: float, rng):
        b = bench(passive(robot), 3, dtype="float64", dt=dt, contact=ContactModel.HARD)
        state = b.standing(height=10.0)
        state[:, 7:13] = rng.normal(size=(3, 6))
        state[:, 13:25] += 0.3 * rng.normal(size=(3, 12))
        state[:, 25:] = rng.normal(size=(3, 12))
        return b, state

    return make


def test_free_fall(bench, robot):
    # z(t) = z0 - g t^2 / 2; the midpoint rule integrates a constant acceleration exactly
    b = bench(robot, 1, dtype="float64", dt=0.005, contact=ContactModel.HARD)
    b.params[:, 5:8] = 0.0
    states, sensors = b.run(b.standing(height=10.0), 20)
    t = 0.005 * np.arange(1, 21)
    np.testing.assert_allclose(states[:, 0, 2], 10.0 - 0.5 * G * t**2, atol=1e-12)
    np.testing.assert_allclose(states[:, 0, 9], -G * t, atol=1e-12)
    np.testing.assert_allclose(
        states[:, 0, 13:25], np.tile(robot.default_pose, (20, 1)), atol=1e-12
    )
    assert np.all(sensors[..., 7:10] == 0.0)


def drift(b, state, reference, seconds: float):
    """Largest error of momentum (kg m/s) and angular momentum (kg m^2/s) over the flight."""
    steps = round(seconds / b.sim.dt)
    states, _ = b.run(state, steps)
    linear = angular = 0.0
    for env in range(b.num_envs):
        p0, l0, _ = reference.momentum(b.robot, state[env])
        p1, l1, _ = reference.momentum(b.robot, states[-1, env])
        fall = np.array([0.0, 0.0, -b.robot.mass.sum() * G * seconds])
        linear = max(linear, np.abs(p1 - p0 - fall).max())
        angular = max(angular, np.abs(l1 - l0).max())
    return linear, angular


def test_momentum_in_flight(flying, reference):
    # dp/dt = m g, dL/dt = 0 about the com. Gyroscopic forces are taken at the old velocity, so the
    # flailing legs cost O(dt): at 5 ms 2e-3 of 57 kg at 1 m/s and 1 rad/s, half of it at 2.5 ms
    coarse = drift(*flying(0.005, np.random.default_rng(1)), reference, 0.2)
    fine = drift(*flying(0.0025, np.random.default_rng(1)), reference, 0.2)
    assert coarse[0] < 0.1 and coarse[1] < 0.1
    assert fine[0] < 0.6 * coarse[0] and fine[1] < 0.6 * coarse[1]


def test_spinning_robot_keeps_its_linear_momentum(bench, robot, reference):
    # spin of 3 rad/s about the vertical while flying at 3.7 m/s: an explicit w × v term would lose
    # m v (w dt)^2 / 2 = 0.02 kg m/s a step, 1 kg m/s over 40 steps; the frames carry v exactly
    b = bench(robot, 1, dtype="float64", dt=0.005, contact=ContactModel.HARD)
    state = b.standing(height=10.0)
    state[:, 7:10] = [2.0, -1.0, 3.0]
    state[:, 12] = 3.0
    linear, _ = drift(b, state, reference, 0.2)
    assert linear < 2e-3


def test_stiff_gains_are_stable(bench, robot):
    # explicit damping would be unstable: kd dt / inertia = 60 * 0.005 / 0.1 = 3 > 2
    b = bench(robot, 1, dtype="float64", dt=0.005, contact=ContactModel.HARD)
    b.params[:, 6] = 60.0 / robot.kd
    state = b.standing(height=10.0)
    state[:, 25:] = 1.0
    speed = np.abs(b.run(state, 40)[0][:, 0, 25:]).max(1)
    # damping of every joint dominates: speed halves at least every 4 steps and never flares up
    assert speed.max() < 1.0 and speed[-1] < 0.05
