"""The controller's process is killed: the robot's side damps the drives by itself."""

from __future__ import annotations

import time

import pytest
from packages import ROOT

pytest.importorskip("rclpy")
pytest.importorskip("anymal_msgs")
pytest.importorskip("warp")

from series_elastic_actuator_msgs.msg import SeActuatorReadings  # noqa: E402

from anymal_bridge.conversions import stamp_to_ns  # noqa: E402
from anymal_bridge.interface import READINGS  # noqa: E402

pytestmark = pytest.mark.ros

ROBOT = ROOT / "config" / "robot" / "anymal_d.yaml"
ROBOT_D = 5.0  # N m s/rad, what the robot's side damps with
PATIENT = {"safety.max_overruns": 25, "safety.max_clock_jump": 0.5}  # for a busy machine


def test_killed_controller_leaves_damped_drives(start, observer):
    """How soon is printed; a test that asked for it would fail on a busy machine."""
    start("anymal_bridge.sim_node", {"robot": ROBOT})
    bundle = {"bundle": ROOT / "config" / "bundles" / "anymal_d", "autostart": "true"}
    controller = start("policy_controller.node", {"robot": ROBOT} | bundle | PATIENT)
    readings = observer.watch(SeActuatorReadings, f"/{READINGS.name}")

    def obeyed() -> tuple[float, float, int]:
        """P, D and stamp of the command that the drives obey."""
        commanded = readings().readings[0].commanded
        return commanded.pid_gains_p, commanded.pid_gains_d, stamp_to_ns(commanded.header.stamp)

    observer.ask_until_granted("stand")
    observer.until(lambda: readings() and obeyed()[0] > 0.0, what="a robot that stands up")
    controller.kill()
    killed = time.monotonic()
    # Stamp 0 is that of no state: nobody commanded it.
    observer.until(lambda: obeyed() == (0.0, ROBOT_D, 0), what="damping of the robot's own")
    print(f"damped {(time.monotonic() - killed) * 1e3:.1f} ms after the controller was killed")
