"""Two processes over gloo compute what one does, through the command line that users run."""

import os
import subprocess
import sys

import numpy as np
import pytest
import torch
import yaml

from diffsim_trainer.checkpoint import load_checkpoint
from diffsim_trainer.config import ConfigError
from diffsim_trainer.train import CHECKPOINT_NAME, LOG_NAME
from diffsim_trainer.workers import Workers

ITERATIONS = 4
CLOSE = {"rtol": 1e-3, "atol": 1e-3}


def run_training(config, out, processes: int) -> None:
    command = [sys.executable, "-m"]
    if processes > 1:
        command += ["torch.distributed.run", "--standalone", f"--nproc_per_node={processes}", "-m"]
    command += ["diffsim_trainer.train", "--config", str(config), "--out", str(out)]
    environment = os.environ | {"OMP_NUM_THREADS": "1"}
    done = subprocess.run(command, env=environment, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr


def read_log(out) -> np.ndarray:
    """Rows without the seconds."""
    return np.delete(np.genfromtxt(out / LOG_NAME, delimiter=",", skip_header=1), 2, axis=1)


def test_two_processes_equal_one(tmp_path, robot_path):
    """Loss, metrics and state of all robots after the same iterations; falls, truncations and
    resampled commands occur on the way. Rounding alone may differ: 1e-4 after four iterations."""
    config = tmp_path / "small.yaml"
    values = {
        "robot": str(robot_path),
        "iterations": ITERATIONS,
        "env": {"num_envs": 6, "reset_pool_size": 64, "episode_steps": 20},
        "shac": {"horizon": 6, "hidden_sizes": [16, 16], "critic_epochs": 2},
    }
    config.write_text(yaml.safe_dump(values))
    run_training(config, tmp_path / "one", 1)
    run_training(config, tmp_path / "two", 2)
    one, two = read_log(tmp_path / "one"), read_log(tmp_path / "two")
    assert one.shape[0] == ITERATIONS
    np.testing.assert_allclose(two, one, rtol=1e-3, atol=1e-4)
    states = [load_checkpoint(tmp_path / x / CHECKPOINT_NAME).shac for x in ("one", "two")]
    assert states[1]["env"]["state"].shape == (6, 37)
    torch.testing.assert_close(states[1]["env"]["state"], states[0]["env"]["state"], **CLOSE)
    for name, weight in states[0]["actor"].items():
        torch.testing.assert_close(states[1]["actor"][name], weight, **CLOSE)


def test_rows_of_all_workers_make_up_everything():
    everything = torch.arange(12).view(6, 2)
    rows = [Workers(rank, 3).rows(everything) for rank in range(3)]
    assert torch.equal(torch.cat(rows), everything)


def test_robots_that_cannot_be_shared_equally_are_refused():
    with pytest.raises(ConfigError, match=r"num_envs \(7\) must be a multiple of the 2 processes"):
        Workers(0, 2).share_of(7)
