"""Trains a locomotion policy: `python -m diffsim_trainer.train --config config/train/anymal_d.yaml
--out runs/anymal_d`.

Writes into --out: checkpoint.pt (at intervals, at the end and on Ctrl-C), training_log.csv,
TensorBoard events. `--resume` goes on from checkpoint.pt with the same numbers an uninterrupted run
would have produced. Several processes share the
robots: `torchrun --standalone --nproc_per_node 2 -m diffsim_trainer.train ...`.
"""

from __future__ import annotations

import argparse
import csv
import math
import signal
import sys
import threading
import time
from pathlib import Path

import torch
from rich.console import Console
from rich.progress import (
    BarColumn,
    MofNCompleteColumn,
    Progress,
    TextColumn,
    TimeElapsedColumn,
    TimeRemainingColumn,
)
from torch.utils.tensorboard import SummaryWriter

from diffsim_trainer.autograd import silence_warp, simulate
from diffsim_trainer.checkpoint import (
    Checkpoint,
    CheckpointError,
    git_commit,
    load_checkpoint,
    restore_rng,
    save_checkpoint,
)
from diffsim_trainer.config import ConfigError, TrainConfig, load_config
from diffsim_trainer.env import LocomotionEnv
from diffsim_trainer.physics import ContactModel, Simulator, load_robot
from diffsim_trainer.physics.urdf import RobotError
from diffsim_trainer.shac import Shac
from diffsim_trainer.workers import SINGLE, Workers, end_process, join_workers, leave_workers

CHECKPOINT_NAME = "checkpoint.pt"
LOG_NAME = "training_log.csv"
WARM_UP = 3  # iterations before one is recorded as a CUDA graph


def build_trainer(config: TrainConfig, device: str, workers: Workers = SINGLE) -> Shac:
    """Seeds torch and builds simulator, environment and algorithm. `config.robot` must be a
    readable path."""
    torch.manual_seed(config.seed)
    robot = load_robot(config.robot)
    sim = Simulator(
        robot,
        workers.share_of(config.env.num_envs),
        device=device,
        dtype="float32",
        dt=config.sim.dt,
        contact=ContactModel.SMOOTHED,
        sweeps=config.sim.sweeps,
        position_correction=True,
    )
    env = LocomotionEnv(sim, robot, config.env, config.sim, device, workers)
    return Shac(env, config.shac, config.iterations)


def compile_physics(shac: Shac) -> float:
    """Runs one control period forward and backward so that the kernels are built; returns the
    seconds it took."""
    start = time.perf_counter()
    env = shac.env
    target = env.target.detach().requires_grad_()
    state, _ = simulate(
        env.sim, env.state, env.target, target, env.params, env.delay_steps, env.substeps
    )
    state.sum().backward()
    if target.is_cuda:
        torch.cuda.synchronize()
    return time.perf_counter() - start


class TrainingLog:
    """One row per logged iteration, to a CSV file and to TensorBoard. When resuming from iteration
    `resume_at`, later rows of an interrupted run are dropped."""

    def __init__(self, directory: Path, resume_at: int | None) -> None:
        path = directory / LOG_NAME
        kept: list[str] = []
        if resume_at is not None and path.is_file():
            lines = path.read_text().splitlines(keepends=True)
            kept = lines[:1] + [x for x in lines[1:] if int(x.split(",")[0]) <= resume_at]
        self.writer = SummaryWriter(str(directory), purge_step=resume_at)
        self.file = open(path, "w", newline="")
        self.file.writelines(kept)
        self.columns = kept[0].strip().split(",") if kept else None

    def write(self, row: dict[str, float]) -> None:
        if self.columns is None:
            self.columns = list(row)
            self.file.write(",".join(self.columns) + "\n")
        csv.writer(self.file).writerow(f"{row[name]:.6g}" for name in self.columns)
        self.file.flush()
        for name, value in row.items():
            self.writer.add_scalar(name, value, int(row["iteration"]))

    def close(self) -> None:
        self.file.close()
        self.writer.close()


def train(
    config: TrainConfig,
    out: Path,
    device: str,
    checkpoint: Checkpoint | None,
    console: Console,
    workers: Workers = SINGLE,
) -> Path:
    """Runs the remaining iterations and returns the path of the checkpoint. Only the first worker
    writes it and the log."""
    out.mkdir(parents=True, exist_ok=True)
    git_commit()
    shac = build_trainer(config, device, workers)
    seconds_before, path = 0.0, out / CHECKPOINT_NAME
    console.print(
        f"physics kernels ready after {compile_physics(shac):.1f} s (compiled once, then cached)"
    )
    if checkpoint is not None:
        shac.load_state_dict(checkpoint.shac)
        restore_rng(checkpoint.rng)
        seconds_before = checkpoint.training_seconds
        console.print(f"resuming at iteration {shac.iteration} of {config.iterations}")
    log = None
    if workers.is_first:
        log = TrainingLog(out, None if checkpoint is None else shac.iteration)
    if torch.device(device).type == "cuda" and shac.iteration + WARM_UP < config.iterations:
        shac.capture(WARM_UP)
    samples_per_iteration = config.shac.horizon * config.env.num_envs
    start = time.perf_counter()

    def elapsed() -> float:
        return seconds_before + time.perf_counter() - start

    def save() -> None:
        state = shac.state_dict()  # gathered from all workers
        if workers.is_first:
            samples = shac.iteration * samples_per_iteration
            save_checkpoint(path, config, state, samples, elapsed())

    # Ctrl-C lets the running iteration finish: a checkpoint from its middle could not be resumed
    # exactly.
    stop = threading.Event()
    previous_handler = signal.signal(signal.SIGINT, lambda *_: stop.set())
    progress = Progress(
        TextColumn("training"),
        BarColumn(),
        MofNCompleteColumn(),
        TimeElapsedColumn(),
        TimeRemainingColumn(),
        TextColumn("{task.fields[status]}"),
        console=console,
    )
    try:
        with progress:
            task = progress.add_task(
                "train", total=config.iterations, completed=shac.iteration, status=""
            )
            first = shac.iteration
            while shac.iteration < config.iterations and not workers.any(stop.is_set()):
                metrics = shac.update()
                if shac.iteration % config.log_every == 0:
                    row = _fetch(metrics, shac.iteration, samples_per_iteration, elapsed())
                    if log is not None:
                        log.write(row)
                    dump = out / f"nonfinite_{shac.iteration}_{workers.rank}.npz"
                    first_env = workers.rank * shac.env.num_envs
                    if message := shac.env.nonfinite.dump(dump, first_env):
                        print(f"iteration {shac.iteration}: {message}", file=sys.stderr)
                    rate = (shac.iteration - first) / (time.perf_counter() - start)
                    progress.update(task, completed=shac.iteration, status=_status(row, rate))
                if shac.iteration % config.checkpoint_every == 0:
                    save()
    finally:
        signal.signal(signal.SIGINT, previous_handler)
        if log is not None:
            log.close()
    save()
    if shac.iteration < config.iterations:
        console.print(f"stopped at iteration {shac.iteration}; continue with --resume")
    console.print(f"checkpoint: {path} ({elapsed():.0f} s of training)")
    return path


def _fetch(
    metrics: dict[str, torch.Tensor], iteration: int, samples: int, seconds: float
) -> dict[str, float]:
    values = torch.stack([v.detach().float() for v in metrics.values()]).tolist()
    row = {"iteration": iteration, "samples": iteration * samples, "seconds": seconds} | dict(
        zip(metrics, values, strict=True)
    )
    for name in ("grad_norm", "critic_loss"):
        if not math.isfinite(row[name]):
            raise FloatingPointError(
                f"iteration {iteration}: {name} is {row[name]}; the weights are lost, the last "
                "checkpoint is not. Lower shac.cotangent_clip or the learning rates and --resume"
            )
    return row


def _status(row: dict[str, float], rate: float) -> str:
    return (
        f"reward {row['reward']:.2f}  velocity error {row['velocity_error']:.2f} m/s  "
        f"falls {row['falls']:.4f}/step  {rate:.1f} it/s"
    )


def main(argv: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--config", required=True, type=Path, help="YAML file, see config/train/")
    parser.add_argument("--out", required=True, type=Path, help="directory for checkpoint and logs")
    parser.add_argument("--resume", action="store_true", help="continue from OUT/checkpoint.pt")
    parser.add_argument("--device", default="cpu", help="cpu (default) or cuda:0")
    parser.add_argument(
        "--threads",
        type=int,
        default=1,
        help="torch CPU threads; more than one rarely pays off here",
    )
    args = parser.parse_args(argv)
    silence_warp()
    workers, device = join_workers(args.device)
    console = Console(quiet=not workers.is_first)
    try:
        if args.threads < 1:
            raise ConfigError(f"--threads must be at least 1, found {args.threads}")
        torch.set_num_threads(args.threads)
        config = load_config(args.config)
        if not args.resume and (args.out / CHECKPOINT_NAME).exists():
            raise CheckpointError(
                f"{args.out} holds a checkpoint already and would lose it; go on from it with "
                "--resume, name another --out, or move it away"
            )
        checkpoint = load_checkpoint(args.out / CHECKPOINT_NAME) if args.resume else None
        if checkpoint is not None and checkpoint.config.sha256() != config.sha256():
            raise CheckpointError(
                f"{args.out / CHECKPOINT_NAME} was trained with another configuration than "
                f"{args.config}; resume with the original file or start in a new --out directory"
            )
        train(config, args.out, device, checkpoint, console, workers)
    except (ConfigError, CheckpointError, FloatingPointError, OSError, RobotError) as error:
        print(f"error: {error}", file=sys.stderr)
        return 1
    finally:
        leave_workers()
    return 0


if __name__ == "__main__":
    end_process(main())
