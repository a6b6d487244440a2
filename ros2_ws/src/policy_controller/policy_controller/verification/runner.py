"""Runner: one scenario through running nodes, recorded. Time is the stamp of the robot states, in
real time and in lockstep."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np
from rclpy.executors import SingleThreadedExecutor
from rclpy.node import Node

from policy_controller.verification.metrics import FALL_STATES, FAULT, tilt
from policy_controller.verification.operator import Operator, OperatorError
from policy_controller.verification.processes import NodeDiedError, NodeProcesses
from policy_controller.verification.recorder import Recorder, Topics, ground_heights
from policy_controller.verification.recording import NANO, Failure, Mark
from policy_controller.verification.relay import Relay
from policy_controller.verification.scenario import MOTION_STATES, Scenario, Segment

START_TIMEOUT = 180.0  # s of wall time: the first start of a simulation compiles its kernels
SERVICE_TIMEOUT = 30.0  # s of wall time: loading a bundle replays its golden data
QUIET_TIME = 1.0  # s of robot time before anything is asked; then no guard may trip
SHORT_QUIET_TIME = 0.2  # s, the same between two runs
QUIET_TIMEOUT = 10.0  # s of wall time for that
SILENCE_TIMEOUT = 3.0  # s of wall time without a new state or status
POLL_PERIOD = 0.005  # s of wall time
HELD_POLL_PERIOD = 0.0003  # s of wall time, while simulated time stands still
LOCKING_STEPS = 3  # until robot, controller and operator are in step after any pause
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


class RunWatcher(Protocol):
    """Who is told how the run goes on."""

    def on_look(self, look: Look) -> None:
        """About ten times a second of robot time."""

    def on_segment_end(self, look: Look, completed: bool) -> None:
        """A segment is over; `look` is the last one within it."""


@dataclass(frozen=True)
class Outcome:
    """What a run gave. `failure` is None if all segments ran to their end."""

    recorder: Recorder
    marks: tuple[Mark, ...]
    failure: Failure | None


class Runner:
    """Drives and records one run, and after `start_over` the next.

    `operator_node` and `recorder_node` are for the runs alone, in no executor.
    """

    def __init__(
        self,
        operator_node: Node,
        recorder_node: Node,
        topics: Topics,
        scenario: Scenario,
        processes: NodeProcesses,
        watcher: RunWatcher,
    ) -> None:
        self._scenario, self._processes, self._watcher = scenario, processes, watcher
        self._recorder = Recorder(recorder_node, topics)
        self._operator = Operator(operator_node, topics, self._wait)
        self._executor = SingleThreadedExecutor(context=operator_node.context)
        self._relay: Relay | None = None
        if topics.joint_commands != topics.robot_commands:
            self._relay = Relay(operator_node, topics.joint_commands, topics.robot_commands)
        self._executor.add_node(operator_node)
        self._velocities: list[np.ndarray] = []
        self._next_command = self._next_look = 0
        self._sent: tuple[float, float, float] | None = None  # newest velocity command
        self._segment: Segment | None = None
        self._index = 0
        self._start: int | None = None
        self._heard = {"robot state": (0, 0.0), "controller status": (0, 0.0)}  # count, wall time

    def bring_up(self) -> None:
        """Wait for the robot, configure and activate the controller, wait until nothing trips.

        Raises RunFailedError, OperatorError or NodeDiedError: nothing was run.
        """
        recorder = self._recorder
        self._wait(lambda: recorder.stamp is not None, START_TIMEOUT, "the first robot state")
        self._operator.bring_up(SERVICE_TIMEOUT)
        self._wait(lambda: recorder.status is not None, SERVICE_TIMEOUT, "a controller status")
        for topic, publishers in recorder.count_publishers().items():
            if publishers != 1:
                raise RunFailedError(
                    f"{publishers} nodes publish {topic}, allowed 1; end the other ones"
                )
        self._advance_until_quiet(QUIET_TIME)

    def start_over(self, scenario: Scenario, parameters: Mapping[str, Any]) -> None:
        """Make a simulated robot with `parameters`, and the controller, ready for another run.

        Raises as `bring_up`.
        """
        self._segment, self._start, self._velocities = None, None, []
        for _ in range(LOCKING_STEPS):
            self._advance()
        self._operator.start_over(parameters, SERVICE_TIMEOUT)
        # ground of a new shape is laid now, which the first time compiles kernels
        self._scenario, self._next_command = scenario, 0
        self._advance(START_TIMEOUT)
        self._advance_until_quiet(SHORT_QUIET_TIME)
        self._recorder.clear()
        self._next_command = self._next_look = self._recorder.stamp

    def _advance_until_quiet(self, duration: float) -> None:
        """Let `duration` [s] of robot time pass, and more until no guard trips."""
        recorder = self._recorder
        begin, deadline = recorder.stamp, time.monotonic() + QUIET_TIMEOUT
        while (recorder.stamp - begin) * NANO < duration or self._tripped():
            self._advance()
            if time.monotonic() > deadline:
                reasons, detail = ", ".join(recorder.status.reasons), recorder.status.detail
                raise RunFailedError(f"guards trip before anything was asked: {reasons}", detail)

    def arm_bridge(self) -> None:
        """Let commands pass to the robot. Raises RunFailedError or OperatorError."""
        self._operator.arm_bridge(SERVICE_TIMEOUT)

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
                self._watcher.on_segment_end(self._view(end), completed=False)
                marks.append(self._mark(requested, end, completed=False))
                failure = Failure(segment.name, str(error), getattr(error, "detail", ""))
                return Outcome(self._recorder, tuple(marks), failure)
            self._watcher.on_segment_end(self._view(end), completed=True)
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
        if segment.robot:
            self._operator.set_robot(segment.robot, SERVICE_TIMEOUT)
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
                self._advance()
        self._start = self._recorder.stamp
        end = self._start + round(segment.duration / NANO)
        while self._recorder.stamp < end:
            self._advance()
        return end

    def _wait(self, condition: Callable[[], bool], timeout: float, what: str) -> None:
        """Wait until `condition` holds; in lockstep time stands still meanwhile, once the
        controller commands. Raises RunFailedError after `timeout` [s] of wall time, NodeDiedError
        at once."""
        deadline = time.monotonic() + timeout
        while not condition():
            if time.monotonic() > deadline:
                raise RunFailedError(
                    f"no sign of {what} within {timeout:g} s", self._processes.log_tails()
                )
            self._processes.check()
            self._listen()
            if self._relay is None:
                self._attend()

    def _advance(self, timeout: float = SILENCE_TIMEOUT) -> None:
        """Let time go on, do what is due, look around: in lockstep to the next control step, where
        time stands still again, else for a moment. Raises RunFailedError if in `timeout` [s] of
        wall time nothing comes."""
        if self._relay is None:
            self._listen()
        else:
            self._relay.release()
            self._wait(self._is_held, timeout, "the next control step")
            self._catch_up(timeout)
        self._check_signs_of_life(timeout)
        self._attend()
        stamp = self._recorder.stamp
        if self._segment is not None and stamp >= self._next_look:
            self._next_look = stamp + round(LOOK_PERIOD / NANO)
            self._look(stamp)

    def _is_held(self) -> bool:
        """Whether time stands still."""
        return self._relay.stamp is not None

    def _catch_up(self, timeout: float) -> None:
        """Take all that was sent until time stood still. Nothing is executed meanwhile: the
        controller may need the processor for it."""
        recorder, held = self._recorder, self._relay.stamp
        deadline = time.monotonic() + timeout
        while recorder.stamp < held or (recorder.status_stamp or 0) < held:
            if time.monotonic() > deadline:
                break  # the signs of life tell what is missing
            time.sleep(HELD_POLL_PERIOD)
            recorder.poll()

    def _listen(self) -> None:
        """Wait a moment, and take what has arrived."""
        self._executor.spin_once(timeout_sec=POLL_PERIOD)
        self._recorder.poll()

    def _attend(self) -> None:
        """Send a velocity command if one is due."""
        stamp = self._recorder.stamp
        silent = self._segment is not None and self._segment.silent
        if stamp is not None and stamp >= self._next_command and not silent:
            period = round(1.0 / self._scenario.command_rate / NANO)
            self._next_command = max(self._next_command, stamp - period) + period
            # before the first segment, and while a motion state is waited for, the command is to
            # stand still
            command = self._segment.command if self._start is not None else (0.0, 0.0, 0.0)
            self._operator.command(command)
            if self._relay is not None and command != self._sent:
                self._operator.wait_until_heard(SERVICE_TIMEOUT)
            self._sent = command

    def _check_signs_of_life(self, timeout: float) -> None:
        """Raise if a process has ended, or if nothing new was heard of one for too long."""
        wall = time.monotonic()
        counts = (self._recorder.state_count, self._recorder.status_count)
        for (name, (before, when)), count in zip(self._heard.items(), counts, strict=True):
            if count != before:
                self._heard[name] = (count, wall)
                continue
            self._processes.check()
            if self._segment is not None and wall - when > timeout:
                raise RunFailedError(f"no {name} for {timeout:g} s", self._processes.log_tails())

    def _look(self, stamp: int) -> None:
        status, state = self._recorder.status, self._recorder.latest_state()
        tripped = self._tripped()
        if tripped or status.motion_state == FAULT:
            raise RunFailedError(f"guard trip: {', '.join(tripped) or 'FAULT'}", status.detail)
        (ground,), o = ground_heights(state, ["ground"]), state.pose.pose.orientation
        height = state.pose.pose.position.z - ground
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
        self._watcher.on_look(self._view(stamp))

    def _tripped(self) -> list[str]:
        """Reason codes of the newest status that the scenario does not tolerate."""
        reasons = self._recorder.status.reasons
        return [code for code in reasons if code not in self._scenario.tolerated]

    def _view(self, stamp: int) -> Look:
        status = self._recorder.status
        return Look(
            segment=self._segment,
            index=self._index,
            elapsed=0.0 if self._start is None else (stamp - self._start) * NANO,
            velocity=np.mean(self._velocities or [np.zeros(3)], axis=0),
            motion_state=MOTION_STATES[status.motion_state],
            reasons=tuple(status.reasons),
        )
