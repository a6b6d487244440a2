"""The stages of a step as Warp functions, shared by the kernels of `step`."""

from functools import cache
from types import SimpleNamespace

import warp as wp

from . import model as layout
from .actuator import build_actuator
from .contact import ContactModel, build_foot_contact
from .dynamics import build_dynamics
from .ground import build_ground
from .spatial import build_spatial


@cache
def build_stages(real, law: ContactModel, rough: bool) -> SimpleNamespace:
    """Structs and functions that load, advance and store a robot, for `real` and a contact law.

    rough: the ground is the height field of the model, else the plane z = 0. On the plane contact
    axes are world axes; on a height field their third is the normal under the foot.
    """
    sp, dyn, act = build_spatial(real), build_dynamics(real), build_actuator(real)
    contact = build_foot_contact(real)
    Model = layout.build_model_type(real)
    smoothed = law is ContactModel.SMOOTHED

    @wp.struct
    class BaseState:
        position: sp.vec3
        orientation: sp.quat
        linear: sp.vec3
        angular: sp.vec3

    @wp.struct
    class Params:
        """Per environment, see `model`."""

        friction: real
        added_mass: real
        com_shift: sp.vec3
        kp_scale: real
        kd_scale: real
        motor_strength: real
        kappa: real

    @wp.struct
    class LegState:
        """Joints of a leg: position at the middle of the step, old velocity, set point in force."""

        q: sp.vec3
        v: sp.vec3
        target: sp.vec3

    @wp.struct
    class Midpoint:
        """Base at the middle of the step; velocities in the axes of that moment."""

        position: sp.vec3
        orientation: sp.quat
        rotation: sp.mat33  # base to world
        up: sp.vec3  # vertical in base axes
        linear: sp.vec3
        angular: sp.vec3

    @wp.struct
    class BaseChange:
        """Change of base velocity over the step, in midpoint axes."""

        angular: sp.vec3
        linear: sp.vec3

    @wp.struct
    class Foot:
        """Contact point of a leg, in contact axes."""

        height: real  # m, at the middle of the step
        share: real  # s of the contact law
        shift: real  # b of the contact law, m/s
        velocity: sp.vec3  # m/s, after the step if there were no contact
        joint_velocity: sp.vec3  # rad/s, likewise
        own: sp.mat33  # velocity per own impulse with the base held, J P Jᵀ
        row_a: sp.mat33  # velocity per change of base angular
        row_l: sp.mat33  # and linear velocity, leg following
        reply_a: sp.mat33  # change of base angular
        reply_l: sp.mat33  # and linear velocity per impulse

    @wp.func
    def load_vec3(values: wp.array2d(dtype=real), env: int, start: int) -> sp.vec3:
        return sp.vec3(values[env, start], values[env, start + 1], values[env, start + 2])

    @wp.func
    def store_vec3(values: wp.array2d(dtype=real), env: int, start: int, v: sp.vec3):
        values[env, start] = v[0]
        values[env, start + 1] = v[1]
        values[env, start + 2] = v[2]

    @wp.func
    def load_base(state: wp.array2d(dtype=real), env: int) -> BaseState:
        base = BaseState()
        base.position = load_vec3(state, env, layout.POSITION)
        base.orientation = sp.quat(
            state[env, layout.ORIENTATION],
            state[env, layout.ORIENTATION + 1],
            state[env, layout.ORIENTATION + 2],
            state[env, layout.ORIENTATION + 3],
        )
        base.linear = load_vec3(state, env, layout.LINEAR_VELOCITY)
        base.angular = load_vec3(state, env, layout.ANGULAR_VELOCITY)
        return base

    @wp.func
    def load_params(params: wp.array2d(dtype=real), env: int) -> Params:
        out = Params()
        out.friction = params[env, layout.FRICTION]
        out.added_mass = params[env, layout.ADDED_MASS]
        out.com_shift = load_vec3(params, env, layout.COM_SHIFT)
        out.kp_scale = params[env, layout.KP_SCALE]
        out.kd_scale = params[env, layout.KD_SCALE]
        out.motor_strength = params[env, layout.MOTOR_STRENGTH]
        out.kappa = params[env, layout.KAPPA]
        return out

    @wp.func
    def load_leg(
        model: Model,
        state: wp.array2d(dtype=real),
        target_prev: wp.array2d(dtype=real),
        target: wp.array2d(dtype=real),
        env: int,
        leg: int,
        late: bool,
    ) -> LegState:
        """Leg after its first half step; `late` while the new set point is still under way."""
        out = LegState()
        out.v = load_vec3(state, env, layout.JOINT_VELOCITY + 3 * leg)
        out.q = load_vec3(state, env, layout.JOINT_POSITION + 3 * leg) + out.v * (
            real(0.5) * model.dt
        )
        if late:
            out.target = load_vec3(target_prev, env, 3 * leg)
        else:
            out.target = load_vec3(target, env, 3 * leg)
        return out

    @wp.func
    def advance_to_midpoint(model: Model, base: BaseState) -> Midpoint:
        """First half step of the base."""
        half = real(0.5) * model.dt
        orientation = wp.normalize(base.orientation)
        turn = sp.rotation_increment(base.angular, half)
        middle = orientation * turn
        rotation = wp.quat_to_matrix(middle)
        mid = Midpoint()
        mid.position = base.position + half * wp.quat_rotate(orientation, base.linear)
        mid.orientation = middle
        mid.rotation = rotation
        mid.up = sp.vec3(rotation[2, 0], rotation[2, 1], rotation[2, 2])
        mid.linear = wp.quat_rotate_inv(turn, base.linear)
        mid.angular = base.angular  # the turn is about this axis
        return mid

    @wp.func
    def place_base(model: Model, mid: Midpoint, params: Params) -> dyn.Body:
        return dyn.place_base(model, mid.angular, mid.up, params.added_mass, params.com_shift)

    @wp.func
    def drive_leg(model: Model, leg: int, joints: LegState, params: Params) -> act.Drive:
        return act.drive_leg(
            model,
            leg,
            joints.target,
            joints.q,
            joints.v,
            params.kp_scale,
            params.kd_scale,
            params.motor_strength,
        )

    if rough:
        ground = build_ground(real, rough)

        @wp.func
        def assemble_leg(
            model: Model,
            env: int,
            leg: int,
            base: dyn.Body,
            mid: Midpoint,
            joints: LegState,
            drive: act.Drive,
        ) -> dyn.Leg:
            """Leg above the tangent plane of the height field under the centre of its foot."""
            chain = dyn.place_leg(model, leg, base, joints.q, joints.v)
            centre = mid.position + mid.rotation * chain.foot
            under = ground.ground_at(model, env, centre)
            normal = sp.vec3(under[0], under[1], under[2])
            normal_b = wp.transpose(mid.rotation) * normal
            out = dyn.assemble_leg(model, leg, chain, normal_b, drive.joint, drive.damping)
            out.height = under[3] - model.foot_radius
            out.axes = ground.axes_on_ground(normal) * mid.rotation
            return out

        @wp.func
        def contact_axes(mid: Midpoint, leg: dyn.Leg) -> sp.mat33:
            """Base to contact axes."""
            return leg.axes

        @wp.func
        def contact_height(mid: Midpoint, leg: dyn.Leg) -> real:
            """Height of the contact point, m."""
            return leg.height

        @wp.func
        def to_world(mid: Midpoint, leg: dyn.Leg, v: sp.vec3) -> sp.vec3:
            """Contact to world axes."""
            return mid.rotation * (wp.transpose(leg.axes) * v)

    else:

        @wp.func
        def assemble_leg(
            model: Model,
            env: int,
            leg: int,
            base: dyn.Body,
            mid: Midpoint,
            joints: LegState,
            drive: act.Drive,
        ) -> dyn.Leg:
            """Leg above the plane."""
            chain = dyn.place_leg(model, leg, base, joints.q, joints.v)
            return dyn.assemble_leg(model, leg, chain, mid.up, drive.joint, drive.damping)

        @wp.func
        def contact_axes(mid: Midpoint, leg: dyn.Leg) -> sp.mat33:
            return mid.rotation

        @wp.func
        def contact_height(mid: Midpoint, leg: dyn.Leg) -> real:
            return mid.position[2] + wp.dot(mid.up, leg.contact)

        @wp.func
        def to_world(mid: Midpoint, leg: dyn.Leg, v: sp.vec3) -> sp.vec3:
            return v

    @wp.func
    def free_change(
        model: Model, inverse: dyn.BaseInverse, equation: dyn.BaseEquation
    ) -> BaseChange:
        """Change of base velocity without contact."""
        angular, linear = dyn.base_response(inverse, equation.moment, equation.force)
        out = BaseChange()
        out.angular = model.dt * angular
        out.linear = model.dt * linear
        return out

    @wp.func
    def assemble_foot(
        model: Model,
        mid: Midpoint,
        leg: dyn.Leg,
        joints: LegState,
        inverse: dyn.BaseInverse,
        free: BaseChange,
        kappa: real,
    ) -> Foot:
        """Contact quantities of a foot, now that the answer of the base is known."""
        R = contact_axes(mid, leg)
        joint_velocity = joints.v + dyn.joint_response(
            leg, model.dt * leg.torque, free.angular, free.linear
        )
        # v = v_b + w × r + J q'
        velocity = (
            mid.linear
            + free.linear
            + wp.cross(mid.angular + free.angular, leg.contact)
            + leg.jacobian * joint_velocity
        )
        lever = leg.jacobian * leg.inverse
        row_a = R * (-sp.skew(leg.contact) - lever * wp.transpose(leg.coupling_a))
        row_l = R * (sp.scaled_identity(real(1.0)) - lever * wp.transpose(leg.coupling_l))
        foot = Foot()
        foot.height = contact_height(mid, leg)
        foot.velocity = R * velocity
        foot.joint_velocity = joint_velocity
        foot.own = R * lever * wp.transpose(leg.jacobian) * wp.transpose(R)
        foot.row_a = row_a
        foot.row_l = row_l
        foot.reply_a = inverse.aa * wp.transpose(row_a) + inverse.al * wp.transpose(row_l)
        foot.reply_l = wp.transpose(inverse.al) * wp.transpose(row_a) + inverse.ll * wp.transpose(
            row_l
        )
        if wp.static(smoothed):
            foot.share = contact.contact_share(foot.height, kappa)
            foot.shift = contact.correction_bias(foot.height, model.correction, model.dt)
        else:
            foot.share = real(1.0)
            foot.shift = contact.hard_bias(foot.height, model.correction, model.dt)
        return foot

    @wp.func
    def shifted_velocity(foot: Foot) -> sp.vec3:
        """Velocity c that the contact law sees, with b."""
        return foot.velocity + sp.vec3(real(0.0), real(0.0), foot.shift)

    @wp.func
    def delassus(foot: Foot, reply_a: sp.mat33, reply_l: sp.mat33) -> sp.mat33:
        """Velocity of `foot` per impulse of the foot with this reply, through the base."""
        return foot.row_a * reply_a + foot.row_l * reply_l

    @wp.func
    def soft_impulse(
        model: Model, mid: Midpoint, leg: dyn.Leg, joints: LegState, foot: Foot, friction: real
    ) -> sp.vec3:
        """Impulse of the SOFT law, from the velocity before the step."""
        v = mid.linear + wp.cross(mid.angular, leg.contact) + leg.jacobian * joints.v
        return model.dt * contact.soft_force(foot.height, contact_axes(mid, leg) * v, friction)

    @wp.func
    def joint_velocity(
        mid: Midpoint, leg: dyn.Leg, foot: Foot, impulse: sp.vec3, change: BaseChange
    ) -> sp.vec3:
        """Joint velocity after the step, with this impulse on the foot."""
        impulse_b = wp.transpose(contact_axes(mid, leg)) * impulse
        joint_impulse = wp.transpose(leg.jacobian) * impulse_b
        return foot.joint_velocity + dyn.joint_response(
            leg, joint_impulse, change.angular, change.linear
        )

    @wp.func
    def foot_velocity(foot: Foot, impulse: sp.vec3, change: BaseChange) -> sp.vec3:
        """Velocity of the contact point after the step, with this impulse on the foot."""
        through_base = foot.row_a * change.angular + foot.row_l * change.linear
        return foot.velocity + foot.own * impulse + through_base

    @wp.func
    def store_leg(
        model: Model,
        env: int,
        leg_index: int,
        joints: LegState,
        v: sp.vec3,
        state: wp.array2d(dtype=real),
    ):
        """Second half step of the joints, with their new velocity v."""
        half = real(0.5) * model.dt
        store_vec3(state, env, layout.JOINT_POSITION + 3 * leg_index, joints.q + half * v)
        store_vec3(state, env, layout.JOINT_VELOCITY + 3 * leg_index, v)

    @wp.func
    def store_sensors(
        model: Model,
        env: int,
        leg_index: int,
        mid: Midpoint,
        leg: dyn.Leg,
        drive: act.Drive,
        foot: Foot,
        velocity: sp.vec3,
        impulse: sp.vec3,
        sensors: wp.array3d(dtype=real),
    ):
        """Motor torque, and height, velocity and force of the foot."""
        force = to_world(mid, leg, impulse / model.dt)
        velocity_w = to_world(mid, leg, velocity)
        sensors[env, leg_index, layout.HEIGHT] = foot.height + real(0.5) * model.dt * velocity[2]
        for axis in range(3):
            sensors[env, leg_index, layout.TORQUE + axis] = drive.motor[axis]
            sensors[env, leg_index, layout.FOOT_VELOCITY + axis] = velocity_w[axis]
            sensors[env, leg_index, layout.FOOT_FORCE + axis] = force[axis]

    @wp.func
    def store_base(
        model: Model,
        env: int,
        mid: Midpoint,
        free: BaseChange,
        change: BaseChange,
        state: wp.array2d(dtype=real),
    ):
        """Second half step of the base."""
        half = real(0.5) * model.dt
        linear = mid.linear + free.linear + change.linear
        angular = mid.angular + free.angular + change.angular
        turn = sp.rotation_increment(angular, half)
        orientation = wp.normalize(mid.orientation * turn)
        store_vec3(state, env, layout.POSITION, mid.position + half * (mid.rotation * linear))
        for axis in range(4):
            state[env, layout.ORIENTATION + axis] = orientation[axis]
        store_vec3(state, env, layout.LINEAR_VELOCITY, wp.quat_rotate_inv(turn, linear))
        store_vec3(state, env, layout.ANGULAR_VELOCITY, angular)

    return SimpleNamespace(
        BaseState=BaseState,
        Params=Params,
        LegState=LegState,
        Midpoint=Midpoint,
        BaseChange=BaseChange,
        Foot=Foot,
        contact_axes=contact_axes,
        contact_height=contact_height,
        load_vec3=load_vec3,
        load_base=load_base,
        load_params=load_params,
        load_leg=load_leg,
        advance_to_midpoint=advance_to_midpoint,
        place_base=place_base,
        drive_leg=drive_leg,
        assemble_leg=assemble_leg,
        free_change=free_change,
        assemble_foot=assemble_foot,
        shifted_velocity=shifted_velocity,
        delassus=delassus,
        soft_impulse=soft_impulse,
        joint_velocity=joint_velocity,
        foot_velocity=foot_velocity,
        store_leg=store_leg,
        store_sensors=store_sensors,
        store_base=store_base,
    )
