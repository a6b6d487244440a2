"""Round trip robot state -> controller -> robot command at 400 Hz, direct and through the bridge.

    python benchmarks/bridge_round_trip.py --seconds 20 --out report/bridge_round_trip.json

This process is the robot: it sends a state every 2.5 ms and takes the command that carries its
stamp. A second process is a controller that answers every state at once with damping, so that
nothing but the way is measured. In between there is nothing, or the bridge, armed, as a process of
its own with its shipped parameters. All over ROS 2 on this machine. Of the bridge it also tells how
late the threads were that take commands (executor) and that watch for their absence (watch).
"""

from __future__ import annotations

import argparse
import json
import multiprocessing
import os
import platform
import random
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from multiprocessing.synchronize import Event
from pathlib import Path

import numpy as np
import rclpy
from domain_coordinator import domain_id
from rclpy.serialization import deserialize_message
from std_srvs.srv import Trigger

from anymal_bridge.conversions import CommandsWriter, StateWriter, stamp_to_ns
from anymal_bridge.interface import (
    COMMANDS,
    DIAGNOSTICS,
    LATEST_SENSOR_QOS,
    STATE,
    STATE_RATE_HZ,
)
from anymal_bridge.joint_command import damping_command
from anymal_bridge.process import SpinThread
from anymal_bridge.robot_file import load_robot_file
from anymal_bridge.robot_sample import ORIENTATION, RobotSample

ROOT = Path(__file__).resolve().parent.parent
ROBOT = ROOT / "config" / "robot" / "anymal_d.yaml"
PERIOD_NS = round(1e9 / STATE_RATE_HZ)
SETTLE_S = 2.0  # not measured: discovery, first messages
PATIENCE_S = 30.0
DAMPING = 5.0  # N m s/rad


def answer_states(stop: Event) -> None:
    """A controller that answers every state at once."""
    rclpy.init()
    node = rclpy.create_node("controller")
    writer = CommandsWriter(load_robot_file(ROBOT).joint_names)
    commands = node.create_publisher(COMMANDS.type, COMMANDS.name, COMMANDS.qos)

    def answer(content: bytes) -> None:
        stamp_ns = stamp_to_ns(deserialize_message(content, STATE.type).header.stamp)
        commands.publish(writer.write(damping_command(stamp_ns, DAMPING)))

    node.create_subscription(STATE.type, STATE.name, answer, LATEST_SENSOR_QOS, raw=True)
    spin = SpinThread(node)
    stop.wait()
    spin.stop()
    node.destroy_node()
    rclpy.shutdown()


@contextmanager
def controller() -> Iterator[None]:
    """The controller's process, while the block lasts."""
    spawn = multiprocessing.get_context("spawn")
    stop = spawn.Event()
    process = spawn.Process(target=answer_states, args=(stop,))
    process.start()
    try:
        yield
    finally:
        stop.set()
        process.join(PATIENCE_S)


@contextmanager
def bridge() -> Iterator[None]:
    """The bridge's process, while the block lasts; whoever uses it arms it."""
    line = [sys.executable, "-m", "anymal_bridge.bridge_node", "--ros-args", "--params-file"]
    line += [str(ROOT / "config" / "bridge.yaml"), "-p", f"robot:={ROBOT}", "-p", "dry_run:=false"]
    process = subprocess.Popen(line)
    try:
        yield
    finally:
        process.terminate()
        process.wait(PATIENCE_S)


class Robot:
    """Sends states and notes when the command to each of them comes."""

    def __init__(self, prefix: str) -> None:
        """``prefix``: of the robot's topics."""
        robot = load_robot_file(ROBOT)
        self.node = rclpy.create_node("robot")
        self._writer = StateWriter(robot.joint_names, robot.foot_names)
        self._states = self.node.create_publisher(STATE.type, prefix + STATE.name, STATE.qos)
        self.node.create_subscription(
            COMMANDS.type, prefix + COMMANDS.name, self._take, COMMANDS.qos, raw=True
        )
        self.node.create_subscription(
            DIAGNOSTICS.type, DIAGNOSTICS.name, self._note_bridge, DIAGNOSTICS.qos
        )
        self.lateness: dict[str, float] = {}  # ms, greatest of each thread of the bridge
        self.stopped = ""  # why the bridge's guard stopped the robot
        self._sample = RobotSample()
        self._sample.state[ORIENTATION] = (0.0, 0.0, 0.0, 1.0)
        self.sent: dict[int, int] = {}  # by stamp: monotonic clock, ns
        self.taken: dict[int, int] = {}

    def _take(self, content: bytes) -> None:
        now_ns = time.monotonic_ns()
        message = deserialize_message(content, COMMANDS.type)
        self.taken.setdefault(stamp_to_ns(message.commands[0].header.stamp), now_ns)

    def _note_bridge(self, message) -> None:
        for status in message.status:
            values = {item.key: item.value for item in status.values}
            for key in values.keys() & {"watch_late_ms", "executor_late_ms"}:
                self.lateness[key] = max(self.lateness.get(key, 0.0), float(values[key]))
            self.stopped = self.stopped or values.get("reason", "")

    def run(self, seconds: float) -> None:
        """Send states for ``seconds``."""
        due = time.monotonic_ns()
        for _ in range(round(seconds * STATE_RATE_HZ)):
            due = max(due + PERIOD_NS, time.monotonic_ns())
            time.sleep(max(due - time.monotonic_ns(), 0) * 1e-9)
            stamp_ns = time.time_ns()
            message = self._writer.write(stamp_ns, self._sample, 0.8)
            self.sent[stamp_ns] = time.monotonic_ns()
            self._states.publish(message)

    def arm(self) -> None:
        """Arm the bridge; states are sent meanwhile."""
        client = self.node.create_client(Trigger, "/anymal_bridge/arm")
        end = time.monotonic() + PATIENCE_S
        while time.monotonic() < end:
            if client.service_is_ready():
                future = client.call_async(Trigger.Request())
                self.run(0.5)
                if future.done() and future.result().success:
                    return
            self.run(0.1)
        raise RuntimeError(f"the bridge did not arm within {PATIENCE_S} s; its output says why")


def measure(through_bridge: bool, seconds: float) -> dict[str, float | int]:
    """Round trips [ms] and what was lost, of ``seconds`` of states."""
    rclpy.init()
    robot = Robot("/robot/" if through_bridge else "")
    spin = SpinThread(robot.node)
    try:
        if through_bridge:
            robot.arm()
        robot.run(SETTLE_S)
        robot.sent.clear()
        robot.lateness.clear()
        robot.run(seconds)
        stopped, lateness = robot.stopped, dict(robot.lateness)  # it stops when no state comes
        time.sleep(0.5)  # for the last answers
    finally:
        spin.stop()
        robot.node.destroy_node()
        rclpy.shutdown()
    if stopped:
        raise RuntimeError(f"the bridge's guard stopped the robot: {stopped}")
    answered = [stamp for stamp in robot.sent if stamp in robot.taken]
    if not answered:
        raise RuntimeError("no state was answered")
    trips = np.array([robot.taken[stamp] - robot.sent[stamp] for stamp in answered]) / 1e6
    p50, p99 = np.quantile(trips, (0.5, 0.99))
    return {
        "states": len(robot.sent),
        "unanswered": len(robot.sent) - len(answered),
        "p50_ms": float(p50),
        "p99_ms": float(p99),
        "max_ms": float(trips.max()),
    } | lateness


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__.splitlines()[0], formatter_class=argparse.ArgumentDefaultsHelpFormatter
    )
    parser.add_argument("--seconds", type=float, default=20.0, help="of each measurement")
    parser.add_argument("--out", type=Path, help="JSON file")
    options = parser.parse_args()
    results = {}
    os.environ["ROS_AUTOMATIC_DISCOVERY_RANGE"] = "LOCALHOST"
    with domain_id(lambda: random.randint(1, 100)) as domain:
        os.environ["ROS_DOMAIN_ID"] = str(domain)
        with controller():
            results["direct"] = measure(False, options.seconds)
        with controller(), bridge():
            results["bridge"] = measure(True, options.seconds)
    print(f"{platform.platform()}, {os.cpu_count()} cores")
    for name, result in results.items():
        numbers = ", ".join(f"{key} {value:.4g}" for key, value in result.items())
        print(f"{name:7s} {numbers}")
    if options.out:
        options.out.parent.mkdir(parents=True, exist_ok=True)
        options.out.write_text(json.dumps(results, indent=2) + "\n")


if __name__ == "__main__":
    main()
