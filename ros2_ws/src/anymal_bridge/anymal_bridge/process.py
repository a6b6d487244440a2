"""Life of a node's process: start, spin, and a clean end on SIGINT and SIGTERM, even twice."""

from __future__ import annotations

import os
import signal
import sys
import threading
import time
from collections.abc import Callable, Sequence
from typing import Protocol

import rclpy
from rclpy.context import Context
from rclpy.exceptions import ParameterException
from rclpy.experimental.events_executor import EventsExecutor
from rclpy.node import Node
from rclpy.signals import SignalHandlerOptions

STOP_SIGNALS = (signal.SIGINT, signal.SIGTERM)
REST_TIMEOUT_S = 20.0  # s; a controller takes 15 s at most to bring the robot to rest
REPEAT_S = 1.0  # s; what comes sooner is the same Ctrl-C, told by the terminal and by launch
POLL_S = 0.02
END_TIMEOUT_S = 5.0  # s, for the last callback and for closing


class SpinThread:
    """Executes the callbacks of one node in a thread of its own.

    The events executor takes less than half the processor time of the default one at 800 messages
    a second. It is only ever called with a timeout: without one it hangs in ROS 2 from PyPI.
    """

    def __init__(self, node: Node, context: Context | None = None) -> None:
        self._executor = EventsExecutor(context=context)
        self._executor.add_node(node)
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._run, name=f"spin_{node.get_name()}")
        self._thread.start()

    def _run(self) -> None:
        while not self._stop.is_set():
            self._executor.spin_once(timeout_sec=1.0)

    def stop(self) -> None:
        """End the thread; no callback runs after this returns."""
        self._stop.set()
        self._executor.wake()
        self._thread.join()
        self._executor.shutdown()


class RobotNode(Protocol):
    """What ``run_node`` asks of a node."""

    def is_needed(self) -> bool:
        """Whether somebody still moves the robot through this node. The robot would drop if it
        ended now."""

    def close(self) -> None:
        """Called when no callback runs any more."""


def run_node(create_node: Callable[[], RobotNode], args: Sequence[str] | None = None) -> int:
    """Run the node that ``create_node`` makes until a signal comes; returns the exit code.

    Ctrl-C reaches all nodes of a launch file at once, and the controller then lays the robot down.
    So a node that is needed goes on: for REST_TIMEOUT_S at most, or until a second signal that
    comes later than REPEAT_S.

    A value that the node refuses at the start ends the process with its message and code 1. So does
    an exception in any of its threads, with a traceback: a robot must not be left with half a node.

    A callback that never returns does not keep the process: after END_TIMEOUT_S it ends with code 1
    and without ``close``. Whatever must be done then, threads of the node's own have to do before.
    """
    failed = threading.Event()
    stop = threading.Event()
    signals: list[float] = []  # s, monotonic

    def take_signal(*_: object) -> None:
        signals.append(time.monotonic())
        stop.set()

    def fail(failure: threading.ExceptHookArgs) -> None:
        sys.excepthook(failure.exc_type, failure.exc_value, failure.exc_traceback)
        failed.set()
        stop.set()

    threading.excepthook = fail
    # Set before rclpy starts and kept: a signal during the shutdown changes nothing.
    for number in STOP_SIGNALS:
        signal.signal(number, take_signal)
    rclpy.init(args=args, signal_handler_options=SignalHandlerOptions.NO)
    try:
        try:
            node = create_node()
        except (ValueError, RuntimeError, OSError, ParameterException) as error:
            print(f"cannot start: {error}", file=sys.stderr)
            return 1
        spin = SpinThread(node)
        try:
            stop.wait()
            if not failed.is_set() and node.is_needed():
                node.get_logger().warning(
                    f"ends when the controller has ended, in {REST_TIMEOUT_S:g} s at the latest; "
                    "a second Ctrl-C ends it at once"
                )
            while not failed.is_set() and node.is_needed():
                again = signals[-1] - signals[0] > REPEAT_S
                if again or time.monotonic() - signals[0] > REST_TIMEOUT_S:
                    break
                time.sleep(POLL_S)
        finally:
            last = threading.Timer(END_TIMEOUT_S, _give_up)
            last.daemon = True
            last.start()
            spin.stop()
            node.close()
            node.destroy_node()
            last.cancel()
    finally:
        rclpy.shutdown()
        # The interpreter gives handlers back before it ends; a signal then would kill the process.
        for number in STOP_SIGNALS:
            signal.signal(number, signal.SIG_IGN)
    return 1 if failed.is_set() else 0


def _give_up() -> None:
    text = f"a callback or the closing did not end within {END_TIMEOUT_S:g} s; left without it"
    print(text, file=sys.stderr, flush=True)
    os._exit(1)
