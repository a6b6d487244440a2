"""Real-time pacing on an absolute grid. Time is passed in, in seconds."""

from __future__ import annotations

import math
from collections import deque

import numpy as np


class DeadlineGrid:
    """Slots at ``start + n * period``, for a loop that neither drifts nor sends in bursts.

    ``advance`` tells how many periods have passed since the last call: 1 when on time. A late loop
    should make up the work of up to ``catch_up`` periods at once and send only the result; what is
    later than that is given up and counted in ``skipped``.
    """

    def __init__(self, period: float, catch_up: int, start: float) -> None:
        self.period = period
        self.catch_up = catch_up
        self.skipped = 0  # periods given up
        self._start = start
        self._slot = 0  # last one taken

    def deadline(self) -> float:
        """Time of the next slot."""
        return self._start + (self._slot + 1) * self.period

    def advance(self, now: float) -> int:
        """Take every slot that is due at ``now``; returns the periods to make up, 1..catch_up."""
        due = int((now - self._start) / self.period + 1e-9)
        passed = max(due - self._slot, 1)
        self._slot += passed
        periods = min(passed, self.catch_up)
        self.skipped += passed - periods
        return periods


class SpeedLimit:
    """Keeps a loop from running faster than one step per ``period``; what it is late by is made up
    for as long as that is less than ``catch_up`` [s]."""

    def __init__(self, period: float, catch_up: float) -> None:
        self._period, self._catch_up = period, catch_up
        self._due = -math.inf

    def wait_time(self, now: float) -> float:
        """Seconds to wait before the next step; call it once per step."""
        self._due = max(self._due + self._period, now - self._catch_up)
        return max(0.0, self._due - now)


class Durations:
    """The last durations of one step [s], for p50 and p99."""

    def __init__(self, size: int) -> None:
        self._values: deque[float] = deque(maxlen=size)

    def add(self, value: float) -> None:
        self._values.append(value)

    def percentiles(self) -> tuple[float, float]:
        """p50 and p99 [s]; NaN without data."""
        values = list(self._values)
        if not values:
            return float("nan"), float("nan")
        p50, p99 = np.percentile(values, (50, 99))
        return float(p50), float(p99)
