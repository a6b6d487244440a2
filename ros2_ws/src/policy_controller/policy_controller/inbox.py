"""The newest message of the robot's state, kept serialised until a control tick wants it.

The state comes at 400 Hz and is used at 50 Hz; turning every message into Python objects would cost
most of a processor. Only the stamp is read at once: std_msgs/Header is the first field, so behind
the four bytes of the CDR encapsulation stand int32 sec and uint32 nanosec.
"""

from __future__ import annotations

import struct
import threading
from typing import NamedTuple

REORDER_WINDOW_NS = 200_000_000
"""A stamp that lies back by less than this is an old message that came late; by more, a clock that
was set back."""


class Arrival(NamedTuple):
    """A serialised message. stamp_ns: of its header. received_ns: in the control clock."""

    content: bytes
    stamp_ns: int
    received_ns: int


def read_stamp(content: bytes) -> int:
    """Stamp of a serialised message whose first field is a std_msgs/Header, ns."""
    order = "<" if content[1] & 1 else ">"
    seconds, nanoseconds = struct.unpack_from(order + "iI", content, 4)
    return seconds * 1_000_000_000 + nanoseconds


class StateInbox:
    """Holds one message; filled by the executor's thread, emptied by the control thread."""

    def __init__(self) -> None:
        self._changed = threading.Condition()
        self._newest: Arrival | None = None
        self.received = 0
        self.dropped = 0

    def put(self, content: bytes, now_ns: int | None) -> None:
        """Keep a message unless it repeats or precedes the one held.

        now_ns: control clock; None = the control clock is the clock of the stamps (lockstep).
        """
        stamp_ns = read_stamp(content)
        with self._changed:
            self.received += 1
            if self._newest is not None:
                behind_ns = self._newest.stamp_ns - stamp_ns
                if 0 <= behind_ns < REORDER_WINDOW_NS:
                    self.dropped += 1
                    return
            self._newest = Arrival(content, stamp_ns, stamp_ns if now_ns is None else now_ns)
            self._changed.notify_all()

    def newest(self) -> Arrival | None:
        """The newest message, None before the first."""
        return self._newest

    def wait_for_stamp(self, last_ns: int | None, due_ns: int | None, timeout: float) -> int | None:
        """Wait for a state stamped `due_ns` or later, or before `last_ns`; its stamp.

        None for both takes any state. Returns None after `timeout` seconds.
        """

        def is_due() -> bool:
            if self._newest is None:
                return False
            return last_ns is None or not last_ns <= self._newest.stamp_ns < due_ns

        with self._changed:
            return self._newest.stamp_ns if self._changed.wait_for(is_due, timeout) else None
