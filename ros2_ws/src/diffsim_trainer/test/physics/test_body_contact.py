"""A robot that lies or has fallen rests on its body (HARD, body_contacts)."""

import numpy as np
import pytest

from diffsim_trainer.physics import ContactModel
from diffsim_trainer.physics.discs import contact_discs

pytestmark = pytest.mark.physics
DT = 0.0025


@pytest.fixture
def lowest_point(reference):
    """Function: height of the lowest point of all collision primitives, in closed form, m."""

    def find(robot, state) -> float:
        bodies = reference.place_bodies(robot, state)
        heights = [reference.foot_centres(robot, state)[:, 2].min() - robot.foot_radius]
        for body, centre, axis, radius in zip(*contact_discs(robot), strict=True):
            R, p, _, _ = bodies[body]
            # a disc reaches down by radius * sqrt(1 - a_z^2)
            tilt = np.sqrt(max(1.0 - (R @ axis)[2] ** 2, 0.0))
            heights.append((p + R @ centre)[2] - radius * tilt)
        return min(heights)

    return find


def settle(b, state, seconds, target):
    states, sensors = b.run(state, round(seconds / DT), target=target, every=round(0.1 / DT))
    assert np.all(np.isfinite(states))
    return states, sensors


@pytest.mark.parametrize("name", "bcd")
def test_lying_robot_rests(robots, bench, lowest_point, name):
    robot = robots[name]
    b = bench(robot, 1, dt=DT, contact=ContactModel.HARD, body_contacts=True)
    state = b.standing(height=0.3)
    state[:, 13:25] = robot.lying_pose
    states, _ = settle(b, state, 2.0, robot.lying_pose)
    for x in states[:, 0]:
        assert lowest_point(robot, x) > -5e-3
    assert abs(lowest_point(robot, states[-1, 0])) < 1e-3
    assert np.abs(states[-1, 0, 7:13]).max() < 1e-2


@pytest.mark.parametrize("turn", [1.5, 3.0])
def test_robot_on_its_side_or_back_rests(robot, bench, lowest_point, turn):
    b = bench(robot, 1, dt=DT, contact=ContactModel.HARD, body_contacts=True)
    state = b.standing(height=0.45)
    state[:, 3], state[:, 6] = np.sin(0.5 * turn), np.cos(0.5 * turn)
    states, _ = settle(b, state, 3.0, robot.default_pose)
    for x in states[:, 0]:
        assert lowest_point(robot, x) > -5e-3
    assert np.abs(states[-1, 0, 7:10]).max() < 0.1


def test_damped_robot_goes_down_onto_its_body(robot, bench, lowest_point):
    b = bench(robot, 1, dt=DT, contact=ContactModel.HARD, body_contacts=True)
    b.params[:, 5], b.params[:, 6] = 0.0, 5.0 / robot.kd
    states, _ = settle(b, b.standing(), 3.0, robot.default_pose)
    assert states[-1, 0, 2] < 0.2
    assert lowest_point(robot, states[-1, 0]) > -5e-3
    assert np.abs(states[-1, 0, 7:13]).max() < 0.05


def test_dropped_robots_stay_above_ground(robot, bench, lowest_point, rng):
    # 0.5 m, tilted by 30°, random legs: finite, and no primitive more than 5 mm deep after a second
    b = bench(robot, 16, dt=DT, contact=ContactModel.HARD, body_contacts=True)
    state = b.standing(height=1.1)
    azimuth = rng.uniform(0, 2 * np.pi, 16)
    state[:, 3] = np.sin(np.pi / 12) * np.cos(azimuth)
    state[:, 4] = np.sin(np.pi / 12) * np.sin(azimuth)
    state[:, 6] = np.cos(np.pi / 12)
    state[:, 13:25] += rng.uniform(-1.0, 1.0, (16, 12))
    b.params[:, 5], b.params[:, 6] = 0.0, 5.0 / robot.kd
    states, _ = settle(b, state, 1.5, robot.default_pose)
    for x in states[-1]:
        assert lowest_point(robot, x) > -5e-3
        assert np.abs(x[7:13]).max() < 5.0


def test_standing_is_the_same_with_and_without_body(robot, bench):
    # no body point is near the ground: only the order of the sweeps differs
    whole = bench(robot, 1, dt=DT, contact=ContactModel.HARD, body_contacts=True)
    feet = bench(robot, 1, dt=DT, contact=ContactModel.HARD, sweeps=8)
    a, _ = whole.run(whole.standing(), 200, every=200)
    b, _ = feet.run(feet.standing(), 200, every=200)
    np.testing.assert_allclose(a, b, atol=1e-3)


def test_no_gradient_and_hard_only(robot, bench):
    with pytest.raises(ValueError, match="only ContactModel.HARD"):
        bench(robot, 1, contact=ContactModel.SMOOTHED, body_contacts=True)
    b = bench(robot, 1, contact=ContactModel.HARD, body_contacts=True)
    with pytest.raises(RuntimeError, match="has no gradient"):
        b.sim.step_adjoint(*[None] * 14)
