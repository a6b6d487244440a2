"""Every guard of the bridge: it acts, and the same scenario passes when just that guard is removed.

Scenarios speak of a robot at rest in its default pose, an armed guard and one controller at 50 Hz.
"""

from dataclasses import replace

import numpy as np
import pytest

from anymal_bridge import guard as guard_module
from anymal_bridge.guard import FILTERS, TRIPS, Guard, GuardLimits, GuardState, Reason
from anymal_bridge.interface import COMMAND_TIMEOUT_S
from anymal_bridge.joint_command import JointCommand, Mode, damping_command
from anymal_bridge.robot_sample import RobotState

POSE = np.tile([0.1, 0.4, -0.8], 4)
LIMITS = GuardLimits(
    joint_names=tuple(f"J{i}" for i in range(12)),
    position_lower=POSE - 1.0,
    position_upper=POSE + 1.2,
    velocity=8.5,
    torque=80.0,
    kp_max=150.0,
    kd_max=20.0,
    target_rate=25.0,
    take_over=0.3,
    command_timeout=COMMAND_TIMEOUT_S,
    state_timeout=0.1,
    damping=5.0,
)
STATE_NS = 5_000_000_000  # stamp of the robot's state at time 0


def spring(position=POSE, kp=85.0, stamp_ns=STATE_NS, **changes) -> JointCommand:
    zero = np.zeros(12)
    command = JointCommand(
        stamp_ns, Mode.PID_GAINS, position, zero, zero, np.full(12, kp), np.full(12, 0.6)
    )
    return replace(command, **changes)


def see_robot(guard: Guard, now: float, position=POSE, state=RobotState.OK) -> None:
    guard.observe_state(now, STATE_NS + round(now * 1e9), position, state)


def armed_guard(dry_run: bool = False) -> Guard:
    """Armed at time 0, with one command that passed."""
    guard = Guard(LIMITS, dry_run)
    guard.observe_publishers(commanders=1, drivers=0)
    see_robot(guard, 0.0)
    assert guard.arm(0.0) is None
    output = guard.offer(0.0, spring())
    assert output is not None and output.command.kp[0] == 85.0
    return guard


def no_command(guard):
    see_robot(guard, 0.081)
    return guard.watch(0.081)


def command_for_an_old_state(guard):
    guard.offer(0.05, spring(stamp_ns=STATE_NS))
    see_robot(guard, 0.1)
    return guard.offer(0.1, spring(stamp_ns=STATE_NS + 19_000_000))  # 81 ms old


def no_state(guard):
    for now in (0.05, 0.1):
        guard.offer(now, spring())
    return guard.offer(0.101, spring(stamp_ns=STATE_NS))


def robot_in_error(guard):
    see_robot(guard, 0.01, state=RobotState.ERROR_SENSOR)
    return guard.watch(0.01)


def position_is_nan(guard):
    position = POSE.copy()
    position[7] = np.nan
    see_robot(guard, 0.01, position)
    return guard.watch(0.01)


def two_controllers(guard):
    guard.observe_publishers(commanders=2, drivers=0)
    return guard.watch(0.01)


def robot_has_another_driver(guard):
    guard.observe_publishers(commanders=1, drivers=1)
    return guard.watch(0.01)


def too_stiff(guard):
    return guard.offer(0.01, spring(kp=150.1))


def spring_switched_on_far_away(guard):
    guard.offer(0.01, damping_command(STATE_NS, 5.0))
    target = POSE.copy()
    target[4] += 0.31
    return guard.offer(0.02, spring(target))


def operator_stops(guard):
    guard.stop(Reason.OPERATOR_STOP, "test")
    return guard.watch(0.01)


def message_is_refused(guard):
    guard.stop(Reason.COMMAND_REFUSED, "unknown joint")
    return guard.watch(0.01)


SCENARIOS = {
    Reason.COMMAND_AGE: no_command,
    Reason.COMMAND_OUTDATED: command_for_an_old_state,
    Reason.STATE_AGE: no_state,
    Reason.ROBOT_STATE: robot_in_error,
    Reason.JOINT_UNKNOWN: position_is_nan,
    Reason.SECOND_COMMANDER: two_controllers,
    Reason.SECOND_DRIVER: robot_has_another_driver,
    Reason.GAIN: too_stiff,
    Reason.TAKE_OVER: spring_switched_on_far_away,
    Reason.OPERATOR_STOP: operator_stops,
    Reason.COMMAND_REFUSED: message_is_refused,
}


def is_damping(output) -> bool:
    if output is None:
        return False
    command = output.command
    return (
        command.mode is Mode.PID_GAINS
        and not command.kp.any()
        and not command.velocity.any()
        and not command.torque.any()
        and (command.kd == LIMITS.damping).all()
    )


def test_every_reason_has_a_scenario():
    assert set(SCENARIOS) == set(Reason)


@pytest.mark.parametrize("reason", Reason)
def test_guard_damps_and_latches(reason):
    guard = armed_guard()
    output = SCENARIOS[reason](guard)
    assert is_damping(output) and output.send
    assert (guard.state, guard.reason) == (GuardState.LATCHED, reason)
    assert guard.detail
    # Latched: good commands do not pass although the cause is gone, damping goes on.
    guard.observe_publishers(commanders=1, drivers=0)
    see_robot(guard, 0.2)
    assert guard.offer(0.2, spring(stamp_ns=STATE_NS + 200_000_000)) is None
    assert is_damping(guard.watch(0.2))
    # Only the operator ends it.
    assert guard.arm(0.2) is None
    output = guard.offer(0.2, spring(stamp_ns=STATE_NS + 200_000_000))
    assert output.command.kp[0] == 85.0
    assert guard.watch(0.21) is None


@pytest.mark.parametrize("reason", TRIPS)
def test_scenario_passes_without_its_guard(reason, monkeypatch):
    guard = armed_guard()
    monkeypatch.delitem(guard_module.TRIPS, reason)
    output = SCENARIOS[reason](guard)
    assert not is_damping(output)
    assert guard.state is GuardState.ARMED


@pytest.mark.parametrize("reason", set(Reason) - set(TRIPS))
def test_scenario_passes_without_the_latch(reason, monkeypatch):
    monkeypatch.setattr(Guard, "stop", lambda *_: None)
    assert SCENARIOS[reason](armed_guard()) is None


# Scenario per filter: command, field, what must come out.
TARGET_BEYOND_LIMIT = spring(POSE + 1.3, kp=10.0)
FILTER_SCENARIOS = {
    # 1.3 rad beyond is 0.1 over the upper limit; a spring of 10 N m/rad reaches 8 rad.
    "position": (TARGET_BEYOND_LIMIT, "position", POSE + 1.2),
    "velocity": (spring(velocity=np.full(12, -9.0)), "velocity", np.full(12, -8.5)),
    # The spring of 150 N m/rad gives 80 N m at 80/150 rad.
    "torque": (spring(POSE + 0.9, kp=150.0), "position", POSE + 80.0 / 150.0),
    # 25 rad/s for the 20 ms since the last command.
    "target_rate": (spring(POSE - 0.6), "position", POSE - 0.5),
}


def offer_alone(guard, name, command):
    """Offer with the other filters out of the way."""
    wide = {
        "position": replace(LIMITS, target_rate=1e9),
        "velocity": LIMITS,
        "torque": replace(LIMITS, target_rate=1e9),
        "target_rate": LIMITS,
    }[name]
    guard.limits = wide
    return guard.offer(0.02, command)


@pytest.mark.parametrize("name", FILTERS)
def test_filter_makes_the_command_milder(name):
    command, field, expected = FILTER_SCENARIOS[name]
    output = offer_alone(armed_guard(), name, command)
    np.testing.assert_allclose(getattr(output.command, field), expected, atol=1e-12)
    assert output.filtered == (name,)


@pytest.mark.parametrize("name", FILTERS)
def test_command_passes_unchanged_without_its_filter(name, monkeypatch):
    command, field, _ = FILTER_SCENARIOS[name]
    monkeypatch.delitem(guard_module.FILTERS, name)
    output = offer_alone(armed_guard(), name, command)
    np.testing.assert_array_equal(getattr(output.command, field), getattr(command, field))


def test_feed_forward_torque_is_clamped():
    output = armed_guard().offer(0.02, spring(torque=np.full(12, 95.0)))
    np.testing.assert_array_equal(output.command.torque, 80.0)


def test_counts_say_what_was_clamped():
    guard = armed_guard()
    guard.offer(0.02, spring(velocity=np.full(12, 20.0)))
    assert guard.counts == {"position": 0, "velocity": 1, "torque": 0, "target_rate": 0}


@pytest.mark.parametrize("reason", Reason)
def test_dry_run_sends_nothing(reason):
    guard = armed_guard(dry_run=True)
    outputs = [guard.offer(0.01, spring()), SCENARIOS[reason](guard), guard.watch(0.03)]
    assert not any(output.send for output in outputs if output)
    assert outputs[0].command.kp[0] == 85.0  # what would be sent is known


def test_dry_run_flag_is_what_holds_it_back():
    guard = armed_guard(dry_run=True)
    guard.dry_run = False
    assert guard.offer(0.01, spring()).send


def test_disarmed_guard_is_silent():
    """Another controller may hold the robot: not even damping may come from here."""
    guard = Guard(LIMITS, dry_run=False)
    assert guard.offer(0.0, spring()) is None
    guard.stop(Reason.OPERATOR_STOP, "test")
    assert guard.watch(1.0) is None
    guard = armed_guard()
    guard.disarm()
    assert guard.offer(0.01, spring()) is None and guard.watch(1.0) is None


def test_armed_guard_waits_for_the_first_command():
    guard = Guard(LIMITS, dry_run=False)
    see_robot(guard, 0.0)
    assert guard.arm(0.0) is None
    see_robot(guard, 10.0)
    assert guard.watch(10.0) is None and guard.state is GuardState.ARMED


@pytest.mark.parametrize(
    ("prepare", "reason"),
    [
        (lambda guard: None, Reason.STATE_AGE),
        (lambda guard: see_robot(guard, 0.0, state=RobotState.UNINITIALIZED), Reason.ROBOT_STATE),
        (
            lambda guard: (see_robot(guard, 0.0), guard.observe_publishers(1, 1)),
            Reason.SECOND_DRIVER,
        ),
        (
            lambda guard: (see_robot(guard, 0.0), guard.observe_publishers(2, 0)),
            Reason.SECOND_COMMANDER,
        ),
    ],
)
def test_arming_is_refused_with_the_reason(prepare, reason):
    guard = Guard(LIMITS, dry_run=False)
    prepare(guard)
    assert guard.arm(0.0).startswith(reason.value)
    assert guard.state is GuardState.DISARMED


def test_first_command_must_be_near_the_joints():
    guard = Guard(LIMITS, dry_run=False)
    see_robot(guard, 0.0)
    guard.arm(0.0)
    assert is_damping(guard.offer(0.0, spring(POSE + 0.5)))
    assert guard.reason is Reason.TAKE_OVER


def test_new_spring_starts_its_rate_limit_at_the_joint():
    """Damping carries target 0; the spring after it must not be dragged there."""
    guard = armed_guard()
    guard.offer(0.01, damping_command(STATE_NS, 5.0))
    see_robot(guard, 0.02)
    output = guard.offer(0.03, spring(POSE + 0.1))
    np.testing.assert_allclose(output.command.position, POSE + 0.1, atol=1e-12)


@pytest.mark.parametrize("mode", [Mode.FREEZE, Mode.DISABLE])
def test_modes_without_numbers_pass_unchanged(mode):
    command = spring(mode=mode, position=np.full(12, 9.0))
    output = armed_guard().offer(0.01, command)
    assert output.command is command and output.send


def test_damping_carries_the_stamp_of_the_newest_state():
    guard = armed_guard()
    see_robot(guard, 0.05)
    guard.stop(Reason.OPERATOR_STOP, "test")
    assert guard.watch(0.06).command.stamp_ns == STATE_NS + 50_000_000


@pytest.mark.parametrize("watched", [True, False])
def test_command_after_a_silence_does_not_hide_it(watched, monkeypatch):
    """The process stood still as a whole: the command is there before anybody has watched."""
    guard = armed_guard()
    if not watched:
        monkeypatch.setattr(Guard, "watch", lambda *_: None)
    see_robot(guard, 0.5)
    output = guard.offer(0.5, spring(stamp_ns=STATE_NS + 500_000_000))
    assert is_damping(output) == watched
    assert guard.reason is (Reason.COMMAND_AGE if watched else None)


def test_two_lost_commands_do_not_stop_the_robot():
    guard = armed_guard()
    for now in (0.02, 0.04, 0.06):
        see_robot(guard, now)
        guard.watch(now)
    output = guard.offer(0.06, spring(stamp_ns=STATE_NS + 60_000_000))
    assert guard.state is GuardState.ARMED and output.command.kp[0] == 85.0


def test_arming_again_changes_nothing():
    """The second call neither takes the running spring for a new one nor forgets its command."""
    guard = armed_guard()
    see_robot(guard, 0.01, POSE - 0.35)  # a loaded joint may be that far from its target
    assert guard.arm(0.01) is None
    output = guard.offer(0.02, spring())
    assert guard.state is GuardState.ARMED and output.command.kp[0] == 85.0


def test_refused_arming_does_not_hide_a_silent_controller():
    guard = armed_guard()
    guard.arm(0.05)
    see_robot(guard, 0.081)
    assert is_damping(guard.watch(0.081)) and guard.reason is Reason.COMMAND_AGE


def test_spring_stays_within_the_torque_limit_when_the_target_may_not_follow_the_joint():
    """Of two limits that contradict each other, the one that keeps the torque low wins."""
    guard = armed_guard()
    guard.limits = replace(LIMITS, target_rate=0.5)
    see_robot(guard, 0.02, POSE - 0.8)
    command = guard.offer(0.02, spring(POSE - 0.8, kp=150.0)).command
    torque = command.kp * np.abs(command.position - (POSE - 0.8))
    assert torque.max() <= LIMITS.torque + 1e-9


@pytest.mark.parametrize("scenario", [position_is_nan, spring_switched_on_far_away])
def test_reason_names_the_joint(scenario):
    guard = armed_guard()
    scenario(guard)
    joint = {position_is_nan: "J7", spring_switched_on_far_away: "J4"}[scenario]
    assert joint in guard.detail


def test_robot_is_driven_from_the_first_command_until_the_stop():
    guard = Guard(LIMITS, dry_run=False)
    guard.observe_publishers(commanders=1, drivers=0)
    see_robot(guard, 0.0)
    assert guard.arm(0.0) is None and not guard.is_driving()
    guard.offer(0.0, spring())
    assert guard.is_driving()
    guard.watch(0.081)
    assert guard.state is GuardState.LATCHED and not guard.is_driving()
    assert not armed_guard(dry_run=True).is_driving()
