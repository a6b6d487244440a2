"""By how much the robot's clock is behind ours, from stamps and arrivals alone. No ROS."""

from __future__ import annotations

import math
from collections import deque

WINDOW_S = 10.0  # s, long enough for some message to come without delay
MAX_OFFSET_S = 0.05  # s; above it, recordings of the two computers do not fit together


class ClockOffset:
    """Least of (arrival - stamp) within the last ten seconds.

    A message comes with a delay d >= 0, so arrival - stamp = offset + d: the least is closest, and
    too large by the least delay. That the robot's clock jumped shows at once if forward, after the
    window if back.
    """

    def __init__(self) -> None:
        # (arrival, arrival - stamp) [s], the second rising: what is later and less replaces.
        self._least: deque[tuple[float, float]] = deque()

    def add(self, arrival_ns: int, stamp_ns: int) -> None:
        """A message stamped by the robot's clock arrived; ``arrival_ns`` is of ours."""
        arrival, difference = arrival_ns * 1e-9, (arrival_ns - stamp_ns) * 1e-9
        while self._least and self._least[-1][1] >= difference:
            self._least.pop()
        self._least.append((arrival, difference))
        while arrival - self._least[0][0] > WINDOW_S:
            self._least.popleft()

    @property
    def estimate(self) -> float:
        """Our clock minus the robot's [s]; NaN before the first message."""
        return self._least[0][1] if self._least else math.nan

    def problem(self) -> str:
        """What is wrong, in words for an operator; empty when nothing is."""
        if not abs(self.estimate) > MAX_OFFSET_S:
            return ""
        return (
            f"the robot's clock is {self.estimate:+.3f} s behind this computer's, wanted within "
            f"{MAX_OFFSET_S} s; synchronise them (chrony, PTP)"
        )
