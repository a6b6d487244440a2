"""Holds a policy to its bar: `python -m diffsim_trainer.acceptance --checkpoint RUN/checkpoint.pt`
or `--bundle config/bundles/anymal_d --robot config/robot/anymal_d.yaml`.

Three trials in HARD contact at 200 Hz, all robots at once:
- tracking: steady commands drawn from the whole command box, nominal robot, judged after 2 s;
- survival: 20 s with commands that change about every 5 s and reach the policy as the controller
  lets them, from zero and with limited acceleration; with sensor noise, random friction, payload,
  centre of mass, gains, motor strength, encoder bias and delay, and a kick of 0.5 m/s in a random
  direction about every 4 s;
- standing: 20 s at zero command, nominal robot.
Prints one column per policy; the exit status is 1 when one of them misses a limit.
`--survey` asks instead where the falls come from: survival with one disturbance left out at a time.
"""

from __future__ import annotations

import argparse
import dataclasses
import math
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import torch

from diffsim_trainer.autograd import silence_warp
from diffsim_trainer.checkpoint import CheckpointError, load_checkpoint
from diffsim_trainer.config import (
    CommandConfig,
    EnvConfig,
    NoiseConfig,
    RandomizationConfig,
    SimConfig,
)
from diffsim_trainer.env import LocomotionEnv
from diffsim_trainer.evaluate import policy_from_bundle
from diffsim_trainer.metrics import CONTACT_FORCE, SHORTEST_SWING
from diffsim_trainer.physics import ContactModel, Robot, Simulator, load_robot
from diffsim_trainer.physics.urdf import RobotError
from diffsim_trainer.rollout import PolicyContract, standing_state
from policy_controller.fields import RefusedError
from policy_controller.motion import STOP_HASTE, MotionSettings

TorchPolicy = Callable[[torch.Tensor], torch.Tensor]  # observation [N, 50] -> action [N, 12]

PUSH_SPEED = 0.5  # m/s
PUSH_PROBABILITY = 0.005  # per control step: every 4 s
COMMAND_CHANGES = 0.004  # probability per control step: every 5 s
SETTLING = 2.0  # s before tracking is judged
SURVIVAL_SECONDS = 20.0
TRACKING_SECONDS = 8.0
BOX = CommandConfig(
    lower=(-1.0, -1.0, -1.0),
    upper=(1.0, 1.0, 1.0),
    zero_fraction=0.0,
    single_axis_fraction=0.0,
    resample_probability=0.0,
)
NOMINAL = RandomizationConfig(
    friction=(0.8, 0.8),
    base_mass=(0.0, 0.0),
    com_shift=0.0,
    kp_scale=(1.0, 1.0),
    kd_scale=(1.0, 1.0),
    motor_strength=(1.0, 1.0),
    encoder_bias=0.0,
    delay_steps=(1, 1),
    push_probability=0.0,
)
QUIET = NoiseConfig(0.0, 0.0, 0.0, 0.0, 0.0)

# name: (lowest, highest) allowed
LIMITS = {
    "velocity_rmse": (0.0, 0.12),  # m/s, over all commands
    "yaw_rate_rmse": (0.0, 0.15),  # rad/s
    "survival": (0.995, 1.0),  # share of episodes without a fall
    "swing_apex": (0.05, math.inf),  # m, mean over swings, median over robots
    "duty": (0.5, 0.7),  # loaded share of time, median over robots
    "slip": (0.0, 0.05),  # m/s, mean horizontal speed of a loaded foot
    "penetration": (0.0, 0.005),  # m, deepest point of any foot
    "joint_speed": (0.0, 8.5),  # rad/s, greatest while walking undisturbed
    "torque": (0.0, 80.001),  # N m, greatest while walking undisturbed
    "drift": (0.0, 0.03),  # m in 20 s at zero command
    "action_rate": (0.0, 0.01),  # rms change of the action per step at zero command
}


def judge(
    policy: TorchPolicy, contract: PolicyContract, device: str, episodes: int = 1000, seed: int = 0
) -> dict[str, float]:
    """Every figure of LIMITS for one policy."""
    torch.manual_seed(seed)
    base = _nominal(contract, episodes)
    still = dataclasses.replace(
        base, num_envs=1, commands=dataclasses.replace(BOX, lower=(0.0,) * 3, upper=(0.0,) * 3)
    )
    disturbed = _disturbed(contract, episodes)
    with torch.no_grad():
        return (
            _tracking(policy, _make_env(contract, base, device, standing=True))
            | _survival(policy, _make_env(contract, disturbed, device, standing=False))
            | _standing(policy, _make_env(contract, still, device, standing=True))
        )


def survey(
    policy: TorchPolicy, contract: PolicyContract, device: str, episodes: int = 1000, seed: int = 0
) -> Iterator[tuple[str, float]]:
    """Where falls come from: yields a name and the survival with every disturbance, then with one
    left out at a time. Each trial starts from the same seed."""
    full = _disturbed(contract, episodes)

    def without(*names: str) -> EnvConfig:
        nominal = {name: getattr(NOMINAL, name) for name in names}
        return dataclasses.replace(
            full, randomization=dataclasses.replace(full.randomization, **nominal)
        )

    trials = {
        "everything": (full, {}),
        "no kicks": (full, {"push_speed": 0.0}),
        "steady commands": (full, {"command_changes": 0.0}),
        "friction 0.8": (without("friction"), {}),
        "no payload": (without("base_mass", "com_shift"), {}),
        "nominal drives": (without("kp_scale", "kd_scale", "motor_strength"), {}),
        "no encoder bias": (without("encoder_bias"), {}),
        "delay of 5 ms": (without("delay_steps"), {}),
        "no sensor noise": (dataclasses.replace(full, noise=QUIET), {}),
    }
    for name, (config, rates) in trials.items():
        torch.manual_seed(seed)
        env = _make_env(contract, config, device, standing=False)
        with torch.no_grad():
            share = _survival(policy, env, **rates)["survival"]
        yield name, share


def _nominal(contract: PolicyContract, episodes: int) -> EnvConfig:
    return EnvConfig(
        num_envs=episodes,
        action_scale=contract.action_scale,
        gait=contract.gait,
        episode_steps=10**6,
        commands=BOX,
        randomization=NOMINAL,
        noise=QUIET,
    )


def _disturbed(contract: PolicyContract, episodes: int) -> EnvConfig:
    """All but the kicks and changes of the command, which `_survival` gives."""
    return dataclasses.replace(
        _nominal(contract, episodes),
        commands=dataclasses.replace(BOX, zero_fraction=0.1),
        randomization=dataclasses.replace(RandomizationConfig(), push_probability=0.0),
        noise=NoiseConfig(),
    )


def _make_env(
    contract: PolicyContract, config: EnvConfig, device: str, standing: bool
) -> LocomotionEnv:
    robot, dt = contract.robot, 0.005
    sim = Simulator(robot, config.num_envs, device=device, dt=dt, contact=ContactModel.HARD)
    sim_config = SimConfig(dt=dt, substeps=round(contract.control_period / dt))
    env = LocomotionEnv(sim, robot, config, sim_config, device)
    env.episode_step.zero_()
    if standing:
        env.state.copy_(torch.from_numpy(standing_state(robot, config.num_envs)))
        env.phase.zero_()
    return env


def _tracking(policy: TorchPolicy, env: LocomotionEnv) -> dict[str, float]:
    first = round(SETTLING / env.control_period)
    steps = round(TRACKING_SECONDS / env.control_period)
    squares, gait = torch.zeros(2, device=env.device), _Gait(env)
    joint_speed = torque = depth = torch.zeros((), device=env.device)
    for step in range(steps):
        result = env.step(policy(env.observe()))
        joint_speed = torch.maximum(joint_speed, env.state[:, 25:].abs().max())
        torque = torch.maximum(torque, result.sensors[:, :, :3].abs().max())
        depth = torch.maximum(depth, -result.sensors[:, :, 3].min())
        if step >= first:
            squares += result.tracking_error.square().mean(0)
            gait.add(result.sensors)
    rmse = (squares / (steps - first)).sqrt()
    return {
        "velocity_rmse": float(rmse[0]),
        "yaw_rate_rmse": float(rmse[1]),
        **gait.summary(),
        "penetration": float(depth),
        "joint_speed": float(joint_speed),
        "torque": float(torque),
    }


class _LimitedCommand:
    """The command of N robots as the controller hands it to the policy: it starts at zero and
    approaches the wanted one with the controller's greatest acceleration, for a stop with
    STOP_HASTE times that."""

    def __init__(self, env: LocomotionEnv) -> None:
        limits = MotionSettings()
        rate = (limits.linear_acceleration,) * 2 + (limits.yaw_acceleration,)
        self.env, self.wanted = env, env.command
        self.step = env.control_period * torch.tensor(rate, device=env.device)
        env.command = torch.zeros_like(env.command)

    def advance(self, change_probability: float) -> None:
        """Draws new wanted commands with this probability, then approaches the wanted ones."""
        env = self.env
        change = env.random(1) < change_probability
        self.wanted = torch.where(change, env.draw_command(), self.wanted)
        stops = (self.wanted == 0).all(1, keepdim=True)
        limit = torch.where(stops, STOP_HASTE * self.step, self.step)
        env.command = env.command + (self.wanted - env.command).clamp(-limit, limit)


def _survival(
    policy: TorchPolicy,
    env: LocomotionEnv,
    push_speed: float = PUSH_SPEED,
    command_changes: float = COMMAND_CHANGES,
) -> dict[str, float]:
    n, command = env.num_envs, _LimitedCommand(env)
    fallen = torch.zeros(n, dtype=torch.bool, device=env.device)
    for _ in range(round(SURVIVAL_SECONDS / env.control_period)):
        hit = torch.rand(n, device=env.device) < PUSH_PROBABILITY
        angle = 2 * math.pi * torch.rand(n, device=env.device)
        kick = push_speed * hit[:, None] * torch.stack([angle.cos(), angle.sin()], 1)
        env.state = torch.cat([env.state[:, :7], env.state[:, 7:9] + kick, env.state[:, 9:]], 1)
        command.advance(command_changes)
        fallen |= env.step(policy(env.corrupt(env.observe()))).terminated
    return {"survival": 1.0 - float(fallen.float().mean())}


def _standing(policy: TorchPolicy, env: LocomotionEnv) -> dict[str, float]:
    """Drift and action rate are taken after the settling time."""
    first = round(SETTLING / env.control_period)
    start, squares = None, 0.0
    steps = round(SURVIVAL_SECONDS / env.control_period)
    for step in range(first + steps):
        if step == first:
            start = env.state[:, :2].clone()
        previous = env.previous_action.clone()
        env.step(policy(env.observe()))
        if step >= first:
            squares += float((env.previous_action - previous).square().mean()) / steps
    return {
        "drift": float((env.state[:, :2] - start).norm(dim=1).max()),
        "action_rate": math.sqrt(squares),
    }


class _Gait:
    """Swing apex, duty factor and slip of N robots, collected at the control rate."""

    def __init__(self, env: LocomotionEnv) -> None:
        shape = (env.num_envs, 4)
        self.shortest = round(SHORTEST_SWING / env.control_period)
        self.apex, self.apex_sum, self.swings, self.air, self.loaded, self.speed = (
            torch.zeros(shape, device=env.device) for _ in range(6)
        )
        self.steps = 0

    def add(self, sensors: torch.Tensor) -> None:
        loaded = sensors[:, :, 7:10].norm(dim=2) > CONTACT_FORCE
        landed = loaded & (self.air >= self.shortest)
        self.apex_sum += torch.where(landed, self.apex, 0.0)
        self.swings += landed
        self.apex = torch.where(loaded, 0.0, torch.maximum(self.apex, sensors[:, :, 3]))
        self.air = torch.where(loaded, 0.0, self.air + 1)
        self.loaded += loaded
        self.speed += torch.where(loaded, sensors[:, :, 4:6].norm(dim=2), 0.0)
        self.steps += 1

    def summary(self) -> dict[str, float]:
        apex = (self.apex_sum / self.swings.clamp(min=1)).amin(1)
        return {
            "swing_apex": float(apex.median()),
            "duty": float((self.loaded / self.steps).mean(1).median()),
            "slip": float((self.speed.sum(1) / self.loaded.sum(1).clamp(min=1)).mean()),
        }


def misses(figures: dict[str, float]) -> list[str]:
    """Names of the figures outside their limits; NaN is outside."""
    return [n for n, (low, high) in LIMITS.items() if not low <= figures[n] <= high]


def format_table(columns: dict[str, dict[str, float]]) -> str:
    """One row per figure, one column per policy, limits at the right; a miss carries a star."""
    lines = [" ".join([f"{'':<14}", *(f"{name[-12:]:>13}" for name in columns)])]
    for name, (low, high) in LIMITS.items():
        cells = (f"{f[name]:12.4f}{'*' if name in misses(f) else ' '}" for f in columns.values())
        lines.append(" ".join([f"{name:<14}", *cells, f"  {low:g} .. {high:g}"]))
    good = sum(not misses(figures) for figures in columns.values())
    return "\n".join([*lines, f"{good} of {len(columns)} meet every limit"])


def main(argv: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    source = parser.add_mutually_exclusive_group(required=True)
    source.add_argument("--checkpoint", type=Path, nargs="+", help="checkpoint of a training run")
    source.add_argument("--bundle", type=Path, help="policy bundle, a directory or a .zip file")
    parser.add_argument("--robot", type=Path, help="robot description, with --bundle")
    parser.add_argument("--episodes", type=int, default=1000, help="number of disturbed episodes")
    parser.add_argument(
        "--survey", action="store_true", help="survival with one disturbance left out at a time"
    )
    parser.add_argument("--device", default="cpu", help="cpu (default) or cuda:0")
    args = parser.parse_args(argv)
    if args.bundle is not None and args.robot is None:
        parser.error("--bundle needs --robot, for example config/robot/anymal_d.yaml")
    silence_warp()
    torch.set_num_threads(1)
    try:
        if args.bundle is not None:
            policies = {args.bundle.name: _from_bundle(args.bundle, load_robot(args.robot))}
        else:
            policies = {p.parent.name: _from_checkpoint(p, args.device) for p in args.checkpoint}
    except (CheckpointError, OSError, RobotError, RefusedError) as error:
        print(f"error: {error}", file=sys.stderr)
        return 1
    if args.survey:
        for name, policy in policies.items():
            print(name)
            for left_out, share in survey(*policy, args.device, args.episodes):
                print(f"  {left_out:<16}{share:8.4f}", flush=True)
        return 0
    columns = {name: judge(*p, args.device, args.episodes) for name, p in policies.items()}
    print(format_table(columns))
    return 1 if any(misses(figures) for figures in columns.values()) else 0


def _from_checkpoint(path: Path, device: str) -> tuple[TorchPolicy, PolicyContract]:
    checkpoint = load_checkpoint(path)
    c = checkpoint.config
    contract = PolicyContract(
        load_robot(c.robot), c.env.action_scale, c.env.gait, c.sim.control_period
    )
    return checkpoint.actor().to(device), contract


def _from_bundle(path: Path, robot: Robot) -> tuple[TorchPolicy, PolicyContract]:
    policy, contract = policy_from_bundle(path, robot)

    def on_tensors(observation: torch.Tensor) -> torch.Tensor:
        return torch.from_numpy(policy(observation.cpu().numpy())).to(observation.device)

    return on_tensors, contract


if __name__ == "__main__":
    sys.exit(main())
