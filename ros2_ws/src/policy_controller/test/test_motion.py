"""Motion states: which request leads where, and how the joints get there."""

from __future__ import annotations

import math

import numpy as np
import pytest

from policy_controller.motion import MotionSettings, MotionState, Trajectory
from policy_controller.sample import LoopHealth

DEFAULT_POSE = np.array((0.0, 0.4, -0.8, 0.0, 0.4, -0.8, 0.0, -0.4, 0.8, 0.0, -0.4, 0.8))
S = MotionState
PERIOD = 0.02


def targets(rig, start=0):
    return np.array([result.command.position for result in rig.results[start:]])


def test_trajectory_speed_and_rest():
    start, goal = np.zeros(12), np.linspace(-2.0, 1.0, 12)
    trajectory = Trajectory(start, goal, rate=1.5, min_duration=0.5)
    # greatest speed of the quintic is 15/8 of the mean speed
    assert trajectory.duration == pytest.approx(15.0 / 8.0 * 2.0 / 1.5)
    times = np.linspace(0.0, trajectory.duration, 2001)
    poses = np.array([trajectory.sample(t) for t in times])
    speed = np.abs(np.diff(poses, axis=0)) / np.diff(times)[:, None]
    assert speed.max() == pytest.approx(1.5, rel=1e-3)
    assert speed[0].max() < 1e-4 and speed[-1].max() < 1e-4
    np.testing.assert_array_equal(poses[0], start)
    np.testing.assert_allclose(trajectory.sample(99.0), goal)


def test_short_trajectory_keeps_its_least_duration():
    assert Trajectory(np.zeros(12), np.full(12, 0.01), 1.5, 1.0).duration == 1.0


def test_stand_up_starts_at_the_measured_pose(rig):
    rig.tick()
    measured = rig.position.copy()
    assert rig.controller.request(S.STAND_UP).accepted
    result = rig.tick()
    assert result.motion == S.STAND_UP
    np.testing.assert_allclose(result.command.position, measured, atol=1e-12)
    np.testing.assert_array_equal(result.command.kp, 200.0)
    np.testing.assert_array_equal(result.command.kd, 5.0)


def test_stand_up_is_smooth_and_ends_in_the_default_pose(rig):
    rig.stand()
    np.testing.assert_allclose(rig.tick().command.position, DEFAULT_POSE)
    moving = targets(rig, 1)
    speed = np.abs(np.diff(moving, axis=0)) / PERIOD
    assert 0.7 < speed.max() <= 0.8 + 1e-9
    acceleration = np.abs(np.diff(moving, n=2, axis=0)) / PERIOD**2
    assert acceleration.max() < 5.0  # no step in the speed, not even at the first tick


def test_stand_up_folds_the_legs_first_when_they_are_far_away(rig):
    rig.position = np.tile((0.5, 1.5, 0.5), 4)
    rig.tick()
    rig.controller.request(S.STAND)
    rig.run_until(S.STAND)
    folded = np.abs(
        targets(rig)
        - (-0.05, 1.57, -2.75, 0.05, 1.57, -2.75, -0.05, -1.57, 2.75, 0.05, -1.57, 2.75)
    )
    assert folded.max(axis=1).min() < 1e-6


def test_stand_up_from_near_the_default_pose_is_direct(rig):
    rig.position = DEFAULT_POSE + 0.2
    rig.tick()
    rig.controller.request(S.STAND)
    rig.run_until(S.STAND)
    assert np.abs(targets(rig, 1) - DEFAULT_POSE).max() <= 0.2 + 1e-9


def test_scripted_motions_bound_the_torque_they_ask_for(rig):
    """Blocked joints, which give way by a hair only: kp |target - q| stays at 0.8 * 80 N m."""
    start = rig.position.copy()
    rig.tick()
    rig.controller.request(S.STAND)
    for tick in range(300):
        rig.position = start + 1e-9 * (tick % 2)
        result = rig.tick()
    assert result.motion == S.STAND_UP
    asked = [np.abs(r.command.kp * (r.command.position - start)).max() for r in rig.results]
    assert max(asked) == pytest.approx(64.0)


def test_joint_that_does_not_arrive_keeps_the_robot_in_stand_up(rig):
    rig.tick()
    rig.controller.request(S.STAND)
    for tick in range(300):
        rig.position[4] = 0.9 + 1e-9 * (tick % 2)  # blocked 0.5 rad away, its encoder alive
        result = rig.tick()
    assert result.motion == S.STAND_UP and "not yet near the default pose" in result.detail
    assert not rig.controller.request(S.WALK).accepted
    assert rig.controller.request(S.LIE_DOWN).accepted
    rig.run_until(S.PASSIVE)


def reach(rig, state):
    """Bring a rig into a motion state."""
    if state == S.STAND_UP:
        rig.tick()
        rig.controller.request(S.STAND)
        rig.tick()
    elif state == S.STAND:
        rig.stand()
    elif state == S.WALK:
        rig.walk()
    elif state == S.LIE_DOWN:
        rig.stand()
        rig.controller.request(S.LIE_DOWN)
        rig.tick()
    elif state == S.FAULT:
        rig.tick()
        rig.controller.emergency_stop()
        rig.tick()
    else:
        rig.tick()
    assert rig.controller.motion == state


ENDS = {
    # state now: {request: motion state in which the robot ends, None = refused}
    S.PASSIVE: {
        S.PASSIVE: S.PASSIVE,
        S.STAND_UP: S.STAND,
        S.STAND: S.STAND,
        S.WALK: None,
        S.LIE_DOWN: None,
    },
    S.STAND_UP: {
        S.PASSIVE: S.PASSIVE,
        S.STAND_UP: S.STAND,
        S.STAND: S.STAND,
        S.WALK: None,
        S.LIE_DOWN: S.PASSIVE,
    },
    S.STAND: {
        S.PASSIVE: S.PASSIVE,
        S.STAND_UP: S.STAND,
        S.STAND: S.STAND,
        S.WALK: S.WALK,
        S.LIE_DOWN: S.PASSIVE,
    },
    S.WALK: {
        S.PASSIVE: S.PASSIVE,
        S.STAND_UP: S.STAND,
        S.STAND: S.STAND,
        S.WALK: S.WALK,
        S.LIE_DOWN: S.PASSIVE,
    },
    S.LIE_DOWN: {
        S.PASSIVE: S.PASSIVE,
        S.STAND_UP: None,
        S.STAND: None,
        S.WALK: None,
        S.LIE_DOWN: S.PASSIVE,
    },
    S.FAULT: {state: None for state in S},
}


@pytest.mark.parametrize(
    ("now", "wanted", "end"),
    [(now, wanted, end) for now, row in ENDS.items() for wanted, end in row.items()],
    ids=lambda value: getattr(value, "name", "refused"),
)
def test_request(rig, now, wanted, end):
    reach(rig, now)
    answer = rig.controller.request(wanted)
    assert answer.accepted == (end is not None) and answer.message
    if end is None:
        assert rig.controller.motion == now
        return
    seen = [rig.tick().motion for _ in range(400)]
    assert seen[-1] == end
    if now == S.WALK and end == S.PASSIVE:
        assert list(dict.fromkeys(seen)) == [S.WALK, S.STAND, S.LIE_DOWN, S.PASSIVE]


def test_fault_cannot_be_requested(rig):
    rig.tick()
    answer = rig.controller.request(S.FAULT)
    assert not answer.accepted and "emergency_stop" in answer.message


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        (dict(joint_position=DEFAULT_POSE + np.eye(12)[8] * 0.31), "LH_KFE is 0.31 rad from"),
        (
            dict(base_orientation=np.array((math.sin(0.18), 0, 0, math.cos(0.18)))),
            "tilt is 0.36 rad",
        ),
        (dict(foot_contact=np.array((True, False, True, False))), "contact of RF_FOOT, RH_FOOT"),
    ],
)
def test_walk_is_refused_away_from_standing(rig, changes, message):
    rig.stand()
    for angle in (0.12, 0.24):  # no jump of the orientation
        rig.tick(
            rig.state(base_orientation=np.array((math.sin(angle / 2), 0, 0, math.cos(angle / 2))))
        )
    rig.tick(rig.state(**changes))
    answer = rig.controller.request(S.WALK)
    assert not answer.accepted and message in answer.message
    assert rig.controller.motion == S.STAND


def test_standing_up_is_refused_while_a_guard_is_tripped(rig):
    rig.tick(health=LoopHealth(command_publishers=2))
    assert rig.controller.motion == S.PASSIVE  # nothing to latch, but nothing begins either
    answer = rig.controller.request(S.STAND)
    assert not answer.accepted and "SECOND_PUBLISHER" in answer.message
    rig.tick()
    assert rig.controller.request(S.STAND).accepted


def test_requests_before_the_first_tick_are_refused(rig):
    assert not rig.controller.request(S.STAND).accepted


def test_first_target_of_walk_is_the_pose_held_before(rig):
    rig.walk(0.5, ticks=1)
    held, first = rig.results[-2].command.position, rig.results[-1].command.position
    # weight of the policy at the first tick: 3 s^2 - 2 s^3, s = 0.02 / 0.5
    assert np.abs(first - held).max() <= 0.5 * (3 * 0.04**2 - 2 * 0.04**3)


def test_take_over_is_limited_in_speed(make_rig):
    rig = make_rig()
    rig.controller._policy = lambda observation: np.ones(12, dtype=np.float32)
    start = len(rig.results)
    rig.walk(0.5, ticks=25)
    speed = np.abs(np.diff(targets(rig, start), axis=0))[-24:] / PERIOD
    s = np.arange(2, 26) * PERIOD / 0.5
    weight = s * s * (3.0 - 2.0 * s)
    with np.errstate(divide="ignore"):
        assert (speed.max(axis=1) <= 3.0 / (1.0 - weight) + 1e-9).all()
    np.testing.assert_allclose(rig.results[-1].command.position, DEFAULT_POSE + 0.5)


def test_policy_has_the_joints_alone_after_the_take_over(rig):
    rig.walk(0.5, ticks=60)
    result = rig.results[-1]
    np.testing.assert_allclose(result.command.position, DEFAULT_POSE + 0.5 * result.action)


def test_gains_go_over_to_the_policys_and_back(rig):
    rig.walk(ticks=50)
    kp, kd = (
        np.array([getattr(r.command, gain)[0] for r in rig.results[-51:]]) for gain in ("kp", "kd")
    )
    np.testing.assert_allclose(kp[:26], np.linspace(200.0, 85.0, 26))  # 0.5 s
    np.testing.assert_allclose(kd[:26], np.linspace(5.0, 0.6, 26))
    assert (kp[26:] == 85.0).all() and (kd[26:] == 0.6).all()
    rig.controller.request(S.STAND)
    rig.run_until(S.STAND)
    back = [rig.results[-1].command.kp[0], *(rig.tick().command.kp[0] for _ in range(30))]
    np.testing.assert_allclose(back[:25], np.linspace(85.0, 200.0, 26)[1:])
    assert back[-1] == 200.0


def test_leaving_walk_stops_before_standing(rig):
    rig.walk(0.75, ticks=60)
    rig.controller.request(S.STAND)
    start = len(rig.results)
    rig.velocity = np.full(12, 1.0)  # feet not quiet
    for _ in range(60):
        rig.give(0.75)
        result = rig.tick()
    assert result.motion == S.WALK and "stopping" in result.detail
    speeds = [r.velocity_command[0] for r in rig.results[start:]]
    np.testing.assert_allclose(np.diff(speeds)[:11], -3.0 * PERIOD, atol=1e-12)
    assert speeds[-1] == 0.0
    rig.velocity = np.zeros(12)
    rig.run_until(S.STAND)
    assert len(rig.results) - start - 60 == pytest.approx(0.4 / PERIOD, abs=1)  # settle_time
    rig.tick()
    walked, stood = rig.results[-3].command.position, rig.results[-2].command.position
    np.testing.assert_allclose(stood, walked, atol=1e-12)


def test_standing_can_be_asked_for_on_the_way_to_lying_down(rig):
    rig.walk()
    rig.controller.request(S.PASSIVE)
    rig.run_until(S.STAND)
    assert rig.controller.request(S.STAND).accepted
    assert {rig.tick().motion for _ in range(200)} == {S.STAND}


def test_stopping_ends_after_its_timeout(rig):
    rig.walk()
    rig.velocity = np.full(12, 1.0)
    rig.controller.request(S.STAND)
    start = len(rig.results)
    rig.run_until(S.STAND)
    assert (len(rig.results) - start) * PERIOD == pytest.approx(3.0, abs=2 * PERIOD)


def test_a_robot_off_the_ground_is_not_quiet(rig):
    rig.walk()
    rig.controller.request(S.STAND)
    for _ in range(100):
        result = rig.tick(rig.state(foot_contact=np.array((True, True, True, False))))
    assert result.motion == S.WALK


def test_lying_down_is_slow_and_ends_damped(rig):
    rig.stand()
    rig.controller.request(S.LIE_DOWN)
    start = len(rig.results) - 1
    rig.run_until(S.PASSIVE)
    lying = targets(rig, start)[:-1]
    assert np.abs(np.diff(lying, axis=0)).max() / PERIOD <= 0.8 + 1e-9
    np.testing.assert_allclose(lying[-1][:3], (-0.05, 1.57, -2.75))
    result = rig.results[-1]
    assert (result.command.kp == 0.0).all() and (result.command.kd == 10.0).all()


@pytest.mark.parametrize(("name", "value"), [("damping", 0.0), ("takeover_time", math.inf)])
def test_bad_setting_is_refused(make_rig, name, value):
    with pytest.raises(ValueError, match=f"{name}: found {value!r}, allowed"):
        make_rig(motion=MotionSettings(**{name: value}))
