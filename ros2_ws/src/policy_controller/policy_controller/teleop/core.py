"""From joystick samples to velocities and requests. Pure; time is passed in.

    LOCKED --dead-man released, sticks centred--> READY --dead-man pressed--> DRIVING
      ^  ^                                          |  ^                      |   |
      |  +---------- joystick silent ---------------+  +-- dead-man released -+   |
      +-- joystick silent, or unchanged for too long, or emergency stop ----------+

Whatever ends DRIVING sends a zero velocity at once, some more after it, and then nothing, so that
another source of velocities may take over.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from enum import Enum
from typing import NamedTuple

from policy_controller.teleop.layout import AngularScale, Layout, LinearScale

EMERGENCY_STOP = "emergency_stop"
"""The name of this button; the other names are the fields of ModeButtons, too."""
ZEROS = 5
"""Zero velocities sent when DRIVING ends: one could be lost."""
LEAD_IN = 0.1
"""Seconds of zero velocity at the begin of DRIVING: the controller wants to see a zero before it
follows a source that was silent, and must not miss it between two of its ticks."""


class Phase(Enum):
    """Whether a stick can move the robot."""

    LOCKED = "locked"
    READY = "ready"
    DRIVING = "driving"


class Velocity(NamedTuple):
    """In the base frame; x forward and y left in m/s, yaw_rate to the left in rad/s."""

    x: float = 0.0
    y: float = 0.0
    yaw_rate: float = 0.0


class Output(NamedTuple):
    """What to send now: a velocity or none, and the mode buttons that were pressed."""

    velocity: Velocity | None = None
    requests: tuple[str, ...] = ()


class Teleop:
    """Give it every message of the joystick with `take`, and call `tick` at 20 Hz or more."""

    def __init__(self, layout: Layout):
        """It begins LOCKED."""
        self._layout, self._settings = layout, layout.settings
        self.phase = Phase.LOCKED
        self.reason = "no joystick yet"
        self.refused, self.refusal = 0, ""
        self._axes: tuple[float, ...] = ()
        self._buttons: tuple[int, ...] = ()
        self._arrived = self._changed = -math.inf
        self._driving_since = math.inf
        self._moving = False
        self._zeros = 0
        self._seen_released: set[str] = set()

    def take(self, now: float, axes: Sequence[float], buttons: Sequence[int]) -> Output:
        """One message of the joystick.

        now: time of its arrival, s, of a steady clock. axes: -1 to 1, forward and left positive;
        more is cut off. buttons: 0 or 1. A message that cannot be used counts as none; `refusal`
        says why.
        """
        self._watch(now)
        problem = self._find_problem(axes, buttons)
        if problem:
            self.refused, self.refusal = self.refused + 1, problem
            return Output(self._next_zero())
        sample = tuple(axes), tuple(buttons)
        if sample != (self._axes, self._buttons):
            self._changed = now
        self._axes, self._buttons = sample
        self._arrived = now
        requests = self._find_pressed()
        self._advance(now)
        if EMERGENCY_STOP in requests:
            self._lock("emergency stop pressed")
        elif self._moving and self.find_unchanged(now) > self._settings.no_change_timeout:
            self._lock(
                f"the joystick's messages are identical for {self.find_unchanged(now):.1f} s, "
                "it may be unplugged or out of range"
            )
        if self.phase != Phase.DRIVING:
            return Output(self._next_zero(), requests)
        velocity = self._scale() if now - self._driving_since >= LEAD_IN else Velocity()
        self._moving = any(velocity)
        return Output(velocity, requests)

    def tick(self, now: float) -> Velocity | None:
        """Notice the joystick's silence; the velocity to send now, if any."""
        self._watch(now)
        return self._next_zero()

    def stop(self, reason: str) -> list[Velocity]:
        """Lock, since nothing is called any more; the velocities to send for that."""
        self._lock(reason)
        zeros, self._zeros = self._zeros, 0
        return [Velocity()] * zeros

    def find_age(self, now: float) -> float:
        """Time since the last usable message, s; infinite before the first."""
        return now - self._arrived

    def find_unchanged(self, now: float) -> float:
        """Time since the joystick's messages changed, s, while the velocity is not zero; else 0."""
        return now - self._changed if self._moving else 0.0

    def describe(self, now: float) -> tuple[bool, str]:
        """Whether all is well, and what goes on in words."""
        if not math.isfinite(self._arrived):
            return False, self.refusal or "no joystick yet"
        if self.find_unchanged(now) > self._settings.no_change_warning:
            left = self._settings.no_change_timeout - self.find_unchanged(now)
            return False, f"the joystick does not change; it counts as lost in {left:.1f} s"
        if self.phase == Phase.LOCKED:
            return False, f"{self.reason}; release the dead-man and centre the sticks"
        return True, self.phase.value

    def _find_problem(self, axes: Sequence[float], buttons: Sequence[int]) -> str:
        if len(axes) != self._settings.axes:
            return (
                f"joystick: found {len(axes)} axes, allowed: {self._settings.axes}; the layout is "
                "for another joystick or driver"
            )
        highest = max(self._layout.buttons.values(), default=-1)
        if len(buttons) <= highest:
            return (
                f"joystick: found {len(buttons)} buttons, allowed: more than {highest}; the layout "
                "is for another joystick or driver"
            )
        for index, value in enumerate(axes):
            if not math.isfinite(value):
                return f"joystick: found {value} on axis {index}, allowed: finite; check the driver"
        return ""

    def _watch(self, now: float) -> None:
        age = self.find_age(now)
        if age <= self._settings.silence_timeout or not math.isfinite(age):
            return
        self._seen_released &= {EMERGENCY_STOP}
        if self.phase != Phase.LOCKED:
            self._lock(f"the joystick was silent for {age:.2f} s")

    def _find_pressed(self) -> tuple[str, ...]:
        """Mode buttons that are down and were up before.

        A press counts if the button was seen up since the joystick began to speak; that of the
        emergency stop also if it fell into a time of silence.
        """
        pressed = []
        for name, index in self._layout.mode_buttons.items():
            if not self._buttons[index]:
                self._seen_released.add(name)
            elif name in self._seen_released:
                self._seen_released.remove(name)
                pressed.append(name)
        return tuple(pressed)

    def _advance(self, now: float) -> None:
        settings = self._settings
        held = not settings.require_enable_button or bool(self._buttons[settings.enable_button])
        released = not settings.require_enable_button or not held
        if self.phase == Phase.LOCKED and released and self._is_centred():
            self.phase = Phase.READY
        if self.phase == Phase.READY and held:
            self.phase, self._driving_since, self._zeros = Phase.DRIVING, now, 0
        elif self.phase == Phase.DRIVING and not held:
            self._end_driving(Phase.READY)

    def _is_centred(self) -> bool:
        zone = self._settings.dead_zone
        return all(abs(self._axes[axis]) <= zone for axis in self._layout.mapped_axes)

    def _lock(self, reason: str) -> None:
        self.reason = reason
        self._end_driving(Phase.LOCKED)

    def _end_driving(self, phase: Phase) -> None:
        if self.phase == Phase.DRIVING:
            self._zeros = ZEROS
        self.phase, self._moving = phase, False

    def _next_zero(self) -> Velocity | None:
        if not self._zeros:
            return None
        self._zeros -= 1
        return Velocity()

    def _scale(self) -> Velocity:
        layout = self._layout
        turbo = self._settings.enable_turbo_button
        linear: LinearScale = layout.scale_linear
        angular: AngularScale = layout.scale_angular
        if turbo >= 0 and self._buttons[turbo]:
            linear, angular = layout.scale_linear_turbo, layout.scale_angular_turbo
        x = linear.x * self._deflection(layout.axis_linear.x)
        y = linear.y * self._deflection(layout.axis_linear.y)
        yaw_rate = angular.yaw * self._deflection(layout.axis_angular.yaw)
        if self._settings.inverted_reverse and x < 0.0:
            yaw_rate = -yaw_rate
        return Velocity(x, y, yaw_rate)

    def _deflection(self, axis: int) -> float:
        """-1 to 1; 0 in the dead zone and without an axis, continuous at its edge."""
        if axis < 0:
            return 0.0
        value, zone = self._axes[axis], self._settings.dead_zone
        size = (min(abs(value), 1.0) - zone) / (1.0 - zone)
        return math.copysign(size, value) if size > 0.0 else 0.0
