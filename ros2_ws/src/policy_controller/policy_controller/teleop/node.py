"""ROS 2 node of the teleoperation: Joy in, velocities and requests to the controller out.

    python -m policy_controller.teleop.node --ros-args --params-file config/teleop/xbox.yaml

One thread executes everything; no service call waits for its answer.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Sequence
from typing import Any

import rclpy
from diagnostic_msgs.msg import DiagnosticArray, DiagnosticStatus, KeyValue
from rclpy.clock import Clock, ClockType
from rclpy.node import Node
from rclpy.qos import QoSProfile, ReliabilityPolicy
from rclpy.signals import SignalHandlerOptions
from sensor_msgs.msg import Joy

from policy_controller.declaration import declare_groups, read_values
from policy_controller.fields import RefusedError
from policy_controller.process import SpinThread, catch_signals
from policy_controller.teleop.core import Teleop
from policy_controller.teleop.layout import GROUPS, read_layout
from policy_controller.teleop.link import ControllerLink

_RELIABLE_10 = QoSProfile(depth=10, reliability=ReliabilityPolicy.RELIABLE)
_NEWEST = QoSProfile(depth=5, reliability=ReliabilityPolicy.BEST_EFFORT)
_TICK = 0.02


class TeleopNode(Node):
    """Drives the controller that the parameter `controller` names."""

    def __init__(self, **options: Any):
        """options: of rclpy's Node. Raises RefusedError if the parameters are not a layout."""
        super().__init__("teleop", automatically_declare_parameters_from_overrides=True, **options)
        declare_groups(self, GROUPS)
        layout = read_layout(read_values(self))
        self._settings, self._teleop = layout.settings, Teleop(layout)
        self._warned = ""
        self._link = ControllerLink(self, layout.settings, self._report)
        self._diagnostics_publisher = self.create_publisher(
            DiagnosticArray, "/diagnostics", _RELIABLE_10
        )
        self.create_subscription(Joy, "joy", self._on_joy, _NEWEST)
        steady = Clock(clock_type=ClockType.STEADY_TIME)
        self.create_timer(_TICK, self._on_tick, clock=steady)
        self.create_timer(1.0, self._on_second, clock=steady)

    def _on_joy(self, message: Joy) -> None:
        output = self._teleop.take(time.monotonic(), message.axes, message.buttons)
        self._link.send(output.velocity)
        for name in output.requests:
            self._link.request(name)

    def _on_tick(self) -> None:
        now = time.monotonic()
        self._link.send(self._teleop.tick(now))
        self._link.poll(now)
        well, text = self._teleop.describe(now)
        if not well and text.split(";")[0] != self._warned:
            self.get_logger().warning(text)
        self._warned = "" if well else text.split(";")[0]

    def _report(self, name: str, granted: bool, text: str) -> None:
        if granted:  # two calls: rclpy refuses one place that logs at two levels
            self.get_logger().info(f"{name}: {text}")
        else:
            self.get_logger().error(f"{name}: {text}")

    def _on_second(self) -> None:
        teleop, now = self._teleop, time.monotonic()
        well, text = teleop.describe(now)
        velocity = self._link.sent
        values = {
            "phase": teleop.phase.value,
            "age of the joystick [s]": f"{teleop.find_age(now):.3f}",
            "driving without change [s]": f"{teleop.find_unchanged(now):.1f}",
            "velocity sent last": f"{velocity.x:.2f} {velocity.y:.2f} {velocity.yaw_rate:.2f}",
            "messages refused": str(teleop.refused),
            "last refusal": teleop.refusal,
        } | self._link.describe_services()
        status = DiagnosticStatus(
            level=DiagnosticStatus.OK if well else DiagnosticStatus.WARN,
            name="teleop: joystick",
            message=text,
            hardware_id="joystick",
            values=[KeyValue(key=key, value=value) for key, value in values.items()],
        )
        message = DiagnosticArray(status=[status])
        message.header.stamp = self.get_clock().now().to_msg()
        self._diagnostics_publisher.publish(message)

    def stop(self) -> None:
        """Send zero velocities if it was driving; for the end of the process, when no callback
        runs any more."""
        for velocity in self._teleop.stop("the node ends"):
            self._link.send(velocity)


def main(args: Sequence[str] | None = None) -> int:
    """Run the node until SIGINT or SIGTERM."""
    stop = catch_signals()
    rclpy.init(args=args, signal_handler_options=SignalHandlerOptions.NO)
    try:
        node = TeleopNode()
        spin = SpinThread(node)
        spin.start()
        stop.wait()
        spin.stop()
        node.stop()
        node.destroy_node()
    except RefusedError as error:
        print(error, file=sys.stderr)
        return 1
    finally:
        rclpy.shutdown()
    return 0


if __name__ == "__main__":
    sys.exit(main())
