"""Dataclass fields that carry unit, range and meaning, and one check for all of them.

The bundle, the safety limits, the motion settings and the ROS parameters are all frozen
dataclasses made of these fields, so a limit is written down once: the JSON reader, the parameter
declaration, the documentation and the error messages read it from here. A process has one or more
groups of parameters, each a dataclass with a prefix of its own.
"""

from __future__ import annotations

import math
import re
import sys
from collections.abc import Mapping, Sequence
from dataclasses import MISSING, Field, dataclass, field, fields
from difflib import get_close_matches
from typing import Any

_SHA256 = re.compile(r"[0-9a-f]{64}")
_LONGEST_VALUE = 300  # characters of one value that a message quotes
_MOST_LINES = 20  # problems that a message lists


@dataclass(frozen=True)
class Spec:
    """What one field may hold.

    kind: "number", "integer", "boolean", "text", "sha256", "vector" (numbers) or "names" (texts).
    size: length of a vector or of names. low, high: inclusive bounds of each number, in `unit`.
    choices: the only texts allowed; empty = any text that is not empty.
    """

    kind: str
    text: str
    unit: str = ""
    low: float = -math.inf
    high: float = math.inf
    size: int = 0
    choices: tuple[str, ...] = ()

    def allowed(self) -> str:
        """The allowed values in words, for error messages and documentation."""
        unit = f" {self.unit}" if self.unit else ""
        match self.kind:
            case "number" | "integer":
                return f"{self.kind} from {self.low:g} to {self.high:g}{unit}"
            case "vector":
                return f"{self.size} numbers from {self.low:g} to {self.high:g}{unit}"
            case "names":
                return f"{self.size} names"
            case "sha256":
                return "64 lower-case hexadecimal digits"
            case "boolean":
                return "true or false"
        return " or ".join(self.choices) if self.choices else "text that is not empty"

    def accepts(self, value: Any) -> bool:
        """True if `value` has the right type and range; never converts."""
        match self.kind:
            case "number":
                return _is_number(value) and self.low <= value <= self.high
            case "integer":
                return type(value) is int and self.low <= value <= self.high
            case "boolean":
                return type(value) is bool
            case "vector":
                return _has_length(value, self.size) and all(
                    _is_number(v) and self.low <= v <= self.high for v in value
                )
            case "names":
                return _has_length(value, self.size) and all(type(v) is str for v in value)
            case "sha256":
                return type(value) is str and _SHA256.fullmatch(value) is not None
        return type(value) is str and (value in self.choices if self.choices else value != "")


def _is_number(value: Any) -> bool:
    return type(value) in (int, float) and abs(value) <= sys.float_info.max


def _has_length(value: Any, size: int) -> bool:
    return isinstance(value, (list, tuple)) and len(value) == size


def spec(kind: str, text: str, default: Any = MISSING, **limits: Any) -> Any:
    """A dataclass field with a Spec; `limits` are the other fields of Spec."""
    return field(default=default, metadata={"spec": Spec(kind, text, **limits)})


def spec_of(item: Field) -> Spec | None:
    """The Spec of a dataclass field, or None if it has none."""
    return item.metadata.get("spec")


class RefusedError(ValueError):
    """Something is refused. `problems`: one line per difference (found, allowed, what to do), of
    which the message shows the first ones."""

    def __init__(self, what: str, problems: list[str]):
        shown, rest = problems[:_MOST_LINES], len(problems) - _MOST_LINES
        if rest > 0:
            shown = [*shown, f"and {rest} more"]
        super().__init__(f"{what} refused:\n" + "\n".join(f" - {problem}" for problem in shown))
        self.problems = problems


def describe_problem(name: str, found: Any, allowed: str, cure: str) -> str:
    """One line of an error: what was found, what is allowed, what to do."""
    text = repr(found)
    if len(text) > _LONGEST_VALUE:
        text = f"{text[:_LONGEST_VALUE]}..."
    return f"{name}: found {text}, allowed: {allowed}; {cure}"


def find_problems(instance: Any, cure: str, prefix: str = "") -> list[str]:
    """Compare every specified field of a dataclass instance with its Spec.

    Returns one line for each field that does not fit; an empty list if all do.
    """
    problems = []
    for item in fields(instance):
        item_spec, value = spec_of(item), getattr(instance, item.name)
        if item_spec is not None and not item_spec.accepts(value):
            problems.append(describe_problem(prefix + item.name, value, item_spec.allowed(), cure))
    return problems


def build_groups(
    values: Mapping[str, Any], groups: Sequence[tuple[str, type]], cure: str, example: str
) -> list[Any]:
    """The dataclass instances of a process's parameters.

    values: by name. groups: (prefix, dataclass); the parameter of a field is prefix + name. A field
    without value takes its default; 1 counts as 1.0. example: a file that shows what exists.
    Raises RefusedError with one line for each parameter that is unknown, missing, or of the wrong
    type or range.
    """
    known, instances, problems = set(), [], []
    for prefix, kind in groups:
        own: dict[str, Any] = {}
        for item in fields(kind):
            name = prefix + item.name
            known.add(name)
            value = values.get(name, "" if item.default is MISSING else item.default)
            number = spec_of(item).kind == "number" and type(value) is int
            own[item.name] = float(value) if number else value
        instances.append(kind(**own))
        problems += find_problems(instances[-1], cure, prefix)
    for name in sorted(values.keys() - known):
        near = get_close_matches(name, known, n=1) or [f"those of {example}"]
        problems.append(f"{name}: unknown parameter, allowed: {near[0]}; {cure}")
    if problems:
        raise RefusedError("parameters", problems)
    return instances
