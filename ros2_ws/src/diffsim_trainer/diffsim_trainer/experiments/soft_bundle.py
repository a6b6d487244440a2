"""Makes a bundle that verification must refuse, trained in soft contact:
`python -m diffsim_trainer.experiments.soft_bundle --out runs/soft`.

The control, OUT/smoothed_bundle, is the same training in smoothed contact: what only
OUT/soft_bundle fails is the contact law's doing, not that of a short training.
"""

from __future__ import annotations

import argparse
from dataclasses import replace
from pathlib import Path

import torch

from diffsim_trainer.autograd import silence_warp
from diffsim_trainer.checkpoint import load_checkpoint, save_checkpoint
from diffsim_trainer.config import TrainConfig, load_config
from diffsim_trainer.experiments.task import build_shac, train
from diffsim_trainer.export import export_bundle
from diffsim_trainer.physics import ContactModel


def make_bundle(config: TrainConfig, law: ContactModel, out: Path) -> Path:
    """Train as `config` says under a contact law, on the CPU; returns the bundle's directory."""
    shac = build_shac(config, law, "cpu")
    seconds = train(shac, config.iterations)
    samples = config.iterations * config.shac.horizon * config.env.num_envs
    checkpoint = out / f"{law.value}.pt"
    save_checkpoint(checkpoint, config, shac.state_dict(), samples, seconds)
    export_bundle(load_checkpoint(checkpoint), out / f"{law.value}_bundle")
    return out / f"{law.value}_bundle"


def main(argv: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(
        description=__doc__.splitlines()[0], formatter_class=argparse.ArgumentDefaultsHelpFormatter
    )
    parser.add_argument("--out", type=Path, required=True, help="folder for the results")
    parser.add_argument(
        "--config",
        type=Path,
        default=Path("config/train/anymal_d.yaml"),
        help="training configuration (YAML)",
    )
    parser.add_argument("--robots", type=int, help="robots that train at once (as in CONFIG)")
    parser.add_argument("--iterations", type=int, help="updates of the policy (as in CONFIG)")
    args = parser.parse_args(argv)
    silence_warp()
    torch.set_num_threads(1)
    args.out.mkdir(parents=True, exist_ok=True)
    config = load_config(args.config)
    env = replace(config.env, num_envs=args.robots or config.env.num_envs)
    config = replace(config, env=env, iterations=args.iterations or config.iterations)
    for law in (ContactModel.SOFT, ContactModel.SMOOTHED):
        print(make_bundle(config, law, args.out), flush=True)
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
