"""A stand-in for the robot's side of ROS in the tests of the node.

Joints go half of the way to their target at every step. There is no physics in it; the simulated
robot of anymal_bridge is the real counterpart, and tests/ runs the node against that.
"""

from __future__ import annotations

import gc
import itertools
import math
import os
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager

import numpy as np
import rclpy
from anymal_msgs.msg import AnymalState, Contact
from domain_coordinator import domain_id
from footlight_msgs.msg import ControllerStatus
from footlight_msgs.srv import SetMotionState
from geometry_msgs.msg import Twist, TwistStamped
from rclpy.executors import SingleThreadedExecutor
from rclpy.qos import QoSProfile, ReliabilityPolicy
from series_elastic_actuator_msgs.msg import SeActuatorCommands
from std_srvs.srv import Trigger

from policy_controller.messages import to_nanoseconds, to_time
from policy_controller.state import FOOT_NAMES, JOINT_NAMES

STATE_QOS = QoSProfile(depth=5, reliability=ReliabilityPolicy.BEST_EFFORT)
PERIOD_NS = 20_000_000
PATIENCE = 60.0  # s, for discovery and answers on a busy machine


def wait_for(condition: Callable[[], object], what: str, patience: float = PATIENCE) -> None:
    """Wait until a condition holds; AssertionError naming `what` if it never does."""
    end = time.monotonic() + patience
    while not condition():
        assert time.monotonic() < end, f"waited {patience} s for {what}"
        time.sleep(0.002)


@contextmanager
def own_context() -> Iterator[rclpy.Context]:
    """A ROS context in a domain that no other test uses.

    The search begins at this process: killed runs may have left nodes in the first domains.
    """
    gc.collect()  # a lifecycle node stays in the graph while anything refers to it
    os.environ["ROS_AUTOMATIC_DISCOVERY_RANGE"] = "LOCALHOST"
    context = rclpy.Context()
    numbers = itertools.count(os.getpid())
    with domain_id(lambda: next(numbers) % 100 + 1) as domain:
        rclpy.init(context=context, domain_id=domain)
        yield context
        rclpy.shutdown(context=context)


class LockstepRobot:
    """Publishes a state, waits for the command that answers it, and lets a period pass."""

    def __init__(self, context: rclpy.Context, pose: tuple[float, ...], stamped: bool = True):
        self.node = rclpy.create_node("lockstep_robot", context=context)
        self._states = self.node.create_publisher(
            AnymalState, "/state_estimator/anymal_state", STATE_QOS
        )
        self._twists = self.node.create_publisher(
            TwistStamped if stamped else Twist, "/policy_controller/cmd_vel", 1
        )
        self.node.create_subscription(
            SeActuatorCommands, "/motion_control_manager/actuator_commands", self._on_command, 1
        )
        self.node.create_subscription(
            ControllerStatus, "/policy_controller/status", self._on_status, 10
        )
        self._set_motion_state = self.node.create_client(
            SetMotionState, "/policy_controller/set_motion_state"
        )
        self._triggers = {
            name: self.node.create_client(Trigger, f"/policy_controller/{name}")
            for name in ("clear_fault", "emergency_stop")
        }
        self.stamp_ns = 1_000_000_000
        self.position = dict(zip(JOINT_NAMES, pose, strict=True))
        self.names = list(JOINT_NAMES)
        self.edit: Callable[[AnymalState], None] = lambda message: None
        self.twist: tuple[float, float, float] | None = None
        self._stamped = stamped
        self.commands: list[SeActuatorCommands] = []
        self.statuses: list[ControllerStatus] = []
        self._executor = SingleThreadedExecutor(context=context)
        self._executor.add_node(self.node)
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._spin)
        self._thread.start()

    def _spin(self) -> None:
        while not self._stop.is_set():
            self._executor.spin_once(timeout_sec=0.1)

    def close(self) -> None:
        """Leave the graph cleanly."""
        self._stop.set()
        self._thread.join()
        self._executor.shutdown()
        self.node.destroy_node()

    def _on_command(self, message: SeActuatorCommands) -> None:
        self.commands.append(message)

    def _on_status(self, message: ControllerStatus) -> None:
        self.statuses.append(message)

    def publish_state(self) -> None:
        """One state with the present stamp; `edit` may change it."""
        message = AnymalState()
        message.header.stamp = to_time(self.stamp_ns)
        message.twist.header.frame_id = "base"
        message.pose.pose.orientation.w = 1.0
        message.joints.name = list(self.names)
        message.joints.position = [self.position.get(name, 0.5) for name in self.names]
        message.joints.velocity = [0.0] * len(self.names)
        message.joints.effort = [0.0] * len(self.names)
        message.contacts = [Contact(name=n, state=Contact.STATE_CLOSED) for n in FOOT_NAMES]
        self.edit(message)
        self._states.publish(message)

    def publish_twist(self, twist: tuple[float, float, float]) -> None:
        """One velocity command, with the zero stamp that means now."""
        message = TwistStamped() if self._stamped else Twist()
        inner = message.twist if self._stamped else message
        inner.linear.x, inner.linear.y, inner.angular.z = twist
        self.send_twist(message)

    def send_twist(self, message: TwistStamped | Twist) -> None:
        """Any message on ~/cmd_vel."""
        self._twists.publish(message)

    def step(self, advance: bool = True) -> tuple[SeActuatorCommands, ControllerStatus]:
        """State out, answer in, one period on. Returns the answer and the status of that tick."""
        stamp = to_time(self.stamp_ns)

        def answers(messages: list, stamp_of: Callable) -> list:
            return [message for message in messages[-5:] if stamp_of(message) == stamp]

        end = time.monotonic() + PATIENCE
        command, status = [], []
        while not (command and status):
            assert time.monotonic() < end, f"no answer to state {stamp} in {PATIENCE} s"
            self.publish_state()  # again, if it was lost or the controller was not yet there
            again = time.monotonic() + 1.0
            while not (command and status) and time.monotonic() < again:
                time.sleep(0.0005)
                command = answers(self.commands, lambda m: m.commands[0].header.stamp)
                status = answers(self.statuses, lambda m: m.header.stamp)
        for drive in command[-1].commands:
            if drive.pid_gains_p > 0.0:
                self.position[drive.name] += 0.5 * (drive.position - self.position[drive.name])
        if advance:
            self.stamp_ns += PERIOD_NS
        return command[-1], status[-1]

    def run(self, steps: int) -> ControllerStatus:
        """Several steps, with a fresh velocity command at each if `twist` is set."""
        for _ in range(steps):
            if self.twist is not None:
                self.publish_twist(self.twist)
            status = self.step()[1]
        return status

    def run_until(self, motion_state: int, steps: int = 1000) -> ControllerStatus:
        """Step until the status shows a motion state."""
        for _ in range(steps):
            status = self.run(1)
            if status.motion_state == motion_state:
                return status
        raise AssertionError(f"{motion_state} not reached: {status.detail}")

    def request(self, motion_state: int) -> SetMotionState.Response:
        """Call ~/set_motion_state."""
        return self.call(self._set_motion_state, SetMotionState.Request(motion_state=motion_state))

    def trigger(self, name: str) -> Trigger.Response:
        """Call ~/clear_fault or ~/emergency_stop."""
        return self.call(self._triggers[name], Trigger.Request())

    def call(self, client, request):
        """Call any service and wait for its answer."""
        wait_for(client.service_is_ready, f"service {client.srv_name}")
        future = client.call_async(request)
        wait_for(future.done, f"an answer of {client.srv_name}")
        return future.result()

    def walk(self) -> None:
        """From PASSIVE to WALK past the take-over."""
        self.run(2)
        assert self.request(ControllerStatus.STAND).success
        self.run_until(ControllerStatus.STAND)
        self.run(30)
        answer = self.request(ControllerStatus.WALK)
        assert answer.success, answer.message
        self.run(40)

    def bad_numbers(self) -> list[float]:
        """Every non-finite number in any command received so far."""
        return [
            value
            for message in self.commands
            for d in message.commands
            for value in (
                d.position,
                d.velocity,
                d.joint_torque,
                d.pid_gains_p,
                d.pid_gains_i,
                d.pid_gains_d,
            )
            if not math.isfinite(value)
        ]

    def command_received(self, twist: tuple[float, float, float]) -> bool:
        """True if the newest status shows that the policy is given this velocity."""
        c = self.statuses[-1].command
        return bool(np.allclose((c.x, c.y, c.z), twist, atol=1e-9))


def stamp_of(message: SeActuatorCommands) -> int:
    """Stamp of a command, ns; all twelve must agree."""
    (stamp,) = {to_nanoseconds(drive.header.stamp) for drive in message.commands}
    return stamp
