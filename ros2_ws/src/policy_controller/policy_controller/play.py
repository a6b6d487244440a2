"""A policy on the simulated robot, driven from the browser, until Ctrl-C.

    python -m policy_controller.play --bundle config/bundles/anymal_d

Starts the simulated robot, the controller and the view, in this ROS domain, so that `ros2` and
Foxglove see them. The robot's time waits for the controller: a busy computer makes it slower than
real time, and not fall.
"""

from __future__ import annotations

import argparse
import os
import signal
import sys
import time
from collections.abc import Sequence
from pathlib import Path

from policy_controller.bundle import check_robot, load_bundle
from policy_controller.fields import RefusedError
from policy_controller.robot import load_robot_description
from policy_controller.verification.processes import NodeCommand, NodeDiedError, NodeProcesses

COULD_NOT_RUN = 1
_POLL = 0.2  # s
_STOP_TIMEOUT = 25.0  # s, the controller lies down first


def main(arguments: Sequence[str] | None = None) -> int:
    """Exit status: 0 after Ctrl-C, 1 if a node could not run, 2 for a wrong option."""
    options = _parse(arguments)
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, _interrupt)
    try:
        commands = _make_commands(options)
        environment = {"ROS_AUTOMATIC_DISCOVERY_RANGE": "LOCALHOST"} | os.environ
        with NodeProcesses(
            commands, options.logs, environment, stop_timeout=_STOP_TIMEOUT
        ) as nodes:
            log, shown = options.logs / "view.log", False
            while True:
                nodes.check()
                if not shown and (line := _find_address(log)):
                    print(f"{line}\nCtrl-C ends it. Logs: {options.logs}", flush=True)
                    shown = True
                time.sleep(_POLL)
    except KeyboardInterrupt:
        return 0
    except RefusedError as error:
        print(f"error: {error}", file=sys.stderr)
    except NodeDiedError as error:
        print(f"error: {error}\n{error.detail}", file=sys.stderr)
    return COULD_NOT_RUN


def _make_commands(options: argparse.Namespace) -> tuple[NodeCommand, ...]:
    bundle = load_bundle(options.bundle)
    robot = options.robot or Path("config/robot") / f"{bundle.robot.name}.yaml"
    check_robot(bundle, load_robot_description(robot))
    shared = {"robot": robot.resolve()}
    lockstep = shared | {"lockstep": "true"}
    pace = {"control_period": bundle.control_period, "max_real_time_factor": options.speed}
    policy = {"bundle": options.bundle.resolve(), "autostart": "true"}
    page = {"host": options.host, "port": options.port, "silence_timeout": options.silence}
    return (
        NodeCommand("robot", _node("anymal_bridge.sim_node", lockstep | pace)),
        NodeCommand("controller", _node("policy_controller.node", lockstep | policy)),
        NodeCommand("view", _node("policy_controller.view.node", shared | page)),
    )


def _node(module: str, parameters: dict[str, object]) -> tuple[str, ...]:
    settings = (word for name, value in parameters.items() for word in ("-p", f"{name}:={value}"))
    return (sys.executable, "-m", module, "--ros-args", *settings)


def _find_address(log: Path) -> str:
    lines = log.read_text(errors="replace").splitlines() if log.exists() else []
    return next((line for line in lines if line.startswith("view: ")), "")


def _interrupt(*_: object) -> None:
    raise KeyboardInterrupt


def _parse(arguments: Sequence[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        prog="python -m policy_controller.play",
        description=__doc__.splitlines()[0],
        epilog=main.__doc__,
        formatter_class=argparse.ArgumentDefaultsHelpFormatter,
    )
    parser.add_argument(
        "--bundle", type=Path, required=True, help="policy bundle, directory or .zip"
    )
    parser.add_argument(
        "--robot", type=Path, metavar="FILE", help="robot file; None: that of the bundle's robot"
    )
    parser.add_argument(
        "--speed", type=float, default=1.0, metavar="FACTOR", help="times real time, at most"
    )
    parser.add_argument(
        "--host",
        default="127.0.0.1",
        help="address of the page; any but this machine's own asks for a token",
    )
    parser.add_argument("--port", type=int, default=8080, help="of the page; 0: any free one")
    parser.add_argument(
        "--silence",
        type=float,
        default=0.25,
        metavar="SECONDS",
        help="of a browser that drives, then the robot stops; up to 1 where drawing is slow",
    )
    parser.add_argument(
        "--logs", type=Path, default=Path("report/play"), metavar="FOLDER", help="of the nodes"
    )
    return parser.parse_args(arguments)


if __name__ == "__main__":
    sys.exit(main())
