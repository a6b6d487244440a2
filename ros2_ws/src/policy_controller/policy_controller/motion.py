"""Motion states: how the robot gets up, hands over to the policy, stops and lies down.

    PASSIVE -> STAND_UP -> STAND -> WALK
       ^                     |  ^----+
       +------ LIE_DOWN <----+            FAULT: from everywhere, latched, cleared into PASSIVE

The machine is pure. It gives joint targets, or says that the policy is to be asked, or that the
drives are to be damped.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from enum import IntEnum
from typing import NamedTuple

import numpy as np

from policy_controller.fields import spec
from policy_controller.state import FOOT_NAMES, JOINT_NAMES, RobotState

STOP_HASTE = 2.0
"""A stop, a velocity command of zero, is followed at this many times the acceleration limits."""


class MotionState(IntEnum):
    """Values as in footlight_msgs/ControllerStatus."""

    PASSIVE = 0
    STAND_UP = 1
    STAND = 2
    WALK = 3
    LIE_DOWN = 4
    FAULT = 5


@dataclass(frozen=True)
class MotionSettings:
    """How motions are carried out."""

    damping: float = spec(
        "number",
        "velocity gain in PASSIVE and FAULT, where the position gain is 0",
        10.0,
        unit="N m s/rad",
        low=0.5,
        high=30.0,
    )
    stand_kp: float = spec(
        "number",
        "position gain in scripted motions; stiffer than a policy's, so that the legs do not sag",
        200.0,
        unit="N m/rad",
        low=10.0,
        high=400.0,
    )
    stand_kd: float = spec(
        "number",
        "velocity gain in scripted motions",
        5.0,
        unit="N m s/rad",
        low=0.0,
        high=10.0,
    )
    torque_share: float = spec(
        "number",
        "share of the drive's torque limit that scripted motions may ask for",
        0.8,
        unit="1",
        low=0.1,
        high=0.9,
    )
    joint_rate: float = spec(
        "number",
        "greatest speed of a joint target in scripted motions",
        0.8,
        unit="rad/s",
        low=0.1,
        high=4.0,
    )
    min_duration: float = spec(
        "number", "least duration of a scripted motion", 1.0, unit="s", low=0.2, high=10.0
    )
    fold_distance: float = spec(
        "number",
        "distance of a joint from the default pose above which the legs are folded first",
        0.6,
        unit="rad",
        low=0.1,
        high=2.0,
    )
    walk_entry_error: float = spec(
        "number",
        "distance of every joint from the default pose allowed when WALK begins",
        0.3,
        unit="rad",
        low=0.05,
        high=0.5,
    )
    walk_entry_tilt: float = spec(
        "number", "tilt allowed when WALK begins", 0.35, unit="rad", low=0.05, high=0.6
    )
    takeover_time: float = spec(
        "number", "time in which the policy takes over", 0.5, unit="s", low=0.1, high=3.0
    )
    takeover_rate: float = spec(
        "number",
        "greatest speed of a joint target when the policy takes over; it grows without "
        "bound towards the end of the take-over",
        3.0,
        unit="rad/s",
        low=0.5,
        high=10.0,
    )
    linear_acceleration: float = spec(
        "number",
        "greatest change of the velocity command given to the policy; twice that for a stop",
        1.5,
        unit="m/s^2",
        low=0.1,
        high=20.0,
    )
    yaw_acceleration: float = spec(
        "number",
        "greatest change of the yaw rate command given to the policy; twice that for a stop",
        3.0,
        unit="rad/s^2",
        low=0.1,
        high=40.0,
    )
    quiet_velocity: float = spec(
        "number",
        "joint speed below which a foot on the ground counts as quiet",
        0.5,
        unit="rad/s",
        low=0.05,
        high=2.0,
    )
    settle_time: float = spec(
        "number",
        "time of quiet feet, or of lying, before the next state",
        0.4,
        unit="s",
        low=0.1,
        high=3.0,
    )
    stop_timeout: float = spec(
        "number",
        "time after which WALK ends even if the feet are not quiet",
        3.0,
        unit="s",
        low=0.5,
        high=10.0,
    )


class Trajectory:
    """Smooth motion between two poses, at rest at both ends.

    q(s) = q0 + (q1 - q0)(10 s^3 - 15 s^4 + 6 s^5) with s = t / duration
    greatest speed = 15/8 (q1 - q0) / duration
    """

    def __init__(self, start: np.ndarray, goal: np.ndarray, rate: float, min_duration: float):
        """start, goal: rad, shape [12]. rate: greatest speed of any joint, rad/s."""
        self._start, self._span = start, goal - start
        self.duration = max(min_duration, 1.875 * float(np.abs(self._span).max()) / rate)

    def sample(self, time: float) -> np.ndarray:
        """Pose at `time` s after the start; the goal after the end."""
        s = min(max(time / self.duration, 0.0), 1.0)
        return self._start + self._span * (s * s * s * (10.0 + s * (6.0 * s - 15.0)))


class Answer(NamedTuple):
    """Whether a request was accepted, and the reason or what happens now in words."""

    accepted: bool
    message: str


class Plan(NamedTuple):
    """What a tick is to do: damp, go to `target`, or ask the policy."""

    target: np.ndarray | None = None
    use_policy: bool = False


class MotionMachine:
    """The motion state and what is going on within it."""

    def __init__(
        self,
        settings: MotionSettings,
        default_pose: Sequence[float],
        lying_pose: Sequence[float],
        control_period: float,
    ):
        """Poses: rad, shape [12]. control_period: s."""
        self._settings = settings
        self._default = np.asarray(default_pose, dtype=np.float64)
        self._lying = np.asarray(lying_pose, dtype=np.float64)
        self._period = control_period
        self.state = MotionState.PASSIVE
        self.target = self._default.copy()
        self._enter(MotionState.PASSIVE)

    def _enter(self, state: MotionState, *poses: np.ndarray) -> None:
        """Change state; follow the poses one after the other, from the first."""
        self.state = state
        self.stopping = False
        self._time = self._stopping_time = self._quiet = 0.0
        self._then_lie_down = False
        self._path = [
            Trajectory(start, goal, self._settings.joint_rate, self._settings.min_duration)
            for start, goal in zip(poses[:-1], poses[1:], strict=True)
        ]
        if poses:
            self.target = poses[0]

    def fault(self) -> None:
        """Latch FAULT."""
        self._enter(MotionState.FAULT)

    def clear_fault(self) -> Answer:
        """From FAULT to PASSIVE."""
        if self.state != MotionState.FAULT:
            return Answer(False, f"there is no fault to clear in {self.state.name}")
        self._enter(MotionState.PASSIVE)
        return Answer(True, "fault cleared, PASSIVE")

    def request(self, wanted: MotionState, robot: RobotState | None, tilt: float) -> Answer:
        """Ask for a motion state.

        robot, tilt: state and tilt (rad) of the last tick, already checked by the guards. STAND and
        STAND_UP both end in STAND, LIE_DOWN and PASSIVE both end in PASSIVE. From WALK the robot
        always stops and stands first.
        """
        if self.state == MotionState.FAULT:
            return Answer(False, "in FAULT; remove the cause and call ~/clear_fault")
        if wanted == MotionState.FAULT:
            return Answer(False, "FAULT cannot be requested; call ~/emergency_stop")
        if wanted == MotionState.WALK:
            return self._request_walk(robot, tilt)
        if wanted in (MotionState.STAND, MotionState.STAND_UP):
            return self._request_stand(robot)
        return self._request_lie_down(wanted)

    def _request_walk(self, robot: RobotState | None, tilt: float) -> Answer:
        if self.state == MotionState.WALK and not self.stopping:
            return Answer(True, "already walking")
        if self.state != MotionState.STAND or self._path:
            return Answer(False, f"WALK begins from STAND at rest; now {self.describe()}")
        obstacles = self._find_walk_obstacles(robot, tilt)
        if obstacles:
            return Answer(False, "WALK not possible: " + "; ".join(obstacles))
        self._enter(MotionState.WALK)
        return Answer(True, "walking")

    def _find_walk_obstacles(self, robot: RobotState | None, tilt: float) -> list[str]:
        if robot is None:
            return ["no robot state"]
        limit = self._settings.walk_entry_error
        error = robot.joint_position - self._default
        found = [
            f"{JOINT_NAMES[i]} is {error[i]:.2f} rad from the default pose, allowed {limit:g}"
            for i in np.flatnonzero(~(np.abs(error) < limit))
        ]
        if not tilt < self._settings.walk_entry_tilt:
            found.append(f"tilt is {tilt:.2f} rad, allowed {self._settings.walk_entry_tilt:g}")
        if not robot.foot_contact.all():
            feet = [FOOT_NAMES[i] for i in np.flatnonzero(~robot.foot_contact)]
            found.append(f"no ground contact of {', '.join(feet)}")
        return found

    def _request_stand(self, robot: RobotState | None) -> Answer:
        if self.state == MotionState.WALK:
            self.stopping, self._then_lie_down = True, False
            return Answer(True, "stopping, then STAND")
        if self.state in (MotionState.STAND_UP, MotionState.STAND):
            self._then_lie_down = False
            return Answer(True, f"already {self.describe()}")
        if self.state == MotionState.LIE_DOWN:
            return Answer(False, "lying down; ask again in PASSIVE")
        if robot is None:
            return Answer(False, "no robot state")
        measured = robot.joint_position.copy()
        far = np.abs(measured - self._default).max() > self._settings.fold_distance
        fold = (self._lying,) if far else ()
        self._enter(MotionState.STAND_UP, measured, *fold, self._default)
        return Answer(True, "standing up")

    def _request_lie_down(self, wanted: MotionState) -> Answer:
        if self.state == MotionState.WALK:
            self.stopping = self._then_lie_down = True
            return Answer(True, "stopping, then LIE_DOWN")
        if self.state == MotionState.PASSIVE:
            return Answer(wanted == MotionState.PASSIVE, "already PASSIVE")
        if self.state != MotionState.LIE_DOWN:
            self._enter(MotionState.LIE_DOWN, self.target, self._lying)
        return Answer(True, "lying down, then PASSIVE")

    def step(self, robot: RobotState) -> Plan:
        """Advance by one control period.

        robot: state that passed the guards. In WALK the caller asks the policy and passes its
        target to take_over.
        """
        if self.state in (MotionState.PASSIVE, MotionState.FAULT):
            return Plan()
        if self.state == MotionState.WALK:
            self._time += self._period
            self._stopping_time += self._period if self.stopping else 0.0
            if not self.stopping or not self._is_stopped(robot):
                return Plan(use_policy=True)
            lie_down = self._then_lie_down
            self._enter(MotionState.STAND, self.target, self._default)
            self._then_lie_down = lie_down
        arrived = self._follow()
        if arrived and self.state == MotionState.STAND_UP:
            error = np.abs(robot.joint_position - self._default)
            if error.max() < self._settings.walk_entry_error:
                self._enter(MotionState.STAND)
        elif arrived and self.state == MotionState.STAND and self._then_lie_down:
            self._enter(MotionState.LIE_DOWN, self.target, self._lying)
        elif arrived and self.state == MotionState.LIE_DOWN:
            self._quiet += self._period
            if self._quiet > self._settings.settle_time:
                self._enter(MotionState.PASSIVE)
                return Plan()
        return Plan(target=self.target)

    def _follow(self) -> bool:
        """Move the target along the path; True if the path is at its end."""
        if self._path:
            self.target = self._path[0].sample(self._time)
            if self._time >= self._path[0].duration:
                self._path.pop(0)
                self._time = 0.0
            self._time += self._period
        return not self._path

    def _is_stopped(self, robot: RobotState) -> bool:
        quiet = robot.foot_contact.all() and (
            np.abs(robot.joint_velocity).max() < self._settings.quiet_velocity
        )
        self._quiet = self._quiet + self._period if quiet else 0.0
        return (
            self._quiet >= self._settings.settle_time
            or self._stopping_time >= self._settings.stop_timeout
        )

    def take_over(self, policy_target: np.ndarray) -> np.ndarray:
        """Joint target in WALK: the policy's, blended in from the pose held before.

        target = last + clip(w (policy - last), +-rate period / (1 - w)),
        w = smooth step of the time since WALK began; 1 from takeover_time on.
        """
        s = self._time / self._settings.takeover_time
        if s >= 1.0:
            self.target = policy_target
        else:
            weight = s * s * (3.0 - 2.0 * s)
            bound = self._settings.takeover_rate * self._period / (1.0 - weight)
            self.target = self.target + np.clip(
                weight * (policy_target - self.target), -bound, bound
            )
        return self.target

    def describe(self) -> str:
        """The state and what is going on within it, in words."""
        if self.state == MotionState.WALK and self.stopping:
            return "WALK, stopping"
        if self.state == MotionState.STAND_UP and not self._path:
            return "STAND_UP, some joints are not yet near the default pose"
        return f"{self.state.name}, moving" if self._path else self.state.name
