"""Scenario: which motions are requested and commanded, for how long, and which limits decide.

A scenario is data (YAML). Reading it is strict: an unknown, missing, doubled or wrongly typed key
is an error that names the place, what was found and what is allowed.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import MISSING, dataclass, fields
from enum import Enum
from pathlib import Path
from typing import Any

import numpy as np
import yaml

SCHEMA_VERSION = 1
MOTION_STATES = ("passive", "stand_up", "stand", "walk", "lie_down", "fault")
"""Names of the constants of footlight_msgs/ControllerStatus; the position in the tuple is the
constant."""


class ScenarioError(ValueError):
    """A scenario file that cannot be used as it stands."""


class Measure(Enum):
    """What a segment is judged by."""

    NOTHING = "nothing"  # transition: recorded and watched for falls and guard trips only
    TRACKING = "tracking"  # velocity tracking and gait
    STANDSTILL = "standstill"  # drift and joint speed at zero command


@dataclass(frozen=True)
class Segment:
    """One piece of the scenario, with a constant velocity command.

    A segment first requests `request` (if given), waits until the controller reports `reach`, at
    most `timeout`, and then lasts `duration`. The first `settle` of `duration` is left out of every
    measure.
    """

    name: str
    request: str | None  # motion state asked for, one of MOTION_STATES without "fault"; None: stay
    reach: str | None  # motion state that starts the clock of the segment; None: the present one
    timeout: float  # s
    command: tuple[float, float, float]  # velocity x, y [m/s] and yaw rate [rad/s], base frame
    duration: float  # s
    settle: float  # s
    measure: Measure
    robot: Mapping[str, Any]  # parameters that the simulated robot is given as the segment begins
    silent: bool  # no velocity commands are sent


@dataclass(frozen=True)
class FallLimits:
    """Beyond either value the robot counts as fallen, in the motion states STAND and WALK."""

    tilt: float  # rad, between the base z axis and vertical
    height: float  # m, of the base over the ground, lower limit


@dataclass(frozen=True)
class Limits:
    """Limits that decide the verdict. Falls and guard trips are always limited to zero."""

    velocity_rmse: float  # m/s, of the planar velocity vector, upper
    yaw_rate_rmse: float  # rad/s, upper
    drift: float  # m, base excursion at zero command, upper
    joint_speed_rms: float  # rad/s, at zero command, upper
    swing_apex: float  # m, of the lowest point of the foot, lower
    duty_factor: float  # share of time in contact, upper
    penetration: float  # m, of the lowest point of the foot under ground, upper
    stance_slip: float = math.inf  # m/s, mean speed of the contact point while in contact, upper
    torque_ratio: float = math.inf  # peak torque over the torque limit, upper
    speed_ratio: float = math.inf  # peak joint speed over the velocity limit, upper
    target_rate: float = math.inf  # rad/s, RMS of the change of the joint targets, upper
    recovery: float = math.inf  # s, after a push, until the velocity keeps within recovery_error

    recovery_error: float = 0.3  # m/s


@dataclass(frozen=True)
class Targets:
    """Targets that are reported beside the measured value and do not decide: they depend on the
    computer, not on the policy."""

    period_tolerance: float  # s, deviation of a control period from nominal
    period_share: float  # share of periods within the tolerance, lower
    tick_duration: float  # s, 99th percentile, upper
    stance_slip: float  # m/s, mean speed of the contact point while in contact, upper
    foot_agreement: float  # m, distance between reported feet and those of the robot file, upper
    cut_share: float  # share of control periods with a tolerated reason code, upper


@dataclass(frozen=True)
class Scenario:
    """A whole run: segments in order, and what the run is judged by."""

    name: str
    description: str
    command_rate: float  # Hz, of velocity commands
    tolerated: tuple[str, ...]  # reason codes of guards that cut a value and are no trip
    fall: FallLimits
    limits: Limits
    targets: Targets
    segments: tuple[Segment, ...]
    expect: str  # reason code that must trip and end the run; empty: none may

    @property
    def duration(self) -> float:
        """Sum of the segment durations [s], without the waiting for motion states."""
        return sum(segment.duration for segment in self.segments)


def load_scenario(path: str | Path) -> Scenario:
    """Read a scenario file.

    Raises ScenarioError with the place in the file, what was found, what is allowed.
    """
    path = Path(path)
    try:
        text = path.read_text(encoding="utf-8")
    except OSError as error:
        raise ScenarioError(
            f"cannot read the scenario {path}: {error.strerror}; pass an existing file"
        ) from error
    try:
        data = yaml.load(text, Loader=_StrictLoader)  # noqa: S506  (derived from SafeLoader)
    except yaml.YAMLError as error:
        raise ScenarioError(f"{path} is not valid YAML: {error}") from error
    try:
        return parse_scenario(data)
    except ScenarioError as error:
        raise ScenarioError(f"{path}: {error}") from error


def parse_scenario(data: Any) -> Scenario:
    """Build a Scenario from the plain data of a file. Raises ScenarioError."""
    top = _Table(data, "scenario")
    version = top.take("schema_version", _integer)
    if version != SCHEMA_VERSION:
        raise ScenarioError(
            f"schema_version: found {version}, this software reads {SCHEMA_VERSION}; "
            "convert the file"
        )
    scenario = Scenario(
        name=top.take("name", _text),
        description=top.take("description", _text),
        command_rate=top.take("command_rate", _positive),
        tolerated=top.take("tolerated", _codes),
        fall=_numbers(top.take("fall", _any), "fall", FallLimits),
        limits=_numbers(top.take("limits", _any), "limits", Limits),
        targets=_numbers(top.take("targets", _any), "targets", Targets),
        segments=_segments(top.take("segments", _any)),
        expect=top.take("expect", _text, ""),
    )
    top.finish()
    return scenario


def check_command_range(scenario: Scenario, lower: np.ndarray, upper: np.ndarray) -> None:
    """Refuse a scenario that asks for more than the policy was trained for.

    `lower` and `upper` are the command range of the bundle, shape [3], m/s, m/s, rad/s. The
    controller would clamp the command, and the tracking error would be charged to the policy.
    Raises ScenarioError.
    """
    for segment in scenario.segments:
        for axis, value, low, high in zip(
            ("x", "y", "yaw"), segment.command, lower, upper, strict=True
        ):
            if not low <= value <= high:
                raise ScenarioError(
                    f"segment '{segment.name}' commands {value:g} along {axis}, the bundle allows "
                    f"{low:g} to {high:g}; change the scenario or train for a wider range"
                )


def _segments(data: Any) -> tuple[Segment, ...]:
    if not isinstance(data, list) or not data:
        raise ScenarioError(f"segments: found {data!r}, need a non-empty list")
    segments = tuple(_segment(item, f"segments[{index}]") for index, item in enumerate(data))
    names = [segment.name for segment in segments]
    for name in names:
        if names.count(name) > 1:
            raise ScenarioError(
                f"segments: the name '{name}' occurs {names.count(name)} times; names must differ"
            )
    return segments


def _segment(data: Any, place: str) -> Segment:
    table = _Table(data, place)
    request = table.take(
        "request", _state("passive", "stand_up", "stand", "walk", "lie_down"), None
    )
    segment = Segment(
        name=table.take("name", _text),
        request=request,
        reach=table.take("reach", _state(*MOTION_STATES[:-1]), request),
        timeout=table.take("timeout", _positive, 5.0),
        command=table.take("command", _command, (0.0, 0.0, 0.0)),
        duration=table.take("duration", _positive),
        settle=table.take("settle", _non_negative, 0.0),
        measure=table.take("measure", _measure, Measure.NOTHING),
        robot=table.take("robot", _settings, {}),
        silent=table.take("silent", _flag, False),
    )
    table.finish()
    if segment.settle >= segment.duration:
        raise ScenarioError(
            f"{place}.settle: found {segment.settle:g} s of a segment of "
            f"{segment.duration:g} s; nothing would be left to measure"
        )
    if segment.measure is Measure.STANDSTILL and any(segment.command):
        raise ScenarioError(
            f"{place}.measure: 'standstill' needs a zero command, found {list(segment.command)}"
        )
    if segment.measure is Measure.TRACKING and not any(segment.command):
        raise ScenarioError(
            f"{place}.measure: 'tracking' needs a command that is not zero; "
            "use 'standstill' for zero"
        )
    return segment


class _Table:
    """A mapping whose keys are taken one by one; what is left over at the end is an error."""

    _REQUIRED = object()

    def __init__(self, data: Any, place: str) -> None:
        if not isinstance(data, Mapping):
            raise ScenarioError(f"{place}: found {data!r}, need a table of keys")
        self._data = dict(data)
        self._place = place
        self._known: list[str] = []

    def take(self, key: str, convert: Callable[[Any], Any], default: Any = _REQUIRED) -> Any:
        self._known.append(key)
        if key not in self._data:
            if default is self._REQUIRED:
                raise ScenarioError(f"{self._place}: the key '{key}' is missing; add it")
            return default
        value = self._data.pop(key)
        try:
            return convert(value)
        except ScenarioError as error:
            raise ScenarioError(f"{self._place}.{key}: found {value!r}, need {error}") from None

    def finish(self) -> None:
        if self._data:
            raise ScenarioError(
                f"{self._place}: unknown key(s) {', '.join(map(repr, self._data))}; "
                f"allowed are {', '.join(self._known)}"
            )


def _numbers(data: Any, place: str, kind: type) -> Any:
    """Fill a dataclass whose fields are all positive numbers."""
    table = _Table(data, place)
    values = {
        field.name: table.take(
            field.name, _positive, *([] if field.default is MISSING else [field.default])
        )
        for field in fields(kind)
    }
    table.finish()
    return kind(**values)


def _settings(value: Any) -> dict[str, Any]:
    if not isinstance(value, dict) or not all(isinstance(key, str) for key in value):
        raise ScenarioError("a table of parameters of the simulated robot")
    return dict(value)


def _flag(value: Any) -> bool:
    if not isinstance(value, bool):
        raise ScenarioError("true or false")
    return value


def _any(value: Any) -> Any:
    return value


def _text(value: Any) -> str:
    if not isinstance(value, str) or not value.strip():
        raise ScenarioError("a non-empty text")
    return " ".join(value.split())


def _integer(value: Any) -> int:
    if isinstance(value, bool) or not isinstance(value, int):
        raise ScenarioError("a whole number")
    return value


def _number(value: Any) -> float:
    if isinstance(value, bool) or not isinstance(value, int | float) or not math.isfinite(value):
        raise ScenarioError("a finite number")
    return float(value)


def _positive(value: Any) -> float:
    number = _number(value)
    if number <= 0.0:
        raise ScenarioError("a number above zero")
    return number


def _non_negative(value: Any) -> float:
    number = _number(value)
    if number < 0.0:
        raise ScenarioError("a number not below zero")
    return number


def _command(value: Any) -> tuple[float, float, float]:
    if not isinstance(value, list) or len(value) != 3:
        raise ScenarioError("three numbers [x m/s, y m/s, yaw rad/s]")
    return (_number(value[0]), _number(value[1]), _number(value[2]))


def _codes(value: Any) -> tuple[str, ...]:
    if not isinstance(value, list) or not all(isinstance(code, str) and code for code in value):
        raise ScenarioError("a list of reason codes, or []")
    return tuple(value)


def _state(*allowed: str) -> Callable[[Any], str]:
    def convert(value: Any) -> str:
        if value not in allowed:
            raise ScenarioError("one of " + ", ".join(allowed))
        return value

    return convert


def _measure(value: Any) -> Measure:
    try:
        return Measure(value)
    except ValueError:
        raise ScenarioError("one of " + ", ".join(kind.value for kind in Measure)) from None


class _StrictLoader(yaml.SafeLoader):
    """SafeLoader that refuses a key written twice, where YAML would silently keep the last."""

    def construct_mapping(self, node: yaml.MappingNode, deep: bool = False) -> dict:
        seen = set()
        for key_node, _ in node.value:
            key = self.construct_object(key_node, deep=True)
            if key in seen:
                raise yaml.constructor.ConstructorError(
                    None, None, f"the key {key!r} is written twice", key_node.start_mark
                )
            seen.add(key)
        return super().construct_mapping(node, deep)
