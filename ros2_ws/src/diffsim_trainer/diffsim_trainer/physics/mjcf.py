"""The same robot for MuJoCo: an independent second engine from one description."""

from __future__ import annotations

import xml.etree.ElementTree as ElementTree

import numpy as np

from .model import GRAVITY
from .terrain import Terrain
from .urdf import JOINT_NAMES, CollisionShape, Robot

REACH = 8.0
"""Half the side of the square of terrain around the origin that MuJoCo gets, m."""
FINENESS = 5
"""Triangles of MuJoCo's height field along one spacing of the terrain's samples. Between its
corners a triangle is off the spline by at most (spacing / 5)^2 / 8 times its curvature in each
direction: 1.5 mm for heights of ±30 mm every 0.2 m."""


def to_mjcf(
    robot: Robot, timestep: float = 0.0025, friction: float = 0.8, terrain: Terrain | None = None
) -> str:
    """MuJoCo XML of `robot` on a plane, or on a terrain that ends `REACH` from the origin: qpos =
    position, wxyz, joints; qvel linear in the world.

    Inertias, joint frames, armature, viscous damping and Coulomb friction are those of `robot`; one
    torque motor per joint, clamped at the torque limit, in the order of `joint_names`. Feet are
    spheres named as in `foot_names`; all collision primitives touch the ground but not each other.
    timestep in s; friction of the ground and of every geom.
    """
    root = ElementTree.Element("mujoco", model=robot.name)
    ElementTree.SubElement(root, "compiler", angle="radian", autolimits="true")
    ElementTree.SubElement(
        root,
        "option",
        timestep=_text(timestep),
        gravity=_text([0.0, 0.0, -GRAVITY]),
        cone="elliptic",
        impratio="100",  # friction as stiff as the ground, or standing feet creep apart
        integrator="implicitfast",
    )
    defaults = ElementTree.SubElement(root, "default")
    ElementTree.SubElement(
        defaults,
        "geom",
        condim="3",
        friction=_text([friction, 0.0, 0.0]),
        contype="0",
        conaffinity="1",
        density="0",
    )
    world = ElementTree.SubElement(root, "worldbody")
    ground = ElementTree.SubElement(
        world, "geom", name="ground", type="plane", size="0 0 1", contype="1", conaffinity="0"
    )
    if terrain is not None:
        _make_field(root, ground, terrain)
    base = ElementTree.SubElement(
        world, "body", name="base", pos=_text([0.0, 0.0, robot.stand_height])
    )
    ElementTree.SubElement(base, "freejoint", name="base")
    _fill_body(base, robot, 0)
    body = base
    for joint, name in enumerate(JOINT_NAMES):
        parent = base if joint % 3 == 0 else body
        body = ElementTree.SubElement(
            parent, "body", name=f"{name}_link", pos=_text(robot.joint_offset[joint])
        )
        ElementTree.SubElement(
            body,
            "joint",
            name=name,
            type="hinge",
            axis=_text(robot.joint_axis[joint]),
            armature=_text(robot.actuator.armature[joint]),
            damping=_text(robot.actuator.viscous[joint]),
            frictionloss=_text(robot.actuator.coulomb[joint]),
        )
        _fill_body(body, robot, joint + 1)
    motors = ElementTree.SubElement(root, "actuator")
    limit = _text([-robot.torque_limit, robot.torque_limit])
    for name in JOINT_NAMES:
        ElementTree.SubElement(motors, "motor", name=name, joint=name, ctrlrange=limit)
    ElementTree.indent(root)
    return ElementTree.tostring(root, encoding="unicode")


def _make_field(root: ElementTree.Element, ground: ElementTree.Element, terrain: Terrain) -> None:
    """Turn the plane into a height field through points of the terrain."""
    count = 2 * round(REACH * FINENESS / terrain.spacing) + 1
    along = np.linspace(-REACH, REACH, count)
    # rows of the field lie along x, the first one at the far end of y
    height = terrain.height(along[None, :], along[::-1, None])
    low, range_ = float(height.min()), float(np.ptp(height))
    asset = ElementTree.SubElement(root, "asset")
    ElementTree.SubElement(
        asset,
        "hfield",
        name="terrain",
        nrow=str(count),
        ncol=str(count),
        size=_text([REACH, REACH, max(range_, 1e-6), 1.0]),
        elevation=" ".join(f"{h:.9g}" for h in (height - low).ravel()),  # scaled to 0..1 by MuJoCo
    )
    ground.attrib.update(type="hfield", hfield="terrain", pos=_text([0.0, 0.0, low]))
    del ground.attrib["size"]


def _text(values) -> str:
    return " ".join(repr(float(value)) for value in np.atleast_1d(values))


def _fill_body(body: ElementTree.Element, robot: Robot, index: int) -> None:
    i = robot.inertia[index]
    ElementTree.SubElement(
        body,
        "inertial",
        mass=_text(robot.mass[index]),
        pos=_text(robot.com[index]),
        fullinertia=_text([i[0, 0], i[1, 1], i[2, 2], i[0, 1], i[0, 2], i[1, 2]]),
    )
    for shape in robot.collisions:
        if shape.body == index:
            _add_geom(body, shape, robot.foot_names)


def _add_geom(body: ElementTree.Element, shape: CollisionShape, foot_names: tuple[str, ...]):
    size = {
        "box": lambda s: [0.5 * extent for extent in s],
        "cylinder": lambda s: [s[0], 0.5 * s[1]],
        "sphere": lambda s: s,
    }[shape.kind](shape.size)
    geom = ElementTree.SubElement(
        body,
        "geom",
        type=shape.kind,
        size=_text(size),
        pos=_text(shape.position),
        xyaxes=_text(shape.rotation[:, :2].T.ravel()),
    )
    if shape.kind == "sphere" and shape.link in foot_names:
        geom.set("name", shape.link)
