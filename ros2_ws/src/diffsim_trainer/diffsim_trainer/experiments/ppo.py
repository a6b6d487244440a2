"""PPO (rsl-rl-lib) on the same task: the environment as it wants it, and its settings."""

from __future__ import annotations

import torch
from rsl_rl.env import VecEnv
from rsl_rl.runners import OnPolicyRunner
from tensordict import TensorDict
from torch import nn

from diffsim_trainer.config import TrainConfig
from diffsim_trainer.env import LocomotionEnv
from diffsim_trainer.experiments.task import record
from diffsim_trainer.networks import ACTION_SIZE

STEPS = 24  # control steps per iteration
INITIAL_STD = 0.5  # of the action; 1 rad per unit is much for a joint


class PpoEnv(VecEnv):
    """LocomotionEnv for rsl_rl: resets by itself, tells time-outs from falls, no gradient.

    Two observation groups, as for SHAC: "actor" with sensor noise, "critic" without. Actions are
    clipped to [-1, 1]. The reward is that of the task times the control period, as is usual: values
    of order one need no other learning rate. On a GPU one step is a CUDA graph.
    """

    num_actions = ACTION_SIZE

    @torch.no_grad()
    def __init__(self, env: LocomotionEnv) -> None:
        self.env, self.device, self.num_envs = env, env.device, env.num_envs
        self.max_episode_length = env.config.episode_steps
        self.cfg = env.config
        n = env.num_envs
        self._action = torch.zeros(n, ACTION_SIZE, device=env.device)
        self._reward = torch.zeros(n, device=env.device)
        self._terminated, self._truncated = (
            torch.zeros(n, dtype=torch.bool, device=env.device) for _ in range(2)
        )
        observation = env.observe()
        self._clean, self._noisy = observation.clone(), env.corrupt(observation)
        self._step = record(self._advance, env.device)

    @property
    def episode_length_buf(self) -> torch.Tensor:
        return self.env.episode_step

    def get_observations(self) -> TensorDict:
        groups = {"actor": self._noisy.clone(), "critic": self._clean.clone()}
        return TensorDict(groups, batch_size=[self.num_envs])

    def step(self, actions: torch.Tensor) -> tuple[TensorDict, torch.Tensor, torch.Tensor, dict]:
        self._action.copy_(actions.clamp(-1.0, 1.0))
        self._step()
        done = (self._terminated | self._truncated).long()
        extras = {"time_outs": self._truncated.clone()}
        return self.get_observations(), self._reward.clone(), done, extras

    def _advance(self) -> None:
        result = self.env.step(self._action)
        self._reward.copy_(result.reward * self.env.control_period)
        self._terminated.copy_(result.terminated)
        self._truncated.copy_(result.truncated)
        self._clean.copy_(result.obs)
        self._noisy.copy_(self.env.corrupt(result.obs))
        self.env.detach()


class MeanAction(nn.Module):
    """The deterministic policy of a runner: obs [N, 50] -> action [N, 12] in [-1, 1]."""

    def __init__(self, runner: OnPolicyRunner) -> None:
        super().__init__()
        self.model = runner.alg.get_policy().as_jit()

    def forward(self, observation: torch.Tensor) -> torch.Tensor:
        return self.model(observation).clamp(-1.0, 1.0)


def build_ppo(config: TrainConfig, env: LocomotionEnv) -> OnPolicyRunner:
    """Runner with networks of SHAC's sizes; the caller seeds torch."""
    network = {
        "class_name": "MLPModel",
        "hidden_dims": list(config.shac.hidden_sizes),
        "activation": "elu",
        "obs_normalization": True,
    }
    distribution = {"class_name": "GaussianDistribution", "init_std": INITIAL_STD}
    settings = {
        "num_steps_per_env": STEPS,
        "save_interval": 1_000_000,
        "check_for_nan": False,  # would wait for the device at every step
        "obs_groups": {"actor": ["actor"], "critic": ["critic"]},
        "actor": network | {"distribution_cfg": distribution},
        "critic": dict(network),
        "algorithm": {
            "class_name": "PPO",
            "num_learning_epochs": 5,
            "num_mini_batches": 4,
            "clip_param": 0.2,
            "gamma": config.shac.gamma,
            "lam": 0.95,
            "value_loss_coef": 1.0,
            "entropy_coef": 0.003,
            "learning_rate": 1.0e-3,
            "schedule": "adaptive",
            "desired_kl": 0.01,
            "max_grad_norm": 1.0,
        },
    }
    return OnPolicyRunner(PpoEnv(env), settings, log_dir=None, device=env.device)
