"""The recorder as a process of its own, over real DDS."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from contextlib import contextmanager
from pathlib import Path

import pytest

rclpy = pytest.importorskip("rclpy")
pytest.importorskip("anymal_msgs")

from anymal_msgs.msg import AnymalState  # noqa: E402
from lockstep_robot import STATE_QOS, own_context, wait_for  # noqa: E402
from std_msgs.msg import String  # noqa: E402

from policy_controller.bag.reader import BagReader  # noqa: E402

pytestmark = pytest.mark.ros


@pytest.fixture
def node():
    """A node in a domain that no other test uses."""
    with own_context() as context:
        yield rclpy.create_node("talker", context=context)


@contextmanager
def recorder(node, folder: Path, *more: str):
    """A recorder of /state (best effort) and /text (reliable)."""
    topics = "['/state anymal_msgs/msg/AnymalState best_effort', '/text std_msgs/msg/String']"
    options = ["-p", f"folder:={folder}", "-p", "min_free:=0", "-p", f"topics:={topics}", *more]
    environment = os.environ | {"ROS_DOMAIN_ID": str(node.context.get_domain_id())}
    process = subprocess.Popen(
        [sys.executable, "-m", "policy_controller.record", "--ros-args", *options],
        env=environment,
        stderr=subprocess.PIPE,
        text=True,
    )
    try:
        yield process
    finally:
        process.kill()
        process.communicate()


def publish_both(node, process, count: int):
    """Publish `count` states and texts to a recorder that listens."""
    states = node.create_publisher(AnymalState, "/state", STATE_QOS)
    texts = node.create_publisher(String, "/text", count)
    matched = lambda: states.get_subscription_count() and texts.get_subscription_count()  # noqa: E731
    wait_for(lambda: process.poll() is not None or matched(), "the recorder")
    assert process.poll() is None, process.stderr.read()
    for first in (-50, 0):  # a publisher may know of its reader before that knows of it
        for number in range(first, count if first == 0 else 0):
            states.publish(AnymalState(state=number % 100))
            texts.publish(String(data=f"{number} " + "x" * 1000))
            time.sleep(0.002)
        assert texts.wait_for_all_acked(rclpy.duration.Duration(seconds=20))


def test_all_that_is_published_once_connected_is_recorded(node, tmp_path):
    with recorder(node, tmp_path) as process:
        publish_both(node, process, 200)
        process.send_signal(signal.SIGINT)
        assert process.wait(30) == 0
    (folder,) = tmp_path.iterdir()
    reader = BagReader(folder)
    messages = list(reader.read())
    texts = [int(m.decode().data.split()[0]) for m in messages if m.topic == "/text"]
    assert texts[texts.index(0) :] == list(range(200)) and not reader.unfinished
    assert any(m.topic == "/state" for m in messages)
    assert all(0 <= m.log_ns - m.publish_ns < 10**10 for m in messages)


def test_killed_recorder_leaves_a_readable_file_and_the_talker_alone(node, tmp_path):
    with recorder(node, tmp_path) as process:
        publish_both(node, process, 500)

        def size():
            return sum(file.stat().st_size for file in tmp_path.rglob("*.mcap"))

        wait_for(lambda: size() > 1000, "the first chunk")
        process.kill()
        process.wait()
        text = node.create_publisher(String, "/text", 1)
        for _ in range(1000):  # would block if the dead recorder were waited for
            text.publish(String(data="x" * 1000))
    (folder,) = tmp_path.iterdir()
    reader = BagReader(folder)
    assert list(reader.read()) and len(reader.unfinished) == 1


@pytest.mark.parametrize(
    ("more", "message"),
    [
        (("-p", "topics:=['/state AnymalState']"), "found 'AnymalState', allowed: package/msg/"),
        (("-p", "topics:=['/state']"), "topics: found '/state', allowed: 'name package/msg/Type'"),
        (("-p", "split_size:=0"), "split_size: found 0, allowed: integer from 1"),
        (("-p", "folder:=/proc/none"), "recording ended: /proc/none"),
    ],
)
def test_what_cannot_be_recorded_is_said_in_one_go(node, tmp_path, more, message):
    with recorder(node, tmp_path, *more) as process:
        output = process.communicate(timeout=60)[1]
    assert process.returncode == 1 and message in output and "Traceback" not in output
