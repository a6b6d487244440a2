"""The paper's experiments: what they measure with, and that every command runs to its table."""

import csv
import dataclasses

import numpy as np
import pytest
import torch

from diffsim_trainer.experiments import __main__ as command
from diffsim_trainer.experiments import soft_bundle
from diffsim_trainer.experiments.falling_mass import fall_smoothed, fall_stochastic
from diffsim_trainer.experiments.motion_quality import periodicity
from diffsim_trainer.experiments.task import ReturnMeter, build_env, build_shac
from diffsim_trainer.networks import Actor
from diffsim_trainer.observation import encoder_offset
from diffsim_trainer.physics import ContactModel
from policy_controller.bundle import load_bundle

CONFIG = "config/train/anymal_d.yaml"
LARGEST_IMAGE = 200_000  # bytes


@pytest.fixture
def task(small_config):
    return small_config(env={"num_envs": 8, "reset_pool_size": 64, "episode_steps": 20})


@pytest.fixture
def actor():
    return Actor(50, 12, (16, 16))


@pytest.mark.slow
@pytest.mark.parametrize("name", command.EXPERIMENTS)
def test_command_writes_figure_and_numbers(name, robot_path, tmp_path, capsys):
    config = robot_path.parents[2] / CONFIG
    arguments = [name, "--quick", "--seeds", "1"]
    arguments += ["--out", str(tmp_path), "--config", str(config)]
    assert command.main(arguments) == 0
    assert (tmp_path / f"{name}.png").stat().st_size < LARGEST_IMAGE
    with open(tmp_path / f"{name}.csv", newline="") as file:
        rows = list(csv.DictReader(file))
    assert rows and all(value for row in rows for value in row.values())
    assert f"{name}.png" in capsys.readouterr().out


@pytest.mark.slow
def test_soft_bundle_and_its_control_are_bundles_of_different_policies(robot_path, tmp_path):
    config = robot_path.parents[2] / CONFIG
    arguments = ["--out", str(tmp_path), "--config", str(config)]
    assert soft_bundle.main([*arguments, "--robots", "8", "--iterations", "2"]) == 0
    soft, control = (load_bundle(tmp_path / f"{law}_bundle") for law in ("soft", "smoothed"))
    assert soft.training.config_sha256 == control.training.config_sha256
    assert soft.training.samples == control.training.samples > 0
    assert soft.onnx != control.onnx


def test_list_names_every_experiment(capsys):
    assert command.main(["list"]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert [line.split()[0] for line in lines] == list(command.EXPERIMENTS)
    assert all(len(line.split()) > 3 for line in lines)


def test_return_is_the_sum_of_rewards_until_the_fall_or_the_end(task, actor):
    """Against an environment stepped by hand, which a fall or a time-out resets."""
    meter = ReturnMeter(task, ContactModel.HARD, "cpu", actor)
    measured, fallen = meter.measure(actor)
    env = meter.env
    env.load_state_dict(meter.start)
    torch.manual_seed(meter.seed)
    total, running, fell = torch.zeros(8), torch.ones(8), torch.zeros(8)
    with torch.no_grad():
        for _ in range(task.env.episode_steps):
            result = env.step(actor(env.observe()))
            total += running * result.reward
            fell += running * result.terminated
            running *= ~(result.terminated | result.truncated)
    assert not running.any()
    assert measured == pytest.approx(total.mean().item(), rel=1e-6)
    assert fallen == fell.mean().item()


def test_measuring_disturbs_nothing_and_repeats(task, actor):
    meter = ReturnMeter(task, ContactModel.HARD, "cpu", actor)
    torch.manual_seed(7)
    expected = torch.rand(3)
    torch.manual_seed(7)
    first = meter.measure(actor)
    assert torch.equal(torch.rand(3), expected)
    other = Actor(50, 12, (16, 16))
    torch.nn.init.normal_(other.net[-1].bias)
    assert meter.measure(other) != first
    assert meter.measure(actor) == first


def test_soft_contact_keeps_the_control_period_and_the_delays(task):
    soft = build_env(task, ContactModel.SOFT, "cpu")
    assert soft.control_period == pytest.approx(task.sim.control_period)
    assert soft.sim.dt <= 1.0e-3
    longest = task.env.randomization.delay_steps[1] * task.sim.dt
    assert soft.pool[:, 46].max().item() * soft.sim.dt == pytest.approx(longest, abs=1e-3)


def test_soft_contact_is_resolved_by_its_step(task):
    """Explicit damping and friction that the step does not resolve give cotangents of 1e8 to 1e9
    over twelve control steps; resolved ones, like the smoothed law, below 1e3."""
    metrics = build_shac(task, ContactModel.SOFT, "cpu").update()
    assert 1.0 < metrics["cotangent_largest"] < 1.0e4


def test_ppo_environment_tells_time_outs_from_falls(task):
    ppo = pytest.importorskip("diffsim_trainer.experiments.ppo")
    config = dataclasses.replace(task.env, max_tilt=0.05)
    env = build_env(dataclasses.replace(task, env=config), ContactModel.HARD, "cpu")
    adapter = ppo.PpoEnv(env)
    falls = 0
    for _ in range(25):
        before = env.episode_step.clone()
        last = before == config.episode_steps - 1
        _, _, done, extras = adapter.step(3.0 * torch.randn(8, 12))
        out = extras["time_outs"]
        assert torch.equal(out, last & out)  # never before its time
        assert torch.equal(done.bool() & ~out, (env.episode_step == 0) & ~out)
        assert torch.equal(done.bool() | (env.episode_step == before + 1), torch.ones(8).bool())
        falls += int((done.bool() & ~out).sum())
    assert falls > 0


def test_ppo_environment_is_the_task(task):
    """Same seed and actions: observations without noise and rewards of LocomotionEnv itself."""
    ppo = pytest.importorskip("diffsim_trainer.experiments.ppo")
    torch.manual_seed(3)
    plain = build_env(task, ContactModel.HARD, "cpu")
    start = plain.state_dict()
    adapter = ppo.PpoEnv(build_env(task, ContactModel.HARD, "cpu"))
    adapter.env.load_state_dict(start)
    actions = torch.randn(8, 12)
    torch.manual_seed(4)
    with torch.inference_mode():
        observation, reward, _, _ = adapter.step(actions)
    torch.manual_seed(4)
    with torch.no_grad():
        result = plain.step(actions.clamp(-1.0, 1.0))
    assert torch.equal(observation["critic"], result.obs)
    assert torch.equal(reward, result.reward * plain.control_period)
    noise = (observation["actor"] - observation["critic"]).abs()
    largest = plain.noise_scale + encoder_offset(adapter.env.encoder_bias).abs()
    assert 0.0 < noise.max() and (noise <= largest + 1e-6).all()


def test_ppo_learns_with_networks_of_the_same_size(task, actor):
    ppo = pytest.importorskip("diffsim_trainer.experiments.ppo")
    runner = ppo.build_ppo(task, build_env(task, ContactModel.HARD, "cpu"))
    before = ppo.MeanAction(runner)
    runner.learn(1)
    after = ppo.MeanAction(runner)
    observation = torch.randn(5, 50)
    assert after(observation).abs().max() <= 1.0
    assert not torch.equal(before(observation), after(observation))
    shapes = [p.shape for p in runner.alg.get_policy().mlp.parameters()]
    assert shapes == [p.shape for p in actor.net.parameters()]


def test_stochastic_smoothing_approaches_the_analytic():
    start = np.linspace(0.0, 0.1, 60)
    kappa = 300.0
    height, gradient = fall_stochastic(start, 1.702 / kappa)
    analytic = fall_smoothed(start, kappa)
    step = 1e-6
    slope = (fall_smoothed(start + step, kappa) - fall_smoothed(start - step, kappa)) / (2 * step)
    assert np.abs(height - analytic).max() < 1e-3
    assert np.abs(gradient - slope).max() < 0.15


def test_periodicity_is_one_for_a_function_of_the_phase_and_nought_for_noise():
    phase = np.cumsum(np.full(2000, 2 * np.pi * 1.75 * 0.02)) % (2 * np.pi)
    periodic = np.stack([np.sin(phase) + 0.3 * np.cos(3 * phase), np.exp(np.cos(phase))], 1)
    noise = np.random.default_rng(0).normal(size=(2000, 2))
    assert periodicity(periodic, phase) > 1 - 1e-6
    assert periodicity(noise, phase) < 0.02
    half = periodicity(periodic / periodic.std(0) + noise, phase)
    assert half == pytest.approx(0.5, abs=0.03)
