"""The executor's thread outlives a callback that raises."""

from __future__ import annotations

import threading

import pytest

rclpy = pytest.importorskip("rclpy")

from domain_coordinator import domain_id  # noqa: E402
from rclpy.context import Context  # noqa: E402

from policy_controller.process import SpinThread  # noqa: E402

pytestmark = pytest.mark.ros


def test_callbacks_go_on_after_one_raised():
    called = threading.Event()
    calls = []

    def raise_once():
        calls.append(1)
        if len(calls) == 1:
            raise RuntimeError("the first call fails")
        called.set()

    with domain_id() as domain:
        context = Context()
        rclpy.init(context=context, domain_id=int(domain))
        node = rclpy.create_node("raising", context=context)
        node.create_timer(0.05, raise_once)
        thread = SpinThread(node)
        thread.start()
        try:
            assert called.wait(10.0), f"{len(calls)} calls, then none"
        finally:
            thread.stop()
            node.destroy_node()
            rclpy.shutdown(context=context)
