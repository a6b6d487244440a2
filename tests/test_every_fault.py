"""Every fault of the simulated robot, while it walks: what follows, and that it is the safe state
of docs/interfaces.md. Simulated time, so each ends after exactly the same number of steps."""

from __future__ import annotations

from dataclasses import dataclass, fields

import pytest

pytest.importorskip("warp")
pytest.importorskip("onnxruntime")

from guarded_robot import GuardedRobot  # noqa: E402
from packages import ROOT  # noqa: E402

from anymal_bridge.faults import Faults  # noqa: E402
from anymal_bridge.guard import GuardState, Reason  # noqa: E402
from anymal_bridge.robot_sample import RobotState  # noqa: E402
from policy_controller.motion import MotionState  # noqa: E402

LATEST = 5.0  # s, of watching a walk that goes on
SINKING = 2.0  # s, in which a damped robot sinks until a joint is out of range
FORWARD, LEFT_ABOUT = (0.6, 0.0, 0.0), (0.0, 0.0, 0.8)


@dataclass(frozen=True)
class Case:
    """A fault, and who stops the robot: the controller by one of its reasons, the guard of the
    bridge, or by its own time-out the robot. Nobody: it walks on."""

    field: str
    value: object
    controller: tuple[str, ...] = ()  # any of these
    guard: Reason | None = None
    robot: bool = False
    within: float = LATEST  # s, until the drives are damped
    turned: bool = False  # by about half a turn first: else base and odom axes are the same

    def __str__(self) -> str:
        return f"{self.field}={getattr(self.value, 'name', self.value)}"

    @property
    def walks_on(self) -> bool:
        return not (self.controller or self.guard or self.robot)


CASES = (
    Case("command_delay", 0.02),
    Case("command_delay", 0.2, robot=True, within=0.12),
    Case("command_jitter", 0.1),
    Case("command_loss", 0.3),
    Case("command_loss", 1.0, robot=True, within=0.12),
    Case("command_reorder", 0.5),
    Case("command_duplicate", 1.0),
    Case("state_loss", 0.3),
    Case("state_loss", 1.0, controller=("STATE_STALE",), within=0.1),
    Case("nan_joint", 4, guard=Reason.JOINT_UNKNOWN, within=0.05),
    Case("stuck_joint", 4, controller=("JOINT_STUCK",), within=0.5),
    Case("quaternion_wxyz", True, controller=("ORIENTATION_JUMP",), within=0.05),
    Case("twist_in_odom", True, controller=("JOINT_POSITION", "TILT"), turned=True, within=3.0),
    Case("stamp_offset", 1.0, controller=("CLOCK_JUMP",), within=0.05),
    Case("stamp_offset", -1.0, controller=("CLOCK_JUMP",), within=0.05),
    Case("second_publisher", True, guard=Reason.SECOND_DRIVER, within=0.05),
    Case("low_battery", True, controller=("JOINT_POSITION", "TILT"), within=2.0),
    Case("robot_state", RobotState.ERROR_ESTIMATOR, guard=Reason.ROBOT_STATE, within=0.05),
)


def walking_robot(turned: bool) -> GuardedRobot:
    robot = GuardedRobot()
    robot.walk()
    if turned:
        robot.velocity = LEFT_ABOUT
        robot.run(4.0)
    robot.velocity = FORWARD
    robot.run(1.0)
    return robot


def test_every_fault_has_a_case_and_a_row_in_the_documentation():
    assert {case.field for case in CASES} == {field.name for field in fields(Faults)}
    text = (ROOT / "docs" / "interfaces.md").read_text()
    rows = text.split("<!-- faults: begin -->")[1].split("<!-- faults: end -->")[0]
    for case in CASES:
        (row,) = [line for line in rows.splitlines() if f"`fault.{case}`" in line]
        named = [*case.controller, *([case.guard.value] if case.guard else [])]
        named += ["robot's own time-out"] * case.robot + ["walks on"] * case.walks_on
        assert all(name in row for name in named), row


@pytest.mark.parametrize("case", CASES, ids=str)
def test_fault_ends_in_the_documented_state(case):
    robot = walking_robot(case.turned)
    assert robot.controller.motion is MotionState.WALK, robot.result.detail
    robot.sim.faults = Faults(**{case.field: case.value})
    end = robot.now + case.within
    while robot.now < end and robot.sim.obeyed.kp.any():
        robot.step()
    if case.walks_on:
        assert robot.controller.motion is MotionState.WALK, robot.result.detail
        assert robot.guard.state is GuardState.ARMED, robot.guard.detail
        assert robot.sim.sample.state[2] > 0.45  # m, upright: 0.59 is the height of standing
        return
    assert not robot.sim.obeyed.kp.any() and robot.sim.obeyed.kd.all(), "the drives are not damped"
    by_robot = robot.sim.command_age() > 0.1
    assert by_robot == case.robot
    if case.controller:
        assert robot.controller.motion is MotionState.FAULT
        assert set(case.controller) & set(robot.result.reasons), robot.result.detail
    if case.guard:
        assert (robot.guard.state, robot.guard.reason) == (GuardState.LATCHED, case.guard)

    # It stays so: the robot sinks, and nobody loads a spring again, not even when the fault goes.
    # A robot that damped by its own time-out obeys whatever comes until the controller has noticed;
    # a latched guard lets nothing pass, and the controller notices by the sinking.
    if case.robot:
        robot.run(SINKING)
    robot.sim.faults = Faults()
    end = robot.now + SINKING
    while robot.controller.motion is not MotionState.FAULT and robot.now < end:
        robot.step()
        assert not robot.sim.obeyed.kp.any() and robot.sim.obeyed.kd.all()
    for _ in range(3):
        robot.run(1.0)
        assert robot.controller.motion is MotionState.FAULT, robot.result.detail
        assert not robot.sim.obeyed.kp.any() and robot.sim.obeyed.kd.all()
