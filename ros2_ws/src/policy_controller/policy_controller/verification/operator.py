"""Operator: what a person with a gamepad would do, over the same services and the same topic."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from footlight_msgs.srv import SetMotionState
from geometry_msgs.msg import TwistStamped
from lifecycle_msgs.msg import State, Transition
from lifecycle_msgs.srv import ChangeState, GetState
from rcl_interfaces.srv import SetParameters
from rclpy.client import Client
from rclpy.node import Node
from rclpy.parameter import Parameter
from rclpy.qos import QoSProfile, ReliabilityPolicy
from rclpy.task import Future
from std_srvs.srv import Trigger

from policy_controller.verification.recorder import Topics
from policy_controller.verification.scenario import MOTION_STATES

_TRANSITIONS = {
    "configure": Transition.TRANSITION_CONFIGURE,
    "activate": Transition.TRANSITION_ACTIVATE,
}


class OperatorError(RuntimeError):
    """The controller did not do what it was asked."""


class Operator:
    """Calls the services of the controller and sends velocity commands.

    `wait(condition, timeout, what)` runs the node until the condition holds; it is the caller's, so
    that recording and watching go on while a service is waited for. It raises when `timeout` [s] is
    over.
    """

    def __init__(
        self, node: Node, topics: Topics, wait: Callable[[Callable[[], bool], float, str], None]
    ) -> None:
        name = topics.controller
        self._wait = wait
        self._change_state = node.create_client(ChangeState, f"{name}/change_state")
        self._get_state = node.create_client(GetState, f"{name}/get_state")
        self._set_motion_state = node.create_client(SetMotionState, f"{name}/set_motion_state")
        self._triggers = {
            service: node.create_client(Trigger, service)
            for service in (
                f"{name}/emergency_stop",
                f"{name}/clear_fault",
                f"{topics.robot}/reset",
                f"{topics.bridge}/arm",
            )
        }
        self._topics = topics
        self._set_robot = node.create_client(SetParameters, f"{topics.robot}/set_parameters")
        self._commands = node.create_publisher(
            TwistStamped,
            f"{name}/cmd_vel",
            QoSProfile(depth=1, reliability=ReliabilityPolicy.RELIABLE),
        )

    def bring_up(self, timeout: float) -> None:
        """Configure and activate the controller. Raises OperatorError if it refuses."""
        for name, transition in _TRANSITIONS.items():
            request = ChangeState.Request(transition=Transition(id=transition))
            if not self._call(self._change_state, request, timeout).success:
                raise OperatorError(f"the controller refused to {name}; its log says why")
        state = self._call(self._get_state, GetState.Request(), timeout).current_state
        if state.id != State.PRIMARY_STATE_ACTIVE:
            raise OperatorError(
                f"the controller is '{state.label}' after activation, need 'active'"
            )

    def arm_bridge(self, timeout: float) -> None:
        """Let the bridge pass commands. Raises OperatorError with the bridge's own words."""
        self._trigger(f"{self._topics.bridge}/arm", timeout)

    def request_motion_state(self, name: str, timeout: float) -> None:
        """Ask for a motion state by its name in MOTION_STATES. Raises OperatorError with the
        controller's own words."""
        request = SetMotionState.Request(motion_state=MOTION_STATES.index(name))
        response = self._call(self._set_motion_state, request, timeout)
        if not response.success:
            raise OperatorError(
                f"the controller refused motion state {name.upper()}: {response.message}"
            )

    def set_robot(self, parameters: Mapping[str, Any], timeout: float) -> None:
        """Set parameters of the simulated robot. Raises OperatorError with what it refuses."""
        request = SetParameters.Request(
            parameters=[
                Parameter(name, value=v).to_parameter_msg() for name, v in parameters.items()
            ]
        )
        results = self._call(self._set_robot, request, timeout).results
        refused = [result.reason for result in results if not result.successful]
        if refused:
            raise OperatorError(f"the simulated robot refused: {'; '.join(refused)}")

    def start_over(self, parameters: Mapping[str, Any], timeout: float) -> None:
        """Put the simulated robot into its start pose and the controller into PASSIVE, whatever
        happened before. `parameters` are set in between."""
        name, robot = self._topics.controller, self._topics.robot
        self._trigger(f"{name}/emergency_stop", timeout)
        self.set_robot(parameters, timeout)
        self._trigger(f"{robot}/reset", timeout)
        self._trigger(f"{name}/clear_fault", timeout)

    def _trigger(self, service: str, timeout: float) -> None:
        response = self._call(self._triggers[service], Trigger.Request(), timeout)
        if not response.success:
            raise OperatorError(f"{service} refused: {response.message}")

    def command(self, velocity: tuple[float, float, float]) -> None:
        """Send one velocity command: x, y [m/s], yaw rate [rad/s], base frame. The zero stamp means
        now."""
        message = TwistStamped()
        message.header.frame_id = "base"
        message.twist.linear.x, message.twist.linear.y, message.twist.angular.z = velocity
        self._commands.publish(message)

    def wait_until_heard(self, timeout: float) -> None:
        """Return when the controller has taken what was sent to it: it takes messages and requests
        in the order in which they come, so that it has when it answers another one."""
        self._call(self._get_state, GetState.Request(), timeout)

    def _call(self, client: Client, request: object, timeout: float) -> object:
        self._wait(client.service_is_ready, timeout, f"service {client.srv_name}")
        future: Future = client.call_async(request)
        self._wait(future.done, timeout, f"an answer of service {client.srv_name}")
        return future.result()
