"""Thresholds of the safety guards."""

from __future__ import annotations

from dataclasses import dataclass

from policy_controller.fields import spec


@dataclass(frozen=True)
class SafetyLimits:
    """Thresholds of the guards. Ranges are such that every guard can trip; see
    safety.check_limits."""

    max_state_age: float = spec(
        "number", "age of the robot state", 0.05, unit="s", low=0.005, high=0.1
    )
    max_clock_jump: float = spec(
        "number",
        "step of the control clock, or of stamps against it, in one tick",
        0.1,
        unit="s",
        low=0.01,
        high=0.5,
    )
    max_overruns: int = spec(
        "integer", "consecutive ticks that missed their deadline", 5, unit="ticks", low=1, high=25
    )
    max_quaternion_error: float = spec(
        "number", "difference of the quaternion's norm from 1", 0.01, unit="1", low=1e-4, high=0.1
    )
    max_orientation_jump: float = spec(
        "number",
        "change of gravity's direction in one tick that the angular velocity does not explain",
        0.25,
        unit="rad",
        low=0.02,
        high=1.0,
    )
    max_tilt: float = spec(
        "number",
        "angle between the base's z axis and the vertical",
        0.7,
        unit="rad",
        low=0.1,
        high=1.4,
    )
    max_base_speed: float = spec("number", "linear speed", 3.0, unit="m/s", low=0.5, high=10.0)
    max_base_rate: float = spec("number", "angular speed", 6.0, unit="rad/s", low=1.0, high=20.0)
    velocity_sign_time: float = spec(
        "number", "time of moving against the command", 2.0, unit="s", low=0.5, high=10.0
    )
    velocity_sign_speed: float = spec(
        "number", "speed against the command", 0.05, unit="m/s", low=0.01, high=0.5
    )
    joint_position_margin: float = spec(
        "number", "distance outside of the joint's limits", 0.1, unit="rad", low=0.0, high=0.5
    )
    joint_velocity_ratio: float = spec(
        "number", "share of the drive's velocity limit", 1.2, unit="1", low=0.5, high=1.5
    )
    joint_torque_ratio: float = spec(
        "number", "share of the drive's torque limit", 1.2, unit="1", low=0.5, high=1.5
    )
    torque_saturation_ratio: float = spec(
        "number",
        "share of the drive's torque limit that counts as saturated",
        0.95,
        unit="1",
        low=0.5,
        high=0.99,
    )
    torque_saturation_time: float = spec(
        "number", "time one drive may be saturated", 0.5, unit="s", low=0.02, high=5.0
    )
    stuck_target_range: float = spec(
        "number",
        "movement of a joint's target that must show in its reading",
        0.2,
        unit="rad",
        low=0.02,
        high=0.5,
    )
    command_timeout: float = spec(
        "number", "age of the velocity command", 0.2, unit="s", low=0.05, high=2.0
    )
    max_action_jump: float = spec(
        "number", "change of one action in one tick", 1.6, unit="1", low=0.05, high=20.0
    )
    oscillation_amplitude: float = spec(
        "number", "change of one action that counts as a swing", 0.4, unit="1", low=0.05, high=2.0
    )
    oscillation_ticks: int = spec(
        "integer", "consecutive ticks of alternating swings", 10, unit="ticks", low=4, high=100
    )
