"""The task: gradient of the whole step chain, resets, ends, randomisation, commands."""

import dataclasses
import math

import pytest
import torch

from diffsim_trainer.env import LocomotionEnv
from diffsim_trainer.observation import is_moving
from diffsim_trainer.physics import ContactModel, Simulator, load_robot

QUIET = {
    "push_probability": 0.0, "friction": [0.8, 0.8], "base_mass": [0.0, 0.0], "com_shift": 0.0,
    "kp_scale": [1.0, 1.0], "kd_scale": [1.0, 1.0], "motor_strength": [1.0, 1.0],
    "encoder_bias": 0.0,
}  # fmt: skip


@pytest.fixture
def make_env(small_config):
    """Function (num_envs, dtype, keys of EnvConfig) -> environment."""

    def make(num_envs: int = 4, dtype: str = "float32", **env) -> LocomotionEnv:
        config = small_config(env={"num_envs": num_envs, "reset_pool_size": 64} | env)
        robot = load_robot(config.robot)
        sim = Simulator(
            robot, num_envs, dtype=dtype, dt=config.sim.dt, contact=ContactModel.SMOOTHED
        )
        return LocomotionEnv(sim, robot, config.env, config.sim, "cpu")

    return make


def rollout_return(env: LocomotionEnv, start: dict, actions: torch.Tensor) -> torch.Tensor:
    """Sum of rewards and of the last observation over the actions [T, N, 12], from a saved state
    and random generator."""
    env.load_state_dict(start["env"])
    torch.set_rng_state(start["rng"])
    total = 0.0
    for action in actions:
        result = env.step(action)
        total = total + result.reward.sum()
    return total + result.obs_final.sum()


def test_gradient_of_the_step_chain_equals_central_differences(double, make_env):
    """Three control steps with delays, randomised robots and pushes: d(return)/d(actions), float64.
    Without the slip term, whose contact gate is cut from the gradient on purpose."""
    reward, pushes = {"foot_slip": 0.0}, {"push_probability": 0.3}
    env = make_env(3, "float64", randomization=pushes, reward=reward)
    start = {"env": env.state_dict(), "rng": torch.get_rng_state()}
    actions = (0.3 * torch.randn(3, 3, 12)).requires_grad_()
    rollout_return(env, start, actions).backward()
    eps = 1e-6
    for seed in range(4):
        direction = torch.randn(actions.shape, generator=torch.Generator().manual_seed(seed))
        with torch.no_grad():
            up = rollout_return(env, start, actions + eps * direction)
            down = rollout_return(env, start, actions - eps * direction)
        expected = (up - down).item() / (2 * eps)
        assert (actions.grad * direction).sum().item() == pytest.approx(expected, rel=1e-4)


def test_no_gradient_crosses_a_reset(make_env):
    """Robot 0 runs out of time at its first step: later rewards do not depend on that action, for
    robot 1 they do."""
    env = make_env(2, randomization=QUIET)
    env.episode_step.copy_(torch.tensor([env.config.episode_steps - 1, 0]))
    first = torch.zeros(2, 12, requires_grad=True)
    result = env.step(first)
    assert result.truncated.tolist() == [True, False]
    assert not result.terminated.any()
    later = env.step(torch.zeros(2, 12)).reward.sum()
    (gradient,) = torch.autograd.grad(later, first)
    assert gradient[0].abs().max() == 0
    assert gradient[1].abs().max() > 0


def test_a_fallen_robot_is_terminated_and_starts_anew(make_env):
    env = make_env(3, randomization=QUIET)
    env.episode_step.zero_()
    env.state[0, 2] = 0.1  # knees and base in the ground
    env.state[1, 3:7] = torch.tensor([1.0, 0.0, 0.0, 0.0])  # on its back
    result = env.step(torch.zeros(3, 12))
    assert result.terminated.tolist() == [True, True, False]
    assert not result.truncated.any()
    assert result.reward[:2].abs().max() == 0
    assert (env.state[:2, 2] > 0.5).all()
    assert env.episode_step.tolist() == [0, 0, 1]
    assert env.previous_action[:2].abs().max() == 0
    # obs_final still shows the fall: gravity is not (0, 0, -1) for the robot on its back.
    assert result.obs_final[1, 8] > 0.5
    assert result.obs[1, 8] < -0.9


def test_a_nan_state_ends_the_episode_and_keeps_every_gradient_finite(make_env):
    env = make_env(2, randomization=QUIET)
    env.state[0, 20] = float("nan")
    action = torch.zeros(2, 12, requires_grad=True)
    result = env.step(action)
    assert result.terminated.tolist() == [True, False]
    (result.reward.sum() + result.obs_final.sum() + result.obs.sum()).backward()
    assert torch.isfinite(action.grad).all()
    assert action.grad[1].abs().max() > 0


def test_first_target_after_a_reset_is_delayed_like_any_other(make_env):
    """With the longest delay of 2 of 4 substeps the first action still acts in the first control
    step, from the third substep on."""
    env = make_env(2, randomization=QUIET | {"delay_steps": [2, 2]})
    env.reset()
    state, target = env.state.clone(), env.target.clone()
    torch.testing.assert_close(target, env.default_pose.expand(2, 12))
    moved = env.step(torch.full((2, 12), 0.5)).obs_final[:, 24:36]
    env.load_state_dict(env.state_dict() | {"state": state, "target": target})
    still = env.step(torch.zeros(2, 12)).obs_final[:, 24:36]
    assert ((moved - still).abs() > 1e-3).all()


def test_resets_start_with_the_feet_above_ground(make_env):
    """After one substep of 5 ms a foot can have fallen by no more than its speed allows (2 m/s): 1
    cm."""
    env = make_env(64, reset_pool_size=512)
    env.state = env.pool[:64, :37].contiguous()
    import warp as wp

    sensors = torch.zeros(64, 4, 10)
    arrays = [
        wp.from_torch(x) for x in (env.state, env.target, env.target, env.params, env.delay_steps)
    ]
    env.sim.step(*arrays, 0, wp.from_torch(torch.zeros(64, 37)), wp.from_torch(sensors))
    assert sensors[:, :, 3].min() > -0.01


def test_commands_are_a_mixture_of_zero_single_axis_and_general(make_env):
    env = make_env(4000)
    command = env.draw_command()
    nonzero = (command != 0).sum(1)
    shares = [(nonzero == k).double().mean().item() for k in (0, 1, 3)]
    c = env.config.commands
    expected = [
        c.zero_fraction,
        c.single_axis_fraction,
        1 - c.zero_fraction - c.single_axis_fraction,
    ]
    assert shares == pytest.approx(expected, abs=0.03)
    assert (command <= env.command_upper).all() and (command >= env.command_lower).all()


def test_a_stop_command_resets_the_clock_and_shows_in_the_next_observation(make_env):
    env = make_env(1, commands={"resample_probability": 0.0}, randomization=QUIET)
    env.episode_step.zero_()
    env.command.copy_(torch.tensor([[0.5, 0.0, 0.0]]))
    env.phase.zero_()
    walking = env.step(torch.zeros(1, 12)).obs[0, 48:]
    assert walking[0] == pytest.approx(math.sin(2 * math.pi * 1.75 * 0.02), abs=1e-6)
    env.command.zero_()
    env._hold_phase()
    assert env.observe()[0, 48:].tolist() == [0.0, 0.0]
    env.step(torch.zeros(1, 12))
    env.command.copy_(torch.tensor([[0.5, 0.0, 0.0]]))
    assert env.observe()[0, 48:].tolist() == [0.0, 1.0]


def test_randomised_parameters_stay_in_their_ranges(make_env):
    env = make_env(2, reset_pool_size=1000)
    params, r = env.pool[:, 37:46], env.config.randomization
    for column, (low, high) in {
        0: r.friction,
        1: r.base_mass,
        2: (-r.com_shift, r.com_shift),
        5: r.kp_scale,
        7: r.motor_strength,
    }.items():
        assert low <= params[:, column].min() < low + 0.1 * (high - low)
        assert high - 0.1 * (high - low) < params[:, column].max() <= high
    assert set(env.pool[:, 46].tolist()) == {0.0, 1.0, 2.0}


def test_noise_reaches_what_is_measured_and_nothing_else(make_env):
    env = make_env(100, randomization=QUIET)
    clean = env.observe()
    difference = (env.corrupt(clean) - clean).abs()
    assert (difference.amax(0) <= env.noise_scale + 1e-6).all()
    assert difference[:, 9:12].max() == 0
    assert difference[:, 36:].max() == 0
    assert (difference[:, :9].amax(0) > 0.5 * env.noise_scale[:9]).all()


def test_encoder_bias_shifts_what_drives_and_actor_measure(make_env):
    """A robot whose encoders read b too much and that is told q* + b is the robot without bias:
    kp (q* + b - (q + b)) = kp (q* - q). The actor sees q + b, the critic q."""
    env = make_env(2, randomization=QUIET | {"delay_steps": [0, 0]})
    bias = 0.02 * torch.randn(1, 12)
    env.state[:] = env.state[0]
    env.command.zero_()
    env.encoder_bias = torch.cat([torch.zeros(1, 12), bias])
    action = torch.cat([torch.zeros(1, 12), bias / env.config.action_scale])
    result = env.step(action)
    torch.testing.assert_close(result.obs_final[1, :36], result.obs_final[0, :36])
    env.noise_scale.zero_()
    seen = env.corrupt(result.obs_final) - result.obs_final
    assert seen[0].abs().max() == 0
    torch.testing.assert_close(seen[1, 12:24], bias[0], atol=1e-6, rtol=0)
    assert seen[1, :12].abs().max() == seen[1, 24:].abs().max() == 0


def test_encoder_bias_is_drawn_anew_at_a_reset(make_env):
    env = make_env(200, reset_pool_size=1000)
    width = env.config.randomization.encoder_bias
    before = env.encoder_bias.clone()
    assert 0.9 * width < before.abs().max() <= width
    env.episode_step[:100] = env.config.episode_steps - 1
    env.episode_step[100:] = 0
    env.step(torch.zeros(200, 12))
    changed = (env.encoder_bias != before).all(1)
    assert changed[:100].float().mean() > 0.98 and not changed[100:].any()


def test_state_dict_restores_the_same_future(make_env):
    env = make_env(3)
    start, rng = env.state_dict(), torch.get_rng_state()
    actions = 0.2 * torch.randn(4, 3, 12)
    first = [env.step(a).obs for a in actions]
    env.load_state_dict(start)
    torch.set_rng_state(rng)
    torch.randn(4, 3, 12)
    second = [env.step(a).obs for a in actions]
    for a, b in zip(first, second, strict=True):
        assert torch.equal(a, b)


def test_standing_and_walking_both_occur_within_episodes(make_env):
    """Commands change often enough that a robot sees start and stop: on average every 1/p steps."""
    env = make_env(256, reset_pool_size=64)
    changes = 0
    with torch.no_grad():
        for _ in range(20):
            before = is_moving(env.command, env.config.gait)
            env.step(torch.zeros(256, 12))
            changes += (before != is_moving(env.command, env.config.gait)).sum().item()
    c = env.config.commands
    expected = 20 * 256 * c.resample_probability * 2 * c.zero_fraction * (1 - c.zero_fraction)
    assert changes > 0.3 * expected


def test_config_is_frozen(make_env):
    env = make_env(1)
    with pytest.raises(dataclasses.FrozenInstanceError):
        env.config.num_envs = 3
