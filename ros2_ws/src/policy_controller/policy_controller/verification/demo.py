"""The demonstration: simulated robot and controller as two processes, a scenario, a verdict and a
report.

    python -m policy_controller.verification.demo --bundle config/bundles/anymal_d --out report

Exit status: 0 PASS, 1 FAIL, 2 could not run.
"""

from __future__ import annotations

import argparse
import hashlib
import platform
import shlex
import signal
import socket
import sys
from collections.abc import Sequence
from datetime import datetime
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path

import numpy as np
import yaml
from rich.console import Console

from policy_controller.bundle import check_robot, load_bundle
from policy_controller.fields import RefusedError
from policy_controller.robot import load_robot_description
from policy_controller.state import FOOT_NAMES, JOINT_NAMES
from policy_controller.verification.display import Display, print_detail, print_result
from policy_controller.verification.feet import FootKinematics
from policy_controller.verification.layout import Run
from policy_controller.verification.metrics import RobotLimits, measure
from policy_controller.verification.operator import OperatorError
from policy_controller.verification.options import find_robot
from policy_controller.verification.page import Provenance
from policy_controller.verification.processes import NodeDiedError, may_use_real_time
from policy_controller.verification.recording import save_recording
from policy_controller.verification.report import write_report
from policy_controller.verification.runner import RunFailedError
from policy_controller.verification.scenario import (
    ScenarioError,
    check_command_range,
    load_scenario,
)
from policy_controller.verification.session import Link, Setup, record_run
from policy_controller.verification.verdict import judge

PASS, FAIL, COULD_NOT_RUN = 0, 1, 2
_PACKAGES = ("ros-rclpy", "ros-rmw-fastrtps-cpp", "numpy", "onnxruntime", "warp-lang", "matplotlib")


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the demonstration; returns the exit status."""
    options = _parse(arguments)
    console = Console()
    for number in (signal.SIGINT, signal.SIGTERM):  # also where the shell had SIGINT ignored
        signal.signal(number, _interrupt)
    try:
        return _run(options, console)
    except (RefusedError, ScenarioError, RunFailedError, OperatorError, NodeDiedError) as error:
        console.print("[bold red]Could not run:[/] ", end="")
        console.print(str(error), markup=False, highlight=False)
        print_detail(console, getattr(error, "detail", ""))
        console.print(f"[dim]Logs: {options.out / 'logs'}[/]")
    except KeyboardInterrupt:
        console.print("Interrupted; the nodes are stopped.")
    return COULD_NOT_RUN


def _run(options: argparse.Namespace, console: Console) -> int:
    setup = _prepare(options)
    started = datetime.now().astimezone()
    console.print(
        f"[bold]Footlight[/]  bundle {setup.bundle.sha256[:12]}, robot {setup.bundle.robot.name}, "
        f"scenario '{setup.scenario.name}', about {setup.scenario.duration + 8.0:.0f} s",
        highlight=False,
    )
    with Display(console, setup.scenario) as display:
        recording, failure = record_run(setup, options.out / "logs", display)
        display.on_stage("Measuring and drawing")
        save_recording(recording, options.out / "recording.npz")
        limits = setup.bundle.limits
        robot_limits = RobotLimits(
            np.asarray(limits.position_lower),
            np.asarray(limits.position_upper),
            limits.velocity,
            limits.torque,
        )
        urdf = setup.robot_path.parent / yaml.safe_load(setup.robot_path.read_text())["urdf"]
        metrics = measure(
            recording, setup.scenario, robot_limits, FootKinematics(urdf, JOINT_NAMES, FOOT_NAMES)
        )
        verdict = judge(metrics, setup.scenario)
        run = Run(recording, setup.scenario, metrics, robot_limits)
        page = write_report(
            options.out, run, verdict, _provenance(options, setup, started), failure
        )
    print_result(console, verdict, metrics, failure)
    colour, word = ("green", "PASS") if verdict.passed else ("red", "FAIL")
    console.print(f"\n[bold white on {colour}] {word} [/]  report: {page}", highlight=False)
    return PASS if verdict.passed else FAIL


def _prepare(options: argparse.Namespace) -> Setup:
    """Read and check everything before anything is started."""
    bundle = load_bundle(options.bundle)
    robot_path = find_robot(options.robot, bundle)
    check_robot(bundle, load_robot_description(robot_path))
    scenario = load_scenario(options.scenario)
    check_command_range(
        scenario, np.asarray(bundle.command.lower), np.asarray(bundle.command.upper)
    )
    link = Link(options.link)
    if options.lockstep and link is Link.ROS1:
        raise ScenarioError("--lockstep with --link ros1: ROS 1 has no lockstep; leave one out")
    with socket.create_server(("localhost", 0)) as probe:
        roscore_port = probe.getsockname()[1]
    return Setup(
        options.bundle,
        bundle,
        robot_path,
        scenario,
        options.lockstep,
        options.seed,
        real_time=not options.lockstep and may_use_real_time(),
        link=link,
        roscore_port=roscore_port,
    )


def _provenance(options: argparse.Namespace, setup: Setup, started: datetime) -> Provenance:
    training = setup.bundle.training
    return Provenance(
        command=shlex.join(
            [
                "python",
                "-m",
                "policy_controller.verification.demo",
                "--bundle",
                str(options.bundle),
                "--scenario",
                str(options.scenario),
                "--seed",
                str(options.seed),
                "--out",
                str(options.out),
            ]
            + (["--robot", str(options.robot)] if options.robot else [])
            + (["--lockstep"] if options.lockstep else [])
            + (["--link", options.link] if options.link != Link.DIRECT.value else [])
        ),
        started=started.strftime("%Y-%m-%d %H:%M:%S %z"),
        robot=setup.bundle.robot.name,
        engine="warp",
        timing_mode="lockstep" if setup.lockstep else "real time",
        scheduling="SCHED_FIFO" if setup.real_time else "normal",
        seed=setup.seed,
        bundle=str(options.bundle),
        bundle_sha256=setup.bundle.sha256,
        scenario=str(options.scenario),
        scenario_sha256=hashlib.sha256(options.scenario.read_bytes()).hexdigest(),
        training={name: getattr(training, name) for name in training.__dataclass_fields__},
        versions={"python": platform.python_version()}
        | {name: _version(name) for name in _PACKAGES},
        host=f"{platform.system()} {platform.release()} {platform.machine()}",
        nodes={command.name: command.line for command in setup.nodes()},
    )


def _version(package: str) -> str:
    try:
        return version(package)
    except PackageNotFoundError:
        return "from the system"


def _parse(arguments: Sequence[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        description=__doc__.splitlines()[0], formatter_class=argparse.ArgumentDefaultsHelpFormatter
    )
    parser.add_argument(
        "--bundle", type=Path, required=True, help="policy bundle, directory or .zip"
    )
    parser.add_argument(
        "--out", type=Path, default=Path("report"), help="directory for the report and the logs"
    )
    parser.add_argument(
        "--scenario",
        type=Path,
        default=Path("config/scenarios/demo.yaml"),
        help="what the operator does (YAML)",
    )
    parser.add_argument(
        "--robot", type=Path, help="robot file; default config/robot/<robot of the bundle>.yaml"
    )
    parser.add_argument(
        "--lockstep", action="store_true", help="simulated time that waits for the controller"
    )
    parser.add_argument(
        "--link",
        choices=[link.value for link in Link],
        default=Link.DIRECT.value,
        help="direct: no bridge; ros2, ros1: through the bridge, to a robot that speaks that",
    )
    parser.add_argument("--seed", type=int, default=0, help="of the simulated robot")
    return parser.parse_args(arguments)


def _interrupt(*_: object) -> None:
    raise KeyboardInterrupt


if __name__ == "__main__":
    sys.exit(main())
