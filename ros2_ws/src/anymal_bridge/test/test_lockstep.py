"""The lockstep protocol without ROS: where boundaries lie and what releases them."""

import threading

import pytest

from anymal_bridge.lockstep import LockstepGate, LockstepState

PERIOD = 20_000_000
STEP = 2_500_000


def boundaries(gate: LockstepGate, first: int, last: int, answer: bool = True) -> list[int]:
    """Steps first..last at which time has to wait; each is answered."""
    result = []
    for k in range(first, last + 1):
        gate.begin(k * STEP)
        if gate.at_boundary():
            result.append(k)
            if answer:
                assert gate.answer(k * STEP)
    return result


def locked_gate(step: int) -> LockstepGate:
    """Locked by an answer to the state of ``step``, which is also the newest one."""
    gate = LockstepGate(PERIOD)
    gate.begin(step * STEP)
    assert gate.answer(step * STEP)
    assert gate.state is LockstepState.LOCKED
    return gate


def test_held_until_the_first_command():
    gate = LockstepGate(PERIOD)
    assert gate.state is LockstepState.HELD
    assert boundaries(gate, 1, 20) == []


def test_boundaries_lie_whole_periods_after_the_answered_state():
    assert boundaries(locked_gate(3), 3, 36) == [11, 19, 27, 35]


def test_late_first_answer_keeps_the_grid_of_its_state():
    """Time ran on while it was under way."""
    gate = LockstepGate(PERIOD)
    boundaries(gate, 1, 14)
    gate.answer(3 * STEP)
    assert boundaries(gate, 15, 30) == [19, 27]


def test_answer_off_the_grid_moves_it():
    """The controller missed the state of step 11 and answered 12: its next one is 20."""
    gate = locked_gate(3)
    assert boundaries(gate, 4, 12, answer=False) == [11]
    gate.answer(12 * STEP)
    assert boundaries(gate, 13, 30) == [20, 28]


def test_only_an_answer_to_the_newest_state_releases_it():
    gate = locked_gate(1)
    gate.begin(9 * STEP)
    assert not gate.wait(timeout=0.0) and not gate.is_answered()
    gate.answer(1 * STEP)  # once more
    assert not gate.wait(timeout=0.0) and not gate.is_answered()
    gate.answer(9 * STEP)
    assert gate.wait(timeout=0.0) and gate.is_answered()


@pytest.mark.parametrize("stamp", [0, 4 * STEP, 1_700_000_000 * 10**9])
def test_stamp_of_no_state_is_refused(stamp):
    """Zero, the future, or the time of the wall: nothing is locked or released by it."""
    gate = LockstepGate(PERIOD)
    gate.begin(3 * STEP)
    assert not gate.answer(stamp)
    assert gate.state is LockstepState.HELD


def test_waiting_thread_is_woken_by_the_answer():
    gate = locked_gate(1)
    gate.begin(9 * STEP)
    answers = []
    thread = threading.Thread(target=lambda: answers.append(gate.wait(timeout=30.0)))
    thread.start()
    gate.answer(9 * STEP)
    thread.join()
    assert answers == [True]


def test_time_runs_free_after_a_missed_boundary_and_locks_again():
    gate = locked_gate(1)
    gate.begin(9 * STEP)
    gate.give_up()
    assert gate.state is LockstepState.FREE and gate.missed == 1
    assert boundaries(gate, 10, 99) == []
    gate.answer(99 * STEP)
    assert gate.state is LockstepState.LOCKED
    assert boundaries(gate, 100, 110) == [107]


def test_lost_state_moves_the_grid():
    """The controller counts from the state it got, one step later."""
    gate = locked_gate(1)
    gate.begin(9 * STEP)
    gate.postpone(STEP)
    assert not gate.at_boundary()
    assert boundaries(gate, 10, 30) == [10, 18, 26]
