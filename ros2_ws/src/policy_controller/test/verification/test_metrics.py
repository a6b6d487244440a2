"""Measures of hand-made signals with known answers."""

from dataclasses import replace

import numpy as np
import pytest

from policy_controller.verification.gait import debounce, measure_gait, phases
from policy_controller.verification.metrics import find_falls, find_guard_trips, measure, tilt
from policy_controller.verification.recording import load_recording, save_recording, window
from policy_controller.verification.scenario import MOTION_STATES
from policy_controller.verification.timing import command_latency, measure_timing, spread

APEX, DUTY, STEP_RATE, RATE = 0.07, 0.6, 2.0, 400


def with_state(recording, **changes):
    return replace(recording, state=replace(recording.state, **changes))


def with_status(recording, **changes):
    return replace(recording, status=replace(recording.status, **changes))


@pytest.fixture
def measured(recording, scenario, limits, kinematics):
    return measure(recording, scenario, limits, kinematics)


def by_name(metrics):
    return {segment.name: segment for segment in metrics.segments}


def test_perfect_tracking_has_no_error(measured):
    forward = by_name(measured)["forward"]
    assert forward.velocity_rmse == pytest.approx(0.0, abs=1e-12)
    assert forward.yaw_rate_rmse == pytest.approx(0.0, abs=1e-12)
    assert forward.mean_velocity == pytest.approx((0.8, 0.0, 0.0))
    assert (forward.start, forward.steady) == pytest.approx((1.0, 5.0))


def test_rmse_of_offset_and_sine(recording, scenario, limits, kinematics):
    # vx off by 0.06, vy by 0.10 sin(w t): |e|^2 = 0.06^2 + 0.10^2 / 2 on average over whole
    # periods; yaw rate off by 0.03
    state = recording.state
    linear, angular = state.base_linear_velocity.copy(), state.base_angular_velocity.copy()
    time = recording.seconds(state.stamp)
    linear[:, 0] += 0.06
    linear[:, 1] += 0.10 * np.sin(2 * np.pi * 2.0 * time)
    angular[:, 2] -= 0.03
    metrics = measure(
        with_state(recording, base_linear_velocity=linear, base_angular_velocity=angular),
        scenario,
        limits,
        kinematics,
    )
    for name in ("forward", "turn"):
        assert by_name(metrics)[name].velocity_rmse == pytest.approx(
            np.sqrt(0.06**2 + 0.1**2 / 2), rel=1e-6
        )
        assert by_name(metrics)[name].yaw_rate_rmse == pytest.approx(0.03, rel=1e-6)


def test_settling_time_is_left_out(recording, scenario, limits, kinematics):
    linear = recording.state.base_linear_velocity.copy()
    mark = recording.marks[1]
    linear[window(recording.state.stamp, mark.start, mark.steady)] = 5.0
    metrics = measure(
        with_state(recording, base_linear_velocity=linear), scenario, limits, kinematics
    )
    assert by_name(metrics)["forward"].velocity_rmse == pytest.approx(0.0, abs=1e-12)


def test_drift_is_the_largest_excursion(recording, scenario, limits, kinematics):
    # out along y to 0.04 m and back to the start: the end point alone would show nothing
    mark = recording.marks[3]
    part = window(recording.state.stamp, mark.steady, mark.end)
    position = recording.state.base_position.copy()
    position[part, 1] += 0.04 * np.sin(np.pi * np.linspace(0.0, 1.0, part.stop - part.start))
    joint_velocity = recording.state.joint_velocity.copy()
    joint_velocity[part, 5] = 0.6  # one joint of twelve: rms = 0.6 / sqrt(12)
    metrics = measure(
        with_state(recording, base_position=position, joint_velocity=joint_velocity),
        scenario,
        limits,
        kinematics,
    )
    assert by_name(metrics)["stop"].drift == pytest.approx(0.04, rel=1e-4)
    assert by_name(metrics)["stop"].joint_speed_rms == pytest.approx(0.6 / np.sqrt(12))
    assert np.isnan(by_name(metrics)["forward"].drift) and np.isnan(
        by_name(metrics)["stop"].velocity_rmse
    )


def test_gait_of_the_hand_made_trot(measured):
    # one sample of 2.5 ms is the resolution: duty 1/200 of a step, apex cos(pi/2 / 80 samples)
    for foot in measured.feet:
        assert foot.swing_apex == pytest.approx(APEX, abs=1e-4)
        assert foot.swing_apex_lowest == pytest.approx(APEX, abs=1e-4)
        assert foot.duty_factor == pytest.approx(DUTY, abs=0.01)
        assert foot.step_frequency == pytest.approx(STEP_RATE, abs=0.02)
        assert foot.swings in (18, 19, 20)  # two windows of 5 s, 2 Hz, cut at the ends


def test_stance_slip_counts_contact_only(recording):
    velocity = np.zeros((len(recording.state.stamp), 4, 3))
    velocity[..., 0] = np.where(recording.state.foot_contact, 0.12, 9.0)
    velocity[..., 1] = np.where(recording.state.foot_contact, 0.05, 9.0)
    velocity[..., 2] = 7.0  # vertical speed is no slip
    mark = recording.marks[1]
    feet = measure_gait(
        recording.foot_names,
        recording.state,
        velocity,
        [window(recording.state.stamp, mark.steady, mark.end)],
    )
    assert [foot.stance_slip for foot in feet] == pytest.approx([0.13] * 4)


def test_foot_that_never_lifts_has_no_apex_and_full_duty(recording, scenario, limits, kinematics):
    contact = np.ones_like(recording.state.foot_contact)
    foot = measure(with_state(recording, foot_contact=contact), scenario, limits, kinematics).feet[
        0
    ]
    assert (foot.swings, foot.swing_apex, foot.duty_factor) == (0, 0.0, 1.0)


def test_chatter_is_not_a_step():
    stamp = np.arange(40) * 2_500_000
    contact = np.ones(40, dtype=bool)
    contact[8:12] = False  # 10 ms: chatter
    contact[20:34] = False  # 35 ms: a swing
    contact[26:28] = True  # 5 ms inside the swing: a graze
    clean = debounce(contact, stamp)
    assert phases(clean, False) == [(20, 34)]
    assert phases(contact, False) == [(8, 12), (20, 26), (28, 34)]  # the input is left alone
    assert phases(np.array([False, False]), True) == []


def test_penetration_is_the_deepest_of_each_foot(recording, scenario, limits, kinematics):
    feet = recording.state.foot_position.copy()
    feet[100, 2, 2] = -0.0037
    metrics = measure(with_state(recording, foot_position=feet), scenario, limits, kinematics)
    assert metrics.penetration == pytest.approx((0.0, 0.0, 0.0037, 0.0))


def test_heights_are_over_the_ground_below(recording, scenario, limits, kinematics):
    """On ground 0.4 m higher everywhere nothing changes but where it is."""
    before = measure(recording, scenario, limits, kinematics)
    base, feet = recording.state.base_position.copy(), recording.state.foot_position.copy()
    base[:, 2] += 0.4
    feet[:, :, 2] += 0.4
    ground = np.full_like(recording.state.ground_height, 0.4)
    raised = with_state(recording, base_position=base, foot_position=feet, ground_height=ground)
    after = measure(raised, scenario, limits, kinematics)
    assert after.falls == before.falls == ()
    assert after.penetration == pytest.approx(before.penetration, abs=1e-9)
    apexes = [[foot.swing_apex for foot in metrics.feet] for metrics in (after, before)]
    assert apexes[0] == pytest.approx(apexes[1])
    sunk = with_state(recording, ground_height=ground)
    assert measure(sunk, scenario, limits, kinematics).falls


def test_joint_extremes_and_margins(recording, scenario, limits, kinematics):
    torque, speed = recording.state.joint_torque.copy(), recording.state.joint_velocity.copy()
    position = recording.state.joint_position.copy()
    torque[500, 4], speed[600, 4], position[700, 4] = -66.0, -7.5, 2.9
    joint = measure(
        with_state(recording, joint_torque=torque, joint_velocity=speed, joint_position=position),
        scenario,
        limits,
        kinematics,
    ).joints[4]
    assert joint.name == "RF_HFE"
    assert (joint.torque, joint.torque_margin) == (66.0, 14.0)
    assert (joint.speed, joint.speed_margin) == (7.5, 1.0)
    assert joint.position_margin == pytest.approx(0.1)


def test_tilt_angle():
    # roll of 0.7 rad and yaw of 2 rad: yaw does not tilt
    assert tilt(
        np.array([[np.sin(0.35), 0, 0, np.cos(0.35)], [0, 0, np.sin(1), np.cos(1)]])
    ) == pytest.approx([0.7, 0.0])


def test_one_fall_is_one_event_and_only_while_standing(recording, scenario):
    position = recording.state.base_position.copy()
    position[3000:3200, 2] = 0.2
    fallen = with_state(recording, base_position=position)
    (event,) = find_falls(fallen, scenario.fall)
    assert (
        event.segment == "turn"
        and event.time == pytest.approx(7.5)
        and "height 0.20 m" in event.what
    )
    lying = np.full_like(recording.status.motion_state, MOTION_STATES.index("passive"))
    assert find_falls(with_status(fallen, motion_state=lying), scenario.fall) == ()
    orientation = recording.state.base_orientation.copy()
    orientation[4000:] = [np.sin(0.6), 0, 0, np.cos(0.6)]
    (event,) = find_falls(with_state(recording, base_orientation=orientation), scenario.fall)
    assert "tilt 1.20 rad" in event.what


def test_guard_trips_are_counted_when_they_appear(recording):
    reasons = [()] * len(recording.status.stamp)
    reasons[100:110] = [("TILT",)] * 10
    reasons[105] = ("TILT", "STATE_STALE")
    reasons[200] = ("TARGET_POSITION",)  # tolerated
    state = recording.status.motion_state.copy()
    state[300:] = MOTION_STATES.index("fault")
    trips = find_guard_trips(
        with_status(recording, reasons=tuple(reasons), motion_state=state), ("TARGET_POSITION",)
    )
    assert [(trip.what, trip.segment) for trip in trips] == [
        ("TILT", "forward"),
        ("STATE_STALE", "forward"),
        ("FAULT", "forward"),
    ]
    assert trips[0].time == pytest.approx(2.0003)


def test_tolerated_guards_are_counted_as_a_share(recording, scenario, limits, kinematics):
    reasons = [()] * len(recording.status.stamp)
    reasons[100:112] = [("TARGET_POSITION",)] * 12
    metrics = measure(with_status(recording, reasons=tuple(reasons)), scenario, limits, kinematics)
    assert metrics.cut_share == pytest.approx(12 / 1200)
    assert metrics.guard_trips == ()


def test_timing_statistics(recording):
    period = np.full_like(recording.status.period, 0.02)
    period[10:15] = 0.0221  # 5 of 1200 are 2.1 ms late
    period[0] = 0.0  # no predecessor
    overruns = np.zeros_like(recording.status.overruns)
    overruns[40:] = 3
    timing = measure_timing(with_status(recording, period=period, overruns=overruns), 0.002)
    assert timing.period.samples == len(period) - 1
    assert timing.period_share == pytest.approx(1 - 5 / (len(period) - 1))
    assert (timing.period.p50, timing.period.max, timing.overruns) == (0.02, 0.0221, 3)
    assert timing.tick.p99 == pytest.approx(0.0006)


def test_latency_joins_state_and_command_by_stamp(recording):
    assert command_latency(recording) == pytest.approx(0.0009)
    # a command whose state was not recorded is left out
    keep = np.ones(len(recording.state.stamp), dtype=bool)
    keep[80] = False  # the state of the tenth control step
    state = replace(
        recording.state, stamp=recording.state.stamp[keep], sent=recording.state.sent[keep]
    )
    assert len(command_latency(replace(recording, state=state))) == len(recording.command.stamp) - 1


def test_spread():
    values = spread(np.append(np.arange(101) / 100.0, np.nan))
    assert (values.samples, values.p50, values.p99, values.max) == (
        101,
        0.5,
        pytest.approx(0.99),
        1.0,
    )
    assert spread(np.array([])).samples == 0


def test_missing_states_lower_the_recorded_share(recording, scenario, limits, kinematics):
    assert measure(recording, scenario, limits, kinematics).recorded_share == 1.0
    keep = np.ones(len(recording.state.stamp), dtype=bool)
    keep[2000:2960] = False  # 2.4 s of 24 s
    names = [name for name in recording.state.__dataclass_fields__]
    lost = with_state(recording, **{name: getattr(recording.state, name)[keep] for name in names})
    assert measure(lost, scenario, limits, kinematics).recorded_share == pytest.approx(
        0.9, abs=1e-3
    )


def test_distance_and_duration(measured):
    assert measured.distance == pytest.approx(0.8 * 6.0, abs=0.1)
    assert measured.duration == pytest.approx(24.0, abs=0.01)


def test_recording_survives_the_file(recording, tmp_path):
    path = tmp_path / "run.npz"
    save_recording(recording, path)
    again = load_recording(path)
    np.testing.assert_array_equal(again.state.stamp, recording.state.stamp)
    assert again.state.stamp.dtype == np.int64
    np.testing.assert_array_equal(again.state.foot_position, recording.state.foot_position)
    assert again.marks == recording.marks and again.status.reasons == recording.status.reasons
