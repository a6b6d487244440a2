"""What the experiments share: the task under any contact law, training in it, and the return of a
policy."""

from __future__ import annotations

import copy
import dataclasses
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import torch
from torch import nn

from diffsim_trainer.config import TrainConfig
from diffsim_trainer.env import LocomotionEnv
from diffsim_trainer.networks import ACTION_SIZE, Actor
from diffsim_trainer.observation import OBSERVATION_SIZE
from diffsim_trainer.physics import ContactModel, Robot, Simulator, load_robot
from diffsim_trainer.shac import Shac

GPU_SIZE = (512, 400)  # robots, iterations of a training
CPU_SIZE = (64, 200)  # minutes instead of half an hour
WARM_UP = 3  # calls before one is recorded as a CUDA graph
SOFT_REFINEMENT = 5  # the soft law is stiff: its substeps are this many times shorter
EVALUATION_SEED = 12345


@dataclass(frozen=True)
class Settings:
    """out: where figures and tables go. quick: smallest size that still runs every line, for the
    CPU; its numbers mean nothing. config: the task and SHAC's numbers. seeds: trainings of each
    kind."""

    out: Path
    device: str
    quick: bool
    config: TrainConfig
    seeds: int

    def pick(self, full: int, quick: int) -> int:
        return quick if self.quick else full

    @property
    def on_gpu(self) -> bool:
        return torch.device(self.device).type == "cuda"

    def training(self, seed: int) -> TrainConfig:
        """The training that all experiments look at; smaller on the CPU."""
        return self.sized(*(GPU_SIZE if self.on_gpu else CPU_SIZE), seed)

    def judging(self) -> TrainConfig:
        """The robots a return is averaged over."""
        return self.sized(256 if self.on_gpu else 64, 1, 0)

    def sized(self, num_envs: int, iterations: int, seed: int) -> TrainConfig:
        """The configuration with another size and seed; tiny when quick."""
        config = self.config
        env = dataclasses.replace(config.env, num_envs=self.pick(num_envs, 8))
        if self.quick:
            env = dataclasses.replace(env, episode_steps=30, reset_pool_size=64)
        iterations = self.pick(iterations, 3)
        return dataclasses.replace(config, env=env, iterations=iterations, seed=seed)


def build_env(
    config: TrainConfig, law: ContactModel, device: str, robot: Robot | None = None
) -> LocomotionEnv:
    """The task of `config` under a contact law. SOFT gets shorter substeps; delays keep their
    length in seconds."""
    env, sim = config.env, config.sim
    if law is ContactModel.SOFT:
        k = SOFT_REFINEMENT
        sim = dataclasses.replace(sim, dt=sim.dt / k, substeps=sim.substeps * k)
        low, high = env.randomization.delay_steps
        delays = dataclasses.replace(env.randomization, delay_steps=(low * k, high * k))
        env = dataclasses.replace(env, randomization=delays)
    robot = robot or load_robot(config.robot)
    simulator = Simulator(
        robot, env.num_envs, device=device, dt=sim.dt, contact=law, sweeps=sim.sweeps
    )
    return LocomotionEnv(simulator, robot, env, sim, device)


def build_shac(
    config: TrainConfig, law: ContactModel, device: str, robot: Robot | None = None
) -> Shac:
    """SHAC on the task under a contact law, seeded by `config.seed`; recorded as a CUDA graph on a
    GPU."""
    torch.manual_seed(config.seed)
    shac = Shac(build_env(config, law, device, robot), config.shac, config.iterations)
    if torch.device(device).type == "cuda":
        shac.capture(min(WARM_UP, config.iterations - 1))
    return shac


def train(shac: Shac, iterations: int) -> float:
    """Goes on up to `iterations`; seconds it took."""
    start = time.perf_counter()
    while shac.iteration < iterations:
        metrics = shac.update()
    if not torch.isfinite(metrics["grad_norm"]):  # waits for the device
        raise FloatingPointError(f"gradient not finite at iteration {shac.iteration}")
    return time.perf_counter() - start


def trained_actor(settings: Settings, law: ContactModel, seed: int) -> tuple[Actor, float]:
    """The policy that three experiments look at, and the seconds its training took. Kept in the
    output directory under the hash of its configuration, so that it is trained once."""
    config = settings.training(seed)
    path = settings.out / f"{law.value}_seed{seed}_{config.sha256()[:12]}.pt"
    if not path.is_file():
        shac = build_shac(config, law, settings.device)
        seconds = train(shac, config.iterations)
        torch.save({"actor": shac.actor.state_dict(), "seconds": seconds}, path)
    saved = torch.load(path, map_location=settings.device, weights_only=True)
    actor = Actor(OBSERVATION_SIZE, ACTION_SIZE, config.shac.hidden_sizes).to(settings.device)
    actor.load_state_dict(saved["actor"])
    return actor, saved["seconds"]


def record(function: Callable[[], None], device: str) -> Callable[[], None]:
    """`function` itself on the CPU; on a GPU a CUDA graph of it. It works on memory that keeps its
    address and is called WARM_UP times here."""
    if torch.device(device).type != "cuda":
        return function
    stream = torch.cuda.Stream()
    stream.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(stream):
        for _ in range(WARM_UP):
            function()
    torch.cuda.current_stream().wait_stream(stream)
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        function()
    return graph.replay


class ReturnMeter:
    """Return of a deterministic policy: the task's reward summed over one episode (20 s), zero from
    a fall on.

    Robots, starts, commands, changes of command and pushes are those of the task, drawn from a
    fixed seed: every policy meets the same ones. Observations are those of the true state, without
    noise and encoder bias (the drives feel the bias). `policy` is a module
    obs [N, 50] -> action [N, 12] in [-1, 1]; `measure` takes others of the same structure.
    """

    @torch.no_grad()
    def __init__(
        self, config: TrainConfig, law: ContactModel, device: str, policy: nn.Module
    ) -> None:
        self.seed, self.device = EVALUATION_SEED, device
        self.policy = copy.deepcopy(policy)
        with self._fixed_seed():
            self.env = build_env(config, law, device)
        self.start = self.env.state_dict()
        self.start["episode_step"].zero_()
        self.total = torch.zeros(self.env.num_envs, device=device)
        self.running = torch.ones(self.env.num_envs, device=device)
        self.fell = torch.zeros(self.env.num_envs, device=device)
        self._step = record(self._advance, device)

    @torch.no_grad()
    def measure(self, policy: nn.Module) -> tuple[float, float]:
        """Mean return, and the share of robots that fell."""
        self.policy.load_state_dict(policy.state_dict())
        with self._fixed_seed():
            self.env.load_state_dict(self.start)
            self.total.zero_()
            self.fell.zero_()
            self.running.fill_(1.0)
            for _ in range(self.env.config.episode_steps):
                self._step()
        return self.total.mean().item(), self.fell.mean().item()

    def _advance(self) -> None:
        result = self.env.step(self.policy(self.env.observe()))
        self.total.add_(self.running * result.reward)
        self.fell.add_(self.running * result.terminated)
        self.running.mul_(~(result.terminated | result.truncated))
        self.env.detach()

    def _fixed_seed(self) -> _FixedSeed:
        return _FixedSeed(self.seed, self.device)


class _FixedSeed:
    """Context: torch draws from `seed`; afterwards it goes on as if nothing had been drawn."""

    def __init__(self, seed: int, device: str) -> None:
        self.seed = seed
        devices = [torch.device(device)] if torch.device(device).type == "cuda" else []
        self.fork = torch.random.fork_rng(devices)

    def __enter__(self) -> None:
        self.fork.__enter__()
        torch.manual_seed(self.seed)

    def __exit__(self, *error) -> None:
        self.fork.__exit__(*error)
