"""Runs one of the paper's experiments: `python -m diffsim_trainer.experiments contact_models
--out runs/experiments --device cuda:0`; `list` says which there are."""

from __future__ import annotations

import argparse
import importlib
import importlib.util
import sys
from pathlib import Path

import torch

from diffsim_trainer.autograd import silence_warp
from diffsim_trainer.config import ConfigError, load_config
from diffsim_trainer.experiments.task import Settings
from diffsim_trainer.physics.urdf import RobotError

EXPERIMENTS = (
    "contact_models",
    "falling_mass",
    "gradient_horizon",
    "motion_quality",
    "sample_efficiency",
    "tracking",
)


def load(name: str):
    """The experiment's module: imported alone, since each needs other optional packages."""
    return importlib.import_module(f"diffsim_trainer.experiments.{name}")


def describe(name: str) -> str:
    """First line of the module's docstring, without importing what it needs."""
    source = Path(__file__).with_name(f"{name}.py").read_text()
    return source.split("\n", 1)[0].strip('"')


def main(argv: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument(
        "name", choices=("list", *EXPERIMENTS), help="the experiment; list: what there is"
    )
    parser.add_argument(
        "--out", type=Path, default=Path("runs/experiments"), help="folder for the results"
    )
    parser.add_argument("--device", default="cpu", help="cpu (default) or cuda:0")
    parser.add_argument(
        "--config",
        type=Path,
        default=Path("config/train/anymal_d.yaml"),
        help="training configuration (YAML)",
    )
    parser.add_argument("--quick", action="store_true", help="tiny: shows that it runs, no more")
    parser.add_argument("--seeds", type=int, default=3, help="trainings of each kind (default 3)")
    args = parser.parse_args(argv)
    if args.seeds < 1:
        parser.error(f"--seeds is {args.seeds}; it must be at least 1")
    if args.name == "list":
        for name in EXPERIMENTS:
            print(f"{name:18} {describe(name)}")
        return 0
    silence_warp()
    torch.set_num_threads(1)
    try:
        config = load_config(args.config)
        args.out.mkdir(parents=True, exist_ok=True)
        load(args.name).run(Settings(args.out, args.device, args.quick, config, args.seeds))
    except ModuleNotFoundError as error:
        print(
            f"error: {error}; pip install -r requirements/train.txt -r requirements/test.txt",
            file=sys.stderr,
        )
        return 1
    except (ConfigError, FloatingPointError, OSError, RobotError) as error:
        print(f"error: {error}", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
