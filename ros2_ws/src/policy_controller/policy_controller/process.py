"""Threads and signals of the controller's process."""

from __future__ import annotations

import signal
import threading
import traceback

from rclpy.executors import ExternalShutdownException
from rclpy.experimental import EventsExecutor
from rclpy.node import Node


class SpinThread:
    """Executes the callbacks of one node in a thread of its own."""

    _WAIT = 0.2  # s; without a time limit EventsExecutor never returns in the PyPI wheels

    def __init__(self, node: Node):
        """The context is the node's."""
        self._executor = EventsExecutor(context=node.context)
        self._executor.add_node(node)
        self._logger = node.get_logger()
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._run, name="executor")

    def start(self) -> None:
        """Begin to execute callbacks."""
        self._thread.start()

    def _run(self) -> None:
        while not self._stop.is_set():
            try:
                self._executor.spin_once(timeout_sec=self._WAIT)
            except ExternalShutdownException:
                return
            except Exception:  # the next request may be the emergency stop: it must be heard
                self._logger.error(f"a callback raised, the node goes on\n{traceback.format_exc()}")

    def stop(self) -> None:
        """End the thread; no callback runs after this returns."""
        self._stop.set()
        self._thread.join()
        self._executor.shutdown()


def catch_signals() -> threading.Event:
    """An event that SIGINT and SIGTERM set.

    Call before rclpy.init, and let rclpy install no handlers. The handlers stay: launch sends
    a second SIGINT during the shutdown, which must find the event set and do nothing.
    """
    stop = threading.Event()
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, lambda *_: stop.set())
    return stop
