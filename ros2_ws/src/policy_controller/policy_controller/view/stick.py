"""The browser as a joystick: sliders are its axes, a button that is held down is its dead-man.

What it gives is for teleop.core, with all its guards. While the dead-man is held, every sample is
one that the browser sent; a browser that freezes or whose connection stalls is therefore a joystick
that is silent, and the robot stops. Pure; time is passed in, and events may come from any thread.
"""

from __future__ import annotations

from queue import Empty, SimpleQueue
from typing import NamedTuple

from policy_controller.teleop.layout import Layout, ModeButtons, read_layout

AXES = ("x", "y", "yaw_rate")
"""What the axes drive: forward, left, turning left."""
DEAD_MAN = "dead_man"
MODES = tuple(ModeButtons.__dataclass_fields__)
"""Names of the mode buttons."""
BUTTONS = (DEAD_MAN, *MODES)
"""Names of all buttons, in the order of a sample."""
HOLD_RATE = 20.0
"""Hz, at which the browser repeats that the dead-man is held."""

LOST = 1.0
"""Seconds of silence after which the dead-man is free for another browser; the joystick's
supervision has stopped the robot long before."""


def make_layout(
    speeds: tuple[float, float, float],
    silence_timeout: float,
    no_change_warning: float,
    no_change_timeout: float,
    controller: str,
) -> Layout:
    """The layout of this joystick.

    speeds: at full deflection of AXES, m/s, m/s, rad/s. The times are those of teleop.layout, in s.
    Raises RefusedError if a value is not allowed.
    """
    x, y, yaw = speeds
    scales = {"linear": {"x": x, "y": y}, "angular": {"yaw": yaw}}
    return read_layout(
        {
            "axis_linear.x": 0,
            "axis_linear.y": 1,
            "axis_angular.yaw": 2,
            "axes": len(AXES),
            "dead_zone": 0.0,
            "enable_button": BUTTONS.index(DEAD_MAN),
            "silence_timeout": silence_timeout,
            "no_change_warning": no_change_warning,
            "no_change_timeout": no_change_timeout,
            "controller": controller,
        }
        | {f"modes.{name}": BUTTONS.index(name) for name in MODES}
        | {
            f"scale_{kind}{turbo}.{name}": value
            for kind, values in scales.items()
            for name, value in values.items()
            for turbo in ("", "_turbo")
        }
    )


class Sample(NamedTuple):
    """What a joystick would have sent at `time` [s]; axes -1 to 1, buttons 0 or 1."""

    time: float
    axes: tuple[float, ...]
    buttons: tuple[int, ...]


class _Event(NamedTuple):
    time: float
    client: int
    kind: str  # "connect", "disconnect", "hold", "release", a mode's name, or an axis
    value: float = 0.0


class BrowserStick:
    """Give it the events of all browsers as they come; `take_samples` turns them into samples.

    Whoever holds the dead-man first drives; that of others is not heard meanwhile. Mode buttons are
    heard from all, and another one's press interrupts the driving.
    """

    def __init__(self) -> None:
        self._events: SimpleQueue[_Event] = SimpleQueue()
        self._clients: set[int] = set()
        self._holder: int | None = None
        self._held = 0.0  # when the holder was heard last
        self._axes = dict.fromkeys(AXES, 0.0)

    def connect(self, now: float, client: int) -> None:
        """A browser is there."""
        self._events.put(_Event(now, client, "connect"))

    def disconnect(self, now: float, client: int) -> None:
        """A browser is gone."""
        self._events.put(_Event(now, client, "disconnect"))

    def hold(self, now: float, client: int) -> None:
        """The dead-man is down in that browser; comes at HOLD_RATE."""
        self._events.put(_Event(now, client, "hold"))

    def release(self, now: float, client: int) -> None:
        """The dead-man was let go of in that browser."""
        self._events.put(_Event(now, client, "release"))

    def press(self, now: float, client: int, mode: str) -> None:
        """A mode button, one of MODES, was pressed."""
        self._events.put(_Event(now, client, mode))

    def move(self, now: float, client: int, axis: str, deflection: float) -> None:
        """A slider, one of AXES, is there now, -1 to 1."""
        self._events.put(_Event(now, client, axis, deflection))

    def take_samples(self, now: float) -> list[Sample]:
        """What a joystick would have sent since the last call; call it at 20 Hz or more.

        Empty while no browser is connected, and while the browser that holds the dead-man is
        silent.
        """
        samples: list[Sample] = []
        while True:
            try:
                event = self._events.get_nowait()
            except Empty:
                break
            samples += self._follow(event)
        if self._holder is not None and now - self._held > LOST:
            self._holder = None
        if self._clients and self._holder is None:
            samples.append(self._sample(now))
        return samples

    def _follow(self, event: _Event) -> list[Sample]:
        if event.kind == "connect":
            self._clients.add(event.client)
        elif event.kind == "disconnect":
            self._clients.discard(event.client)
            if self._holder == event.client:
                self._holder = None
                return [self._sample(event.time)]
        elif event.kind == "hold":
            if self._holder is None:
                self._holder = event.client
            if self._holder == event.client:
                self._held = event.time
                return [self._sample(event.time)]
        elif event.kind == "release":
            if self._holder == event.client:
                self._holder = None
                return [self._sample(event.time)]
        elif event.kind in AXES:
            self._axes[event.kind] = event.value
        else:  # down and up again; only the holder's own press is a word of the holder
            held = self._holder == event.client
            return [self._sample(event.time, mode, held) for mode in (event.kind, "")]
        return []

    def _sample(self, time: float, mode: str = "", held: bool | None = None) -> Sample:
        buttons = [int(name == mode) for name in BUTTONS]
        held = self._holder is not None if held is None else held
        buttons[BUTTONS.index(DEAD_MAN)] = int(held)
        return Sample(time, tuple(self._axes.values()), tuple(buttons))
