"""Robot description: one YAML file and the URDF it names, reduced to a base and four legs.

Every fixed link is merged into the moving body that carries it, and every joint that is not one of
the twelve leg joints is locked at zero and merged too. `Robot.report` says what was done, one
sentence each. All frames of the result are parallel to the base frame at joint angle zero: a body's
frame sits at its joint, so no fixed rotation is left in the kinematics.
"""

from __future__ import annotations

import math
import xml.etree.ElementTree as ElementTree
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import yaml

LEGS = ("LF", "RF", "LH", "RH")
LEG_JOINTS = ("HAA", "HFE", "KFE")
JOINT_NAMES = tuple(f"{leg}_{joint}" for leg in LEGS for joint in LEG_JOINTS)


class RobotError(ValueError):
    """The robot description cannot be used; the message names the file, the link or the joint."""


@dataclass(frozen=True)
class CollisionShape:
    """Collision primitive of a body, placed in the body frame.

    kind is "box", "cylinder" (along its z) or "sphere"; size is full extents (3), (radius, length)
    or (radius,) in m; rotation [3, 3] takes shape axes to body axes; position [3] in m.
    """

    body: int
    link: str
    kind: str
    size: tuple[float, ...]
    position: np.ndarray
    rotation: np.ndarray


ACTUATOR_ARRAYS = ("armature", "viscous", "coulomb", "encoder_bias")


@dataclass(frozen=True)
class Actuator:
    """Drive parameters of the simulation: DC-motor line, rotor inertia, friction, delay.

    saturation_torque N m; armature [12] kg m^2; viscous [12] N m s/rad; coulomb [12] N m;
    encoder_bias [12] measured minus true joint position, rad; delay s. The step does not know the
    bias: kp (q* - (q + bias)) is a set point moved by -bias, and what is read is moved by +bias.
    """

    saturation_torque: float
    armature: np.ndarray
    viscous: np.ndarray
    coulomb: np.ndarray
    encoder_bias: np.ndarray
    delay: float


@dataclass(frozen=True)
class Robot:
    """A floating base (body 0) with four legs of three bodies (body 1 + 3 leg + joint), float64.

    mass [13] kg; com [13, 3] m and inertia [13, 3, 3] kg m^2 about the com, in the body frame;
    joint_offset [12, 3] joint origin in the parent frame, m; joint_axis [12, 3] unit vectors;
    foot_offset [4, 3] centre of the foot sphere in the shank frame, m; joint arrays [12] follow
    `joint_names`; limits in rad, rad/s, N m; kp N m/rad, kd N m s/rad; stand_height m.
    """

    name: str
    urdf_path: Path
    joint_names: tuple[str, ...]
    foot_names: tuple[str, ...]
    mass: np.ndarray
    com: np.ndarray
    inertia: np.ndarray
    joint_offset: np.ndarray
    joint_axis: np.ndarray
    foot_offset: np.ndarray
    foot_radius: float
    default_pose: np.ndarray
    lying_pose: np.ndarray
    stand_height: float
    position_lower: np.ndarray
    position_upper: np.ndarray
    velocity_limit: float
    torque_limit: float
    kp: float
    kd: float
    actuator: Actuator
    collisions: tuple[CollisionShape, ...]
    report: tuple[str, ...]


def load_robot(path: str | Path) -> Robot:
    """Read a robot YAML file and its URDF.

    Raises RobotError when a joint, limit, inertia or foot is missing or physically impossible, or
    when the YAML contradicts the URDF.
    """
    path = Path(path)
    settings = yaml.safe_load(path.read_text())
    urdf_path = path.parent / settings["urdf"]
    tree = _Tree(ElementTree.parse(urdf_path).getroot(), urdf_path)

    if tuple(settings["joint_names"]) != JOINT_NAMES:
        raise RobotError(
            f"{path}: joint_names are {settings['joint_names']}; the order must be {JOINT_NAMES}"
        )
    report: list[str] = []
    body_of_link = _assign_links(tree, report)
    mass, com, inertia = _merge_inertia(tree, body_of_link)
    joints = [tree.joints[name] for name in JOINT_NAMES]
    origin = np.array([tree.pose[joint.child][1] for joint in joints])
    axis = np.array([tree.pose[joint.child][0] @ joint.axis for joint in joints])
    body_origin = np.vstack([np.zeros(3), origin])
    parent = [0 if joint % 3 == 0 else joint for joint in range(12)]
    _check_chain(tree, body_of_link, parent)
    foot_centre, foot_radius = _find_feet(tree, settings["foot_names"], body_of_link)
    _check_settings(path, settings, joints, foot_radius)

    per_joint = {
        key: np.asarray(settings[key], dtype=float)
        for key in ("default_pose", "lying_pose", "position_lower", "position_upper")
    }
    drive = settings["actuator"]
    actuator = Actuator(
        saturation_torque=float(drive["saturation_torque"]),
        delay=float(drive["delay"]),
        **{key: np.asarray(drive[key], dtype=float) for key in ACTUATOR_ARRAYS},
    )
    for key, value in {**per_joint, **_joint_arrays(actuator)}.items():
        if value.shape != (12,):
            raise RobotError(
                f"{path}: {key} has shape {value.shape}; give one number per joint, 12"
            )
    return Robot(
        name=settings["name"],
        urdf_path=urdf_path,
        joint_names=JOINT_NAMES,
        foot_names=tuple(settings["foot_names"]),
        mass=mass,
        com=com - body_origin,
        inertia=inertia,
        joint_offset=origin - body_origin[parent],
        joint_axis=axis / np.linalg.norm(axis, axis=1, keepdims=True),
        foot_offset=foot_centre - origin[2::3],
        foot_radius=foot_radius,
        stand_height=float(settings["stand_height"]),
        velocity_limit=float(settings["velocity_limit"]),
        torque_limit=float(settings["torque_limit"]),
        kp=float(settings["kp"]),
        kd=float(settings["kd"]),
        actuator=actuator,
        collisions=_collect_collisions(tree, body_of_link, body_origin),
        report=tuple(report),
        **per_joint,
    )


@dataclass(frozen=True)
class _Joint:
    name: str
    kind: str
    parent: str
    child: str
    rotation: np.ndarray
    position: np.ndarray
    axis: np.ndarray
    limit: dict[str, float] | None


class _Tree:
    """Links and joints of a URDF with the pose of every link in the base frame at angle zero."""

    def __init__(self, root: ElementTree.Element, path: Path):
        self.path = path
        self.links = {link.get("name"): link for link in root.findall("link")}
        self.joints = {joint.name: joint for joint in map(_read_joint, root.findall("joint"))}
        self.parent_joint = {joint.child: joint for joint in self.joints.values()}
        roots = [name for name in self.links if name not in self.parent_joint]
        if len(roots) != 1:
            raise RobotError(f"{path}: root links are {roots}; a robot has exactly one")
        for name in JOINT_NAMES:
            if name not in self.joints:
                raise RobotError(
                    f"{path}: joint {name} is missing; all of {JOINT_NAMES} are needed"
                )
        self.root = roots[0]
        self.pose: dict[str, tuple[np.ndarray, np.ndarray]] = {}
        for name in self.links:
            self._place(name)

    def _place(self, link: str) -> tuple[np.ndarray, np.ndarray]:
        if link not in self.pose:
            if link == self.root:
                self.pose[link] = (np.eye(3), np.zeros(3))
            else:
                joint = self.parent_joint[link]
                rotation, position = self._place(joint.parent)
                self.pose[link] = (
                    rotation @ joint.rotation,
                    position + rotation @ joint.position,
                )
        return self.pose[link]


def _read_joint(element: ElementTree.Element) -> _Joint:
    rotation, position = _read_origin(element)
    axis, limit = element.find("axis"), element.find("limit")
    return _Joint(
        name=element.get("name"),
        kind=element.get("type"),
        parent=element.find("parent").get("link"),
        child=element.find("child").get("link"),
        rotation=rotation,
        position=position,
        axis=np.array([1.0, 0.0, 0.0]) if axis is None else _numbers(axis.get("xyz")),
        limit=None if limit is None else {k: float(v) for k, v in limit.attrib.items()},
    )


def _numbers(text: str | None) -> np.ndarray:
    return np.zeros(3) if text is None else np.array([float(word) for word in text.split()])


def _read_origin(element: ElementTree.Element) -> tuple[np.ndarray, np.ndarray]:
    origin = element.find("origin")
    if origin is None:
        return np.eye(3), np.zeros(3)
    return _rotation_rpy(_numbers(origin.get("rpy"))), _numbers(origin.get("xyz"))


def _rotation_rpy(rpy: np.ndarray) -> np.ndarray:
    # R = Rz(yaw) Ry(pitch) Rx(roll)
    (cr, cp, cy), (sr, sp, sy) = np.cos(rpy), np.sin(rpy)
    return np.array(
        [
            [cy * cp, cy * sp * sr - sy * cr, cy * sp * cr + sy * sr],
            [sy * cp, sy * sp * sr + cy * cr, sy * sp * cr - cy * sr],
            [-sp, cp * sr, cp * cr],
        ]
    )


def _assign_links(tree: _Tree, report: list[str]) -> dict[str, int]:
    """Moving body of every link; extra joints are locked, and every decision is reported."""
    body_of_link: dict[str, int] = {tree.root: 0}

    def body(link: str) -> int:
        if link not in body_of_link:
            joint = tree.parent_joint[link]
            if joint.name in JOINT_NAMES:
                body_of_link[link] = 1 + JOINT_NAMES.index(joint.name)
            else:
                body_of_link[link] = body(joint.parent)
        return body_of_link[link]

    for link in tree.links:
        body(link)
    names = (tree.root, *(tree.joints[name].child for name in JOINT_NAMES))
    for index, name in enumerate(names):
        merged = [link for link, owner in body_of_link.items() if owner == index and link != name]
        if merged:
            report.append(f"Merged {len(merged)} links into {name}: {', '.join(merged)}.")
    for joint in tree.joints.values():
        if joint.kind != "fixed" and joint.name not in JOINT_NAMES:
            owner = names[body_of_link[joint.child]]
            report.append(f"Locked joint {joint.name} at zero; {joint.child} moves with {owner}.")
    return body_of_link


def _merge_inertia(tree: _Tree, body_of_link: dict[str, int]):
    """Mass [13], com [13, 3] and inertia about the com [13, 3, 3], in the base frame at zero."""
    parts: list[list[tuple[float, np.ndarray, np.ndarray]]] = [[] for _ in range(13)]
    for name, link in tree.links.items():
        inertial = link.find("inertial")
        if inertial is None:
            continue
        mass = float(inertial.find("mass").get("value"))
        rotation, position = tree.pose[name]
        turn, shift = _read_origin(inertial)
        i = {key: float(value) for key, value in inertial.find("inertia").attrib.items()}
        tensor = np.array(
            [
                [i["ixx"], i["ixy"], i["ixz"]],
                [i["ixy"], i["iyy"], i["iyz"]],
                [i["ixz"], i["iyz"], i["izz"]],
            ]
        )
        axes = rotation @ turn
        parts[body_of_link[name]].append(
            (mass, position + rotation @ shift, axes @ tensor @ axes.T)
        )
    names = (tree.root, *(tree.joints[name].child for name in JOINT_NAMES))
    merged = [_merge_parts(f"{tree.path}: link {n}", p) for n, p in zip(names, parts, strict=True)]
    return tuple(np.array(column) for column in zip(*merged, strict=True))


def _merge_parts(name: str, parts: list[tuple[float, np.ndarray, np.ndarray]]):
    mass = sum(part[0] for part in parts)
    if mass <= 0.0:
        raise RobotError(f"{name} has mass {mass} kg after merging; a moving body needs mass")
    com = sum(m * c for m, c, _ in parts) / mass
    # parallel axes: I += m (d.d 1 - d d^T)
    inertia = sum(
        tensor + m * ((c - com) @ (c - com) * np.eye(3) - np.outer(c - com, c - com))
        for m, c, tensor in parts
    )
    principal = np.linalg.eigvalsh(inertia)
    if principal[0] <= 0.0:
        raise RobotError(
            f"{name} has principal inertias {principal} kg m^2 after merging; all must be positive"
        )
    if principal[0] + principal[1] < principal[2] * (1.0 - 1e-9):
        raise RobotError(
            f"{name} has principal inertias {principal} kg m^2 after merging; the sum of two must "
            "not be below the third"
        )
    return mass, com, inertia


def _check_chain(tree: _Tree, body_of_link: dict[str, int], parent: list[int]) -> None:
    for index, name in enumerate(JOINT_NAMES):
        joint = tree.joints[name]
        if joint.kind != "revolute":
            raise RobotError(f"{tree.path}: joint {name} is {joint.kind}; it must be revolute")
        if body_of_link[joint.parent] != parent[index]:
            raise RobotError(
                f"{tree.path}: joint {name} hangs on {joint.parent}; each leg must be a chain of "
                "HAA, HFE and KFE from the base"
            )
        missing = {"lower", "upper", "effort", "velocity"} - set(joint.limit or {})
        if missing:
            raise RobotError(
                f"{tree.path}: joint {name} has no limit for {sorted(missing)}; give all four"
            )


def _find_feet(tree: _Tree, foot_names: list[str], body_of_link: dict[str, int]):
    centres, radii = [], []
    for leg, name in enumerate(foot_names):
        if name not in tree.links or body_of_link[name] != 3 * leg + 3:
            raise RobotError(f"{tree.path}: foot {name} is not a link of the {LEGS[leg]} shank")
        spheres = [
            (_read_origin(c)[1], float(c.find("geometry/sphere").get("radius")))
            for c in tree.links[name].findall("collision")
            if c.find("geometry/sphere") is not None
        ]
        if len(spheres) != 1:
            raise RobotError(
                f"{tree.path}: foot {name} has {len(spheres)} collision spheres; it needs one"
            )
        rotation, position = tree.pose[name]
        centres.append(position + rotation @ spheres[0][0])
        radii.append(spheres[0][1])
    if max(radii) - min(radii) > 1e-9:
        raise RobotError(f"{tree.path}: foot radii are {radii} m; they must be equal")
    return np.array(centres), radii[0]


def _check_settings(path: Path, settings: dict, joints: list[_Joint], foot_radius: float) -> None:
    if not math.isclose(settings["foot_radius"], foot_radius, rel_tol=1e-6):
        raise RobotError(
            f"{path}: foot_radius is {settings['foot_radius']} m, the URDF says {foot_radius} m"
        )
    for key, attribute in (("torque_limit", "effort"), ("velocity_limit", "velocity")):
        for joint in joints:
            if settings[key] > joint.limit[attribute]:
                raise RobotError(
                    f"{path}: {key} is {settings[key]}, the URDF allows {joint.limit[attribute]} "
                    f"at {joint.name}; lower it"
                )
    limits = zip(joints, settings["position_lower"], settings["position_upper"], strict=True)
    for joint, lower, upper in limits:
        if not joint.limit["lower"] <= lower < upper <= joint.limit["upper"]:
            raise RobotError(
                f"{path}: the range of {joint.name} is [{lower}, {upper}] rad; it must lie in the "
                f"URDF range [{joint.limit['lower']}, {joint.limit['upper']}]"
            )


def _joint_arrays(actuator: Actuator) -> dict[str, np.ndarray]:
    return {key: getattr(actuator, key) for key in ACTUATOR_ARRAYS}


def _collect_collisions(tree: _Tree, body_of_link: dict[str, int], body_origin: np.ndarray):
    shapes = []
    for name, link in tree.links.items():
        rotation, position = tree.pose[name]
        body = body_of_link[name]
        for collision in link.findall("collision"):
            turn, shift = _read_origin(collision)
            shape = collision.find("geometry")[0]
            if shape.tag == "box":
                size = tuple(_numbers(shape.get("size")))
            elif shape.tag == "cylinder":
                size = (float(shape.get("radius")), float(shape.get("length")))
            elif shape.tag == "sphere":
                size = (float(shape.get("radius")),)
            else:
                raise RobotError(
                    f"{tree.path}: link {name} collides as a {shape.tag}; only box, cylinder and "
                    "sphere are supported"
                )
            shapes.append(
                CollisionShape(
                    body=body,
                    link=name,
                    kind=shape.tag,
                    size=size,
                    position=position + rotation @ shift - body_origin[body],
                    rotation=rotation @ turn,
                )
            )
    return tuple(shapes)
