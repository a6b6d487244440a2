"""Node ``anymal_sim``: a drop-in robot, with the topics, types and QoS of the bridge to a real one.

Real time: a loop of its own at 400 Hz on an absolute grid. Lockstep: simulated time that waits for
the controller at each control boundary and else runs as fast as it can (see ``lockstep``).
"""

from __future__ import annotations

import enum
import gc
import math
import sys
import threading
import time
from collections import deque

import numpy as np
from rclpy.node import Node
from rclpy.publisher import Publisher
from rosgraph_msgs.msg import Clock
from std_srvs.srv import Trigger

from .conversions import GroundWriter, StateWriter, set_stamp
from .diagnostics import ERROR, WARN, Status, to_message
from .fan_out import FanOut
from .hard_contact import STEP_NS, STEP_S, Engine, HardContactSim, StartPose
from .interface import (
    COMMAND_TIMEOUT_S,
    COMMANDS,
    DIAGNOSTICS,
    FAN_OUT_RATE_HZ,
    READINGS,
    STATE,
    STATE_RATE_HZ,
    advertise,
)
from .joint_command import CommandError, JointCommand
from .lockstep import LockstepGate, LockstepState
from .pacing import DeadlineGrid, Durations, SpeedLimit
from .parameters import (
    declare_flag,
    declare_number,
    declare_text,
    declare_topics,
)
from .process import run_node
from .robot_file import load_robot_file
from .robot_side import RobotSide, Ros2RobotSide
from .ros1.link import MASTER_URI
from .ros1.robot_side import Ros1RobotSide
from .sim_settings import SimSettings
from .transport import RobotTopics

CATCH_UP_STEPS = 4  # a late loop makes up for 10 ms, what is later lowers the real-time factor
RESEND_S = 0.5  # s of wall time, after which the state of a boundary is sent again
SILENCE_S = 2.0  # s without a command, also on a busy machine: the controller is gone
FAN_OUT_CYCLES = round(STATE_RATE_HZ / FAN_OUT_RATE_HZ)


class SimNode(Node):
    """Declares, converts, calls, publishes. Callbacks run in the executor's thread."""

    def __init__(self, **node_arguments) -> None:
        super().__init__("anymal_sim", **node_arguments)
        names = declare_topics(self)
        robot_path = declare_text(self, "robot", "", "path of the robot file, config/robot/*.yaml")
        start_pose = declare_text(self, "start_pose", "lying", "lying or standing")
        damping = declare_number(
            self, "damping", 5.0, 0.1, 50.0, "[N m s/rad] D of the robot without commands"
        )
        timeout = declare_number(
            self, "command_timeout", COMMAND_TIMEOUT_S, 0.01, 1.0, "[s] after which the robot damps"
        )
        lockstep = declare_flag(
            self, "lockstep", False, "simulated time that waits for the controller"
        )
        control_period = declare_number(
            self, "control_period", 0.02, STEP_S, 1.0, "[s] of the controller, for lockstep"
        )
        self._patience = declare_number(
            self,
            "lockstep_patience",
            1.0,
            RESEND_S,
            3600.0,
            "[s] of wall time that lockstep waits for a command before time runs on",
        )
        engine = declare_text(self, "engine", "warp", "warp or mujoco")
        speed = declare_number(
            self,
            "max_real_time_factor",
            0.0,
            0.0,
            100.0,
            "[1] speed limit of simulated time in lockstep; 0: none",
        )
        if speed > 0.0 and not lockstep:
            raise ValueError(
                f"parameter max_real_time_factor is {speed:g} without lockstep, allowed: 0, as the "
                "robot is then in real time; give lockstep:=true, too"
            )
        publish_tf = declare_flag(self, "publish_tf", False, "broadcast odom -> base on /tf")

        self._robot = robot = load_robot_file(robot_path)
        self._events: deque[JointCommand | np.ndarray | None] = deque()
        self._settings = SimSettings(self, robot.joint_names, self._events.append)
        self._sim = HardContactSim(
            robot_path,
            _choice("start_pose", StartPose, start_pose),
            self._settings.world,
            self._settings.noise,
            damping,
            timeout,
            self._settings.seed,
            _choice("engine", Engine, engine),
            self._settings.ground,
        )
        self._fan_out = FanOut(self, names, robot, publish_tf)
        self._diagnostics = advertise(self, DIAGNOSTICS, names[DIAGNOSTICS.key])
        self.create_service(Trigger, "~/reset", self._on_reset)

        self._intruder: Publisher | None = None
        self._command_topic = names[COMMANDS.key]
        self._cycles = 0
        self._skipped = 0
        self._refused = 0
        self._last_refusal = ""
        self._commanded_at = -math.inf  # s, monotonic
        self._durations = Durations(size=round(STATE_RATE_HZ))
        self._reported_at = (time.monotonic(), self._sim.time_ns)
        self.create_timer(1.0 / DIAGNOSTICS.rate_hz, self._on_diagnostics)

        gate = LockstepGate(_whole_steps(control_period) * STEP_NS)
        self._gate: LockstepGate | None = gate if lockstep else None
        self._side = self._declare_side(names)
        self._limit = SpeedLimit(STEP_S / speed, CATCH_UP_STEPS * STEP_S) if speed > 0.0 else None
        if lockstep:
            self._clock_message = Clock()
            self._clocks = self.create_publisher(Clock, "/clock", 10)
            self._truth_writer = StateWriter(robot.joint_names, robot.foot_names)
            self._ground_writer = GroundWriter(robot.foot_names)
            self._truths = self.create_publisher(STATE.type, "~/ground_truth", STATE.qos)
        gc.collect()
        gc.freeze()  # later collections need not look at what stays for good
        self._stop = threading.Event()
        self._thread = threading.Thread(
            target=self._run_lockstep if lockstep else self._run_real_time, name="robot"
        )
        self._thread.start()

    def is_needed(self) -> bool:
        """Whether a controller sends commands."""
        silence = time.monotonic() - self._commanded_at
        return silence < SILENCE_S and self._side.commanders() > 0

    def close(self) -> None:
        """End the loop; nothing is published after this returns."""
        self._stop.set()
        self._thread.join()
        self._side.close()

    def _declare_side(self, names: dict[str, str]) -> RobotSide:
        transport = declare_text(self, "transport", "ros2", "of state, readings and commands")
        by_index = declare_flag(
            self, "unnamed_commands_by_index", False, "accept commands without names, robot order"
        )
        master_uri = declare_text(self, "ros1_master_uri", MASTER_URI, "roscore, for ros1")
        camel_case = declare_flag(
            self, "ros1_camel_case", False, "spell the fields of Contact as older software does"
        )
        callbacks = self._on_command, self._on_refused
        if transport == "ros2":
            return Ros2RobotSide(self, names, self._robot, by_index, *callbacks)
        if transport != "ros1":
            raise ValueError(f"parameter transport is {transport!r}, allowed: ros2 or ros1")
        if self._gate:
            raise ValueError("parameter lockstep is true with transport ros1, which has no /clock")
        topics = RobotTopics(
            *(self.resolve_topic_name(names[t.key]) for t in (STATE, READINGS, COMMANDS))
        )
        robot = self._robot
        return Ros1RobotSide(
            topics, robot.joint_names, robot.foot_names, master_uri, camel_case, *callbacks
        )

    # The executor's thread, or with ros1 that of the link.

    def _on_refused(self, error: CommandError) -> None:
        self._refused += 1
        self._last_refusal = str(error)
        self.get_logger().error(f"command refused: {error}", throttle_duration_sec=1.0)

    def _on_command(self, command: JointCommand) -> None:
        self._events.append(command)
        self._commanded_at = time.monotonic()
        if self._gate and not self._gate.answer(command.stamp_ns):
            self.get_logger().error(
                f"command stamped {command.stamp_ns * 1e-9:.4f} s answers no state that was sent; "
                "in lockstep a command carries the stamp of the state it answers",
                throttle_duration_sec=1.0,
            )

    def _on_reset(self, _request, response: Trigger.Response) -> Trigger.Response:
        self._events.append(None)
        response.success = True
        response.message = "the robot is put into its start pose at the next step"
        return response

    def _show_intruder(self) -> None:
        if self._settings.faults.second_publisher and self._intruder is None:
            self._intruder = self.create_publisher(COMMANDS.type, self._command_topic, COMMANDS.qos)
        elif self._intruder is not None and not self._settings.faults.second_publisher:
            self.destroy_publisher(self._intruder)
            self._intruder = None

    def _on_diagnostics(self) -> None:
        self._show_intruder()
        now, sim_ns = time.monotonic(), self._sim.time_ns
        before, sim_before_ns = self._reported_at
        self._reported_at = (now, sim_ns)
        factor = (sim_ns - sim_before_ns) * 1e-9 / (now - before)
        p50, p99 = self._durations.percentiles()
        name = self.get_fully_qualified_name().removeprefix("/")
        loop = Status(f"{name}: loop")
        loop.values |= {
            "real_time_factor": factor,
            "step_p50_ms": p50 * 1e3,
            "step_p99_ms": p99 * 1e3,
            "skipped_steps": self._skipped,
            "robot_state": self._sim.sample.robot_state.name,
        }
        if self._gate:
            loop.values |= {
                "lockstep": self._gate.state.value,
                "missed_boundaries": self._gate.missed,
            }
        elif factor < 0.98:
            loop.report(
                WARN, f"slower than real time (factor {factor:.2f}); this machine is too busy"
            )
        if self._sim.sample.robot_state != 0:
            loop.report(ERROR, "the simulation has diverged; call ~/reset")

        commands = Status(f"{name}: commands")
        publishers = self._side.commanders()
        commands.values |= {
            "age_s": self._sim.command_age(),
            "publishers": publishers,
            "refused": self._refused,
            "last_refusal": self._last_refusal,
        }
        if problem := self._side.problem():
            commands.report(WARN, problem)
        if publishers > 1:
            commands.report(ERROR, f"{publishers} nodes publish commands, allowed 1")
        stamp = self.get_clock().now().to_msg()
        self._diagnostics.publish(to_message(stamp, self._robot.name, [loop, commands]))

    # The loop's thread.

    def _run_real_time(self) -> None:
        grid = DeadlineGrid(STEP_S, CATCH_UP_STEPS, time.monotonic())
        while not self._stop.is_set():
            _sleep_until(grid.deadline())
            begin = time.monotonic()
            for _ in range(grid.advance(begin)):
                self._handle_events()
                self._step_robot()
            self._publish(self.get_clock().now().nanoseconds)
            self._skipped = grid.skipped
            self._durations.add(time.monotonic() - begin)

    def _run_lockstep(self) -> None:
        gate = self._gate
        now_ns = STEP_NS  # a stamp of 0 would mean "now" to many receivers
        held, grid = True, None
        while not self._stop.is_set():
            begin = time.monotonic()
            gate.begin(now_ns)
            sent = self._publish(now_ns)
            if gate.at_boundary():
                if sent:
                    self._wait_for_answer(now_ns, held)
                    held = held and not gate.is_answered()
                else:
                    gate.postpone(STEP_NS)
            if self._handle_events():
                held = True  # until the next boundary, so that a reset has the same sequel always
            if held:
                self._sim.reset()  # the noise, too, starts when the robot is let go
            else:
                self._step_robot()
            self._durations.add(time.monotonic() - begin)
            now_ns += STEP_NS
            if gate.state is LockstepState.LOCKED:
                grid = None
                if self._limit:
                    time.sleep(self._limit.wait_time(time.monotonic()))
                continue
            grid = grid or DeadlineGrid(STEP_S, CATCH_UP_STEPS, time.monotonic())
            _sleep_until(grid.deadline())
            grid.advance(time.monotonic())

    def _wait_for_answer(self, now_ns: int, held: bool) -> None:
        """Wait for the command to the state of ``now_ns``; send it again if it seems to be lost."""
        gate, waited = self._gate, 0.0
        while waited < self._patience:
            if gate.wait(RESEND_S) or self._stop.is_set():
                return
            self._side.publish_state_again()
            waited += RESEND_S
        if held:
            gate.hold()
        else:
            gate.give_up()
            self.get_logger().warning(
                f"no command for the state of {now_ns * 1e-9:.4f} s: time runs free until one "
                f"comes "
                f"({gate.missed} boundaries missed)"
            )

    def _handle_events(self) -> bool:
        """Give commands, pushes and resets to the robot in their order; returns if it was reset."""
        reset = False
        while self._events:
            event = self._events.popleft()
            if isinstance(event, JointCommand):
                self._sim.command(event)
            elif event is None:
                self._sim.noise, self._sim.seed = self._settings.noise, self._settings.seed
                self._sim.ground = self._settings.ground
                self._sim.reset()
                reset = True
            else:
                self._sim.push(event)
        return reset

    def _step_robot(self) -> None:
        self._sim.world, self._sim.faults = self._settings.world, self._settings.faults
        self._sim.step()

    def _publish(self, stamp_ns: int) -> bool:
        """Send what belongs to this instant; returns False when a fault has swallowed it."""
        if self._gate:
            set_stamp(self._clock_message.clock, stamp_ns)
            self._clocks.publish(self._clock_message)
            if self._truths.get_subscription_count():
                friction = self._settings.world.friction
                truth = self._truth_writer.write(stamp_ns, self._sim.sample, friction)
                self._ground_writer.write(truth, self._sim.sample)
                self._truths.publish(truth)
        self._cycles += 1
        sample = self._sim.report()
        if sample is None:
            return False
        if self._cycles % FAN_OUT_CYCLES == 0:
            self._fan_out.publish(stamp_ns, sample)
        friction = self._settings.world.friction
        stamp_ns += round(self._settings.faults.stamp_offset * 1e9)
        self._side.publish(stamp_ns, sample, self._sim.obeyed, friction)
        return True


def _sleep_until(deadline: float) -> None:
    remaining = deadline - time.monotonic()
    if remaining > 0.0:
        time.sleep(remaining)


def _choice(parameter: str, kind: type[enum.Enum], value: str) -> enum.Enum:
    allowed = [member.value for member in kind]
    if value not in allowed:
        raise ValueError(f"parameter {parameter} is {value!r}, allowed: {' or '.join(allowed)}")
    return kind(value)


def _whole_steps(period: float) -> int:
    """Simulation steps in ``period`` [s]."""
    steps = round(period / STEP_S)
    if abs(steps * STEP_S - period) > 1e-9:
        raise ValueError(
            f"parameter control_period is {period} s, allowed: whole multiples of {STEP_S} s"
        )
    return steps


def main() -> int:
    """Run the node until SIGINT or SIGTERM, and then until the controller has ended."""
    return run_node(SimNode)


if __name__ == "__main__":
    sys.exit(main())
