"""Learning: a few iterations through the simulator raise the reward clearly; without the
simulator's gradient they could not."""

import pytest

from diffsim_trainer.train import build_trainer


def mean(values: list[float]) -> float:
    return sum(values) / len(values)


@pytest.mark.slow
def test_reward_rises_clearly_within_sixty_iterations(small_config):
    config = small_config(
        iterations=60,
        env={"num_envs": 32, "reset_pool_size": 512},
        shac={"horizon": 12, "hidden_sizes": [64, 64]},
    )
    shac = build_trainer(config, "cpu")
    reward, falls = [], []
    for _ in range(config.iterations):
        metrics = shac.update()
        reward.append(metrics["reward"].item())
        falls.append(metrics["falls"].item())
        assert metrics["cotangents_nonfinite"].item() == 0
    assert mean(reward[-10:]) > mean(reward[:10]) + 0.5
    assert mean(falls[-10:]) < 0.01
