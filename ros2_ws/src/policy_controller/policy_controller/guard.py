"""What a guard is, and the register of all of them.

A guard is a function `(sample, limits) -> str | None`, or a class whose instances are called like
that when it has to remember earlier ticks. It returns None, or what it found in words. What follows
from a tripped guard is its `Outcome`; safety.py collects them and the most restrictive one wins.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from policy_controller.limits import SafetyLimits
from policy_controller.sample import Outcome, Reason, Sample, Stage

Check = Callable[[Sample, SafetyLimits], "str | None"]


@dataclass(frozen=True)
class Guard:
    """One guard: when it is asked, what follows, what it means, and which limits it reads.

    needs: field of the sample without which there is nothing to check.
    make: gives the check with its memory empty.
    """

    reason: Reason
    stage: Stage
    outcome: Outcome
    meaning: str
    limits: tuple[str, ...]
    needs: str | None
    make: Callable[[], Check]


GUARDS: list[Guard] = []
"""Every guard, in the order in which they are asked."""


def guard(
    reason: Reason,
    stage: Stage,
    outcome: Outcome,
    meaning: str,
    *limits: str,
    needs: str | None = None,
) -> Callable[[Callable], Callable]:
    """Register a check function, or a class of checks with memory."""

    def register(check: Callable) -> Callable:
        make = check if isinstance(check, type) else lambda: check
        GUARDS.append(Guard(reason, stage, outcome, meaning, limits, needs, make))
        return check

    return register
