"""ROS 2 node of the teleoperation: Joy in, velocities and requests to the controller out.

    python -m policy_controller.teleop.node --ros-args --params-file config/teleop/xbox.yaml

One thread executes everything; no service call waits for its answer.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Sequence
from functools import partial
from typing import Any

import rclpy
from diagnostic_msgs.msg import DiagnosticArray, DiagnosticStatus, KeyValue
from footlight_msgs.msg import ControllerStatus
from footlight_msgs.srv import SetMotionState
from geometry_msgs.msg import Twist, TwistStamped
from rclpy.clock import Clock, ClockType
from rclpy.node import Node
from rclpy.qos import QoSProfile, ReliabilityPolicy
from rclpy.signals import SignalHandlerOptions
from rclpy.task import Future
from sensor_msgs.msg import Joy
from std_srvs.srv import Trigger

from policy_controller.declaration import declare_groups, read_values
from policy_controller.fields import RefusedError
from policy_controller.process import SpinThread, catch_signals
from policy_controller.teleop.core import EMERGENCY_STOP, Teleop, Velocity
from policy_controller.teleop.layout import GROUPS, read_layout

_RELIABLE_1 = QoSProfile(depth=1, reliability=ReliabilityPolicy.RELIABLE)
_RELIABLE_10 = QoSProfile(depth=10, reliability=ReliabilityPolicy.RELIABLE)
_NEWEST = QoSProfile(depth=5, reliability=ReliabilityPolicy.BEST_EFFORT)
_TICK = 0.02
_ANSWER_TIMEOUT = 1.0  # s
_EMERGENCY_PERIOD = 0.2  # s, between two calls of ~/emergency_stop until one is answered


class TeleopNode(Node):
    """Drives the controller that the parameter `controller` names."""

    def __init__(self, **options: Any):
        """options: of rclpy's Node. Raises RefusedError if the parameters are not a layout."""
        super().__init__("teleop", automatically_declare_parameters_from_overrides=True, **options)
        declare_groups(self, GROUPS)
        layout = read_layout(read_values(self))
        self._settings, self._teleop = layout.settings, Teleop(layout)
        self._sent = Velocity()
        self._warned = ""
        self._calls: dict[str, tuple[Any, Future, float]] = {}
        self._emergency = False
        controller = layout.settings.controller
        self._publisher = self.create_publisher(
            TwistStamped if layout.settings.publish_stamped_twist else Twist,
            f"{controller}/cmd_vel",
            _RELIABLE_1,
        )
        self._diagnostics_publisher = self.create_publisher(
            DiagnosticArray, "/diagnostics", _RELIABLE_10
        )
        state = self.create_client(SetMotionState, f"{controller}/set_motion_state")
        status = ControllerStatus
        self._by_button = {
            "stand_up": (state, SetMotionState.Request(motion_state=status.STAND_UP)),
            "walk": (state, SetMotionState.Request(motion_state=status.WALK)),
            "lie_down": (state, SetMotionState.Request(motion_state=status.LIE_DOWN)),
        } | {
            name: (self.create_client(Trigger, f"{controller}/{name}"), Trigger.Request())
            for name in ("clear_fault", EMERGENCY_STOP)
        }
        self.create_subscription(Joy, "joy", self._on_joy, _NEWEST)
        steady = Clock(clock_type=ClockType.STEADY_TIME)
        self.create_timer(_TICK, self._on_tick, clock=steady)
        self.create_timer(1.0, self._on_second, clock=steady)

    def _on_joy(self, message: Joy) -> None:
        output = self._teleop.take(time.monotonic(), message.axes, message.buttons)
        self._send(output.velocity)
        for name in output.requests:
            self._emergency |= name == EMERGENCY_STOP
            self._request(name)

    def _on_tick(self) -> None:
        now = time.monotonic()
        self._send(self._teleop.tick(now))
        for name, (client, future, since) in list(self._calls.items()):
            patience = _EMERGENCY_PERIOD if name == EMERGENCY_STOP else _ANSWER_TIMEOUT
            if now - since > patience:
                del self._calls[name]
                if name != EMERGENCY_STOP:  # a late answer ends the repetition
                    client.remove_pending_request(future)
                self.get_logger().error(f"{name}: no answer for {patience} s")
        if self._emergency and EMERGENCY_STOP not in self._calls:
            self._request(EMERGENCY_STOP)
        well, text = self._teleop.describe(now)
        if not well and text.split(";")[0] != self._warned:
            self.get_logger().warning(text)
        self._warned = "" if well else text.split(";")[0]

    def _send(self, velocity: Velocity | None) -> None:
        if velocity is None:
            return
        self._sent = velocity
        twist = Twist()
        twist.linear.x, twist.linear.y, twist.angular.z = velocity
        if not self._settings.publish_stamped_twist:
            self._publisher.publish(twist)
            return
        message = TwistStamped(twist=twist)
        message.header.frame_id = self._settings.frame
        message.header.stamp = self.get_clock().now().to_msg()
        self._publisher.publish(message)

    def _request(self, name: str) -> None:
        """Call a service. One that is not there now is not called later either, except the
        emergency stop, which _on_tick repeats until it is answered."""
        client, request = self._by_button[name]
        if not client.service_is_ready():
            self.get_logger().error(
                f"{name}: found no service {client.srv_name}; start the controller",
                throttle_duration_sec=1.0,
            )
            return
        if name in self._calls:  # pressed again: forget the call before
            client.remove_pending_request(self._calls[name][1])
        future = client.call_async(request)
        self._calls[name] = (client, future, time.monotonic())
        future.add_done_callback(partial(self._on_answer, name))

    def _on_answer(self, name: str, future: Future) -> None:
        if name == EMERGENCY_STOP:
            self._emergency = False
        if name in self._calls and self._calls[name][1] is future:
            del self._calls[name]
        answer = future.result()
        log = self.get_logger().info if answer.success else self.get_logger().error
        log(f"{name}: {answer.message}")

    def _on_second(self) -> None:
        teleop, now = self._teleop, time.monotonic()
        well, text = teleop.describe(now)
        velocity = self._sent
        values = {
            "phase": teleop.phase.value,
            "age of the joystick [s]": f"{teleop.find_age(now):.3f}",
            "driving without change [s]": f"{teleop.find_unchanged(now):.1f}",
            "velocity sent last": f"{velocity.x:.2f} {velocity.y:.2f} {velocity.yaw_rate:.2f}",
            "messages refused": str(teleop.refused),
            "last refusal": teleop.refusal,
        } | {
            client.srv_name: "there" if client.service_is_ready() else "missing"
            for client, _ in self._by_button.values()
        }
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
            self._send(velocity)


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
