"""The loop's grid and statistics on real threads; nothing depends on the machine's speed."""

from __future__ import annotations

import os
import struct
import threading
import time

import numpy as np
import pytest

from policy_controller.inbox import StateInbox, read_stamp
from policy_controller.loop import (
    DeadlineLoop,
    Histogram,
    LockstepLoop,
    lock_memory,
    request_priority,
    sleep_until,
)

PERIOD_NS = 5_000_000


def run_loop(ticks, work=lambda count: None):
    """Begin times of that many ticks, and the loop."""
    begins, done = [], threading.Event()

    def tick(now_ns):
        begins.append(now_ns)
        work(len(begins))
        if len(begins) == ticks:
            done.set()

    loop = DeadlineLoop(PERIOD_NS, tick)
    loop.start()
    assert done.wait(60.0)
    loop.stop()
    return np.array(begins[:ticks]), loop


def test_sleep_until_never_returns_early():
    for _ in range(20):
        deadline = time.monotonic_ns() + 1_000_000
        sleep_until(deadline)
        assert time.monotonic_ns() >= deadline
    sleep_until(time.monotonic_ns() - 10**9)  # in the past: at once


def test_ticks_lie_on_one_grid_without_drift():
    """Tick k begins at or after its grid point, so with s missed points it is in slot k + s."""
    rng = np.random.default_rng(0)
    begins, loop = run_loop(200, lambda count: time.sleep(rng.uniform(0.0, 0.003)))
    statistics = loop.statistics
    slots = (begins - begins[0]) / PERIOD_NS
    # lateness of the first tick is the only unknown of the grid
    offset = statistics.lateness.maximum * 1e9 / PERIOD_NS
    assert slots[-1] + offset >= 199 and slots[-1] - offset <= 199 + statistics.missed
    assert statistics.ticks >= 200


def test_missed_slots_are_skipped_not_made_up_for():
    """One tick of 4.5 periods: four grid points pass, then one tick per period goes on."""
    slow = {10: 0.0225}
    begins, loop = run_loop(20, lambda count: time.sleep(slow.get(count, 0.0)))
    assert loop.statistics.missed >= 4 and loop.statistics.overruns >= 1
    after = np.diff(begins[10:])
    lateness = loop.statistics.lateness.maximum * 1e9
    assert (after >= PERIOD_NS - lateness - 1e5).all()  # no burst


def test_consecutive_overruns_are_counted_and_reset():
    seen = []
    loop = None

    def work(count):
        if loop is not None:
            seen.append(loop.statistics.consecutive_overruns)
        time.sleep(0.0075 if count <= 4 else 0.0)

    begins, done = [], threading.Event()

    def tick(now_ns):
        begins.append(now_ns)
        work(len(begins))
        if len(begins) >= 30:
            done.set()

    loop = DeadlineLoop(PERIOD_NS, tick)
    loop.start()
    assert done.wait(60.0)
    loop.stop()
    assert seen[:5] == [0, 1, 2, 3, 4]
    assert 0 in seen[5:]


def test_begin_runs_once_in_the_loops_thread():
    threads, done = [], threading.Event()
    loop = DeadlineLoop(
        PERIOD_NS,
        lambda now_ns: (threads.append(threading.get_ident()), done.set()),
        begin=lambda: threads.append(threading.get_ident()),
    )
    loop.start()
    assert done.wait(60.0)
    loop.stop()
    assert len(set(threads)) == 1 and threads[0] != threading.get_ident()


def test_histogram_quantiles():
    histogram = Histogram()
    assert histogram.quantile(0.5) == 0.0
    values = np.random.default_rng(1).lognormal(-7.0, 1.0, 20000)
    for value in values:
        histogram.add(value)
    for share in (0.01, 0.5, 0.99):
        exact = np.quantile(values, share)
        # a class is 10^(1/20) = 1.122 wide
        assert exact * 0.999 <= histogram.quantile(share) <= exact * 1.123
    assert histogram.maximum == values.max() and histogram.count == 20000


def test_histogram_takes_anything():
    histogram = Histogram()
    for value in (0.0, -1.0, 1e-9, 1e3):
        histogram.add(value)
    assert histogram.count == 4 and histogram.quantile(1.0) == 10.0


def make_message(stamp_ns, order="<"):
    """A serialised message that begins with a header."""
    encapsulation = b"\0\1\0\0" if order == "<" else b"\0\0\0\0"
    return encapsulation + struct.pack(order + "iI", *divmod(stamp_ns, 10**9)) + b"rest"


@pytest.mark.parametrize("order", ["<", ">"])
def test_stamp_of_a_serialised_message(order):
    assert read_stamp(make_message(12_345_678_901, order)) == 12_345_678_901


def test_inbox_keeps_the_newest():
    inbox = StateInbox()
    assert inbox.newest() is None
    for stamp in (100, 120, 110, 120, 130):
        inbox.put(make_message(stamp * 1_000_000), stamp)
    assert inbox.newest().stamp_ns == 130_000_000 and inbox.newest().received_ns == 130
    assert (inbox.received, inbox.dropped) == (5, 2)


def test_inbox_follows_a_clock_that_is_set_back():
    inbox = StateInbox()
    inbox.put(make_message(10 * 10**9), 1)
    inbox.put(make_message(10**9), 2)
    assert inbox.newest().stamp_ns == 10**9


def test_lockstep_ticks_once_per_period_of_stamps():
    """States every 2.5 ms, period 20 ms: ticks at 0, 20, 40, ..., then once after a reset."""
    inbox, ticks = StateInbox(), []
    changed = threading.Condition()

    def tick(now_ns):
        with changed:
            ticks.append(now_ns)
            changed.notify_all()

    def wait_for_ticks(count):
        with changed:
            assert changed.wait_for(lambda: len(ticks) >= count, 60.0)

    loop = LockstepLoop(20_000_000, tick, inbox)
    loop.start()
    start = 5_000_000_000
    for k in range(41):
        inbox.put(make_message(start + k * 2_500_000), None)
        if k % 8 == 0:
            wait_for_ticks(k // 8 + 1)
    inbox.put(make_message(1_000_000_000), None)
    wait_for_ticks(7)
    loop.stop()
    assert ticks == [start + k * 20_000_000 for k in range(6)] + [1_000_000_000]
    assert loop.statistics.ticks == 7


def test_real_time_that_is_not_permitted_is_said(monkeypatch):
    def refuse(*arguments):
        raise PermissionError("not permitted")

    monkeypatch.setattr(os, "sched_setscheduler", refuse)
    assert "give the process CAP_SYS_NICE" in request_priority(50)
    assert request_priority(0) == ""


def test_every_thread_gets_a_priority_and_the_calling_one_the_highest(monkeypatch):
    given, stop = {}, threading.Event()
    monkeypatch.setattr(
        os, "sched_setscheduler", lambda thread, policy, param: given.update({thread: param})
    )
    other = threading.Thread(target=stop.wait)
    other.start()
    assert request_priority(50) == ""
    stop.set()
    other.join()
    own = threading.get_native_id()
    assert given[own].sched_priority == 50 and given[other.native_id].sched_priority == 49
    assert {param.sched_priority for thread, param in given.items() if thread != own} == {49}


def test_memory_lock_says_what_is_wrong(monkeypatch):
    class Libc:
        def mlockall(self, flags):
            return -1

    monkeypatch.setattr("policy_controller.loop._libc", Libc())
    assert "CAP_IPC_LOCK" in lock_memory()
