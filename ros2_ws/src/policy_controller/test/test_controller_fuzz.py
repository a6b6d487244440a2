"""Whatever comes from outside, and in whatever order: the command stays finite and inside limits.

    pytest --hypothesis-profile=million ros2_ws/src/policy_controller/test/test_controller_fuzz.py

gives the controller 10^6 generated states and commands; by default it is some thousands.
"""

from __future__ import annotations

import copy
import math
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

pytest.importorskip("anymal_msgs")

from anymal_msgs.msg import AnymalState, Contact  # noqa: E402
from rclpy.serialization import serialize_message  # noqa: E402

from policy_controller.messages import StateReader, to_time  # noqa: E402
from policy_controller.motion import MotionState  # noqa: E402
from policy_controller.sample import LoopHealth  # noqa: E402
from policy_controller.state import FOOT_NAMES, JOINT_NAMES, RobotState, VelocityCommand  # noqa: E402

TICKS = 50
"""Per example; the profile `million` has 10^6 / TICKS examples (conftest.py)."""

WILD = st.one_of(
    st.floats(width=64),
    st.floats(-10.0, 10.0),
    st.sampled_from([math.nan, math.inf, -math.inf, 0.0, -0.0, 1e308, 5e-324]),
)
PARTS = {
    "base_position": 3,
    "base_orientation": 4,
    "base_linear_velocity": 3,
    "base_angular_velocity": 3,
    "joint_position": 12,
    "joint_velocity": 12,
    "joint_torque": 12,
}
VALUES = st.sampled_from(
    [(part, index) for part, size in PARTS.items() for index in range(size)]
).flatmap(lambda place: st.tuples(st.just(place), WILD))


def pack(state: RobotState) -> bytes:
    """The serialised message of a state."""
    message = AnymalState(state=state.robot_ok)
    message.header.stamp = to_time(state.stamp_ns)
    message.twist.header.frame_id = "base"
    pose, twist = message.pose.pose, message.twist.twist
    for target, values in (
        (pose.position, state.base_position),
        (pose.orientation, state.base_orientation),
        (twist.linear, state.base_linear_velocity),
        (twist.angular, state.base_angular_velocity),
    ):
        for name, value in zip("xyzw", values, strict=False):
            setattr(target, name, float(value))
    message.joints.name = list(JOINT_NAMES)
    message.joints.position = state.joint_position.tolist()
    message.joints.velocity = state.joint_velocity.tolist()
    message.joints.effort = state.joint_torque.tolist()
    message.contacts = [Contact(name=n, state=Contact.STATE_CLOSED) for n in FOOT_NAMES]
    return serialize_message(message)


@pytest.fixture(scope="module")
def count():
    """Numbers of what the examples did, printed at the end."""
    numbers = dict.fromkeys(("ticks", "wild", "broken messages", "walking", "faults"), 0)
    yield numbers
    print(f"\n{numbers}")
    assert numbers["wild"] > 0 and numbers["walking"] > 0 and numbers["faults"] > 0


@pytest.fixture
def walking(rig):
    """walking() -> a Rig in WALK, each time one without a past."""
    rig.walk(0.5, 0.1, 0.2)
    controller = rig.controller
    shared = {id(part): part for part in (controller._policy, controller.bundle)}
    rig.results = []
    return lambda: copy.deepcopy(rig, dict(shared))


@settings(deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    wild=st.lists(VALUES, min_size=1, max_size=4),
    velocity=st.tuples(WILD, WILD, WILD),
    ages=st.tuples(st.integers(-(2**61), 2**61), st.sampled_from([0, 10**6, 10**8, 10**9])),
    seed=st.integers(0, 2**32 - 1),
)
def test_nothing_from_outside_makes_a_bad_command(walking, count, wild, velocity, ages, seed):
    rig, rng, reader = walking(), np.random.default_rng(seed), StateReader()
    controller, limits = rig.controller, rig.controller.bundle.limits
    calm = rng.uniform(0.0, 1.0)  # share of healthy ticks
    for _ in range(TICKS):
        state, health = rig.state(), LoopHealth()
        rig.give(0.5)
        if rng.random() > calm:
            count["wild"] += 1
            for (part, index), value in wild:
                values = getattr(state, part).copy()
                values[index] = value
                if rng.random() < 0.5:
                    state = replace(state, **{part: values})
            if rng.random() < 0.3:
                rig.command = VelocityCommand(*velocity, rig.now_ns - int(rng.choice(ages)))
            if rng.random() < 0.05:
                state = replace(state, robot_ok=int(rng.integers(-3, 2)))
                health = LoopHealth(int(rng.integers(0, 9)), int(rng.integers(0, 3)), 1)
        if rng.random() < 0.05 * (1.0 - calm):
            count["broken messages"] += 1
            content = bytearray(pack(state))
            content[int(rng.integers(len(content)))] ^= int(rng.integers(1, 256))
            content = content[: int(rng.integers(1, 2 * len(content)))]
            try:
                state = reader.read(bytes(content), rig.now_ns + rig.PERIOD_NS)
            except ValueError as refusal:
                health = replace(health, state_error=f"{refusal}")
        if rng.random() < 0.1:
            controller.clear_fault()
            controller.request(MotionState(int(rng.integers(0, 6))))
        before = controller.motion
        step = int(rng.choice(ages)) if rng.random() < 0.02 else rig.PERIOD_NS
        rig.now_ns += step
        result = controller.tick(rig.now_ns, state, rig.command, health)
        assert result.error is None, result.error
        drive = result.command
        every = np.concatenate((drive.position, drive.velocity, drive.torque, drive.kp, drive.kd))
        assert np.isfinite(every).all() and (drive.kp >= 0.0).all() and (drive.kd >= 0.0).all()
        assert (drive.position >= limits.position_lower).all()
        assert (drive.position <= limits.position_upper).all()
        assert np.isfinite(result.action).all() and np.isfinite(result.velocity_command).all()
        if result.motion in (MotionState.PASSIVE, MotionState.FAULT):
            assert not drive.kp.any()
        count["ticks"] += 1
        count["walking"] += result.motion == MotionState.WALK
        count["faults"] += before != result.motion == MotionState.FAULT
