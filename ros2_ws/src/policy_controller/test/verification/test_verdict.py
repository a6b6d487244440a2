"""The verdict: a good run passes, and each limit alone can fail it."""

from dataclasses import replace

import numpy as np
import pytest

from policy_controller.verification.metrics import measure
from policy_controller.verification.recording import window
from policy_controller.verification.scenario import MOTION_STATES
from policy_controller.verification.verdict import Check, judge


def state_of(recording, **changes):
    return replace(recording, state=replace(recording.state, **changes))


def fall(recording):
    position = recording.state.base_position.copy()
    position[3000:3100, 2] = 0.1
    return state_of(recording, base_position=position)


def guard_trip(recording):
    reasons = [()] * len(recording.status.stamp)
    reasons[200] = ("JOINT_VELOCITY",)
    return replace(recording, status=replace(recording.status, reasons=tuple(reasons)))


def fault_without_reason(recording):
    motion_state = recording.status.motion_state.copy()
    motion_state[-1] = MOTION_STATES.index("fault")
    return replace(recording, status=replace(recording.status, motion_state=motion_state))


def velocity_error(recording):
    velocity = recording.state.base_linear_velocity.copy()
    velocity[:, 1] += 0.21
    return state_of(recording, base_linear_velocity=velocity)


def yaw_error(recording):
    velocity = recording.state.base_angular_velocity.copy()
    velocity[:, 2] += 0.21
    return state_of(recording, base_angular_velocity=velocity)


def at_stop(recording):
    mark = recording.marks[3]
    return window(recording.state.stamp, mark.steady, mark.end)


def drift(recording):
    position, part = recording.state.base_position.copy(), at_stop(recording)
    position[part, 0] += np.linspace(0.0, 0.051, part.stop - part.start)
    return state_of(recording, base_position=position)


def restless(recording):
    velocity = recording.state.joint_velocity.copy()
    velocity[at_stop(recording)] = 0.11
    return state_of(recording, joint_velocity=velocity)


def low_swing(recording):
    feet = recording.state.foot_position.copy()
    feet[:, 3, 2] *= 0.5  # apex 0.035 m
    return state_of(recording, foot_position=feet)


def shuffle(recording):
    return state_of(recording, foot_contact=np.ones_like(recording.state.foot_contact))


def sunk_foot(recording):
    feet = recording.state.foot_position.copy()
    feet[1000:1010, 1, 2] = -0.0051
    return state_of(recording, foot_position=feet)


def gap(recording):
    keep = np.ones(len(recording.state.stamp), dtype=bool)
    keep[3000:3600] = False  # 1.5 s of 24 s
    return state_of(
        recording, **{name: getattr(recording.state, name)[keep] for name in vars(recording.state)}
    )


def cut_short(recording):
    *marks, last = recording.marks
    return replace(recording, marks=(*marks, replace(last, completed=False)))


CASES = {
    "falls": fall,
    "guard_trips": guard_trip,
    "velocity_rmse": velocity_error,
    "yaw_rate_rmse": yaw_error,
    "drift": drift,
    "joint_speed_rms": restless,
    "swing_apex": low_swing,
    "duty_factor": shuffle,
    "penetration": sunk_foot,
    "recorded": gap,
    "completed": cut_short,
}


@pytest.fixture
def verdict_of(scenario, limits, kinematics):
    return lambda recording: judge(measure(recording, scenario, limits, kinematics), scenario)


def test_good_run_passes_with_every_check(recording, verdict_of):
    verdict = verdict_of(recording)
    assert verdict.passed and verdict.failures == ()
    assert {check.key for check in verdict.checks if check.decides} == set(CASES)
    assert {check.key for check in verdict.checks if not check.decides} == {
        "stance_slip",
        "foot_agreement",
        "cut_share",
        "period_share",
        "tick_duration",
    }


@pytest.mark.parametrize("key", CASES)
def test_each_limit_alone_fails_the_run(key, recording, verdict_of):
    verdict = verdict_of(CASES[key](recording))
    assert not verdict.passed
    failed = {check.key for check in verdict.failures}
    consequences = {
        "duty_factor": {"swing_apex"},  # a foot that never lifts has no apex
        "completed": {"drift", "joint_speed_rms"},  # the last segment was not measured
    }
    assert failed == {key} | consequences.get(key, set())


def test_fault_counts_as_a_trip_even_without_a_reason(recording, verdict_of):
    (failure,) = verdict_of(fault_without_reason(recording)).failures
    assert (failure.key, failure.value, failure.where) == ("guard_trips", 1, "stop")


def test_row_names_number_limit_margin_and_place(recording, verdict_of):
    checks = {check.key: check for check in verdict_of(low_swing(recording)).checks}
    apex = checks["swing_apex"]
    assert (apex.limit, apex.unit, apex.where, apex.upper) == (0.04, "m", "RH_FOOT", False)
    assert apex.value == pytest.approx(0.035, abs=1e-4) and apex.margin == pytest.approx(
        -0.125, abs=1e-3
    )
    assert checks["velocity_rmse"].margin == pytest.approx(1.0)
    assert checks["falls"].margin is None


def test_targets_are_reported_and_do_not_decide(recording, verdict_of):
    slow = replace(
        recording.status,
        period=recording.status.period + 0.005,
        tick_duration=recording.status.tick_duration + 0.01,
    )
    verdict = verdict_of(replace(recording, status=slow))
    missed = {check.key for check in verdict.checks if not check.passed}
    assert {"period_share", "tick_duration"} <= missed and verdict.passed


@pytest.mark.parametrize("upper", [True, False])
def test_what_could_not_be_measured_does_not_pass(upper):
    assert not Check("key", "title", float("nan"), 1.0, "", upper, True, "").passed
