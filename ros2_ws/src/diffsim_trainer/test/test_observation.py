"""Observation order, scales and frames, and the gait clock, against values written out by hand."""

import math

import numpy as np
import pytest
import torch

from diffsim_trainer import observation as obs
from diffsim_trainer.config import GaitConfig, NoiseConfig
from policy_controller.observation import STANDARD_OBSERVATION, GaitClock, ObservationBuilder
from policy_controller.state import RobotState

GAIT = GaitConfig(frequency=1.75, stand_command_threshold=0.05)


def rolled(angle: float) -> torch.Tensor:
    """One state [1, 37] rolled about the base x axis."""
    state = torch.zeros(1, 37)
    state[0, 3], state[0, 6] = math.sin(angle / 2), math.cos(angle / 2)
    return state


def test_gravity_points_down_when_upright_and_to_the_right_when_rolled_right():
    """Rolling by +90 degrees about x turns the base's right side (-y) towards the ground."""
    torch.testing.assert_close(obs.projected_gravity(rolled(0.0)), torch.tensor([[0.0, 0.0, -1.0]]))
    torch.testing.assert_close(
        obs.projected_gravity(rolled(math.pi / 2)),
        torch.tensor([[0.0, -1.0, 0.0]]),
        atol=1e-6,
        rtol=0,
    )


def test_terms_are_in_the_order_of_the_bundle():
    state = rolled(0.0)
    state[0, 7:13] = torch.arange(1.0, 7.0)
    state[0, 13:25] = torch.arange(12.0)
    state[0, 25:37] = 10 * torch.arange(12.0)
    command, phase = torch.tensor([[0.1, 0.2, 0.3]]), torch.tensor([0.5])
    action, pose = torch.linspace(-1, 1, 12)[None], torch.full((12,), 0.5)
    out = obs.build_observation(state, command, phase, action, pose, GAIT)[0]
    expected = torch.cat(
        [
            torch.arange(1.0, 7.0), torch.tensor([0.0, 0.0, -1.0]), command[0],
            torch.arange(12.0) - 0.5, torch.arange(12.0), action[0],
            torch.tensor([math.sin(0.5), math.cos(0.5)]),
        ]
    )  # fmt: skip
    torch.testing.assert_close(out, expected)
    assert out.shape == (obs.OBSERVATION_SIZE,) == (50,)


def test_clock_is_zero_while_standing():
    phase = torch.tensor([1.0, 1.0])
    command = torch.tensor([[0.03, 0.0, 0.0], [0.0, 0.0, 0.06]])
    moving = obs.is_moving(command, GAIT)
    assert moving.tolist() == [False, True]
    clock = obs.gait_clock(phase, moving)
    torch.testing.assert_close(clock, torch.tensor([[0.0, 0.0], [math.sin(1.0), math.cos(1.0)]]))


def test_phase_completes_one_cycle_per_gait_period_and_is_held_while_standing():
    phase, moving = torch.zeros(1), torch.tensor([True])
    for _ in range(200):  # 4 s at 1.75 Hz: seven cycles
        phase = obs.advance_phase(phase, moving, GAIT, 0.02)
    assert math.sin(phase.item()) == pytest.approx(0.0, abs=1e-3)
    assert math.cos(phase.item()) == pytest.approx(1.0, abs=1e-3)
    assert obs.advance_phase(torch.tensor([2.0]), torch.tensor([False]), GAIT, 0.02).item() == 0.0


def test_noise_is_scaled_like_its_term_and_absent_on_what_is_known():
    scale = obs.noise_scale(NoiseConfig(joint_velocity=0.4, base_linear_velocity=0.05))
    assert scale[:3].tolist() == pytest.approx([0.05] * 3)
    assert scale[9:12].tolist() == [0.0] * 3  # command
    assert scale[24:36].tolist() == pytest.approx([0.04] * 12)  # 0.1 x 0.4 rad/s
    assert scale[36:].tolist() == [0.0] * 14  # previous action, clock


def test_equals_the_numpy_observation_of_the_robot():
    """The same 1000 states through training code and robot code, standing and walking: 1e-6."""
    n = 1000
    state = torch.randn(n, 37)
    state[:, 3:7] /= state[:, 3:7].norm(dim=1, keepdim=True)
    command, action = torch.randn(n, 3), torch.rand(n, 12) * 2 - 1
    command[::5] = 0.0
    phase, pose = 2 * math.pi * torch.rand(n), torch.linspace(-1, 1, 12)
    ours = obs.build_observation(state, command, phase, action, pose, GAIT).numpy()
    clock = GaitClock(GAIT.frequency, 0.02, GAIT.stand_command_threshold)
    builder = ObservationBuilder(STANDARD_OBSERVATION, pose.numpy())
    for i in range(n):
        velocity = command[i].numpy()
        theirs = builder.build(
            RobotState.from_packed(state[i].numpy()),
            velocity,
            clock.signal(float(phase[i]), velocity),
            action[i].numpy(),
        )
        np.testing.assert_allclose(ours[i], theirs, rtol=1e-6, atol=1e-6)


def test_phase_advances_like_the_clock_of_the_robot():
    clock = GaitClock(GAIT.frequency, 0.02, GAIT.stand_command_threshold)
    command, theirs, ours = np.array([0.5, 0.0, 0.0]), 0.0, torch.zeros(1)
    for _ in range(500):
        theirs = clock.advance(theirs, command)
        ours = obs.advance_phase(ours, torch.tensor([True]), GAIT, 0.02)
    difference = (ours.item() - theirs + math.pi) % (2 * math.pi) - math.pi
    assert difference == pytest.approx(0.0, abs=1e-3)
