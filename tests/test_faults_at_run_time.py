"""Faults of the simulated robot are switched on and off by service while the robot walks."""

from __future__ import annotations

import pytest
from packages import ROOT

pytest.importorskip("rclpy")
pytest.importorskip("anymal_msgs")
pytest.importorskip("warp")

from footlight_msgs.msg import ControllerStatus  # noqa: E402
from series_elastic_actuator_msgs.msg import SeActuatorReadings  # noqa: E402

from anymal_bridge.conversions import stamp_to_ns  # noqa: E402
from anymal_bridge.interface import READINGS  # noqa: E402

pytestmark = [pytest.mark.ros, pytest.mark.slow]

ROBOT = ROOT / "config" / "robot" / "anymal_d.yaml"
LATEST = 25_000_000  # ns: a command arrives after 5 ms and is obeyed for 20 ms
PATIENCE = 60.0  # s


class Walk:
    """Simulated robot and controller in lockstep, walking forward; both are real processes."""

    def __init__(self, start, observer) -> None:
        shared = {"robot": ROBOT, "lockstep": "true"}
        bundle = {"bundle": ROOT / "config" / "bundles" / "anymal_d", "autostart": "true"}
        start("anymal_bridge.sim_node", shared | {"max_real_time_factor": 1.0})
        start("policy_controller.node", shared | bundle)
        self._observer, self._operator = observer, observer.operator
        self._status = observer.watch(ControllerStatus, "/policy_controller/status")
        self._readings = observer.watch(SeActuatorReadings, READINGS.name)
        self._stand_and_walk()

    def until(self, condition) -> None:
        """Go on walking until ``condition`` holds."""

        def drive() -> bool:
            self._operator.command((0.4, 0.0, 0.0))
            return condition()

        self._observer.until(drive)

    def set_fault(self, **faults) -> None:
        self._operator.set_robot({f"fault.{k}": v for k, v in faults.items()}, PATIENCE)

    def start_over(self) -> None:
        """Stand up again after a fault."""
        self._operator.start_over({"fault.robot_state": 0}, PATIENCE)
        self._stand_and_walk()

    @property
    def motion(self) -> int:
        return self._status().motion_state

    @property
    def reasons(self) -> list[str]:
        return list(self._status().reasons)

    def command_age(self) -> int:
        """ns since the state that the drives' present command answers."""
        reading = self._readings().readings[0]
        return stamp_to_ns(reading.header.stamp) - stamp_to_ns(reading.commanded.header.stamp)

    def command_ages(self, seconds: float) -> list[int]:
        """What ``command_age`` was while ``seconds`` of the robot's time went by."""
        ages, end = [], self._now_ns() + seconds * 1e9

        def over() -> bool:
            ages.append(self.command_age())
            return self._now_ns() > end

        self.until(over)
        return ages

    def _now_ns(self) -> int:
        return stamp_to_ns(self._readings().readings[0].header.stamp)

    def _stand_and_walk(self) -> None:
        self._observer.ask_until_granted("stand")
        self._observer.ask_until_granted("walk")
        self.until(lambda: self.motion == ControllerStatus.WALK and self._readings())


def test_faults_come_and_go_while_the_robot_walks(start, observer):
    walk = Walk(start, observer)
    assert max(walk.command_ages(1.0)) <= LATEST
    walk.set_fault(command_delay=0.02)
    assert max(walk.command_ages(1.0)) > LATEST
    walk.set_fault(command_delay=0.0)
    walk.until(lambda: walk.command_age() <= LATEST)
    walk.command_ages(0.1)  # a command that was still late may have come
    assert max(walk.command_ages(1.0)) <= LATEST
    assert walk.motion == ControllerStatus.WALK

    walk.set_fault(robot_state=-2)
    walk.until(lambda: walk.motion == ControllerStatus.FAULT)
    assert "ROBOT_ERROR" in walk.reasons
    walk.start_over()
