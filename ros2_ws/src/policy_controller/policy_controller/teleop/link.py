"""What an operator's node sends to the controller: velocities and requests.

No call waits for its answer; `poll` notices calls that stay without one.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from functools import partial
from typing import Any

from footlight_msgs.msg import ControllerStatus
from footlight_msgs.srv import SetMotionState
from geometry_msgs.msg import Twist, TwistStamped
from rclpy.node import Node
from rclpy.qos import QoSProfile, ReliabilityPolicy
from rclpy.task import Future
from std_srvs.srv import Trigger

from policy_controller.teleop.core import EMERGENCY_STOP, Velocity
from policy_controller.teleop.layout import TeleopSettings

_RELIABLE_1 = QoSProfile(depth=1, reliability=ReliabilityPolicy.RELIABLE)
_ANSWER_TIMEOUT = 1.0  # s
_EMERGENCY_PERIOD = 0.2  # s, between two calls of ~/emergency_stop until one is answered

Report = Callable[[str, bool, str], None]
"""Told the name of a request, whether it was granted, and the answer or what is wrong."""


class ControllerLink:
    """The controller's velocity topic and services, from one node. Not thread-safe: for the
    callbacks of that node."""

    def __init__(self, node: Node, settings: TeleopSettings, report: Report):
        """Connects `node` to the controller that `settings` name."""
        self._node, self._settings, self._report = node, settings, report
        self.sent = Velocity()
        self._calls: dict[str, tuple[Any, Future, float]] = {}
        self._emergency, self._repeat_at = False, 0.0
        controller = settings.controller
        self._publisher = node.create_publisher(
            TwistStamped if settings.publish_stamped_twist else Twist,
            f"{controller}/cmd_vel",
            _RELIABLE_1,
        )
        state = node.create_client(SetMotionState, f"{controller}/set_motion_state")
        status = ControllerStatus
        self._by_name = {
            "stand_up": (state, SetMotionState.Request(motion_state=status.STAND_UP)),
            "walk": (state, SetMotionState.Request(motion_state=status.WALK)),
            "lie_down": (state, SetMotionState.Request(motion_state=status.LIE_DOWN)),
        } | {
            name: (node.create_client(Trigger, f"{controller}/{name}"), Trigger.Request())
            for name in ("clear_fault", EMERGENCY_STOP)
        }

    def send(self, velocity: Velocity | None) -> None:
        """Publish a velocity; None sends nothing."""
        if velocity is None:
            return
        self.sent = velocity
        twist = Twist()
        twist.linear.x, twist.linear.y, twist.angular.z = velocity
        if not self._settings.publish_stamped_twist:
            self._publisher.publish(twist)
            return
        message = TwistStamped(twist=twist)
        message.header.frame_id = self._settings.frame
        message.header.stamp = self._node.get_clock().now().to_msg()
        self._publisher.publish(message)

    def request(self, name: str) -> None:
        """Call the service of a mode button. One that is not there now is not called later either,
        except the emergency stop, which `poll` repeats until it is answered."""
        if name == EMERGENCY_STOP:
            self._emergency, self._repeat_at = True, time.monotonic() + _EMERGENCY_PERIOD
        client, request = self._by_name[name]
        if not client.service_is_ready():
            problem = f"found no service {client.srv_name}; start and activate the controller"
            self._report(name, False, problem)
            return
        if name in self._calls:  # pressed again: forget the call before
            client.remove_pending_request(self._calls[name][1])
        future = client.call_async(request)
        self._calls[name] = (client, future, time.monotonic())
        future.add_done_callback(partial(self._on_answer, name))

    def poll(self, now: float) -> None:
        """Report calls without answer, and repeat the emergency stop; at 20 Hz or more."""
        for name, (client, future, since) in list(self._calls.items()):
            patience = _EMERGENCY_PERIOD if name == EMERGENCY_STOP else _ANSWER_TIMEOUT
            if now - since > patience:
                del self._calls[name]
                if name != EMERGENCY_STOP:  # a late answer ends the repetition
                    client.remove_pending_request(future)
                self._report(name, False, f"no answer for {patience} s")
        if self._emergency and EMERGENCY_STOP not in self._calls and now >= self._repeat_at:
            self.request(EMERGENCY_STOP)

    def describe_services(self) -> dict[str, str]:
        """Name of each service, and whether it is there."""
        return {
            client.srv_name: "there" if client.service_is_ready() else "missing"
            for client, _ in self._by_name.values()
        }

    def _on_answer(self, name: str, future: Future) -> None:
        if name == EMERGENCY_STOP:
            self._emergency = False
        if name in self._calls and self._calls[name][1] is future:
            del self._calls[name]
        answer = future.result()
        self._report(name, answer.success, answer.message)
