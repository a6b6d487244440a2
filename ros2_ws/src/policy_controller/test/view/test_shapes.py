"""The tree of shapes that the browser draws."""

from pathlib import Path

import numpy as np
import pytest

pytest.importorskip("viser")

from viser.transforms import SE3, SO3  # noqa: E402

from policy_controller.state import JOINT_NAMES  # noqa: E402
from policy_controller.verification.feet import FootKinematics  # noqa: E402
from policy_controller.view.shapes import BASE, ShapeError, load_links  # noqa: E402

ROBOTS = sorted((Path(__file__).parents[5] / "config/robot").glob("*.yaml"))
FEET = ("LF_FOOT", "RF_FOOT", "LH_FOOT", "RH_FOOT")


@pytest.mark.parametrize("robot", ROBOTS, ids=lambda path: path.stem)
def test_feet_are_where_the_kinematics_of_the_report_has_them(robot):
    links = load_links(robot)
    assert links[0].joint == BASE and {link.joint for link in links} >= set(JOINT_NAMES)
    joints = np.random.default_rng(3).uniform(-0.8, 0.8, 12)
    angles = dict(zip(JOINT_NAMES, joints, strict=True))
    poses: dict[str | None, SE3] = {None: SE3.identity()}
    spheres = {}
    for link in links:
        turn = SO3(link.orientation(angles.get(link.joint, 0.0)))
        pose = SE3.from_rotation_and_translation(turn, link.origin.translation())
        poses[link.joint] = poses[link.parent] @ pose
        for shape in link.shapes:
            if shape.kind == "sphere":
                spheres[link.joint[:2]] = (poses[link.joint] @ shape.pose).translation()
    kinematics = FootKinematics(robot.with_suffix(".urdf"), JOINT_NAMES, FEET)
    level = np.array([[0.0, 0.0, 0.0, 1.0]])
    lowest = kinematics.contact_point(np.zeros((1, 3)), level, joints[None])[0]
    drawn = np.array([spheres[foot[:2]] for foot in FEET])
    drawn[:, 2] -= kinematics.radius
    np.testing.assert_allclose(drawn, lowest, atol=1e-6)


def test_robot_that_cannot_be_drawn_is_named(tmp_path):
    with pytest.raises(ShapeError, match="absent.yaml.*anymal_d.yaml"):
        load_links(tmp_path / "absent.yaml")
    (tmp_path / "r.yaml").write_text("urdf: r.urdf")
    mesh = "<link name='a'><collision><geometry><mesh/></geometry></collision></link>"
    (tmp_path / "r.urdf").write_text(f"<robot>{mesh}</robot>")
    with pytest.raises(ShapeError, match="found shape 'mesh'"):
        load_links(tmp_path / "r.yaml")
