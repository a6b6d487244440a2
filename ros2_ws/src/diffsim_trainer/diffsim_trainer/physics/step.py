"""One substep of a robot: Moreau's midpoint rule.

    x_m = x + dt/2 u                               half a step with the old velocity
    M(x_m) (u' - u) = dt f(x_m, u) + Jᵀ p          all forces at the midpoint, contact impulses p
    x'  = x_m + dt/2 u'                            half a step with the new velocity

The middle is solved in axes fixed at the midpoint orientation of the base. Velocities enter and
leave these axes by the same rotation increments that move the base, so a spinning robot in flight
keeps its momentum without an explicit w × v term.

`build_robot_kernel` has one thread per robot, `build_lane_kernel` one GPU lane per leg, and
`build_body_kernel` adds contacts of the whole body; all call the same stages in the same order.
"""

from functools import cache

import warp as wp

from .body_contact import build_body_contact
from .contact import ContactModel
from .discs import build_disc_functions
from .dynamics import build_dynamics
from .feet import build_feet_solver, build_lane_solver
from .lanes import build_lanes
from .model import build_model_type
from .spatial import build_spatial
from .stages import build_stages

# For Clang: 0 + x is x, which saves the first addition to every cotangent. Flags that fuse or
# reorder sums are faster still, but then states differ with and without gradient in the last bit.
CPU_FLAGS = "-fno-signed-zeros"
LANE_BLOCK = 32  # threads per block of the lane kernel: 8 robots


@cache
def build_robot_kernel(real, law: ContactModel, rough: bool):
    """Kernel with one thread per robot, launched over [num_envs]."""
    sp, dyn = build_spatial(real), build_dynamics(real)
    st, feet = build_stages(real, law, rough), build_feet_solver(real)
    Model = build_model_type(real)
    soft = law is ContactModel.SOFT

    @wp.func
    def own_block(foot: st.Foot) -> sp.mat33:
        return foot.own + st.delassus(foot, foot.reply_a, foot.reply_l)

    @wp.func
    def cross_block(foot: st.Foot, other: st.Foot) -> sp.mat33:
        return st.delassus(foot, other.reply_a, other.reply_l)

    @wp.func
    def pose_problem(
        foot0: st.Foot, foot1: st.Foot, foot2: st.Foot, foot3: st.Foot, friction: real
    ) -> feet.Problem:
        m = feet.Problem()
        m.g00 = own_block(foot0)
        m.g11 = own_block(foot1)
        m.g22 = own_block(foot2)
        m.g33 = own_block(foot3)
        m.g01 = cross_block(foot0, foot1)
        m.g02 = cross_block(foot0, foot2)
        m.g03 = cross_block(foot0, foot3)
        m.g12 = cross_block(foot1, foot2)
        m.g13 = cross_block(foot1, foot3)
        m.g23 = cross_block(foot2, foot3)
        m.c0 = st.shifted_velocity(foot0)
        m.c1 = st.shifted_velocity(foot1)
        m.c2 = st.shifted_velocity(foot2)
        m.c3 = st.shifted_velocity(foot3)
        m.share = sp.vec4(foot0.share, foot1.share, foot2.share, foot3.share)
        m.friction = friction
        return m

    @wp.func
    def contact_change(
        foot0: st.Foot,
        foot1: st.Foot,
        foot2: st.Foot,
        foot3: st.Foot,
        p0: sp.vec3,
        p1: sp.vec3,
        p2: sp.vec3,
        p3: sp.vec3,
    ) -> st.BaseChange:
        """Change of base velocity by the impulses."""
        out = st.BaseChange()
        out.angular = (foot0.reply_a * p0 + foot1.reply_a * p1) + (
            foot2.reply_a * p2 + foot3.reply_a * p3
        )
        out.linear = (foot0.reply_l * p0 + foot1.reply_l * p1) + (
            foot2.reply_l * p2 + foot3.reply_l * p3
        )
        return out

    cpu_flags = f"{wp.config.cpu_compiler_flags or ''} {CPU_FLAGS}"

    @wp.kernel(module="unique", module_options={"cpu_compiler_flags": cpu_flags})
    def step_robot(
        model: Model,
        state_in: wp.array2d(dtype=real),
        target_prev: wp.array2d(dtype=real),
        target: wp.array2d(dtype=real),
        params_in: wp.array2d(dtype=real),
        delay_steps: wp.array(dtype=wp.int32),
        substep: int,
        state_out: wp.array2d(dtype=real),
        sensors_out: wp.array3d(dtype=real),
    ):
        env = wp.tid()
        late = substep < delay_steps[env]
        params = st.load_params(params_in, env)

        # half a step with the old velocity
        mid = st.advance_to_midpoint(model, st.load_base(state_in, env))
        joints0 = st.load_leg(model, state_in, target_prev, target, env, 0, late)
        joints1 = st.load_leg(model, state_in, target_prev, target, env, 1, late)
        joints2 = st.load_leg(model, state_in, target_prev, target, env, 2, late)
        joints3 = st.load_leg(model, state_in, target_prev, target, env, 3, late)

        # forces at the midpoint, legs folded onto the base
        drive0 = st.drive_leg(model, 0, joints0, params)
        drive1 = st.drive_leg(model, 1, joints1, params)
        drive2 = st.drive_leg(model, 2, joints2, params)
        drive3 = st.drive_leg(model, 3, joints3, params)
        base = st.place_base(model, mid, params)
        leg0 = st.assemble_leg(model, env, 0, base, mid, joints0, drive0)
        leg1 = st.assemble_leg(model, env, 1, base, mid, joints1, drive1)
        leg2 = st.assemble_leg(model, env, 2, base, mid, joints2, drive2)
        leg3 = st.assemble_leg(model, env, 3, base, mid, joints3, drive3)
        front = dyn.add_equations(dyn.fold_leg(leg0), dyn.fold_leg(leg1))
        hind = dyn.add_equations(dyn.fold_leg(leg2), dyn.fold_leg(leg3))
        equation = dyn.add_equations(dyn.base_equation(base), dyn.add_equations(front, hind))
        inverse = dyn.invert_base(equation)
        free = st.free_change(model, inverse, equation)

        # contact
        foot0 = st.assemble_foot(model, mid, leg0, joints0, inverse, free, params.kappa)
        foot1 = st.assemble_foot(model, mid, leg1, joints1, inverse, free, params.kappa)
        foot2 = st.assemble_foot(model, mid, leg2, joints2, inverse, free, params.kappa)
        foot3 = st.assemble_foot(model, mid, leg3, joints3, inverse, free, params.kappa)
        if wp.static(soft):
            p0 = st.soft_impulse(model, mid, leg0, joints0, foot0, params.friction)
            p1 = st.soft_impulse(model, mid, leg1, joints1, foot1, params.friction)
            p2 = st.soft_impulse(model, mid, leg2, joints2, foot2, params.friction)
            p3 = st.soft_impulse(model, mid, leg3, joints3, foot3, params.friction)
        else:
            problem = pose_problem(foot0, foot1, foot2, foot3, params.friction)
            p0, p1, p2, p3 = feet.solve(problem, model.sweeps)
        change = contact_change(foot0, foot1, foot2, foot3, p0, p1, p2, p3)

        # half a step with the new velocity
        st.store_base(model, env, mid, free, change, state_out)
        v0 = st.joint_velocity(mid, leg0, foot0, p0, change)
        v1 = st.joint_velocity(mid, leg1, foot1, p1, change)
        v2 = st.joint_velocity(mid, leg2, foot2, p2, change)
        v3 = st.joint_velocity(mid, leg3, foot3, p3, change)
        st.store_leg(model, env, 0, joints0, v0, state_out)
        st.store_leg(model, env, 1, joints1, v1, state_out)
        st.store_leg(model, env, 2, joints2, v2, state_out)
        st.store_leg(model, env, 3, joints3, v3, state_out)
        u0 = st.foot_velocity(foot0, p0, change)
        u1 = st.foot_velocity(foot1, p1, change)
        u2 = st.foot_velocity(foot2, p2, change)
        u3 = st.foot_velocity(foot3, p3, change)
        st.store_sensors(model, env, 0, mid, leg0, drive0, foot0, u0, p0, sensors_out)
        st.store_sensors(model, env, 1, mid, leg1, drive1, foot1, u1, p1, sensors_out)
        st.store_sensors(model, env, 2, mid, leg2, drive2, foot2, u2, p2, sensors_out)
        st.store_sensors(model, env, 3, mid, leg3, drive3, foot3, u3, p3, sensors_out)

    return step_robot


@cache
def build_body_kernel(real, rough: bool):
    """Kernel with one thread per robot: HARD contact of the whole body, no gradient.

    works [num_envs, 4] and contacts [num_envs, MAX_CONTACTS] are scratch.
    """
    sp, dyn = build_spatial(real), build_dynamics(real)
    st, body = build_stages(real, ContactModel.HARD, rough), build_body_contact(real, rough)
    Discs = build_disc_functions(real).Discs
    Model = build_model_type(real)

    @wp.kernel(module="unique", module_options={"max_unroll": 1}, enable_backward=False)
    def step_body(
        model: Model,
        state_in: wp.array2d(dtype=real),
        target_prev: wp.array2d(dtype=real),
        target: wp.array2d(dtype=real),
        params_in: wp.array2d(dtype=real),
        delay_steps: wp.array(dtype=wp.int32),
        substep: int,
        discs: Discs,
        works: wp.array2d(dtype=body.LegWork),
        contacts: wp.array2d(dtype=body.Contact),
        state_out: wp.array2d(dtype=real),
        sensors_out: wp.array3d(dtype=real),
    ):
        env = wp.tid()
        late = substep < delay_steps[env]
        params = st.load_params(params_in, env)

        # half a step with the old velocity, forces at the midpoint, legs folded onto the base
        mid = st.advance_to_midpoint(model, st.load_base(state_in, env))
        base = st.place_base(model, mid, params)
        equation = dyn.base_equation(base)
        for i in range(4):
            work = body.LegWork()
            work.joints = st.load_leg(model, state_in, target_prev, target, env, i, late)
            work.drive = st.drive_leg(model, i, work.joints, params)
            work.leg = st.assemble_leg(model, env, i, base, mid, work.joints, work.drive)
            equation = dyn.add_equations(equation, dyn.fold_leg(work.leg))
            works[env, i] = work
        inverse = dyn.invert_base(equation)
        free = st.free_change(model, inverse, equation)

        # contact
        count = body.collect_base(model, discs, mid, inverse, free, base, env, 0, contacts)
        for i in range(4):
            work = works[env, i]
            work.foot = st.assemble_foot(
                model, mid, work.leg, work.joints, inverse, free, params.kappa
            )
            works[env, i] = work
            count = body.collect_leg(
                model, discs, mid, inverse, free, base, work, i, env, count, contacts
            )
        change = body.solve(env, count, params.friction, model.sweeps, contacts, works)

        # half a step with the new velocity
        st.store_base(model, env, mid, free, change, state_out)
        for i in range(4):
            work = works[env, i]
            v = (
                work.foot.joint_velocity
                + work.joint_change
                + dyn.joint_response(work.leg, sp.vec3(), change.angular, change.linear)
            )
            st.store_leg(model, env, i, work.joints, v, state_out)
            u = (
                work.foot.velocity
                + st.contact_axes(mid, work.leg) * (work.leg.jacobian * work.joint_change)
                + work.foot.row_a * change.angular
                + work.foot.row_l * change.linear
            )
            st.store_sensors(
                model,
                env,
                i,
                mid,
                work.leg,
                work.drive,
                work.foot,
                u,
                work.foot_impulse,
                sensors_out,
            )

    return step_body


@cache
def build_lane_kernel(real, law: ContactModel, rough: bool, max_sweeps: int):
    """CUDA kernel with one lane per leg, launched over [num_envs, 4] with blocks of LANE_BLOCK.

    max_sweeps: the largest model.sweeps it may be launched with.

    What concerns the base is computed by all four lanes alike; `share_*` gives its gradient to one.
    """
    sp, dyn, lanes = build_spatial(real), build_dynamics(real), build_lanes(real)
    st, feet = build_stages(real, law, rough), build_lane_solver(real, max_sweeps)
    Model = build_model_type(real)
    soft = law is ContactModel.SOFT

    @wp.func
    def share_base(base: st.BaseState) -> st.BaseState:
        out = st.BaseState()
        out.position = lanes.share_vec3(base.position)
        out.orientation = lanes.share_quat(base.orientation)
        out.linear = lanes.share_vec3(base.linear)
        out.angular = lanes.share_vec3(base.angular)
        return out

    @wp.func
    def share_params(params: st.Params) -> st.Params:
        out = st.Params()
        out.friction = lanes.share_real(params.friction)
        out.added_mass = lanes.share_real(params.added_mass)
        out.com_shift = lanes.share_vec3(params.com_shift)
        out.kp_scale = lanes.share_real(params.kp_scale)
        out.kd_scale = lanes.share_real(params.kd_scale)
        out.motor_strength = lanes.share_real(params.motor_strength)
        out.kappa = lanes.share_real(params.kappa)
        return out

    @wp.func
    def sum_equations(eq: dyn.BaseEquation) -> dyn.BaseEquation:
        out = dyn.BaseEquation()
        out.aa = lanes.sum_mat33(eq.aa)
        out.al = lanes.sum_mat33(eq.al)
        out.ll = lanes.sum_mat33(eq.ll)
        out.moment = lanes.sum_vec3(eq.moment)
        out.force = lanes.sum_vec3(eq.force)
        return out

    @wp.func
    def across_block(foot: st.Foot, mask: int) -> sp.mat33:
        """Block of G toward the foot of lane ^ mask."""
        return st.delassus(
            foot,
            lanes.exchange_mat33(foot.reply_a, mask),
            lanes.exchange_mat33(foot.reply_l, mask),
        )

    @wp.func
    def pose_problem(foot: st.Foot, friction: real) -> feet.Problem:
        m = feet.Problem()
        m.own = foot.own + st.delassus(foot, foot.reply_a, foot.reply_l)
        m.across1 = across_block(foot, 1)
        m.across2 = across_block(foot, 2)
        m.across3 = across_block(foot, 3)
        m.c = st.shifted_velocity(foot)
        m.share = foot.share
        m.friction = friction
        return m

    @wp.func
    def contact_change(foot: st.Foot, p: sp.vec3) -> st.BaseChange:
        out = st.BaseChange()
        out.angular = lanes.sum_vec3(foot.reply_a * p)
        out.linear = lanes.sum_vec3(foot.reply_l * p)
        return out

    @wp.kernel(
        module="unique",
        module_options={"fast_math": True},
        launch_bounds=64,
        grid_stride=False,
    )
    def step_lanes(
        model: Model,
        state_in: wp.array2d(dtype=real),
        target_prev: wp.array2d(dtype=real),
        target: wp.array2d(dtype=real),
        params_in: wp.array2d(dtype=real),
        delay_steps: wp.array(dtype=wp.int32),
        substep: int,
        state_out: wp.array2d(dtype=real),
        sensors_out: wp.array3d(dtype=real),
    ):
        env, lane = wp.tid()
        late = substep < delay_steps[env]
        params = share_params(st.load_params(params_in, env))

        # half a step with the old velocity
        mid = st.advance_to_midpoint(model, share_base(st.load_base(state_in, env)))
        joints = st.load_leg(model, state_in, target_prev, target, env, lane, late)

        # forces at the midpoint, legs folded onto the base
        drive = st.drive_leg(model, lane, joints, params)
        base = st.place_base(model, mid, params)
        leg = st.assemble_leg(model, env, lane, base, mid, joints, drive)
        equation = dyn.add_equations(dyn.base_equation(base), sum_equations(dyn.fold_leg(leg)))
        inverse = dyn.invert_base(equation)
        free = st.free_change(model, inverse, equation)

        # contact
        foot = st.assemble_foot(model, mid, leg, joints, inverse, free, params.kappa)
        if wp.static(soft):
            p = st.soft_impulse(model, mid, leg, joints, foot, params.friction)
        else:
            p = feet.solve(lane, pose_problem(foot, params.friction), model.sweeps)
        change = contact_change(foot, p)

        # half a step with the new velocity
        if lane == 0:
            st.store_base(model, env, mid, free, change, state_out)
        v = st.joint_velocity(mid, leg, foot, p, change)
        st.store_leg(model, env, lane, joints, v, state_out)
        u = st.foot_velocity(foot, p, change)
        st.store_sensors(model, env, lane, mid, leg, drive, foot, u, p, sensors_out)

    return step_lanes
