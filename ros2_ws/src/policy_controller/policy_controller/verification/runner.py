"""Runner: one scenario through running nodes, recorded. Time is the stamp of the robot states, in
real time and in lockstep."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from rclpy.executors import SingleThreadedExecutor
from rclpy.node import Node

from policy_controller.verification.metrics import FALL_STATES, FAULT, tilt
from policy_controller.verification.operator import Operator, OperatorError
from policy_controller.verification.processes import NodeDiedError, NodeProcesses
from policy_controller.verification.recorder import Recorder, Topics
from policy_controller.verification.recording import NANO, Failure, Mark
from policy_controller.verification.scenario import MOTION_STATES, Scenario, Segment

START_TIMEOUT = 180.0  # s of wall time: the first start of a simulation compiles its kernels
SERVICE_TIMEOUT = 30.0  # s of wall time: loading a bundle replays its golden data
SILENCE_TIMEOUT = 3.0  # s of wall time without a new state or status
LOOK_PERIOD = 0.1  # s of robot time between looks at the whole state


class RunFailedError(RuntimeError):
    """The run cannot go on; `detail` has reason codes or log tails."""

    def __init__(self, reason: str, detail: str = "") -> None:
        super().__init__(reason)
        self.detail = detail


@dataclass(frozen=True)
class Look:
    """What the operator sees now."""

    segment: Segment
    index: int
    elapsed: float  # s of the segment's duration; 0 while the motion state is being waited for
    velocity: np.ndarray  # [3], m/s, m/s, rad/s, base frame, mean of the last half second
    motion_state: str
    reasons: tuple[str, ...]


@dataclass(frozen=True)
class Outcome:
    """What a run gave. `failure` is None if all segments ran to their end."""

    recorder: Recorder
    marks: tuple[Mark, ...]
    failure: Failure | None


class Runner:
    """Drives and records one run; use once."""

    def __init__(
        self,
        node: Node,
        topics: Topics,
        scenario: Scenario,
        processes: NodeProcesses,
        on_look: Callable[[Look], None],
    ) -> None:
        self._scenario, self._processes, self._on_look = scenario, processes, on_look
        self._recorder = Recorder(node, topics)
        self._operator = Operator(node, topics, self._wait)
        self._executor = SingleThreadedExecutor(context=node.context)
        self._executor.add_node(node)
        self._velocities: list[np.ndarray] = []
        self._next_command = self._next_look = 0
        self._segment: Segment | None = None
        self._index = 0
        self._start: int | None = None
        self._heard = (0, 0.0)  # states received, wall time of the last new one

    def bring_up(self) -> None:
        """Wait for the robot, then configure and activate the controller.

        Raises RunFailedError, OperatorError or NodeDiedError: nothing was run.
        """
        self._wait(lambda: self._recorder.stamp is not None, START_TIMEOUT, "the first robot state")
        self._operator.bring_up(SERVICE_TIMEOUT)
        self._wait(
            lambda: self._recorder.status is not None,
            SERVICE_TIMEOUT,
            "the first controller status",
        )

    @property
    def bundle(self) -> str:
        """SHA-256 of the bundle that the controller reports."""
        return self._recorder.status.bundle

    def run(self) -> Outcome:
        """Run all segments, or until something fails."""
        marks: list[Mark] = []
        for index, segment in enumerate(self._scenario.segments):
            self._index, self._segment = index, segment
            requested, self._start = self._recorder.stamp, None
            try:
                end = self._run_segment(segment)
            except (RunFailedError, OperatorError, NodeDiedError) as error:
                end = self._recorder.stamp
                marks.append(self._mark(requested, end, completed=False))
                failure = Failure(segment.name, str(error), getattr(error, "detail", ""))
                return Outcome(self._recorder, tuple(marks), failure)
            marks.append(self._mark(requested, end, completed=True))
        return Outcome(self._recorder, tuple(marks), None)

    def close(self) -> None:
        """Stop executing callbacks."""
        self._executor.shutdown()

    def _mark(self, requested: int, end: int, completed: bool) -> Mark:
        start = end if self._start is None else self._start
        steady = min(end, start + round(self._segment.settle / NANO))
        return Mark(self._segment.name, requested, start, steady, end, completed)

    def _run_segment(self, segment: Segment) -> int:
        """Run one segment; returns the stamp [ns] of its end."""
        requested = self._recorder.stamp
        if segment.request is not None:
            self._operator.request_motion_state(segment.request, SERVICE_TIMEOUT)
        if segment.reach is not None:
            wanted = MOTION_STATES.index(segment.reach)
            deadline = requested + round(segment.timeout / NANO)
            while self._recorder.status.motion_state != wanted:
                if self._recorder.stamp > deadline:
                    status = self._recorder.status
                    raise RunFailedError(
                        f"motion state {segment.reach.upper()} was not reached within "
                        f"{segment.timeout:g} s; the controller is in "
                        f"{MOTION_STATES[status.motion_state].upper()}",
                        status.detail,
                    )
                self._spin()
        self._start = self._recorder.stamp
        end = self._start + round(segment.duration / NANO)
        while self._recorder.stamp < end:
            self._spin()
        return end

    def _wait(self, condition: Callable[[], bool], timeout: float, what: str) -> None:
        """Spin until `condition` holds. Raises RunFailedError after `timeout` [s] of wall time."""
        deadline = time.monotonic() + timeout
        while not condition():
            if time.monotonic() > deadline:
                raise RunFailedError(
                    f"no sign of {what} within {timeout:g} s", self._processes.log_tails()
                )
            self._spin()

    def _spin(self) -> None:
        """One callback, then whatever is due."""
        self._executor.spin_once(timeout_sec=0.05)
        count, wall = self._recorder.state_count, time.monotonic()
        if count == self._heard[0]:
            self._processes.check()
            if self._segment is not None and wall - self._heard[1] > SILENCE_TIMEOUT:
                raise RunFailedError(
                    f"no robot state for {SILENCE_TIMEOUT:g} s", self._processes.log_tails()
                )
            return
        self._heard = (count, wall)
        stamp = self._recorder.stamp
        if stamp >= self._next_command:
            self._next_command = stamp + round(1.0 / self._scenario.command_rate / NANO)
            # before the first segment, and while a motion state is waited for, the command is to
            # stand still
            self._operator.command(
                self._segment.command if self._start is not None else (0.0, 0.0, 0.0)
            )
        if self._segment is not None and stamp >= self._next_look:
            self._next_look = stamp + round(LOOK_PERIOD / NANO)
            self._look(stamp)

    def _look(self, stamp: int) -> None:
        self._processes.check()
        status, state = self._recorder.status, self._recorder.latest_state()
        if status.reasons or status.motion_state == FAULT:
            raise RunFailedError(
                f"guard trip: {', '.join(status.reasons) or 'FAULT'}", status.detail
            )
        height, o = state.pose.pose.position.z, state.pose.pose.orientation
        angle = float(tilt(np.array([[o.x, o.y, o.z, o.w]]))[0])
        fall = self._scenario.fall
        if status.motion_state in FALL_STATES and (angle > fall.tilt or height < fall.height):
            raise RunFailedError(
                f"the robot fell: tilt {angle:.2f} rad, height {height:.2f} m", status.detail
            )
        twist = state.twist.twist
        self._velocities = [
            *self._velocities[-4:],
            np.array([twist.linear.x, twist.linear.y, twist.angular.z]),
        ]
        self._on_look(
            Look(
                segment=self._segment,
                index=self._index,
                elapsed=0.0 if self._start is None else (stamp - self._start) * NANO,
                velocity=np.mean(self._velocities, axis=0),
                motion_state=MOTION_STATES[status.motion_state],
                reasons=tuple(status.reasons),
            )
        )
