"""Joint drive: PD set point → DC motor → joint friction.

    demand   t  = kp (q* - q) - kd v
    limits   hi = clamp(T_s (1 - v / v_max), 0, T_max),  lo = -clamp(T_s (1 + v / v_max), 0, T_max)
    drive    T  = strength * soft_clamp(t, lo, hi)
    joint    T - b v - c tanh(v / v_c)

`soft_clamp` is a clamp with rounded corners, so that the gradient is continuous at saturation. The
drive also returns how much it resists a change of joint velocity, b + strength kd d(soft_clamp)/dt:
the step treats that part implicitly, which keeps stiff gains stable at any time step.
"""

from functools import cache
from types import SimpleNamespace

import warp as wp

from .model import build_frozen, build_model_type
from .spatial import build_spatial

COULOMB_VELOCITY = 0.1  # rad/s, width v_c of the smooth Coulomb friction
MAX_DEMAND = 4.0  # demands beyond this multiple of the torque range are equal; keeps y^20 finite


@cache
def build_actuator(real) -> SimpleNamespace:
    """Struct `Drive` and function `drive_leg` for `real`."""
    sp = build_spatial(real)
    Model, frozen = build_model_type(real), build_frozen(real)

    @wp.struct
    class Drive:
        """Of one leg: torque of the motors, torque on the joints, implicit damping."""

        motor: sp.vec3
        joint: sp.vec3
        damping: sp.vec3

    @wp.func
    def soft_clamp(demand: real, lower: real, upper: real):
        """Rounded clamp and its slope: exact to 0.1 % below 80 % of the range, 3.5 % low at it."""
        # y / (1 + y^20)^(1/20), slope (1 + y^20)^(-21/20)
        centre = real(0.5) * (upper + lower)
        half = real(0.5) * (upper - lower)
        y = wp.clamp((demand - centre) / half, real(-MAX_DEMAND), real(MAX_DEMAND))
        y4 = y * y * y * y
        y16 = y4 * y4 * y4 * y4
        root = wp.pow(real(1.0) + y16 * y4, real(-0.05))
        slope = root / (real(1.0) + y16 * y4)
        return centre + half * y * root, slope

    @wp.func
    def drive_joint(
        model: Model,
        joint: int,
        target: real,
        q: real,
        v: real,
        kp_scale: real,
        kd_scale: real,
        strength: real,
    ):
        """Motor torque, joint torque and implicit damping of one joint."""
        speed = v / model.velocity_limit
        stall = model.saturation_torque
        zero = real(0.0)
        upper = wp.clamp(stall * (real(1.0) - speed), zero, model.torque_limit)
        lower = -wp.clamp(stall * (real(1.0) + speed), zero, model.torque_limit)
        kd = model.kd * kd_scale
        demand = model.kp * kp_scale * (target - q) - kd * v
        torque, slope = soft_clamp(demand, lower, upper)
        motor = strength * torque
        friction = frozen.real(model.viscous, joint) * v + frozen.real(
            model.coulomb, joint
        ) * wp.tanh(v / real(COULOMB_VELOCITY))
        return motor, motor - friction, frozen.real(model.viscous, joint) + strength * kd * slope

    @wp.func
    def drive_leg(
        model: Model,
        leg: int,
        target: sp.vec3,
        q: sp.vec3,
        v: sp.vec3,
        kp_scale: real,
        kd_scale: real,
        strength: real,
    ) -> Drive:
        """The three drives of a leg at joint position q (rad) and velocity v (rad/s)."""
        j = 3 * leg
        m0, t0, d0 = drive_joint(model, j, target[0], q[0], v[0], kp_scale, kd_scale, strength)
        m1, t1, d1 = drive_joint(model, j + 1, target[1], q[1], v[1], kp_scale, kd_scale, strength)
        m2, t2, d2 = drive_joint(model, j + 2, target[2], q[2], v[2], kp_scale, kd_scale, strength)
        drive = Drive()
        drive.motor = sp.vec3(m0, m1, m2)
        drive.joint = sp.vec3(t0, t1, t2)
        drive.damping = sp.vec3(d0, d1, d2)
        return drive

    return SimpleNamespace(Drive=Drive, drive_joint=drive_joint, drive_leg=drive_leg)
