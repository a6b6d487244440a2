"""The life of a node's process, with a node of three lines."""

import signal
import subprocess
import sys
import time

import pytest

pytest.importorskip("rclpy", reason="needs ROS 2")
pytestmark = pytest.mark.ros

NODE = """
import sys, threading
from anymal_bridge.process import run_node
from rclpy.node import Node

class Example(Node):
    def __init__(self):
        super().__init__("example")
        {init}
    def on_timer(self):
        {on_timer}
    def close(self):
        print("closed", flush=True)

sys.exit(run_node(Example))
"""


def run_example(init: str, on_timer: str = "pass") -> subprocess.Popen:
    return subprocess.Popen(
        [sys.executable, "-c", NODE.format(init=init, on_timer=on_timer)],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


@pytest.mark.parametrize("signals", [[signal.SIGINT], [signal.SIGTERM] * 2, [signal.SIGINT] * 3])
def test_signals_end_it_with_code_0(ros_domain, signals):
    process = run_example("self.create_timer(0.01, self.on_timer)", "print('tick', flush=True)")
    assert process.stdout.readline() == "tick\n"
    for number in signals:
        process.send_signal(number)
    output, errors = process.communicate(timeout=60)
    assert process.returncode == 0
    assert output.endswith("closed\n")
    assert "Traceback" not in errors


def test_signals_until_the_very_end_change_nothing(ros_domain):
    """Also while the interpreter takes itself down: Ctrl-C reaches a process more than once."""
    process = run_example("print('ready', flush=True)")
    assert process.stdout.readline() == "ready\n"
    while process.poll() is None:
        process.send_signal(signal.SIGINT)
        time.sleep(0.0005)
    assert process.returncode == 0


def test_exception_in_a_callback_ends_it_with_code_1(ros_domain):
    process = run_example("self.create_timer(0.01, self.on_timer)", "raise KeyError('broken')")
    output, errors = process.communicate(timeout=60)
    assert process.returncode == 1
    assert "broken" in errors and "Traceback" in errors
    assert output == "closed\n"


def test_exception_in_a_thread_of_the_node_ends_it_with_code_1(ros_domain):
    process = run_example("threading.Thread(target=lambda: 1 / 0).start()")
    _, errors = process.communicate(timeout=60)
    assert process.returncode == 1
    assert "ZeroDivisionError" in errors


def test_refused_value_is_told_without_a_traceback(ros_domain):
    process = run_example("raise ValueError('found 3, allowed 4')")
    _, errors = process.communicate(timeout=60)
    assert process.returncode == 1
    assert errors == "cannot start: found 3, allowed 4\n"
