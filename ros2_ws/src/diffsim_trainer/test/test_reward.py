"""Reward terms against closed forms."""

import math

import pytest
import torch

from diffsim_trainer.config import GaitConfig, RewardConfig
from diffsim_trainer.reward import (
    TERM_NAMES,
    compute_reward,
    foot_height_target,
    foot_slip,
)

GAIT = GaitConfig()
POSE = torch.tensor([0.0, 0.4, -0.8] * 2 + [0.0, -0.4, 0.8] * 2)


def standing(n: int = 1) -> torch.Tensor:
    state = torch.zeros(n, 37)
    state[:, 2], state[:, 6] = RewardConfig().base_height_target, 1.0
    state[:, 13:25] = POSE
    return state


def terms_of(state, sensors=None, command=None, phase=None, action=None, previous=None):
    n = state.shape[0]
    zeros = torch.zeros(n, 12)
    _, terms = compute_reward(
        state,
        torch.zeros(n, 4, 10) if sensors is None else sensors,
        torch.zeros(n, 3) if command is None else command,
        torch.zeros(n) if phase is None else phase,
        zeros if action is None else action,
        zeros if previous is None else previous,
        POSE,
        RewardConfig(),
        GAIT,
    )
    return {name: terms[:, i] for i, name in enumerate(TERM_NAMES)}


def test_perfect_stand_gets_only_the_bonuses():
    terms = terms_of(standing())
    c = RewardConfig()
    bonuses = {
        "alive": c.alive,
        "linear_tracking": c.linear_tracking,
        "yaw_tracking": c.yaw_tracking,
    }
    for name, value in terms.items():
        assert value.item() == pytest.approx(bonuses.get(name, 0.0), abs=1e-6), name


def test_tracking_has_a_slope_where_the_exponential_is_flat():
    """w exp(-e^2 / width) - tail e^2, by hand at an error of 0.5 m/s, its slope at 3 m/s."""
    c = RewardConfig()
    state = standing(2)
    state[:, 7] = torch.tensor([0.5, 3.0])
    state.requires_grad_()
    term = terms_of(state)["linear_tracking"]
    expected = c.linear_tracking * math.exp(-0.25 / c.tracking_width) - c.linear_tracking_tail / 4
    assert term[0].item() == pytest.approx(expected)
    term[1].backward()
    assert state.grad[1, 7].item() == pytest.approx(-2 * c.linear_tracking_tail * 3.0, rel=1e-3)


def test_diagonal_feet_swing_in_turn():
    """A quarter cycle after the start LF and RH are at the top; three quarters after it RF and LH
    are."""
    phase = torch.tensor([math.pi / 2, 3 * math.pi / 2])
    target = foot_height_target(phase, torch.tensor([True, True]), GAIT)
    h = GAIT.swing_height
    torch.testing.assert_close(target, torch.tensor([[h, 0, 0, h], [0, h, h, 0]]))
    assert foot_height_target(phase, torch.tensor([False, False]), GAIT).abs().max() == 0


def test_slip_counts_feet_on_the_ground_only_and_has_no_gradient_in_height():
    sensors = torch.zeros(1, 4, 10)
    sensors[0, :, 4] = 0.5
    sensors[0, 1:, 3] = 0.08  # three feet in the air
    sensors.requires_grad_()
    slip = foot_slip(sensors)
    assert slip.sum().item() == pytest.approx(0.25 / (1 + math.exp(-3.0)), rel=1e-4)
    slip.sum().backward()
    assert sensors.grad[..., 3].abs().max() == 0
    assert sensors.grad[0, 0, 4] > 0


def test_standing_terms_vanish_while_walking():
    state = standing()
    state[:, 25:37] = 1.0
    walking = terms_of(state, command=torch.tensor([[0.5, 0.0, 0.0]]))
    still = terms_of(state)
    for name in ("stand_joint_speed", "stand_base_speed", "stand_pose"):
        assert walking[name].item() == 0.0
    assert still["stand_joint_speed"].item() == pytest.approx(
        -RewardConfig().stand_joint_speed * 12
    )


def test_joint_speed_is_free_up_to_the_limit():
    state = standing(2)
    state[0, 25] = RewardConfig().joint_speed_limit
    state[1, 25] = -RewardConfig().joint_speed_limit - 2.0
    cost = terms_of(state)["joint_speed"]
    assert cost[0].item() == 0.0
    assert cost[1].item() == pytest.approx(-RewardConfig().joint_speed * 4.0, rel=1e-5)


def test_every_penalty_lowers_the_reward():
    """Each term, disturbed on its own, is negative: a sign slip in one weight would turn a penalty
    into a bonus."""
    state = standing()
    state[:, 0:3] += 0.1
    state[:, 3] = 0.2
    state[:, 7:13] = 0.3
    state[:, 13:25] += 0.2
    state[:, 25:37] = 9.0
    sensors = torch.full((1, 4, 10), 0.02)
    sensors[:, :, 0:3] = RewardConfig().torque_soft_limit + 1.0
    terms = terms_of(state, sensors, action=torch.ones(1, 12), previous=-torch.ones(1, 12))
    for name in set(TERM_NAMES) - {"alive", "linear_tracking", "yaw_tracking"}:
        assert terms[name].item() < 0, name
