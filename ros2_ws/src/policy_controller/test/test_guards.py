"""Every guard: quiet just inside its limit, trips just outside of it, and is proven by mutation.

`TRIPS` holds for each reason how to provoke it from a walking robot. The mutation test takes
exactly that guard away and shows that the trip test then fails.
"""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np
import pytest

from policy_controller import safety
from policy_controller.bundle import ActionScaling
from policy_controller.guard import GUARDS
from policy_controller.limits import SafetyLimits
from policy_controller.motion import MotionState
from policy_controller.sample import LoopHealth, Outcome, Reason

LIMITS = SafetyLimits()
WALK_TICKS = 50


def at(index, value, size=12):
    """A vector of zeros with one other value."""
    return np.where(np.arange(size) == index, value, 0.0)


def roll(angle):
    """Quaternion of a rotation about x, xyzw."""
    return np.array((math.sin(angle / 2), 0.0, 0.0, math.cos(angle / 2)))


class FakePolicy:
    """Gives the actions it was told to, in a loop."""

    def __init__(self, *actions):
        self.actions, self.calls = actions, 0

    def __call__(self, observation):
        action = self.actions[self.calls % len(self.actions)]
        self.calls += 1
        return np.full(12, action, dtype=np.float32)


def tick(rig, health=None, step_ns=20_000_000, **changes):
    rig.tick(rig.state(**changes), health, step_ns)


def run(rig, count, *command, **changes):
    for _ in range(count):
        rig.give(*command)
        tick(rig, **changes)


def roll_slowly(rig, angle):
    """Roll to an angle at a rate that the angular velocity explains."""
    for value in np.arange(0.02, angle, 0.02):
        tick(rig, base_orientation=roll(value), base_angular_velocity=np.array((1.0, 0.0, 0.0)))
    tick(rig, base_orientation=roll(angle), base_angular_velocity=np.array((1.0, 0.0, 0.0)))


def use(rig, *actions, ticks=1):
    """Replace the policy under the walking controller."""
    rig.controller._policy = FakePolicy(*actions)
    run(rig, ticks, 0.0)


def hold_reading(rig, swing, last_digit=0.0):
    """One joint reads the same, up to `last_digit` [rad], while its action swings to both sides."""
    rig.controller._policy = FakePolicy(*[swing] * 4, *[-swing] * 4)
    for tick_number in range(40):
        rig.give(0.0)
        position = rig.position.copy()
        position[4] = 0.4 + last_digit * (tick_number % 2)
        tick(rig, joint_position=position)


def lose_commands(rig, seconds, *then):
    for _ in range(round(seconds / 0.02)):
        tick(rig)
    for command in then:
        run(rig, 1, *command)


def break_observation(rig, value):
    """An error of the observation code itself; bad inputs are stopped before they get there."""
    build = rig.controller._observe.build
    rig.controller._observe.build = lambda *inputs: np.where(
        np.arange(50) == 20, np.float32(value), build(*inputs)
    )
    tick(rig)


def stale(seconds):
    """One tick whose state is that old and whose stamps are in step."""

    def provoke(rig):
        tick(rig, stamp_ns=rig.now_ns + 20_000_000 - round(seconds * 1e9))

    return provoke


TRIPS = {
    # reason: (inside, outside): each a function of a walking rig
    Reason.STATE_STALE: (stale(0.049), stale(0.051)),
    Reason.STATE_MALFORMED: (
        lambda rig: tick(rig, LoopHealth(state_error="")),
        lambda rig: tick(rig, LoopHealth(state_error="joint RF_KFE is missing")),
    ),
    Reason.STATE_NONFINITE: (
        lambda rig: tick(rig, joint_velocity=at(5, 1e-300)),
        lambda rig: tick(rig, joint_velocity=at(5, math.nan)),
    ),
    Reason.CLOCK_JUMP: (
        lambda rig: tick(rig, step_ns=99_000_000, stamp_ns=rig.now_ns + 98_000_000),
        lambda rig: tick(rig, step_ns=101_000_000, stamp_ns=rig.now_ns + 100_000_000),
    ),
    Reason.OVERRUN: (
        lambda rig: tick(rig, LoopHealth(consecutive_overruns=4)),
        lambda rig: tick(rig, LoopHealth(consecutive_overruns=5)),
    ),
    Reason.ROBOT_ERROR: (lambda rig: tick(rig, robot_ok=0), lambda rig: tick(rig, robot_ok=-2)),
    Reason.SECOND_PUBLISHER: (
        lambda rig: tick(rig, LoopHealth(command_publishers=1)),
        lambda rig: tick(rig, LoopHealth(command_publishers=2)),
    ),
    Reason.QUATERNION_NORM: (
        lambda rig: tick(rig, base_orientation=np.array((0.0, 0.0, 0.0, 1.009))),
        lambda rig: tick(rig, base_orientation=np.array((0.0, 0.0, 0.0, 0.989))),
    ),
    Reason.ORIENTATION_JUMP: (
        lambda rig: tick(rig, base_orientation=roll(0.24)),
        lambda rig: tick(rig, base_orientation=roll(0.26)),
    ),
    Reason.TILT: (lambda rig: roll_slowly(rig, 0.69), lambda rig: roll_slowly(rig, 0.71)),
    Reason.BASE_VELOCITY: (
        lambda rig: tick(rig, base_linear_velocity=np.array((2.0, 2.0, 0.9))),  # norm 2.97
        lambda rig: tick(rig, base_linear_velocity=np.array((2.0, 2.0, 1.1))),  # norm 3.03
    ),
    Reason.VELOCITY_SIGN: (
        lambda rig: run(rig, 150, 0.5, base_linear_velocity=np.array((-0.04, 0.0, 0.0))),
        lambda rig: run(rig, 150, 0.5, base_linear_velocity=np.array((-0.06, 0.0, 0.0))),
    ),
    Reason.JOINT_POSITION: (
        lambda rig: tick(rig, joint_position=at(4, 2.09)),
        lambda rig: tick(rig, joint_position=at(4, 2.11)),
    ),
    Reason.JOINT_VELOCITY: (
        lambda rig: tick(rig, joint_velocity=at(8, -10.1)),  # 1.2 * 8.5 = 10.2
        lambda rig: tick(rig, joint_velocity=at(8, -10.3)),
    ),
    Reason.JOINT_TORQUE: (
        lambda rig: tick(rig, joint_torque=at(2, 95.0)),  # 1.2 * 80 = 96
        lambda rig: tick(rig, joint_torque=at(2, 97.0)),
    ),
    Reason.TORQUE_SATURATED: (
        lambda rig: run(rig, 24, 0.0, joint_torque=at(2, 77.0)),  # 0.95 * 80 = 76, 0.5 s
        lambda rig: run(rig, 26, 0.0, joint_torque=at(2, 77.0)),
    ),
    Reason.JOINT_STUCK: (
        lambda rig: hold_reading(rig, 0.124),  # 0.8 * 2 * 0.124 = 0.198, limit 0.2 rad
        lambda rig: hold_reading(rig, 0.126),  # 0.202
    ),
    Reason.COMMAND_NONFINITE: (
        lambda rig: run(rig, 1, 0.0, 0.0, 1.0),
        lambda rig: run(rig, 1, 0.0, 0.0, math.inf),
    ),
    Reason.COMMAND_STALE: (
        lambda rig: lose_commands(rig, 0.18),
        lambda rig: lose_commands(rig, 0.22),
    ),
    Reason.COMMAND_NOT_REARMED: (
        lambda rig: lose_commands(rig, 0.4, (0.0,), (0.5,)),
        lambda rig: lose_commands(rig, 0.4, (0.5,)),
    ),
    Reason.COMMAND_RANGE: (
        lambda rig: run(rig, 1, 1.0, -0.5, 1.0),
        lambda rig: run(rig, 1, 1.01, -0.5, 1.0),
    ),
    Reason.OBSERVATION_NONFINITE: (
        lambda rig: break_observation(rig, 1e30),
        lambda rig: break_observation(rig, math.inf),
    ),
    Reason.ACTION_NONFINITE: (
        lambda rig: use(rig, 0.9),
        lambda rig: use(rig, math.nan),
    ),
    Reason.ACTION_CLIPPED: (lambda rig: use(rig, 1.0), lambda rig: use(rig, 1.01)),
    Reason.ACTION_JUMP: (
        lambda rig: use(rig, 0.79, -0.79, ticks=2),
        lambda rig: use(rig, 0.81, -0.81, ticks=2),
    ),
    Reason.ACTION_OSCILLATION: (
        lambda rig: use(rig, 0.19, -0.19, ticks=30),
        lambda rig: use(rig, 0.21, -0.21, ticks=30),
    ),
    Reason.TARGET_POSITION: (
        lambda rig: use(rig, 0.87),  # HAA: 0 + 0.8 * 0.87 = 0.696, limit 0.7
        lambda rig: use(rig, 0.88),  # 0.704
    ),
}


@pytest.fixture
def walking(make_rig):
    """A function that gives a robot in the middle of WALK at zero command."""

    def make():
        rig = make_rig(action=ActionScaling(scale=0.8, clip=1.0, applied_by="controller"))
        rig.walk(ticks=WALK_TICKS)
        return rig

    return make


def check_trip(rig, reason):
    """Provoke one reason; in the same tick the outcome of its guard must show in the result."""
    before = len(rig.results)
    TRIPS[reason][1](rig)
    tripped = [result for result in rig.results[before:] if reason.value in result.reasons]
    assert tripped, f"{reason} did not trip"
    result, outcome = tripped[0], next(g.outcome for g in GUARDS if g.reason == reason)
    assert reason.value in result.detail
    if outcome == Outcome.DAMPING:
        assert result.outcome == Outcome.DAMPING and result.motion == MotionState.FAULT
        assert (result.command.kp == 0.0).all() and (result.command.kd == 10.0).all()
    else:
        assert result.outcome >= outcome and result.motion == MotionState.WALK


def test_every_guard_has_one_reason_and_one_trip():
    reasons = [guard.reason for guard in GUARDS]
    assert sorted(reasons) == sorted(TRIPS)
    assert set(Reason) == {*reasons, *safety.EVENTS}


@pytest.mark.parametrize("reason", TRIPS)
def test_guard_is_quiet_inside_its_limit(walking, reason):
    rig = walking()
    TRIPS[reason][0](rig)
    assert reason.value not in rig.results[-1].reasons
    assert rig.results[-1].motion == MotionState.WALK, rig.results[-1].detail


@pytest.mark.parametrize("reason", TRIPS)
def test_guard_trips_outside_its_limit(walking, reason):
    check_trip(walking(), reason)


@pytest.mark.parametrize("reason", TRIPS)
def test_trip_test_fails_without_the_guard(walking, monkeypatch, reason):
    others = [guard for guard in GUARDS if guard.reason != reason]
    monkeypatch.setattr(safety, "GUARDS", others)
    with pytest.raises(AssertionError, match="did not trip"):
        check_trip(walking(), reason)


@pytest.mark.parametrize(
    "reason", [guard.reason for guard in GUARDS if guard.outcome == Outcome.DAMPING]
)
def test_fault_is_latched_and_keeps_its_reason(walking, reason):
    rig = walking()
    check_trip(rig, reason)
    rig.controller._observe = None  # must not be needed any more
    for _ in range(100):
        result = rig.tick()
    assert result.motion == MotionState.FAULT and reason.value in result.reasons
    assert (result.command.kp == 0.0).all()


@pytest.mark.parametrize(
    ("changes", "found"),
    [
        (dict(joint_position=at(5, math.nan)), "joint_position of RF_KFE"),
        (dict(joint_torque=at(11, -math.inf)), "joint_torque of RH_KFE"),
        (dict(base_position=at(2, math.nan, 3)), "base_position"),
        (dict(base_orientation=at(0, math.nan, 4)), "base_orientation"),
        (dict(base_linear_velocity=at(1, math.inf, 3)), "base_linear_velocity"),
        (dict(base_angular_velocity=at(1, math.nan, 3)), "base_angular_velocity"),
        (dict(base_orientation=np.zeros(4)), "norm of the orientation is 0"),
        (dict(joint_velocity=at(3, 1e9)), "RF_HAA 1e+09 rad/s"),
        (dict(robot_ok=1), "state 1 (not ready)"),
        (dict(base_angular_velocity=at(2, 6.1, 3)), "turns at 6.1 rad/s"),
    ],
)
def test_what_was_found_is_named(walking, changes, found):
    rig = walking()
    tick(rig, **changes)
    assert found in rig.results[-1].detail
    assert rig.results[-1].motion == MotionState.FAULT


def test_state_from_the_future_is_stale(walking):
    rig = walking()
    stale(-0.06)(rig)
    assert "STATE_STALE" in rig.results[-1].reasons


@pytest.mark.parametrize("step_ns", [0, -20_000_000])
def test_clock_that_stands_or_runs_backwards(walking, step_ns):
    rig = walking()
    rig.tick(rig.state(stamp_ns=rig.now_ns), step_ns=step_ns)
    assert "CLOCK_JUMP" in rig.results[-1].reasons


def test_stamps_that_jump_against_the_control_clock(walking):
    rig = walking()
    received = rig.now_ns + 18_000_000
    rig.tick(rig.state(stamp_ns=received - 5_000_000_000, received_ns=received))
    assert "state stamps stepped by -4.98" in rig.results[-1].detail


def test_wrong_quaternion_order_is_noticed(walking):
    """wxyz in place of xyzw: upright reads as upside down."""
    rig = walking()
    tick(rig, base_orientation=np.array((1.0, 0.0, 0.0, 0.0)))
    assert {"TILT", "ORIENTATION_JUMP"} <= set(rig.results[-1].reasons)


def test_command_is_zero_while_it_is_not_rearmed(walking):
    rig = walking()
    run(rig, 50, 0.5)
    assert rig.results[-1].velocity_command[0] == 0.5
    lose_commands(rig, 0.8)
    np.testing.assert_array_equal(rig.results[-1].velocity_command, 0.0)
    run(rig, 50, 0.5)
    np.testing.assert_array_equal(rig.results[-1].velocity_command, 0.0)
    run(rig, 1, 0.0)
    run(rig, 50, 0.5)
    assert rig.results[-1].velocity_command[0] == 0.5


def test_command_that_never_came_needs_no_rearming(make_rig):
    rig = make_rig()
    rig.stand()
    assert rig.controller.request(MotionState.WALK).accepted
    assert "COMMAND_STALE" in rig.tick().reasons
    run(rig, 50, 0.5)
    assert rig.results[-1].velocity_command[0] == 0.5


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("max_tilt", 3.2),  # greater than any useful tilt
        ("max_tilt", math.nan),
        ("max_action_jump", 2.0),  # actions are within -1 and 1
        ("stuck_target_range", 1.0),  # scale 0.5, so targets are within 0.5 rad of the pose
        ("max_clock_jump", 0.02),  # would trip at every second tick
        ("max_base_speed", 1.0),  # would trip at the greatest command
        ("max_base_rate", 1.0),
        ("max_state_age", 0.2),  # the robot itself stops after 0.1 s
        ("torque_saturation_ratio", 1.1),
        ("joint_velocity_ratio", 2.0),
        ("oscillation_amplitude", 2.0),
        ("max_overruns", 0),
        ("max_overruns", 2.5),
    ],
)
def test_limit_that_cannot_trip_or_always_trips_is_refused(make_rig, name, value):
    with pytest.raises(ValueError, match=f"{name}: found {value!r}, allowed"):
        make_rig(limits=replace(LIMITS, **{name: value}))


def test_second_publisher_of_the_state_is_named(rig):
    """Two robots on one topic look like one that jumps; that is only seen once it has fallen."""
    result = rig.tick(health=LoopHealth(state_publishers=2))
    assert "SECOND_PUBLISHER" in result.reasons
    assert "2 publishers of the robot's state" in result.detail


def test_reading_that_changes_by_its_last_digit_is_not_stuck(walking):
    rig = walking()
    hold_reading(rig, 0.4, last_digit=1e-12)
    assert rig.results[-1].motion == MotionState.WALK, rig.results[-1].detail


def test_joint_that_rests_is_not_stuck(rig):
    """In STAND nothing moves: all readings are equal to the last bit, and that is right."""
    rig.stand()
    results = [rig.tick() for _ in range(500)]
    assert (rig.state().joint_position == rig.position).all()
    assert all(result.outcome == Outcome.NORMAL for result in results)


def test_stuck_joint_is_noticed_before_the_robot_stands(rig):
    rig.tick()
    held = rig.position[2]
    assert rig.controller.request(MotionState.STAND).accepted
    for _ in range(500):
        position = rig.position.copy()
        position[2] = held
        tick(rig, joint_position=position)
        if rig.controller.motion != MotionState.STAND_UP:
            break
    assert "JOINT_STUCK: LF_KFE" in rig.results[-1].detail
    assert rig.controller.motion == MotionState.FAULT


def test_joint_outside_of_its_limits_is_named_with_them(rig):
    tick(rig, joint_position=at(4, 2.2))
    detail = rig.results[-1].detail
    assert "RF_HFE 2.2 rad, allowed " in detail and "to 2.1" in detail
