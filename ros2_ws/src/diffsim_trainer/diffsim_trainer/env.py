"""Batched locomotion task on the differentiable simulator: commands, gait clock, randomisation,
resets, terminations.

`terminated` (the robot fell) and `truncated` (time is up) are two tensors throughout: the first has
no future value, the second has. Gradients flow from step to step through the state until an
environment is reset, where they end.

Nothing here synchronises with the device or indexes with booleans: whole windows run inside a CUDA
graph.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import torch

from diffsim_trainer import observation as obs
from diffsim_trainer.autograd import CotangentMonitor, body_clearance, simulate
from diffsim_trainer.config import EnvConfig, SimConfig
from diffsim_trainer.networks import ACTION_SIZE
from diffsim_trainer.nonfinite import NonfiniteRecord
from diffsim_trainer.physics import Robot, Simulator
from diffsim_trainer.reward import compute_reward
from diffsim_trainer.workers import SINGLE, Workers

ABSURD_JOINT_SPEED = 5.0  # times max_speed


@dataclass(frozen=True)
class StepResult:
    """One control step of N environments.

    obs: observation to act on next [N, 50], after the reset of finished environments
    reward: [N], zero where terminated
    terminated: bool [N], the robot fell or the state is not finite
    truncated: bool [N], the episode reached its time limit; never together with terminated
    obs_final: observation before any reset [N, 50]: what a truncated episode is bootstrapped from
    sensors: [N, 4, 10] of the last substep, as in diffsim_trainer.physics, detached
    terms: weighted reward terms [N, len(TERM_NAMES)], detached
    tracking_error: |v_xy - v*_xy| in m/s and |w_z - w*_z| in rad/s [N, 2], detached, zero where
    terminated
    """

    obs: torch.Tensor
    reward: torch.Tensor
    terminated: torch.Tensor
    truncated: torch.Tensor
    obs_final: torch.Tensor
    sensors: torch.Tensor
    terms: torch.Tensor
    tracking_error: torch.Tensor


class LocomotionEnv:
    """`reset` once, then `step` with actions in [-1, 1]; `detach` at the end of each training
    window.

    All random numbers come from torch's global generator: seeding it fixes a run, and saving its
    state resumes one. They are drawn for the robots of all `workers`; this environment holds its
    rows of `config.num_envs`.
    """

    def __init__(
        self,
        sim: Simulator,
        robot: Robot,
        config: EnvConfig,
        sim_config: SimConfig,
        device: str,
        workers: Workers = SINGLE,
    ) -> None:
        self.sim, self.config, self.device, self.workers = sim, config, device, workers
        self.num_envs = workers.share_of(config.num_envs)
        self.substeps, self.control_period = sim_config.substeps, sim_config.control_period
        self.kappa = sim_config.kappa
        self.default_pose = torch.tensor(robot.default_pose.tolist(), device=device)
        self.position_lower = torch.tensor(robot.position_lower.tolist(), device=device)
        self.position_upper = torch.tensor(robot.position_upper.tolist(), device=device)
        self.stand_height = float(robot.stand_height)
        self.noise_scale = obs.noise_scale(config.noise).to(device)
        self.command_lower = torch.tensor(config.commands.lower, device=device)
        self.command_upper = torch.tensor(config.commands.upper, device=device)
        self.nonfinite = NonfiniteRecord(self.num_envs, device)
        self.cotangents = CotangentMonitor(device, self.nonfinite)
        self.cotangent_clip = math.inf
        self.reset()

    def reset(self) -> torch.Tensor:
        """Draws the reset pool and starts every environment anew, spread over episode time. Returns
        the observation [N, 50]."""
        n, dev = self.num_envs, self.device
        self.pool = self._draw_reset_pool()
        self.state, self.params, self.delay_steps, self.encoder_bias = self._draw_from_pool()
        self.command = self.draw_command()
        self.phase = 2 * math.pi * self.random()
        self.previous_action = torch.zeros(n, ACTION_SIZE, device=dev)
        self.target = self.default_pose.repeat(n, 1)
        self.episode_step = self._random_integers(self.config.episode_steps)
        self._hold_phase()
        self._buffers = {name: getattr(self, name) for name in self._STATE}
        return self.observe()

    def random(self, *columns: int) -> torch.Tensor:
        """Uniform in [0, 1), [N, *columns]."""
        shape = (self.config.num_envs, *columns)
        return self.workers.rows(torch.rand(shape, device=self.device))

    def random_normal(self, columns: int) -> torch.Tensor:
        """Standard normal [N, columns]."""
        shape = (self.config.num_envs, columns)
        return self.workers.rows(torch.randn(shape, device=self.device))

    def _random_integers(self, end: int, *columns: int) -> torch.Tensor:
        """Uniform in 0 .. end - 1, int64 [N, *columns]."""
        shape = (self.config.num_envs, *columns)
        return self.workers.rows(torch.randint(end, shape, device=self.device))

    def detach(self) -> None:
        """Ends the gradient here: called after the backward pass of a window. The values move into
        buffers that keep their address, which is what lets a CUDA graph of one window be replayed
        for the next."""
        for name, buffer in self._buffers.items():
            buffer.copy_(getattr(self, name).detach())
            setattr(self, name, buffer)

    def observe(self) -> torch.Tensor:
        """Noise-free observation [N, 50]; see `corrupt` for what the actor gets."""
        return self._observe(self.state, self.previous_action)

    def corrupt(self, observation: torch.Tensor) -> torch.Tensor:
        """Adds sensor noise and the encoder bias [N, 50]."""
        noise = self.noise_scale * (2 * self.random(observation.shape[1]) - 1)
        return observation + noise + obs.encoder_offset(self.encoder_bias)

    def step(self, action: torch.Tensor) -> StepResult:
        """action [N, 12] in [-1, 1], computed from the observation of the previous step."""
        cfg = self.config
        moving = obs.is_moving(self.command, cfg.gait)
        target = self.default_pose + cfg.action_scale * action
        target = torch.maximum(torch.minimum(target, self.position_upper), self.position_lower)
        # the drives act on what the encoders measure: kp (q* - (q + bias))
        inputs = (
            self.state, self.target - self.encoder_bias, target - self.encoder_bias,
            self.params, self.delay_steps,
        )  # fmt: skip
        state, sensors = simulate(
            self.sim, *inputs, self.substeps, self.cotangent_clip, self.cotangents
        )
        reset_state, reset_params, reset_delay, reset_bias = self._draw_from_pool()
        state, sensors, finite = _replace_nonfinite(state, sensors, reset_state)
        self.nonfinite.keep(~finite, *inputs)
        self.phase = obs.advance_phase(self.phase, moving, cfg.gait, self.control_period)
        reward, terms = compute_reward(
            state, sensors, self.command, self.phase, action, self.previous_action,
            self.default_pose, cfg.reward, cfg.gait,
        )  # fmt: skip

        terminated = self._has_fallen(state) | ~finite
        self.episode_step = self.episode_step + 1
        truncated = (self.episode_step >= cfg.episode_steps) & ~terminated
        done = terminated | truncated
        obs_final = self._observe(state, action)
        alive = (~terminated).to(reward.dtype)
        tracking_error = self._tracking_error(state) * alive[:, None]

        def where_done(new: torch.Tensor, old: torch.Tensor) -> torch.Tensor:
            return torch.where(done.view(-1, *[1] * (old.dim() - 1)), new, old)

        self.state = self._push(where_done(reset_state, state))
        self.params = where_done(reset_params, self.params)
        self.delay_steps = where_done(reset_delay, self.delay_steps)
        self.encoder_bias = where_done(reset_bias, self.encoder_bias)
        self.previous_action = where_done(torch.zeros_like(action), action)
        self.target = where_done(self.default_pose.expand_as(target), target)
        self.phase = where_done(2 * math.pi * self.random(), self.phase)
        self.episode_step = where_done(torch.zeros_like(self.episode_step), self.episode_step)
        resample = self.random() < cfg.commands.resample_probability
        self.command = torch.where((resample | done)[:, None], self.draw_command(), self.command)
        self._hold_phase()
        return StepResult(
            self.observe(),
            reward * alive,
            terminated,
            truncated,
            obs_final,
            sensors.detach(),
            terms.detach(),
            tracking_error,
        )

    def state_dict(self) -> dict[str, torch.Tensor]:
        """Of the robots of all workers: every worker must call it."""
        own = {name: getattr(self, name).detach().clone() for name in self._STATE}
        return {k: v if k == "pool" else self.workers.gather(v) for k, v in own.items()}

    def load_state_dict(self, values: dict[str, torch.Tensor]) -> None:
        self.detach()
        for name, buffer in self._buffers.items():
            buffer.copy_(values[name] if name == "pool" else self.workers.rows(values[name]))

    _STATE = (
        "pool",
        "state",
        "params",
        "delay_steps",
        "encoder_bias",
        "command",
        "phase",
        "previous_action",
        "target",
        "episode_step",
    )

    def _observe(self, state: torch.Tensor, previous_action: torch.Tensor) -> torch.Tensor:
        return obs.build_observation(
            state, self.command, self.phase, previous_action, self.default_pose, self.config.gait
        )

    def _hold_phase(self) -> None:
        """The clock of a standing robot is 0, so that walking always starts with the same foot
        pair."""
        moving = obs.is_moving(self.command, self.config.gait)
        self.phase = torch.where(moving, self.phase, torch.zeros_like(self.phase))

    def _has_fallen(self, state: torch.Tensor) -> torch.Tensor:
        """Bool [N]: base, hip, thigh or knee on the ground, tilted too far, or absurdly fast."""
        cfg = self.config
        touching = body_clearance(self.sim, state).amin(1) < 0
        tilted = obs.projected_gravity(state)[:, 2] > -math.cos(cfg.max_tilt)
        fast = state[:, 7:13].abs().amax(1) > cfg.max_speed
        joints_fast = state[:, 25:37].abs().amax(1) > ABSURD_JOINT_SPEED * cfg.max_speed
        return touching | tilted | fast | joints_fast

    def _tracking_error(self, state: torch.Tensor) -> torch.Tensor:
        linear = (state[:, 7:9] - self.command[:, :2]).norm(dim=1)
        yaw = (state[:, 12] - self.command[:, 2]).abs()
        return torch.stack([linear, yaw], 1).detach()

    def _push(self, state: torch.Tensor) -> torch.Tensor:
        """Adds a rare random velocity kick in the base's x-y plane."""
        cfg = self.config.randomization
        hit = (self.random(1) < cfg.push_probability).to(state.dtype)
        kick = cfg.push_velocity * hit * self.random_normal(2)
        zeros = torch.zeros_like(state)
        return state + torch.cat([zeros[:, :7], kick, zeros[:, 9:]], 1)

    def draw_command(self) -> torch.Tensor:
        """Uniform in the ranges; a share along one axis only, a share exactly zero."""
        cfg = self.config.commands
        command = self.command_lower + (self.command_upper - self.command_lower) * self.random(3)
        kind, axis = self.random(1), self._random_integers(3, 1)
        one_axis = (torch.arange(3, device=self.device) == axis).to(command.dtype)
        single = kind < cfg.zero_fraction + cfg.single_axis_fraction
        command = torch.where(single, command * one_axis, command)
        return torch.where(kind < cfg.zero_fraction, torch.zeros_like(command), command)

    def _draw_from_pool(self) -> tuple[torch.Tensor, ...]:
        """State [N, 37], params [N, 9], delay_steps int32 [N] and encoder_bias [N, 12] (rad) of N
        random rows of the pool."""
        rows = self.pool[self._random_integers(self.pool.shape[0])]
        state, params, delay, bias = rows.split([37, 9, 1, 12], 1)
        return state.contiguous(), params.contiguous(), delay[:, 0].to(torch.int32), bias

    def _draw_reset_pool(self) -> torch.Tensor:
        """Rows of state (37), params (9), delay (1), encoder bias (12). Each row has its own noise
        amplitude, so that clean standing states occur too; the feet start above ground, since a
        foot that starts below would be pushed out with a jerk."""
        m, dev, pose = self.config.reset_pool_size, self.device, self.default_pose

        def uniform(columns: int) -> torch.Tensor:
            return 2 * torch.rand(m, columns, device=dev) - 1

        amplitude = torch.rand(m, 1, device=dev)
        tilt = torch.cat([0.08 * amplitude * uniform(2), torch.zeros(m, 1, device=dev)], 1)
        quaternion = torch.cat([tilt, torch.ones(m, 1, device=dev)], 1)
        posture = [
            torch.zeros(m, 2, device=dev),
            torch.full((m, 1), 1.0 + self.stand_height, device=dev),
            quaternion / quaternion.norm(dim=1, keepdim=True),
        ]
        joints = pose + 0.15 * amplitude * uniform(12)
        at_rest = torch.cat([*posture, torch.zeros(m, 6, device=dev), joints, 0.0 * joints], 1)
        clearance = 0.002 + 0.05 * amplitude * torch.rand(m, 1, device=dev)
        posture[1] = posture[1] + clearance - self._lowest_foot(at_rest)
        base_velocity = 0.4 * amplitude * uniform(6)
        joint_velocity = 0.5 * amplitude * uniform(12)
        state = torch.cat([*posture, base_velocity, joints, joint_velocity], 1)
        bias = self.config.randomization.encoder_bias * uniform(12)
        return torch.cat([state, self._draw_params(m), self._draw_delay(m), bias], 1)

    def _lowest_foot(self, state: torch.Tensor) -> torch.Tensor:
        """Height of the lowest foot above ground [M, 1] of resting robots in the air [M, 37]: one
        substep of free fall (0.1 mm) is how the simulator is asked."""
        n, heights = self.num_envs, []
        params = torch.as_tensor(self.sim.default_params()).to(state)
        delay = torch.zeros(n, dtype=torch.int32, device=self.device)
        for rows in state.split(n):
            padded = torch.cat([rows, rows[:1].expand(n - rows.shape[0], -1)])
            target = padded[:, 13:25].contiguous()
            _, sensors = simulate(self.sim, padded, target, target, params, delay, substeps=1)
            heights.append(sensors[: rows.shape[0], :, 3].amin(1, keepdim=True))
        return torch.cat(heights)

    def _draw_params(self, m: int) -> torch.Tensor:
        cfg, dev = self.config.randomization, self.device

        def uniform(low: float, high: float, columns: int = 1) -> torch.Tensor:
            return low + (high - low) * torch.rand(m, columns, device=dev)

        return torch.cat(
            [
                uniform(*cfg.friction),
                uniform(*cfg.base_mass),
                uniform(-cfg.com_shift, cfg.com_shift, 3),
                uniform(*cfg.kp_scale),
                uniform(*cfg.kd_scale),
                uniform(*cfg.motor_strength),
                torch.full((m, 1), self.kappa, device=dev),
            ],
            1,
        )

    def _draw_delay(self, m: int) -> torch.Tensor:
        low, high = self.config.randomization.delay_steps
        return torch.randint(low, high + 1, (m, 1), device=self.device).to(self.default_pose.dtype)


def _replace_nonfinite(
    state: torch.Tensor, sensors: torch.Tensor, substitute: torch.Tensor
) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    """Swaps in a sane state where the simulator returned NaN or infinity, before anything is
    computed from it: a NaN in a branch that `torch.where` later discards would still turn the
    gradient into NaN."""
    finite = torch.isfinite(state).all(1) & torch.isfinite(sensors).flatten(1).all(1)
    state = torch.where(finite[:, None], state, substitute)
    sensors = torch.where(finite[:, None, None], sensors, torch.zeros_like(sensors))
    return state, sensors, finite
