"""Reads MCAP recordings of ROS 2, also those whose process was killed while writing."""

from __future__ import annotations

import struct
from collections.abc import Collection, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from mcap.exceptions import EndOfFile, McapError
from mcap.records import Channel, Footer, Message, Schema
from mcap.stream_reader import StreamReader

from policy_controller.bag.schema import load_type


@dataclass(frozen=True)
class BagMessage:
    """One message. kind: "package/msg/Type". data: CDR. log_ns, publish_ns: system time of
    reception and of sending, ns."""

    topic: str
    kind: str
    log_ns: int
    publish_ns: int
    data: bytes

    def decode(self) -> Any:
        """The message object. Raises SchemaError if its package is not there."""
        from rclpy.serialization import deserialize_message

        return deserialize_message(self.data, load_type(self.kind))


class BagReader:
    """The messages of a recording in the order of the files: of one topic that of reception, of
    several nearly so.

    unfinished: files, found by a complete pass, whose end is missing.
    """

    def __init__(self, path: Path):
        """path: an MCAP file, or a folder with those of one recording. Raises FileNotFoundError."""
        self.files = sorted(path.glob("*.mcap")) if path.is_dir() else [path]
        if not self.files or not self.files[0].is_file():
            raise FileNotFoundError(
                f"recording {path}: found no file, allowed: an .mcap file or a folder with some"
            )
        self.unfinished: list[Path] = []

    def read(self, topics: Collection[str] | None = None) -> Iterator[BagMessage]:
        """All messages, or those of some topics. Raises ValueError if a file is no ROS 2 MCAP."""
        self.unfinished = []
        for file in self.files:
            yield from self._read_file(file, topics)

    def _read_file(self, file: Path, topics: Collection[str] | None) -> Iterator[BagMessage]:
        schemas: dict[int, Schema] = {}
        channels: dict[int, Channel] = {}
        finished = False
        with file.open("rb") as stream:
            try:
                for record in StreamReader(stream, validate_crcs=True).records:
                    if isinstance(record, Schema):
                        schemas[record.id] = record
                    elif isinstance(record, Channel):
                        channels[record.id] = record
                    elif isinstance(record, Footer):
                        finished = True
                    elif isinstance(record, Message):
                        channel = channels[record.channel_id]
                        if topics is None or channel.topic in topics:
                            kind = schemas[channel.schema_id].name
                            yield BagMessage(
                                channel.topic,
                                kind,
                                record.log_time,
                                record.publish_time,
                                bytes(record.data),
                            )
            except EndOfFile:  # cut off
                finished = False
            except (McapError, struct.error, KeyError, RuntimeError, ValueError) as error:
                raise ValueError(
                    f"{file}: no MCAP file, or damaged ({error}); use another copy"
                ) from error
        if not finished:
            self.unfinished.append(file)
