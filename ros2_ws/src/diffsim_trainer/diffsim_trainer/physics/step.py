"""One substep of the robot: Moreau's midpoint rule.

    x_m = x + dt/2 u            half a step with the old velocity
    M(x_m) (u' - u) = dt f(x_m, u) + Jᵀ p      all forces at the midpoint, contact impulses p
    x'  = x_m + dt/2 u'         half a step with the new velocity

The middle is solved in axes fixed at the midpoint orientation of the base. Velocities enter and
leave these axes by the same rotation increments that move the base, so a spinning robot in flight
keeps its momentum without any w × v drift term.
"""

from functools import cache
from types import SimpleNamespace

import warp as wp

from . import model as layout
from .actuator import build_actuator
from .contact import (
    ContactModel,
    build_contact_problem,
    build_feet_solver,
    build_foot_contact,
)
from .dynamics import build_dynamics
from .model import build_model_type
from .spatial import build_spatial

# offsets as Warp constants: kernels may not read module attributes of other modules
STATE_POSITION = wp.constant(layout.POSITION)
STATE_ORIENTATION = wp.constant(layout.ORIENTATION)
STATE_LINEAR = wp.constant(layout.LINEAR_VELOCITY)
STATE_ANGULAR = wp.constant(layout.ANGULAR_VELOCITY)
STATE_JOINT = wp.constant(layout.JOINT_POSITION)
STATE_RATE = wp.constant(layout.JOINT_VELOCITY)
FRICTION = wp.constant(layout.FRICTION)
ADDED_MASS = wp.constant(layout.ADDED_MASS)
COM_SHIFT = wp.constant(layout.COM_SHIFT)
KP_SCALE = wp.constant(layout.KP_SCALE)
KD_SCALE = wp.constant(layout.KD_SCALE)
MOTOR_STRENGTH = wp.constant(layout.MOTOR_STRENGTH)
KAPPA = wp.constant(layout.KAPPA)
TORQUE = wp.constant(layout.TORQUE)
HEIGHT = wp.constant(layout.HEIGHT)
FOOT_VELOCITY = wp.constant(layout.FOOT_VELOCITY)
FOOT_FORCE = wp.constant(layout.FOOT_FORCE)


@cache
def build_stages(real, contact: ContactModel, position_correction: bool) -> SimpleNamespace:
    """The stages of a step as Warp functions, shared by the CPU and GPU kernels."""
    sp, dyn, act = build_spatial(real), build_dynamics(real), build_actuator(real)
    foot_contact = build_foot_contact(real)
    vec3, mat33, quat = sp.vec3, sp.mat33, sp.quat
    rotation_increment = sp.rotation_increment
    skew, scaled_identity = sp.skew, sp.scaled_identity
    place_base, assemble_leg, joint_response = (
        dyn.place_base,
        dyn.assemble_leg,
        dyn.joint_response,
    )
    Body, Leg, BaseEquation, BaseInverse = dyn.Body, dyn.Leg, dyn.BaseEquation, dyn.BaseInverse
    Drive, drive_leg = act.Drive, act.drive_leg
    hard_bias, correction_bias = foot_contact.hard_bias, foot_contact.correction_bias
    contact_share = foot_contact.contact_share
    Model = build_model_type(real)
    smoothed = contact is ContactModel.SMOOTHED

    @wp.struct
    class Midpoint:
        """Base at the middle of the step; velocities in the axes of that moment."""

        position: vec3
        orientation: quat
        rotation: mat33  # base to world
        up: vec3  # vertical in base axes
        linear: vec3
        angular: vec3

    @wp.struct
    class BaseChange:
        """Change of base velocity, in midpoint axes."""

        angular: vec3
        linear: vec3

    @wp.struct
    class Foot:
        """Contact point of a leg, in world axes."""

        height: real  # m, at the middle of the step
        share: real
        shift: real  # b of the contact law, m/s
        velocity: vec3  # after the step if there were no contact
        own: mat33  # velocity per own impulse through the leg alone, J P Jᵀ
        row_a: mat33  # velocity per change of base angular
        row_l: mat33  # and linear velocity, legs following
        reply_a: mat33  # change of base angular
        reply_l: mat33  # and linear velocity per impulse
        drag: vec3  # joint velocity after the step if there were no contact

    @wp.func
    def load_vec3(values: wp.array2d(dtype=real), env: int, start: int) -> vec3:
        return vec3(values[env, start], values[env, start + 1], values[env, start + 2])

    @wp.func
    def store_vec3(values: wp.array2d(dtype=real), env: int, start: int, v: vec3):
        values[env, start] = v[0]
        values[env, start + 1] = v[1]
        values[env, start + 2] = v[2]

    @wp.func
    def advance_to_midpoint(state: wp.array2d(dtype=real), env: int, dt: real) -> Midpoint:
        """First half step of the base."""
        position = load_vec3(state, env, STATE_POSITION)
        orientation = wp.normalize(
            quat(
                state[env, STATE_ORIENTATION],
                state[env, STATE_ORIENTATION + 1],
                state[env, STATE_ORIENTATION + 2],
                state[env, STATE_ORIENTATION + 3],
            )
        )
        linear = load_vec3(state, env, STATE_LINEAR)
        angular = load_vec3(state, env, STATE_ANGULAR)
        half = real(0.5) * dt
        turn = rotation_increment(angular, half)
        mid = Midpoint()
        mid.position = position + half * wp.quat_rotate(orientation, linear)
        mid.orientation = orientation * turn
        mid.rotation = wp.quat_to_matrix(mid.orientation)
        mid.up = vec3(mid.rotation[2, 0], mid.rotation[2, 1], mid.rotation[2, 2])
        mid.linear = wp.quat_rotate_inv(turn, linear)
        mid.angular = angular  # the turn is about this axis
        return mid

    @wp.func
    def drive_joints(
        model: Model,
        leg: int,
        env: int,
        target: vec3,
        q: vec3,
        v: vec3,
        params: wp.array2d(dtype=real),
    ) -> Drive:
        return drive_leg(
            model,
            leg,
            target,
            q,
            v,
            params[env, KP_SCALE],
            params[env, KD_SCALE],
            params[env, MOTOR_STRENGTH],
        )

    @wp.func
    def choose_target(
        target_prev: wp.array2d(dtype=real),
        target: wp.array2d(dtype=real),
        env: int,
        leg: int,
        late: bool,
    ) -> vec3:
        """Set point in force: the previous one while the command is under way."""
        old = load_vec3(target_prev, env, 3 * leg)
        new = load_vec3(target, env, 3 * leg)
        return wp.where(late, old, new)

    @wp.func
    def load_base(model: Model, mid: Midpoint, params: wp.array2d(dtype=real), env: int) -> Body:
        return place_base(
            model,
            mid.angular,
            mid.up,
            params[env, ADDED_MASS],
            load_vec3(params, env, COM_SHIFT),
        )

    @wp.func
    def free_change(inverse: BaseInverse, eq: BaseEquation, dt: real) -> BaseChange:
        """Change of base velocity without contact."""
        out = BaseChange()
        out.angular = dt * (inverse.aa * eq.moment + inverse.al * eq.force)
        out.linear = dt * (wp.transpose(inverse.al) * eq.moment + inverse.ll * eq.force)
        return out

    @wp.func
    def assemble_foot(
        model: Model,
        mid: Midpoint,
        leg: Leg,
        inverse: BaseInverse,
        free: BaseChange,
        v: vec3,
        kappa: real,
    ) -> Foot:
        """Contact quantities of a foot once the base can be moved."""
        dt = model.dt
        R = mid.rotation
        joint_free = v + joint_response(leg, dt * leg.torque, free.angular, free.linear)
        # v = v_b + w × r + J q'
        velocity = (
            mid.linear
            + free.linear
            + wp.cross(mid.angular + free.angular, leg.contact)
            + leg.jacobian * joint_free
        )
        JP = leg.jacobian * leg.inverse
        row_a = R * (-skew(leg.contact) - JP * wp.transpose(leg.coupling_a))
        row_l = R * (scaled_identity(real(1.0)) - JP * wp.transpose(leg.coupling_l))
        row_at = wp.transpose(row_a)
        row_lt = wp.transpose(row_l)
        foot = Foot()
        foot.height = mid.position[2] + wp.dot(mid.up, leg.contact)
        foot.velocity = R * velocity
        foot.own = R * JP * wp.transpose(leg.jacobian) * wp.transpose(R)
        foot.row_a = row_a
        foot.row_l = row_l
        foot.reply_a = inverse.aa * row_at + inverse.al * row_lt
        foot.reply_l = wp.transpose(inverse.al) * row_at + inverse.ll * row_lt
        foot.drag = joint_free
        if wp.static(smoothed):
            foot.share = contact_share(foot.height, kappa)
            if wp.static(position_correction):
                foot.shift = correction_bias(foot.height, dt)
        else:
            foot.share = real(1.0)
            foot.shift = hard_bias(foot.height, dt)
        return foot

    @wp.func
    def shifted_velocity(foot: Foot) -> vec3:
        return foot.velocity + vec3(real(0.0), real(0.0), foot.shift)

    @wp.func
    def delassus(x: Foot, y: Foot) -> mat33:
        """Velocity of foot x per impulse of another foot y, through the base."""
        return x.row_a * y.reply_a + x.row_l * y.reply_l

    @wp.func
    def joint_velocity(mid: Midpoint, leg: Leg, foot: Foot, p: vec3, change: BaseChange) -> vec3:
        """Joint velocity after the step, with impulse p on the foot."""
        joint_impulse = wp.transpose(leg.jacobian) * (wp.transpose(mid.rotation) * p)
        return foot.drag + joint_response(leg, joint_impulse, change.angular, change.linear)

    @wp.func
    def store_leg(
        model: Model,
        env: int,
        leg: int,
        q_mid: vec3,
        v: vec3,
        drive: Drive,
        foot: Foot,
        p: vec3,
        change: BaseChange,
        state: wp.array2d(dtype=real),
        sensors: wp.array3d(dtype=real),
    ):
        """Second half step of the joints; sensors of the leg."""
        half = real(0.5) * model.dt
        store_vec3(state, env, STATE_JOINT + 3 * leg, q_mid + half * v)
        store_vec3(state, env, STATE_RATE + 3 * leg, v)
        velocity = (
            foot.velocity + foot.own * p + foot.row_a * change.angular + foot.row_l * change.linear
        )
        force = p / model.dt
        sensors[env, leg, HEIGHT] = foot.height + half * velocity[2]
        for axis in range(3):
            sensors[env, leg, TORQUE + axis] = drive.motor[axis]
            sensors[env, leg, FOOT_VELOCITY + axis] = velocity[axis]
            sensors[env, leg, FOOT_FORCE + axis] = force[axis]

    @wp.func
    def store_base(
        env: int,
        dt: real,
        mid: Midpoint,
        free: BaseChange,
        change: BaseChange,
        state: wp.array2d(dtype=real),
    ):
        """Second half step of the base."""
        half = real(0.5) * dt
        linear = mid.linear + free.linear + change.linear
        angular = mid.angular + free.angular + change.angular
        turn = rotation_increment(angular, half)
        orientation = wp.normalize(mid.orientation * turn)
        store_vec3(state, env, STATE_POSITION, mid.position + half * (mid.rotation * linear))
        for axis in range(4):
            state[env, STATE_ORIENTATION + axis] = orientation[axis]
        store_vec3(state, env, STATE_LINEAR, wp.quat_rotate_inv(turn, linear))
        store_vec3(state, env, STATE_ANGULAR, angular)

    return SimpleNamespace(**{k: v for k, v in locals().items() if not k.startswith("_")})


@cache
def build_robot_kernel(
    real, contact: ContactModel, sweeps: int, position_correction: bool, backward: bool
):
    """Kernel with one thread per robot."""
    st = build_stages(real, contact, position_correction)
    dyn = build_dynamics(real)
    vec3, vec4 = st.vec3, build_spatial(real).vec4
    Model = build_model_type(real)
    Problem = build_contact_problem(real)
    solve_feet = build_feet_solver(real, sweeps)
    BaseChange, Midpoint, Foot, Leg, Drive = st.BaseChange, st.Midpoint, st.Foot, st.Leg, st.Drive
    load_vec3, advance_to_midpoint, load_base = st.load_vec3, st.advance_to_midpoint, st.load_base
    choose_target, drive_joints, assemble_leg = st.choose_target, st.drive_joints, st.assemble_leg
    base_equation, fold_leg, add_equations = dyn.base_equation, dyn.fold_leg, dyn.add_equations
    invert_base, free_change, assemble_foot = dyn.invert_base, st.free_change, st.assemble_foot
    shifted_velocity, delassus = st.shifted_velocity, st.delassus
    joint_velocity, store_leg, store_base = st.joint_velocity, st.store_leg, st.store_base

    @wp.func
    def pose_problem(f0: Foot, f1: Foot, f2: Foot, f3: Foot, friction: real) -> Problem:
        m = Problem()
        m.g00 = f0.own + delassus(f0, f0)
        m.g11 = f1.own + delassus(f1, f1)
        m.g22 = f2.own + delassus(f2, f2)
        m.g33 = f3.own + delassus(f3, f3)
        m.g01 = delassus(f0, f1)
        m.g02 = delassus(f0, f2)
        m.g03 = delassus(f0, f3)
        m.g12 = delassus(f1, f2)
        m.g13 = delassus(f1, f3)
        m.g23 = delassus(f2, f3)
        m.c0 = shifted_velocity(f0)
        m.c1 = shifted_velocity(f1)
        m.c2 = shifted_velocity(f2)
        m.c3 = shifted_velocity(f3)
        m.share = vec4(f0.share, f1.share, f2.share, f3.share)
        m.friction = friction
        return m

    @wp.func
    def contact_change(
        f0: Foot, f1: Foot, f2: Foot, f3: Foot, p0: vec3, p1: vec3, p2: vec3, p3: vec3
    ) -> BaseChange:
        """Change of base velocity by the impulses."""
        out = BaseChange()
        out.angular = f0.reply_a * p0 + f1.reply_a * p1 + f2.reply_a * p2 + f3.reply_a * p3
        out.linear = f0.reply_l * p0 + f1.reply_l * p1 + f2.reply_l * p2 + f3.reply_l * p3
        return out

    @wp.kernel(module="unique", enable_backward=backward)
    def step_robot(
        model: Model,
        state_in: wp.array2d(dtype=real),
        target_prev: wp.array2d(dtype=real),
        target: wp.array2d(dtype=real),
        params: wp.array2d(dtype=real),
        delay_steps: wp.array(dtype=wp.int32),
        substep: int,
        state_out: wp.array2d(dtype=real),
        sensors_out: wp.array3d(dtype=real),
    ):
        env = wp.tid()
        dt = model.dt
        half = real(0.5) * dt
        late = substep < delay_steps[env]
        kappa = params[env, KAPPA]

        # first half step
        mid = advance_to_midpoint(state_in, env, dt)
        v0 = load_vec3(state_in, env, STATE_RATE)
        v1 = load_vec3(state_in, env, STATE_RATE + 3)
        v2 = load_vec3(state_in, env, STATE_RATE + 6)
        v3 = load_vec3(state_in, env, STATE_RATE + 9)
        q0 = load_vec3(state_in, env, STATE_JOINT) + half * v0
        q1 = load_vec3(state_in, env, STATE_JOINT + 3) + half * v1
        q2 = load_vec3(state_in, env, STATE_JOINT + 6) + half * v2
        q3 = load_vec3(state_in, env, STATE_JOINT + 9) + half * v3

        # drives
        t0 = choose_target(target_prev, target, env, 0, late)
        t1 = choose_target(target_prev, target, env, 1, late)
        t2 = choose_target(target_prev, target, env, 2, late)
        t3 = choose_target(target_prev, target, env, 3, late)
        drive0 = drive_joints(model, 0, env, t0, q0, v0, params)
        drive1 = drive_joints(model, 1, env, t1, q1, v1, params)
        drive2 = drive_joints(model, 2, env, t2, q2, v2, params)
        drive3 = drive_joints(model, 3, env, t3, q3, v3, params)

        # equations of motion, folded onto the base
        base = load_base(model, mid, params, env)
        leg0 = assemble_leg(model, 0, base, mid.up, q0, v0, drive0.joint, drive0.damping)
        leg1 = assemble_leg(model, 1, base, mid.up, q1, v1, drive1.joint, drive1.damping)
        leg2 = assemble_leg(model, 2, base, mid.up, q2, v2, drive2.joint, drive2.damping)
        leg3 = assemble_leg(model, 3, base, mid.up, q3, v3, drive3.joint, drive3.damping)
        front = add_equations(fold_leg(leg0), fold_leg(leg1))
        hind = add_equations(fold_leg(leg2), fold_leg(leg3))
        eq = add_equations(base_equation(base), add_equations(front, hind))
        inverse = invert_base(eq)
        free = free_change(inverse, eq, dt)

        # contact
        foot0 = assemble_foot(model, mid, leg0, inverse, free, v0, kappa)
        foot1 = assemble_foot(model, mid, leg1, inverse, free, v1, kappa)
        foot2 = assemble_foot(model, mid, leg2, inverse, free, v2, kappa)
        foot3 = assemble_foot(model, mid, leg3, inverse, free, v3, kappa)
        problem = pose_problem(foot0, foot1, foot2, foot3, params[env, FRICTION])
        p0, p1, p2, p3 = solve_feet(problem)
        change = contact_change(foot0, foot1, foot2, foot3, p0, p1, p2, p3)

        # second half step
        w0 = joint_velocity(mid, leg0, foot0, p0, change)
        w1 = joint_velocity(mid, leg1, foot1, p1, change)
        w2 = joint_velocity(mid, leg2, foot2, p2, change)
        w3 = joint_velocity(mid, leg3, foot3, p3, change)
        store_base(env, dt, mid, free, change, state_out)
        store_leg(model, env, 0, q0, w0, drive0, foot0, p0, change, state_out, sensors_out)
        store_leg(model, env, 1, q1, w1, drive1, foot1, p1, change, state_out, sensors_out)
        store_leg(model, env, 2, q2, w2, drive2, foot2, p2, change, state_out, sensors_out)
        store_leg(model, env, 3, q3, w3, drive3, foot3, p3, change, state_out, sensors_out)

    return step_robot
