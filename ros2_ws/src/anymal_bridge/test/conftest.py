"""Fixtures of the node tests: a ROS domain of its own, node processes, and a node of the test."""

from __future__ import annotations

import random
import signal
import subprocess
import sys
import time
from collections import deque
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

REPOSITORY = Path(__file__).parents[4]
FIRST_START_S = 180.0  # wall time; a first start compiles the physics
PATIENCE_S = 60.0  # wall time for anything else; only a failing test waits so long


@pytest.fixture(scope="session")
def ros_domain() -> Iterator[None]:
    """A ROS_DOMAIN_ID that no other test process of this machine has."""
    from domain_coordinator import domain_id

    # At random, so that a node which somebody left running on domain 1 does not join in.
    with domain_id(lambda: random.randint(1, 100)) as domain, pytest.MonkeyPatch.context() as patch:
        patch.setenv("ROS_DOMAIN_ID", str(domain))
        patch.setenv("ROS_AUTOMATIC_DISCOVERY_RANGE", "LOCALHOST")
        yield


class NodeProcess:
    """``python -m anymal_bridge.<module>``, or a program of this folder, with parameters."""

    def __init__(self, module: str, log: Path, parameters: dict[str, object]) -> None:
        parameters = {"robot": REPOSITORY / "config/robot/anymal_d.yaml"} | parameters
        arguments = [f"{name}:={_yaml(value)}" for name, value in parameters.items()]
        file = "bridge.yaml" if "bridge" in module else "sim.yaml"
        here = Path(__file__).parent / module
        program = [str(here)] if here.suffix == ".py" else ["-m", f"anymal_bridge.{module}"]
        self._log = log
        with log.open("w") as output:
            self.process = subprocess.Popen(
                [sys.executable, *program, "--ros-args"]
                + ["--params-file", str(REPOSITORY / "config" / file)]
                + [word for argument in arguments for word in ("-p", argument)],
                stdout=output,
                stderr=subprocess.STDOUT,
            )

    def output(self) -> str:
        """What the process has printed so far."""
        return self._log.read_text()

    def end(self, signals: tuple[int, ...] = (signal.SIGINT,)) -> int:
        """Send the signals, wait for the end and return the exit code."""
        for number in signals:
            if self.process.poll() is None:
                self.process.send_signal(number)
        return self.process.wait(PATIENCE_S)


def _yaml(value: object) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)


@pytest.fixture
def start_node(ros_domain, tmp_path) -> Iterator[Callable[..., NodeProcess]]:
    """Starts node processes; each must end with code 0 on Ctrl-C unless the test ended it."""
    started: list[NodeProcess] = []

    def start(module: str, **parameters) -> NodeProcess:
        log = tmp_path / f"{module}_{len(started)}.log"
        started.append(NodeProcess(module, log, parameters))
        return started[-1]

    yield start
    running = [node for node in reversed(started) if node.process.poll() is None]
    try:
        assert [node.end() for node in running] == [0] * len(running)
    finally:
        for node in started:
            if node.process.poll() is None:
                node.process.kill()
                node.process.wait()
            print(f"--- {node.process.args[1:3]}:\n{node.output()}")


class Peer:
    """A node of the test; its callbacks run inside ``until``."""

    def __init__(self) -> None:
        import rclpy
        from rclpy.executors import SingleThreadedExecutor

        self._context = rclpy.Context()
        rclpy.init(context=self._context)
        self.node = rclpy.create_node("test_peer", context=self._context)
        self._executor = SingleThreadedExecutor(context=self._context)
        self._executor.add_node(self.node)

    def until(
        self,
        condition: Callable[[], object],
        timeout: float = PATIENCE_S,
        missing: Callable[[], str] = lambda: "",
    ) -> None:
        """Run callbacks until ``condition`` is true; fails after ``timeout`` s of wall time, and
        says what is ``missing``."""
        end = time.monotonic() + timeout
        while not condition():
            if time.monotonic() > end:
                raise AssertionError(f"not within {timeout} s of wall time: {missing()}")
            self._executor.spin_once(timeout_sec=0.1)

    def collect(self, topic, name: str | None = None) -> list:
        """A list that grows by every message of a topic of the interface table."""
        messages: list = []
        self.node.create_subscription(topic.type, name or topic.name, messages.append, topic.qos)
        return messages

    def newest(self, topic, name: str | None = None) -> Callable[[], object]:
        """Function that returns the newest message, None before the first.

        Only that one is unpacked: all readings of a robot would keep this process busy.
        """
        from rclpy.serialization import deserialize_message

        serialised: deque[bytes] = deque(maxlen=1)
        name = name or topic.name
        self.node.create_subscription(
            topic.type, name, lambda data: serialised.append(data), topic.qos, raw=True
        )
        return lambda: deserialize_message(serialised[0], topic.type) if serialised else None

    def call(self, service_type, name: str, request=None):
        """Call a service and return its response."""
        client = self.node.create_client(service_type, name)
        self.until(client.service_is_ready)
        future = client.call_async(request or service_type.Request())
        self.until(future.done)
        self.node.destroy_client(client)
        return future.result()

    def set_parameters(self, node: str, **values) -> list:
        """Set parameters of a running node; returns the results. ``__`` stands for a dot."""
        from rcl_interfaces.srv import SetParameters
        from rclpy.parameter import Parameter

        request = SetParameters.Request()
        request.parameters = [
            Parameter(name.replace("__", "."), value=value).to_parameter_msg()
            for name, value in values.items()
        ]
        return self.call(SetParameters, f"{node}/set_parameters", request).results

    def close(self) -> None:
        import rclpy

        self._executor.shutdown()
        self.node.destroy_node()
        rclpy.shutdown(context=self._context)


@pytest.fixture
def peer(ros_domain) -> Iterator[Peer]:
    """A node of the test, closed at its end."""
    peer = Peer()
    yield peer
    peer.close()


class Roscore:
    """A ROS 1 master that can be killed and brought back at the same address."""

    def __init__(self, folder: Path) -> None:
        import socket

        self._reserved = socket.socket()
        # With this option rosmaster may bind the port as well, but nobody else is given it.
        self._reserved.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        self._reserved.bind(("localhost", 0))
        self._port = self._reserved.getsockname()[1]
        self.uri = f"http://localhost:{self._port}"
        self._log = folder / "rosmaster.log"
        self._process: subprocess.Popen | None = None

    def start(self) -> None:
        with self._log.open("a") as log:
            self._process = subprocess.Popen(
                ["rosmaster", "--core", "-p", str(self._port)], stdout=log, stderr=log
            )

    def kill(self) -> None:
        if self._process is not None:
            self._process.kill()
            self._process.wait()

    def close(self) -> None:
        self.kill()
        self._reserved.close()


@pytest.fixture
def roscore(tmp_path, monkeypatch) -> Iterator[Roscore]:
    """A running roscore of its own; skips where ROS 1 is not installed."""
    from shutil import which

    link = pytest.importorskip("anymal_bridge.ros1.link", reason="needs the message packages")
    if reason := link.check_ros1():
        pytest.skip(reason)
    if which("rosmaster") is None:
        pytest.skip("no rosmaster; Debian and Ubuntu 22.04: apt install python3-rosmaster")
    monkeypatch.setenv("ROS_HOSTNAME", "localhost")
    monkeypatch.setenv("ROS_LOG_DIR", str(tmp_path / "ros1_log"))
    roscore = Roscore(tmp_path)
    roscore.start()
    yield roscore
    roscore.close()
