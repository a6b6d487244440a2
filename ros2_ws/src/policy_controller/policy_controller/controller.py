"""The control step: state and velocity command in, joint command out.

Pure: no ROS, no clock, no threads. The node, the tests, the simulation study and the replay tool
all call this same code.
"""

from __future__ import annotations

import math
import traceback
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from policy_controller.bundle import (
    PolicyBundle,
    check_robot,
    load_bundle,
    replay_golden,
)
from policy_controller.fields import RefusedError, find_problems
from policy_controller.limits import SafetyLimits
from policy_controller.motion import (
    STOP_HASTE,
    Answer,
    MotionMachine,
    MotionSettings,
    MotionState,
)
from policy_controller.observation import ObservationBuilder, projected_gravity
from policy_controller.policy import OnnxPolicy
from policy_controller.robot import RobotDescription, load_robot_description
from policy_controller.safety import SafetyFilter, Violation, check_limits, worst
from policy_controller.sample import LoopHealth, Outcome, Reason, Sample, Stage
from policy_controller.state import NUM_JOINTS, JointCommand, RobotState, VelocityCommand

HEALTHY = LoopHealth()


@dataclass(frozen=True)
class TickResult:
    """What one tick commands and why.

    command: for the drives. motion: state after the tick.
    outcome: the most restrictive one of this tick.
    reasons: codes of the guards tripped now; in FAULT first those that latched it.
    detail: the same in words.
    velocity_command: (vx m/s, vy m/s, yaw rate rad/s) given to the policy, zeros outside of WALK.
    action: output of the policy after the clip, zeros outside of WALK, shape [12].
    state_age, command_age: s, infinite if there is none.
    limited: where the target was cut to its limit, bool, shape [12].
    error: traceback if the control code raised.
    """

    command: JointCommand
    motion: MotionState
    outcome: Outcome
    reasons: tuple[str, ...]
    detail: str
    velocity_command: np.ndarray
    action: np.ndarray
    state_age: float
    command_age: float
    limited: np.ndarray
    error: str | None = None


class PolicyController:
    """Composes motion states, observation, policy and safety filter into one tick."""

    def __init__(
        self,
        bundle: PolicyBundle,
        robot: RobotDescription,
        policy: OnnxPolicy,
        limits: SafetyLimits = SafetyLimits(),  # noqa: B008  frozen
        motion: MotionSettings = MotionSettings(),  # noqa: B008  frozen
    ):
        """Raises RefusedError (BundleError for the bundle) if the parts do not fit together."""
        check_robot(bundle, robot)
        check_limits(limits, bundle)
        problems = find_problems(motion, "correct the motion parameter")
        if problems:
            raise RefusedError("motion settings", problems)
        self.bundle = bundle
        self._policy = policy
        self._filter = SafetyFilter(limits)
        self._machine = MotionMachine(
            motion, bundle.default_pose, robot.lying_pose, bundle.control_period
        )
        self._observe = ObservationBuilder(bundle.observation, bundle.default_pose)
        self._clock = bundle.clock
        self._default_pose = np.array(bundle.default_pose)
        self._lower = np.array(bundle.limits.position_lower)
        self._upper = np.array(bundle.limits.position_upper)
        self._command_range = np.array((bundle.command.lower, bundle.command.upper))
        self._command_step = bundle.control_period * np.array(
            (motion.linear_acceleration, motion.linear_acceleration, motion.yaw_acceleration)
        )
        self._gains = np.array((bundle.gains.kp, bundle.gains.kd))
        self._stand_gains = np.tile(((motion.stand_kp,), (motion.stand_kd,)), NUM_JOINTS)
        self._gain_step = bundle.control_period / motion.takeover_time
        self._script_torque = motion.torque_share * bundle.limits.torque
        self._gain_share = 0.0  # 0 = gains of scripted motions, 1 = gains of the policy
        self._damping = np.full(NUM_JOINTS, motion.damping)
        self._zeros = np.zeros(NUM_JOINTS)
        self._latched: list[Violation] = []
        self._violations: list[Violation] = []
        self._sample: Sample | None = None
        self._last_now_ns: int | None = None
        self._reset_policy()

    @classmethod
    def from_files(
        cls,
        bundle_path: str | Path,
        robot_path: str | Path,
        limits: SafetyLimits = SafetyLimits(),  # noqa: B008  frozen
        motion: MotionSettings = MotionSettings(),  # noqa: B008  frozen
    ) -> PolicyController:
        """Load, check against the robot file, replay the golden data and warm up.

        Raises RefusedError naming every difference.
        """
        bundle = load_bundle(bundle_path)
        policy = OnnxPolicy(bundle.onnx, bundle.observation_size, NUM_JOINTS)
        replay_golden(bundle, policy)
        return cls(bundle, load_robot_description(robot_path), policy, limits, motion)

    @property
    def motion(self) -> MotionState:
        """The motion state."""
        return self._machine.state

    def request(self, wanted: MotionState) -> Answer:
        """Operator's request for a motion state; what is refused says why and what is allowed."""
        rising = wanted in (MotionState.STAND_UP, MotionState.STAND, MotionState.WALK)
        obstacles = [v for v in self._violations if v.outcome == Outcome.DAMPING]
        if rising and self.motion != MotionState.FAULT and (obstacles or self._sample is None):
            found = "; ".join(f"{v.reason}: {v.detail}" for v in obstacles) or "no tick yet"
            return Answer(False, f"{wanted.name} not possible: {found}")
        state, tilt = (self._sample.state, self._sample.tilt) if self._sample else (None, math.nan)
        before = self.motion
        answer = self._machine.request(wanted, state, tilt)
        if self.motion == MotionState.WALK != before:
            self._reset_policy()
        return answer

    def emergency_stop(self, detail: str = "called by the operator") -> Answer:
        """Latch FAULT; the next tick damps the drives."""
        self._latch([Violation(Reason.EMERGENCY_STOP, Outcome.DAMPING, detail)])
        return Answer(True, "FAULT, drives damped")

    def fail(self, detail: str) -> None:
        """Latch FAULT because something around the control step went wrong."""
        self._latch([Violation(Reason.INTERNAL_ERROR, Outcome.DAMPING, detail)])

    def clear_fault(self) -> Answer:
        """From FAULT to PASSIVE, where the drives stay damped."""
        answer = self._machine.clear_fault()
        if answer.accepted:
            self._latched = []
            self._filter.reset(*Stage)
        return answer

    def tick(
        self,
        now_ns: int,
        state: RobotState | None,
        command: VelocityCommand | None,
        health: LoopHealth = HEALTHY,
    ) -> TickResult:
        """One control step. Never raises; whatever goes wrong ends in damping with a reason.

        now_ns: control clock, ns; any clock that runs steadily, the same for `state.time_ns` and
        `command.stamp_ns`. Call once every `bundle.control_period`.
        """
        try:
            with np.errstate(all="ignore"):  # the guards look for what is not finite
                return self._tick(now_ns, state, command, health)
        except Exception as error:
            self.fail(f"{type(error).__name__}: {error}")
            self._violations = list(self._latched)
            self._sample = None  # it may be what raised
            return self._result(None, np.inf, np.inf, self._zeros > 0.0, traceback.format_exc())

    def _tick(
        self,
        now_ns: int,
        state: RobotState | None,
        command: VelocityCommand | None,
        health: LoopHealth,
    ) -> TickResult:
        sample = self._take_sample(now_ns, state, command, health)
        self._violations = violations = self._filter.check(Stage.INPUT, sample)
        target, limited = None, self._zeros > 0.0
        if worst(violations) < Outcome.DAMPING:
            plan = self._machine.step(state)
            target = self._walk(sample) if plan.use_policy else plan.target
        if target is not None:
            sample.target = target
            found = self._filter.check(Stage.TARGET, sample)
            violations += found
            if worst(found) == Outcome.LIMIT:
                limited = (target < self._lower) | (target > self._upper)
                target = self._machine.target = np.clip(target, self._lower, self._upper)
        if worst(violations) == Outcome.DAMPING:
            target = None
            if self.motion not in (MotionState.PASSIVE, MotionState.FAULT):
                self._latch(violations)
        return self._result(target, sample.state_age, sample.command_age, limited)

    def _take_sample(
        self,
        now_ns: int,
        state: RobotState | None,
        command: VelocityCommand | None,
        health: LoopHealth,
    ) -> Sample:
        before = self._sample
        sample = Sample(
            limits=self.bundle.limits,
            command_range=self._command_range,
            action_clip=self.bundle.action.clip,
            control_period=self.bundle.control_period,
            state=state,
            health=health,
            command=command,
        )
        if self._last_now_ns is not None:
            sample.clock_step = (now_ns - self._last_now_ns) / 1e9
        if state is not None:
            sample.state_age = (now_ns - state.time_ns) / 1e9
            sample.gravity = projected_gravity(state.base_orientation)
            # angle between g and (0, 0, -1); atan2 keeps its precision near upright
            sample.tilt = math.atan2(
                math.hypot(sample.gravity[0], sample.gravity[1]), -sample.gravity[2]
            )
            if before is not None and before.state is not None:
                sample.previous, sample.previous_gravity = before.state, before.gravity
        if command is not None:
            sample.command_age = (now_ns - command.stamp_ns) / 1e9
            wanted = (command.linear_x, command.linear_y, command.yaw_rate)
            sample.command_moves = self._clock.is_moving(wanted)
        self._sample, self._last_now_ns = sample, now_ns
        return sample

    def _walk(self, sample: Sample) -> np.ndarray | None:
        """Joint target from the policy; None if a guard asks for damping."""
        self._update_velocity(sample)
        sample.velocity_command = self._velocity
        sample.observation = self._observe.build(
            sample.state,
            self._velocity,
            self._clock.signal(self._phase, self._velocity),
            self._action,
        )
        self._violations += self._filter.check(Stage.OBSERVATION, sample)
        if worst(self._violations) == Outcome.DAMPING:
            return None
        action = self._policy(sample.observation).astype(np.float64)
        sample.action, sample.previous_action = action, self._action
        found = self._filter.check(Stage.ACTION, sample)
        self._violations += found
        if worst(found) == Outcome.DAMPING:
            return None
        if worst(found) == Outcome.LIMIT:
            action = np.clip(action, -self.bundle.action.clip, self.bundle.action.clip)
        self._action = action
        self._phase = self._clock.advance(self._phase, self._velocity)
        return self._machine.take_over(self._default_pose + self.bundle.action.scale * action)

    def _update_velocity(self, sample: Sample) -> None:
        """Move the velocity given to the policy towards the command at limited acceleration; a stop
        may be quicker."""
        found = self._filter.check(Stage.COMMAND, sample)
        self._violations += found
        if self._machine.stopping or worst(found) >= Outcome.ZERO_COMMAND:
            wanted = np.zeros(3)
        else:
            command = sample.command
            wanted = np.array((command.linear_x, command.linear_y, command.yaw_rate))
            if worst(found) == Outcome.LIMIT:
                wanted = np.clip(wanted, *self._command_range)
        limit = self._command_step if wanted.any() else STOP_HASTE * self._command_step
        step = np.clip(wanted - self._velocity, -limit, limit)
        self._velocity = self._velocity + step

    def _reset_policy(self) -> None:
        """Memory of the policy as training starts an episode: no velocity, phase 0, no action, no
        past."""
        self._velocity = np.zeros(3)
        self._phase = 0.0
        self._action = np.zeros(NUM_JOINTS)
        self._observe.reset()
        self._filter.reset(Stage.COMMAND, Stage.OBSERVATION, Stage.ACTION)

    def _latch(self, violations: list[Violation]) -> None:
        if self.motion != MotionState.FAULT:
            self._machine.fault()
            self._latched = []
        known = {violation.reason for violation in self._latched}
        self._latched += [
            v for v in violations if v.outcome == Outcome.DAMPING and v.reason not in known
        ]

    def _result(
        self,
        target: np.ndarray | None,
        state_age: float,
        command_age: float,
        limited: np.ndarray,
        error: str | None = None,
    ) -> TickResult:
        walking = self.motion == MotionState.WALK
        shown = {violation.reason: violation.detail for violation in self._violations}
        shown = {violation.reason: violation.detail for violation in self._latched} | shown
        details = [f"{reason}: {detail}" for reason, detail in shown.items()]
        return TickResult(
            command=self.damp() if target is None else self._follow(target),
            motion=self.motion,
            outcome=worst(self._violations + self._latched),
            reasons=tuple(reason.value for reason in shown),
            detail="; ".join([self._machine.describe(), *details]),
            velocity_command=self._velocity.copy() if walking else np.zeros(3),
            action=self._action.copy() if walking else self._zeros.copy(),
            state_age=state_age,
            command_age=command_age,
            limited=limited,
            error=error,
        )

    def _follow(self, target: np.ndarray) -> JointCommand:
        """Position targets, with the gains on their way between scripted motion and policy.

        In scripted motions |kp (target - q)| is bounded: feet that stick to the ground away from
        where the pose wants them would otherwise load the drives against each other.
        """
        step = self._gain_step if self.motion == MotionState.WALK else -self._gain_step
        self._gain_share = min(max(self._gain_share + step, 0.0), 1.0)
        share = self._gain_share
        kp, kd = (1.0 - share) * self._stand_gains + share * self._gains
        if self.motion != MotionState.WALK:
            reach = self._script_torque / kp
            measured = self._sample.state.joint_position
            target = np.clip(target, measured - reach, measured + reach)
            target = np.clip(target, self._lower, self._upper)
        return JointCommand(target.copy(), self._zeros, self._zeros, kp, kd)

    def damp(self) -> JointCommand:
        """Damping: position gain 0, velocity target 0; the position is only for the record."""
        self._gain_share = 0.0
        position = self._machine.target
        if self._sample is not None and self._sample.state is not None:
            measured = self._sample.state.joint_position
            position = np.where(np.isfinite(measured), measured, position)
        position = np.clip(position, self._lower, self._upper)
        return JointCommand(position, self._zeros, self._zeros, self._zeros, self._damping)
