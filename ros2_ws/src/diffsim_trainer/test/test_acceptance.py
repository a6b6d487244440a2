"""The bar: what counts as a miss, gait figures by hand, and a policy that cannot walk."""

import dataclasses
import math
from types import SimpleNamespace

import pytest
import torch

from diffsim_trainer import acceptance
from diffsim_trainer.acceptance import (
    LIMITS,
    NOMINAL,
    _Gait,
    _LimitedCommand,
    format_table,
    judge,
    misses,
    survey,
)
from diffsim_trainer.config import GaitConfig
from diffsim_trainer.physics import load_robot
from diffsim_trainer.rollout import PolicyContract


def test_a_figure_beyond_either_limit_or_not_a_number_is_a_miss():
    good = {name: low if math.isinf(high) else high for name, (low, high) in LIMITS.items()}
    assert misses(good) == []
    bad = good | {"duty": 0.4, "slip": 0.06, "drift": math.nan}
    assert misses(bad) == ["duty", "slip", "drift"]
    table = format_table({"good": good, "bad": bad})
    assert table.endswith("1 of 2 meet every limit")
    assert table.count("*") == 3


def test_gait_figures_by_hand():
    """Of ten control steps the foot is loaded in six, sliding at 0.1 m/s in half of them; its swing
    of four steps peaks at 0.07 m."""
    heights = [0, 0, 0, 0.03, 0.07, 0.05, 0.02, 0, 0, 0]
    gait = _Gait(SimpleNamespace(num_envs=1, control_period=0.02, device="cpu"))
    for i, height in enumerate(heights):
        sensors = torch.zeros(1, 4, 10)
        sensors[..., 3] = height
        sensors[..., 9] = 100.0 if height == 0 else 0.0
        sensors[..., 4] = 0.1 if i < 3 else 0.0
        gait.add(sensors)
    figures = gait.summary()
    assert figures == pytest.approx({"swing_apex": 0.07, "duty": 0.6, "slip": 0.05})


def test_the_nominal_robot_is_drawn_without_spread():
    """Every range has no width and every half width is zero; a kick never comes."""
    values = dataclasses.asdict(NOMINAL)
    del values["push_velocity"]
    for name, value in values.items():
        low, high = value if isinstance(value, tuple) else (0.0, value)
        assert low == high, name


@pytest.mark.slow
def test_standing_still_is_no_walking(robot_path):
    """Zero action holds the default pose: it stands without drift, and tracks nothing."""
    contract = PolicyContract(load_robot(robot_path), 1.0, GaitConfig(), 0.02)
    figures = judge(lambda observation: torch.zeros(len(observation), 12), contract, "cpu", 4)
    missed = misses(figures)
    assert {"velocity_rmse", "yaw_rate_rmse", "swing_apex", "duty"} <= set(missed)
    assert "drift" not in missed and figures["action_rate"] == 0


@pytest.mark.slow
def test_a_survey_leaves_one_disturbance_out_at_a_time(robot_path, monkeypatch):
    """Knees bent by another radian drop every robot, whatever is left out; the default pose, not
    kicked, holds every robot up."""
    contract = PolicyContract(load_robot(robot_path), 1.0, GaitConfig(), 0.02)
    monkeypatch.setattr(acceptance, "SURVIVAL_SECONDS", 2.0)
    kneel = torch.tensor([0.0, 0.0, -1.0] * 2 + [0.0, 0.0, 1.0] * 2)
    fallen = survey(lambda observation: kneel.expand(len(observation), 12), contract, "cpu", 4)
    fallen = dict(fallen)
    assert set(fallen.values()) == {0.0} and len(fallen) == 9
    still = survey(lambda observation: torch.zeros(len(observation), 12), contract, "cpu", 4)
    assert dict(still)["no kicks"] == 1.0


def test_a_new_command_is_followed_with_the_controllers_acceleration():
    """Defaults of the controller: 1.5 m/s^2 and 3 rad/s^2, twice that for a stop, in steps of 20
    ms. A step never goes beyond what is wanted."""
    wanted = torch.tensor([[1.0, -0.02, 0.5], [0.0, 0.0, 0.0], [0.03, 0.0, 0.0]])
    env = SimpleNamespace(
        command=wanted,
        control_period=0.02,
        device="cpu",
        random=lambda columns: torch.full((3, columns), 0.5),
        draw_command=lambda: torch.zeros(3, 3),
    )
    command = _LimitedCommand(env)
    assert not env.command.any()
    command.advance(0.4)
    assert env.command.flatten().tolist() == pytest.approx(
        [0.03, -0.02, 0.06, 0.0, 0.0, 0.0, 0.03, 0.0, 0.0]
    )
    command.advance(0.6)
    assert not env.command.any()  # 0.06 m/s and 0.12 rad/s at most
