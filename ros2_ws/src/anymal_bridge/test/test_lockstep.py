"""The lockstep protocol without ROS: where boundaries lie and what releases them."""

import threading

from anymal_bridge.lockstep import LockstepGate, LockstepState

PERIOD = 20_000_000
STEP = 2_500_000


def test_held_until_the_first_command():
    gate = LockstepGate(PERIOD)
    assert gate.state is LockstepState.HELD
    assert not any(gate.at_boundary(k * STEP) for k in range(20))


def test_boundaries_lie_whole_periods_after_the_answered_state():
    gate = LockstepGate(PERIOD)
    first = 3 * STEP
    gate.answer(first)
    assert gate.state is LockstepState.LOCKED
    boundaries = [k for k in range(40) if gate.at_boundary(k * STEP)]
    assert boundaries == [3 + 8, 3 + 16, 3 + 24, 3 + 32]


def test_only_the_stamp_of_the_boundary_releases_it():
    gate = LockstepGate(PERIOD)
    gate.answer(STEP)
    boundary = STEP + PERIOD
    assert not gate.wait(boundary, timeout=0.0)
    gate.answer(boundary - STEP)
    assert not gate.wait(boundary, timeout=0.0)
    gate.answer(boundary)
    assert gate.wait(boundary, timeout=0.0)


def test_waiting_thread_is_woken_by_the_answer():
    gate = LockstepGate(PERIOD)
    gate.answer(STEP)
    answers = []
    thread = threading.Thread(target=lambda: answers.append(gate.wait(STEP + PERIOD, timeout=30.0)))
    thread.start()
    gate.answer(STEP + PERIOD)
    thread.join()
    assert answers == [True]


def test_time_runs_free_after_a_missed_boundary_and_locks_again():
    gate = LockstepGate(PERIOD)
    gate.answer(STEP)
    gate.give_up()
    assert gate.state is LockstepState.FREE and gate.missed == 1
    assert not gate.at_boundary(STEP + PERIOD)
    gate.answer(100 * STEP)
    assert gate.state is LockstepState.LOCKED
    assert gate.at_boundary(100 * STEP + PERIOD)


def test_lost_state_moves_the_grid():
    """The controller counts from the state it got, one step later."""
    gate = LockstepGate(PERIOD)
    gate.answer(STEP)
    gate.postpone(STEP)
    assert not gate.at_boundary(STEP + PERIOD)
    assert gate.at_boundary(2 * STEP + PERIOD)
