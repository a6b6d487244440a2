"""Search how far one parameter of the robot may differ before the policy fails.

    python -m policy_controller.verification.search --bundle BUNDLE --out report/search

Exit status: 0 searched, 1 the policy fails at nominal already, 2 could not run.
"""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

import yaml

from policy_controller.bundle import load_bundle
from policy_controller.verification.bench import Bench
from policy_controller.verification.options import find_robot, make_parser
from policy_controller.verification.report import plain
from policy_controller.verification.scenario import ScenarioError
from policy_controller.verification.search_plot import draw_directions
from policy_controller.verification.session import Setup
from policy_controller.verification.suite import Case, Suite, load_suite
from policy_controller.verification.verify import COULD_NOT, COULD_NOT_RUN, FAIL, PASS


@dataclass(frozen=True)
class Point:
    """One run. `broken` has the titles of the limits that were not kept."""

    value: float
    passed: bool
    broken: tuple[str, ...]


@dataclass(frozen=True)
class Direction:
    """What was found between nominal and `to`. `last_pass` is the farthest value that passed before
    the first failure; `first_failure` is None where even `to` passes."""

    parameter: str
    nominal: float
    to: float
    last_pass: float
    first_failure: Point | None
    points: tuple[Point, ...]


def bisect(
    parameter: str, nominal: float, to: float, halvings: int, run: Callable[[float], Point]
) -> Direction:
    """Halve the interval between a value that passes (`nominal`, taken as passing) and one that
    fails. Where `to` passes, the values between are taken to pass too."""
    far = run(to)
    if far.passed:
        return Direction(parameter, nominal, to, to, None, (far,))
    inside, outside, points = nominal, far, [far]
    for _ in range(halvings):
        point = run(0.5 * (inside + outside.value))
        points.append(point)
        if point.passed:
            inside = point.value
        else:
            outside = point
    return Direction(parameter, nominal, to, inside, outside, tuple(points))


def main(arguments: Sequence[str] | None = None) -> int:
    """Search all directions; returns the exit status."""
    options = _parse(arguments)
    try:
        return _search(options)
    except COULD_NOT as error:
        print(f"Could not run: {error}\n{getattr(error, 'detail', '')}", file=sys.stderr)
        return COULD_NOT_RUN


def _search(options: argparse.Namespace) -> int:
    bundle = load_bundle(options.bundle)
    robot = find_robot(options.robot, bundle)
    suite = load_suite(options.suite, bundle.command.lower, bundle.command.upper)
    plan = yaml.safe_load(options.plan.read_text())
    case = _find_case(suite, plan["case"], plan["engine"])
    setup = Setup(
        options.bundle,
        bundle,
        robot,
        case.scenario,
        lockstep=True,
        seed=0,
        real_time=False,
        engine=plan["engine"],
        settings=options.settings.resolve(),
        start_pose="standing",
    )
    options.out.mkdir(parents=True, exist_ok=True)
    directions: list[Direction] = []
    with Bench(setup, suite.nominal, options.out) as bench:

        def run(changes: dict[str, Any]) -> Point:
            changed = replace(case, parameters={"seed": case.parameters["seed"], **changes})
            verdict = bench.run(changed).verdict
            broken = tuple(check.title for check in verdict.failures)
            return Point(next(iter(changes.values()), 0.0), verdict.passed, broken)

        start = run({})
        if not start.passed:
            print(f"FAIL at nominal: {', '.join(start.broken)}", file=sys.stderr)
            return FAIL
        for row in plan["directions"]:
            name = row["parameter"]
            found = bisect(
                name,
                float(suite.nominal[name]),
                row["to"],
                plan["halvings"],
                lambda value, name=name: run({name: round(value, 4)}),
            )
            directions.append(found)
            print(describe(found), flush=True)
    content = {"schema_version": 1, "bundle": bundle.sha256, "case": case.name}
    content["directions"] = [asdict(direction) for direction in directions]
    (options.out / "search.json").write_text(json.dumps(plain(content), indent=1) + "\n")
    draw_directions(directions, options.out / "search.png")
    print(f"plot: {options.out / 'search.png'}")
    return PASS


def describe(found: Direction) -> str:
    """One line for a person."""
    head = f"{found.parameter:<24}{found.nominal:>7g} -> {found.to:<7g}"
    if found.first_failure is None:
        return f"{head} passes up to the end"
    failure = found.first_failure
    return (
        f"{head} passes at {found.last_pass:g}, fails at {failure.value:g}: "
        f"{', '.join(failure.broken)}"
    )


def _find_case(suite: Suite, name: str, engine: str) -> Case:
    for case in suite.cases:
        if (case.name, case.engine) == (name, engine):
            return case
    names = ", ".join(sorted({case.name for case in suite.cases if case.engine == engine}))
    raise ScenarioError(f"case of the search: found {name!r} on {engine!r}, allowed: {names}")


def _parse(arguments: Sequence[str] | None) -> argparse.Namespace:
    parser = make_parser(__doc__)
    parser.add_argument(
        "--out", type=Path, default=Path("report/search"), help="folder for the results"
    )
    parser.add_argument(
        "--plan",
        type=Path,
        default=Path("config/scenarios/search.yaml"),
        help="what is searched, and how far (YAML)",
    )
    return parser.parse_args(arguments)


if __name__ == "__main__":
    sys.exit(main())
