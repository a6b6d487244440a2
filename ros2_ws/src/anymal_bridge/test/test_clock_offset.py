"""Offset of the robot's clock: found within the least delay, whatever the other delays are."""

import math

import numpy as np
import pytest

from anymal_bridge.clock_offset import ClockOffset

PERIOD_NS = 10_000_000


def test_offset_is_found_within_the_least_delay():
    """Delays of 0.3 ms and more, mostly much more; the robot is 2 s behind, or ahead."""
    random = np.random.default_rng(0)
    for offset in (2.0, -2.0):
        clock = ClockOffset()
        for k in range(2000):
            delay = 0.0003 + random.exponential(0.01)
            stamp_ns = k * PERIOD_NS + 10**18
            clock.add(stamp_ns + round((offset + delay) * 1e9), stamp_ns)
        assert 0.0003 <= clock.estimate - offset < 0.0006
        assert f"{offset:+.3f} s" in clock.problem()


def test_jump_of_the_robots_clock_is_followed():
    clock, seen = ClockOffset(), {}
    for k in range(4000):  # 40 s; the robot's clock steps back by 1 s at 10 s and forward at 30 s
        arrival_ns = k * PERIOD_NS
        clock.add(arrival_ns, arrival_ns - (10**9 if 1000 <= k < 3000 else 0))
        seen[k] = clock.estimate
    assert seen[999] == seen[1998] == 0.0
    assert seen[2001] == seen[2999] == 1.0
    assert seen[3000] == seen[3999] == 0.0


def test_clocks_that_agree_are_no_problem_and_nothing_is_known_before_the_first_message():
    clock = ClockOffset()
    assert math.isnan(clock.estimate) and clock.problem() == ""
    clock.add(10**9, 10**9 - 1_000_000)
    assert clock.estimate == pytest.approx(0.001) and clock.problem() == ""
