"""Running normaliser and networks."""

import torch

from diffsim_trainer.networks import Actor, Critic, RunningNorm


def test_running_moments_equal_those_of_all_data():
    torch.manual_seed(0)
    data = torch.randn(1000, 3) * torch.tensor([1.0, 5.0, 0.1]) + torch.tensor([0.0, -2.0, 7.0])
    norm = RunningNorm(3)
    for batch in data.split([100, 300, 600]):
        norm.update(batch)
    # The initial count of 0.01 pulls by 0.01/1000 of the distance to the initial values (0, 1).
    torch.testing.assert_close(norm.mean, data.mean(0), atol=2e-4, rtol=0)
    torch.testing.assert_close(norm.var, data.var(0, unbiased=False), atol=2e-3, rtol=0)


def test_normalised_data_is_standard_and_clipped():
    norm = RunningNorm(1, clip=8.0)
    norm.update(torch.tensor([[1.0], [3.0]]))  # mean 2, variance 1
    torch.testing.assert_close(
        norm(torch.tensor([[2.0], [3.0], [100.0]])),
        torch.tensor([[0.0], [1.0], [8.0]]),
        atol=0.02,
        rtol=0,
    )


def test_forward_does_not_change_the_moments():
    norm = RunningNorm(2)
    norm(torch.randn(10, 2))
    assert norm.is_initial()
    norm.update(torch.randn(10, 2))
    assert not norm.is_initial()


def test_a_policy_that_hardly_moves_is_followed():
    """The count saturates, so late data keep an influence of n / MAX_COUNT per update."""
    norm = RunningNorm(1)
    norm.count.fill_(RunningNorm.MAX_COUNT)
    norm.update(torch.ones(1000, 1))
    assert norm.mean.item() > 4e-4
    assert norm.count.item() == RunningNorm.MAX_COUNT


def test_actor_stays_within_one_and_starts_near_zero():
    torch.manual_seed(0)
    actor = Actor(50, 12, (32, 32))
    observation = torch.randn(64, 50)
    assert actor(observation).abs().max() < 0.1
    assert actor.explore(observation, 100 * torch.randn(64, 12)).abs().max() <= 1.0


def test_exploration_noise_enters_before_the_squashing():
    actor = Actor(50, 12, (8,))
    observation, noise = torch.randn(5, 50), torch.randn(5, 12)
    torch.testing.assert_close(
        actor.explore(observation, noise), torch.tanh(torch.atanh(actor(observation)) + noise)
    )


def test_critic_returns_one_value_per_row():
    assert Critic(50, (8,))(torch.randn(7, 50)).shape == (7,)
