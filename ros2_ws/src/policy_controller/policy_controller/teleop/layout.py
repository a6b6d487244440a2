"""What the axes and buttons of a joystick mean, and how the joystick is supervised.

Parameters that teleop_twist_joy has as well bear its names. The files of config/teleop give them
for common pads, in the order of `joy`'s game_controller_node and of joystick.py. There is no
layout without a file: a wrong guess would drive a robot.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from policy_controller.fields import RefusedError, build_groups, spec


def _axis(text: str) -> Any:
    return spec("integer", f"axis of {text}; -1 = none", low=-1, high=31)


def _button(text: str, default: int = -1) -> Any:
    return spec("integer", f"button {text}; -1 = none", default, low=-1, high=63)


def _speed(text: str, unit: str) -> Any:
    return spec("number", f"{text} at full deflection", unit=unit, low=-3.0, high=3.0)


@dataclass(frozen=True)
class TeleopSettings:
    """Dead-man, turbo, output and supervision."""

    enable_button: int = _button("that must be held to drive (dead-man)")
    enable_turbo_button: int = _button("that selects the turbo scales while the dead-man is held")
    require_enable_button: bool = spec(
        "boolean", "drive only while enable_button is held; if false a push of a stick drives", True
    )
    inverted_reverse: bool = spec("boolean", "negate the yaw rate while driving backwards", False)
    publish_stamped_twist: bool = spec("boolean", "send TwistStamped; if false Twist", True)
    frame: str = spec("text", "frame_id of the TwistStamped", "base")
    controller: str = spec("text", "name of the controller's node", "policy_controller")
    axes: int = spec(
        "integer",
        "number of axes of the joystick; with another number the order is another one as well",
        6,
        low=1,
        high=32,
    )
    dead_zone: float = spec(
        "number",
        "deflection that counts as centred; what is beyond is scaled to begin at 0",
        0.1,
        unit="1",
        low=0.0,
        high=0.5,
    )
    silence_timeout: float = spec(
        "number",
        "time without a message of the joystick after which it counts as lost",
        0.2,
        unit="s",
        low=0.05,
        high=1.0,
    )
    no_change_warning: float = spec(
        "number",
        "time of identical messages while driving after which a warning is given",
        2.0,
        unit="s",
        low=0.5,
        high=60.0,
    )
    no_change_timeout: float = spec(
        "number",
        "time of identical messages while driving after which the joystick counts as lost",
        5.0,
        unit="s",
        low=1.0,
        high=60.0,
    )


@dataclass(frozen=True)
class LinearAxes:
    """Axes that drive forward and to the left."""

    x: int = _axis("forward")
    y: int = _axis("left")


@dataclass(frozen=True)
class AngularAxes:
    """Axis that turns to the left."""

    yaw: int = _axis("turning left")


@dataclass(frozen=True)
class LinearScale:
    """Velocity at full deflection."""

    x: float = _speed("forward velocity", "m/s")
    y: float = _speed("velocity to the left", "m/s")


@dataclass(frozen=True)
class AngularScale:
    """Yaw rate at full deflection."""

    yaw: float = _speed("yaw rate", "rad/s")


@dataclass(frozen=True)
class ModeButtons:
    """Buttons that ask the controller for something, once each time they are pressed."""

    stand_up: int = _button("for STAND, from PASSIVE or from WALK")
    walk: int = _button("for WALK")
    lie_down: int = _button("for LIE_DOWN")
    clear_fault: int = _button("for ~/clear_fault")
    emergency_stop: int = _button("for ~/emergency_stop: the drives are damped, the robot drops")


@dataclass(frozen=True)
class Layout:
    """All of it, checked. Made by read_layout."""

    settings: TeleopSettings
    axis_linear: LinearAxes
    axis_angular: AngularAxes
    scale_linear: LinearScale
    scale_angular: AngularScale
    scale_linear_turbo: LinearScale
    scale_angular_turbo: AngularScale
    modes: ModeButtons

    @property
    def mode_buttons(self) -> dict[str, int]:
        """Index of each mode button that exists, by name."""
        return {name: index for name, index in vars(self.modes).items() if index >= 0}

    @property
    def mapped_axes(self) -> tuple[int, ...]:
        """Indices of the axes that drive."""
        axes = (self.axis_linear.x, self.axis_linear.y, self.axis_angular.yaw)
        return tuple(axis for axis in axes if axis >= 0)

    @property
    def buttons(self) -> dict[str, int]:
        """Index of each button that exists, by parameter."""
        settings = self.settings
        named = {
            "enable_button": settings.enable_button,
            "enable_turbo_button": settings.enable_turbo_button,
        } | {f"modes.{name}": index for name, index in self.mode_buttons.items()}
        return {name: index for name, index in named.items() if index >= 0}


GROUPS: tuple[tuple[str, type], ...] = (
    ("", TeleopSettings),
    ("axis_linear.", LinearAxes),
    ("axis_angular.", AngularAxes),
    ("scale_linear.", LinearScale),
    ("scale_angular.", AngularScale),
    ("scale_linear_turbo.", LinearScale),
    ("scale_angular_turbo.", AngularScale),
    ("modes.", ModeButtons),
)
"""Prefix and dataclass of the parameters, in the order of Layout's fields."""

_EXAMPLE = "config/teleop/game_controller.yaml"
_CURE = f"correct the layout; {_EXAMPLE} is one"


def read_layout(values: Mapping[str, Any]) -> Layout:
    """The layout of these parameters, by name.

    Raises RefusedError with one line for each parameter that is unknown, missing, of the wrong type
    or range, or at odds with another.
    """
    layout = Layout(*build_groups(values, GROUPS, _CURE, _EXAMPLE))
    problems = list(_find_conflicts(layout))
    if problems:
        raise RefusedError("layout", problems)
    return layout


def _find_conflicts(layout: Layout) -> Iterator[str]:
    settings, buttons = layout.settings, layout.buttons
    if settings.require_enable_button and settings.enable_button < 0:
        yield f"enable_button: found -1, allowed: the dead-man's button; {_CURE}"
    for index in sorted(set(buttons.values())):
        names = [name for name, value in buttons.items() if value == index]
        if len(names) > 1:
            yield f"{', '.join(names)}: found button {index} for all, allowed: one each; {_CURE}"
    axes = layout.mapped_axes
    if len(set(axes)) < len(axes) or not axes:
        yield f"axes that drive: found {axes}, allowed: one or more, different ones; {_CURE}"
    if max(axes, default=0) >= settings.axes:
        yield f"axes that drive: found {axes}, allowed: below axes = {settings.axes}; {_CURE}"
    if settings.no_change_timeout <= settings.no_change_warning:
        yield (
            f"no_change_timeout: found {settings.no_change_timeout:g} s, allowed: above "
            f"no_change_warning = {settings.no_change_warning:g} s; {_CURE}"
        )
