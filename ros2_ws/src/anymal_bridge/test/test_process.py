"""The life of a node's process, with a node of three lines."""

import signal
import subprocess
import sys
import time

import pytest

pytest.importorskip("rclpy", reason="needs ROS 2")
pytestmark = pytest.mark.ros

NODE = """
import pathlib, sys, threading
from anymal_bridge import process
from rclpy.node import Node

{before}
class Example(Node):
    def __init__(self):
        super().__init__("example")
        {init}
    def on_timer(self):
        {on_timer}
    def is_needed(self):
        return {needed}
    def close(self):
        print("closed", flush=True)

sys.exit(process.run_node(Example))
"""


def run_example(
    init: str, on_timer: str = "pass", needed: str = "False", before: str = ""
) -> subprocess.Popen:
    program = NODE.format(init=init, on_timer=on_timer, needed=needed, before=before)
    return subprocess.Popen(
        [sys.executable, "-c", program],
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


TICKS = "self.create_timer(0.01, self.on_timer)", "print('tick', flush=True)"


def test_node_that_is_needed_stays_until_it_is_not(ros_domain, tmp_path):
    """Two signals at once are one Ctrl-C: of the terminal, and of launch."""
    done = tmp_path / "done"
    process = run_example(*TICKS, needed=f"not pathlib.Path({str(done)!r}).exists()")
    assert process.stdout.readline() == "tick\n"
    for _ in range(2):
        process.send_signal(signal.SIGINT)
    assert "ends when the controller has ended" in process.stderr.readline()
    for _ in range(20):
        assert process.stdout.readline() == "tick\n"
    done.touch()
    output, _ = process.communicate(timeout=60)
    assert process.returncode == 0 and output.endswith("closed\n")


def test_second_signal_ends_a_node_that_is_needed(ros_domain):
    process = run_example(*TICKS, needed="True", before="process.REST_TIMEOUT_S = 1e9")
    assert process.stdout.readline() == "tick\n"
    process.send_signal(signal.SIGINT)
    time.sleep(1.5)  # longer than REPEAT_S
    assert process.poll() is None
    process.send_signal(signal.SIGINT)
    output, _ = process.communicate(timeout=60)
    assert process.returncode == 0 and output.endswith("closed\n")


def test_node_is_not_needed_for_ever(ros_domain):
    process = run_example(*TICKS, needed="True", before="process.REST_TIMEOUT_S = 0.5")
    assert process.stdout.readline() == "tick\n"
    process.send_signal(signal.SIGTERM)
    output, _ = process.communicate(timeout=60)
    assert process.returncode == 0 and output.endswith("closed\n")


def test_failure_ends_a_node_that_is_needed(ros_domain):
    fail = "threading.Timer(0.5, lambda: 1 / 0).start()"
    process = run_example(f"{fail}; print('ready', flush=True)", needed="True")
    assert process.stdout.readline() == "ready\n"
    process.send_signal(signal.SIGINT)
    _, errors = process.communicate(timeout=60)
    assert process.returncode == 1 and "ZeroDivisionError" in errors


def test_callback_that_never_returns_does_not_keep_it(ros_domain):
    """`close` is not called: it may rely on no callback running any more."""
    process = run_example(
        "self.create_timer(0.01, self.on_timer)",
        "print('tick', flush=True); threading.Event().wait()",
        before="process.END_TIMEOUT_S = 0.5",
    )
    assert process.stdout.readline() == "tick\n"
    process.send_signal(signal.SIGINT)
    output, errors = process.communicate(timeout=60)
    assert process.returncode == 1 and output == ""
    assert "did not end within 0.5 s" in errors


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
