"""The robot on HARD ground: load, friction, no restitution, no sinking."""

from dataclasses import replace

import numpy as np
import pytest

from diffsim_trainer.physics import ContactModel

pytestmark = pytest.mark.physics
G = 9.81
HEIGHT, VELOCITY, FORCE = 3, slice(4, 7), slice(7, 10)


@pytest.fixture
def hard(bench, robot):
    """Function: D on hard ground, float32 as in the simulation node."""

    def make(num_envs=1, dt=0.005, **settings):
        return bench(
            settings.pop("robot", robot), num_envs, dt=dt, contact=ContactModel.HARD, **settings
        )

    return make


def test_resting_load_is_the_weight(hard, robot):
    # sum of normal forces = m g once nothing moves
    _, sensors = hard().run(hard().standing(), 800, every=10)
    load = sensors[-20:, 0, :, 9].sum(1).mean()
    assert load == pytest.approx(robot.mass.sum() * G, rel=1e-3)


def test_stands_a_minute_without_sinking(hard):
    b = hard()
    _, sensors = b.run(b.standing(), 12000, every=100)
    assert np.abs(sensors[20:, 0, :, HEIGHT]).max() < 1e-3
    assert np.abs(sensors[20:, 0, :, HEIGHT]).max() < 1e-5  # measured: rounding only


def test_friction_opposes_slip_on_the_cone(hard, robot):
    # sliding: f_t = -mu f_n v_t / |v_t|
    b = hard(8)
    b.params[:, 0] = 0.3
    state = b.standing()
    angle = np.arange(8) * np.pi / 4
    state[:, 7], state[:, 8] = 2.0 * np.cos(angle), 2.0 * np.sin(angle)
    _, sensors = b.run(state, 20)
    for reading in sensors[5:].reshape(-1, 10):
        slip, force = reading[VELOCITY][:2], reading[FORCE]
        if force[2] > 1.0 and np.linalg.norm(slip) > 0.05:
            direction = slip / np.linalg.norm(slip)
            np.testing.assert_allclose(force[:2], -0.3 * force[2] * direction, atol=2e-3 * force[2])


def test_forces_stay_in_the_cone(hard, rng):
    b = hard(32)
    b.params[:, 0] = rng.uniform(0.2, 1.2, 32)
    state = b.standing()
    state[:, 7:13] += rng.normal(size=(32, 6))
    _, sensors = b.run(state, 100)
    force = sensors[..., FORCE]
    limit = b.params[:, 0][None, :, None] * force[..., 2]
    assert np.all(force[..., 2] >= 0.0)
    assert np.all(np.linalg.norm(force[..., :2], axis=-1) <= limit * (1 + 1e-5) + 1e-4)


def test_stick_slip_threshold(hard):
    # standing, the legs press outward with f_t / f_n = r; friction above r holds, below r slips
    grip = hard()
    states, sensors = grip.run(grip.standing(), 800, every=800)
    force = sensors[0, 0, :, FORCE]
    ratio = np.linalg.norm(force[:, :2], axis=1) / force[:, 2]
    b = hard(2)
    b.params[:, 0] = [1.05 * ratio.max(), 0.95 * ratio.min()]
    _, sensors = b.run(np.repeat(states[0], 2, axis=0), 40)
    slip = np.linalg.norm(sensors[-1, ..., 4:6], axis=-1)
    assert slip[0].max() < 1e-4
    assert slip[1].min() > 1e-3


def test_no_restitution(hard):
    # dropped from 5 cm a foot comes to the ground and stays: no bounce, no depth
    b = hard(1, dt=0.005)
    state = b.standing()
    state[:, 2] += 0.05
    _, sensors = b.run(state, 60)
    height = sensors[:, 0, :, HEIGHT]
    assert height.min() > -1e-4
    for foot in height.T:
        touch = np.argmax(foot < 1e-4)
        assert touch > 0 and foot[touch:].max() < 5e-4


def test_feet_do_not_sink_while_stepping(hard, robot):
    # open-loop trot in place: the speculative gap lets no foot through, whatever its speed
    b = hard()
    state, target = b.standing(), np.array(robot.default_pose)
    lowest = []
    for step in range(100):
        lift = np.sin(2 * np.pi * 2.0 * 0.02 * step)
        pose = target.copy()
        for leg, sign in enumerate((1, -1, -1, 1)):
            bend = 0.35 * max(sign * lift, 0.0) * (1 if leg < 2 else -1)
            pose[3 * leg + 1] += bend
            pose[3 * leg + 2] -= 2.0 * bend
        states, sensors = b.run(state, 4, target=pose)
        state = states[-1]
        lowest.append(sensors[:, 0, :, HEIGHT].min())
    assert np.abs(state[0, 3:5]).max() < 0.3, "the robot should not fall in this test"
    assert min(lowest) > -1e-4


@pytest.mark.parametrize("armature", [0.0, 0.006, 0.05, 0.2])
def test_solver_converges_at_any_armature(bench, robot, armature):
    # a stance after the solve: sticking feet have no velocity left, whatever the rotor inertia
    actuator = replace(robot.actuator, armature=np.full(12, armature))
    light = replace(robot, actuator=actuator)
    b = bench(light, 1, dtype="float64", contact=ContactModel.HARD, sweeps=8)
    _, sensors = b.run(b.standing(), 400, every=400)
    assert np.abs(sensors[-1, 0, :, VELOCITY]).max() < 1e-3
    assert sensors[-1, 0, :, 9].sum() == pytest.approx(robot.mass.sum() * G, rel=0.01)


def test_three_sweeps_are_within_one_percent(bench, robot, rng):
    # impulses after 3 sweeps against 16, on random stances with all feet loaded
    found = []
    start = None
    for sweeps in (3, 16):
        b = bench(robot, 64, dtype="float64", contact=ContactModel.HARD, sweeps=sweeps)
        if start is None:
            start = b.standing()
            start[:, 2] -= 0.01
            start[:, 7:13] = rng.normal(size=(64, 6)) * [0.5, 0.3, 0.3, 0.5, 0.5, 0.5]
            start[:, 13:25] += 0.05 * rng.normal(size=(64, 12))
            start[:, 25:] = rng.normal(size=(64, 12))
        found.append(b.step(start)[1][..., FORCE].reshape(64, -1))
    size = np.linalg.norm(found[1], axis=1)
    loaded = size > 50.0
    error = np.linalg.norm(found[0] - found[1], axis=1)[loaded] / size[loaded]
    assert loaded.sum() > 50
    assert np.median(error) < 1e-3 and np.quantile(error, 0.95) < 0.01
