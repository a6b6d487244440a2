"""Observation terms against closed forms, and the gait clock step by step."""

from __future__ import annotations

import math

import numpy as np
import pytest

from policy_controller.observation import (
    STANDARD_OBSERVATION,
    GaitClock,
    ObservationBuilder,
    define_term,
    projected_gravity,
)
from policy_controller.state import JOINT_NAMES, RobotState

DEFAULT_POSE = (0.0, 0.4, -0.8, 0.0, 0.4, -0.8, 0.0, -0.4, 0.8, 0.0, -0.4, 0.8)
TEN = math.radians(10.0)
HALF = math.sqrt(0.5)


def rotate(quaternion, vector):
    """v + 2 u x (u x v + w v), u the vector part: an independent way to rotate."""
    u, w = np.asarray(quaternion[:3]), quaternion[3]
    return vector + 2.0 * np.cross(u, np.cross(u, vector) + w * np.asarray(vector))


@pytest.mark.parametrize(
    ("quaternion", "gravity"),
    [
        ((0.0, 0.0, 0.0, 1.0), (0.0, 0.0, -1.0)),
        # roll +a lowers the right side (y < 0): g = (0, -sin a, -cos a)
        ((math.sin(TEN / 2), 0.0, 0.0, math.cos(TEN / 2)), (0.0, -math.sin(TEN), -math.cos(TEN))),
        # pitch +a lowers the nose: g = (sin a, 0, -cos a)
        ((0.0, math.sin(TEN / 2), 0.0, math.cos(TEN / 2)), (math.sin(TEN), 0.0, -math.cos(TEN))),
        ((0.0, 0.0, HALF, HALF), (0.0, 0.0, -1.0)),
        ((0.0, 0.0, 1.0, 0.0), (0.0, 0.0, -1.0)),
        ((1.0, 0.0, 0.0, 0.0), (0.0, 0.0, 1.0)),
        ((0.0, 0.0, 0.0, -2.0), (0.0, 0.0, -1.0)),
    ],
)
def test_projected_gravity_table(quaternion, gravity):
    np.testing.assert_allclose(projected_gravity(np.array(quaternion)), gravity, atol=1e-15)


def test_projected_gravity_of_any_rotation():
    rng = np.random.default_rng(1)
    for quaternion in rng.normal(size=(100, 4)):
        unit = quaternion / np.linalg.norm(quaternion)
        # R^T g = rotation of g by the conjugate
        expected = rotate(unit * (-1.0, -1.0, -1.0, 1.0), np.array([0.0, 0.0, -1.0]))
        np.testing.assert_allclose(projected_gravity(quaternion), expected, atol=1e-14)


@pytest.mark.parametrize("quaternion", [(0.0,) * 4, (math.nan, 0, 0, 1), (math.inf, 0, 0, 1)])
def test_projected_gravity_without_a_rotation_is_nan(quaternion):
    assert np.isnan(projected_gravity(np.array(quaternion))).all()


def test_each_number_has_its_place():
    """Fifty different inputs; the layout is written out by hand."""
    state = RobotState.from_packed(
        np.concatenate(
            [
                (91.0, 92.0, 93.0),
                (0.0, 0.0, 0.0, 1.0),
                (1.0, 2.0, 3.0),
                (4.0, 5.0, 6.0),
                np.arange(10, 22) + np.array(DEFAULT_POSE),
                np.arange(30, 42),
            ]
        )
    )
    command, previous = np.array([7.0, 8.0, 9.0]), np.arange(50, 62)
    builder = ObservationBuilder(STANDARD_OBSERVATION, DEFAULT_POSE)
    expected = [
        1,
        2,
        3,
        4,
        5,
        6,
        0,
        0,
        -1,
        7,
        8,
        9,
        *range(10, 22),
        *np.arange(30, 42) * 0.1,
        *range(50, 62),
        0.6,
        0.8,
    ]
    found = builder.build(state, command, (0.6, 0.8), previous)
    assert builder.size == 50 and found.dtype == np.float32
    np.testing.assert_allclose(found, expected, rtol=1e-6)


def test_terms_can_be_left_out_and_reordered():
    terms = (define_term("gait_clock"), define_term("command", 2.0))
    builder = ObservationBuilder(terms, DEFAULT_POSE)
    state = RobotState.from_packed(np.eye(37)[6])
    found = builder.build(state, np.array([0.1, 0.2, 0.3]), (0.0, 1.0), np.zeros(12))
    np.testing.assert_allclose(found, (0.0, 1.0, 0.2, 0.4, 0.6), rtol=1e-6)


def frames_of(term, states):
    """The raw values of a term, scaled, one row for each state."""
    raw = {
        "joint_position": [state.joint_position - DEFAULT_POSE for state in states],
        "joint_velocity": [state.joint_velocity for state in states],
        "gait_clock": [(0.6, 0.8) for _ in states],
    }
    return np.float32(term.scale * np.array(raw[term.name]))


def test_past_is_the_last_steps_oldest_first_and_begins_with_the_first():
    """Ten steps, a reset, ten steps: each against the list of all states since the reset, of which
    the first is repeated before its time."""
    rng = np.random.default_rng(2)
    terms = (
        define_term("joint_position", history=4),
        define_term("gait_clock"),
        define_term("joint_velocity", 0.1, history=2),
    )
    builder = ObservationBuilder(terms, DEFAULT_POSE)
    assert builder.size == 48 + 2 + 24
    for _ in range(2):
        builder.reset()
        states = [RobotState.from_packed(row) for row in rng.normal(size=(10, 37))]
        for now in range(10):
            found = builder.build(states[now], np.zeros(3), (0.6, 0.8), np.zeros(12))
            steps = [[max(now - age, 0) for age in reversed(range(t.history))] for t in terms]
            expected = [
                frames_of(term, [states[k] for k in step]).ravel()
                for term, step in zip(terms, steps, strict=True)
            ]
            np.testing.assert_array_equal(found, np.concatenate(expected))


def test_unknown_term():
    with pytest.raises(KeyError, match="found 'height', allowed: base_linear_velocity"):
        define_term("height")


def test_gait_clock_sequence():
    clock = GaitClock(frequency=1.75, control_period=0.02, stand_command_threshold=0.1)
    walk, stand = np.array([0.5, 0.0, 0.0]), np.array([0.1, 0.0, 0.0])
    step = 2.0 * math.pi * 1.75 * 0.02
    phase, signals = 0.0, []
    for command in (stand, walk, walk, walk, stand, walk):
        signals.append(clock.signal(phase, command))
        phase = clock.advance(phase, command)
    expected = [(0.0, 0.0)] + [(math.sin(k * step), math.cos(k * step)) for k in range(3)]
    expected += [(0.0, 0.0), (0.0, 1.0)]
    np.testing.assert_allclose(signals, expected, atol=1e-15)


def test_gait_phase_stays_in_one_turn_and_keeps_its_rate():
    clock = GaitClock(frequency=1.75, control_period=0.02, stand_command_threshold=0.1)
    phase = 0.0
    for _ in range(1000):
        phase = clock.advance(phase, np.array([0.0, 0.3, 0.0]))
        assert 0.0 <= phase < 2.0 * math.pi
    # 1000 steps of 0.035 turns = 35 whole turns
    assert abs(math.remainder(phase, 2.0 * math.pi)) < 1e-9


def test_threshold_is_on_the_norm():
    clock = GaitClock(frequency=1.75, control_period=0.02, stand_command_threshold=0.1)
    assert clock.is_moving(np.array([0.06, 0.06, 0.06]))  # 0.104
    assert not clock.is_moving(np.array([0.057, 0.057, 0.057]))  # 0.099


def test_canonical_joint_order():
    assert JOINT_NAMES[:4] == ("LF_HAA", "LF_HFE", "LF_KFE", "RF_HAA")
    assert JOINT_NAMES[6] == "LH_HAA" and JOINT_NAMES[11] == "RH_KFE"
