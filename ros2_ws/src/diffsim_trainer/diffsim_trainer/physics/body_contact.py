"""Contact of the whole robot with the ground, HARD law, without gradient.

Every collision primitive of the robot file touches the plane with points: a box with its corners,
a cylinder with the lowest point of each end disc, a sphere with its lowest point. All are discs
(centre, axis, radius) with their lowest point at centre - radius t / |t|, t = n - (n.a) a; a sphere
has axis zero, a corner radius zero. Points that may reach the ground within the step join the feet
in one Gauss–Seidel loop over points, each solved exactly; the change of base velocity and, per leg,
of joint velocity is carried along, so no Delassus matrix is formed.
"""

from functools import cache
from itertools import product
from types import SimpleNamespace

import numpy as np
import warp as wp

from . import model as layout
from .actuator import build_actuator
from .contact import MIN_FRICTION, ContactModel, build_foot_contact
from .dynamics import build_dynamics
from .spatial import build_spatial
from .stages import build_stages
from .urdf import Robot

MAX_CONTACTS = 96  # per robot, feet included; further points are ignored
REACH = 0.005  # m, points predicted to end the step lower than this take part


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
    bodies, centres, axes, radii = (np.array(column) for column in zip(*rows, strict=True))
    order = np.argsort(bodies, kind="stable")
    return bodies[order], centres[order], axes[order], radii[order]


@cache
def build_body_contact(real) -> SimpleNamespace:
    """Structs `Discs`, `Contact`, `LegWork`; functions `collect_base`, `collect_leg`, `solve`."""
    sp, dyn, act = build_spatial(real), build_dynamics(real), build_actuator(real)
    st, contact = build_stages(real, ContactModel.HARD), build_foot_contact(real)
    Model = layout.build_model_type(real)
    vec3 = sp.vec3  # Warp does not resolve sp.vec3 as a keyword argument

    @wp.struct
    class Discs:
        """All discs, sorted by body; discs of body b are first[b] .. first[b + 1]."""

        first: wp.array(dtype=wp.int32)
        centre: wp.array(dtype=sp.vec3)
        axis: wp.array(dtype=sp.vec3)
        radius: wp.array(dtype=real)

    @wp.struct
    class Contact:
        """One point that takes part, in world axes."""

        leg: int  # 0 for the base too, whose jacobian is zero
        foot: bool
        velocity: sp.vec3  # without contact, with the shift b of the law
        own: sp.mat33  # block of G
        row_a: sp.mat33
        row_l: sp.mat33
        reply_a: sp.mat33
        reply_l: sp.mat33
        jacobian: sp.mat33  # velocity per joint velocity
        joint_reply: sp.mat33  # joint velocity per impulse with the base held
        impulse: sp.vec3

    @wp.struct
    class LegWork:
        """What the kernel keeps of a leg between its stages."""

        joints: st.LegState
        drive: act.Drive
        leg: dyn.Leg
        foot: st.Foot
        joint_change: sp.vec3  # of joint velocity by all impulses, with the base held
        foot_impulse: sp.vec3

    @wp.func
    def add_point(
        model: Model,
        mid: st.Midpoint,
        inverse: dyn.BaseInverse,
        free: st.BaseChange,
        leg: dyn.Leg,
        joint_velocity: sp.vec3,
        leg_index: int,
        point: sp.vec3,
        jacobian: sp.mat33,
        foot: bool,
        env: int,
        count: int,
        contacts: wp.array2d(dtype=Contact),
    ) -> int:
        """Append the point (base axes) if it may reach the ground; new number of contacts."""
        height = mid.position[2] + wp.dot(mid.up, point)
        R = mid.rotation
        velocity = R * (
            mid.linear
            + free.linear
            + wp.cross(mid.angular + free.angular, point)
            + jacobian * joint_velocity
        )
        if height + model.dt * velocity[2] > real(REACH) or count >= MAX_CONTACTS:
            return count
        lever = jacobian * leg.inverse
        c = Contact()
        c.leg = leg_index
        c.foot = foot
        c.velocity = velocity + sp.vec3(
            real(0.0), real(0.0), contact.hard_bias(height, model.correction, model.dt)
        )
        c.row_a = R * (-sp.skew(point) - lever * wp.transpose(leg.coupling_a))
        c.row_l = R * (sp.scaled_identity(real(1.0)) - lever * wp.transpose(leg.coupling_l))
        row_at = wp.transpose(c.row_a)
        row_lt = wp.transpose(c.row_l)
        c.reply_a = inverse.aa * row_at + inverse.al * row_lt
        c.reply_l = wp.transpose(inverse.al) * row_at + inverse.ll * row_lt
        c.jacobian = R * jacobian
        c.joint_reply = leg.inverse * wp.transpose(c.jacobian)
        c.own = c.jacobian * c.joint_reply + c.row_a * c.reply_a + c.row_l * c.reply_l
        contacts[env, count] = c
        return count + 1

    @wp.func
    def lowest_point(discs: Discs, disc: int, body: dyn.Body, up: sp.vec3) -> sp.vec3:
        axis = body.rotation * discs.axis[disc]
        down = wp.dot(up, axis) * axis - up
        reach = discs.radius[disc] / wp.max(wp.length(down), real(1.0e-6))
        return body.origin + body.rotation * discs.centre[disc] + reach * down

    @wp.func
    def collect_base(
        model: Model,
        discs: Discs,
        mid: st.Midpoint,
        inverse: dyn.BaseInverse,
        free: st.BaseChange,
        base: dyn.Body,
        env: int,
        count: int,
        contacts: wp.array2d(dtype=Contact),
    ) -> int:
        """Append the points of the base."""
        no_leg = dyn.Leg()
        n = count
        for disc in range(discs.first[0], discs.first[1]):
            point = lowest_point(discs, disc, base, mid.up)
            n = add_point(
                model,
                mid,
                inverse,
                free,
                no_leg,
                vec3(),
                0,
                point,
                sp.mat33(),
                False,
                env,
                n,
                contacts,
            )
        return n

    @wp.func
    def collect_leg(
        model: Model,
        discs: Discs,
        mid: st.Midpoint,
        inverse: dyn.BaseInverse,
        free: st.BaseChange,
        base: dyn.Body,
        work: LegWork,
        leg_index: int,
        env: int,
        count: int,
        contacts: wp.array2d(dtype=Contact),
    ) -> int:
        """Append the foot and the other points of a leg."""
        j = 3 * leg_index
        n = add_point(
            model,
            mid,
            inverse,
            free,
            work.leg,
            work.foot.joint_velocity,
            leg_index,
            work.leg.contact,
            work.leg.jacobian,
            True,
            env,
            count,
            contacts,
        )
        body = base
        axis0 = vec3()
        axis1 = vec3()
        axis2 = vec3()
        origin0 = vec3()
        origin1 = vec3()
        origin2 = vec3()
        for link in range(3):
            body = dyn.place_link(model, j + link, body, work.joints.q[link], work.joints.v[link])
            # joints behind this link keep axis zero, hence a zero column
            if link == 0:
                axis0 = body.axis
                origin0 = body.origin
            elif link == 1:
                axis1 = body.axis
                origin1 = body.origin
            else:
                axis2 = body.axis
                origin2 = body.origin
            for disc in range(discs.first[j + link + 1], discs.first[j + link + 2]):
                point = lowest_point(discs, disc, body, mid.up)
                jacobian = sp.columns(
                    wp.cross(axis0, point - origin0),
                    wp.cross(axis1, point - origin1),
                    wp.cross(axis2, point - origin2),
                )
                n = add_point(
                    model,
                    mid,
                    inverse,
                    free,
                    work.leg,
                    work.foot.joint_velocity,
                    leg_index,
                    point,
                    jacobian,
                    False,
                    env,
                    n,
                    contacts,
                )
        return n

    @wp.func
    def solve(
        env: int,
        count: int,
        friction: real,
        sweeps: int,
        contacts: wp.array2d(dtype=Contact),
        works: wp.array2d(dtype=LegWork),
    ) -> st.BaseChange:
        """Change of base velocity; joint_change and foot_impulse of the legs."""
        mu = wp.max(friction, real(MIN_FRICTION))
        angular = vec3()
        linear = vec3()
        for leg in range(4):
            works[env, leg].joint_change = vec3()
            works[env, leg].foot_impulse = vec3()
        for _sweep in range(sweeps):
            for i in range(count):
                c = contacts[env, i]
                others = (
                    c.velocity
                    + c.row_a * angular
                    + c.row_l * linear
                    + c.jacobian * works[env, c.leg].joint_change
                    - c.own * c.impulse
                )
                solution = contact.solve_foot(c.own, others, mu)
                change = vec3(solution[0], solution[1], solution[2]) - c.impulse
                angular += c.reply_a * change
                linear += c.reply_l * change
                joint_change = works[env, c.leg].joint_change
                works[env, c.leg].joint_change = joint_change + c.joint_reply * change
                contacts[env, i].impulse = c.impulse + change
        for i in range(count):
            if contacts[env, i].foot:
                works[env, contacts[env, i].leg].foot_impulse = contacts[env, i].impulse
        out = st.BaseChange()
        out.angular = angular
        out.linear = linear
        return out

    return SimpleNamespace(
        Discs=Discs,
        Contact=Contact,
        LegWork=LegWork,
        collect_base=collect_base,
        collect_leg=collect_leg,
        solve=solve,
    )


def build_discs(robot: Robot, real, device):
    """Upload the discs of `robot`."""
    bodies, centres, axes, radii = contact_discs(robot)
    spatial = build_spatial(real)
    discs = build_body_contact(real).Discs()
    first = np.searchsorted(bodies, np.arange(14)).astype(np.int32)
    discs.first = wp.array(first, dtype=wp.int32, device=device)
    discs.centre = wp.array(centres, dtype=spatial.vec3, device=device)
    discs.axis = wp.array(axes, dtype=spatial.vec3, device=device)
    discs.radius = wp.array(radii, dtype=real, device=device)
    return discs
