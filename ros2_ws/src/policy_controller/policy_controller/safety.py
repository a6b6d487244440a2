"""The safety filter: asks the guards, and the most restrictive outcome wins.

`python -m policy_controller.safety --markdown` prints the table of reason codes of docs/safety.md.
"""

from __future__ import annotations

import math
import sys
from dataclasses import fields
from typing import NamedTuple

from policy_controller import guards  # noqa: F401  registers the guards
from policy_controller.contract import PolicyBundle
from policy_controller.fields import RefusedError, describe_problem, find_problems, spec_of
from policy_controller.guard import GUARDS, Check, Guard
from policy_controller.limits import SafetyLimits
from policy_controller.sample import Outcome, Reason, Sample, Stage

EVENTS = {
    Reason.EMERGENCY_STOP: "The operator called the service `~/emergency_stop`",
    Reason.INTERNAL_ERROR: "The control code raised an exception; it is logged with its traceback",
}
"""Reasons for DAMPING that no guard gives."""


class Violation(NamedTuple):
    """A tripped guard: its reason, what follows, and what it found in words."""

    reason: Reason
    outcome: Outcome
    detail: str


def check_limits(limits: SafetyLimits, bundle: PolicyBundle) -> None:
    """Refuse limits that are out of range, that no value could ever exceed, or that would always
    trip.

    Raises RefusedError with one line per limit.
    """
    cure = "correct the safety parameter"
    problems = find_problems(limits, cure)
    for name, low, high, why in (
        ("max_action_jump", 0.0, 2.0 * bundle.action.clip, "a greater change is not possible"),
        (
            "oscillation_amplitude",
            0.0,
            2.0 * bundle.action.clip,
            "a greater change is not possible",
        ),
        (
            "stuck_target_range",
            0.0,
            2.0 * bundle.action.scale * bundle.action.clip,
            "targets do not move further",
        ),
        (
            "max_clock_jump",
            1.5 * bundle.control_period,
            math.inf,
            "one period and some jitter must pass",
        ),
        (
            "max_base_speed",
            math.hypot(*bundle.command.upper[:2]),
            math.inf,
            "commands must be possible",
        ),
        ("max_base_rate", bundle.command.upper[2], math.inf, "commands must be possible"),
    ):
        value = getattr(limits, name)
        if not low < value < high:
            allowed = f"between {low:g} and {high:g} with this bundle ({why})"
            problems.append(describe_problem(name, value, allowed, cure))
    if problems:
        raise RefusedError("safety limits", problems)


class SafetyFilter:
    """The guards with their memory. Pure: the time is in the samples."""

    def __init__(self, limits: SafetyLimits):
        self._limits = limits
        self._guards: dict[Stage, list[tuple[Guard, Check]]] = {}
        self.reset(*Stage)

    def reset(self, *stages: Stage) -> None:
        """Let the guards of these stages forget what they have seen."""
        for stage in stages:
            self._guards[stage] = [
                (guard, guard.make()) for guard in GUARDS if guard.stage == stage
            ]

    def check(self, stage: Stage, sample: Sample) -> list[Violation]:
        """All guards of one stage that trip on this sample."""
        violations = []
        for guard, check in self._guards[stage]:
            if guard.needs is None or getattr(sample, guard.needs) is not None:
                detail = check(sample, self._limits)
                if detail is not None:
                    violations.append(Violation(guard.reason, guard.outcome, detail))
        return violations


def worst(violations: list[Violation]) -> Outcome:
    """The most restrictive outcome; NORMAL if nothing tripped."""
    return max((violation.outcome for violation in violations), default=Outcome.NORMAL)


def format_table() -> str:
    """The table of reason codes as Markdown, made from the guards themselves."""
    specs = {item.name: (spec_of(item), item.default) for item in fields(SafetyLimits)}
    rows = ["| Reason | Meaning | Outcome | Limits (default) |", "| --- | --- | --- | --- |"]
    for guard in GUARDS:
        limits = [
            f"`{name}` = {specs[name][1]:g} {specs[name][0].unit}".removesuffix(" 1")
            for name in guard.limits
        ]
        rows.append(
            f"| `{guard.reason}` | {guard.meaning} | {guard.outcome.name} | {', '.join(limits)} |"
        )
    rows += [
        f"| `{reason}` | {text} | {Outcome.DAMPING.name} | |" for reason, text in EVENTS.items()
    ]
    return "\n".join(rows)


if __name__ == "__main__":
    if sys.argv[1:] != ["--markdown"]:
        sys.exit("usage: python -m policy_controller.safety --markdown")
    print(format_table())
