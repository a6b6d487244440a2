"""SHAC's loss and critic targets against a three-step window worked by hand.

Two environments, gamma = 0.5, lambda = 0.5, rewards 1, 2, 4 in both, V' after each step 10, 20, 40.
Environment A terminates at the second step (t = 1), environment B is truncated there. Both then
start a new episode at t = 2.

Returns inside the window:
  A: 1 + 0.5 * 2                      (the fall has no value) + 4 + 0.5 * 40                   (new
  episode, bootstrapped at the window end)             = 2 + 24 = 26
  B: 1 + 0.5 * 2 + 0.25 * 20          (time-out: V' of the state before the reset) + 4 + 0.5 * 40
  = 7 + 24 = 31 L = -(26 + 31) / (3 * 2) = -9.5

TD(lambda) targets, backwards from G_3 = V'_2 = 40:
  G_2 = 4 + 0.5 * (0.5 * 40 + 0.5 * 40)  = 24   (both)
  A: G_1 = 2 + 0.5 * 0  = 2;   G_0 = 1 + 0.5 * (0.5 * 10 + 0.5 * 2)  = 4
  B: G_1 = 2 + 0.5 * 20 = 12;  G_0 = 1 + 0.5 * (0.5 * 10 + 0.5 * 12) = 6.5
"""

import pytest
import torch

from diffsim_trainer.shac import actor_loss, td_lambda_targets


@pytest.fixture
def window():
    reward = torch.tensor([[1.0, 1.0], [2.0, 2.0], [4.0, 4.0]], requires_grad=True)
    value = torch.tensor([[10.0, 10.0], [20.0, 20.0], [40.0, 40.0]], requires_grad=True)
    terminated = torch.tensor([[False, False], [True, False], [False, False]])
    truncated = torch.tensor([[False, False], [False, True], [False, False]])
    return reward, terminated, truncated, value


def test_loss_by_hand(window):
    assert actor_loss(*window, gamma=0.5).item() == pytest.approx(-9.5, abs=1e-6)


def test_gradient_by_hand(window):
    """-6 dL/dr and -6 dL/dV are the discounts with which rewards and values enter the returns."""
    reward, _, _, value = window
    actor_loss(*window, gamma=0.5).backward()
    torch.testing.assert_close(-6 * reward.grad, torch.tensor([[1.0, 1.0], [0.5, 0.5], [1.0, 1.0]]))
    torch.testing.assert_close(-6 * value.grad, torch.tensor([[0.0, 0.0], [0.0, 0.25], [0.5, 0.5]]))


def test_termination_at_the_window_end_has_no_value(window):
    reward, terminated, truncated, value = window
    terminated[2, 0] = True
    # A loses 0.5 * 40 = 20: L = -(6 + 31) / 6
    assert actor_loss(reward, terminated, truncated, value, gamma=0.5).item() == pytest.approx(
        -37 / 6, abs=1e-6
    )


def test_truncation_at_the_window_end_counts_its_value_once(window):
    reward, terminated, truncated, value = window
    truncated[2, 1] = True
    assert actor_loss(reward, terminated, truncated, value, gamma=0.5).item() == pytest.approx(
        -9.5, abs=1e-6
    )


def test_td_lambda_by_hand(window):
    targets = td_lambda_targets(*window, gamma=0.5, lam=0.5)
    torch.testing.assert_close(targets, torch.tensor([[4.0, 6.5], [2.0, 12.0], [24.0, 24.0]]))
