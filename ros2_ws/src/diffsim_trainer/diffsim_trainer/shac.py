"""SHAC: short-horizon actor-critic on analytic gradients (Xu et al., ICLR 2022), with the changes
that legged robots need.

One `update`: roll the policy out for `horizon` control steps through the differentiable simulator,
minimise

    L = -1/(h N) sum_env sum_t [ gamma^(t - t0) r_t + b_t gamma^(t + 1 - t0) V'(s_final) ]

with respect to the actor, then fit the critic to TD(lambda) targets of the same window. t0 is the
first step of the running episode inside the window; b_t is 1 at truncated ends and at the end of
the window unless the robot fell there, else 0; V' is the slowly moving target critic.
"""

from __future__ import annotations

import copy
from dataclasses import dataclass

import torch
from torch.nn.utils import clip_grad_norm_

from diffsim_trainer.config import ShacConfig
from diffsim_trainer.env import LocomotionEnv
from diffsim_trainer.networks import ACTION_SIZE, VALUE_SCALE, Actor, Critic
from diffsim_trainer.observation import OBSERVATION_SIZE
from diffsim_trainer.reward import TERM_NAMES


@dataclass
class Window:
    """A rollout of h steps in N environments; obs (clean) and targets detached, reward and
    obs_final with gradient."""

    obs: torch.Tensor  # [h, N, 50]
    obs_noisy: torch.Tensor  # [h, N, 50] what the actor saw
    reward: torch.Tensor  # [h, N]
    terminated: torch.Tensor  # bool [h, N]
    truncated: torch.Tensor  # bool [h, N]
    obs_final: torch.Tensor  # [h, N, 50]
    terms: torch.Tensor  # [h, N, terms]
    tracking_error: torch.Tensor  # [h, N, 2]


def actor_loss(
    reward: torch.Tensor,
    terminated: torch.Tensor,
    truncated: torch.Tensor,
    value_final: torch.Tensor,
    gamma: float,
) -> torch.Tensor:
    """The loss L above, scalar. All arguments [h, N]; value_final[t] = V'(observation after step t,
    before any reset)."""
    horizon, num_envs = reward.shape
    discount = torch.ones_like(reward[0])
    total = torch.zeros_like(reward[0])
    for t in range(horizon):
        total = total + discount * reward[t]
        ends_with_value = truncated[t] if t < horizon - 1 else ~terminated[t]
        discount = discount * gamma
        total = total + torch.where(
            ends_with_value, discount * value_final[t], torch.zeros_like(total)
        )
        done = terminated[t] | truncated[t]
        discount = torch.where(done, torch.ones_like(discount), discount)
    return -total.sum() / (horizon * num_envs)


def td_lambda_targets(
    reward: torch.Tensor,
    terminated: torch.Tensor,
    truncated: torch.Tensor,
    value_final: torch.Tensor,
    gamma: float,
    lam: float,
) -> torch.Tensor:
    """G_t = r_t + gamma [(1 - lam) V_t + lam G_{t+1}], cut at ends: V_t alone when truncated,
    nothing when terminated. All [h, N]."""
    value = torch.where(terminated, torch.zeros_like(value_final), value_final)
    done = terminated | truncated
    target = value[-1]
    targets = []
    for t in reversed(range(reward.shape[0])):
        mixed = torch.where(done[t], value[t], (1 - lam) * value[t] + lam * target)
        target = reward[t] + gamma * mixed
        targets.append(target)
    return torch.stack(targets[::-1])


class Shac:
    """Owns actor, critic, target critic and their optimisers. `update` runs one iteration;
    `metrics` says what it did."""

    def __init__(self, env: LocomotionEnv, config: ShacConfig, iterations: int) -> None:
        self.env, self.config, self.iterations = env, config, iterations
        self.workers = env.workers
        self.iteration = 0
        self._graph: torch.cuda.CUDAGraph | None = None
        device = env.device
        self.actor = Actor(OBSERVATION_SIZE, ACTION_SIZE, config.hidden_sizes).to(device)
        self.critic = Critic(OBSERVATION_SIZE, config.hidden_sizes).to(device)
        self.target_critic = copy.deepcopy(self.critic).requires_grad_(False)
        self.noise_std = torch.tensor(config.noise_start, device=device)
        self.actor_optimizer = _adam(self.actor, config.actor_learning_rate, config, device)
        self.critic_optimizer = _adam(self.critic, config.critic_learning_rate, config, device)
        env.cotangent_clip = config.cotangent_clip / (config.horizon * env.num_envs)
        self._update_norm(env.observe())

    def update(self) -> dict[str, torch.Tensor]:
        """One training iteration. The returned scalars stay on the device: fetching them is the
        caller's (rare) synchronisation."""
        self._schedule()
        if self._graph is None:
            metrics = self._iterate()
        else:
            self._graph.replay()
            metrics = self._graph_metrics
        self.iteration += 1
        return metrics

    def capture(self, warm_up: int) -> None:
        """CUDA only: runs `warm_up` iterations, then records the iteration as one graph that later
        `update` calls replay."""
        stream = torch.cuda.Stream()
        stream.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(stream):
            for _ in range(warm_up):
                self.update()
        torch.cuda.current_stream().wait_stream(stream)
        graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(graph):
            self._graph_metrics = self._iterate()
        self._graph = graph

    def _iterate(self) -> dict[str, torch.Tensor]:
        """All device work of an iteration: fixed shapes, no host decision."""
        self.env.cotangents.reset()
        window = self._rollout()
        loss, values, grad_norm = self._update_actor(window)
        critic_loss = self._update_critic(window, values)
        self._update_norm(window.obs_noisy.flatten(0, 1))
        self.env.detach()
        return self._metrics(window, loss, grad_norm, critic_loss)

    def _schedule(self) -> None:
        """Learning rates and exploration noise fall linearly over the run."""
        c = self.config
        progress = min(self.iteration / self.iterations, 1.0)
        decay = 1.0 + (c.final_learning_rate - 1.0) * progress
        self.actor_optimizer.param_groups[0]["lr"].fill_(c.actor_learning_rate * decay)
        self.critic_optimizer.param_groups[0]["lr"].fill_(c.critic_learning_rate * decay)
        self.noise_std.fill_(c.noise_start + (c.noise_end - c.noise_start) * progress)

    def _rollout(self) -> Window:
        env = self.env
        observation = env.observe()
        clean, noisy, results = [], [], []
        for _ in range(self.config.horizon):
            seen = env.corrupt(observation)
            noise = self.noise_std * env.random_normal(ACTION_SIZE)
            result = env.step(self.actor.explore(seen, noise))
            clean.append(observation.detach())
            noisy.append(seen.detach())
            results.append(result)
            observation = result.obs

        def stack(name: str) -> torch.Tensor:
            return torch.stack([getattr(r, name) for r in results])

        names = ("reward", "terminated", "truncated", "obs_final", "terms", "tracking_error")
        return Window(torch.stack(clean), torch.stack(noisy), *(stack(name) for name in names))

    def _values(self, observation: torch.Tensor) -> torch.Tensor:
        """Target critic on [h, N, 50] -> [h, N]."""
        h, n, size = observation.shape
        return self.target_critic(self.actor.norm(observation.reshape(h * n, size))).view(h, n)

    def _update_actor(self, window: Window) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
        values = self._values(window.obs_final)
        loss = actor_loss(
            window.reward, window.terminated, window.truncated, values, self.config.gamma
        )
        self.actor_optimizer.zero_grad(set_to_none=False)
        loss.backward()
        self.workers.average_gradients(self.actor.parameters())
        grad_norm = clip_grad_norm_(self.actor.parameters(), self.config.max_grad_norm)
        self.actor_optimizer.step()
        return loss.detach(), values.detach(), grad_norm

    def _update_critic(self, window: Window, values: torch.Tensor) -> torch.Tensor:
        c = self.config
        targets = td_lambda_targets(
            window.reward.detach(), window.terminated, window.truncated, values, c.gamma, c.lam
        )
        inputs = self.actor.norm(window.obs)
        for _ in range(c.critic_epochs):
            order = torch.rand(c.horizon, device=targets.device).argsort()
            for steps in order.split(c.horizon // c.critic_minibatches):
                error = self.critic(inputs[steps].flatten(0, 1)) - targets[steps].flatten()
                loss = (error / VALUE_SCALE).square().mean()
                self.critic_optimizer.zero_grad(set_to_none=False)
                loss.backward()
                self.workers.average_gradients(self.critic.parameters())
                clip_grad_norm_(self.critic.parameters(), c.max_grad_norm)
                self.critic_optimizer.step()
        with torch.no_grad():
            for old, new in zip(
                self.target_critic.parameters(), self.critic.parameters(), strict=True
            ):
                old.lerp_(new, 1.0 - c.target_critic_smoothing)
        return loss.detach()

    def _update_norm(self, batch: torch.Tensor) -> None:
        """Merges the moments of all workers' batches [B, 50] into the normaliser."""
        mean = self.workers.average(batch.mean(0))
        var = self.workers.average((batch - mean).square().mean(0))
        self.actor.norm.merge(float(batch.shape[0] * self.workers.count), mean, var)

    def _metrics(self, window: Window, loss, grad_norm, critic_loss) -> dict[str, torch.Tensor]:
        """Averaged over all workers' robots."""
        nonfinite, clipped, largest = self.env.cotangents.values.unbind()
        samples = self.config.horizon * self.env.num_envs
        metrics = {
            "reward": window.reward.detach().mean(),
            "velocity_error": window.tracking_error[..., 0].square().mean(),
            "yaw_rate_error": window.tracking_error[..., 1].square().mean(),
            "falls": window.terminated.float().mean(),
            "actor_loss": loss,
            "critic_loss": critic_loss,
            "grad_norm": grad_norm,
            "cotangents_nonfinite": nonfinite * self.workers.count,
            "cotangents_clipped": clipped / samples,
        }
        terms = window.terms.mean((0, 1))
        metrics |= {f"reward/{name}": terms[i] for i, name in enumerate(TERM_NAMES)}
        values = self.workers.average(torch.stack(list(metrics.values())))
        metrics = dict(zip(metrics, values.unbind(), strict=True))
        for name in ("velocity_error", "yaw_rate_error"):
            metrics[name] = metrics[name].sqrt()
        return metrics | {"cotangent_largest": self.workers.maximum(largest * samples)}

    def state_dict(self) -> dict:
        return {name: getattr(self, name).state_dict() for name in self._PARTS} | {
            "iteration": self.iteration
        }

    def load_state_dict(self, values: dict) -> None:
        for name in self._PARTS:
            getattr(self, name).load_state_dict(values[name])
        self.iteration = values["iteration"]

    _PARTS = ("actor", "critic", "target_critic", "actor_optimizer", "critic_optimizer", "env")


def _adam(
    module: torch.nn.Module, rate: float, config: ShacConfig, device: str
) -> torch.optim.Adam:
    """Fused Adam with the learning rate on the device, so that a captured graph follows the
    schedule."""
    return torch.optim.Adam(
        module.parameters(),
        lr=torch.tensor(rate, device=device),
        betas=config.betas,
        fused=True,
        capturable=torch.device(device).type == "cuda",
    )
