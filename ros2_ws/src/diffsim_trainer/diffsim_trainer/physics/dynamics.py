"""Rigid-body dynamics of a base with four legs, in axes parallel to the base.

The equations of motion are taken in the inertial frame that coincides with the base at this instant
and moves with its origin. Accelerations are classical, so the linear velocity of the base appears
nowhere (Galileo), and the unknowns are the changes of base angular velocity w, base linear velocity
v and joint velocity q' of each leg l:

    [ I_c   F_1 .. F_4 ] [dw; dv]        [ wrench  ]
    [ F_lᵀ  M_l        ] [dq'_l ] = dt * [ torque_l ]

This block-arrow system is solved without forming it: every leg is folded onto the base (Schur
complement, `fold_leg`), the base is solved (6×6), and each leg follows.
"""

from functools import cache
from types import SimpleNamespace

import warp as wp

from .model import GRAVITY, build_frozen, build_model_type
from .spatial import build_spatial


@cache
def build_dynamics(real) -> SimpleNamespace:
    """Structs `Body`, `Leg`, `BaseEquation`, `BaseInverse` and the functions on them."""
    sp = build_spatial(real)
    Model, frozen = build_model_type(real), build_frozen(real)

    @wp.struct
    class Body:
        """One rigid body; vectors in base axes, points from the base origin."""

        rotation: sp.mat33  # body to base
        origin: sp.vec3  # of the joint that carries it
        axis: sp.vec3  # of that joint
        moment: sp.vec3  # origin × axis: velocity of the base origin if it were on the body
        omega: sp.vec3
        alpha: sp.vec3  # angular acceleration with all generalised accelerations zero
        acceleration: sp.vec3  # of the joint origin minus gravity, likewise
        mass: real
        first_moment: sp.vec3  # mass * com
        inertia: sp.mat33  # about the base origin
        bias_moment: sp.vec3  # wrench about the base origin that this motion needs
        bias_force: sp.vec3

    @wp.struct
    class Chain:
        """The bodies of a leg, and the centre of its foot in base axes."""

        hip: Body
        thigh: Body
        shank: Body
        foot: sp.vec3

    @wp.struct
    class Leg:
        """One leg with its joint accelerations eliminated."""

        inverse: sp.mat33  # (M_l + armature + dt damping)^-1
        coupling_a: sp.mat33  # F_l: sp.columns are the moments and
        coupling_l: sp.mat33  # the forces that unit joint accelerations exert on the base
        torque: sp.vec3  # joint torque minus bias
        mass: real  # composite of the three bodies
        first_moment: sp.vec3
        inertia: sp.mat33
        bias_moment: sp.vec3
        bias_force: sp.vec3
        contact: sp.vec3  # point of the foot nearest to the ground
        jacobian: sp.mat33  # velocity of that point per joint velocity
        height: real  # m, of that point above a height field; unused on the plane
        axes: sp.mat33  # base to contact axes on a height field; unused on the plane

    @wp.struct
    class BaseEquation:
        """Base rows of the equations: [[aa, al], [alᵀ, ll]] [dw; dv] = dt [moment; force]."""

        aa: sp.mat33
        al: sp.mat33
        ll: sp.mat33
        moment: sp.vec3
        force: sp.vec3

    @wp.struct
    class BaseInverse:
        """Inverse of the folded base inertia, 6×6 in 3×3 blocks."""

        aa: sp.mat33
        al: sp.mat33
        ll: sp.mat33

    @wp.func
    def place_body(
        rotation: sp.mat33,
        origin: sp.vec3,
        axis: sp.vec3,
        omega: sp.vec3,
        alpha: sp.vec3,
        acceleration: sp.vec3,
        mass: real,
        com: sp.vec3,
        inertia: sp.mat33,
    ) -> Body:
        """Body with its inertia and bias wrench about the base origin."""
        arm = rotation * com
        centre = origin + arm
        inertia_c = rotation * inertia * wp.transpose(rotation)
        # f = m (a + alpha × r + w × (w × r)),  n = I alpha + w × I w + c × f
        force = mass * (acceleration + wp.cross(alpha, arm) + wp.cross(omega, wp.cross(omega, arm)))
        moment = inertia_c * alpha + wp.cross(omega, inertia_c * omega) + wp.cross(centre, force)
        body = Body()
        body.rotation = rotation
        body.origin = origin
        body.axis = axis
        body.moment = wp.cross(origin, axis)
        body.omega = omega
        body.alpha = alpha
        body.acceleration = acceleration
        body.mass = mass
        body.first_moment = mass * centre
        body.inertia = sp.shifted_inertia(mass, centre, inertia_c)
        body.bias_moment = moment
        body.bias_force = force
        return body

    @wp.func
    def place_base(
        model: Model, omega: sp.vec3, up: sp.vec3, added_mass: real, com_shift: sp.vec3
    ) -> Body:
        """Base body; `up` is the vertical in base axes."""
        return place_body(
            sp.scaled_identity(real(1.0)),
            sp.vec3(),
            sp.vec3(),
            omega,
            sp.vec3(),
            real(GRAVITY) * up,
            frozen.real(model.mass, 0) + added_mass,
            frozen.vec3(model.com, 0) + com_shift,
            frozen.mat33(model.inertia, 0),
        )

    @wp.func
    def place_link(model: Model, joint: int, parent: Body, q: real, v: real) -> Body:
        """Body behind `joint` at joint position q and velocity v."""
        offset = parent.rotation * frozen.vec3(model.joint_offset, joint)
        axis = parent.rotation * frozen.vec3(model.joint_axis, joint)
        # w' = w + a q',  alpha' = alpha + w × a q',  a' = a + alpha × d + w × (w × d)
        return place_body(
            parent.rotation * sp.joint_rotation(frozen.vec3(model.joint_axis, joint), q),
            parent.origin + offset,
            axis,
            parent.omega + axis * v,
            parent.alpha + wp.cross(parent.omega, axis) * v,
            parent.acceleration
            + wp.cross(parent.alpha, offset)
            + wp.cross(parent.omega, wp.cross(parent.omega, offset)),
            frozen.real(model.mass, joint + 1),
            frozen.vec3(model.com, joint + 1),
            frozen.mat33(model.inertia, joint + 1),
        )

    @wp.func
    def project(body: Body, moment: sp.vec3, force: sp.vec3) -> real:
        """Power of a wrench (about the base origin) per unit velocity of the body's joint."""
        return wp.dot(body.axis, moment) + wp.dot(body.moment, force)

    @wp.func
    def place_leg(model: Model, leg: int, base: Body, q: sp.vec3, v: sp.vec3) -> Chain:
        """Bodies of a leg at joint position q and velocity v."""
        j = 3 * leg
        chain = Chain()
        chain.hip = place_link(model, j, base, q[0], v[0])
        chain.thigh = place_link(model, j + 1, chain.hip, q[1], v[1])
        chain.shank = place_link(model, j + 2, chain.thigh, q[2], v[2])
        chain.foot = chain.shank.origin + chain.shank.rotation * frozen.vec3(model.foot_offset, leg)
        return chain

    @wp.func
    def assemble_leg(
        model: Model,
        leg: int,
        chain: Chain,
        normal: sp.vec3,
        torque: sp.vec3,
        damping: sp.vec3,
    ) -> Leg:
        """Dynamics of one leg: mass matrix, coupling to the base, bias, foot Jacobian.

        `normal` of the ground in base axes; `torque` N m acts on the joints; `damping` N m s/rad is
        treated implicitly.
        """
        j = 3 * leg
        hip = chain.hip
        thigh = chain.thigh
        shank = chain.shank

        # composite bodies: what hangs on each joint
        m2 = thigh.mass + shank.mass
        h2 = thigh.first_moment + shank.first_moment
        i2 = thigh.inertia + shank.inertia
        m1 = hip.mass + m2
        h1 = hip.first_moment + h2
        i1 = hip.inertia + i2

        # wrench of a unit joint acceleration: n = I a + h × s,  f = m s - h × a
        n3 = shank.inertia * shank.axis + wp.cross(shank.first_moment, shank.moment)
        f3 = shank.mass * shank.moment - wp.cross(shank.first_moment, shank.axis)
        n2 = i2 * thigh.axis + wp.cross(h2, thigh.moment)
        f2 = m2 * thigh.moment - wp.cross(h2, thigh.axis)
        n1 = i1 * hip.axis + wp.cross(h1, hip.moment)
        f1 = m1 * hip.moment - wp.cross(h1, hip.axis)

        m12 = project(hip, n2, f2)
        m13 = project(hip, n3, f3)
        m23 = project(thigh, n3, f3)
        mass_matrix = sp.mat33(
            project(hip, n1, f1) + frozen.real(model.armature, j) + model.dt * damping[0],
            m12,
            m13,
            m12,
            project(thigh, n2, f2) + frozen.real(model.armature, j + 1) + model.dt * damping[1],
            m23,
            m13,
            m23,
            project(shank, n3, f3) + frozen.real(model.armature, j + 2) + model.dt * damping[2],
        )

        bias_moment2 = thigh.bias_moment + shank.bias_moment
        bias_force2 = thigh.bias_force + shank.bias_force
        bias_moment1 = hip.bias_moment + bias_moment2
        bias_force1 = hip.bias_force + bias_force2
        bias = sp.vec3(
            project(hip, bias_moment1, bias_force1),
            project(thigh, bias_moment2, bias_force2),
            project(shank, shank.bias_moment, shank.bias_force),
        )

        contact = chain.foot - model.foot_radius * normal

        out = Leg()
        out.inverse = wp.inverse(mass_matrix)
        out.coupling_a = sp.columns(n1, n2, n3)
        out.coupling_l = sp.columns(f1, f2, f3)
        out.torque = torque - bias
        out.mass = m1
        out.first_moment = h1
        out.inertia = i1
        out.bias_moment = bias_moment1
        out.bias_force = bias_force1
        out.contact = contact
        out.jacobian = sp.columns(
            wp.cross(hip.axis, contact - hip.origin),
            wp.cross(thigh.axis, contact - thigh.origin),
            wp.cross(shank.axis, contact - shank.origin),
        )
        return out

    @wp.func
    def base_equation(base: Body) -> BaseEquation:
        """Equation of the base alone."""
        eq = BaseEquation()
        eq.aa = base.inertia
        eq.al = sp.skew(base.first_moment)
        eq.ll = sp.scaled_identity(base.mass)
        eq.moment = -base.bias_moment
        eq.force = -base.bias_force
        return eq

    @wp.func
    def fold_leg(leg: Leg) -> BaseEquation:
        """What a leg adds to the base equation once its joints are eliminated."""
        # I_c - F P Fᵀ,  wrench - F P torque
        gain_a = leg.coupling_a * leg.inverse
        gain_l = leg.coupling_l * leg.inverse
        coupling_at = wp.transpose(leg.coupling_a)
        coupling_lt = wp.transpose(leg.coupling_l)
        eq = BaseEquation()
        eq.aa = leg.inertia - gain_a * coupling_at
        eq.al = sp.skew(leg.first_moment) - gain_a * coupling_lt
        eq.ll = sp.scaled_identity(leg.mass) - gain_l * coupling_lt
        eq.moment = -leg.bias_moment - gain_a * leg.torque
        eq.force = -leg.bias_force - gain_l * leg.torque
        return eq

    @wp.func
    def add_equations(x: BaseEquation, y: BaseEquation) -> BaseEquation:
        eq = BaseEquation()
        eq.aa = x.aa + y.aa
        eq.al = x.al + y.al
        eq.ll = x.ll + y.ll
        eq.moment = x.moment + y.moment
        eq.force = x.force + y.force
        return eq

    @wp.func
    def invert_base(eq: BaseEquation) -> BaseInverse:
        """Inverse of the folded base inertia."""
        aa, al, ll = sp.inverse_blocks(eq.aa, eq.al, eq.ll)
        out = BaseInverse()
        out.aa = aa
        out.al = al
        out.ll = ll
        return out

    @wp.func
    def base_response(inverse: BaseInverse, moment: sp.vec3, force: sp.vec3):
        """Change of base angular and linear velocity under an impulsive wrench on the base."""
        angular = inverse.aa * moment + inverse.al * force
        linear = wp.transpose(inverse.al) * moment + inverse.ll * force
        return angular, linear

    @wp.func
    def joint_response(
        leg: Leg, joint_impulse: sp.vec3, d_omega: sp.vec3, d_velocity: sp.vec3
    ) -> sp.vec3:
        """Change of joint velocity under a joint impulse and a change of base velocity."""
        # dq' = P (y - Fᵀ [dw; dv])
        return leg.inverse * (
            joint_impulse
            - wp.transpose(leg.coupling_a) * d_omega
            - wp.transpose(leg.coupling_l) * d_velocity
        )

    return SimpleNamespace(
        Body=Body,
        Chain=Chain,
        Leg=Leg,
        BaseEquation=BaseEquation,
        BaseInverse=BaseInverse,
        place_base=place_base,
        place_link=place_link,
        place_leg=place_leg,
        assemble_leg=assemble_leg,
        base_equation=base_equation,
        fold_leg=fold_leg,
        add_equations=add_equations,
        invert_base=invert_base,
        base_response=base_response,
        joint_response=joint_response,
    )
