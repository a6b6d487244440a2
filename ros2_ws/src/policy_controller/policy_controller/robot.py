"""The robot file: names, poses, limits and gains, as far as the controller needs them."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass, fields
from pathlib import Path

import yaml

from policy_controller.fields import RefusedError, describe_problem, find_problems, spec
from policy_controller.state import JOINT_NAMES, NUM_JOINTS

_CURE = "correct the robot file"


class RobotFileError(RefusedError):
    """The robot file cannot be used."""


@dataclass(frozen=True)
class RobotDescription:
    """One robot. Vectors are in the canonical joint order."""

    name: str = spec("text", "name of the robot")
    urdf_sha256: str = spec("sha256", "hash of the URDF file beside the robot file")
    joint_names: tuple[str, ...] = spec("names", "canonical joint order", size=NUM_JOINTS)
    default_pose: tuple[float, ...] = spec(
        "vector", "standing pose", unit="rad", low=-6.3, high=6.3, size=NUM_JOINTS
    )
    lying_pose: tuple[float, ...] = spec(
        "vector", "folded pose on the ground", unit="rad", low=-6.3, high=6.3, size=NUM_JOINTS
    )
    position_lower: tuple[float, ...] = spec(
        "vector", "soft limit", unit="rad", low=-6.3, high=6.3, size=NUM_JOINTS
    )
    position_upper: tuple[float, ...] = spec(
        "vector", "soft limit", unit="rad", low=-6.3, high=6.3, size=NUM_JOINTS
    )
    velocity_limit: float = spec("number", "of every drive", unit="rad/s", low=0.1, high=50.0)
    torque_limit: float = spec("number", "of every drive", unit="N m", low=1.0, high=500.0)
    kp: float = spec("number", "commanded gain", unit="N m/rad", low=0.1, high=1000.0)
    kd: float = spec("number", "commanded gain", unit="N m s/rad", low=0.0, high=100.0)


def load_robot_description(path: str | Path) -> RobotDescription:
    """Read a robot file (YAML) and hash the URDF it names.

    Keys that only the simulation needs are ignored. Raises RobotFileError naming every problem:
    missing key, wrong type or range, joint order, poses outside of the limits, URDF not found.
    """
    path = Path(path)
    try:
        data = yaml.safe_load(path.read_text())
    except (OSError, UnicodeDecodeError, yaml.YAMLError) as error:
        raise RobotFileError(f"{path}", [f"cannot be read ({error}); give a robot file"]) from error
    if not isinstance(data, dict):
        found = type(data).__name__
        raise RobotFileError(
            f"{path}", [describe_problem("content", found, "a YAML mapping", _CURE)]
        )
    values, problems = {}, []
    for item in fields(RobotDescription):
        if item.name == "urdf_sha256":
            values[item.name], problem = _hash_urdf(path.parent, data.get("urdf"))
            problems += problem
        elif item.name not in data:
            problems.append(f"{item.name}: missing; {_CURE}")
        else:
            value = data[item.name]
            values[item.name] = tuple(value) if isinstance(value, list) else value
    if not problems:
        robot = RobotDescription(**values)
        problems = find_problems(robot, _CURE) or _check_consistency(robot)
    if problems:
        raise RobotFileError(f"{path}", problems)
    return robot


def _hash_urdf(folder: Path, name: object) -> tuple[str, list[str]]:
    if not isinstance(name, str):
        return "", [describe_problem("urdf", name, "file name relative to the robot file", _CURE)]
    try:
        return hashlib.sha256((folder / name).read_bytes()).hexdigest(), []
    except OSError as error:
        return "", [f"urdf: {folder / name} cannot be read ({error}); {_CURE}"]


def _check_consistency(robot: RobotDescription) -> list[str]:
    problems = []
    if robot.joint_names != JOINT_NAMES:
        problems.append(describe_problem("joint_names", robot.joint_names, f"{JOINT_NAMES}", _CURE))
    for pose in ("default_pose", "lying_pose"):
        for joint, value, lower, upper in zip(
            JOINT_NAMES,
            getattr(robot, pose),
            robot.position_lower,
            robot.position_upper,
            strict=True,
        ):
            if not lower <= value <= upper:
                allowed = f"from {lower} to {upper} rad (position_lower, position_upper)"
                problems.append(describe_problem(f"{pose} {joint}", value, allowed, _CURE))
    return problems
