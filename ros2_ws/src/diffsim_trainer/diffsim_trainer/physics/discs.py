"""Collision primitives as discs: what of a robot, besides its feet, can touch the ground.

Every primitive of the robot file touches with points: a box with its corners, a cylinder with the
lowest point of each end disc, a sphere with its lowest point. All are discs (centre, axis, radius)
whose point nearest to the ground is centre - radius t / |t|, t = n - (n.a) a; a sphere has axis
zero, a corner radius zero. Discs inside a foot's sphere, where the shank ends, are left out.
"""

from functools import cache
from itertools import product
from types import SimpleNamespace

import numpy as np
import warp as wp

from .spatial import build_spatial
from .urdf import Robot


def contact_discs(robot: Robot) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
    """Bodies [K], centres [K, 3] m, axes [K, 3] and radii [K] m of all discs but the feet."""
    rows = []
    for shape in robot.collisions:
        if shape.kind == "box":
            for signs in product((-0.5, 0.5), repeat=3):
                corner = shape.position + shape.rotation @ (np.array(signs) * shape.size)
                rows.append((shape.body, corner, np.zeros(3), 0.0))
        elif shape.kind == "cylinder":
            axis = shape.rotation[:, 2]
            for end in (-0.5, 0.5):
                centre = shape.position + end * shape.size[1] * axis
                rows.append((shape.body, centre, axis, shape.size[0]))
        elif shape.link not in robot.foot_names:
            rows.append((shape.body, shape.position, np.zeros(3), shape.size[0]))
    rows = [row for row in rows if not _is_inside_foot(robot, *row)]
    bodies, centres, axes, radii = (np.array(column) for column in zip(*rows, strict=True))
    order = np.argsort(bodies, kind="stable")
    return bodies[order], centres[order], axes[order], radii[order]


def _is_inside_foot(
    robot: Robot, body: int, centre: np.ndarray, axis: np.ndarray, radius: float
) -> bool:
    if body == 0 or body % 3:
        return False
    arm = centre - robot.foot_offset[body // 3 - 1]
    along = arm @ axis
    across = np.linalg.norm(arm - along * axis) + radius
    return bool(np.hypot(along, across) <= robot.foot_radius)


@cache
def build_disc_functions(real) -> SimpleNamespace:
    """Struct `Discs` and function `nearest_point` for `real`."""
    sp = build_spatial(real)

    @wp.struct
    class Discs:
        """All discs, sorted by body; discs of body b are first[b] .. first[b + 1]."""

        first: wp.array(dtype=wp.int32)
        centre: wp.array(dtype=sp.vec3)
        axis: wp.array(dtype=sp.vec3)
        radius: wp.array(dtype=real)

    @wp.func
    def nearest_point(centre: sp.vec3, axis: sp.vec3, radius: real, normal: sp.vec3) -> sp.vec3:
        """Point of a disc that lies lowest along `normal`, all in the same axes."""
        down = wp.dot(normal, axis) * axis - normal
        return centre + radius / wp.max(wp.length(down), real(1.0e-6)) * down

    return SimpleNamespace(Discs=Discs, nearest_point=nearest_point)


def build_discs(robot: Robot, real, device):
    """Upload the discs of `robot`."""
    bodies, centres, axes, radii = contact_discs(robot)
    spatial = build_spatial(real)
    discs = build_disc_functions(real).Discs()
    first = np.searchsorted(bodies, np.arange(14)).astype(np.int32)
    discs.first = wp.array(first, dtype=wp.int32, device=device)
    discs.centre = wp.array(centres, dtype=spatial.vec3, device=device)
    discs.axis = wp.array(axes, dtype=spatial.vec3, device=device)
    discs.radius = wp.array(radii, dtype=real, device=device)
    return discs
