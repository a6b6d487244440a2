"""The control thread: newest state in, one tick, command out. Requests come between two ticks.

No rclpy: what publishes is given from outside.
"""

from __future__ import annotations

import threading
import time
import traceback
from collections.abc import Callable
from dataclasses import dataclass

from policy_controller.controller import PolicyController, TickResult
from policy_controller.inbox import Arrival, StateInbox
from policy_controller.loop import DeadlineLoop, LockstepLoop, LoopStatistics
from policy_controller.messages import StateReader
from policy_controller.motion import Answer, MotionState
from policy_controller.sample import LoopHealth
from policy_controller.state import RobotState, VelocityCommand


@dataclass(frozen=True)
class Outlet:
    """Where the control thread's results go.

    publish(result, state_stamp_ns, begin_ns): every tick. state_stamp_ns: stamp of the state that
    the command answers, 0 if there is none. begin_ns: monotonic time at which the tick began.
    report(text): something went wrong; must not raise.
    begin(): called once in the new thread.
    """

    publish: Callable[[TickResult, int, int], None]
    report: Callable[[str], None]
    begin: Callable[[], None]


class ControlThread:
    """Ticks the controller. `command` and the numbers of publishers are set by the executor's
    thread."""

    def __init__(
        self,
        controller: PolicyController,
        inbox: StateInbox,
        outlet: Outlet,
        lockstep: bool,
    ):
        """lockstep: tick with the stamps of the states instead of the monotonic clock."""
        self.command: VelocityCommand | None = None
        self.command_publishers = self.state_publishers = 1
        self.bad_states = 0
        self._controller = controller
        self._inbox = inbox
        self._outlet = outlet
        self._reader = StateReader()
        self._lock = threading.Lock()
        self._arrival: Arrival | None = None
        self._state: RobotState | None = None
        self._state_error = ""
        self._lockstep = lockstep
        self._loop = self._make_loop()

    def _make_loop(self) -> DeadlineLoop | LockstepLoop:
        period_ns = round(self._controller.bundle.control_period * 1e9)
        if self._lockstep:
            return LockstepLoop(period_ns, self._tick, self._inbox, self._outlet.begin)
        return DeadlineLoop(period_ns, self._tick, self._outlet.begin)

    @property
    def statistics(self) -> LoopStatistics:
        """What the loop has measured since it was started."""
        return self._loop.statistics

    @property
    def motion(self) -> MotionState:
        """The motion state."""
        return self._controller.motion

    def start(self) -> None:
        """Begin to tick, with new statistics."""
        self._loop = self._make_loop()
        self._loop.start()

    def stop(self) -> None:
        """End after the present tick."""
        self._loop.stop()

    def request(self, wanted: MotionState) -> Answer:
        """PolicyController.request, between two ticks."""
        with self._lock:
            return self._controller.request(wanted)

    def emergency_stop(self) -> Answer:
        """PolicyController.emergency_stop, between two ticks."""
        with self._lock:
            return self._controller.emergency_stop()

    def clear_fault(self) -> Answer:
        """PolicyController.clear_fault, between two ticks."""
        with self._lock:
            return self._controller.clear_fault()

    def _tick(self, now_ns: int) -> None:
        begin_ns = time.monotonic_ns()
        try:
            self._read_state()
            health = LoopHealth(
                self.statistics.consecutive_overruns,
                self.command_publishers,
                self.state_publishers,
                self._state_error,
            )
            with self._lock:
                result = self._controller.tick(now_ns, self._state, self.command, health)
            if result.error:
                self._outlet.report(f"the control step raised; drives are damped\n{result.error}")
            stamp_ns = self._arrival.stamp_ns if self._arrival else 0
            self._outlet.publish(result, stamp_ns, begin_ns)
        except Exception as error:  # the thread must live to damp the drives
            with self._lock:
                self._controller.fail(f"{type(error).__name__}: {error}")
            self._outlet.report(
                f"the control thread failed; drives are damped\n{traceback.format_exc()}"
            )

    def _read_state(self) -> None:
        """Take the newest message, if there is one; an unusable one is an error of this tick."""
        arrival = self._inbox.newest()
        if arrival is None or arrival is self._arrival:
            return
        self._arrival = arrival
        try:
            self._state = self._reader.read(arrival.content, arrival.received_ns)
            self._state_error = ""
        except Exception as error:  # whatever is wrong with a message must end in damping
            self.bad_states += 1
            self._state_error = f"{error}"
            self._outlet.report(f"robot state cannot be used: {error}")
