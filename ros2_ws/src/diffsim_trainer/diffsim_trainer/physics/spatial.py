"""Small algebra of rigid bodies as Warp functions, built once per floating-point type."""

from functools import cache
from types import SimpleNamespace

import warp as wp


@cache
def build_spatial(real) -> SimpleNamespace:
    """Vector types and functions for `real`, wp.float32 or wp.float64."""
    vec3 = wp.types.vector(3, real)
    vec4 = wp.types.vector(4, real)
    mat33 = wp.types.matrix((3, 3), real)
    quat = wp.types.quaternion(real)

    @wp.func
    def skew(v: vec3) -> mat33:
        """Matrix of the cross product: skew(v) x = v × x."""
        zero = real(0.0)
        return mat33(zero, -v[2], v[1], v[2], zero, -v[0], -v[1], v[0], zero)

    @wp.func
    def scaled_identity(s: real) -> mat33:
        """s times the identity."""
        zero = real(0.0)
        return mat33(s, zero, zero, zero, s, zero, zero, zero, s)

    @wp.func
    def columns(a: vec3, b: vec3, c: vec3) -> mat33:
        """Matrix with the columns a, b, c."""
        return mat33(a[0], b[0], c[0], a[1], b[1], c[1], a[2], b[2], c[2])

    @wp.func
    def joint_rotation(axis: vec3, angle: real) -> mat33:
        """Rotation by `angle` about the unit vector `axis`."""
        # R = cos 1 + sin [a]x + (1 - cos) a a^T
        c = wp.cos(angle)
        return (
            scaled_identity(c) + wp.sin(angle) * skew(axis) + (real(1.0) - c) * wp.outer(axis, axis)
        )

    @wp.func
    def rotation_increment(angular_velocity: vec3, dt: real) -> quat:
        """Unit quaternion of a turn lasting `dt`; smooth at rest, error of order dt^3."""
        # (w dt / 2, 1) normalised
        half = angular_velocity * (real(0.5) * dt)
        return wp.normalize(quat(half[0], half[1], half[2], real(1.0)))

    @wp.func
    def shifted_inertia(mass: real, com: vec3, inertia: mat33) -> mat33:
        """Inertia about the origin of a body whose inertia about its com is given."""
        # I + m (c.c 1 - c c^T)
        return inertia + mass * (scaled_identity(wp.dot(com, com)) - wp.outer(com, com))

    @wp.func
    def inverse_blocks(aa: mat33, al: mat33, ll: mat33):
        """Blocks of the inverse of the symmetric 6×6 matrix [[aa, al], [alᵀ, ll]]."""
        ll_inv = wp.inverse(ll)
        k = al * ll_inv
        aa_out = wp.inverse(aa - k * wp.transpose(al))
        al_out = -(aa_out * k)
        ll_out = ll_inv - wp.transpose(k) * al_out
        return aa_out, al_out, ll_out

    return SimpleNamespace(
        real=real,
        vec3=vec3,
        vec4=vec4,
        mat33=mat33,
        quat=quat,
        skew=skew,
        scaled_identity=scaled_identity,
        columns=columns,
        joint_rotation=joint_rotation,
        rotation_increment=rotation_increment,
        shifted_inertia=shifted_inertia,
        inverse_blocks=inverse_blocks,
    )
