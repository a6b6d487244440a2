"""Lockstep: simulated time waits for the controller at every control boundary. No ROS.

The protocol, seen from the simulated robot:
  HELD    no command has ever come. Time runs at real time and states are sent, but the robot stays
          as it was set up, so that what follows depends on the commands only and two runs are equal
          to the last bit.
  LOCKED  from the first command on. The stamp of a command says which state it answers; the next
          boundary lies one control period after the newest state that was answered. There time
          stops until its state is answered. The robot is let go at the first boundary that was.
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
    """Where the boundaries are and whether the one of now has been answered.

    One thread sends states and waits; another tells the answers.
    """

    def __init__(self, control_period_ns: int) -> None:
        self.control_period_ns = control_period_ns
        self.state = LockstepState.HELD
        self.missed = 0  # boundaries given up
        self._condition = threading.Condition()
        self._now_ns = 0  # stamp of the newest state
        self._answered_ns = 0  # stamp of the newest state that was answered
        self._grid_ns = 0  # boundaries lie whole periods after it

    def begin(self, now_ns: int) -> None:
        """The state stamped ``now_ns`` is about to be sent."""
        with self._condition:
            self._now_ns = now_ns

    def answer(self, stamp_ns: int) -> bool:
        """A command arrived that says it answers the state of ``stamp_ns``; could that be?"""
        with self._condition:
            if not 0 < stamp_ns <= self._now_ns:
                return False
            if stamp_ns > self._answered_ns:
                self.state = LockstepState.LOCKED
                self._answered_ns = self._grid_ns = stamp_ns
                self._condition.notify_all()
            return True

    def at_boundary(self) -> bool:
        """Whether time must not go on before the newest state is answered."""
        with self._condition:
            return self._must_wait()

    def is_answered(self) -> bool:
        """Whether the newest state is answered."""
        with self._condition:
            return self._answered_ns == self._now_ns

    def wait(self, timeout: float) -> bool:
        """Wait, at most ``timeout`` [s], until time may go on; may it?"""
        with self._condition:
            return self._condition.wait_for(lambda: not self._must_wait(), timeout)

    def postpone(self, step_ns: int) -> None:
        """The state of this boundary was not sent, so nobody can answer: move the grid a step."""
        with self._condition:
            self._grid_ns += step_ns

    def give_up(self) -> None:
        """Nobody answers: let time run until the next command."""
        with self._condition:
            self.state = LockstepState.FREE
            self.missed += 1

    def hold(self) -> None:
        """Back to the beginning, for a robot that is as it was set up and gets no answer."""
        with self._condition:
            self.state = LockstepState.HELD

    def _must_wait(self) -> bool:
        since = self._now_ns - self._grid_ns
        locked = self.state is LockstepState.LOCKED
        return locked and since > 0 and since % self.control_period_ns == 0
