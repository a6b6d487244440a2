"""MuJoCo as a second engine: what it is given and what it reports agree with our simulator."""

import numpy as np
import pytest

from diffsim_trainer.hard_contact_engine import HardContactEngine
from diffsim_trainer.mujoco_engine import MujocoEngine
from diffsim_trainer.physics import load_robot
from diffsim_trainer.rollout import standing_state

DT = 0.0025


@pytest.fixture
def robot(robot_path):
    return load_robot(robot_path)


def run(engine, state: np.ndarray, target: np.ndarray, seconds: float):
    for _ in range(round(seconds / DT)):
        state, sensors = engine(state, target)
    return state, sensors


def test_both_engines_agree_in_flight(robot):
    """Tumbling in the air with the legs driven: no contact model involved. The two integrators
    differ by O(dt): 0.2 s at 1 rad/s and 0.5 m/s allow a few 1e-3."""
    state = standing_state(robot, 1)
    state[0, 2] = 2.0
    state[0, 7:13] = [0.5, -0.3, 0.2, 1.0, -0.8, 0.6]
    target = state[:, 13:25] + 0.2
    ours, our_sensors = run(HardContactEngine(robot, 1, DT), state, target, 0.2)
    theirs, their_sensors = run(MujocoEngine(robot, 1, DT), state, target, 0.2)
    np.testing.assert_allclose(ours[0, :7], theirs[0, :7], atol=5e-3)
    np.testing.assert_allclose(ours[0, 7:13], theirs[0, 7:13], atol=2e-2)
    np.testing.assert_allclose(ours[0, 13:25], theirs[0, 13:25], atol=5e-3)
    np.testing.assert_allclose(our_sensors[0, :, 3], their_sensors[0, :, 3], atol=5e-3)
    np.testing.assert_allclose(our_sensors[0, :, 4:7], their_sensors[0, :, 4:7], atol=5e-2)


def test_feet_of_a_standing_robot_carry_its_weight(robot):
    """Sum of the vertical contact forces = m g; each foot rests at the ground."""
    state = standing_state(robot, 1)
    for engine in (HardContactEngine(robot, 1, DT), MujocoEngine(robot, 1, DT)):
        _, sensors = run(engine, state, robot.default_pose[None].astype(np.float32), 2.0)
        weight = 9.81 * robot.mass.sum()
        assert sensors[0, :, 9].sum() == pytest.approx(weight, rel=0.02)
        assert np.abs(sensors[0, :, 3]).max() < 3e-3


def test_payload_adds_to_the_weight(robot):
    state = standing_state(robot, 1)
    target = robot.default_pose[None].astype(np.float32)
    for engine in (HardContactEngine, MujocoEngine):
        _, sensors = run(engine(robot, 1, DT, base_mass=10.0), state, target, 2.0)
        weight = 9.81 * (robot.mass.sum() + 10.0)
        assert sensors[0, :, 9].sum() == pytest.approx(weight, rel=0.02)
