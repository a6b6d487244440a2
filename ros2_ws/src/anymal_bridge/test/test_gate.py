"""Commands, state and the watch come from three threads: no command overtakes the damping, and
damping comes although whoever brings the commands is blocked."""

import threading
import time
from contextlib import nullcontext
from dataclasses import replace

import numpy as np
import pytest

from anymal_bridge.gate import Gate, Watch
from anymal_bridge.guard import Guard, GuardLimits, GuardState, Reason
from anymal_bridge.joint_command import JointCommand, Mode
from anymal_bridge.robot_sample import RobotState

POSE = np.tile([0.1, 0.4, -0.8], 4)
PATIENCE_S = 60.0
LIMITS = GuardLimits(
    joint_names=tuple(f"J{i}" for i in range(12)),
    position_lower=POSE - 1.0,
    position_upper=POSE + 1.0,
    velocity=8.5,
    torque=80.0,
    kp_max=150.0,
    kd_max=20.0,
    target_rate=25.0,
    take_over=0.3,
    command_timeout=0.08,
    state_timeout=1e9,
    damping=5.0,
)
ZERO = np.zeros(12)
SPRING = JointCommand(0, Mode.PID_GAINS, POSE, ZERO, ZERO, np.full(12, 85.0), np.full(12, 0.6))


class Robot:
    """Gets the commands; holds up the first one while ``hold`` says so."""

    def __init__(self, hold=lambda: None) -> None:
        self.stiffness: list[float] = []  # P of what came, in order
        self.released = 0
        self._hold = hold

    def send(self, command: JointCommand) -> None:
        if not self.stiffness and command.kp.any():
            self._hold()
        self.stiffness.append(command.kp[0])

    def release(self) -> None:
        self.released += 1


def armed_gate(robot: Robot, clock=lambda: 0.0, dry_run: bool = False) -> Gate:
    gate = Gate(Guard(LIMITS, dry_run), robot.send, robot.release, clock)
    gate.observe_publishers(commanders=1, drivers=0)
    gate.observe_state(0, POSE, RobotState.OK)
    assert gate.arm() is None
    return gate


def wait_for(condition) -> None:
    end = time.monotonic() + PATIENCE_S
    while not condition():
        assert time.monotonic() < end, f"not within {PATIENCE_S} s"
        time.sleep(0.001)


def test_watch_damps_when_the_thread_of_the_commands_is_blocked():
    """Nobody but the watch runs after the command."""
    robot = Robot()
    gate = armed_gate(robot, time.monotonic)
    gate.offer(SPRING)
    watch = Watch(0.005, gate.look)
    watch.start()
    try:
        wait_for(lambda: len(robot.stiffness) > 3)
    finally:
        watch.stop()
    assert robot.stiffness[0] == 85.0 and not any(robot.stiffness[1:])
    assert gate.standing()[:2] == (GuardState.LATCHED, Reason.COMMAND_AGE)


def test_nobody_damps_without_the_watch():
    """The test above fails when the watch is taken away."""
    now = [0.0]
    robot = Robot()
    gate = armed_gate(robot, lambda: now[0])
    gate.offer(SPRING)
    now[0] = 10.0
    assert robot.stiffness == [85.0] and gate.standing()[0] is GuardState.ARMED
    gate.look()
    assert robot.stiffness == [85.0, 0.0] and gate.standing()[0] is GuardState.LATCHED


@pytest.mark.parametrize("locked", [True, False])
def test_command_cannot_overtake_the_damping(locked):
    """It passed the guard and is on its way when the operator stops the robot. Without the lock it
    arrives after the damping, as the last word."""
    sending, stopped = threading.Event(), threading.Event()

    def hold() -> None:
        sending.set()
        stopped.wait(0.2 if locked else PATIENCE_S)  # with the lock nobody can stop it now

    robot = Robot(hold)
    gate = armed_gate(robot)
    if not locked:
        gate._lock = nullcontext()
    driver = threading.Thread(target=gate.offer, args=(SPRING,))
    driver.start()
    assert sending.wait(PATIENCE_S)
    gate.stop(Reason.OPERATOR_STOP, "test")
    stopped.set()
    driver.join()
    assert robot.stiffness == ([85.0, 0.0] if locked else [0.0, 85.0])


def test_reports_hold_the_newest_output_once():
    robot = Robot()
    gate = armed_gate(robot, dry_run=True)
    gate.offer(SPRING)
    gate.offer(replace(SPRING, velocity=np.full(12, 99.0)))
    report = gate.report()
    assert (report.state, report.sent, report.clamped["velocity"]) == (GuardState.ARMED, 0, 1)
    assert report.output.filtered == ("velocity",) and not report.output.send
    assert gate.report().output is None and robot.stiffness == []


def test_disarmed_gate_leaves_the_robot_to_others():
    robot = Robot()
    gate = armed_gate(robot)
    gate.offer(SPRING)
    gate.disarm()
    gate.offer(SPRING), gate.look()
    assert (robot.stiffness, robot.released, gate.is_driving()) == ([85.0], 1, False)


def test_watch_keeps_to_its_times_and_tells_how_late_it_was():
    """One look that takes 30 periods makes the next one late; no burst makes up for it."""
    times: list[float] = []

    def look() -> None:
        times.append(time.monotonic())
        if len(times) == 3:
            time.sleep(0.3)

    watch = Watch(0.01, look)
    watch.start()
    wait_for(lambda: len(times) > 20)
    watch.stop()
    assert watch.take_lateness() > 0.25 and watch.take_lateness() == 0.0
    slots = (times[-1] - times[0]) / 0.01
    assert slots > len(times) - 1 + 10  # 29 were left out, the first look may have been late


def test_watch_that_never_started_can_be_stopped():
    Watch(0.01, lambda: None).stop()
