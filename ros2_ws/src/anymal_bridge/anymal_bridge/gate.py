"""The guard between several threads, and the watch that depends on none of them. No ROS.

Commands come in one thread, the robot's state in another. Each may be blocked at any time, so the
damping of a robot whose controller fell silent comes from a third, that of ``Watch``.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from .guard import Guard, GuardState, Output, Reason
from .joint_command import JointCommand
from .pacing import DeadlineGrid
from .robot_sample import RobotState


@dataclass(frozen=True)
class GateReport:
    """Where guard and robot stand at one moment."""

    state: GuardState
    reason: Reason | None
    detail: str
    clamped: dict[str, int]  # commands changed, by filter
    sent: int  # commands given to the robot so far
    output: Output | None  # newest since the last report, sent or in a dry run not


class Gate:
    """The one way to the robot: a command is checked and sent under one lock, so that none can
    overtake the damping that stops it.

    Nothing that may wait for long is done under this lock, but for sending itself.
    """

    def __init__(
        self,
        guard: Guard,
        send: Callable[[JointCommand], None],
        release: Callable[[], None],
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        """``send`` and ``release``: give the robot a command; leave it to others. ``clock``: s."""
        self.limits, self.dry_run = guard.limits, guard.dry_run
        self._guard, self._send, self._release, self._clock = guard, send, release, clock
        self._lock = threading.Lock()
        self._sent = 0
        self._output: Output | None = None

    def offer(self, command: JointCommand) -> None:
        """A command of the controller: to the robot as the guard lets it pass, or damping."""
        with self._lock:
            self._give(self._guard.offer(self._clock(), command))

    def stop(self, reason: Reason, detail: str) -> None:
        """Damping at once, latched; nothing when disarmed."""
        with self._lock:
            self._guard.stop(reason, detail)
            self._give(self._guard.watch(self._clock()))

    def look(self) -> None:
        """Damping when stopped or when something trips now; to be called all the time."""
        with self._lock:
            self._give(self._guard.watch(self._clock()))

    def arm(self) -> str | None:
        """``Guard.arm``."""
        with self._lock:
            return self._guard.arm(self._clock())

    def disarm(self) -> None:
        """Send nothing more; the robot's own controllers may take it over."""
        with self._lock:
            self._guard.disarm()
            self._release()

    def observe_state(self, stamp_ns: int, position: np.ndarray, state: RobotState) -> None:
        """``Guard.observe_state``, now."""
        with self._lock:
            self._guard.observe_state(self._clock(), stamp_ns, position, state)

    def observe_publishers(self, commanders: int, drivers: int) -> None:
        """``Guard.observe_publishers``."""
        with self._lock:
            self._guard.observe_publishers(commanders, drivers)

    def is_driving(self) -> bool:
        """``Guard.is_driving``."""
        with self._lock:
            return self._guard.is_driving()

    def report(self) -> GateReport:
        """Where it stands now."""
        with self._lock:
            guard, output = self._guard, self._output
            self._output = None
            return GateReport(
                guard.state, guard.reason, guard.detail, dict(guard.counts), self._sent, output
            )

    def standing(self) -> tuple[GuardState, Reason | None, str]:
        """State, reason and detail of the guard."""
        with self._lock:
            return self._guard.state, self._guard.reason, self._guard.detail

    def _give(self, output: Output | None) -> None:
        if output is None:
            return
        self._output = output
        if output.send:
            self._send(output.command)
            self._sent += 1


class Watch:
    """Calls ``look`` once per period in a thread of its own, at absolute times.

    What any other thread waits for does not hold it up, with one exception that Python makes: a
    call into C that keeps the interpreter's lock.
    """

    def __init__(self, period: float, look: Callable[[], None]) -> None:
        """``period``: s."""
        self._period, self._look = period, look
        self._lateness = 0.0
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._run, name="watch")

    def start(self) -> None:
        self._thread.start()

    def stop(self) -> None:
        """End the thread; ``look`` is not called after this returns."""
        self._stop.set()
        if self._thread.is_alive():
            self._thread.join()

    def take_lateness(self) -> float:
        """The greatest lateness [s] since this was last called."""
        lateness, self._lateness = self._lateness, 0.0
        return lateness

    def _run(self) -> None:
        grid = DeadlineGrid(self._period, 1, time.monotonic())
        while not self._stop.wait(max(grid.deadline() - time.monotonic(), 0.0)):
            now = time.monotonic()
            self._lateness = max(self._lateness, now - grid.deadline())
            grid.advance(now)
            self._look()
