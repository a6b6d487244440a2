"""Fixtures shared by the tests of the torch side: the real robot, few environments, small
networks."""

from pathlib import Path

import pytest
import torch

from diffsim_trainer.config import TrainConfig, config_from_dict

ROBOT = Path(__file__).parents[4] / "config" / "robot" / "anymal_d.yaml"

torch.set_num_threads(1)


@pytest.fixture
def robot_path() -> Path:
    return ROBOT


@pytest.fixture
def small_config():
    """Function making a configuration that runs in seconds; arguments replace whole sections."""

    def make(**changes) -> TrainConfig:
        sections = {
            "robot": str(ROBOT),
            "iterations": 4,
            "env": {"num_envs": 4, "reset_pool_size": 64},
            "shac": {"horizon": 3, "hidden_sizes": [16, 16], "critic_epochs": 2}
            | {"critic_minibatches": 1},
        }
        return config_from_dict(sections | changes)

    return make


@pytest.fixture(autouse=True)
def seed():
    torch.manual_seed(0)


@pytest.fixture
def double():
    """Everything in float64, for comparisons with finite differences."""
    torch.set_default_dtype(torch.float64)
    yield
    torch.set_default_dtype(torch.float32)
