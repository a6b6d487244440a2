"""The absolute time grid of the real-time loop."""

import numpy as np
import pytest

from anymal_bridge.pacing import DeadlineGrid, Durations, SpeedLimit


def test_loop_with_random_work_does_not_drift():
    """10,000 slots of 5 ms with 1-3 ms of work end at 50 s exactly, none skipped (B30)."""
    grid = DeadlineGrid(period=0.005, catch_up=4, start=100.0)
    work = np.random.default_rng(0).uniform(0.001, 0.003, 10_000)
    now, periods = 100.0, 0
    for duration in work:
        now = max(now, grid.deadline())
        periods += grid.advance(now)
        now += duration
    assert periods == 10_000 and grid.skipped == 0
    assert grid.deadline() == pytest.approx(150.005)


@pytest.mark.parametrize(
    ("lateness", "periods", "skipped"),
    [(0.0, 1, 0), (0.004, 1, 0), (0.0051, 2, 0), (0.0199, 4, 0), (0.031, 4, 3)],
)
def test_late_loop_catches_up_and_gives_up_the_rest(lateness, periods, skipped):
    grid = DeadlineGrid(period=0.005, catch_up=4, start=0.0)
    assert grid.advance(0.005 + lateness) == periods
    assert grid.skipped == skipped
    # The grid itself stays where it was.
    assert grid.deadline() == pytest.approx(0.005 * (int(lateness / 0.005) + 2))


def test_percentiles():
    durations = Durations(size=100)
    for k in range(1000):
        durations.add(k)
    # The last hundred: 900..999.
    assert durations.percentiles() == (949.5, pytest.approx(998.01))


def test_speed_limit_makes_up_little_and_never_more():
    """100 steps of 0.1 s that cost nothing take 9.9 s, less at most what may be made up."""
    limit, now, waits = SpeedLimit(period=0.1, catch_up=0.25), 5.0, []
    for step in range(100):
        now += 0.2 if step == 50 else 10.0 if step == 80 else 0.0
        waits.append(limit.wait_time(now))
        now += waits[-1]
    assert sum(waits[:50]) == pytest.approx(4.9 - 0.25)
    assert sum(waits[50:80]) == pytest.approx(3.0 - 0.2)  # 0.2 s late: all made up
    assert sum(waits[80:]) == pytest.approx(1.9 - 0.25)  # 10 s late: 0.25 s of it
