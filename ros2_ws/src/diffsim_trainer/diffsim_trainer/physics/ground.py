"""The ground under a point: the plane z = 0 or the height field of the model."""

from functools import cache
from types import SimpleNamespace

import warp as wp

from .model import build_model_type
from .spatial import build_spatial
from .terrain import build_terrain


@cache
def build_ground(real, rough: bool) -> SimpleNamespace:
    """Functions `ground_at` and `axes_on_ground` for `real`; rough: on the height field."""
    sp = build_spatial(real)
    Model = build_model_type(real)

    if rough:
        field = build_terrain(real)

        @wp.func
        def ground_at(model: Model, env: int, point: sp.vec3) -> sp.vec4:
            """Normal (world) under a point and its height (m) above the tangent plane there."""
            surface = field.surface(
                model.ground,
                model.ground_rate,
                point[0] + model.ground_offset[env, 0],
                point[1] + model.ground_offset[env, 1],
            )
            # n = (-h_x, -h_y, 1) / |.|,  d = (z - h) n_z
            n = wp.normalize(sp.vec3(-surface[1], -surface[2], real(1.0)))
            return sp.vec4(n[0], n[1], n[2], (point[2] - surface[0]) * n[2])

        @wp.func
        def axes_on_ground(n: sp.vec3) -> sp.mat33:
            """World to contact axes, whose third is the normal n."""
            return field.axes_on_ground(n)

    else:

        @wp.func
        def ground_at(model: Model, env: int, point: sp.vec3) -> sp.vec4:
            return sp.vec4(real(0.0), real(0.0), real(1.0), point[2])

        @wp.func
        def axes_on_ground(n: sp.vec3) -> sp.mat33:
            return sp.scaled_identity(real(1.0))

    return SimpleNamespace(ground_at=ground_at, axes_on_ground=axes_on_ground)
