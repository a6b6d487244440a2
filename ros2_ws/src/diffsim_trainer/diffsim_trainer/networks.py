"""Actor and critic: multilayer perceptrons with ELU, and the running observation normaliser that
lives inside the actor."""

from __future__ import annotations

import torch
from torch import nn

VALUE_SCALE = 10.0  # the critic's output layer predicts value / 10, which is of order one
ACTION_SIZE = 12  # one per joint


class RunningNorm(nn.Module):
    """Standardises observations with running mean and variance, clipped to +-`clip`.

    Buffers: mean [size], var [size], count [] (float64-free, so that it exports and runs in CUDA
    graphs). `forward` never changes them; `update` is called once per training iteration, so that
    one window sees one normalisation.
    """

    INITIAL_COUNT = 1e-2
    MAX_COUNT = 2e6  # the average keeps following a slowly changing policy

    def __init__(self, size: int, clip: float = 8.0) -> None:
        super().__init__()
        self.clip = clip
        self.register_buffer("mean", torch.zeros(size))
        self.register_buffer("var", torch.ones(size))
        self.register_buffer("count", torch.tensor(self.INITIAL_COUNT))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return ((x - self.mean) / (self.var + 1e-4).sqrt()).clamp(-self.clip, self.clip)

    @torch.no_grad()
    def update(self, batch: torch.Tensor) -> None:
        """Merges the moments of `batch` [B, size] into the running ones (Chan et al. 1979)."""
        self.merge(float(batch.shape[0]), batch.mean(0), batch.var(0, unbiased=False))

    @torch.no_grad()
    def merge(self, n: float, batch_mean: torch.Tensor, batch_var: torch.Tensor) -> None:
        """Merges the moments [size] of n observations."""
        total = self.count + n
        delta = batch_mean - self.mean
        self.var.copy_(
            (self.var * self.count + batch_var * n + delta.square() * self.count * n / total)
            / total
        )
        self.mean.add_(delta * n / total)
        self.count.copy_(total.clamp(max=self.MAX_COUNT))

    def is_initial(self) -> bool:
        """True while no observation has ever been merged; such an actor must not be exported."""
        return bool(self.count <= self.INITIAL_COUNT * 1.01)


class Actor(nn.Module):
    """Raw observation [B, obs] -> deterministic action in [-1, 1] [B, actions]. This module, as it
    is, becomes policy.onnx."""

    def __init__(
        self, observation_size: int, action_size: int, hidden_sizes: tuple[int, ...]
    ) -> None:
        super().__init__()
        self.norm = RunningNorm(observation_size)
        self.net = _mlp(observation_size, hidden_sizes, action_size, last_gain=0.01)

    def forward(self, observation: torch.Tensor) -> torch.Tensor:
        return torch.tanh(self.net(self.norm(observation)))

    def explore(self, observation: torch.Tensor, noise: torch.Tensor) -> torch.Tensor:
        """Action with reparameterised noise [B, actions] added before the squashing, so that it
        stays in [-1, 1]."""
        return torch.tanh(self.net(self.norm(observation)) + noise)


class Critic(nn.Module):
    """Normalised observation [B, obs] -> value [B]. It shares the actor's normaliser: the caller
    applies it."""

    def __init__(self, observation_size: int, hidden_sizes: tuple[int, ...]) -> None:
        super().__init__()
        self.net = _mlp(observation_size, hidden_sizes, 1, last_gain=0.1)

    def forward(self, normalised: torch.Tensor) -> torch.Tensor:
        return VALUE_SCALE * self.net(normalised).squeeze(1)


def _mlp(inputs: int, hidden: tuple[int, ...], outputs: int, last_gain: float) -> nn.Sequential:
    sizes = [inputs, *hidden, outputs]
    layers: list[nn.Module] = []
    for i, (a, b) in enumerate(zip(sizes[:-1], sizes[1:], strict=True)):
        linear = nn.Linear(a, b)
        gain = last_gain if i == len(sizes) - 2 else 1.0
        nn.init.normal_(linear.weight, std=gain / a**0.5)
        nn.init.zeros_(linear.bias)
        layers += [linear] if i == len(sizes) - 2 else [linear, nn.ELU()]
    return nn.Sequential(*layers)
