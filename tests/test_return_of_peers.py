"""The bridge goes on while what it connects is killed and comes back; nobody restarts the bridge.

Robot, bridge and controller are real processes. In PASSIVE the controller damps with a D of its
own, so that what the robot obeys says who commands it. Time-outs are ten times as long as on a
robot, so that a busy machine does not trip them.
"""

from __future__ import annotations

import signal
import time

import pytest
from packages import ROOT

pytest.importorskip("rclpy")
pytest.importorskip("anymal_msgs")
pytest.importorskip("warp")

from diagnostic_msgs.msg import DiagnosticArray  # noqa: E402
from series_elastic_actuator_msgs.msg import SeActuatorReadings  # noqa: E402

from anymal_bridge.conversions import stamp_to_ns  # noqa: E402
from anymal_bridge.interface import DIAGNOSTICS, INTERFACE, READINGS  # noqa: E402
from policy_controller.verification.operator import OperatorError  # noqa: E402

pytestmark = [pytest.mark.ros, pytest.mark.slow]

ROBOT = ROOT / "config" / "robot" / "anymal_d.yaml"
CONTROLLER_D, BRIDGE_D = 10.0, 5.0  # N m s/rad: motion.damping, guard.damping
PATIENCE = 60.0  # s; DDS misses a killed process after 20 s


class Rig:
    """The three processes, and what the robot obeys."""

    def __init__(self, start, observer) -> None:
        self._start, self._observer = start, observer
        self.start_robot()
        self.bridge = start(
            "anymal_bridge.bridge_node",
            {
                "robot": ROBOT,
                "dry_run": "false",
                "robot_command_timeout": 1.0,
                "guard.command_timeout": 0.8,
                "guard.state_timeout": 1.0,
            },
        )
        self.start_controller()
        self._readings = observer.watch(SeActuatorReadings, f"/robot/{READINGS.name}")
        self._guard: dict[str, str] = {}
        observer.node.create_subscription(
            DiagnosticArray, DIAGNOSTICS.name, self._on_diagnostics, DIAGNOSTICS.qos
        )

    def start_robot(self) -> None:
        topics = {f"topics.{t.key}": f"/robot/{t.name.removeprefix('/')}" for t in INTERFACE}
        parameters = {"robot": ROBOT, "command_timeout": 1.0} | topics
        self.robot = self._start("anymal_bridge.sim_node", parameters)

    def start_controller(self) -> None:
        bundle = {"bundle": ROOT / "config" / "bundles" / "anymal_d", "autostart": "true"}
        self.controller = self._start("policy_controller.node", {"robot": ROBOT} | bundle)

    def arm_until_obeyed(self, after_ns: int = 0) -> None:
        """Arm the bridge whenever it lets, until the robot obeys the controller's answer to a state
        later than ``after_ns``. Once is not enough: the bridge may see a killed controller as a
        second commander for a while."""

        def obeyed() -> bool:
            try:
                self._observer.operator.arm_bridge(PATIENCE)
            except OperatorError:
                pass
            end = time.monotonic() + 0.5
            self._observer.until(lambda: time.monotonic() > end)
            return self.obeyed() == CONTROLLER_D and self.answered_ns() > after_ns

        self._observer.until(obeyed, what="the controller's commands in the robot")

    def obeyed(self) -> float:
        """D of the command that the robot obeys."""
        message = self._readings()
        return message.readings[0].commanded.pid_gains_d if message else 0.0

    def answered_ns(self) -> int:
        """Stamp of the state that this command answers."""
        return stamp_to_ns(self._readings().readings[0].commanded.header.stamp)

    def until_stopped(self) -> None:
        """Until the guard has stopped the robot because somebody fell silent; on a machine that
        stands still for a second it need not be the one whom the test has stopped."""
        silent = ("command_age", "state_age")
        self._observer.until(lambda: self._guard.get("reason") in silent, what=lambda: self._guard)

    def _on_diagnostics(self, message: DiagnosticArray) -> None:
        for status in message.status:
            if status.name == "anymal_bridge: guard":
                self._guard = {item.key: item.value for item in status.values}


def test_killed_or_stopped_controller_and_killed_robot_come_back_without_a_restart(start, observer):
    rig = Rig(start, observer)
    rig.arm_until_obeyed()

    rig.controller.kill()
    rig.until_stopped()
    observer.until(lambda: rig.obeyed() == BRIDGE_D)
    rig.start_controller()
    rig.arm_until_obeyed(after_ns=rig.answered_ns())

    # One that hangs, and then goes on as if nothing had been.
    rig.controller.send_signal(signal.SIGSTOP)
    rig.until_stopped()
    observer.until(lambda: rig.obeyed() == BRIDGE_D)
    last_ns = rig.answered_ns()
    rig.controller.send_signal(signal.SIGCONT)
    observer.until(lambda: rig.answered_ns() > last_ns + 10**9)  # and the bridge damps on
    assert rig.obeyed() == BRIDGE_D
    rig.arm_until_obeyed(after_ns=rig.answered_ns())

    last_ns = rig.answered_ns()
    rig.robot.kill()
    rig.until_stopped()
    rig.start_robot()
    rig.arm_until_obeyed(after_ns=last_ns)
    assert rig.bridge.poll() is None
