"""The control loop's time: absolute deadlines on the monotonic clock, and what really happened.

Deadlines lie on a fixed grid, so the loop does not drift. A tick that ends after its deadline is an
overrun; grid points that passed meanwhile are skipped and counted, never made up for.
"""

from __future__ import annotations

import ctypes
import errno
import gc
import math
import os
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass, field

from policy_controller.inbox import StateInbox

_CLOCK_MONOTONIC = 1
_TIMER_ABSTIME = 1
_MCL_CURRENT, _MCL_FUTURE = 1, 2
_libc = ctypes.CDLL(None, use_errno=True)


class _Timespec(ctypes.Structure):
    _fields_ = [("seconds", ctypes.c_long), ("nanoseconds", ctypes.c_long)]


def sleep_until(deadline_ns: int) -> None:
    """Sleep until the monotonic clock (time.monotonic_ns) shows `deadline_ns`."""
    deadline = _Timespec(*divmod(deadline_ns, 1_000_000_000))
    while True:
        error = _libc.clock_nanosleep(
            _CLOCK_MONOTONIC, _TIMER_ABSTIME, ctypes.byref(deadline), None
        )
        if error == 0:
            return
        if error != errno.EINTR:
            raise OSError(error, f"clock_nanosleep: {os.strerror(error)}")


class Histogram:
    """Distribution of durations: 20 classes per decade from 1 us to 10 s, so quantiles are within
    12 %.

    Adding is constant in time and memory.
    """

    _PER_DECADE, _DECADES, _LEAST = 20, 7, 1e-6

    def __init__(self) -> None:
        self._counts = [0] * (self._PER_DECADE * self._DECADES + 1)
        self.count = 0
        self.maximum = 0.0

    def add(self, seconds: float) -> None:
        """Count one duration; what is below or above the classes goes into the nearest one."""
        place = self._PER_DECADE * math.log10(max(seconds, self._LEAST) / self._LEAST)
        self._counts[min(math.ceil(place), len(self._counts) - 1)] += 1
        self.count += 1
        self.maximum = max(self.maximum, seconds)

    def quantile(self, share: float) -> float:
        """Upper edge of the class in which the quantile lies, s; 0 if nothing was added."""
        below, wanted = 0, share * self.count
        for index, count in enumerate(self._counts):
            below += count
            if below >= wanted and self.count:
                return min(self._LEAST * 10.0 ** (index / self._PER_DECADE), self.maximum)
        return 0.0


@dataclass
class LoopStatistics:
    """What happened since the loop was started.

    jitter: s, how much the time between the beginnings of two ticks differs from the period.
    lateness: s, from grid point to beginning.
    duration: s, of a tick. missed: grid points skipped.
    overruns: ticks that ended after their deadline, which is the next grid point.
    """

    jitter: Histogram = field(default_factory=Histogram)
    lateness: Histogram = field(default_factory=Histogram)
    duration: Histogram = field(default_factory=Histogram)
    last_period: float = 0.0
    last_duration: float = 0.0
    ticks: int = 0
    missed: int = 0
    overruns: int = 0
    consecutive_overruns: int = 0


class DeadlineLoop:
    """Calls a function once every period from a thread of its own, until it is stopped."""

    def __init__(
        self, period_ns: int, tick: Callable[[int], None], begin: Callable[[], None] = lambda: None
    ):
        """tick(now_ns): called at every grid point. begin(): called once in the new thread."""
        self._period_ns = period_ns
        self._tick = tick
        self._begin = begin
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._run, name="control")
        self.statistics = LoopStatistics()

    def start(self) -> None:
        """Start the thread; the first tick comes one period later."""
        self._thread.start()

    def stop(self) -> None:
        """End after the tick that is being carried out; does not return before."""
        self._stop.set()
        self._thread.join()

    def _run(self) -> None:
        self._begin()
        statistics, period_ns = self.statistics, self._period_ns
        deadline_ns = time.monotonic_ns() + period_ns
        last_ns = None
        while not self._stop.is_set():
            sleep_until(deadline_ns)
            now_ns = time.monotonic_ns()
            statistics.lateness.add((now_ns - deadline_ns) / 1e9)
            if last_ns is not None:
                statistics.last_period = (now_ns - last_ns) / 1e9
                statistics.jitter.add(abs(statistics.last_period - self._period_ns / 1e9))
            last_ns = now_ns
            self._tick(now_ns)
            end_ns = time.monotonic_ns()
            statistics.last_duration = (end_ns - now_ns) / 1e9
            statistics.duration.add(statistics.last_duration)
            statistics.ticks += 1
            deadline_ns = self._next_deadline(deadline_ns, end_ns)

    def _next_deadline(self, deadline_ns: int, end_ns: int) -> int:
        """First grid point after the end of the tick; counts the ones that it missed."""
        skipped = max(0, (end_ns - deadline_ns) // self._period_ns)
        self.statistics.missed += skipped
        self.statistics.overruns += skipped > 0
        self.statistics.consecutive_overruns = (
            self.statistics.consecutive_overruns + 1 if skipped else 0
        )
        return deadline_ns + (skipped + 1) * self._period_ns


class LockstepLoop:
    """Calls a function for every state that is one control period newer than the last one used.

    No clock is involved: simulated time stands still until the answer has arrived.
    """

    _POLL = 0.1  # s, how often the stop request is looked at while no state comes

    def __init__(
        self,
        period_ns: int,
        tick: Callable[[int], None],
        inbox: StateInbox,
        begin: Callable[[], None] = lambda: None,
    ):
        """tick(now_ns): now_ns is the stamp of the state. begin(): called once in the new
        thread."""
        self._period_ns = period_ns
        self._tick = tick
        self._inbox = inbox
        self._begin = begin
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._run, name="control")
        self.statistics = LoopStatistics()

    def start(self) -> None:
        """Start the thread; the first tick answers the first state."""
        self._thread.start()

    def stop(self) -> None:
        """End after the tick that is being carried out; does not return before."""
        self._stop.set()
        self._thread.join()

    def _run(self) -> None:
        self._begin()
        statistics = self.statistics
        last_ns = None
        while not self._stop.is_set():
            due_ns = None if last_ns is None else last_ns + self._period_ns - 1000
            stamp_ns = self._inbox.wait_for_stamp(last_ns, due_ns, self._POLL)
            if stamp_ns is None:
                continue
            if last_ns is not None:
                statistics.last_period = (stamp_ns - last_ns) / 1e9
                statistics.jitter.add(abs(statistics.last_period - self._period_ns / 1e9))
            last_ns = stamp_ns
            begin_ns = time.monotonic_ns()
            self._tick(stamp_ns)
            statistics.last_duration = (time.monotonic_ns() - begin_ns) / 1e9
            statistics.duration.add(statistics.last_duration)
            statistics.ticks += 1


def request_priority(priority: int) -> str:
    """Give the calling thread SCHED_FIFO of priority 1 to 99, and one less to all other threads.

    The others matter too: the middleware's threads bring the state, and the executor's thread may
    hold the interpreter's lock. 0 leaves the scheduling alone. Returns an empty text, or why it was
    not permitted and what to do.
    """
    if priority <= 0:
        return ""
    own = threading.get_native_id()
    for thread in map(int, os.listdir("/proc/self/task")):
        rank = priority if thread == own else max(priority - 1, 1)
        try:
            os.sched_setscheduler(thread, os.SCHED_FIFO, os.sched_param(rank))
        except ProcessLookupError:
            continue  # it has ended meanwhile
        except OSError as error:
            return (
                f"no real-time priority {priority} ({error}): the loop may be late under load; "
                "give the process CAP_SYS_NICE or an rtprio limit, or set real_time_priority to 0"
            )
    return ""


def lock_memory() -> str:
    """Keep the memory of the process from being paged out; returns as request_priority does."""
    if _libc.mlockall(_MCL_CURRENT | _MCL_FUTURE) != 0:
        error = os.strerror(ctypes.get_errno())
        return (
            f"memory is not locked ({error}): paging may delay the loop; give the process "
            "CAP_IPC_LOCK or a memlock limit, or set lock_memory to false"
        )
    return ""


def freeze_garbage() -> None:
    """Take everything that exists now out of the garbage collector's work, until gc.unfreeze."""
    gc.collect()
    gc.freeze()
