"""Foot contact points from joint angles, and their velocity.

The robot reports where the lowest point of each foot is; how fast the foot slides there needs more.
The lowest point of a rolling ball moves although nothing slides, and differencing a noisy position
400 times a second measures the noise. So the velocity of the material point at the contact is
computed from the measured base twist and joint velocities:

    v_c = v_b + w_b x p_c + sum_j (a_j x (p_c - o_j)) qd_j                  (all in the base frame)

with a_j, o_j axis and origin of joint j of the leg, p_c = foot centre - r z_w, r the foot radius
and z_w vertical in the base frame.
"""

from __future__ import annotations

import xml.etree.ElementTree as ElementTree
from dataclasses import dataclass
from pathlib import Path

import numpy as np


@dataclass(frozen=True)
class _Link:
    """One joint of the chain from base to foot, as in the URDF."""

    rotation: np.ndarray  # [3, 3], joint frame -> parent
    origin: np.ndarray  # [3], m, in the parent
    axis: np.ndarray | None  # [3], unit, in the joint frame; None: fixed
    index: int  # column of the joint in q, or -1


class FootKinematics:
    """Kinematics of the four feet of one robot file.

    `joint_names` and `foot_names` give the order of columns. The foot is the sphere in the
    collision geometry of its link. Raises ValueError if the URDF has no chain, no sphere, or a
    moving joint that is not in `joint_names`.
    """

    def __init__(
        self, urdf: str | Path, joint_names: tuple[str, ...], foot_names: tuple[str, ...]
    ) -> None:
        root = ElementTree.parse(urdf).getroot()
        by_child = {joint.find("child").get("link"): joint for joint in root.findall("joint")}
        links = {link.get("name"): link for link in root.findall("link")}
        self._chains = [_chain(by_child, foot, joint_names) for foot in foot_names]
        spheres = [_sphere(links, foot) for foot in foot_names]
        self._centers = [center for center, _ in spheres]
        self.radius = np.array([radius for _, radius in spheres])
        """Foot radius [m], shape [4]."""

    def contact_point(
        self, position: np.ndarray, orientation: np.ndarray, joint_position: np.ndarray
    ) -> np.ndarray:
        """Lowest point of each foot in the world [m], shape [T, 4, 3].

        `position` [T, 3] and `orientation` [T, 4] (xyzw) are of the base, `joint_position` [T, 12]
        in rad.
        """
        to_world = rotation_matrix(orientation)
        points = []
        for chain, center, radius in zip(self._chains, self._centers, self.radius, strict=True):
            foot, _, _ = _walk(chain, center, joint_position)
            points.append(position + np.einsum("tij,tj->ti", to_world, foot) - [0.0, 0.0, radius])
        return np.stack(points, axis=1)

    def contact_velocity(
        self,
        orientation: np.ndarray,
        linear_velocity: np.ndarray,
        angular_velocity: np.ndarray,
        joint_position: np.ndarray,
        joint_velocity: np.ndarray,
    ) -> np.ndarray:
        """Velocity of the material point at the contact of each foot, in the world [m/s], shape [T,
        4, 3].

        `linear_velocity`, `angular_velocity` [T, 3] are of the base, in the base frame (m/s,
        rad/s); `joint_velocity` [T, 12] in rad/s.
        """
        to_world = rotation_matrix(orientation)
        vertical = to_world[:, 2, :]  # world z in the base frame
        velocities = []
        for chain, center, radius in zip(self._chains, self._centers, self.radius, strict=True):
            foot, axes, origins = _walk(chain, center, joint_position)
            contact = foot - radius * vertical
            velocity = linear_velocity + np.cross(angular_velocity, contact)
            for index, axis in axes.items():
                velocity = (
                    velocity
                    + np.cross(axis, contact - origins[index]) * joint_velocity[:, index, None]
                )
            velocities.append(np.einsum("tij,tj->ti", to_world, velocity))
        return np.stack(velocities, axis=1)


def rotation_matrix(orientation: np.ndarray) -> np.ndarray:
    """Rotation matrices [T, 3, 3] of quaternions xyzw [T, 4] that need not be of unit length."""
    x, y, z, w = np.moveaxis(
        orientation / np.linalg.norm(orientation, axis=-1, keepdims=True), -1, 0
    )
    rows = [
        [1 - 2 * (y * y + z * z), 2 * (x * y - z * w), 2 * (x * z + y * w)],
        [2 * (x * y + z * w), 1 - 2 * (x * x + z * z), 2 * (y * z - x * w)],
        [2 * (x * z - y * w), 2 * (y * z + x * w), 1 - 2 * (x * x + y * y)],
    ]
    return np.stack([np.stack(row, axis=-1) for row in rows], axis=-2)


def _walk(
    chain: list[_Link], center: np.ndarray, q: np.ndarray
) -> tuple[np.ndarray, dict[int, np.ndarray], dict[int, np.ndarray]]:
    """Foot centre [T, 3], joint axes and joint origins [T, 3] by joint index, all in the base
    frame."""
    samples = len(q)
    rotation = np.broadcast_to(np.eye(3), (samples, 3, 3))
    origin = np.zeros((samples, 3))
    axes, origins = {}, {}
    for link in chain:
        origin = origin + rotation @ link.origin
        rotation = rotation @ link.rotation
        if link.axis is not None:
            axes[link.index] = rotation @ link.axis
            origins[link.index] = origin
            rotation = rotation @ _axis_rotation(link.axis, q[:, link.index])
    return origin + rotation @ center, axes, origins


def _axis_rotation(axis: np.ndarray, angle: np.ndarray) -> np.ndarray:
    """Rodrigues' formula, R = 1 + sin(a) K + (1 - cos(a)) K^2, shape [T, 3, 3]."""
    x, y, z = axis
    k = np.array([[0.0, -z, y], [z, 0.0, -x], [-y, x, 0.0]])
    return (
        np.eye(3)
        + np.sin(angle)[:, None, None] * k
        + (1.0 - np.cos(angle))[:, None, None] * (k @ k)
    )


def _chain(by_child: dict, foot: str, joint_names: tuple[str, ...]) -> list[_Link]:
    links = []
    name = foot
    while name in by_child:
        joint = by_child[name]
        rotation, origin = _origin(joint)
        axis, index = None, -1
        if joint.get("type") != "fixed":
            if joint.get("name") not in joint_names:
                raise ValueError(
                    f"joint {joint.get('name')} moves foot {foot} and is not one of "
                    f"{', '.join(joint_names)}; use the robot file of the bundle"
                )
            index = joint_names.index(joint.get("name"))
            axis = _vector(joint.find("axis").get("xyz"))
        links.append(_Link(rotation, origin, axis, index))
        name = joint.find("parent").get("link")
    if not links:
        raise ValueError(
            f"the robot file has no joint above a link {foot}; use the robot file of the bundle"
        )
    return links[::-1]


def _sphere(links: dict, foot: str) -> tuple[np.ndarray, float]:
    for collision in links[foot].findall("collision"):
        sphere = collision.find("geometry/sphere")
        if sphere is not None:
            return _origin(collision)[1], float(sphere.get("radius"))
    raise ValueError(f"link {foot} has no collision sphere; use the robot file of the bundle")


def _origin(element: ElementTree.Element) -> tuple[np.ndarray, np.ndarray]:
    origin = element.find("origin")
    attributes = origin.attrib if origin is not None else {}
    roll, pitch, yaw = _vector(attributes.get("rpy", "0 0 0"))
    rotation = np.eye(3)
    for axis, angle in (((0, 0, 1), yaw), ((0, 1, 0), pitch), ((1, 0, 0), roll)):
        rotation = rotation @ _axis_rotation(np.array(axis, dtype=float), np.array([angle]))[0]
    return rotation, _vector(attributes.get("xyz", "0 0 0"))


def _vector(text: str) -> np.ndarray:
    return np.array([float(part) for part in text.split()])
