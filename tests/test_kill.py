"""The controller's process is killed: the robot's side damps the drives by itself, in time."""

from __future__ import annotations

import time
from collections import deque

import pytest
from packages import ROOT

rclpy = pytest.importorskip("rclpy")
pytest.importorskip("anymal_msgs")

from footlight_msgs.msg import ControllerStatus  # noqa: E402
from footlight_msgs.srv import SetMotionState  # noqa: E402
from rclpy.executors import SingleThreadedExecutor  # noqa: E402
from rclpy.qos import qos_profile_sensor_data  # noqa: E402
from rclpy.serialization import deserialize_message  # noqa: E402
from series_elastic_actuator_msgs.msg import SeActuatorReadings  # noqa: E402

pytestmark = pytest.mark.ros

ROBOT = ROOT / "config" / "robot" / "anymal_d.yaml"
PATIENCE = 60.0  # s
LIMIT = 0.1  # s without commands, the rule of the robot's side
SLACK = 0.2  # s for a busy machine


def test_killed_controller_leaves_damped_drives(domain, start):
    start("anymal_bridge.sim_node", {"robot": ROBOT})
    bundle = ROOT / "config" / "bundles" / "anymal_d"
    controller = start(
        "policy_controller.node", {"bundle": bundle, "robot": ROBOT, "autostart": "true"}
    )
    context = rclpy.Context()
    rclpy.init(context=context, domain_id=domain)
    node = rclpy.create_node("observer", context=context)
    executor = SingleThreadedExecutor(context=context)
    executor.add_node(node)
    readings: deque[tuple[float, bytes]] = deque(maxlen=400)
    node.create_subscription(
        SeActuatorReadings,
        "/anymal_low_level_controller/actuator_readings",
        lambda content: readings.append((time.monotonic(), content)),
        qos_profile_sensor_data,
        raw=True,
    )
    client = node.create_client(SetMotionState, "/policy_controller/set_motion_state")

    def spin(seconds: float) -> None:
        end = time.monotonic() + seconds
        while time.monotonic() < end:
            executor.spin_once(timeout_sec=0.02)

    def gain(content: bytes) -> float:
        return max(
            reading.commanded.pid_gains_p
            for reading in deserialize_message(content, SeActuatorReadings).readings
        )

    try:
        end = time.monotonic() + PATIENCE
        while not readings or gain(readings[-1][1]) == 0.0:
            assert time.monotonic() < end, "the robot does not stand up"
            if client.service_is_ready():
                request = SetMotionState.Request(motion_state=ControllerStatus.STAND)
                client.call_async(request)
            spin(0.3)
        readings.clear()
        killed = time.monotonic()
        controller.kill()
        spin(LIMIT + SLACK + 0.3)
        gains = [(stamp - killed, gain(content)) for stamp, content in readings]
        driven = [stamp for stamp, value in gains if value > 0.0]
        damped = [stamp for stamp, value in gains if value == 0.0]
        print(f"damped {damped[0] * 1e3:.1f} ms after the controller was killed")
        assert driven and driven[-1] < damped[0] < LIMIT + SLACK
    finally:
        executor.shutdown()
        node.destroy_node()
        rclpy.shutdown(context=context)
