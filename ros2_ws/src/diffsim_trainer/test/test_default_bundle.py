"""The shipped policy does what the README says, in hard contact and in MuJoCo.

The limits are those of acceptance; what was measured is in config/bundles/anymal_d/README.md.
"""

from pathlib import Path

import numpy as np
import pytest

from diffsim_trainer.evaluate import SCENARIOS, evaluate, policy_from_bundle
from diffsim_trainer.hard_contact_engine import HardContactEngine
from diffsim_trainer.mujoco_engine import MujocoEngine
from diffsim_trainer.physics import load_robot
from diffsim_trainer.rollout import ControlLoop, play, standing_state
from policy_controller.bundle import check_robot, load_bundle, replay_golden
from policy_controller.robot import load_robot_description

DT = 0.0025
BUNDLE = Path(__file__).parents[4] / "config" / "bundles" / "anymal_d"
WALKING = tuple(
    s for s in SCENARIOS if len(s.script) == 1 and s.name not in ("stand", "forward 1.0")
)
CHANGING = tuple(s for s in SCENARIOS if s not in WALKING and s.name != "forward 1.0")


@pytest.fixture
def robot(robot_path):
    return load_robot(robot_path)


@pytest.fixture
def shipped(robot):
    return policy_from_bundle(BUNDLE, robot)


def test_it_is_accepted_for_this_robot(robot_path):
    bundle = load_bundle(BUNDLE)
    check_robot(bundle, load_robot_description(robot_path))
    assert replay_golden(bundle).rows >= 8


@pytest.mark.slow
@pytest.mark.parametrize(("friction", "delay"), [(0.8, 0.005), (0.4, 0.01), (1.2, 0.0)])
def test_it_walks_in_hard_contact(shipped, robot, friction, delay):
    rows = evaluate(
        *shipped, lambda n: HardContactEngine(robot, n, DT, friction), DT, delay, WALKING
    )
    for row in rows:
        assert row["fallen"] == 0, row
        assert row["velocity_rmse"] <= 0.20 and row["yaw_rate_rmse"] <= 0.20, row
        assert row["swing_apex"] >= 0.04 and row["duty"] < 0.8, row
        assert row["penetration"] <= 0.005, row
        assert row["joint_speed_max"] < 8.5 and row["torque_max"] <= 80.0 + 1e-3, row


@pytest.mark.slow
@pytest.mark.parametrize(("friction", "delay"), [(0.8, 0.005), (0.4, 0.01)])
def test_it_stands_stops_and_changes_its_mind(shipped, robot, friction, delay):
    rows = evaluate(
        *shipped, lambda n: HardContactEngine(robot, n, DT, friction), DT, delay, CHANGING
    )
    for row in rows:
        assert row["fallen"] == 0, row
        if str(row["scenario"]).startswith(("stand", "stop")):
            assert row["drift"] < 0.05 and row["joint_speed_rms"] < 0.1, row


@pytest.mark.slow
def test_it_walks_five_metres_in_mujoco(shipped, robot):
    """0.6 m/s for 10 s = 6 m; 5 m forward, at most half a metre to the side, upright."""
    policy, contract = shipped
    command = np.array([[0.6, 0.0, 0.0]], dtype=np.float32)
    loop = ControlLoop(policy, contract, 1)
    engine, start = MujocoEngine(robot, 1, DT), standing_state(robot, 1)
    for record in play(loop, engine, start, lambda _: command, 10.0, DT, robot.actuator.delay):
        assert 0.45 < record.state[0, 2] < 0.7
    assert record.state[0, 0] > 5.0
    assert abs(record.state[0, 1]) < 0.5
