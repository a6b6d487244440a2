"""Records topics of a controller run into MCAP files that rosbag2 and Foxglove read.

    python -m policy_controller.record --ros-args --params-file config/recorder.yaml

A process of its own: the controller neither waits for it nor notices that it has ended. Messages
stay serialised and are taken in batches, which costs a fraction of being called for each of them.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import rclpy
from rclpy.node import Node
from rclpy.qos import QoSProfile, ReliabilityPolicy
from rclpy.signals import SignalHandlerOptions
from rclpy.subscription import Subscription

from policy_controller.bag.schema import load_type
from policy_controller.bag.writer import MEGABYTE, BagError, BagWriter
from policy_controller.declaration import declare_groups, read_values
from policy_controller.fields import RefusedError, build_groups, describe_problem, spec
from policy_controller.process import catch_signals

PERIOD = 0.05
"""s between two batches."""
QUEUE = 1000
"""Messages of one topic that may wait: more than two seconds of the robot's 400 Hz."""


@dataclass(frozen=True)
class RecorderSettings:
    """Parameters of the recorder; the topics are a list of their own."""

    folder: str = spec("text", "where each recording gets its own folder", "recordings")
    split_size: int = spec("integer", "of one file", 256, unit="MB", low=1, high=100_000)
    max_files: int = spec("integer", "kept, the oldest are deleted", 40, low=2, high=100_000)
    min_free: int = spec("integer", "left on the disk", 1000, unit="MB", low=0, high=10_000_000)


@dataclass(frozen=True)
class Topic:
    """A topic to record, written "name package/msg/Type", with " best_effort" if it is sent so."""

    name: str
    kind: str
    best_effort: bool


def parse_topic(text: str) -> Topic:
    """A Topic from its text. Raises RefusedError."""
    words = text.split()
    if len(words) not in (2, 3) or words[2:] not in ([], ["best_effort"]):
        allowed = "'name package/msg/Type' or 'name package/msg/Type best_effort'"
        raise RefusedError(
            "parameters", [describe_problem("topics", text, allowed, "correct the parameter")]
        )
    return Topic(words[0], words[1], len(words) == 3)


class RecorderNode(Node):
    """Subscribes to the topics and writes what came. Must not be in an executor: its messages would
    be taken there."""

    def __init__(self, **options: Any):
        """options: of rclpy's Node. Raises RefusedError, SchemaError or BagError."""
        super().__init__(
            "recorder", automatically_declare_parameters_from_overrides=True, **options
        )
        declare_groups(self, (("", RecorderSettings),))
        values = read_values(self)
        topics = values.pop("topics", None) or []
        cure, example = "correct the parameter", "config/recorder.yaml"
        (settings,) = build_groups(values, (("", RecorderSettings),), cure, example)
        if not topics:
            raise RefusedError(
                "parameters", [f"topics: found none, allowed: some, as in {example}; name them"]
            )
        name = time.strftime("%Y-%m-%d_%H-%M-%S")
        self.writer = BagWriter(
            Path(settings.folder) / name,
            name,
            settings.split_size * MEGABYTE,
            settings.max_files,
            settings.min_free * MEGABYTE,
        )
        self._subscribed = [self._subscribe(parse_topic(topic)) for topic in topics]
        self.get_logger().info(f"recording to {self.writer.files[0].parent}")

    def _subscribe(self, topic: Topic) -> Subscription:
        reliability = (
            ReliabilityPolicy.BEST_EFFORT if topic.best_effort else ReliabilityPolicy.RELIABLE
        )
        kind = load_type(topic.kind)
        qos = QoSProfile(depth=QUEUE, reliability=reliability)
        subscription = self.create_subscription(kind, topic.name, lambda _: None, qos, raw=True)
        self.writer.add_topic(subscription.topic_name, topic.kind)
        return subscription

    def poll(self) -> None:
        """Write what has arrived, in the order of arrival. Raises BagError."""
        batch = []
        for subscription in self._subscribed:
            name = subscription.topic_name
            with subscription.handle:
                while found := subscription.handle.take_message(subscription.msg_type, True):
                    data, info = found
                    batch.append((info["received_timestamp"], info["source_timestamp"], name, data))
        for received_ns, sent_ns, name, data in sorted(batch, key=lambda item: item[0]):
            self.writer.write(name, data, received_ns, sent_ns)
        self.writer.flush()


def main(args: Sequence[str] | None = None) -> int:
    """Record until SIGINT or SIGTERM; exit status 1 if recording is not or no longer possible."""
    stop = catch_signals()
    node = None
    try:
        rclpy.init(args=args, signal_handler_options=SignalHandlerOptions.NO)
        node = RecorderNode()
        while not stop.wait(PERIOD):
            node.poll()
        node.poll()
        node.writer.close()
    except (ValueError, BagError) as error:
        print(error, file=sys.stderr)
        return 1
    finally:
        if node is not None:
            node.destroy_node()
        rclpy.try_shutdown()
    return 0


if __name__ == "__main__":
    sys.exit(main())
