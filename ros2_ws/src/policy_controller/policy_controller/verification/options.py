"""What the commands about the suite are given: options, and the robot file if none is named."""

from __future__ import annotations

import argparse
from pathlib import Path

from policy_controller.bundle import PolicyBundle


def make_parser(documentation: str) -> argparse.ArgumentParser:
    """A parser with bundle, robot, suite and settings; its description is the first line."""
    parser = argparse.ArgumentParser(
        description=documentation.splitlines()[0],
        formatter_class=argparse.ArgumentDefaultsHelpFormatter,
    )
    parser.add_argument("--bundle", type=Path, required=True, help="directory or .zip")
    parser.add_argument(
        "--robot", type=Path, help="robot file; default config/robot/<robot of the bundle>.yaml"
    )
    parser.add_argument(
        "--suite",
        type=Path,
        default=Path("config/scenarios/suite.yaml"),
        help="scenarios and limits (YAML)",
    )
    parser.add_argument(
        "--settings",
        type=Path,
        default=Path("config/controller.yaml"),
        help="parameters of the controller (YAML)",
    )
    return parser


def find_robot(named: Path | None, bundle: PolicyBundle) -> Path:
    """The robot file that was named, or the one of the bundle's robot."""
    return named or Path("config/robot") / f"{bundle.robot.name}.yaml"
