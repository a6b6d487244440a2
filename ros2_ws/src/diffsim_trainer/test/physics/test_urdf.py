"""Robot files: figures of record, merging of links, refusals."""

import xml.etree.ElementTree as ElementTree

import numpy as np
import pytest
import yaml

from diffsim_trainer.physics import RobotError, load_robot

pytestmark = pytest.mark.physics

# official ANYbotics descriptions; foot: origin of LF_FOOT in the base frame, m
RECORD = {
    "b": dict(
        mass=30.42,
        velocity=10.0,
        effort=40.0,
        foot=(0.4405, 0.246, -0.5712),
        stand=(0.4604, -0.4872),
    ),
    "c": dict(
        mass=52.13,
        velocity=7.5,
        effort=80.0,
        foot=(0.4478, 0.3012, -0.623),
        stand=(0.4614, -0.5395),
    ),
    "d": dict(
        mass=57.03, velocity=8.5, effort=80.0, foot=(0.473, 0.3177, -0.6775), stand=(0.507, -0.585)
    ),
}
SPHERE = {"b": (0, 0, 0.02325), "c": (0, 0, 0.0225), "d": (0, -0.0081412, 0.0303832)}  # in LF_FOOT


def posed(robot, pose) -> np.ndarray:
    state = np.zeros(37)
    state[6] = 1.0
    state[13:25] = pose
    return state


@pytest.mark.parametrize("name", "bcd")
def test_masses_of_record(robots, name):
    assert robots[name].mass.sum() == pytest.approx(RECORD[name]["mass"], rel=1e-3)


def test_bodies_of_d_of_record(robot):
    # hip, thigh and shank of ANYmal D after merging, kg
    np.testing.assert_allclose(robot.mass[1:4], [0.366, 5.132, 0.796], atol=5e-4)


@pytest.mark.parametrize("name", "bcd")
def test_foot_positions_of_record(robots, reference, name):
    robot = robots[name]
    centre = reference.foot_centres(robot, posed(robot, np.zeros(12)))[0]
    np.testing.assert_allclose(centre - SPHERE[name], RECORD[name]["foot"], atol=6e-5)
    # default pose: thigh turned by 0.4, shank by -0.4 in all, about +y
    centre = reference.foot_centres(robot, posed(robot, robot.default_pose))[0]
    back = np.cos(0.4) * SPHERE[name][2]
    sphere = np.array([-np.sin(0.4) * SPHERE[name][2], SPHERE[name][1], back])
    np.testing.assert_allclose((centre - sphere)[[0, 2]], RECORD[name]["stand"], atol=6e-5)


@pytest.mark.parametrize("name", "bcd")
def test_joint_axes_in_the_base_frame(robots, name):
    # HAA turns about +x, HFE and KFE about +y, on every leg
    expected = np.tile([[1, 0, 0], [0, 1, 0], [0, 1, 0]], (4, 1))
    np.testing.assert_allclose(robots[name].joint_axis, expected, atol=1e-11)


@pytest.mark.parametrize("name", "bcd")
def test_limits(robots, name):
    robot = robots[name]
    assert robot.velocity_limit == RECORD[name]["velocity"]
    assert robot.torque_limit == RECORD[name]["effort"]
    for pose in (robot.default_pose, robot.lying_pose):
        assert np.all((pose > robot.position_lower) & (pose < robot.position_upper))


@pytest.mark.parametrize("name", "bcd")
def test_stand_height_puts_feet_on_the_ground(robots, reference, name):
    robot = robots[name]
    lowest = reference.foot_centres(robot, posed(robot, robot.default_pose))[:, 2].min()
    assert robot.stand_height == pytest.approx(robot.foot_radius - lowest, abs=1e-4)


@pytest.mark.parametrize("name", "bcd")
def test_primitives_only(config_dir, name):
    root = ElementTree.parse(config_dir / f"anymal_{name}.urdf").getroot()
    assert {element.tag for element in root.iter()}.isdisjoint({"mesh", "visual", "material"})


def test_payload_joints_are_locked_and_reported(robot):
    assert sum("Locked joint inspection_payload" in sentence for sentence in robot.report) == 2
    assert any(
        sentence.startswith("Merged") and "base_inertia" in sentence for sentence in robot.report
    )


LINK = """<link name="{name}">{inertial}{collision}</link>"""
INERTIAL = """<inertial><origin xyz="{xyz}" rpy="{rpy}"/><mass value="{mass}"/>
<inertia ixx="{i[0]}" iyy="{i[1]}" izz="{i[2]}" ixy="0" ixz="0" iyz="0"/></inertial>"""
FOOT = """<collision><geometry><sphere radius="0.03"/></geometry></collision>"""
JOINT = """<joint name="{name}" type="{kind}"><parent link="{parent}"/><child link="{child}"/>
<origin xyz="{xyz}" rpy="{rpy}"/><axis xyz="{axis}"/>{limit}</joint>"""
LIMIT = """<limit lower="-3" upper="3" effort="80" velocity="8"/>"""


def inertial(mass=1.0, i=(0.01, 0.01, 0.01), xyz="0 0 0", rpy="0 0 0") -> str:
    return INERTIAL.format(mass=mass, i=i, xyz=xyz, rpy=rpy)


def joint(name, parent, child, kind="fixed", xyz="0 0 0", rpy="0 0 0", axis="0 1 0", limit=""):
    return JOINT.format(
        name=name, kind=kind, parent=parent, child=child, xyz=xyz, rpy=rpy, axis=axis, limit=limit
    )


def toy_urdf(base: str = "", extra: str = "", thigh: str | None = None, limit: str = LIMIT) -> str:
    """A quadruped of bare links; `base` is the inertial of its root, `extra` more elements."""
    parts = [LINK.format(name="base", inertial=base or inertial(mass=10.0), collision="")]
    for leg in ("LF", "RF", "LH", "RH"):
        parent = "base"
        for kind in ("HAA", "HFE", "KFE"):
            name = f"{leg}_{kind}"
            special = thigh if name == "LF_HFE" and thigh is not None else inertial()
            parts.append(LINK.format(name=f"{name}_link", inertial=special, collision=""))
            parts.append(
                joint(name, parent, f"{name}_link", "revolute", xyz="0 0 -0.2", limit=limit)
            )
            parent = f"{name}_link"
        parts.append(LINK.format(name=f"{leg}_FOOT", inertial="", collision=FOOT))
        parts.append(joint(f"{leg}_foot", parent, f"{leg}_FOOT", xyz="0 0 -0.2"))
    return f"<robot name='toy'>{''.join(parts)}{extra}</robot>"


@pytest.fixture
def write_robot(tmp_path, config_dir):
    """Function: a robot YAML beside the given URDF text; keyword arguments replace its entries."""

    def write(urdf: str, **changes):
        settings = yaml.safe_load((config_dir / "anymal_d.yaml").read_text())
        settings |= {"urdf": "toy.urdf", "foot_radius": 0.03, "velocity_limit": 8.0} | changes
        (tmp_path / "toy.urdf").write_text(urdf)
        path = tmp_path / "toy.yaml"
        path.write_text(yaml.safe_dump(settings))
        return path

    return write


def test_merging_rotates_and_shifts_the_inertia(write_robot):
    # a bar of 2 kg, I = diag(1, 2, 2.5), hangs at (0.3, 0.2, 0), turned 90° about x, com 0.1 along
    # its y, which is base z: com (0.3, 0.2, 0.1), axes x, z, y
    bar = LINK.format(
        name="bar", inertial=inertial(2.0, (1.0, 2.0, 2.5), xyz="0 0.1 0"), collision=""
    )
    hang = joint("hang", "base", "bar", xyz="0.3 0.2 0", rpy=f"{np.pi / 2} 0 0")
    robot = load_robot(write_robot(toy_urdf(extra=bar + hang)))
    com = 2.0 / 12.0 * np.array([0.3, 0.2, 0.1])
    expected = np.diag([1.01, 2.51, 2.01])
    for mass, r in ((10.0, -com), (2.0, np.array([0.3, 0.2, 0.1]) - com)):
        expected += mass * (r @ r * np.eye(3) - np.outer(r, r))
    assert robot.mass[0] == 12.0
    np.testing.assert_allclose(robot.com[0], com, atol=1e-12)
    np.testing.assert_allclose(robot.inertia[0], expected, atol=1e-12)


def test_massless_root_takes_the_mass_of_its_fixed_child(write_robot):
    body = LINK.format(name="trunk", inertial=inertial(mass=20.0), collision="")
    robot = load_robot(
        write_robot(toy_urdf(base=" ", extra=body + joint("fix", "base", "trunk", xyz="0.1 0 0")))
    )
    assert robot.mass[0] == 20.0
    np.testing.assert_allclose(robot.com[0], [0.1, 0.0, 0.0])
    assert "Merged 1 links into base: trunk." in robot.report


@pytest.mark.parametrize(
    ("thigh", "message"),
    [
        ("", "LF_HFE_link has mass 0 kg after merging"),
        (inertial(i=(0.01, 0.01, -0.001)), "all must be positive"),
        (inertial(i=(0.01, 0.01, 0.05)), "the sum of two must not be below the third"),
    ],
)
def test_impossible_inertia_is_refused_with_the_link(write_robot, thigh, message):
    with pytest.raises(RobotError, match=message) as error:
        load_robot(write_robot(toy_urdf(thigh=thigh)))
    assert "LF_HFE_link" in str(error.value)


@pytest.mark.parametrize(
    ("urdf", "changes", "message"),
    [
        (toy_urdf(limit=""), {}, "LF_HAA has no limit for"),
        (toy_urdf().replace('"RH_KFE"', '"RH_KNEE"'), {}, "joint RH_KFE is missing"),
        (toy_urdf(), {"torque_limit": 100.0}, "the URDF allows 80.0 at LF_HAA"),
        (toy_urdf(), {"foot_radius": 0.04}, "the URDF says 0.03 m"),
        (toy_urdf(), {"kp": 1.0, "default_pose": [0.0] * 11}, "give one number per joint"),
        (toy_urdf(), {"joint_names": ["LF_HAA"]}, "the order must be"),
    ],
)
def test_contradictions_are_refused(write_robot, urdf, changes, message):
    with pytest.raises(RobotError, match=message):
        load_robot(write_robot(urdf, **changes))
