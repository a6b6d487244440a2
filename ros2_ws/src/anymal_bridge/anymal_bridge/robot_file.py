"""The robot file (``config/robot/*.yaml``): names, poses and limits that both nodes need.

Read with pyyaml only, so that the machine on the robot needs neither the simulator nor its engine.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import numpy as np
import yaml

NUM_JOINTS = 12
NUM_FEET = 4


class RobotFileError(ValueError):
    """The robot file lacks a key or holds a value that does not fit; the text says which."""


@dataclass(frozen=True)
class RobotFile:
    """What the robot file says, checked. Arrays are float64 in the order of ``joint_names``."""

    path: Path  # of the YAML file
    name: str
    urdf: str  # text of the URDF
    joint_names: tuple[str, ...]  # 12, LF RF LH RH x HAA HFE KFE
    foot_names: tuple[str, ...]  # 4
    foot_radius: float  # m
    default_pose: np.ndarray  # rad, [12]
    lying_pose: np.ndarray  # rad, [12]
    stand_height: float  # m, base above ground in the default pose
    position_lower: np.ndarray  # rad, [12]
    position_upper: np.ndarray  # rad, [12]
    velocity_limit: float  # rad/s
    torque_limit: float  # N m
    kp: float  # N m/rad, nominal gain of the robot
    kd: float  # N m s/rad, nominal gain of the robot
    actuator_delay: float  # s, from command to torque (simulation only)


def load_robot_file(path: str | Path) -> RobotFile:
    """Read and check one robot file.

    Raises:
        RobotFileError: the file is absent, is no mapping, lacks a key, or a value has the wrong
            size or sign.
    """
    path = Path(path)
    if not path.is_file():
        raise RobotFileError(
            f"robot file {str(path)!r} does not exist; "
            "set parameter 'robot' to a file like config/robot/anymal_d.yaml"
        )
    data = yaml.safe_load(path.read_text())
    if not isinstance(data, dict):
        raise RobotFileError(f"robot file {path} holds {type(data).__name__}, wanted a mapping")

    def get(key: str, table: dict = data, where: str = ""):
        if key not in table:
            raise RobotFileError(f"robot file {path} lacks key '{where}{key}'; see config/robot/")
        return table[key]

    def names(key: str, count: int) -> tuple[str, ...]:
        value = tuple(get(key))
        if len(value) != count or len(set(value)) != count:
            raise RobotFileError(
                f"robot file {path}: '{key}' holds {len(value)} names, {len(set(value))} of them "
                f"distinct; wanted {count} distinct"
            )
        return value

    def joints(key: str) -> np.ndarray:
        value = np.asarray(get(key), dtype=np.float64)
        if value.shape != (NUM_JOINTS,) or not np.isfinite(value).all():
            raise RobotFileError(
                f"robot file {path}: '{key}' is {value.tolist()}, wanted {NUM_JOINTS} finite "
                "numbers"
            )
        return value

    def positive(key: str, table: dict = data, where: str = "") -> float:
        value = float(get(key, table, where))
        if not (np.isfinite(value) and value > 0.0):
            raise RobotFileError(
                f"robot file {path}: '{where}{key}' is {value}, wanted a finite number above 0"
            )
        return value

    lower, upper = joints("position_lower"), joints("position_upper")
    joint_names = names("joint_names", NUM_JOINTS)
    if not (lower < upper).all():
        bad = [joint_names[i] for i in np.flatnonzero(lower >= upper)]
        raise RobotFileError(
            f"robot file {path}: position_lower is not below position_upper for {', '.join(bad)}"
        )
    urdf = path.parent / str(get("urdf"))
    if not urdf.is_file():
        raise RobotFileError(f"robot file {path}: 'urdf' is {urdf}, which does not exist")
    return RobotFile(
        path=path,
        name=str(get("name")),
        urdf=urdf.read_text(),
        joint_names=joint_names,
        foot_names=names("foot_names", NUM_FEET),
        foot_radius=positive("foot_radius"),
        default_pose=joints("default_pose"),
        lying_pose=joints("lying_pose"),
        stand_height=positive("stand_height"),
        position_lower=lower,
        position_upper=upper,
        velocity_limit=positive("velocity_limit"),
        torque_limit=positive("torque_limit"),
        kp=positive("kp"),
        kd=positive("kd"),
        actuator_delay=float(get("delay", get("actuator"), "actuator.")),
    )
