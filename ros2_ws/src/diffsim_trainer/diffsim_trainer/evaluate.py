"""Judges a policy: `python -m diffsim_trainer.evaluate --checkpoint runs/x/checkpoint.pt` or
`--bundle config/bundles/anymal_d`.

Plays a grid of commands in HARD contact (`--engine mujoco`: in MuJoCo, an independent simulator)
from the default standing pose and prints one row of metrics per command as a table, CSV or JSON.
The policy sees noise-free observations; friction and actuation delay are options.
"""

from __future__ import annotations

import argparse
import csv
import io
import json
import sys
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import onnxruntime
import torch

from diffsim_trainer.autograd import silence_warp
from diffsim_trainer.checkpoint import CheckpointError, load_checkpoint
from diffsim_trainer.config import GaitConfig
from diffsim_trainer.hard_contact_engine import HardContactEngine
from diffsim_trainer.metrics import Trajectory, measure
from diffsim_trainer.physics import Robot, load_robot
from diffsim_trainer.physics.urdf import RobotError
from diffsim_trainer.rollout import (
    ControlLoop,
    Policy,
    PolicyContract,
    Step,
    play,
    standing_state,
)
from policy_controller.bundle import load_bundle
from policy_controller.fields import RefusedError

EVALUATION_DT = 0.0025  # s


Command = tuple[float, float, float]  # v_x m/s, v_y m/s, yaw rate rad/s
STAND: Command = (0.0, 0.0, 0.0)


@dataclass(frozen=True)
class Scenario:
    """Commands by time: each entry of `script` holds from its time (s) until the next. Metrics of
    tracking, standing and gait start at `measured_from` s."""

    name: str
    script: tuple[tuple[float, Command], ...]
    seconds: float = 8.0
    measured_from: float = 2.0

    def command_at(self, time: float) -> Command:
        return [command for start, command in self.script if start <= time + 1e-9][-1]


def hold(name: str, command: Command, seconds: float = 8.0) -> Scenario:
    return Scenario(name, ((0.0, command),), seconds)


def change(name: str, first: Command, at: float, then: Command, seconds: float) -> Scenario:
    """Judged from 2 s after the change."""
    return Scenario(name, ((0.0, first), (at, then)), seconds, at + 2.0)


def wander(seed: int, seconds: float = 30.0) -> Scenario:
    """A new random command every 0.5 to 2.5 s, a quarter of them zero."""
    rng = np.random.default_rng(seed)
    script, time = [], 0.0
    while time < seconds:
        command = rng.uniform((-0.8, -0.5, -0.8), (0.8, 0.5, 0.8)) * (rng.random() > 0.25)
        script.append((time, tuple(command.tolist())))
        time += rng.uniform(0.5, 2.5)
    return Scenario(f"wander {seed}", tuple(script), seconds)


SCENARIOS = (
    hold("stand", STAND, 12.0),
    hold("slow", (0.1, 0.0, 0.0)),
    hold("forward 0.3", (0.3, 0.0, 0.0)),
    hold("forward 0.8", (0.8, 0.0, 0.0)),
    hold("forward 1.0", (1.0, 0.0, 0.0)),
    hold("back 0.3", (-0.3, 0.0, 0.0)),
    hold("back 0.8", (-0.8, 0.0, 0.0)),
    hold("left 0.2", (0.0, 0.2, 0.0)),
    hold("left 0.5", (0.0, 0.5, 0.0)),
    hold("right 0.2", (0.0, -0.2, 0.0)),
    hold("right 0.5", (0.0, -0.5, 0.0)),
    hold("turn left 0.3", (0.0, 0.0, 0.3)),
    hold("turn left 0.8", (0.0, 0.0, 0.8)),
    hold("turn right 0.3", (0.0, 0.0, -0.3)),
    hold("turn right 0.8", (0.0, 0.0, -0.8)),
    hold("curve", (0.6, 0.0, 0.6)),
    hold("diagonal", (0.5, 0.4, 0.0)),
    hold("diagonal back", (-0.5, -0.4, 0.0)),
    hold("combined", (0.5, -0.3, -0.6)),
    *(change(f"stop at {t}", (0.8, 0.0, 0.0), t, STAND, 14.0) for t in (3.0, 3.1, 3.2, 3.3, 3.4)),
    change("stop turning", (0.0, 0.3, 0.8), 3.0, STAND, 14.0),
    change("stop backing", (-0.8, 0.0, 0.0), 3.0, STAND, 14.0),
    change("start", STAND, 3.0, (0.6, 0.0, 0.0), 10.0),
    change("reverse", (0.6, 0.0, 0.0), 4.0, (-0.6, 0.0, 0.0), 10.0),
    *(wander(seed) for seed in range(8)),
)


def evaluate(
    policy: Policy,
    contract: PolicyContract,
    make_step: Callable[[int], Step],
    dt: float,
    delay: float,
    scenarios: tuple[Scenario, ...] = SCENARIOS,
) -> list[dict[str, float | str]]:
    """One dict of metrics per scenario (keys: see metrics.measure). `make_step(num_envs)` builds
    the simulator."""

    def command_at(time: float) -> np.ndarray:
        return np.array([s.command_at(time) for s in scenarios], dtype=np.float32)

    n = len(scenarios)
    loop = ControlLoop(policy, contract, n)
    start = standing_state(contract.robot, n)
    seconds = max(s.seconds for s in scenarios)
    records = list(play(loop, make_step(n), start, command_at, seconds, dt, delay))
    arrays = (np.stack([getattr(r, x) for r in records]) for x in ("state", "sensors", "command"))
    everything = Trajectory(dt, *arrays)
    return [
        {"scenario": s.name} | measure(everything.part(i, s.seconds), s.measured_from)
        for i, s in enumerate(scenarios)
    ]


def policy_from_checkpoint(path: Path, robot: Robot | None) -> tuple[Policy, PolicyContract]:
    """The deterministic policy and its contract; the robot is by default the one it names."""
    checkpoint = load_checkpoint(path)
    actor, config = checkpoint.actor(), checkpoint.config

    def policy(observation: np.ndarray) -> np.ndarray:
        with torch.no_grad():
            return actor(torch.from_numpy(observation)).numpy()

    robot = robot or load_robot(config.robot)
    contract = PolicyContract(
        robot, config.env.action_scale, config.env.gait, config.sim.control_period
    )
    return policy, contract


def policy_from_bundle(path: Path, robot: Robot) -> tuple[Policy, PolicyContract]:
    """The ONNX policy of a bundle and its contract."""
    bundle = load_bundle(path)
    session = onnxruntime.InferenceSession(bundle.onnx, providers=["CPUExecutionProvider"])
    gait = GaitConfig(
        frequency=bundle.gait.frequency,
        stand_command_threshold=bundle.gait.stand_command_threshold,
    )
    contract = PolicyContract(robot, bundle.action.scale, gait, bundle.control_period)
    return lambda observation: session.run(None, {"observation": observation})[0], contract


def import_mujoco_engine() -> Callable[..., Step]:
    """MuJoCo is installed for tests, not for training."""
    try:
        from diffsim_trainer.mujoco_engine import MujocoEngine
    except ImportError as error:
        raise SystemExit(f"--engine mujoco: {error}; pip install mujoco") from error
    return MujocoEngine


def format_rows(rows: list[dict[str, float | str]], style: str) -> str:
    if style == "json":
        return json.dumps(rows, indent=1)
    columns = list(rows[0])
    if style == "csv":
        out = io.StringIO()
        writer = csv.DictWriter(out, columns, lineterminator="\n")
        writer.writeheader()
        writer.writerows(rows)
        return out.getvalue().rstrip()
    width = max(len(str(row["scenario"])) for row in rows)
    lines = [" ".join([" " * width, *(f"{name[:9]:>9}" for name in columns[1:])])]
    for row in rows:
        lines.append(
            " ".join(
                [f"{row['scenario']:<{width}}", *(f"{row[name]:9.3f}" for name in columns[1:])]
            )
        )
    return "\n".join(lines)


def main(argv: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    source = parser.add_mutually_exclusive_group(required=True)
    source.add_argument("--checkpoint", type=Path, help="checkpoint of a training run")
    source.add_argument("--bundle", type=Path, help="policy bundle, a directory or a .zip file")
    parser.add_argument(
        "--robot", type=Path, help="robot description; default: the one a checkpoint names"
    )
    parser.add_argument(
        "--engine", choices=("hard", "mujoco"), default="hard", help="physics of the robot"
    )
    parser.add_argument(
        "--friction", type=float, default=0.8, help="Coulomb coefficient of the ground"
    )
    parser.add_argument("--delay", type=float, default=0.005, help="s, actuation delay")
    parser.add_argument("--payload", type=float, default=0.0, help="kg added to the base")
    parser.add_argument(
        "--format", choices=("table", "csv", "json"), default="table", help="of the result"
    )
    args = parser.parse_args(argv)
    silence_warp()
    torch.set_num_threads(1)
    if args.bundle is not None and args.robot is None:
        parser.error("--bundle needs --robot, for example config/robot/anymal_d.yaml")
    try:
        robot = load_robot(args.robot) if args.robot is not None else None
        if args.checkpoint is not None:
            policy, contract = policy_from_checkpoint(args.checkpoint, robot)
        else:
            policy, contract = policy_from_bundle(args.bundle, robot)
    except (CheckpointError, OSError, RobotError, RefusedError) as error:
        print(f"error: {error}", file=sys.stderr)
        return 1

    engine = import_mujoco_engine() if args.engine == "mujoco" else HardContactEngine

    def make_step(num_envs: int) -> Step:
        return engine(contract.robot, num_envs, EVALUATION_DT, args.friction, args.payload)

    print(
        format_rows(evaluate(policy, contract, make_step, EVALUATION_DT, args.delay), args.format)
    )
    return 0


if __name__ == "__main__":
    sys.exit(main())
