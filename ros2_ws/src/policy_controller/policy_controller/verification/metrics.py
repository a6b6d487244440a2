"""Numbers from a recording. No limit is applied here (see verdict.py) and nothing is plotted."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from policy_controller.verification.feet import FootKinematics, rotation_matrix
from policy_controller.verification.gait import FootGait, measure_gait
from policy_controller.verification.recording import NANO, Mark, Recording, window
from policy_controller.verification.scenario import (
    MOTION_STATES,
    FallLimits,
    Measure,
    Scenario,
    Segment,
)
from policy_controller.verification.timing import Timing, measure_timing

FALL_STATES = tuple(MOTION_STATES.index(name) for name in ("stand", "walk"))
FAULT = MOTION_STATES.index("fault")


@dataclass(frozen=True)
class RobotLimits:
    """Joint limits as the bundle states them."""

    position_lower: np.ndarray  # [12], rad
    position_upper: np.ndarray  # [12], rad
    velocity: float  # rad/s
    torque: float  # N m


@dataclass(frozen=True)
class SegmentMeasure:
    """One segment over its steady part; NaN where the segment is not judged by the measure."""

    name: str
    measure: str
    command: tuple[float, float, float]  # m/s, m/s, rad/s
    start: float  # s, of the segment, from the first request
    steady: float  # s, length of the steady part
    mean_velocity: tuple[float, float, float]  # m/s, m/s, rad/s, base frame
    velocity_rmse: float  # m/s, sqrt(mean |v_xy - command_xy|^2)
    yaw_rate_rmse: float  # rad/s
    drift: float  # m, largest distance of the base from where the steady part began, horizontal
    joint_speed_rms: float  # rad/s, over time and joints
    tilt: float  # rad, largest
    height: float  # m, mean height of the base over the ground


@dataclass(frozen=True)
class JointMeasure:
    """Extremes of one joint over the whole run, and what is left to the limit."""

    name: str
    position_lowest: float  # rad
    position_highest: float  # rad
    position_margin: float  # rad, to the nearer limit
    speed: float  # rad/s, largest
    speed_margin: float  # rad/s
    torque: float  # N m, largest
    torque_rms: float  # N m
    torque_margin: float  # N m


@dataclass(frozen=True)
class Event:
    """Something that must not happen: a fall or the trip of a guard."""

    time: float  # s from the first request
    segment: str
    what: str


@dataclass(frozen=True)
class Metrics:
    """All numbers of one run."""

    segments: tuple[SegmentMeasure, ...]
    segments_planned: int
    feet: tuple[FootGait, ...]
    penetration: tuple[float, ...]  # m, deepest of each foot over the whole run, 0 or above
    foot_model_error: (
        float  # m, largest distance between reported foot and robot file; NaN without samples
    )
    joints: tuple[JointMeasure, ...]
    timing: Timing
    falls: tuple[Event, ...]
    guard_trips: tuple[Event, ...]
    cut_share: float  # share of control periods in which a tolerated guard cut a value
    recorded_share: float  # share of the run without gaps of two control periods or more
    duration: float  # s, from the first request to the last sample of the last segment
    distance: float  # m, length of the base path
    target_rate: float  # rad/s, RMS of the change of joint targets, tracking segments
    recovery: float  # s, longest after a push until the velocity error stays small; NaN: no push


def measure(
    recording: Recording, scenario: Scenario, limits: RobotLimits, kinematics: FootKinematics
) -> Metrics:
    """Measure a recording of `scenario`. The recording may have ended early; only completed
    segments are measured."""
    state = recording.state
    segments = {segment.name: segment for segment in scenario.segments}
    completed = [mark for mark in recording.marks if mark.completed]
    tracking = [
        window(state.stamp, mark.steady, mark.end)
        for mark in completed
        if segments[mark.name].measure is Measure.TRACKING
    ]
    velocity = kinematics.contact_velocity(
        state.base_orientation,
        state.base_linear_velocity,
        state.base_angular_velocity,
        state.joint_position,
        state.joint_velocity,
    )
    run = window(state.stamp, recording.origin, int(state.stamp[-1]) + 1)
    return Metrics(
        segments=tuple(_segment(recording, mark, segments[mark.name]) for mark in completed),
        segments_planned=len(scenario.segments),
        feet=measure_gait(recording.foot_names, state, velocity, tracking),
        penetration=tuple(np.maximum(-state.foot_height[run].min(axis=0), 0.0).tolist()),
        foot_model_error=_foot_model_error(recording, kinematics, run),
        joints=_joints(recording, limits, run),
        timing=measure_timing(recording, scenario.targets.period_tolerance),
        falls=find_falls(recording, scenario.fall),
        guard_trips=find_guard_trips(recording, scenario.tolerated),
        cut_share=_cut_share(recording, scenario.tolerated),
        recorded_share=_recorded_share(state.stamp[run], recording.control_period),
        duration=float(state.stamp[run][-1] - recording.origin) * NANO,
        distance=_path_length(state.base_position[run], state.stamp[run]),
        target_rate=_target_rate(recording, completed, segments),
        recovery=_recovery(recording, completed, segments, scenario.limits.recovery_error),
    )


def tilt(orientation: np.ndarray) -> np.ndarray:
    """Angle between the base z axis and vertical [rad], shape [T], of quaternions xyzw [T, 4]."""
    return np.arccos(np.clip(rotation_matrix(orientation)[:, 2, 2], -1.0, 1.0))


def motion_state_at(recording: Recording, stamp: np.ndarray) -> np.ndarray:
    """Motion state (index into MOTION_STATES) last reported at each stamp; PASSIVE before the first
    report."""
    status = recording.status
    index = np.searchsorted(status.stamp, stamp, side="right") - 1
    passive = MOTION_STATES.index("passive")
    if len(status.stamp) == 0:
        return np.full(len(stamp), passive)
    return np.where(index >= 0, status.motion_state[np.maximum(index, 0)], passive)


def find_falls(recording: Recording, limits: FallLimits) -> tuple[Event, ...]:
    """Intervals in STAND or WALK in which the robot lay or leaned beyond `limits`, one event
    each."""
    state = recording.state
    watched = np.isin(motion_state_at(recording, state.stamp), FALL_STATES) & (
        state.stamp >= recording.origin
    )
    angle = tilt(state.base_orientation)
    height = state.base_height
    fallen = watched & ((angle > limits.tilt) | (height < limits.height))
    starts = np.flatnonzero(fallen & ~np.concatenate(([False], fallen[:-1])))
    return tuple(
        Event(
            float(recording.seconds(state.stamp[i])),
            segment_at(recording.marks, int(state.stamp[i])),
            f"tilt {angle[i]:.2f} rad (limit {limits.tilt:g}), "
            f"height {height[i]:.2f} m (limit {limits.height:g})",
        )
        for i in starts
    )


def find_guard_trips(recording: Recording, tolerated: Sequence[str]) -> tuple[Event, ...]:
    """Each reason code that is not tolerated when it appears, and each entry into FAULT."""
    status = recording.status
    events = []
    before: set[str] = set()
    for i in np.flatnonzero(status.stamp >= recording.origin):
        now = set(status.reasons[i]) - set(tolerated) | (
            {"FAULT"} if status.motion_state[i] == FAULT else set()
        )
        for code in sorted(now - before):
            stamp = int(status.stamp[i])
            events.append(
                Event(float(recording.seconds(stamp)), segment_at(recording.marks, stamp), code)
            )
        before = now
    return tuple(events)


def _cut_share(recording: Recording, tolerated: Sequence[str]) -> float:
    status = recording.status
    ticks = np.flatnonzero(status.stamp >= recording.origin)
    cut = sum(not set(tolerated).isdisjoint(status.reasons[i]) for i in ticks)
    return cut / len(ticks) if len(ticks) else float("nan")


def segment_at(marks: Sequence[Mark], stamp: int) -> str:
    """Name of the segment that was requested last before `stamp`."""
    names = [mark.name for mark in marks if mark.requested <= stamp]
    return names[-1] if names else ""


def _segment(recording: Recording, mark: Mark, segment: Segment) -> SegmentMeasure:
    state = recording.state
    part = window(state.stamp, mark.steady, mark.end)
    nan = float("nan")
    velocity = np.column_stack(
        (state.base_linear_velocity[part, :2], state.base_angular_velocity[part, 2])
    )
    empty = len(velocity) == 0
    error = velocity - segment.command
    tracked = segment.measure is Measure.TRACKING and not empty
    still = segment.measure is Measure.STANDSTILL and not empty
    position = state.base_position[part]
    return SegmentMeasure(
        name=segment.name,
        measure=segment.measure.value,
        command=segment.command,
        start=float(recording.seconds(mark.start)),
        steady=(mark.end - mark.steady) * NANO,
        mean_velocity=(nan, nan, nan) if empty else tuple(velocity.mean(axis=0).tolist()),
        velocity_rmse=float(np.sqrt((error[:, :2] ** 2).sum(axis=1).mean())) if tracked else nan,
        yaw_rate_rmse=float(np.sqrt((error[:, 2] ** 2).mean())) if tracked else nan,
        drift=float(np.linalg.norm(position[:, :2] - position[0, :2], axis=1).max())
        if still
        else nan,
        joint_speed_rms=float(np.sqrt((state.joint_velocity[part] ** 2).mean())) if still else nan,
        tilt=nan if empty else float(tilt(state.base_orientation[part]).max()),
        height=nan if empty else float(state.base_height[part].mean()),
    )


def _joints(recording: Recording, limits: RobotLimits, run: slice) -> tuple[JointMeasure, ...]:
    state = recording.state
    q, qd, torque = state.joint_position[run], state.joint_velocity[run], state.joint_torque[run]
    lowest, highest = q.min(axis=0), q.max(axis=0)
    speed, peak = np.abs(qd).max(axis=0), np.abs(torque).max(axis=0)
    rms = np.sqrt((torque**2).mean(axis=0))
    margin = np.minimum(lowest - limits.position_lower, limits.position_upper - highest)
    return tuple(
        JointMeasure(
            name=name,
            position_lowest=float(lowest[j]),
            position_highest=float(highest[j]),
            position_margin=float(margin[j]),
            speed=float(speed[j]),
            speed_margin=float(limits.velocity - speed[j]),
            torque=float(peak[j]),
            torque_rms=float(rms[j]),
            torque_margin=float(limits.torque - peak[j]),
        )
        for j, name in enumerate(recording.joint_names)
    )


def _foot_model_error(recording: Recording, kinematics: FootKinematics, run: slice) -> float:
    state = recording.state
    model = kinematics.contact_point(
        state.base_position[run], state.base_orientation[run], state.joint_position[run]
    )
    return float(np.linalg.norm(model - state.foot_position[run], axis=-1).max())


def _recorded_share(stamp: np.ndarray, control_period: float) -> float:
    """1 - (time in gaps longer than two control periods) / (whole time)."""
    step = np.diff(stamp)
    if step.size == 0 or step.sum() <= 0:
        return 0.0
    return float(1.0 - step[step * NANO > 2.0 * control_period].sum() / step.sum())


def _target_rate(
    recording: Recording, marks: Sequence[Mark], segments: Mapping[str, Segment]
) -> float:
    command, rates = recording.command, []
    for mark in marks:
        if segments[mark.name].measure is Measure.TRACKING:
            part = window(command.stamp, mark.steady, mark.end)
            rates.append(np.diff(command.position[part], axis=0) / recording.control_period)
    return float(np.sqrt((np.concatenate(rates) ** 2).mean())) if rates else float("nan")


def _recovery(
    recording: Recording,
    marks: Sequence[Mark],
    segments: Mapping[str, Segment],
    error: float,
) -> float:
    """Longest time [s] after a push until the planar velocity, averaged over half a second, stays
    within `error` [m/s] of the command."""
    state, times = recording.state, []
    for mark in marks:
        if "push_velocity" not in segments[mark.name].robot:
            continue
        part = window(state.stamp, mark.start, mark.end)
        velocity, stamp = state.base_linear_velocity[part, :2], state.stamp[part]
        if len(stamp) < 2:
            return float("inf")
        width = max(1, round(0.5 / (float(np.median(np.diff(stamp))) * NANO)))
        kernel = np.ones(min(width, len(stamp))) / min(width, len(stamp))
        wanted = segments[mark.name].command[:2]
        mean = [np.convolve(velocity[:, k] - wanted[k], kernel, "valid") for k in (0, 1)]
        beyond = np.flatnonzero(np.hypot(*mean) > error)
        times.append(
            0.0
            if beyond.size == 0
            else (beyond[-1] + 1) / len(mean[0]) * ((stamp[-1] - stamp[0]) * NANO)
        )
    return max(times) if times else float("nan")


def _path_length(position: np.ndarray, stamp: np.ndarray) -> float:
    """Length of the horizontal path [m], from samples 0.1 s apart so that noise adds nothing."""
    every = max(1, int(round(0.1 / (np.median(np.diff(stamp)) * NANO)))) if len(stamp) > 1 else 1
    return float(np.linalg.norm(np.diff(position[::every, :2], axis=0), axis=1).sum())
