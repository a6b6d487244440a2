"""Summary of a suite: margins, kind of failure, difference between the engines. Pure."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from policy_controller.verification.bench import CaseResult
from policy_controller.verification.verdict import Check

SCRAMBLED_TIME = 1.0  # s, a few dozen control steps
SCRAMBLED_SHARE = 0.8  # of the cases without an expected fault


@dataclass(frozen=True)
class Margin:
    """The case that comes nearest to one limit."""

    check: Check
    case: str
    engine: str
    failed: int  # cases beyond the limit
    measured: int


@dataclass(frozen=True)
class JointDifference:
    """The same cases on both engines: means over the cases of |warp - mujoco|."""

    joint: str
    torque_rms: float  # N m
    torque: float  # N m, of the peaks
    speed: float  # rad/s, of the peaks
    position: float  # rad, of the extremes


@dataclass(frozen=True)
class Summary:
    """All results together. `pattern` says in words which kind of failure is seen."""

    passed: bool
    cases: int
    failed: int
    margins: tuple[Margin, ...]
    pattern: str
    joints: tuple[JointDifference, ...]


def summarise(results: Sequence[CaseResult]) -> Summary:
    """The summary of at least one result."""
    failed = sum(not result.verdict.passed for result in results)
    return Summary(
        passed=failed == 0 and len(results) > 0,
        cases=len(results),
        failed=failed,
        margins=_margins(results),
        pattern=describe_pattern(results),
        joints=_joint_differences(results),
    )


def describe_pattern(results: Sequence[CaseResult]) -> str:
    """A scrambled interface (order, sign, frame, scale) fells every robot within a few dozen steps;
    a gap in the dynamics takes away margin here and there."""
    walks = [result for result in results if not result.case.scenario.expect]
    failed = [result for result in walks if not result.verdict.passed]
    if not failed:
        return "no failure"
    early = [result for result in failed if _time_to_stop(result) <= SCRAMBLED_TIME]
    share = len(early) / len(walks)
    if share >= SCRAMBLED_SHARE:
        return (
            f"scrambled interface: {len(early)} of {len(walks)} walks end within "
            f"{SCRAMBLED_TIME:g} s of the first step; look for a wrong order, sign, frame or scale"
        )
    return (
        f"dynamics gap: {len(failed)} of {len(walks)} walks fail, {len(early)} of them within "
        f"{SCRAMBLED_TIME:g} s of the first step; look at the smallest margins"
    )


def _time_to_stop(result: CaseResult) -> float:
    """Time [s] from the first step until the first fall or trip; infinity without one, 0 where the
    policy fell while it still stood under a zero command."""
    metrics = result.metrics
    events = [event.time for event in (*metrics.falls, *metrics.guard_trips)]
    done = {segment.name: segment.start + segment.steady for segment in metrics.segments}
    if not events or "stand up" not in done:
        return math.inf
    return min(events) - done["take over"] if "take over" in done else 0.0


def _margins(results: Sequence[CaseResult]) -> tuple[Margin, ...]:
    """One row for each limit, the smallest margin first."""
    found: dict[str, list[tuple[Check, CaseResult]]] = {}
    for result in results:
        for check in result.verdict.checks:
            if check.decides:
                found.setdefault(check.key, []).append((check, result))
    rows = []
    for entries in found.values():
        check, result = min(entries, key=lambda entry: _room(entry[0]))
        failed = sum(not entry[0].passed for entry in entries)
        rows.append(Margin(check, result.case.name, result.case.engine, failed, len(entries)))
    return tuple(sorted(rows, key=lambda row: (_room(row.check), row.check.key)))


def _room(check: Check) -> float:
    """Margin as a number: what was not measured is worst, a count within its limit is best."""
    if math.isnan(check.value):
        return -math.inf
    if check.margin is None or check.unit == "":
        return math.inf if check.passed else -math.inf
    return check.margin


def _joint_differences(results: Sequence[CaseResult]) -> tuple[JointDifference, ...]:
    by_name: dict[str, dict[str, CaseResult]] = {}
    for result in results:
        if result.failure is None:
            by_name.setdefault(result.case.name, {})[result.case.engine] = result
    pairs = [pair for pair in by_name.values() if len(pair) == 2]
    if not pairs:
        return ()
    rows = []
    for index, joint in enumerate(next(iter(pairs[0].values())).metrics.joints):
        a, b = (
            np.array(
                [
                    (j.torque_rms, j.torque, j.speed, j.position_lowest, j.position_highest)
                    for j in (pair[engine].metrics.joints[index] for pair in pairs)
                ]
            )
            for engine in ("warp", "mujoco")
        )
        mean = np.abs(a - b).mean(axis=0).tolist()
        rows.append(JointDifference(joint.name, *mean[:3], max(mean[3:])))
    return tuple(rows)
