"""Checkpoints: resuming equals not having stopped, and only this schema is read."""

import signal

import numpy as np
import pytest
import torch
from rich.console import Console

from diffsim_trainer.checkpoint import (
    CheckpointError,
    load_checkpoint,
    restore_rng,
    save_checkpoint,
)
from diffsim_trainer.shac import Shac
from diffsim_trainer.train import CHECKPOINT_NAME, LOG_NAME, build_trainer, train


def losses(shac, iterations: int) -> list[float]:
    return [shac.update()["actor_loss"].item() for _ in range(iterations)]


def test_resuming_continues_with_the_same_losses(tmp_path, small_config):
    config = small_config(iterations=5)
    shac = build_trainer(config, "cpu")
    losses(shac, 2)
    save_checkpoint(tmp_path / "c.pt", config, shac.state_dict(), samples=0, training_seconds=0.0)
    expected = losses(shac, 3)

    checkpoint = load_checkpoint(tmp_path / "c.pt")
    resumed = build_trainer(checkpoint.config, "cpu")
    resumed.load_state_dict(checkpoint.shac)
    restore_rng(checkpoint.rng)
    assert losses(resumed, 3) == pytest.approx(expected, abs=1e-5)
    assert resumed.iteration == 5


def test_train_writes_log_and_checkpoint(tmp_path, small_config):
    config = small_config(iterations=4)
    path = train(config, tmp_path, "cpu", None, Console(quiet=True))
    assert path == tmp_path / CHECKPOINT_NAME
    rows = (tmp_path / LOG_NAME).read_text().splitlines()
    assert len(rows) == 5
    assert rows[0].startswith("iteration,samples,seconds,reward,velocity_error")
    checkpoint = load_checkpoint(path)
    assert checkpoint.config == config
    assert checkpoint.samples == 4 * 3 * 4
    assert checkpoint.shac["iteration"] == 4
    assert checkpoint.software_version[0].isdigit()
    assert checkpoint.git_commit == "unknown" or len(checkpoint.git_commit) >= 40


def test_interrupted_and_resumed_training_logs_what_an_unbroken_one_does(
    tmp_path, small_config, monkeypatch
):
    """Ctrl-C in the second of four iterations, a stray row as a crash leaves it, then --resume."""
    config, console = small_config(iterations=4), Console(quiet=True)
    unbroken = train(config, tmp_path / "a", "cpu", None, console).with_name(LOG_NAME)

    update = Shac.update

    def update_and_interrupt(self):
        metrics = update(self)
        if self.iteration == 2:
            signal.raise_signal(signal.SIGINT)
        return metrics

    with monkeypatch.context() as patch:
        patch.setattr(Shac, "update", update_and_interrupt)
        path = train(config, tmp_path / "b", "cpu", None, console)
    log = path.with_name(LOG_NAME)
    assert load_checkpoint(path).shac["iteration"] == 2
    assert len(log.read_text().splitlines()) == 3
    with log.open("a") as file:
        file.write("3" + ",0" * log.read_text().splitlines()[0].count(",") + "\n")
    train(config, tmp_path / "b", "cpu", load_checkpoint(path), console)

    def without_seconds(path):
        return np.delete(np.genfromtxt(path, delimiter=",", skip_header=1), 2, axis=1)

    np.testing.assert_allclose(without_seconds(log), without_seconds(unbroken), atol=1e-5)


def test_another_schema_or_no_file_is_refused(tmp_path):
    with pytest.raises(CheckpointError, match="no checkpoint at"):
        load_checkpoint(tmp_path / "missing.pt")
    torch.save({"schema_version": 99}, tmp_path / "old.pt")
    with pytest.raises(CheckpointError, match="schema 99, this version reads 1"):
        load_checkpoint(tmp_path / "old.pt")


@pytest.mark.parametrize("content", [b"", b"no checkpoint", b"PK\x03\x04 cut off"])
def test_file_that_is_no_checkpoint_is_refused(tmp_path, content):
    (tmp_path / "c.pt").write_bytes(content)
    with pytest.raises(CheckpointError, match=r"c\.pt: no checkpoint.*give the checkpoint\.pt"):
        load_checkpoint(tmp_path / "c.pt")
