"""Writes serialised messages into MCAP files of bounded size and number.

A file is made of small compressed chunks, each on its way to the disk as soon as it is full. A
process that is killed therefore leaves a file without index that lacks at most the last CHUNK
bytes; `reader.py` reads such a file, and `python -m policy_controller.bag recover` completes it.
"""

from __future__ import annotations

import contextlib
import shutil
from pathlib import Path

from mcap.writer import CompressionType, Writer

from policy_controller.bag.schema import describe_type

CHUNK = 64 * 1024
"""Bytes, before compression, that a killed process may lose."""
MEGABYTE = 1_000_000


class BagError(OSError):
    """Recording has to end; says why and what to do."""


class BagWriter:
    """One recording: files `<name>_0000.mcap`, `<name>_0001.mcap`, ... in a folder.

    A file ends when it reaches `split_size` bytes. At most `max_files` are kept, the oldest are
    deleted; writing ends with BagError when the disk has less than `min_free` bytes left.
    """

    def __init__(self, folder: Path, name: str, split_size: int, max_files: int, min_free: int):
        """Raises BagError if the folder cannot be written."""
        self._folder, self._name = folder, name
        self._split_size, self._max_files, self._min_free = split_size, max_files, min_free
        self._topics: dict[str, tuple[str, str]] = {}
        self._files: list[Path] = []
        self._count = 0
        self._writer: Writer | None = None
        try:
            folder.mkdir(parents=True, exist_ok=True)
            self._open()
        except OSError as error:
            raise self._give_up(error) from error

    @property
    def files(self) -> list[Path]:
        """The files kept so far, the oldest first."""
        return list(self._files)

    def add_topic(self, topic: str, kind: str) -> None:
        """Make a topic known; kind: "package/msg/Type". Raises SchemaError."""
        self._topics[topic] = kind, describe_type(kind)
        self._register(topic)

    def write(self, topic: str, data: bytes, log_ns: int, publish_ns: int) -> None:
        """Append a message (CDR) of a topic made known before.

        log_ns, publish_ns: system time of reception and of sending. Raises BagError; then nothing
        more can be written.
        """
        if self._writer is None:
            raise BagError(f"recording {self._name} has ended; begin a new one")
        try:
            self._writer.add_message(
                self._channels[topic], log_time=log_ns, publish_time=publish_ns, data=data
            )
        except OSError as error:
            raise self._give_up(error) from error

    def flush(self) -> None:
        """Hand complete chunks to the system, begin a new file if it is time. Raises BagError."""
        if self._writer is None:
            return
        try:
            self._stream.flush()
            free = shutil.disk_usage(self._folder).free
            if free < self._min_free:
                self._end_file()
                raise BagError(
                    f"recording ended: found {free / MEGABYTE:.0f} MB free on the disk of "
                    f"{self._folder}, allowed: at least {self._min_free / MEGABYTE:.0f} MB; delete "
                    "old recordings or record to another disk"
                )
            if self._stream.tell() >= self._split_size:
                self._end_file()
                self._open()
        except BagError:
            raise
        except OSError as error:
            raise self._give_up(error) from error

    def close(self) -> None:
        """Write the index and end. Raises BagError if that is not possible."""
        if self._writer is not None:
            try:
                self._end_file()
            except OSError as error:
                raise self._give_up(error) from error

    def _open(self) -> None:
        path = self._folder / f"{self._name}_{self._count:04d}.mcap"
        self._stream = path.open("xb")
        self._files.append(path)
        self._count += 1
        self._writer = Writer(self._stream, chunk_size=CHUNK, compression=CompressionType.LZ4)
        self._writer.start(profile="ros2", library="footlight")
        self._schemas: dict[str, int] = {}
        self._channels: dict[str, int] = {}
        for topic in self._topics:
            self._register(topic)
        self._stream.flush()
        while len(self._files) > self._max_files:
            self._files.pop(0).unlink(missing_ok=True)

    def _register(self, topic: str) -> None:
        kind, text = self._topics[topic]
        if kind not in self._schemas:
            self._schemas[kind] = self._writer.register_schema(kind, "ros2msg", text.encode())
        self._channels[topic] = self._writer.register_channel(
            topic, "cdr", self._schemas[kind], {"offered_qos_profiles": ""}
        )

    def _end_file(self) -> None:
        writer, self._writer = self._writer, None
        writer.finish()
        self._stream.close()

    def _give_up(self, error: OSError) -> BagError:
        if self._files:
            with contextlib.suppress(OSError):  # closing tries to write once more
                self._stream.close()
        self._writer = None
        return BagError(
            f"recording ended: {self._folder}: {error.strerror or error}; free the disk, or record "
            "to another folder. What was written before can be read"
        )
