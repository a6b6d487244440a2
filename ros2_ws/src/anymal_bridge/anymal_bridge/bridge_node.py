"""Node ``anymal_bridge``: the controller's topics here, the real robot there, the guard between.

It is a dry run unless told otherwise: it says what it would send and sends nothing.
"""

from __future__ import annotations

import sys
import threading
import time
from collections import Counter

from rclpy.node import Node
from rclpy.serialization import deserialize_message
from std_srvs.srv import Trigger

from .clock_offset import ClockOffset
from .conversions import StateError, StateReader, read_commands, stamp_to_ns
from .diagnostics import ERROR, WARN, Status, to_message
from .fan_out import FanOut
from .gate import Gate, Watch
from .guard import Guard, GuardLimits, GuardState, Output, Reason
from .interface import (
    COMMAND_TIMEOUT_S,
    COMMANDS,
    DIAGNOSTICS,
    FAN_OUT_RATE_HZ,
    READINGS,
    ROBOT_COMMAND_TIMEOUT_S,
    STATE,
    STATE_RATE_HZ,
    advertise,
    listen,
)
from .joint_command import CommandError
from .parameters import declare_flag, declare_integer, declare_number, declare_text, declare_topics
from .process import run_node
from .robot_file import RobotFile, load_robot_file
from .robot_sample import JOINT_POSITION
from .ros1.link import MASTER_URI
from .ros1.transport import Ros1Settings, Ros1Transport
from .transport import RobotTopics, Ros2Transport, Transport

WATCH_PERIOD_S = 0.01  # s, so that damping is late by at most this
READ_EVERY = 4  # state messages per one that is looked into: the guard sees the robot at 100 Hz
FAN_OUT_EVERY = round(STATE_RATE_HZ / FAN_OUT_RATE_HZ / READ_EVERY)  # of those


class AnymalBridgeNode(Node):
    """Declares, converts, calls, publishes; what may pass is decided in ``guard``.

    Three threads meet in ``gate``: the executor's, the transport's and the watch's."""

    def __init__(self, **node_arguments) -> None:
        super().__init__("anymal_bridge", **node_arguments)
        names = declare_topics(self)
        self._robot = robot = load_robot_file(
            declare_text(self, "robot", "", "path of the robot file, config/robot/*.yaml")
        )
        self._unnamed_by_index = declare_flag(
            self, "unnamed_commands_by_index", False, "accept commands without names, robot order"
        )
        publish_tf = declare_flag(self, "publish_tf", False, "broadcast odom -> base on /tf")
        dry_run = declare_flag(self, "dry_run", True, "say what would be sent, send nothing")
        guard = Guard(_declare_limits(self, robot), dry_run)
        self._transport = _declare_transport(self, robot, guard.limits)
        self._gate = Gate(guard, self._transport.send, self._transport.release)
        self._watch = Watch(WATCH_PERIOD_S, self._gate.look)

        self._state_reader = StateReader(robot.joint_names, robot.foot_names)
        self._states = advertise(self, STATE, names[STATE.key])
        self._readings = advertise(self, READINGS, names[READINGS.key])
        self._fan_out = FanOut(self, names, robot, publish_tf)
        self._diagnostics = advertise(self, DIAGNOSTICS, names[DIAGNOSTICS.key])
        self._unconnected = ""
        self._commands = listen(
            self, COMMANDS, names[COMMANDS.key], self._on_commands, self._on_unconnected
        )
        self.create_service(Trigger, "~/arm", self._on_arm)
        self.create_service(Trigger, "~/stop", self._on_stop)
        self.create_service(Trigger, "~/disarm", self._on_disarm)

        self._offset_lock = threading.Lock()  # the robot's side has a thread of its own
        self._clock_offset = ClockOffset()
        self._counts = Counter()
        self._counted = (time.monotonic(), Counter())
        self._last_refusal = ""
        self._publishers_counted = time.monotonic()
        self._executor_lateness = 0.0
        self._told: tuple[GuardState, Reason | None] = (GuardState.DISARMED, None)
        self._transport.start(self._on_robot_state, self._on_robot_readings)
        self.create_timer(WATCH_PERIOD_S, self._on_count_publishers)
        self.create_timer(1.0 / DIAGNOSTICS.rate_hz, self._on_diagnostics)
        self._watch.start()

    def is_needed(self) -> bool:
        """Whether a controller moves the robot through this node. Without commands the guard soon
        stops it, so this ends by itself."""
        return self._gate.is_driving()

    def close(self) -> None:
        """Leave a robot that was commanded by this node damping, and disconnect."""
        self._gate.stop(Reason.OPERATOR_STOP, "the bridge was shut down")
        self._watch.stop()
        self._transport.close()

    # The controller's side; the executor's thread.

    def _on_commands(self, message) -> None:
        self._counts["commands"] += 1
        try:
            command = read_commands(message, self._robot.joint_names, self._unnamed_by_index)
        except CommandError as error:
            self._last_refusal = str(error)
            self._gate.stop(Reason.COMMAND_REFUSED, str(error))
            return
        self._gate.offer(command)

    def _on_unconnected(self, text: str) -> None:
        self._unconnected = text
        self.get_logger().error(text)

    def _on_count_publishers(self) -> None:
        """Not the watch's work: asking the ROS graph may wait. Nor does it have to be. While the
        executor is blocked no command passes, and their silence stops the robot."""
        now = time.monotonic()
        late = now - self._publishers_counted - WATCH_PERIOD_S
        self._executor_lateness = max(self._executor_lateness, late)
        self._publishers_counted = now
        commanders = self.count_publishers(self._commands.topic_name)
        self._gate.observe_publishers(commanders, self._transport.other_drivers())
        self._tell_changes()

    # The operator; the executor's thread.

    def _on_arm(self, _request, response: Trigger.Response) -> Trigger.Response:
        refusal = self._gate.arm()
        self._tell_changes()
        response.success = refusal is None
        mode = "dry run, nothing is sent" if self._gate.dry_run else "commands reach the robot"
        response.message = refusal or f"armed: {mode}"
        return response

    def _on_stop(self, _request, response: Trigger.Response) -> Trigger.Response:
        self._gate.stop(Reason.OPERATOR_STOP, "stopped by service")
        self._tell_changes()
        response.success = True
        response.message = f"the guard is {self._told[0].value}"
        return response

    def _on_disarm(self, _request, response: Trigger.Response) -> Trigger.Response:
        self._gate.disarm()
        self._tell_changes()
        response.success = True
        response.message = "disarmed: nothing is sent to the robot"
        return response

    # The robot's side; the transport's thread.

    def _on_robot_state(self, serialised: bytes) -> None:
        self._states.publish(serialised)
        self._counts["states"] += 1
        if self._counts["states"] % READ_EVERY:
            return
        message = deserialize_message(serialised, STATE.type)
        try:
            sample = self._state_reader.read(message)
        except StateError as error:
            self.get_logger().error(f"robot state refused: {error}", throttle_duration_sec=1.0)
            return
        stamp_ns = stamp_to_ns(message.header.stamp)
        with self._offset_lock:
            self._clock_offset.add(self.get_clock().now().nanoseconds, stamp_ns)
        self._gate.observe_state(stamp_ns, sample.state[JOINT_POSITION], sample.robot_state)
        if self._counts["states"] % (READ_EVERY * FAN_OUT_EVERY) == 0:
            self._fan_out.publish(stamp_ns, sample)

    def _on_robot_readings(self, serialised: bytes) -> None:
        self._readings.publish(serialised)
        self._counts["readings"] += 1

    # Telling.

    def _tell_changes(self) -> None:
        """Log what the guard does now, when it is not what it did before."""
        state, reason, detail = self._gate.standing()
        if (state, reason) == self._told:
            return
        self._told = (state, reason)
        if state is GuardState.LATCHED:
            self.get_logger().error(
                f"stopped, {reason.value}: {detail}. "
                "Damping until an operator calls ~/arm or ~/disarm"
            )
        else:
            self.get_logger().warning(f"the guard is {state.value}")

    def _on_diagnostics(self) -> None:
        guard = self._gate.report()
        now, counts = time.monotonic(), Counter(self._counts)
        counts["sent"] = guard.sent
        before, counts_before = self._counted
        self._counted = (now, counts)
        name = self.get_fully_qualified_name().removeprefix("/")
        status = Status(f"{name}: guard")
        status.values |= {
            "guard": guard.state.value,
            "reason": guard.reason.value if guard.reason else "",
            "detail": guard.detail,
            "dry_run": self._gate.dry_run,
        }
        with self._offset_lock:
            status.values["robot_clock_offset_s"] = self._clock_offset.estimate
            clock_problem = self._clock_offset.problem()
        status.values |= {f"clamped_{name}": n for name, n in guard.clamped.items()}
        status.values["watch_late_ms"] = 1e3 * self._watch.take_lateness()
        status.values["executor_late_ms"] = 1e3 * self._executor_lateness
        self._executor_lateness = 0.0
        for key in ("commands", "sent", "states", "readings"):
            rate = (counts[key] - counts_before[key]) / (now - before)
            status.values[f"{key}_hz"] = rate
        status.values["last_refusal"] = self._last_refusal
        if guard.state is GuardState.LATCHED:
            status.report(ERROR, f"stopped, {guard.reason.value}: {guard.detail}")
        elif guard.state is GuardState.DISARMED:
            status.report(WARN, "disarmed: nothing is sent; ~/arm lets commands pass")
        elif self._gate.dry_run:
            status.report(WARN, "armed in dry run: nothing is sent")
        status.values["transport"] = problem = self._transport.problem()
        for text in (problem, self._unconnected, clock_problem):
            if text:
                status.report(WARN, text)
        if self._gate.dry_run and guard.output:
            self.get_logger().info(f"dry run, would send {_describe(guard.output, self._robot)}")
        stamp = self.get_clock().now().to_msg()
        self._diagnostics.publish(to_message(stamp, self._robot.name, [status]))


def _describe(output: Output, robot: RobotFile) -> str:
    command = output.command
    targets = ", ".join(
        f"{name} {position:.3f}"
        for name, position in zip(robot.joint_names, command.position.tolist(), strict=True)
    )
    changed = f", changed by {', '.join(output.filtered)}" if output.filtered else ""
    return (
        f"mode {command.mode.name}, P {command.kp.max():g}, D {command.kd.max():g}{changed}; "
        f"targets in rad: {targets}"
    )


def _declare_limits(node: Node, robot: RobotFile) -> GuardLimits:
    def declare(name: str, default: float, lower: float, upper: float, text: str) -> float:
        return declare_number(node, f"guard.{name}", default, lower, upper, text)

    robot_timeout = declare_number(
        node, "robot_command_timeout", ROBOT_COMMAND_TIMEOUT_S, 0.05, 1.0, "[s] the robot's own"
    )
    command_timeout = declare(
        "command_timeout", COMMAND_TIMEOUT_S, 0.005, 1.0, "[s] without commands until damping"
    )
    # Damping must come from here: what a robot does on its own time-out is not known for certain.
    latest = robot_timeout - 2.0 * WATCH_PERIOD_S
    if not command_timeout <= latest:
        raise ValueError(
            f"parameter guard.command_timeout is {command_timeout} s, allowed: up to {latest:g} s, "
            f"two watch periods before the robot's own {robot_timeout} s"
        )
    return GuardLimits(
        joint_names=robot.joint_names,
        position_lower=robot.position_lower,
        position_upper=robot.position_upper,
        velocity=robot.velocity_limit,
        torque=robot.torque_limit,
        kp_max=declare("kp_max", 200.0, 1.0, 500.0, "[N m/rad] stiffest P that may pass"),
        kd_max=declare("kd_max", 20.0, 0.1, 50.0, "[N m s/rad] largest D that may pass"),
        target_rate=declare("target_rate", 80.0, 0.1, 100.0, "[rad/s] of position targets"),
        take_over=declare(
            "take_over", 0.3, 0.01, 1.0, "[rad] target to joint when a spring is switched on"
        ),
        command_timeout=command_timeout,
        state_timeout=declare("state_timeout", 0.1, 0.02, 1.0, "[s] without robot state"),
        damping=declare("damping", 5.0, 0.1, 50.0, "[N m s/rad] D of the damping command"),
    )


def _declare_transport(node: Node, robot: RobotFile, limits: GuardLimits) -> Transport:
    kind = declare_text(node, "transport", "ros2", "way to the robot: ros2 or ros1")
    topics = RobotTopics(
        *(
            node.resolve_topic_name(
                declare_text(node, f"robot_topics.{t.key}", f"robot/{t.name}", "robot's side")
            )
            for t in (STATE, READINGS, COMMANDS)
        )
    )
    domain_id = declare_integer(
        node, "robot_domain_id", -1, -1, 232, "ROS domain of the robot; -1 is that of this process"
    )
    master_uri = declare_text(node, "ros1_master_uri", MASTER_URI, "roscore of the robot")
    if kind == "ros2":
        return Ros2Transport(topics, None if domain_id < 0 else domain_id, robot.joint_names)
    if kind == "ros1":
        # Between the guard's time-out and the robot's.
        silence = limits.command_timeout + WATCH_PERIOD_S
        settings = Ros1Settings(
            robot.joint_names, robot.foot_names, master_uri, limits.damping, silence
        )
        return Ros1Transport(topics, settings)
    raise ValueError(f"parameter transport is {kind!r}, allowed: ros2 or ros1")


def main() -> int:
    """Run the node until SIGINT or SIGTERM, and then until the controller has ended."""
    return run_node(AnymalBridgeNode)


if __name__ == "__main__":
    sys.exit(main())
