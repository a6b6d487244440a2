"""Verify a bundle: every case of the suite through the real nodes, two engines, one report.

    python -m policy_controller.verification.verify --bundle BUNDLE --out report/verify

Exit status: 0 PASS, 1 FAIL, 2 could not run, 130 interrupted.
"""

from __future__ import annotations

import argparse
import itertools
import multiprocessing
import os
import platform
import shlex
import signal
import sys
from collections.abc import Sequence
from concurrent.futures import ProcessPoolExecutor, as_completed
from dataclasses import asdict
from datetime import datetime
from pathlib import Path

import numpy as np
from rich.console import Console

from policy_controller.bundle import check_robot, load_bundle
from policy_controller.certificate import describe_subject, read_controller_settings
from policy_controller.fields import RefusedError
from policy_controller.robot import load_robot_description
from policy_controller.verification.bench import CaseResult, run_cases
from policy_controller.verification.metrics import RobotLimits
from policy_controller.verification.operator import OperatorError
from policy_controller.verification.options import find_robot, make_parser
from policy_controller.verification.processes import NodeDiedError
from policy_controller.verification.runner import RunFailedError
from policy_controller.verification.scenario import ScenarioError
from policy_controller.verification.session import Setup
from policy_controller.verification.suite import ENGINES, Suite, choose, load_suite
from policy_controller.verification.suite_report import write_suite_report
from policy_controller.verification.summary import summarise
from policy_controller.verification.verdict import quantity

PASS, FAIL, COULD_NOT_RUN, INTERRUPTED = 0, 1, 2, 130
COULD_NOT = (RefusedError, ScenarioError, RunFailedError, OperatorError, NodeDiedError, OSError)


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the suite; returns the exit status."""
    options, console = _parse(arguments), Console()
    for number in (signal.SIGINT, signal.SIGTERM):  # a shell's background jobs ignore the first
        signal.signal(number, signal.default_int_handler)
    try:
        return _run(options, console)
    except KeyboardInterrupt:
        console.print("Stopped. Nothing was written.")
        return INTERRUPTED
    except COULD_NOT as error:
        console.print(f"Could not run: {error}", markup=False, highlight=False)
        console.print(getattr(error, "detail", ""), markup=False, highlight=False)
        return COULD_NOT_RUN


def _run(options: argparse.Namespace, console: Console) -> int:
    bundle = load_bundle(options.bundle)
    robot = find_robot(options.robot, bundle)
    check_robot(bundle, load_robot_description(robot))
    suite = load_suite(options.suite, bundle.command.lower, bundle.command.upper)
    settings = read_controller_settings(options.settings)

    def subject() -> dict:
        return asdict(describe_subject(options.bundle, robot, options.suite, *settings))

    before, begin = subject(), datetime.now().astimezone()
    setups = {
        engine: Setup(
            options.bundle,
            bundle,
            robot,
            suite.cases[0].scenario,
            lockstep=True,
            seed=0,
            real_time=False,
            engine=engine,
            settings=options.settings.resolve(),
            start_pose="standing",
        )
        for engine in ENGINES
    }
    results = _run_engines(setups, suite, options, console)
    if subject() != before:
        raise RunFailedError("a file was changed while it was verified; run again")
    limits = RobotLimits(
        np.asarray(bundle.limits.position_lower),
        np.asarray(bundle.limits.position_upper),
        bundle.limits.velocity,
        bundle.limits.torque,
    )
    summary = summarise(results)
    end = datetime.now().astimezone()
    provenance = {
        "command": shlex.join(["python", "-m", f"{__spec__.name}", *sys.argv[1:]]),
        "complete": not options.only,
        "begin": begin.isoformat(timespec="seconds"),
        "duration_s": round((end - begin).total_seconds()),
        "host": f"{platform.system()} {platform.machine()}, {os.cpu_count()} cores",
        "subject": before,
    }
    page = write_suite_report(options.out, summary, results, limits, provenance)
    for row in summary.margins:
        check = row.check
        console.print(
            f"{'PASS' if not row.failed else 'FAIL'}  {check.title:<28}"
            f"{quantity(check.value, check.unit):>16}  limit "
            f"{quantity(check.limit, check.unit):>14}  {row.case} ({row.engine}), "
            f"{row.failed} of {row.measured} failed",
            highlight=False,
        )
    console.print(f"Pattern: {summary.pattern}", highlight=False)
    word = "PASS" if summary.passed else "FAIL"
    console.print(
        f"{word}: {summary.cases - summary.failed} of {summary.cases} cases in "
        f"{provenance['duration_s']} s, report: {page}",
        highlight=False,
    )
    return PASS if summary.passed else FAIL


def _run_engines(
    setups: dict[str, Setup], suite: Suite, options: argparse.Namespace, console: Console
) -> list[CaseResult]:
    """One process and one core for each engine."""
    wanted = choose(suite.cases, options.only)
    cases = {engine: [case for case in wanted if case.engine == engine] for engine in ENGINES}
    cores = sorted(os.sched_getaffinity(0))
    chosen = [engine for engine in ENGINES if cases[engine]]
    with ProcessPoolExecutor(len(chosen), multiprocessing.get_context("spawn")) as pool:
        futures = [
            pool.submit(
                _run_engine,
                setups[engine],
                dict(suite.nominal),
                cases[engine],
                options.out,
                cores[index % len(cores)],
            )
            for index, engine in enumerate(chosen)
        ]
        try:
            for future in as_completed(futures):
                future.result()  # the first error ends the run
        except BaseException:
            for worker in multiprocessing.active_children():
                worker.terminate()  # the kernel stops its nodes
            raise
    return [result for future in futures for result in future.result()]


def _run_engine(setup: Setup, nominal: dict, cases: list, out: Path, core: int) -> list[CaseResult]:
    os.sched_setaffinity(0, {core})
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # the parent stops this process
    done = itertools.count(1)

    def tell(result: CaseResult) -> None:
        word = "PASS" if result.verdict.passed else "FAIL"
        failures = result.verdict.failures
        broken = ", ".join(f"{check.title} {check.where}".strip() for check in failures)
        case = result.case
        print(
            f"{word}  {case.engine:<7}{next(done):>4}/{len(cases):<4}{case.name:<26}"
            f"{result.wall_time:6.1f} s  {broken}",
            flush=True,
        )

    return run_cases(setup, nominal, cases, out, tell)


def _parse(arguments: Sequence[str] | None) -> argparse.Namespace:
    parser = make_parser(__doc__)
    parser.add_argument(
        "--out", type=Path, default=Path("report/verify"), help="folder for the results"
    )
    parser.add_argument(
        "--only",
        nargs="+",
        default=[],
        metavar="WORD",
        help="cases with one of these in their name; no certificate",
    )
    return parser.parse_args(arguments)


if __name__ == "__main__":
    sys.exit(main())
