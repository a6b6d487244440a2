"""How far every body is above the ground: the touch sensor that ends an episode in training.

Kinematics only, no gradient: the contact laws do not see these bodies, so a robot that touches the
ground with anything but its feet is where the simulation stops being true.
"""

from functools import cache

import warp as wp

from . import model as layout
from .discs import build_disc_functions
from .ground import build_ground
from .spatial import build_spatial

PARTS = 5  # threads of a robot: the base and each leg


@cache
def build_clearance_kernel(real, rough: bool):
    """Kernel over [num_envs, PARTS]; clearance [N, 13] (m), infinity for a body without shape."""
    sp, ground = build_spatial(real), build_ground(real, rough)
    disc_functions = build_disc_functions(real)
    Discs, nearest_point = disc_functions.Discs, disc_functions.nearest_point
    Model = layout.build_model_type(real)

    @wp.func
    def body_clearance(
        model: Model, discs: Discs, env: int, body: int, rotation: sp.mat33, origin: sp.vec3
    ) -> real:
        """Height of the lowest disc of a body with this pose in the world."""
        lowest = real(wp.inf)
        for disc in range(discs.first[body], discs.first[body + 1]):
            centre = origin + rotation * discs.centre[disc]
            under = ground.ground_at(model, env, centre)
            normal = sp.vec3(under[0], under[1], under[2])
            axis = rotation * discs.axis[disc]
            point = nearest_point(centre, axis, discs.radius[disc], normal)
            lowest = wp.min(lowest, ground.ground_at(model, env, point)[3])
        return lowest

    @wp.kernel(module="unique", module_options={"max_unroll": 1}, enable_backward=False)
    def measure(
        model: Model,
        discs: Discs,
        state: wp.array2d(dtype=real),
        clearance: wp.array2d(dtype=real),
    ):
        env, part = wp.tid()
        origin = sp.vec3(state[env, 0], state[env, 1], state[env, 2])
        turn = sp.quat(state[env, 3], state[env, 4], state[env, 5], state[env, 6])
        rotation = wp.quat_to_matrix(wp.normalize(turn))
        if part == 0:
            clearance[env, 0] = body_clearance(model, discs, env, 0, rotation, origin)
            return
        for link in range(3):
            joint = 3 * (part - 1) + link
            q = state[env, layout.JOINT_POSITION + joint]
            origin = origin + rotation * model.joint_offset[joint]
            rotation = rotation * sp.joint_rotation(model.joint_axis[joint], q)
            clearance[env, joint + 1] = body_clearance(
                model, discs, env, joint + 1, rotation, origin
            )

    return measure
