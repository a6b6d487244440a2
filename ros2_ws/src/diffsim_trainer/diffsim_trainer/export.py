"""Turns a checkpoint into a policy bundle: `python -m diffsim_trainer.export --checkpoint
runs/x/checkpoint.pt --out config/bundles/x`.

The network becomes one self-contained ONNX file with the observation normaliser inside; what
surrounds it is written in the terms of `policy_controller.bundle`, which owns the contract. Runs on
the CPU whatever the policy was trained on.
"""

from __future__ import annotations

import argparse
import io
import sys
import warnings
from pathlib import Path

import numpy as np
import onnx
import onnxruntime
import torch

from diffsim_trainer.autograd import silence_warp
from diffsim_trainer.checkpoint import Checkpoint, CheckpointError, load_checkpoint
from diffsim_trainer.config import EnvConfig
from diffsim_trainer.hard_contact_engine import HardContactEngine
from diffsim_trainer.networks import ACTION_SIZE, Actor
from diffsim_trainer.observation import OBSERVATION_SIZE
from diffsim_trainer.physics import load_robot
from diffsim_trainer.physics.urdf import RobotError
from diffsim_trainer.rollout import (
    ControlLoop,
    PolicyContract,
    play,
    standing_state,
)
from policy_controller.bundle import (
    ActionScaling,
    CommandRange,
    Gains,
    GaitSettings,
    Golden,
    JointLimits,
    PolicyBundle,
    RobotIdentity,
    TrainingRecord,
    encode_golden,
    save_bundle,
)
from policy_controller.fields import RefusedError
from policy_controller.observation import STANDARD_OBSERVATION
from policy_controller.robot import load_robot_description

OPSET = 17
PARITY_TOLERANCE = 1e-5
GOLDEN_DT = 0.005  # s
GOLDEN_COMMANDS = ((0.0, 0.0, 0.0), (0.6, 0.0, 0.0), (-0.4, 0.2, -0.3), (0.1, -0.4, 0.6))
GOLDEN_SECONDS = 2.0


class ExportError(RuntimeError):
    """The checkpoint cannot become a bundle."""


def export_bundle(
    checkpoint: Checkpoint, directory: str | Path, robot_path: str | Path | None = None
) -> PolicyBundle:
    """Writes policy.onnx, bundle.json and golden.npz into `directory` and returns what was written.

    `robot_path`: robot description, by default the one named in the checkpoint. Raises ExportError
    when the normaliser has never been updated or when the ONNX file does not reproduce the network.
    """
    actor, config = checkpoint.actor(), checkpoint.config
    if actor.norm.is_initial():
        raise ExportError(
            "the observation normaliser still has its initial values (mean 0, variance 1): such a "
            "policy was never trained; export a checkpoint written by diffsim_trainer.train"
        )
    robot_path = Path(robot_path or config.robot)
    if not robot_path.is_file():
        raise ExportError(f"no robot description at {robot_path}; say where it is with --robot")
    description = load_robot_description(robot_path)
    model = export_onnx(actor)
    golden = record_golden(actor, robot_path, config.env, config.sim.control_period)
    check_parity(actor, model, golden.observation)
    bundle = PolicyBundle(
        robot=RobotIdentity(description.name, description.urdf_sha256),
        joint_names=description.joint_names,
        default_pose=description.default_pose,
        action=ActionScaling(config.env.action_scale, 1.0, "controller"),
        gains=Gains((description.kp,) * ACTION_SIZE, (description.kd,) * ACTION_SIZE),
        control_period=config.sim.control_period,
        observation=STANDARD_OBSERVATION,
        gait=GaitSettings(config.env.gait.frequency, config.env.gait.stand_command_threshold),
        command=CommandRange(config.env.commands.lower, config.env.commands.upper),
        limits=JointLimits(
            description.position_lower,
            description.position_upper,
            description.velocity_limit,
            description.torque_limit,
        ),
        training=TrainingRecord(
            config.sha256(),
            checkpoint.git_commit,
            checkpoint.software_version,
            config.seed,
            checkpoint.samples,
        ),
        onnx=model,
        golden_npz=encode_golden(golden),
    )
    return save_bundle(directory, bundle)


def export_onnx(actor: Actor) -> bytes:
    """The actor (raw observation -> action in [-1, 1]) as one ONNX file: weights inside, dynamic
    batch, opset 17."""
    buffer = io.BytesIO()
    with warnings.catch_warnings():
        # The newer exporter writes opset 18 and needs a further package; this one gives one clean
        # file at the pinned opset.
        warnings.simplefilter("ignore", DeprecationWarning)
        torch.onnx.export(
            actor,
            (torch.zeros(1, OBSERVATION_SIZE),),
            buffer,
            input_names=["observation"],
            output_names=["action"],
            dynamic_axes={"observation": {0: "batch"}, "action": {0: "batch"}},
            opset_version=OPSET,
            dynamo=False,
        )
    onnx.checker.check_model(onnx.load_from_string(buffer.getvalue()), full_check=True)
    return buffer.getvalue()


def check_parity(actor: Actor, model: bytes, observation: np.ndarray) -> float:
    """Largest difference between network and ONNX file over raw observations [B, 50], in one batch
    and one by one. Raises ExportError above PARITY_TOLERANCE."""
    session = onnxruntime.InferenceSession(model, providers=["CPUExecutionProvider"])
    with torch.no_grad():
        expected = actor(torch.from_numpy(observation)).numpy()
    batched = session.run(None, {"observation": observation})[0]
    single = np.concatenate(
        [session.run(None, {"observation": row[None]})[0] for row in observation]
    )
    error = max(float(np.abs(x - expected).max()) for x in (batched, single))
    if not error <= PARITY_TOLERANCE:
        raise ExportError(
            f"ONNX and network differ by {error:.3g} (allowed {PARITY_TOLERANCE}); "
            "check the onnxruntime and torch versions against requirements/"
        )
    return error


def record_golden(
    actor: Actor, robot_path: Path, config: EnvConfig, control_period: float
) -> Golden:
    """Every eighth control step of short walks in hard contact, standing included."""
    robot = load_robot(robot_path)
    contract = PolicyContract(robot, config.action_scale, config.gait, control_period)

    def policy(observation: np.ndarray) -> np.ndarray:
        return actor(torch.from_numpy(observation)).numpy()

    commands = np.array(GOLDEN_COMMANDS, dtype=np.float32)
    loop = ControlLoop(policy, contract, len(commands))
    engine = HardContactEngine(robot, len(commands), GOLDEN_DT)
    # Uneven starting poses: data from a symmetric pose could not reveal swapped joints.
    state = standing_state(robot, len(commands))
    noise = np.random.default_rng(0).uniform(-0.1, 0.1, (len(commands), ACTION_SIZE))
    state[:, 13:25] += noise.astype(np.float32)
    state[:, 2] += 0.03
    steps = [
        r.decided for r in play(loop, engine, state, lambda _: commands, GOLDEN_SECONDS, GOLDEN_DT)
    ]
    chosen = steps[:: 8 * round(control_period / GOLDEN_DT)]
    names = ("state", "command", "phase", "previous_action", "observation", "action")
    values = {name: np.concatenate([getattr(s, name) for s in chosen]) for name in names}
    return Golden(**values, start=np.ones(len(values["phase"]), dtype=bool))


def main(argv: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument(
        "--checkpoint", required=True, type=Path, help="checkpoint of a training run"
    )
    parser.add_argument("--out", required=True, type=Path, help="directory of the bundle")
    parser.add_argument(
        "--robot", type=Path, help="robot description; default: the one the checkpoint names"
    )
    args = parser.parse_args(argv)
    silence_warp()
    try:
        bundle = export_bundle(load_checkpoint(args.checkpoint), args.out, args.robot)
    except (CheckpointError, ExportError, OSError, RobotError, RefusedError) as error:
        print(f"error: {error}", file=sys.stderr)
        return 1
    samples = bundle.training.samples
    print(f"{args.out}: {bundle.robot.name}, {samples} samples, sha256 {bundle.sha256[:12]}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
