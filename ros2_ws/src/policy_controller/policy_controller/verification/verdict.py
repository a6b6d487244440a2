"""Verdict: the limits of the scenario against the measured numbers, one row each."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from policy_controller.verification.metrics import Event, Metrics
from policy_controller.verification.scenario import Limits, Measure, Scenario, Targets

RECORDED_SHARE = 0.95
"""Least share of the run that must have been recorded. With more missing, the other numbers prove
nothing."""


def quantity(value: float, unit: str) -> str:
    """A value in SI units as a person reads it: lengths in mm, durations in ms, shares in
    percent."""
    if value != value:
        return "not measured"
    value += 0.0  # no minus sign on zero
    if unit == "m":
        return f"{1e3 * value:.1f} mm"
    if unit == "s":
        return f"{1e3 * value:.2f} ms"
    if unit == "share":
        return f"{100.0 * value:.1f} %"
    if unit == "":
        return f"{value:g}"
    return f"{value:.3f} {unit}"


@dataclass(frozen=True)
class Check:
    """One limit against one number."""

    key: str
    title: str
    value: float  # NaN: could not be measured, which never passes
    limit: float
    unit: str  # SI; "share" for a ratio to 1; empty for a count
    upper: bool  # True: value must not exceed the limit; False: must reach it
    decides: bool  # False: reported, does not change the verdict
    where: str  # segment or foot that gave the value

    @property
    def passed(self) -> bool:
        return self.value <= self.limit if self.upper else self.value >= self.limit

    @property
    def margin(self) -> float | None:
        """Share of the limit that is left; negative beyond it; None where the limit is zero."""
        if self.limit == 0.0:
            return None
        left = self.limit - self.value if self.upper else self.value - self.limit
        return left / self.limit


@dataclass(frozen=True)
class Verdict:
    """All checks of one run."""

    checks: tuple[Check, ...]

    @property
    def passed(self) -> bool:
        return all(check.passed for check in self.checks if check.decides)

    @property
    def failures(self) -> tuple[Check, ...]:
        return tuple(check for check in self.checks if check.decides and not check.passed)


def judge(metrics: Metrics, scenario: Scenario) -> Verdict:
    """Compare a run with the limits of its scenario."""
    if scenario.expect:
        return Verdict((_expected(metrics, scenario.expect),))
    planned = {segment.measure for segment in scenario.segments}
    rows = _events(metrics)
    if Measure.TRACKING in planned:
        rows += _tracking(metrics, scenario.limits)
    if Measure.STANDSTILL in planned:
        rows += _standstill(metrics, scenario.limits)
    if Measure.TRACKING in planned:
        rows += _gait(metrics, scenario.limits)
    rows += _margins(metrics, scenario)
    rows += _evidence(metrics, scenario.limits)
    rows += _targets(metrics, scenario.targets, Measure.TRACKING in planned)
    return Verdict(tuple(rows))


Worst = tuple[float, str]  # value, where


def _at_most(
    key: str, title: str, worst: Worst, limit: float, unit: str, decides: bool = True
) -> Check:
    return Check(key, title, worst[0], limit, unit, True, decides, worst[1])


def _at_least(
    key: str, title: str, worst: Worst, limit: float, unit: str, decides: bool = True
) -> Check:
    return Check(key, title, worst[0], limit, unit, False, decides, worst[1])


def _events(metrics: Metrics) -> list[Check]:
    def count(events: Sequence[Event]) -> Worst:
        return len(events), events[0].segment if events else ""

    done, planned = len(metrics.segments), metrics.segments_planned
    last = metrics.segments[-1].name if metrics.segments else "none"
    where = "" if done == planned else f"last: {last}"
    return [
        _at_least("completed", "Segments completed", (done, where), planned, ""),
        _at_most("falls", "Falls", count(metrics.falls), 0, ""),
        _at_most("guard_trips", "Guard trips", count(metrics.guard_trips), 0, ""),
    ]


def _tracking(metrics: Metrics, limits: Limits) -> list[Check]:
    tracked = [s for s in metrics.segments if s.measure == Measure.TRACKING.value]
    speed = _worst([(s.velocity_rmse, s.name) for s in tracked], max)
    yaw = _worst([(s.yaw_rate_rmse, s.name) for s in tracked], max)
    return [
        _at_most("velocity_rmse", "Velocity error, RMS", speed, limits.velocity_rmse, "m/s"),
        _at_most("yaw_rate_rmse", "Yaw rate error, RMS", yaw, limits.yaw_rate_rmse, "rad/s"),
    ]


def _standstill(metrics: Metrics, limits: Limits) -> list[Check]:
    stood = [s for s in metrics.segments if s.measure == Measure.STANDSTILL.value]
    drift = _worst([(s.drift, s.name) for s in stood], max)
    rms = _worst([(s.joint_speed_rms, s.name) for s in stood], max)
    title = "Joint speed at zero, RMS"
    return [
        _at_most("drift", "Drift at zero command", drift, limits.drift, "m"),
        _at_most("joint_speed_rms", title, rms, limits.joint_speed_rms, "rad/s"),
    ]


def _gait(metrics: Metrics, limits: Limits) -> list[Check]:
    apex = _worst([(foot.swing_apex, foot.name) for foot in metrics.feet], min)
    duty = _worst([(foot.duty_factor, foot.name) for foot in metrics.feet], max)
    return [
        _at_least("swing_apex", "Swing apex, median", apex, limits.swing_apex, "m"),
        _at_most("duty_factor", "Duty factor", duty, limits.duty_factor, "share"),
    ]


def _expected(metrics: Metrics, code: str) -> Check:
    """The expected reason code is among those of the first trip."""
    trips = metrics.guard_trips
    first = [trip.what for trip in trips if trip.time == trips[0].time]
    where = f"expected {code}, found {', '.join(first) or 'none'}"
    return _at_least("reason_code", "Expected reason code", (float(code in first), where), 1, "")


def _margins(metrics: Metrics, scenario: Scenario) -> list[Check]:
    """The limits that a scenario need not have; those without a value in the file do not decide."""
    limits, rows = scenario.limits, []
    joints = metrics.joints
    torque = _worst([(j.torque / (j.torque + j.torque_margin), j.name) for j in joints], max)
    speed = _worst([(j.speed / (j.speed + j.speed_margin), j.name) for j in joints], max)
    slip = _worst([(foot.stance_slip, foot.name) for foot in metrics.feet], max)
    moves = any(segment.measure is Measure.TRACKING for segment in scenario.segments)
    pushed = any("push_velocity" in segment.robot for segment in scenario.segments)
    for key, title, worst, unit, applies in (
        ("stance_slip", "Foot slip, mean", slip, "m/s", moves),
        ("torque_ratio", "Peak torque / limit", torque, "share", True),
        ("speed_ratio", "Peak joint speed / limit", speed, "share", True),
        ("target_rate", "Action rate, RMS", (metrics.target_rate, ""), "rad/s", moves),
        ("recovery", "Recovery from a push", (metrics.recovery, ""), "s", pushed),
    ):
        limit = getattr(limits, key)
        if applies and math.isfinite(limit):
            rows.append(_at_most(key, title, worst, limit, unit))
    return rows


def _evidence(metrics: Metrics, limits: Limits) -> list[Check]:
    depths = zip(metrics.penetration, (foot.name for foot in metrics.feet), strict=True)
    recorded = (metrics.recorded_share, "")
    return [
        _at_most(
            "penetration", "Foot penetration", _worst(list(depths), max), limits.penetration, "m"
        ),
        _at_least("recorded", "Recorded share", recorded, RECORDED_SHARE, "share"),
    ]


def _targets(metrics: Metrics, targets: Targets, moves: bool) -> list[Check]:
    timing, rows = metrics.timing, []
    if moves:
        slip = _worst([(foot.stance_slip, foot.name) for foot in metrics.feet], max)
        rows.append(
            _at_most("stance_slip", "Stance slip, mean", slip, targets.stance_slip, "m/s", False)
        )
    agreement, cut = (metrics.foot_model_error, ""), (metrics.cut_share, "")
    share, tick = (timing.period_share, ""), (timing.tick.p99, "")
    near = f"Periods within ±{1e3 * timing.period_tolerance:g} ms"
    return rows + [
        _at_most(
            "foot_agreement", "Feet against model", agreement, targets.foot_agreement, "m", False
        ),
        _at_most("cut_share", "Periods with a cut", cut, targets.cut_share, "share", False),
        _at_least("period_share", near, share, targets.period_share, "share", False),
        _at_most("tick_duration", "Tick duration, p99", tick, targets.tick_duration, "s", False),
    ]


def _worst(values: Sequence[Worst], pick: Callable[[Sequence[Worst]], Worst]) -> Worst:
    """The worst (value, where); a value that could not be measured (NaN) is worse than all."""
    missing = [item for item in values if math.isnan(item[0])]
    if missing or not values:
        return missing[0] if missing else (float("nan"), "not reached")
    return pick(values)
