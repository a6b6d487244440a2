"""The control step as a whole: deterministic, never raising, never out of its limits."""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from policy_controller.bundle import ActionScaling
from policy_controller.controller import PolicyController
from policy_controller.motion import MotionState
from policy_controller.observation import ObservationBuilder
from policy_controller.policy import OnnxPolicy
from policy_controller.sample import LoopHealth, Outcome
from policy_controller.state import RobotState, VelocityCommand

LOWER, UPPER = np.array((-0.7, -2.0, -2.8) * 4), np.array((0.7, 2.0, 2.8) * 4)


def assert_allowed(result):
    """The command is finite and inside the limits, with gains of policy, scripts or damping."""
    for array in (result.command.position, result.command.velocity, result.command.torque):
        assert array.shape == (12,) and np.isfinite(array).all()
    assert (result.command.position >= LOWER).all() and (result.command.position <= UPPER).all()
    damped = (result.command.kp == 0.0).all() and (result.command.kd == 10.0).all()
    gains_kp = (result.command.kp >= 85.0) & (result.command.kp <= 200.0)
    gains_kd = (result.command.kd >= 0.6) & (result.command.kd <= 5.0)
    assert damped or (gains_kp & gains_kd).all()
    assert damped == (result.motion in (MotionState.PASSIVE, MotionState.FAULT))


def test_passive_is_damped_and_says_why_it_cannot_stand(rig):
    result = rig.controller.tick(1, None, None)
    assert result.motion == MotionState.PASSIVE and result.reasons == ("STATE_STALE",)
    assert "no robot state received" in result.detail and math.isinf(result.state_age)
    assert_allowed(result)


def test_onnx_that_gives_nan_ends_in_fault_in_the_same_tick(make_rig, make_onnx):
    rig = make_rig(onnx_model=make_onnx(nan_above_speed=0.45))
    rig.walk(0.5)
    last_good = rig.results[-1].command.position
    result = rig.tick(rig.state(base_linear_velocity=np.array((0.5, 0.0, 0.0))))
    assert result.motion == MotionState.FAULT and result.reasons == ("ACTION_NONFINITE",)
    assert "LF_HAA nan" in result.detail
    assert_allowed(result)
    np.testing.assert_allclose(result.command.position, rig.position, atol=1e-9)
    assert np.isfinite(last_good).all()
    assert not rig.controller.request(MotionState.STAND).accepted


def test_exception_ends_in_fault_with_its_traceback(rig):
    rig.walk()

    def fail(observation):
        raise RuntimeError("session lost")

    rig.controller._policy = fail
    result = rig.tick()
    assert result.motion == MotionState.FAULT and result.reasons == ("INTERNAL_ERROR",)
    assert "session lost" in result.detail and "RuntimeError" in result.error
    assert_allowed(result)


def test_emergency_stop_damps_at_the_next_tick_and_stays(rig):
    rig.walk(0.5)
    rig.controller.emergency_stop()
    for _ in range(50):
        result = rig.tick()
        assert result.motion == MotionState.FAULT and result.outcome == Outcome.DAMPING
        assert result.reasons == ("EMERGENCY_STOP",)
        assert_allowed(result)


def test_fault_is_cleared_only_by_the_operator_and_only_into_passive(rig):
    assert not rig.controller.clear_fault().accepted
    rig.walk()
    rig.tick(rig.state(robot_ok=-1))
    rig.tick()
    assert rig.controller.motion == MotionState.FAULT
    assert rig.controller.clear_fault().accepted
    result = rig.tick()
    assert result.motion == MotionState.PASSIVE and result.reasons == ()
    assert_allowed(result)
    rig.controller.request(MotionState.STAND)
    rig.run_until(MotionState.STAND)


def test_second_fault_does_not_hide_the_first(rig):
    rig.walk()
    rig.tick(rig.state(robot_ok=-1))
    for roll in np.arange(0.1, 1.5, 0.1):
        rig.tick(
            rig.state(base_orientation=np.array((math.sin(roll / 2), 0, 0, math.cos(roll / 2))))
        )
    assert rig.results[-1].reasons == ("ROBOT_ERROR", "TILT")
    rig.tick(rig.state(base_orientation=np.array((0.65, 0.0, 0.0, 0.76))))
    rig.tick(rig.state(base_orientation=np.array((0.0, 0.0, 0.0, 1.0))))
    assert rig.results[-1].reasons == ("ROBOT_ERROR", "ORIENTATION_JUMP")
    assert rig.tick().reasons == ("ROBOT_ERROR",)


def test_velocity_command_is_cut_to_the_bundle_and_slewed(rig):
    rig.walk(0.0)
    start = len(rig.results)
    for _ in range(60):
        rig.give(5.0, -5.0, 0.4)
        rig.tick()
    given_ = np.array([r.velocity_command for r in rig.results[start:]])
    np.testing.assert_allclose(given_[0], (0.03, -0.03, 0.06))  # 1.5 m/s^2, 3 rad/s^2, 0.02 s
    assert np.abs(np.diff(given_, axis=0)).max(axis=0) == pytest.approx((0.03, 0.03, 0.06))
    np.testing.assert_allclose(given_[-1], (1.0, -0.5, 0.4))
    assert "COMMAND_RANGE" in rig.results[-1].reasons
    assert rig.results[-1].outcome == Outcome.LIMIT


def test_lost_command_ramps_to_zero_and_the_robot_stands(rig):
    rig.walk(0.6, ticks=60)
    start = len(rig.results)
    for _ in range(60):
        result = rig.tick()
    speed = np.array([r.velocity_command[0] for r in rig.results[start:]])
    # 0.2 s of the last command, then twice 1.5 m/s^2
    np.testing.assert_array_equal(speed[:10], 0.6)
    np.testing.assert_allclose(speed[10:20], 0.6 - 0.06 * np.arange(1, 11), atol=1e-9)
    assert (speed[20:] == 0.0).all()
    assert result.motion == MotionState.WALK and "COMMAND_STALE" in result.reasons


def test_nan_command_counts_as_zero(rig):
    rig.walk(0.6, ticks=60)
    for _ in range(60):
        rig.give(math.nan, 0.2, 0.0)
        result = rig.tick()
    np.testing.assert_array_equal(result.velocity_command, 0.0)
    assert result.motion == MotionState.WALK and result.reasons == ("COMMAND_NONFINITE",)


def test_policy_memory_is_empty_at_each_entry_to_walk(rig):
    """The first observation of both walks shows clock (0, 0), no previous action, command 0."""
    seen = []
    build = rig.controller._observe.build

    def spy(state, command, clock, previous_action):
        seen.append((command.copy(), clock, previous_action.copy()))
        return build(state, command, clock, previous_action)

    rig.controller._observe.build = spy
    rig.walk(0.5)
    first_walk = len(seen)
    rig.controller.request(MotionState.STAND)
    rig.run_until(MotionState.STAND)
    for _ in range(100):
        rig.tick()
    between = len(seen)
    assert rig.controller.request(MotionState.WALK).accepted
    rig.give(0.0)
    rig.tick()
    assert first_walk == 50
    for command, clock, previous_action in (seen[0], seen[between]):
        assert np.abs(command).max() <= 0.03 and clock == (0.0, 0.0)
        np.testing.assert_array_equal(previous_action, 0.0)


def test_policy_has_no_past_at_each_entry_to_walk(rig_with_past):
    """The first action of two walks, apart in state, is that of an observation without a past."""
    rig, bundle = rig_with_past, rig_with_past.controller.bundle
    policy = OnnxPolicy(bundle.onnx, bundle.observation_size, 12)
    rig.walk()
    for _ in range(2):
        rig.controller.request(MotionState.STAND)
        rig.run_until(MotionState.STAND)
        for _ in range(100):
            rig.tick()
        assert rig.controller.request(MotionState.WALK).accepted
        rig.position = rig.position + np.linspace(-0.02, 0.03, 12)
        state = rig.state()
        builder = ObservationBuilder(bundle.observation, bundle.default_pose)
        expected = policy(builder.build(state, np.zeros(3), (0.0, 0.0), np.zeros(12)))
        np.testing.assert_allclose(rig.tick(state).action, expected, atol=1e-6)


def test_observation_action_and_target_follow_the_contract(rig):
    """One control step recomputed by hand from the bundle."""
    rig.walk(0.5, ticks=60)
    before = rig.results[-1]
    phase = rig.controller._phase
    rig.give(0.5)
    state = rig.state()
    result = rig.tick(state)
    bundle = rig.controller.bundle
    observation = np.concatenate(
        (
            np.zeros(3),
            np.zeros(3),
            (0.0, 0.0, -1.0),
            (0.5, 0.0, 0.0),
            state.joint_position - bundle.default_pose,
            0.1 * state.joint_velocity,
            before.action,
            (math.sin(phase), math.cos(phase)),
        )
    ).astype(np.float32)
    action = OnnxPolicy(bundle.onnx, 50, 12)(observation)
    np.testing.assert_allclose(result.action, action, atol=1e-6)
    np.testing.assert_allclose(
        result.command.position, np.array(bundle.default_pose) + 0.5 * action, atol=1e-6
    )
    # the slewed command first exceeds the threshold of 0.1 at the fourth of 60 ticks
    assert phase == pytest.approx(math.fmod(57 * 2 * math.pi * 1.75 * 0.02, 2 * math.pi), abs=1e-9)


def test_target_is_cut_to_the_limits_and_counted(make_rig):
    rig = make_rig(action=ActionScaling(scale=0.8, clip=1.0, applied_by="controller"))
    rig.walk()
    rig.controller._policy = lambda observation: np.full(12, 0.9, dtype=np.float32)
    result = rig.tick()
    # default 0 + 0.8 * 0.9 = 0.72 for the four HAA joints, limit 0.7
    np.testing.assert_array_equal(result.limited, [True, False, False] * 4)
    np.testing.assert_allclose(result.command.position[::3], 0.7)
    assert result.motion == MotionState.WALK and result.reasons == ("TARGET_POSITION",)
    assert_allowed(result)


def test_same_inputs_give_same_outputs(make_rig):
    first, second = make_rig(), make_rig()
    for rig in (first, second):
        rig.walk(0.5, -0.2, 0.3)
    for one, two in zip(first.results, second.results, strict=True):
        np.testing.assert_array_equal(one.command.position, two.command.position)
        assert one.detail == two.detail


WILD = st.one_of(
    st.floats(width=64),
    st.floats(-1.0, 1.0),
    st.sampled_from([math.nan, math.inf, -math.inf, 1e308]),
)


def vectors(size):
    return st.lists(WILD, min_size=size, max_size=size).map(np.array)


STATES = st.builds(
    RobotState,
    stamp_ns=st.integers(-(2**62), 2**62),
    base_position=vectors(3),
    base_orientation=vectors(4),
    base_linear_velocity=vectors(3),
    base_angular_velocity=vectors(3),
    joint_position=vectors(12),
    joint_velocity=vectors(12),
    joint_torque=vectors(12),
    robot_ok=st.integers(-3, 3),
    foot_contact=st.just(np.ones(4, dtype=bool)),
    received_ns=st.integers(-1, 2**62),
)
COMMANDS = st.none() | st.builds(VelocityCommand, WILD, WILD, WILD, st.integers(-(2**62), 2**62))
PART = st.sampled_from(
    [
        "base_position",
        "base_orientation",
        "base_linear_velocity",
        "base_angular_velocity",
        "joint_position",
        "joint_velocity",
        "joint_torque",
    ]
)
FUZZ = settings(
    max_examples=150, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
)


@pytest.fixture
def parts(make_bundle, robot):
    """What a controller is made of."""
    bundle = make_bundle()
    return bundle, robot, OnnxPolicy(bundle.onnx, 50, 12)


@FUZZ
@given(
    states=st.lists(st.none() | STATES, min_size=1, max_size=5), command=COMMANDS, data=st.data()
)
def test_any_state_and_command_give_an_allowed_command(parts, states, command, data):
    controller = PolicyController(*parts)
    now = 0
    for state in states:
        now += data.draw(st.integers(-(10**9), 10**9))
        result = controller.tick(now, state, command, LoopHealth(data.draw(st.integers(0, 10)), 1))
        assert_allowed(result)
        assert result.error is None


@FUZZ
@given(part=PART, values=st.data(), command=COMMANDS)
def test_one_wild_part_of_a_walking_robot_gives_an_allowed_command(rig, part, values, command):
    """All but one part of the state is healthy, so the wild part reaches as deep as it can."""
    if rig.controller.motion != MotionState.WALK:
        rig.controller.clear_fault()
        rig.position = np.array(rig.controller.bundle.default_pose)
        rig.tick()  # what comes next must not be a jump
        rig.walk(0.3, ticks=5)
    healthy = getattr(rig.state(), part)
    index = values.draw(st.integers(0, len(healthy) - 1))
    wild = healthy.copy()
    wild[index] = values.draw(WILD)
    rig.command = command and replace(command, stamp_ns=rig.now_ns)
    result = rig.controller.tick(
        rig.now_ns + 20_000_000, replace(rig.state(), **{part: wild}), rig.command
    )
    rig.now_ns += 20_000_000
    assert_allowed(result)
    assert result.error is None
