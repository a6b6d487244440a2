"""Contact of the whole robot with the ground, HARD law, without gradient.

The discs of the robot (`discs.py`) that may reach the ground within the step join the feet in one
Gauss–Seidel loop over points, each solved exactly; the change of base velocity and, per leg, of
joint velocity is carried along, so no Delassus matrix is formed. On a height field a disc touches
with its point nearest to the tangent plane under its centre, in axes whose third is the normal
under that point.
"""

from functools import cache
from types import SimpleNamespace

import warp as wp

from . import model as layout
from .actuator import build_actuator
from .contact import MIN_FRICTION, ContactModel, build_foot_contact
from .discs import build_disc_functions
from .dynamics import build_dynamics
from .ground import build_ground
from .spatial import build_spatial
from .stages import build_stages

MAX_CONTACTS = 96  # per robot, feet included; further points are ignored
REACH = 0.005  # m, points predicted to end the step lower than this take part


@cache
def build_body_contact(real, rough: bool) -> SimpleNamespace:
    """Structs `Contact`, `LegWork`; functions `collect_base`, `collect_leg`, `solve`."""
    sp, dyn, act = build_spatial(real), build_dynamics(real), build_actuator(real)
    st, contact = build_stages(real, ContactModel.HARD, rough), build_foot_contact(real)
    ground, disc_functions = build_ground(real, rough), build_disc_functions(real)
    Discs, nearest_point = disc_functions.Discs, disc_functions.nearest_point
    Model = layout.build_model_type(real)
    vec3 = sp.vec3  # Warp does not resolve sp.vec3 as a keyword argument

    @wp.struct
    class Contact:
        """One point that takes part, in contact axes."""

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
        height: real,
        R: sp.mat33,
        foot: bool,
        env: int,
        count: int,
        contacts: wp.array2d(dtype=Contact),
    ) -> int:
        """Append the point (base axes) if it may reach the ground; new number of contacts.

        height m; R base to contact axes.
        """
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
    def find_point(
        model: Model, discs: Discs, disc: int, env: int, mid: st.Midpoint, body: dyn.Body
    ) -> sp.vec3:
        """Point of a disc that is nearest to the ground, base axes."""
        R = mid.rotation
        centre = body.origin + body.rotation * discs.centre[disc]
        under = ground.ground_at(model, env, mid.position + R * centre)
        normal = wp.transpose(R) * sp.vec3(under[0], under[1], under[2])
        return nearest_point(centre, body.rotation * discs.axis[disc], discs.radius[disc], normal)

    @wp.func
    def ground_under(model: Model, env: int, mid: st.Midpoint, point: sp.vec3):
        """Height (m) of a point in base axes, and the matrix from base to contact axes there."""
        under = ground.ground_at(model, env, mid.position + mid.rotation * point)
        normal = sp.vec3(under[0], under[1], under[2])
        return under[3], ground.axes_on_ground(normal) * mid.rotation

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
            point = find_point(model, discs, disc, env, mid, base)
            height, axes = ground_under(model, env, mid, point)
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
                height,
                axes,
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
            st.contact_height(mid, work.leg),
            st.contact_axes(mid, work.leg),
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
                point = find_point(model, discs, disc, env, mid, body)
                height, axes = ground_under(model, env, mid, point)
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
                    height,
                    axes,
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
        Contact=Contact,
        LegWork=LegWork,
        collect_base=collect_base,
        collect_leg=collect_leg,
        solve=solve,
    )
