"""ROS 2 node of the controller: messages in, one control step, messages out.

    python -m policy_controller.node --ros-args --params-file config/controller.yaml \
        -p bundle:=<directory or zip>

Two threads: the executor's takes messages and services, the control thread ticks
(control_thread.py).
"""

from __future__ import annotations

import gc
import sys
import time
import traceback
from collections.abc import Callable, Sequence
from functools import wraps
from typing import Any

import rclpy
from anymal_msgs.msg import AnymalState
from diagnostic_msgs.msg import DiagnosticArray
from footlight_msgs.msg import ControllerStatus
from footlight_msgs.srv import SetMotionState
from geometry_msgs.msg import Twist, TwistStamped
from rcl_interfaces.msg import SetParametersResult
from rclpy.clock import Clock, ClockType
from rclpy.event_handler import PublisherEventCallbacks, SubscriptionEventCallbacks
from rclpy.lifecycle import LifecycleNode, LifecycleState, TransitionCallbackReturn
from rclpy.parameter import Parameter
from rclpy.qos import QoSProfile, ReliabilityPolicy
from rclpy.serialization import serialize_message
from rclpy.signals import SignalHandlerOptions
from series_elastic_actuator_msgs.msg import SeActuatorCommands
from std_srvs.srv import Trigger

from policy_controller.certificate import admit, describe_subject
from policy_controller.command_wire import CommandWriter
from policy_controller.control_thread import ControlThread, Outlet
from policy_controller.controller import PolicyController, TickResult
from policy_controller.diagnostics import (
    Counters,
    RateMeter,
    describe_inputs,
    describe_loop,
    describe_safety,
)
from policy_controller.inbox import StateInbox
from policy_controller.loop import freeze_garbage, lock_memory, request_priority
from policy_controller.messages import (
    MessageError,
    read_twist,
    read_twist_stamped,
    to_time,
    write_status,
)
from policy_controller.motion import Answer, MotionState
from policy_controller.parameters import ControllerParams, declare_parameters, read_parameters
from policy_controller.process import SpinThread, catch_signals
from policy_controller.state_wire import check_layout

STOP_TIMEOUT = 15.0
"""Seconds for walk, stand, lie down, passive; then the drives are damped wherever the robot is."""
SWITCH_INTERVAL = 0.0005
"""s, after which the executor's thread hands the interpreter over to a waiting control thread."""

_AT_REST = (MotionState.PASSIVE, MotionState.FAULT)
_RELIABLE_1 = QoSProfile(depth=1, reliability=ReliabilityPolicy.RELIABLE)
_RELIABLE_10 = QoSProfile(depth=10, reliability=ReliabilityPolicy.RELIABLE)
_NEWEST = QoSProfile(depth=1, reliability=ReliabilityPolicy.BEST_EFFORT)

Transition = Callable[[Any, LifecycleState], TransitionCallbackReturn]


def _logged(transition: Transition) -> Transition:
    """Log whatever a transition raises and return FAILURE; rclpy would swallow it."""

    @wraps(transition)
    def guarded(self: PolicyControllerNode, state: LifecycleState) -> TransitionCallbackReturn:
        try:
            return transition(self, state)
        except ValueError as error:  # RefusedError and its like say what is wrong
            self.get_logger().error(f"{transition.__name__}: {error}")
        except Exception:
            self.get_logger().error(f"{transition.__name__} raised\n{traceback.format_exc()}")
        return TransitionCallbackReturn.FAILURE

    return guarded


class PolicyControllerNode(LifecycleNode):
    """Lifecycle node around a PolicyController.

    configure: loads and checks everything. activate: begins to command, PASSIVE. deactivate: only
    when the robot is at rest (PASSIVE or FAULT); ends with damping.
    """

    def __init__(self, **options: Any):
        """options: of rclpy's Node."""
        super().__init__(
            "policy_controller", automatically_declare_parameters_from_overrides=True, **options
        )
        self._control: ControlThread | None = None
        self._active = False
        self._made: list[tuple[Callable[[Any], Any], Any]] = []
        declare_parameters(self)
        self.add_on_set_parameters_callback(self._refuse_late_parameters)

    @_logged
    def on_configure(self, state: LifecycleState) -> TransitionCallbackReturn:
        """Load and check bundle, robot file and parameters, replay the golden data, connect."""
        params = read_parameters(self)
        self._uncertified = self._check_certificate(params)
        check_layout(serialize_message)
        controller = PolicyController.from_files(
            params.node.bundle, params.node.robot, params.safety, params.motion
        )
        self._settings, self._controller = params.node, controller
        self._inbox, self._writer = StateInbox(), CommandWriter(serialize_message)
        self._status = ControllerStatus(bundle=controller.bundle.sha256)
        self._counters, self._tick_rate, self._state_rate = Counters(), RateMeter(), RateMeter()
        if self._uncertified:
            self._warn(self._uncertified)
        self._last: TickResult | None = None
        self._last_stamp_ns = 0
        control = ControlThread(
            controller,
            self._inbox,
            Outlet(self._publish, self._report, self._begin_control_thread),
            params.node.lockstep,
        )
        try:
            self._connect()
        except Exception:
            self._disconnect()
            raise
        self._control = control
        self.get_logger().info(
            f"bundle {controller.bundle.sha256[:12]} fits robot {controller.bundle.robot.name}; "
            f"control period {controller.bundle.control_period * 1e3:g} ms"
        )
        return super().on_configure(state)

    @_logged
    def on_activate(self, state: LifecycleState) -> TransitionCallbackReturn:
        """Begin to tick and to command, in PASSIVE or in a FAULT that was not cleared."""
        super().on_activate(state)
        if self._settings.lock_memory:
            self._warn(lock_memory())
        freeze_garbage()
        self._active = True
        self._count_publishers()
        self._control.start()
        return TransitionCallbackReturn.SUCCESS

    @_logged
    def on_deactivate(self, state: LifecycleState) -> TransitionCallbackReturn:
        """Stop commanding, if the robot is at rest; the last command is damping."""
        if self._control.motion not in _AT_REST:
            raise ValueError(
                f"the robot would drop: found {self._control.motion.name}, allowed: PASSIVE or "
                "FAULT; request PASSIVE, or call ~/emergency_stop, first"
            )
        self._stop_commanding()
        return super().on_deactivate(state)

    @_logged
    def on_cleanup(self, state: LifecycleState) -> TransitionCallbackReturn:
        """Disconnect and forget the bundle."""
        self._disconnect()
        return super().on_cleanup(state)

    @_logged
    def on_shutdown(self, state: LifecycleState) -> TransitionCallbackReturn:
        """Damp the drives if active, and disconnect."""
        if self._active:
            self._stop_commanding()
        self._disconnect()
        return super().on_shutdown(state)

    @_logged
    def on_error(self, state: LifecycleState) -> TransitionCallbackReturn:
        """As on_shutdown."""
        return self.on_shutdown(state)

    def _check_certificate(self, params: ControllerParams) -> str:
        """Refuse what is not certified where that is required; returns the words of an override."""
        settings = params.node
        if not settings.require_certificate:
            return ""
        subject = describe_subject(
            settings.bundle,
            settings.robot,
            settings.verified_limits,
            params.safety,
            params.motion,
        )
        return admit(settings.bundle, subject, settings.certificate_override)

    def _connect(self) -> None:
        settings = self._settings
        stamped = settings.use_stamped_cmd_vel
        incoming = SubscriptionEventCallbacks(incompatible_qos=self._on_incompatible_qos)
        outgoing = PublisherEventCallbacks(incompatible_qos=self._on_incompatible_qos)
        subscribe, publish, serve = (
            self._remember(self.create_subscription, self.destroy_subscription),
            self._remember(self.create_lifecycle_publisher, self.destroy_lifecycle_publisher),
            self._remember(self.create_service, self.destroy_service),
        )
        subscribe(
            AnymalState,
            settings.state_topic,
            self._on_state,
            _NEWEST,
            raw=True,
            event_callbacks=incoming,
        )
        subscribe(
            TwistStamped if stamped else Twist,
            "~/cmd_vel",
            self._on_twist_stamped if stamped else self._on_twist,
            _RELIABLE_1,
            event_callbacks=incoming,
        )
        self._command_publisher = publish(
            SeActuatorCommands, settings.command_topic, _RELIABLE_1, event_callbacks=outgoing
        )
        self._status_publisher = publish(ControllerStatus, "~/status", _RELIABLE_10)
        self._diagnostics_publisher = publish(DiagnosticArray, "/diagnostics", _RELIABLE_10)
        serve(SetMotionState, "~/set_motion_state", self._on_set_motion_state)
        serve(Trigger, "~/clear_fault", self._on_clear_fault)
        serve(Trigger, "~/emergency_stop", self._on_emergency_stop)
        timer = self._remember(self.create_timer, self.destroy_timer)
        timer(1.0, self._on_second, clock=Clock(clock_type=ClockType.STEADY_TIME))

    def _remember(self, create: Callable[..., Any], destroy: Callable[[Any], Any]) -> Callable:
        """`create`, so that _disconnect destroys what it makes."""

        def make(*args: Any, **options: Any) -> Any:
            entity = create(*args, **options)
            self._made.append((destroy, entity))
            return entity

        return make

    def _disconnect(self) -> None:
        self._control = None
        while self._made:
            destroy, entity = self._made.pop()
            destroy(entity)

    def _stop_commanding(self) -> None:
        self._control.stop()
        self._active = False
        gc.unfreeze()
        if self._last_stamp_ns:
            damping = self._controller.damp()
            self._command_publisher.publish(self._writer.write(damping, self._last_stamp_ns))

    # Control thread

    def _begin_control_thread(self) -> None:
        self._warn(request_priority(self._settings.real_time_priority))

    def _publish(self, result: TickResult, state_stamp_ns: int, begin_ns: int) -> None:
        if state_stamp_ns:  # without a state there is no robot to answer
            command = self._writer.write(result.command, state_stamp_ns)
            self._command_publisher.publish(command)
        duration = (time.monotonic_ns() - begin_ns) / 1e9
        statistics, status = self._control.statistics, self._status
        status.header.stamp = (
            to_time(state_stamp_ns) if self._settings.lockstep else self.get_clock().now().to_msg()
        )
        write_status(status, result)
        if self._uncertified:
            status.detail = f"{status.detail}; {self._uncertified}"
        status.period = statistics.last_period
        status.tick_duration = duration
        status.ticks, status.overruns = statistics.ticks, statistics.overruns
        self._status_publisher.publish(status)
        self._counters.limited += result.limited
        before, self._last, self._last_stamp_ns = self._last, result, state_stamp_ns
        if before is None or before.motion != result.motion:
            if result.motion == MotionState.FAULT:
                self.get_logger().error(result.detail)
            else:
                self.get_logger().info(result.detail)

    def _report(self, text: str) -> None:
        self.get_logger().error(text, throttle_duration_sec=1.0)

    # Executor thread

    def _on_state(self, content: bytes) -> None:
        self._inbox.put(content, None if self._settings.lockstep else time.monotonic_ns())

    def _on_twist_stamped(self, message: TwistStamped) -> None:
        control_ns, ros_ns = self._now()
        try:
            self._control.command = read_twist_stamped(message, control_ns, ros_ns)
        except MessageError as error:
            self._counters.bad_commands += 1
            self._report(f"{error}")

    def _on_twist(self, message: Twist) -> None:
        self._control.command = read_twist(message, self._now()[0])

    def _now(self) -> tuple[int, int]:
        """Control clock and ROS time, ns; in lockstep both are the stamp of the newest state."""
        if self._settings.lockstep:
            arrival = self._inbox.newest()
            stamp_ns = arrival.stamp_ns if arrival else 0
            return stamp_ns, stamp_ns
        return time.monotonic_ns(), self.get_clock().now().nanoseconds

    def _on_set_motion_state(
        self, request: SetMotionState.Request, response: SetMotionState.Response
    ) -> SetMotionState.Response:
        try:
            wanted = MotionState(request.motion_state)
        except ValueError:
            names = ", ".join(f"{state.value} {state.name}" for state in MotionState)
            answer = Answer(False, f"motion state: found {request.motion_state}, allowed: {names}")
        else:
            answer = (
                self._control.request(wanted)
                if self._active
                else Answer(False, "the node is not active; activate it first")
            )
            self.get_logger().info(f"request {wanted.name}: {answer.message}")
        response.success, response.message = answer
        return response

    def _on_clear_fault(
        self, request: Trigger.Request, response: Trigger.Response
    ) -> Trigger.Response:
        response.success, response.message = self._control.clear_fault()
        self.get_logger().info(f"clear_fault: {response.message}")
        return response

    def _on_emergency_stop(
        self, request: Trigger.Request, response: Trigger.Response
    ) -> Trigger.Response:
        response.success, response.message = self._control.emergency_stop()
        self.get_logger().error(f"emergency_stop: {response.message}")
        return response

    def _count_publishers(self) -> None:
        control, settings = self._control, self._settings
        control.command_publishers = self.count_publishers(settings.command_topic)
        control.state_publishers = self.count_publishers(settings.state_topic)

    def _on_second(self) -> None:
        """Look at the graph and publish diagnostics, off the control path."""
        self._count_publishers()
        control = self._control
        result, statistics, now = self._last, control.statistics, time.monotonic()
        if not self._active or result is None:
            return
        tick_rate = self._tick_rate.update(statistics.ticks, now)
        state_rate = self._state_rate.update(self._inbox.received, now)
        period = self._controller.bundle.control_period
        message = DiagnosticArray(
            status=[
                describe_safety(result, self._status.bundle),
                describe_loop(statistics, tick_rate, period),
                describe_inputs(self._inbox, state_rate, control.bad_states, self._counters),
            ]
        )
        message.header.stamp = self.get_clock().now().to_msg()
        self._diagnostics_publisher.publish(message)

    def _on_incompatible_qos(self, event: Any) -> None:
        self._warn(f"incompatible QoS ({event}): nothing is received; see docs/interfaces.md")

    def _warn(self, text: str) -> None:
        """Log a warning, and show it in the diagnostics from now on; an empty one is none."""
        if text and text not in self._counters.warnings:
            self._counters.warnings.append(text)
            self.get_logger().warning(text)

    def _refuse_late_parameters(self, parameters: list[Parameter]) -> SetParametersResult:
        if self._control is None:
            return SetParametersResult(successful=True)
        reason = "parameters are read by configure; clean up first, set them, configure again"
        return SetParametersResult(successful=False, reason=reason)

    # Main thread

    def start(self) -> bool:
        """Configure and activate if the parameter `autostart` says so; False if that was
        refused."""
        if self.get_parameter("autostart").value is not True:
            return True
        success = TransitionCallbackReturn.SUCCESS
        return self.trigger_configure() == success and self.trigger_activate() == success

    def lie_down(self, timeout: float) -> None:
        """Bring the robot to rest: stop, stand, lie down, PASSIVE. Returns when it is, or when
        nothing goes on any more, or after `timeout` seconds."""
        if not self._active:
            return
        self.get_logger().info(f"stopping: {self._control.request(MotionState.PASSIVE).message}")
        end, ticks, seen = time.monotonic() + timeout, -1, time.monotonic()
        while self._control.motion not in _AT_REST:
            now = time.monotonic()
            if self._control.statistics.ticks != ticks:
                ticks, seen = self._control.statistics.ticks, now
            if now > end or now - seen > 1.0:
                self.get_logger().error(f"not at rest: {self._control.motion.name}; damping now")
                return
            time.sleep(0.02)


def main(args: Sequence[str] | None = None) -> int:
    """Run the node until SIGINT or SIGTERM; then the robot lies down before the process ends."""
    stop = catch_signals()
    sys.setswitchinterval(SWITCH_INTERVAL)
    try:
        rclpy.init(args=args, signal_handler_options=SignalHandlerOptions.NO)
    except RuntimeError as error:  # of rcl; it names the argument or file, not the cure
        print(
            f"ROS arguments refused: {error}\nallowed: -p NAME:=VALUE with a value, --params-file "
            "with the path of an existing YAML file; see config/controller.yaml",
            file=sys.stderr,
        )
        return 1
    node = PolicyControllerNode()
    try:
        if not node.start():
            return 1
        spin = SpinThread(node)
        spin.start()
        stop.wait()
        node.lie_down(STOP_TIMEOUT)
        spin.stop()
        node.trigger_shutdown()
    finally:
        node.destroy_node()
        rclpy.shutdown()
    return 0


if __name__ == "__main__":
    sys.exit(main())
