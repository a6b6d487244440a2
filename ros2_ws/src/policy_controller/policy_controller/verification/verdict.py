"""Verdict: the limits of the scenario against the measured numbers, one row each."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from policy_controller.verification.metrics import Event, Metrics
from policy_controller.verification.scenario import Measure, Scenario

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
    limits, targets = scenario.limits, scenario.targets
    planned = {segment.measure for segment in scenario.segments}
    moves, stands = Measure.TRACKING in planned, Measure.STANDSTILL in planned
    done = len(metrics.segments)

    rows: list[Check] = []

    def check(
        key: str,
        title: str,
        value: tuple[float, str],
        limit: float,
        unit: str,
        *,
        upper: bool = True,
        decides: bool = True,
    ) -> None:
        rows.append(Check(key, title, value[0], limit, unit, upper, decides, value[1]))

    last = metrics.segments[-1].name if metrics.segments else "no segment"
    check(
        "completed",
        "Segments completed",
        (done, "" if done == metrics.segments_planned else f"last: {last}"),
        metrics.segments_planned,
        "",
        upper=False,
    )
    check("falls", "Falls", _events(metrics.falls), 0, "")
    check("guard_trips", "Guard trips", _events(metrics.guard_trips), 0, "")
    if moves:
        speed = [
            (s.velocity_rmse, s.name)
            for s in metrics.segments
            if s.measure == Measure.TRACKING.value
        ]
        yaw = [
            (s.yaw_rate_rmse, s.name)
            for s in metrics.segments
            if s.measure == Measure.TRACKING.value
        ]
        check(
            "velocity_rmse",
            "Velocity error, RMS",
            _worst(speed, max),
            limits.velocity_rmse,
            "m/s",
        )
        check(
            "yaw_rate_rmse",
            "Yaw rate error, RMS",
            _worst(yaw, max),
            limits.yaw_rate_rmse,
            "rad/s",
        )
    if stands:
        drift = [
            (s.drift, s.name) for s in metrics.segments if s.measure == Measure.STANDSTILL.value
        ]
        rms = [
            (s.joint_speed_rms, s.name)
            for s in metrics.segments
            if s.measure == Measure.STANDSTILL.value
        ]
        check("drift", "Drift at zero command", _worst(drift, max), limits.drift, "m")
        check(
            "joint_speed_rms",
            "Joint speed at zero, RMS",
            _worst(rms, max),
            limits.joint_speed_rms,
            "rad/s",
        )
    if moves:
        apex = [(foot.swing_apex, foot.name) for foot in metrics.feet]
        duty = [(foot.duty_factor, foot.name) for foot in metrics.feet]
        check(
            "swing_apex",
            "Swing apex, median",
            _worst(apex, min),
            limits.swing_apex,
            "m",
            upper=False,
        )
        check("duty_factor", "Duty factor", _worst(duty, max), limits.duty_factor, "share")
    depth = [
        (value, foot.name) for value, foot in zip(metrics.penetration, metrics.feet, strict=True)
    ]
    check("penetration", "Foot penetration", _worst(depth, max), limits.penetration, "m")
    check(
        "recorded",
        "Recorded share",
        (metrics.recorded_share, ""),
        RECORDED_SHARE,
        "share",
        upper=False,
    )

    timing = metrics.timing
    if moves:
        slip = [(foot.stance_slip, foot.name) for foot in metrics.feet]
        check(
            "stance_slip",
            "Stance slip, mean",
            _worst(slip, max),
            targets.stance_slip,
            "m/s",
            decides=False,
        )
    check(
        "period_share",
        f"Periods within ±{timing.period_tolerance * 1e3:g} ms",
        (timing.period_share, ""),
        targets.period_share,
        "share",
        upper=False,
        decides=False,
    )
    check(
        "tick_duration",
        "Tick duration, p99",
        (timing.tick.p99, ""),
        targets.tick_duration,
        "s",
        decides=False,
    )
    return Verdict(tuple(rows))


def _events(events: Sequence[Event]) -> tuple[float, str]:
    return len(events), events[0].segment if events else ""


def _worst(values: list[tuple[float, str]], pick) -> tuple[float, str]:
    """The worst (value, where); a value that could not be measured (NaN) is worse than all."""
    missing = [item for item in values if item[0] != item[0]]
    if missing or not values:
        return missing[0] if missing else (float("nan"), "not reached")
    return pick(values)
