"""Period and latency of the controller's node, beside a bare sleeping loop and an rclpy timer.

    python benchmarks/control_loop.py --out report/control_loop              # 50, 200, 400 Hz
    python benchmarks/control_loop.py --soak 1800 --out report/control_soak  # 50 Hz, PASS or FAIL

The node is its own process and walks with the shipped policy; a second process gives it a state
400 times a second and a velocity command 20 times a second, and takes its commands. That robot
hangs still in the default pose, so that physics takes nothing of the processor. What is measured
comes from ~/status of every tick: `period`, and `tick_duration`, until the command is published.
The sleeping loop and the timer only read the clock. "load" is one busy process for each core.

The soak adds two processes between which 1000 messages a second pass that the node does not want,
and watches the node's resident memory. Nothing but ROS has to be installed; nothing is recorded.
"""

from __future__ import annotations

import argparse
import json
import multiprocessing
import os
import platform
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field, replace
from multiprocessing.synchronize import Event
from pathlib import Path

import numpy as np
import rclpy
from anymal_msgs.msg import AnymalState, Contact
from diagnostic_msgs.msg import DiagnosticArray
from domain_coordinator import domain_id
from footlight_msgs.msg import ControllerStatus
from footlight_msgs.srv import SetMotionState
from geometry_msgs.msg import TwistStamped
from rclpy.executors import SingleThreadedExecutor
from rclpy.node import Node
from rclpy.qos import QoSProfile, ReliabilityPolicy
from sensor_msgs.msg import JointState
from series_elastic_actuator_msgs.msg import SeActuatorCommands

from policy_controller.bundle import load_bundle, save_bundle
from policy_controller.loop import freeze_garbage, request_priority, sleep_until
from policy_controller.state import FOOT_NAMES, JOINT_NAMES

ROOT = Path(__file__).resolve().parent.parent
RATES = (50, 200, 400)  # Hz
STATE_PERIOD_NS = 2_500_000
TRAFFIC_PERIOD_NS = 1_000_000
SENSOR_QOS = QoSProfile(depth=5, reliability=ReliabilityPolicy.BEST_EFFORT)
COMMAND = (0.5, 0.0, 0.2)  # m/s, m/s, rad/s
PATIENCE = 60.0  # s
SETTLE = 2.0  # s of walking before the measurement
PAGE = os.sysconf("SC_PAGE_SIZE")


@dataclass
class Run:
    """What was measured. period, duration: of each tick, s, shape [n]; duration is empty for a
    loop that does nothing. rss: resident memory once a second, bytes. missed: slots skipped."""

    period: np.ndarray
    duration: np.ndarray = field(default_factory=lambda: np.zeros(0))
    rss: np.ndarray = field(default_factory=lambda: np.zeros(0))
    missed: int = 0


def summarise(run: Run, wanted: float) -> dict[str, float | int]:
    """Numbers of a run in ms and MiB. wanted: period, s."""
    off = np.abs(run.period - wanted) * 1e3
    summary: dict[str, float | int] = {
        "ticks": len(run.period),
        "missed": run.missed,
        "period_mean_ms": float(run.period.mean() * 1e3),
        "period_std_ms": float(run.period.std() * 1e3),
        "jitter_p50_ms": float(np.quantile(off, 0.5)),
        "jitter_p99_ms": float(np.quantile(off, 0.99)),
        "jitter_max_ms": float(off.max()),
        "within_2ms": float((off <= 2.0).mean()),
    }
    if run.duration.size:
        for name, share in (("p50", 0.5), ("p99", 0.99), ("max", 1.0)):
            summary[f"tick_{name}_ms"] = float(np.quantile(run.duration, share) * 1e3)
    if run.rss.size >= 20:
        tenth = len(run.rss) // 10
        summary["rss_mib"] = float(run.rss[-1] / 2**20)
        summary["rss_growth_mib"] = float(
            (run.rss[-tenth:].mean() - run.rss[tenth : 2 * tenth].mean()) / 2**20
        )
    return summary


# What a soak has to show: text, condition on the summary.
DEMANDS = (
    ("period std < 0.5 ms", lambda s: s["period_std_ms"] < 0.5),
    ("99.9 % of periods within ±2 ms", lambda s: s["within_2ms"] >= 0.999),
    ("tick p99 < 1 ms", lambda s: s["tick_p99_ms"] < 1.0),
    ("no missed tick", lambda s: s["missed"] == 0),
    ("memory grows by less than 1 MiB", lambda s: s["rss_growth_mib"] < 1.0),
)


# Processes


def burn(stop: Event) -> None:
    """A busy processor."""
    while not stop.is_set():
        sum(range(10_000))


def send_traffic(stop: Event) -> None:
    """1000 messages a second on a topic that the node does not know."""
    rclpy.init()
    node = rclpy.create_node("traffic")
    publisher = node.create_publisher(JointState, "/traffic", SENSOR_QOS)
    message = JointState(name=list(JOINT_NAMES), position=[0.0] * 12)
    due = time.monotonic_ns()
    while not stop.is_set():
        publisher.publish(message)
        due = max(due + TRAFFIC_PERIOD_NS, time.monotonic_ns() - 10 * TRAFFIC_PERIOD_NS)
        sleep_until(due)
    node.destroy_node()
    rclpy.shutdown()


def take_traffic(stop: Event, received: multiprocessing.Value) -> None:
    """The other end of the traffic; counts what arrives."""
    rclpy.init()
    node = rclpy.create_node("traffic_listener")

    def count(content: bytes) -> None:
        received.value += 1

    node.create_subscription(JointState, "/traffic", count, SENSOR_QOS, raw=True)
    executor = SingleThreadedExecutor()
    executor.add_node(node)
    while not stop.is_set():
        executor.spin_once(timeout_sec=0.1)
    node.destroy_node()
    rclpy.shutdown()


def act_robot(stop: Event) -> None:
    """A robot that hangs still in its default pose: 400 states a second, and velocity commands."""
    rclpy.init()
    node = rclpy.create_node("robot")
    states = node.create_publisher(AnymalState, "/state_estimator/anymal_state", SENSOR_QOS)
    twists = node.create_publisher(TwistStamped, "/policy_controller/cmd_vel", 1)
    state = AnymalState()
    state.twist.header.frame_id = "base"
    state.pose.pose.orientation.w = 1.0
    state.joints.name = list(JOINT_NAMES)
    state.joints.position = list(load_bundle(ROOT / "config/bundles/anymal_d").default_pose)
    state.joints.velocity = state.joints.effort = [0.0] * 12
    state.contacts = [Contact(name=name, state=Contact.STATE_CLOSED) for name in FOOT_NAMES]
    twist = TwistStamped()
    twist.twist.linear.x, twist.twist.linear.y, twist.twist.angular.z = COMMAND

    node.create_subscription(
        SeActuatorCommands,
        "/motion_control_manager/actuator_commands",
        lambda content: None,
        1,
        raw=True,
    )
    executor = SingleThreadedExecutor()
    executor.add_node(node)
    due, count = time.monotonic_ns(), 0
    while not stop.is_set():
        state.header.stamp = node.get_clock().now().to_msg()
        states.publish(state)
        if count % 20 == 0:
            twists.publish(twist)
        executor.spin_once(timeout_sec=0.0)
        due, count = max(due + STATE_PERIOD_NS, time.monotonic_ns()), count + 1
        sleep_until(due)
    node.destroy_node()
    rclpy.shutdown()


def sleep_loop(connection, rate: int, seconds: float) -> None:
    """clock_nanosleep with absolute deadlines and nothing else; sends the periods, s."""
    request_priority(80)
    freeze_garbage()
    period_ns = 1_000_000_000 // rate
    stamps = np.empty(int(seconds * rate) + 1, dtype=np.int64)
    due = time.monotonic_ns()
    for index in range(len(stamps)):
        due += period_ns
        sleep_until(due)
        stamps[index] = time.monotonic_ns()
    connection.send(np.diff(stamps) / 1e9)


def timer_loop(connection, rate: int, seconds: float) -> None:
    """An rclpy timer in the default executor that does nothing; sends the periods, s."""
    rclpy.init()
    request_priority(80)
    freeze_garbage()
    node, stamps = rclpy.create_node("timer"), []
    node.create_timer(1.0 / rate, lambda: stamps.append(time.monotonic_ns()))
    executor = SingleThreadedExecutor()
    executor.add_node(node)
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        executor.spin_once(timeout_sec=0.1)
    connection.send(np.diff(stamps) / 1e9)
    node.destroy_node()
    rclpy.shutdown()


@contextmanager
def process(function, *arguments) -> Iterator[None]:
    """A process that runs function(stop, *arguments) until the end of the block."""
    context = multiprocessing.get_context("spawn")
    stop = context.Event()
    child = context.Process(target=function, args=(stop, *arguments))
    child.start()
    try:
        yield
        if not child.is_alive():
            raise RuntimeError(f"{function.__name__} ended by itself (exit {child.exitcode})")
    finally:
        stop.set()
        child.join()


def measure_bare(function, rate: int, seconds: float) -> Run:
    """One of the two loops that do nothing."""
    context = multiprocessing.get_context("spawn")
    here, there = context.Pipe()
    child = context.Process(target=function, args=(there, rate, seconds))
    child.start()
    period = here.recv()
    child.join()
    return Run(period, missed=int((np.rint(period * rate) - 1).clip(0).sum()))


class Watcher:
    """Asks for motion states, and keeps what the node says about each tick."""

    def __init__(self) -> None:
        self.node: Node = rclpy.create_node("watcher")
        self.last: ControllerStatus | None = None
        self.numbers: list[tuple[float, float, int]] | None = None  # period, duration, tick
        self.missed = 0
        qos = QoSProfile(depth=1000, reliability=ReliabilityPolicy.RELIABLE)
        self.node.create_subscription(
            ControllerStatus, "/policy_controller/status", self._on_status, qos
        )
        self.node.create_subscription(DiagnosticArray, "/diagnostics", self._on_diagnostics, qos)
        self._client = self.node.create_client(
            SetMotionState, "/policy_controller/set_motion_state"
        )
        self._executor = SingleThreadedExecutor()
        self._executor.add_node(self.node)

    def _on_status(self, message: ControllerStatus) -> None:
        self.last = message
        if self.numbers is not None:
            self.numbers.append((message.period, message.tick_duration, message.ticks))

    def _on_diagnostics(self, message: DiagnosticArray) -> None:
        for status in message.status:
            for pair in status.values:
                if pair.key == "missed slots":
                    self.missed = int(pair.value)

    def spin(self, seconds: float) -> None:
        """Take messages for some time."""
        end = time.monotonic() + seconds
        while (left := end - time.monotonic()) > 0.0:
            self._executor.spin_once(timeout_sec=left)

    def reach(self, wanted: int) -> None:
        """Ask for a motion state until it is there."""
        end = time.monotonic() + PATIENCE
        while self.last is None or self.last.motion_state != wanted:
            if time.monotonic() > end:
                detail = self.last.detail if self.last else "no status"
                raise RuntimeError(f"motion state {wanted} not reached in {PATIENCE:g} s: {detail}")
            if self._client.service_is_ready():
                self._client.call_async(SetMotionState.Request(motion_state=wanted))
            self.spin(0.5)

    def close(self) -> None:
        """Leave the graph."""
        self._executor.shutdown()
        self.node.destroy_node()


def read_rss(pid: int) -> int:
    """Resident memory of a process, bytes."""
    return int(Path(f"/proc/{pid}/statm").read_text().split()[1]) * PAGE


def measure_node(rate: int, seconds: float, folder: Path) -> Run:
    """The controller's node, walking. Raises RuntimeError if it does not walk all the time, or if
    what it said about its ticks did not all arrive."""
    path = folder / f"bundle_{rate}"
    if not path.exists():
        bundle = load_bundle(ROOT / "config/bundles/anymal_d")
        save_bundle(path, replace(bundle, control_period=1.0 / rate))
    values = {
        "bundle": path,
        "robot": ROOT / "config/robot/anymal_d.yaml",
        "autostart": "true",
        "real_time_priority": 80,
        "lock_memory": "true",
    }
    options = [part for name, value in values.items() for part in ("-p", f"{name}:={value}")]
    with process(act_robot):
        node = subprocess.Popen(
            [sys.executable, "-m", "policy_controller.node", "--ros-args", *options],
            stderr=subprocess.DEVNULL,
        )
        watcher = Watcher()
        try:
            watcher.reach(ControllerStatus.STAND)
            watcher.spin(1.0)
            watcher.reach(ControllerStatus.WALK)
            watcher.spin(SETTLE)
            missed, watcher.numbers, rss = watcher.missed, [], []
            end = time.monotonic() + seconds
            while time.monotonic() < end:
                watcher.spin(min(1.0, max(end - time.monotonic(), 0.0)))
                rss.append(read_rss(node.pid))
            numbers, last = np.array(watcher.numbers), watcher.last
            watcher.numbers = None
            watcher.spin(1.5)  # the diagnostics of the last second
            if last.motion_state != ControllerStatus.WALK:
                raise RuntimeError(f"the controller did not go on walking: {last.detail}")
            ticks = numbers[-1, 2] - numbers[0, 2] + 1
            if len(numbers) < 0.99 * ticks:
                raise RuntimeError(f"{len(numbers)} of {ticks:.0f} status messages arrived")
            return Run(numbers[:, 0], numbers[:, 1], np.array(rss), watcher.missed - missed)
        finally:
            node.kill()
            node.wait()
            watcher.close()


def draw(runs: dict[str, Run], path: Path) -> None:
    """Histograms of the periods' errors and of the ticks' durations, and the memory."""
    import matplotlib

    matplotlib.use("Agg")
    from matplotlib import pyplot

    figure, (left, right, memory) = pyplot.subplots(1, 3, figsize=(14, 4))
    edges = np.geomspace(1e-3, 20.0, 60)
    for name, run in runs.items():
        off = np.abs(run.period - np.median(run.period)) * 1e3
        left.stairs(np.histogram(off.clip(edges[0]), edges)[0] / len(off), edges, label=name)
        if run.duration.size:
            share = np.histogram(run.duration * 1e3, edges)[0] / len(run.duration)
            right.stairs(share, edges, label=name)
        if run.rss.size >= 20:
            memory.plot(run.rss / 2**20, label=name)
    for axes, title in ((left, "|period - median| [ms]"), (right, "tick, state to command [ms]")):
        axes.set(xscale="log", yscale="log", xlabel=title, ylabel="share of ticks")
        axes.legend(fontsize=6)
    memory.set(xlabel="time [s]", ylabel="resident memory [MiB]")
    figure.tight_layout()
    figure.savefig(path, dpi=120)


def compare(seconds: float, folder: Path) -> dict[str, Run]:
    """All loops at all rates, idle and under load; the loops take turns within a cell."""
    runs = {}
    for load in ("idle", "load"):
        for rate in RATES:
            with ExitStack() as stack:
                for _ in range(os.cpu_count() if load == "load" else 0):
                    stack.enter_context(process(burn))
                runs[f"sleep {rate} Hz {load}"] = measure_bare(sleep_loop, rate, seconds)
                runs[f"timer {rate} Hz {load}"] = measure_bare(timer_loop, rate, seconds)
                runs[f"node {rate} Hz {load}"] = measure_node(rate, seconds, folder)
    return runs


def soak(seconds: float, folder: Path) -> dict[str, Run]:
    """The node at 50 Hz with foreign traffic. Raises RuntimeError if less than 900 messages a
    second of it passed."""
    received = multiprocessing.get_context("spawn").Value("q", 0)
    with process(take_traffic, received), process(send_traffic):
        while received.value == 0:
            time.sleep(0.01)
        begin, before = time.monotonic(), received.value
        run = measure_node(50, seconds, folder)
        rate = (received.value - before) / (time.monotonic() - begin)
    if rate < 900.0:
        raise RuntimeError(f"foreign traffic: found {rate:.0f} messages/s, wanted 1000")
    print(f"foreign traffic: {rate:.0f} messages/s")
    return {"soak 50 Hz": run}


def main() -> int:
    """Run, write NAME.json and NAME.png, print; 1 if a soak does not meet the demands."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--seconds", type=float, default=10.0, help="of each of the 18 cells")
    parser.add_argument("--soak", type=float, metavar="SECONDS", help="one long run instead")
    parser.add_argument("--out", type=Path, required=True, help="path without extension")
    arguments = parser.parse_args()
    if arguments.soak is not None and arguments.soak < 20.0:
        parser.error(f"--soak: found {arguments.soak:g}, allowed: 20 s and more")
    os.environ["ROS_AUTOMATIC_DISCOVERY_RANGE"] = "LOCALHOST"
    arguments.out.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory() as folder, domain_id() as domain:
        os.environ["ROS_DOMAIN_ID"] = str(domain)
        rclpy.init()
        if arguments.soak is None:
            runs = compare(arguments.seconds, Path(folder))
        else:
            runs = soak(arguments.soak, Path(folder))
        rclpy.shutdown()
    results = {name: summarise(run, 1.0 / int(name.split()[1])) for name, run in runs.items()}
    machine = f"{platform.machine()}, {os.cpu_count()} cores, Python {platform.python_version()}"
    arguments.out.with_suffix(".json").write_text(
        json.dumps({"machine": machine, "runs": results}, indent=2) + "\n"
    )
    draw(runs, arguments.out.with_suffix(".png"))
    for name, summary in results.items():
        print(f"{name:18}", *(f"{key} {value:.4g}" for key, value in summary.items()))
    if arguments.soak is None:
        return 0
    (summary,) = results.values()
    met = [(text, demand(summary)) for text, demand in DEMANDS]
    for text, good in met:
        print("PASS" if good else "FAIL", text)
    return 0 if all(good for _, good in met) else 1


if __name__ == "__main__":
    sys.exit(main())
