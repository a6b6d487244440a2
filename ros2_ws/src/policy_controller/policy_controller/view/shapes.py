"""The robot file's shapes, as a tree of the links that move.

Links joined by fixed joints are one moving link here; positions are in m, rotations are unit
quaternions wxyz as viser has them.
"""

from __future__ import annotations

import xml.etree.ElementTree as ElementTree
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import yaml
from viser.transforms import SE3, SO3


class ShapeError(ValueError):
    """The robot cannot be drawn; says what was found and what is allowed."""


@dataclass(frozen=True)
class Shape:
    """One primitive. size: box x, y, z; cylinder radius, length (along z); sphere radius. m."""

    kind: str
    size: tuple[float, ...]
    pose: SE3  # in the moving link


@dataclass(frozen=True)
class MovingLink:
    """What one joint moves. parent: the moving link it hangs on; None for the base."""

    joint: str
    parent: str | None
    origin: SE3  # of the joint, in the parent
    axis: np.ndarray  # [3], of the joint, unit vector
    shapes: tuple[Shape, ...]

    def orientation(self, angle: float) -> np.ndarray:
        """wxyz [4] in the parent, for a joint angle in rad."""
        return (self.origin.rotation() @ SO3.exp(angle * self.axis)).wxyz


BASE = "base"
"""Name of the moving link without joint."""


def load_links(robot: str | Path) -> list[MovingLink]:
    """The base and one link per moving joint, parents first.

    robot: robot file (YAML), which names its URDF. Raises ShapeError if either cannot be read, or
    if the URDF has a joint or a shape of another kind than revolute, fixed, box, cylinder, sphere.
    """
    robot = Path(robot)
    try:
        urdf = robot.parent / yaml.safe_load(robot.read_text())["urdf"]
        tree = ElementTree.parse(urdf).getroot()
    except (OSError, KeyError, TypeError, yaml.YAMLError, ElementTree.ParseError) as error:
        raise ShapeError(
            f"robot file {robot}: {error!r}; give one like config/robot/anymal_d.yaml"
        ) from error
    links = {link.get("name"): link for link in tree.findall("link")}
    joints = tree.findall("joint")
    children = {joint.find("child").get("link") for joint in joints}
    roots = [name for name in links if name not in children]
    if len(roots) != 1:
        raise ShapeError(f"{urdf}: found {len(roots)} links without parent, allowed: 1")
    found: list[MovingLink] = []

    def descend(link: str, joint: str, parent: str | None, origin: SE3, axis: np.ndarray) -> None:
        shapes: list[Shape] = []
        moving: list[tuple[ElementTree.Element, SE3]] = []

        def collect(name: str, pose: SE3) -> None:
            for collision in links[name].findall("collision"):
                shapes.append(_read_shape(urdf, collision, pose))
            for below in joints:
                if below.find("parent").get("link") != name:
                    continue
                place = pose @ _read_origin(below)
                if below.get("type") == "fixed":
                    collect(below.find("child").get("link"), place)
                else:
                    moving.append((below, place))

        collect(link, SE3.identity())
        found.append(MovingLink(joint, parent, origin, axis, tuple(shapes)))
        for below, place in moving:
            if below.get("type") != "revolute":
                raise ShapeError(
                    f"{urdf}: joint {below.get('name')}: found {below.get('type')!r}, "
                    "allowed: revolute or fixed"
                )
            along = _read_numbers(below.find("axis").get("xyz"))
            descend(below.find("child").get("link"), below.get("name"), joint, place, along)

    descend(roots[0], BASE, None, SE3.identity(), np.array((1.0, 0.0, 0.0)))
    return found


def _read_numbers(text: str) -> np.ndarray:
    return np.array([float(word) for word in text.split()])


def _read_origin(element: ElementTree.Element) -> SE3:
    origin = element.find("origin")
    if origin is None:
        return SE3.identity()
    roll, pitch, yaw = _read_numbers(origin.get("rpy", "0 0 0"))
    rotation = SO3.from_rpy_radians(roll, pitch, yaw)
    return SE3.from_rotation_and_translation(rotation, _read_numbers(origin.get("xyz", "0 0 0")))


def _read_shape(urdf: Path, collision: ElementTree.Element, link: SE3) -> Shape:
    geometry = collision.find("geometry")[0]
    pose = link @ _read_origin(collision)
    if geometry.tag == "box":
        return Shape("box", tuple(_read_numbers(geometry.get("size"))), pose)
    if geometry.tag == "cylinder":
        return Shape(
            "cylinder", (float(geometry.get("radius")), float(geometry.get("length"))), pose
        )
    if geometry.tag == "sphere":
        return Shape("sphere", (float(geometry.get("radius")),), pose)
    raise ShapeError(f"{urdf}: found shape {geometry.tag!r}, allowed: box, cylinder or sphere")
