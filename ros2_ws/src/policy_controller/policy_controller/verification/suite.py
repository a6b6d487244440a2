"""Suite: many scenarios from one file, drawn from ranges with a seed, all under the same limits.

A family has a number of cases and what varies between them: parameters of the simulated robot and
the commands, both uniform in their range. The same file gives the same cases, always.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import yaml

from policy_controller.verification.scenario import Scenario, ScenarioError, parse_scenario

ENGINES = ("warp", "mujoco")
_FAMILY_KEYS = {"name", "cases", "vary", "commands", "push", "fault", "expect", "limits"}
_TOP_KEYS = {"schema_version", "seed", "shared", "timing", "families"}


@dataclass(frozen=True)
class Case:
    """One scenario with one simulated robot. `parameters` are those that differ from nominal."""

    name: str
    family: str
    engine: str
    scenario: Scenario
    parameters: Mapping[str, Any]


@dataclass(frozen=True)
class Suite:
    """All cases, in order, and the nominal values of every parameter that some case changes."""

    cases: tuple[Case, ...]
    nominal: Mapping[str, Any]


def load_suite(path: str | Path, lower: Sequence[float], upper: Sequence[float]) -> Suite:
    """Draw the cases of a suite file; commands within the bundle's range `lower`, `upper` [3].

    Raises ScenarioError with the place in the file, what was found, what is allowed.
    """
    data = yaml.safe_load(Path(path).read_text())
    _check_keys(data, _TOP_KEYS, f"{path}")
    cases: list[Case] = []
    for index, family in enumerate(data["families"]):
        _check_keys(family, _FAMILY_KEYS, f"{path}, families[{index}]")
        for number in range(max(family["cases"].values())):
            # one generator a case: a family may be changed without changing the others
            random = np.random.default_rng((data["seed"], index, number))
            name = f"{family['name']} {number + 1}"
            parameters = {
                key: _draw(random, bounds) for key, bounds in family.get("vary", {}).items()
            }
            parameters["seed"] = int(random.integers(2**31))
            scenario = _scenario(data, family, name, random, np.asarray((lower, upper)))
            for engine, count in family["cases"].items():
                if engine not in ENGINES:
                    allowed = " or ".join(ENGINES)
                    raise ScenarioError(f"{name}: engine {engine!r}, allowed: {allowed}")
                if number < count:
                    cases.append(Case(name, family["name"], engine, scenario, parameters))
    return Suite(tuple(cases), _nominal(cases))


def choose(cases: Sequence[Case], words: Sequence[str]) -> list[Case]:
    """The cases with one of these words in their name; without words all.

    Raises ScenarioError for a word that no case has.
    """
    for word in words:
        if not any(word in case.name for case in cases):
            families = ", ".join(dict.fromkeys(case.family for case in cases))
            raise ScenarioError(f"no case has {word!r} in its name; families are: {families}")
    return [case for case in cases if not words or any(word in case.name for word in words)]


def _scenario(
    data: Mapping[str, Any],
    family: Mapping[str, Any],
    name: str,
    random: np.random.Generator,
    bounds: np.ndarray,
) -> Scenario:
    """Stand up, let the policy take over, walk with commands that change, stop."""
    timing = data["timing"]
    segments = [
        {"name": "stand up", "request": "stand_up", "reach": "stand", "timeout": 10.0}
        | {"duration": timing["stand"]},
        {"name": "take over", "request": "walk", "duration": timing["take_over"]},
    ]
    commands = family.get("commands", {"count": timing["commands"]})
    walk = timing["walk"]
    for number in range(commands["count"]):
        command = _draw_command(random, bounds, commands.get("share", 1.0))
        segments.append(
            {"name": f"command {number + 1}", "command": command, "measure": "tracking"}
            | {"duration": walk["duration"], "settle": walk["settle"]}
        )
    if "push" in family:
        speed, angle = _draw(random, family["push"]), random.uniform(0.0, 2.0 * math.pi)
        push = [speed * math.cos(angle), speed * math.sin(angle), 0.0]
        last = segments[-1]["command"]
        segments.append(
            {"name": "push", "command": last, "duration": timing["recovery"]}
            | {"robot": {"push_velocity": push}}
        )
    if "fault" in family:
        segments.append({"name": "fault", "command": command} | family["fault"])
    else:
        segments.append({"name": "stop", "measure": "standstill"} | timing["stop"])
    shared = dict(data["shared"])
    shared["limits"] = shared["limits"] | family.get("limits", {})
    content = {"schema_version": 1, "name": name, "description": family["name"], **shared}
    content |= {"segments": segments}
    if "expect" in family:
        content["expect"] = family["expect"]
    return parse_scenario(content)


def _draw_command(random: np.random.Generator, bounds: np.ndarray, share: float) -> list[float]:
    """A command in the box that moves the robot; rounded, to be read in a report."""
    while True:
        command = np.round(share * random.uniform(*bounds), 2)
        if np.linalg.norm(command) >= 0.3:
            return command.tolist()


def _draw(random: np.random.Generator, bounds: Any) -> float:
    return round(float(random.uniform(*bounds)), 4)


def _nominal(cases: Sequence[Case]) -> dict[str, Any]:
    """What every case starts from: each parameter that any of them changes, as if none did."""
    changed: dict[str, Any] = {}
    for case in cases:
        changed |= case.parameters
        for segment in case.scenario.segments:
            changed |= segment.robot
    changed.pop("push_velocity", None)  # pushes whenever it is set
    ones = {f"world.{name}": 1.0 for name in ("kp_scale", "kd_scale", "motor_strength")}
    known = ones | {"world.friction": 0.8}
    # all others are off: zero, false or empty
    return {key: known.get(key, type(value)()) for key, value in sorted(changed.items())}


def _check_keys(data: Any, allowed: set[str], place: str) -> None:
    if not isinstance(data, dict) or data.keys() - allowed:
        found = sorted(data.keys() - allowed) if isinstance(data, dict) else data
        raise ScenarioError(f"{place}: unknown {found}, allowed: {', '.join(sorted(allowed))}")
