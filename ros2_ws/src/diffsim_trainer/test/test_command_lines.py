"""The command lines: what an operator gets wrong ends in one line, not in a traceback."""

from pathlib import Path

import pytest

from diffsim_trainer import evaluate, export, train

CONFIG = str(Path(__file__).parents[4] / "config/train/anymal_d.yaml")


@pytest.mark.parametrize(
    ("main", "arguments", "message"),
    [
        (train.main, ["--config", "{tmp}/absent.yaml", "--out", "{tmp}/run"], "cannot be read"),
        (train.main, ["--config", CONFIG, "--out", "{tmp}/file"], "File exists"),
        (train.main, ["--config", CONFIG, "--out", "{tmp}/file/run"], "Not a directory"),
        (train.main, ["--config", CONFIG, "--out", "{tmp}", "--resume"], "no checkpoint at"),
        (train.main, ["--config", CONFIG, "--out", "{tmp}", "--threads", "0"], "--threads"),
        (evaluate.main, ["--checkpoint", "{tmp}/absent.pt"], "no checkpoint at"),
        (evaluate.main, ["--bundle", "{tmp}", "--robot", "{tmp}/absent.yaml"], "absent.yaml"),
        (export.main, ["--checkpoint", "{tmp}/file", "--out", "{tmp}/b"], "no checkpoint"),
    ],
)
def test_mistake_is_one_line(main, arguments, message, tmp_path, capsys):
    (tmp_path / "file").touch()
    assert main([argument.format(tmp=tmp_path) for argument in arguments]) == 1
    error = capsys.readouterr().err
    assert error.startswith("error: ") and message in error and "Traceback" not in error


def test_training_does_not_overwrite_a_checkpoint(tmp_path, capsys):
    kept = tmp_path / train.CHECKPOINT_NAME
    kept.write_bytes(b"hours of work")
    assert train.main(["--config", CONFIG, "--out", str(tmp_path)]) == 1
    assert "would lose it" in capsys.readouterr().err
    assert kept.read_bytes() == b"hours of work"
