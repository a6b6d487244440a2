"""The control thread without DDS: what goes wrong around a tick ends in damping and is reported."""

from __future__ import annotations

import struct
import threading

import pytest

pytest.importorskip("anymal_msgs")

from policy_controller.control_thread import ControlThread, Outlet  # noqa: E402
from policy_controller.inbox import StateInbox  # noqa: E402
from policy_controller.motion import MotionState  # noqa: E402

pytestmark = pytest.mark.ros


class Harness:
    """A control thread in lockstep whose reading and publishing can be made to fail."""

    def __init__(self, rig):
        self.results, self.reports = [], []
        self.publish_error: Exception | None = None
        self.read_error: Exception | None = None
        self.stamp_ns = 10**9
        self._rig = rig
        self._ticked = threading.Event()
        self._inbox = StateInbox()
        self.thread = ControlThread(
            rig.controller,
            self._inbox,
            Outlet(self._publish, self._report, lambda: None),
            lockstep=True,
        )
        self.thread._reader = self  # gives the rig's healthy state in place of a message

    def read(self, content, received_ns):
        if self.read_error:
            raise self.read_error
        return self._rig.state(stamp_ns=received_ns)

    def _publish(self, result, state_stamp_ns, begin_ns):
        if self.publish_error:
            error, self.publish_error = self.publish_error, None
            raise error
        self.results.append((result, state_stamp_ns))
        self._ticked.set()

    def _report(self, text):
        self.reports.append(text)
        self._ticked.set()

    def step(self):
        self._ticked.clear()
        content = b"\0\1\0\0" + struct.pack("<iI", *divmod(self.stamp_ns, 10**9))
        self._inbox.put(content, None)
        assert self._ticked.wait(60.0)
        self.stamp_ns += 20_000_000


@pytest.fixture
def harness(rig):
    harness = Harness(rig)
    harness.thread.start()
    for _ in range(5):
        harness.step()
    assert harness.thread.request(MotionState.STAND).accepted
    harness.step()
    assert harness.thread.motion == MotionState.STAND_UP
    yield harness
    harness.thread.stop()


def test_command_answers_the_newest_state(harness):
    harness.step()
    result, stamp_ns = harness.results[-1]
    assert stamp_ns == harness.stamp_ns - 20_000_000 and (result.command.kp == 200.0).all()


def test_failure_to_publish_is_a_fault_that_the_next_tick_publishes(harness):
    harness.publish_error = RuntimeError("publisher is gone")
    harness.step()
    assert "publisher is gone" in harness.reports[-1]
    harness.step()
    result = harness.results[-1][0]
    assert result.motion == MotionState.FAULT and result.reasons == ("INTERNAL_ERROR",)
    assert "RuntimeError: publisher is gone" in result.detail
    assert (result.command.kp == 0.0).all()


def test_message_that_cannot_be_read_is_a_fault_in_the_same_tick(harness):
    harness.read_error = RuntimeError("bad bytes")
    harness.step()
    while not harness.results or harness.results[-1][0].motion != MotionState.FAULT:
        harness._ticked.wait(60.0)
    result, stamp_ns = harness.results[-1]
    assert "STATE_MALFORMED" in result.reasons and "bad bytes" in result.detail
    assert stamp_ns == harness.stamp_ns - 20_000_000
    assert harness.thread.bad_states == 1


def test_exception_of_the_control_step_is_reported_with_its_traceback(harness, rig):
    rig.controller._take_sample = None
    harness.step()
    assert "TypeError" in harness.reports[-1]
    rig.controller._machine.fault()
    assert harness.thread.motion == MotionState.FAULT


def test_requests_go_to_the_controller(harness):
    assert harness.thread.emergency_stop().accepted
    harness.step()
    assert harness.results[-1][0].reasons == ("EMERGENCY_STOP",)
    assert harness.thread.clear_fault().accepted
    harness.step()
    assert harness.results[-1][0].motion == MotionState.PASSIVE


def test_thread_can_be_started_again(harness):
    harness.thread.stop()
    before = harness.thread.statistics.ticks
    harness.thread.start()
    while harness.results[-1][1] != harness.stamp_ns - 20_000_000:
        harness._ticked.wait(60.0)
    harness.step()
    assert harness.thread.statistics.ticks < before
