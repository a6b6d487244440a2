"""A node of a test that watches the robot's topics, and the operator that acts through it."""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Callable

import rclpy
from rclpy.executors import SingleThreadedExecutor
from rclpy.qos import qos_profile_sensor_data
from rclpy.serialization import deserialize_message

from policy_controller.verification.operator import Operator, OperatorError
from policy_controller.verification.recorder import Topics

PATIENCE = 120.0  # s of wall time, for a busy machine; only a failing test waits so long


class Observer:
    """Callbacks run inside ``until``."""

    def __init__(self, domain: int) -> None:
        self._context = rclpy.Context()
        rclpy.init(context=self._context, domain_id=domain)
        self.node = rclpy.create_node("observer", context=self._context)
        self._executor = SingleThreadedExecutor(context=self._context)
        self._executor.add_node(self.node)
        self.operator = Operator(self.node, Topics(), self.until)

    def until(
        self,
        condition: Callable[[], object],
        timeout: float = PATIENCE,
        what: str | Callable[[], str] = "",
    ) -> None:
        """Run callbacks until ``condition`` is true; AssertionError after ``timeout`` s, which says
        ``what`` was waited for, or what a function finds missing then."""
        end = time.monotonic() + timeout
        while not condition():
            if time.monotonic() > end:
                missing = what() if callable(what) else what
                raise AssertionError(f"not within {timeout} s: {missing}")
            self._executor.spin_once(timeout_sec=0.05)

    def watch(self, kind: type, topic: str) -> Callable[[], object]:
        """Function that returns the newest message of a topic, None before the first."""
        serialised: deque[bytes] = deque(maxlen=1)

        def keep(content: bytes) -> None:
            serialised.append(content)

        self.node.create_subscription(kind, topic, keep, qos_profile_sensor_data, raw=True)
        return lambda: deserialize_message(serialised[0], kind) if serialised else None

    def ask_until_granted(self, motion_state: str) -> None:
        """Ask the controller for a motion state until it says yes."""

        def granted() -> bool:
            try:
                self.operator.request_motion_state(motion_state, PATIENCE)
            except OperatorError:
                self._executor.spin_once(timeout_sec=0.1)
                return False
            return True

        self.until(granted, what=motion_state)

    def close(self) -> None:
        """Leave the ROS graph."""
        self._executor.shutdown()
        self.node.destroy_node()
        rclpy.shutdown(context=self._context)
