"""The processes of one training run, started by torchrun; without it, one process.

Each process simulates an equal share of the robots. All processes hold the same random generator
and draw for all robots, each keeping its own rows; gradients, moments and metrics are averaged. So
several processes compute what one process with all robots would, up to the order of summation.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Iterable
from dataclasses import dataclass
from typing import NoReturn

import torch
import torch.distributed as dist

from diffsim_trainer.config import ConfigError


@dataclass(frozen=True)
class Workers:
    """`rank` of this process among `count`."""

    rank: int = 0
    count: int = 1

    @property
    def is_first(self) -> bool:
        return self.rank == 0

    def share_of(self, num_envs: int) -> int:
        """Number of robots of each process. Raises ConfigError when they cannot be equal."""
        if num_envs % self.count:
            raise ConfigError(
                f"env: num_envs ({num_envs}) must be a multiple of the {self.count} processes"
            )
        return num_envs // self.count

    def rows(self, everything: torch.Tensor) -> torch.Tensor:
        """This process's rows of an array over all robots."""
        n = everything.shape[0] // self.count
        return everything[self.rank * n : (self.rank + 1) * n]

    def gather(self, own: torch.Tensor) -> torch.Tensor:
        """The array over all robots, from every process's rows."""
        if self.count == 1:
            return own
        parts = [torch.empty_like(own) for _ in range(self.count)]
        dist.all_gather(parts, own.contiguous())
        return torch.cat(parts)

    def average(self, value: torch.Tensor) -> torch.Tensor:
        """Mean over the processes, in place."""
        if self.count > 1:
            dist.all_reduce(value)
            value /= self.count
        return value

    def maximum(self, value: torch.Tensor) -> torch.Tensor:
        """Largest over the processes, in place."""
        if self.count > 1:
            dist.all_reduce(value, op=dist.ReduceOp.MAX)
        return value

    def average_gradients(self, parameters: Iterable[torch.nn.Parameter]) -> None:
        """One exchange for all gradients."""
        if self.count == 1:
            return
        gradients = [p.grad for p in parameters]
        flat = self.average(torch.cat([g.flatten() for g in gradients]))
        for gradient, part in zip(
            gradients, flat.split([g.numel() for g in gradients]), strict=True
        ):
            gradient.copy_(part.view_as(gradient))

    def any(self, flag: bool) -> bool:
        """True in every process when it is true in one."""
        if self.count == 1:
            return flag
        device = torch.cuda.current_device() if dist.get_backend() == "nccl" else "cpu"
        return bool(self.maximum(torch.tensor(float(flag), device=device)))


SINGLE = Workers()


def join_workers(device: str) -> tuple[Workers, str]:
    """The workers of this run and the device of this process: under torchrun, `cuda:0` becomes the
    GPU of the local rank. NCCL on GPUs, gloo on CPUs."""
    if "WORLD_SIZE" not in os.environ:
        return Workers(), device
    if torch.device(device).type == "cuda":
        device = f"cuda:{os.environ['LOCAL_RANK']}"
        torch.cuda.set_device(device)
        dist.init_process_group("nccl", device_id=torch.device(device))
    else:
        dist.init_process_group("gloo")
    return Workers(dist.get_rank(), dist.get_world_size()), device


def leave_workers() -> None:
    if dist.is_initialized():
        dist.destroy_process_group()


def end_process(status: int) -> NoReturn:
    """End with this exit status; under torchrun without Python's own clean-up.

    Threads of gloo free the arrays of the last exchange a little later, and outlive
    destroy_process_group once an optimiser was made (torch 2.13). Where they do so while the
    interpreter is taken down, the process aborts, and torchrun kills the others.
    """
    if "WORLD_SIZE" not in os.environ:
        sys.exit(status)
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(status)
