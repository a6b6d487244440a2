"""Lockstep: simulated time waits for the controller at every control boundary. No ROS.

The protocol, seen from the simulated robot:
  HELD    no command has ever come. Time runs at real time and states are sent, but the robot stays
          as it was set up, so that what follows depends on the commands only and two runs are equal
          to the last bit.
  LOCKED  from the first command on. Its stamp says which state it answers; boundaries lie whole
          control periods after it. At a boundary time stops until a command arrives that carries
          the stamp of the state sent there. The robot is let go at the first boundary.
  FREE    the controller did not answer. Time runs at real time until it sends a command again.
"""

from __future__ import annotations

import enum
import threading


class LockstepState(enum.Enum):
    HELD = "held"
    LOCKED = "locked"
    FREE = "free"


class LockstepGate:
    """Where the boundaries are and whether the one of now has been answered."""

    def __init__(self, control_period_ns: int) -> None:
        self.control_period_ns = control_period_ns
        self.state = LockstepState.HELD
        self.missed = 0  # boundaries given up
        self._condition = threading.Condition()
        self._answered_ns = -1  # newest stamp that a command carried
        self._phase_ns = 0  # a stamp on the grid of boundaries

    def answer(self, stamp_ns: int) -> None:
        """A command arrived that answers the state stamped ``stamp_ns``."""
        with self._condition:
            if self.state is not LockstepState.LOCKED:
                # The controller counts its periods from the state it answered, so the grid starts
                # there.
                self.state, self._phase_ns = LockstepState.LOCKED, stamp_ns
            self._answered_ns = max(self._answered_ns, stamp_ns)
            self._condition.notify_all()

    def at_boundary(self, now_ns: int) -> bool:
        """Whether a command must have answered the state of ``now_ns`` before time goes on."""
        with self._condition:
            return (
                self.state is LockstepState.LOCKED
                and now_ns > self._phase_ns
                and (now_ns - self._phase_ns) % self.control_period_ns == 0
            )

    def wait(self, now_ns: int, timeout: float) -> bool:
        """Wait, at most ``timeout`` [s], until the state of ``now_ns`` is answered; was it?"""
        with self._condition:
            return self._condition.wait_for(lambda: self._answered_ns >= now_ns, timeout)

    def postpone(self, step_ns: int) -> None:
        """The state of this boundary was not sent, so nobody can answer: move the grid a step."""
        with self._condition:
            self._phase_ns += step_ns

    def give_up(self) -> None:
        """Nobody answers: let time run until the next command."""
        with self._condition:
            self.state = LockstepState.FREE
            self.missed += 1

    def hold(self) -> None:
        """Back to the beginning, for a robot that was set up anew."""
        with self._condition:
            self.state = LockstepState.HELD
