"""The robot file: what is shipped loads, and what is wrong is named."""

from pathlib import Path

import numpy as np
import pytest
import yaml

from anymal_bridge.robot_file import RobotFileError, load_robot_file

ROBOTS = Path(__file__).parents[4] / "config" / "robot"
ANYMAL_D = ROBOTS / "anymal_d.yaml"


@pytest.mark.parametrize("path", sorted(ROBOTS.glob("*.yaml")), ids=lambda path: path.stem)
def test_shipped_robots_load(path):
    robot = load_robot_file(path)
    assert robot.name == path.stem
    assert robot.joint_names[0] == "LF_HAA" and robot.joint_names[11] == "RH_KFE"
    assert (robot.position_lower < robot.default_pose).all()
    assert (robot.default_pose < robot.position_upper).all()


@pytest.mark.parametrize(
    ("change", "named"),
    [
        ({"kp": None}, "kp"),
        ({"urdf": "nowhere.urdf"}, "nowhere.urdf"),
        ({"kd": -1.0}, "kd"),
        ({"velocity_limit": float("nan")}, "velocity_limit"),
        ({"default_pose": [0.0] * 11}, "default_pose"),
        ({"joint_names": ["LF_HAA"] * 12}, "joint_names"),
        ({"position_lower": [1.0] * 12}, "LF_HAA"),
    ],
)
def test_wrong_value_is_named(tmp_path, change, named):
    shipped = yaml.safe_load(ANYMAL_D.read_text())
    data = shipped | {"urdf": str(ROBOTS / shipped["urdf"])} | change
    path = tmp_path / "robot.yaml"
    path.write_text(yaml.safe_dump({k: v for k, v in data.items() if v is not None}))
    with pytest.raises(RobotFileError, match=named):
        load_robot_file(path)


def test_missing_file_says_what_to_set():
    with pytest.raises(RobotFileError, match="parameter 'robot'"):
        load_robot_file("")


def test_arrays_are_in_joint_order():
    robot = load_robot_file(ANYMAL_D)
    # Hind legs mirror the front ones: HFE and KFE change sign.
    np.testing.assert_array_equal(robot.default_pose[0:3], robot.default_pose[6:9] * [1, -1, -1])
