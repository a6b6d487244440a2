"""The bridge's guard, as configured, lets everything pass that the controller, as configured, sends
to a healthy robot. Otherwise it would stop or distort a robot that does what it should."""

from __future__ import annotations

import numpy as np
import pytest

pytest.importorskip("warp")
pytest.importorskip("onnxruntime")

from guarded_robot import (  # noqa: E402
    BUNDLE,
    GuardedRobot,
    controller_settings,
    guard_limits,
)

from anymal_bridge.guard import GuardState  # noqa: E402
from policy_controller.bundle import load_bundle  # noqa: E402
from policy_controller.motion import MotionState  # noqa: E402


def greatest_commands() -> dict[str, tuple[float, float]]:
    """By kind: the greatest that the controller may send, and what the guard lets pass."""
    bundle, (safety, motion), guard = load_bundle(BUNDLE), controller_settings(), guard_limits()
    kd = max(*bundle.gains.kd, motion.stand_kd, motion.damping)
    speed = max(motion.joint_rate, motion.takeover_rate)
    return {
        "P": (max(*bundle.gains.kp, motion.stand_kp), guard.kp_max),
        "D": (kd, guard.kd_max),
        "torque of scripted motions": (motion.torque_share * bundle.limits.torque, guard.torque),
        "speed of scripted targets": (speed, guard.target_rate),
        "speed of the policy's targets": (
            safety.max_action_jump * bundle.action.scale / bundle.control_period,
            guard.target_rate,
        ),
        "time between commands": (2.0 * bundle.control_period, guard.command_timeout),
        "position above the limit": (
            float(np.max(bundle.limits.position_upper - guard.position_upper)),
            0.0,
        ),
        "position below the limit": (
            float(np.max(guard.position_lower - bundle.limits.position_lower)),
            0.0,
        ),
    }


@pytest.mark.parametrize("kind", greatest_commands())
def test_limit_of_the_guard_is_above_what_the_controller_may_send(kind):
    sent, allowed = greatest_commands()[kind]
    assert sent <= allowed * (1.0 + 1e-9), f"the controller may send {sent}, allowed {allowed}"


def test_guard_neither_stops_nor_changes_a_whole_walk():
    robot = GuardedRobot()
    robot.walk()
    for velocity in ((0.8, 0.0, 0.0), (-0.5, 0.0, 0.0), (0.0, 0.5, 0.0), (0.5, 0.2, 0.8)):
        robot.velocity = velocity
        robot.run(2.0)
        assert robot.controller.motion is MotionState.WALK, robot.result.detail
        assert robot.guard.state is GuardState.ARMED, robot.guard.detail
    robot.velocity = (0.0, 0.0, 0.0)
    robot.request(MotionState.LIE_DOWN)
    robot.run_until(MotionState.PASSIVE)
    assert robot.guard.state is GuardState.ARMED, robot.guard.detail
    # Where P |target - q| is above the drive's torque, the drive saturates with or without guard.
    saturated = robot.guard.counts.pop("torque")
    assert saturated < 0.01 * robot.now / 0.02
    assert robot.guard.counts == {"target_rate": 0, "position": 0, "velocity": 0}
