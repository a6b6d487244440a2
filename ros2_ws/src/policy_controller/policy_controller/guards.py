"""The guards: each decides from one tick's sample whether something is wrong, and nothing else.

guard.py says what a guard is; importing this module registers all of them. Comparisons are written
so that NaN trips no guard but those for non-finite numbers.
"""

from __future__ import annotations

import math

import numpy as np

from policy_controller.guard import guard
from policy_controller.limits import SafetyLimits
from policy_controller.sample import Outcome, Reason, Sample, Stage
from policy_controller.state import JOINT_NAMES, ROBOT_OK


def _name_joints(bad: np.ndarray, values: np.ndarray, unit: str) -> str | None:
    """Joint names and values where `bad` is True; None if it is nowhere."""
    if not bad.any():
        return None
    return ", ".join(f"{JOINT_NAMES[i]} {values[i]:.4g} {unit}" for i in np.flatnonzero(bad))


# Input


@guard(
    Reason.STATE_STALE,
    Stage.INPUT,
    Outcome.DAMPING,
    "No robot state yet, or the last one is too old or from the future",
    "max_state_age",
)
def check_state_age(sample: Sample, limits: SafetyLimits) -> str | None:
    if sample.state is None:
        return "no robot state received"
    if abs(sample.state_age) > limits.max_state_age:
        return f"robot state is {sample.state_age:.3f} s old, limit {limits.max_state_age:g} s"
    return None


@guard(
    Reason.STATE_MALFORMED,
    Stage.INPUT,
    Outcome.DAMPING,
    "The newest message of the robot's state cannot be used: a joint is missing, say",
)
def check_state_message(sample: Sample, limits: SafetyLimits) -> str | None:
    return sample.health.state_error or None


@guard(
    Reason.STATE_NONFINITE,
    Stage.INPUT,
    Outcome.DAMPING,
    "A number of the robot state is NaN or infinite",
    needs="state",
)
def check_state_finite(sample: Sample, limits: SafetyLimits) -> str | None:
    state = sample.state
    found = [
        name
        for name in (
            "base_position",
            "base_orientation",
            "base_linear_velocity",
            "base_angular_velocity",
        )
        if not np.isfinite(getattr(state, name)).all()
    ]
    for name in ("joint_position", "joint_velocity", "joint_torque"):
        bad = ~np.isfinite(getattr(state, name))
        if bad.any():
            found.append(f"{name} of {', '.join(JOINT_NAMES[i] for i in np.flatnonzero(bad))}")
    return f"not finite: {'; '.join(found)}" if found else None


@guard(
    Reason.CLOCK_JUMP,
    Stage.INPUT,
    Outcome.DAMPING,
    "The control clock stood still, jumped or ran backwards, or the state's stamps jumped",
    "max_clock_jump",
)
def check_clock(sample: Sample, limits: SafetyLimits) -> str | None:
    step = sample.clock_step
    if step is not None and not 0.0 < step <= limits.max_clock_jump:
        return f"control clock stepped by {step:.3f} s, limit {limits.max_clock_jump:g} s"
    if sample.state is None or sample.previous is None:
        return None
    stamps = (sample.state.stamp_ns - sample.previous.stamp_ns) / 1e9
    arrivals = (sample.state.time_ns - sample.previous.time_ns) / 1e9
    if abs(stamps - arrivals) > limits.max_clock_jump:
        return f"state stamps stepped by {stamps:.3f} s while {arrivals:.3f} s passed"
    return None


@guard(
    Reason.OVERRUN,
    Stage.INPUT,
    Outcome.DAMPING,
    "Too many control ticks in a row ended after their deadline",
    "max_overruns",
)
def check_overruns(sample: Sample, limits: SafetyLimits) -> str | None:
    count = sample.health.consecutive_overruns
    if count >= limits.max_overruns:
        return f"{count} ticks in a row missed their deadline, limit {limits.max_overruns}"
    return None


@guard(
    Reason.ROBOT_ERROR,
    Stage.INPUT,
    Outcome.DAMPING,
    "The robot reports an error, or that it is not ready (AnymalState.state)",
    needs="state",
)
def check_robot_ok(sample: Sample, limits: SafetyLimits) -> str | None:
    code = sample.state.robot_ok
    if code == ROBOT_OK:
        return None
    return f"robot reports state {code} ({'error' if code < 0 else 'not ready'}), only 0 is OK"


@guard(
    Reason.SECOND_PUBLISHER,
    Stage.INPUT,
    Outcome.DAMPING,
    "Somebody else publishes joint commands, or two publish the robot's state",
)
def check_sole_publisher(sample: Sample, limits: SafetyLimits) -> str | None:
    for count, what in (
        (sample.health.command_publishers, "joint commands"),
        (sample.health.state_publishers, "the robot's state"),
    ):
        if count > 1:
            return f"{count} publishers of {what}, only 1 is allowed; stop the others"
    return None


@guard(
    Reason.QUATERNION_NORM,
    Stage.INPUT,
    Outcome.DAMPING,
    "The orientation is no unit quaternion",
    "max_quaternion_error",
    needs="state",
)
def check_quaternion(sample: Sample, limits: SafetyLimits) -> str | None:
    norm = math.hypot(*sample.state.base_orientation)
    if abs(norm - 1.0) > limits.max_quaternion_error:
        return f"norm of the orientation is {norm:.4g}, allowed 1 ± {limits.max_quaternion_error:g}"
    return None


@guard(
    Reason.ORIENTATION_JUMP,
    Stage.INPUT,
    Outcome.DAMPING,
    "Gravity's direction changed otherwise than the angular velocity says: the estimator jumped or "
    "frames or the quaternion's order are mixed up",
    "max_orientation_jump",
    needs="previous_gravity",
)
def check_orientation_jump(sample: Sample, limits: SafetyLimits) -> str | None:
    dt = (sample.state.time_ns - sample.previous.time_ns) / 1e9
    gx, gy, gz = sample.previous_gravity
    wx, wy, wz = sample.state.base_angular_velocity
    # dg/dt = g x w in the base frame; written out, np.cross costs a tenth of the tick
    predicted = (
        gx + dt * (gy * wz - gz * wy),
        gy + dt * (gz * wx - gx * wz),
        gz + dt * (gx * wy - gy * wx),
    )
    error = math.dist(sample.gravity, predicted)
    if error > limits.max_orientation_jump:
        return f"gravity moved {error:.3f} rad off, limit {limits.max_orientation_jump:g} rad"
    return None


@guard(
    Reason.TILT,
    Stage.INPUT,
    Outcome.DAMPING,
    "The base is tilted too far",
    "max_tilt",
    needs="state",
)
def check_tilt(sample: Sample, limits: SafetyLimits) -> str | None:
    if sample.tilt > limits.max_tilt:
        return f"tilt {sample.tilt:.3f} rad, limit {limits.max_tilt:g} rad"
    return None


@guard(
    Reason.BASE_VELOCITY,
    Stage.INPUT,
    Outcome.DAMPING,
    "The estimated velocity of the base is not plausible",
    "max_base_speed",
    "max_base_rate",
    needs="state",
)
def check_base_velocity(sample: Sample, limits: SafetyLimits) -> str | None:
    speed = math.hypot(*sample.state.base_linear_velocity)
    rate = math.hypot(*sample.state.base_angular_velocity)
    if speed > limits.max_base_speed:
        return f"base moves at {speed:.3g} m/s, limit {limits.max_base_speed:g} m/s"
    if rate > limits.max_base_rate:
        return f"base turns at {rate:.3g} rad/s, limit {limits.max_base_rate:g} rad/s"
    return None


@guard(
    Reason.JOINT_POSITION,
    Stage.INPUT,
    Outcome.DAMPING,
    "A joint is outside of its limits",
    "joint_position_margin",
    needs="state",
)
def check_joint_position(sample: Sample, limits: SafetyLimits) -> str | None:
    position, margin = sample.state.joint_position, limits.joint_position_margin
    lower = np.subtract(sample.limits.position_lower, margin)
    upper = np.add(sample.limits.position_upper, margin)
    outside = (position < lower) | (position > upper)
    if not outside.any():
        return None
    return ", ".join(
        f"{JOINT_NAMES[i]} {position[i]:.4g} rad, allowed {lower[i]:.4g} to {upper[i]:.4g}"
        for i in np.flatnonzero(outside)
    )


@guard(
    Reason.JOINT_VELOCITY,
    Stage.INPUT,
    Outcome.DAMPING,
    "A joint is too fast",
    "joint_velocity_ratio",
    needs="state",
)
def check_joint_velocity(sample: Sample, limits: SafetyLimits) -> str | None:
    velocity = sample.state.joint_velocity
    bound = limits.joint_velocity_ratio * sample.limits.velocity
    return _name_joints(np.abs(velocity) > bound, velocity, "rad/s")


@guard(
    Reason.JOINT_TORQUE,
    Stage.INPUT,
    Outcome.DAMPING,
    "A measured torque is above what the drive can give",
    "joint_torque_ratio",
    needs="state",
)
def check_joint_torque(sample: Sample, limits: SafetyLimits) -> str | None:
    torque = sample.state.joint_torque
    return _name_joints(
        np.abs(torque) > limits.joint_torque_ratio * sample.limits.torque, torque, "N m"
    )


@guard(
    Reason.TORQUE_SATURATED,
    Stage.INPUT,
    Outcome.DAMPING,
    "A drive gives its greatest torque for too long: a leg is stuck or overloaded",
    "torque_saturation_ratio",
    "torque_saturation_time",
    needs="state",
)
class TorqueSaturation:
    def __init__(self) -> None:
        self._since = np.zeros(len(JOINT_NAMES))

    def __call__(self, sample: Sample, limits: SafetyLimits) -> str | None:
        torque = np.abs(sample.state.joint_torque)
        saturated = torque > limits.torque_saturation_ratio * sample.limits.torque
        self._since = np.where(saturated, self._since + sample.control_period, 0.0)
        return _name_joints(self._since > limits.torque_saturation_time, self._since, "s saturated")


# Velocity command


@guard(
    Reason.COMMAND_NONFINITE,
    Stage.COMMAND,
    Outcome.ZERO_COMMAND,
    "A number of the velocity command is NaN or infinite",
    needs="command",
)
def check_command_finite(sample: Sample, limits: SafetyLimits) -> str | None:
    command = sample.command
    values = (command.linear_x, command.linear_y, command.yaw_rate)
    return None if np.isfinite(values).all() else f"velocity command is {values}"


@guard(
    Reason.COMMAND_STALE,
    Stage.COMMAND,
    Outcome.ZERO_COMMAND,
    "No velocity command yet, or the last one is too old",
    "command_timeout",
)
def check_command_age(sample: Sample, limits: SafetyLimits) -> str | None:
    if sample.command is None:
        return "no velocity command received"
    if sample.command_age > limits.command_timeout:
        age, limit = sample.command_age, limits.command_timeout
        return f"velocity command is {age:.2f} s old, limit {limit:g} s"
    return None


@guard(
    Reason.COMMAND_NOT_REARMED,
    Stage.COMMAND,
    Outcome.ZERO_COMMAND,
    "Velocity commands stopped coming while walking; a zero command is needed before others count",
    "command_timeout",
    needs="command",
)
class CommandRearm:
    def __init__(self) -> None:
        self._lost = False

    def __call__(self, sample: Sample, limits: SafetyLimits) -> str | None:
        if sample.command_age > limits.command_timeout:
            self._lost = True
        elif not sample.command_moves:
            self._lost = False
        return "send a zero velocity command first" if self._lost else None


@guard(
    Reason.COMMAND_RANGE,
    Stage.COMMAND,
    Outcome.LIMIT,
    "The velocity command is outside of the range trained for (bundle)",
    needs="command",
)
def check_command_range(sample: Sample, limits: SafetyLimits) -> str | None:
    command = sample.command
    values = np.array((command.linear_x, command.linear_y, command.yaw_rate))
    outside = (values < sample.command_range[0]) | (values > sample.command_range[1])
    return f"velocity command {values.tolist()} is cut to the range" if outside.any() else None


# Policy and target


@guard(
    Reason.OBSERVATION_NONFINITE,
    Stage.OBSERVATION,
    Outcome.DAMPING,
    "A number of the observation is NaN or infinite",
    needs="observation",
)
def check_observation_finite(sample: Sample, limits: SafetyLimits) -> str | None:
    bad = np.flatnonzero(~np.isfinite(sample.observation))
    return f"observation is not finite at {bad.tolist()}" if bad.size else None


@guard(
    Reason.VELOCITY_SIGN,
    Stage.OBSERVATION,
    Outcome.DAMPING,
    "The base moves against a lasting command: a velocity has the wrong sign or frame",
    "velocity_sign_time",
    "velocity_sign_speed",
    needs="velocity_command",
)
class VelocitySign:
    """Time for which the velocity along the command was below -velocity_sign_speed."""

    MIN_COMMAND = 0.2  # m/s; below it the direction of motion says little

    def __init__(self) -> None:
        self._since = 0.0

    def __call__(self, sample: Sample, limits: SafetyLimits) -> str | None:
        wanted, found = sample.velocity_command[:2], sample.state.base_linear_velocity[:2]
        speed = math.hypot(*wanted)
        along = float(wanted @ found) / speed if speed > self.MIN_COMMAND else 0.0
        against = along < -limits.velocity_sign_speed
        self._since = self._since + sample.control_period if against else 0.0
        if self._since > limits.velocity_sign_time:
            return f"base moves at {along:.2f} m/s along the command for {self._since:.2f} s"
        return None


@guard(
    Reason.ACTION_NONFINITE,
    Stage.ACTION,
    Outcome.DAMPING,
    "A number of the policy's output is NaN or infinite",
    needs="action",
)
def check_action_finite(sample: Sample, limits: SafetyLimits) -> str | None:
    return _name_joints(~np.isfinite(sample.action), sample.action, "(action)")


@guard(
    Reason.ACTION_CLIPPED,
    Stage.ACTION,
    Outcome.LIMIT,
    "The policy's output is outside of its clip range (bundle)",
    needs="action",
)
def check_action_clip(sample: Sample, limits: SafetyLimits) -> str | None:
    return _name_joints(np.abs(sample.action) > sample.action_clip, sample.action, "(action)")


@guard(
    Reason.ACTION_JUMP,
    Stage.ACTION,
    Outcome.DAMPING,
    "The policy's output changed too much in one tick",
    "max_action_jump",
    needs="action",
)
def check_action_jump(sample: Sample, limits: SafetyLimits) -> str | None:
    jump = sample.action - sample.previous_action
    return _name_joints(np.abs(jump) > limits.max_action_jump, jump, "(action change)")


@guard(
    Reason.ACTION_OSCILLATION,
    Stage.ACTION,
    Outcome.DAMPING,
    "An action swings up and down at every tick",
    "oscillation_amplitude",
    "oscillation_ticks",
    needs="action",
)
class ActionOscillation:
    def __init__(self) -> None:
        self._count = np.zeros(len(JOINT_NAMES), dtype=int)
        self._last = np.zeros(len(JOINT_NAMES))

    def __call__(self, sample: Sample, limits: SafetyLimits) -> str | None:
        change = sample.action - sample.previous_action
        swing = np.abs(change) > limits.oscillation_amplitude
        turned = swing & (change * self._last < 0.0)
        self._count = np.where(turned, self._count + 1, 0)
        self._last = np.where(swing, change, 0.0)
        return _name_joints(self._count >= limits.oscillation_ticks, self._count, "swings")


@guard(
    Reason.TARGET_POSITION,
    Stage.TARGET,
    Outcome.LIMIT,
    "A joint target is outside of the joint's limits (bundle)",
    needs="target",
)
def check_target_position(sample: Sample, limits: SafetyLimits) -> str | None:
    target = sample.target
    outside = (target < sample.limits.position_lower) | (target > sample.limits.position_upper)
    return _name_joints(outside, target, "rad")


@guard(
    Reason.JOINT_STUCK,
    Stage.TARGET,
    Outcome.DAMPING,
    "A joint's position and velocity stay the same to the last bit while its target moves: its "
    "encoder is dead",
    "stuck_target_range",
    needs="target",
)
class StuckJoint:
    """By how much each joint's target has moved since its reading last changed.

    A joint that rests may honestly read the same for ever, so the reading alone proves nothing. One
    that is blocked still gives way by its last digits when its drive pulls at it.
    """

    CONFIRMED = 5  # ticks after the target has moved: delays and lost states are shorter

    def __init__(self) -> None:
        self._reading = np.full((2, len(JOINT_NAMES)), np.nan)
        self._lowest = self._highest = np.zeros(len(JOINT_NAMES))
        self._count = np.zeros(len(JOINT_NAMES), dtype=int)

    def __call__(self, sample: Sample, limits: SafetyLimits) -> str | None:
        target, before = sample.target, self._reading
        self._reading = np.array((sample.state.joint_position, sample.state.joint_velocity))
        still = (self._reading == before).all(axis=0)
        self._lowest = np.where(still, np.minimum(self._lowest, target), target)
        self._highest = np.where(still, np.maximum(self._highest, target), target)
        moved = self._highest - self._lowest
        self._count = np.where(moved > limits.stuck_target_range, self._count + 1, 0)
        return _name_joints(self._count > self.CONFIRMED, moved, "rad of target, reading unchanged")
