"""Life of a node's process: start, spin, and a clean end on SIGINT and SIGTERM, even twice."""

from __future__ import annotations

import signal
import sys
import threading
import time
from collections.abc import Callable, Sequence

import rclpy
from rclpy.context import Context
from rclpy.exceptions import ParameterException
from rclpy.experimental.events_executor import EventsExecutor
from rclpy.node import Node
from rclpy.signals import SignalHandlerOptions

STOP_SIGNALS = (signal.SIGINT, signal.SIGTERM)
REST_TIMEOUT_S = 20.0  # s, as long as a controller takes to bring the robot to rest
REPEAT_S = 1.0  # s; what comes sooner is the same Ctrl-C, told by the terminal and by launch


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


def run_node(
    create_node: Callable[[], Node],
    args: Sequence[str] | None = None,
    is_needed: Callable[[Node], bool] = lambda node: False,
) -> int:
    """Run the node that ``create_node`` makes until a signal comes; returns the exit code.

    The node must have ``close()``, called when no callback runs any more. A value that the node
    refuses at the start ends the process with its message and code 1. So does an exception in any
    of its threads, with a traceback: a robot must not be left with half a node.

    After the signal it goes on while ``is_needed``, for REST_TIMEOUT_S at most or until a second
    signal comes that is later than REPEAT_S.
    """
    stop = threading.Event()
    failed = threading.Event()
    signals: list[float] = []  # times

    def take_signal(*_: object) -> None:
        signals.append(time.monotonic())
        stop.set()

    def fail(failure: threading.ExceptHookArgs) -> None:
        sys.excepthook(failure.exc_type, failure.exc_value, failure.exc_traceback)
        failed.set()
        stop.set()

    threading.excepthook = fail
    # Set before rclpy starts and kept: a second signal during the shutdown changes nothing.
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
            while not failed.is_set() and is_needed(node):
                if time.monotonic() - signals[0] > REST_TIMEOUT_S:
                    break
                if signals[-1] - signals[0] > REPEAT_S:
                    break
                time.sleep(0.02)
        finally:
            spin.stop()
            node.close()
            node.destroy_node()
    finally:
        rclpy.shutdown()
        # The interpreter gives handlers back before it ends; a signal then would kill the process.
        for number in STOP_SIGNALS:
            signal.signal(number, signal.SIG_IGN)
    return 1 if failed.is_set() else 0
