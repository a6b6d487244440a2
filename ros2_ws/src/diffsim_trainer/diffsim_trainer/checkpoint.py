"""Checkpoints: plain tensors and numbers only (loadable with `weights_only=True`), with everything
a run needs to go on exactly."""

from __future__ import annotations

import importlib.metadata
import pickle
import subprocess
import xml.etree.ElementTree as ElementTree
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

import torch

from diffsim_trainer.config import TrainConfig, config_from_dict
from diffsim_trainer.networks import ACTION_SIZE, Actor
from diffsim_trainer.observation import OBSERVATION_SIZE

SCHEMA_VERSION = 1


class CheckpointError(ValueError):
    """The file is not a checkpoint this version can use."""


@dataclass(frozen=True)
class Checkpoint:
    """config, where it was trained (git commit, package version), Shac.state_dict(), random
    generator states, and counters."""

    config: TrainConfig
    git_commit: str
    software_version: str
    shac: dict[str, Any]
    rng: dict[str, torch.Tensor]
    samples: int
    training_seconds: float

    def actor(self) -> Actor:
        """The trained actor on the CPU, in evaluation mode."""
        actor = Actor(OBSERVATION_SIZE, ACTION_SIZE, self.config.shac.hidden_sizes)
        actor.load_state_dict(self.shac["actor"])
        return actor.eval()


def save_checkpoint(
    path: str | Path,
    config: TrainConfig,
    shac_state: dict[str, Any],
    samples: int,
    training_seconds: float,
) -> None:
    """Writes atomically: an interrupted save never destroys the previous checkpoint."""
    path = Path(path)
    values = {
        "schema_version": SCHEMA_VERSION,
        "config": config.to_dict(),
        "git_commit": git_commit(),
        "software_version": software_version(),
        "shac": shac_state,
        "rng": _rng_state(),
        "samples": samples,
        "training_seconds": training_seconds,
    }
    temporary = path.with_suffix(".tmp")
    torch.save(values, temporary)
    temporary.replace(path)


def load_checkpoint(path: str | Path) -> Checkpoint:
    """Loads onto the CPU whatever the device it was written on. Raises CheckpointError when it is
    no checkpoint or of another schema."""
    path = Path(path)
    if not path.is_file():
        raise CheckpointError(
            f"no checkpoint at {path}; training writes checkpoint.pt into its --out directory"
        )
    try:
        values = torch.load(path, map_location="cpu", weights_only=True)
    except (EOFError, OSError, RuntimeError, pickle.UnpicklingError) as error:
        raise CheckpointError(
            f"{path}: no checkpoint, or a damaged one; give the checkpoint.pt that training wrote"
        ) from error
    found = values.get("schema_version") if isinstance(values, dict) else None
    if found != SCHEMA_VERSION:
        raise CheckpointError(
            f"{path}: checkpoint schema {found}, this version reads {SCHEMA_VERSION}; train again"
        )
    config = config_from_dict(values["config"], source=f"{path}: config")
    return Checkpoint(
        config,
        values["git_commit"],
        values["software_version"],
        values["shac"],
        values["rng"],
        values["samples"],
        values["training_seconds"],
    )


def restore_rng(rng: dict[str, torch.Tensor]) -> None:
    """Sets torch's generators to where the checkpoint left them."""
    torch.set_rng_state(rng["cpu"])
    if "cuda" in rng and torch.cuda.is_available():
        torch.cuda.set_rng_state(rng["cuda"])


def _rng_state() -> dict[str, torch.Tensor]:
    state = {"cpu": torch.get_rng_state()}
    if torch.cuda.is_available():
        state["cuda"] = torch.cuda.get_rng_state()
    return state


@cache
def git_commit() -> str:
    """Commit of the source tree this package runs from, with '-dirty' when it was changed;
    'unknown' outside a checkout. Asked once per process: training calls it at the start, so that
    later edits are not blamed on the code that runs."""
    command = ["git", "describe", "--always", "--dirty", "--abbrev=40", "--exclude=*"]
    try:
        done = subprocess.run(
            command,
            cwd=Path(__file__).parent,
            capture_output=True,
            text=True,
            check=True,
            timeout=10,
        )
    except (OSError, subprocess.SubprocessError):
        return "unknown"
    return done.stdout.strip()


def software_version() -> str:
    """Version of this package: as installed, or of the source tree it runs from."""
    try:
        return importlib.metadata.version("diffsim_trainer")
    except importlib.metadata.PackageNotFoundError:
        manifest = Path(__file__).parents[1] / "package.xml"
        return ElementTree.parse(manifest).findtext("version", default="unknown")
