"""Rigid-body motion: free fall, conserved momenta, pendulum, energy. HARD, float64."""

from dataclasses import replace

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


def test_pendulum_period(bench, robot, passive, reference):
    # T = 2 pi sqrt(I / (m g l)): the left front leg swings about its HAA axis, all other joints
    # locked by huge rotors, under a base that 1000 t and three feet hold still
    locked = np.full(12, 1e12)
    locked[0] = 0.0
    free = passive(robot)
    leg = replace(free, actuator=replace(free.actuator, armature=locked))
    b = bench(leg, 1, dtype="float64", dt=0.001, contact=ContactModel.HARD, sweeps=8)
    b.params[:, 0:5] = 1.0, 1e6, -0.1, -0.1, 0.0
    state = b.standing()
    state[:, 14:16] = 0.4, -2.2

    _, (R, axle, _, _), *_ = bodies = reference.place_bodies(leg, state[0])
    mass = leg.mass[1:4]
    links = list(zip(bodies[1:4], leg.com[1:4], leg.inertia[1:4], mass, strict=True))
    arms = np.array([p + R @ c - axle for (R, p, _, _), c, _, _ in links])
    inertia = sum(
        (R @ i @ R.T)[0, 0] + m * (r[1] ** 2 + r[2] ** 2)
        for ((R, _, _, _), _, i, m), r in zip(links, arms, strict=True)
    )
    y, z = (mass @ arms / mass.sum())[1:]
    period = 2.0 * np.pi * np.sqrt(inertia / (mass.sum() * G * np.hypot(y, z)))

    hanging = -np.arctan2(y, -z)
    state[:, 13] = hanging + 0.05
    angle = b.run(state, 4000)[0][:, 0, 13] - hanging
    up = np.flatnonzero((angle[:-1] < 0.0) & (angle[1:] >= 0.0))
    crossing = up - angle[up] / (angle[up + 1] - angle[up])
    found = 0.001 * np.diff(crossing).mean()
    assert len(crossing) > 2 and found == pytest.approx(period, rel=1e-3)


def energy(robot, state, reference) -> float:
    """Kinetic energy with rotors, potential energy of weight and of the drives' springs, J."""
    total = 0.5 * (robot.actuator.armature @ state[25:] ** 2)
    total += 0.5 * robot.kp * np.sum((robot.default_pose - state[13:25]) ** 2)
    placed = reference.place_bodies(robot, state)
    bodies = zip(placed, robot.mass, robot.com, robot.inertia, strict=True)
    for (R, p, omega, v), m, com, inertia in bodies:
        centre = v + np.cross(omega, R @ com)
        local = R.T @ omega
        total += 0.5 * (m * centre @ centre + local @ inertia @ local) + m * G * (p + R @ com)[2]
    return total


def test_energy_never_grows(bench, robot, reference):
    # drop from 10 cm with a push, on springs without damping: impacts, friction and drag only take
    b = bench(robot, 1, dtype="float64", dt=0.005, contact=ContactModel.HARD)
    b.params[:, 6] = 0.0
    state = b.standing(height=robot.stand_height + 0.1)
    state[:, 7:10], state[:, 10] = [0.5, 0.2, 0.0], 0.3
    states, _ = b.run(state, 200)
    history = np.array([energy(robot, x[0], reference) for x in states])
    assert np.diff(history).max() < 1e-6
    assert history[-1] < history[0] - 20.0
