"""Noise of the robot's state estimator: white, Gaussian, from a seed; and constant biases."""

from __future__ import annotations

from dataclasses import astuple, dataclass

import numpy as np

from .kinematics import multiply_quaternions, small_rotation
from .robot_sample import (
    ANGULAR_VELOCITY,
    JOINT_POSITION,
    JOINT_VELOCITY,
    LINEAR_VELOCITY,
    ORIENTATION,
    RobotSample,
)


@dataclass(frozen=True)
class NoiseLevels:
    """Standard deviations and biases; 0 is none."""

    orientation: float = 0.0  # rad, about each axis of the base
    linear_velocity: float = 0.0  # m/s
    angular_velocity: float = 0.0  # rad/s
    joint_position: float = 0.0  # rad
    joint_velocity: float = 0.0  # rad/s
    pitch_bias: float = 0.0  # rad, about the y axis of the base
    velocity_bias: float = 0.0  # m/s, forward


class EstimatorNoise:
    """Adds noise to samples; equal seeds give equal sequences."""

    def __init__(self, levels: NoiseLevels, seed: int) -> None:
        self._levels = levels
        self._silent = not any(astuple(levels))
        self._random = np.random.default_rng(seed)
        self._turn_bias = np.array((0.0, levels.pitch_bias, 0.0))

    def add(self, sample: RobotSample) -> None:
        """Add noise to ``sample``, in place."""
        if self._silent:
            return
        levels, state = self._levels, sample.state
        noise = self._random.standard_normal(33)
        turn = small_rotation(noise[0:3] * levels.orientation + self._turn_bias)
        state[ORIENTATION] = multiply_quaternions(state[ORIENTATION], turn)
        state[LINEAR_VELOCITY] += noise[3:6] * levels.linear_velocity
        state[LINEAR_VELOCITY][0] += levels.velocity_bias
        state[ANGULAR_VELOCITY] += noise[6:9] * levels.angular_velocity
        state[JOINT_POSITION] += noise[9:21] * levels.joint_position
        state[JOINT_VELOCITY] += noise[21:33] * levels.joint_velocity
