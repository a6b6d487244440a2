"""The robot and the step settings as one Warp struct, and the layout of the packed arrays."""

from functools import cache
from types import SimpleNamespace

import numpy as np
import warp as wp

from .spatial import build_spatial
from .terrain import Terrain
from .urdf import Robot

GRAVITY = 9.81  # m/s^2

# state [N, 37]
STATE_SIZE = 37
POSITION, ORIENTATION, LINEAR_VELOCITY, ANGULAR_VELOCITY = 0, 3, 7, 10
JOINT_POSITION, JOINT_VELOCITY = 13, 25
# params [N, 9]
PARAMS_SIZE = 9
FRICTION, ADDED_MASS, COM_SHIFT, KP_SCALE, KD_SCALE, MOTOR_STRENGTH, KAPPA = 0, 1, 2, 5, 6, 7, 8
# sensors [N, 4, 10]
SENSORS_SIZE = 10
TORQUE, HEIGHT, FOOT_VELOCITY, FOOT_FORCE = 0, 3, 4, 7

DEFAULT_FRICTION = 0.8
DEFAULT_KAPPA = 300.0  # 1/m


@cache
def build_model_type(real):
    """Struct type of the model for `real`; at joint angle zero all frames are base-parallel."""
    vec3, mat33 = build_spatial(real).vec3, build_spatial(real).mat33

    @wp.struct
    class Model:
        dt: real  # s
        sweeps: int  # of the contact solver
        correction: real  # share of the contact depth worked off in a step
        foot_radius: real  # m
        kp: real  # N m/rad
        kd: real  # N m s/rad
        torque_limit: real  # N m
        saturation_torque: real  # N m, at stall
        velocity_limit: real  # rad/s, no torque beyond
        mass: wp.array(dtype=real)  # [13] kg, base first, then leg by leg
        com: wp.array(dtype=vec3)  # [13] m, in the body frame
        inertia: wp.array(dtype=mat33)  # [13] kg m^2, about the com
        joint_offset: wp.array(dtype=vec3)  # [12] m, joint origin in the parent frame
        joint_axis: wp.array(dtype=vec3)  # [12] unit vector
        foot_offset: wp.array(dtype=vec3)  # [4] m, centre of the foot sphere in the shank frame
        armature: wp.array(dtype=real)  # [12] kg m^2
        viscous: wp.array(dtype=real)  # [12] N m s/rad
        coulomb: wp.array(dtype=real)  # [12] N m
        # of a height field, unused on the plane
        ground: wp.array2d(dtype=real)  # m, coefficients of the spline
        ground_rate: real  # 1/m, samples per length
        ground_offset: wp.array2d(dtype=real)  # [N, 2] m, added to x and y before looking up

    return Model


@cache
def build_frozen(real) -> SimpleNamespace:
    """Functions `real`, `vec3`, `mat33` (array, index): an element of a model array as a constant.

    The robot description carries no gradient; read like this, none is computed for it.
    """
    sp = build_spatial(real)

    @wp.func
    def frozen_real(values: wp.array(dtype=real), i: int) -> real:
        return values[i]

    @wp.func_grad(frozen_real)
    def adj_frozen_real(values: wp.array(dtype=real), i: int, bar: real):
        pass

    @wp.func
    def frozen_vec3(values: wp.array(dtype=sp.vec3), i: int) -> sp.vec3:
        return values[i]

    @wp.func_grad(frozen_vec3)
    def adj_frozen_vec3(values: wp.array(dtype=sp.vec3), i: int, bar: sp.vec3):
        pass

    @wp.func
    def frozen_mat33(values: wp.array(dtype=sp.mat33), i: int) -> sp.mat33:
        return values[i]

    @wp.func_grad(frozen_mat33)
    def adj_frozen_mat33(values: wp.array(dtype=sp.mat33), i: int, bar: sp.mat33):
        pass

    return SimpleNamespace(real=frozen_real, vec3=frozen_vec3, mat33=frozen_mat33)


def build_model(
    robot: Robot,
    terrain: Terrain | None,
    num_envs: int,
    real,
    dt: float,
    sweeps: int,
    correction: float,
    device,
):
    """Upload `robot` (float64, host) as a Model in precision `real` on `device`; dt in s.

    Without a terrain the ground is the plane z = 0.
    """
    spatial = build_spatial(real)
    model = build_model_type(real)()
    model.dt, model.sweeps, model.correction = dt, sweeps, correction
    model.foot_radius = robot.foot_radius
    model.kp, model.kd = robot.kp, robot.kd
    model.torque_limit = robot.torque_limit
    model.saturation_torque = robot.actuator.saturation_torque
    model.velocity_limit = robot.velocity_limit

    def upload(value: np.ndarray, dtype):
        return wp.array(value, dtype=dtype, device=device)

    model.mass = upload(robot.mass, real)
    model.com = upload(robot.com, spatial.vec3)
    model.inertia = upload(robot.inertia, spatial.mat33)
    model.joint_offset = upload(robot.joint_offset, spatial.vec3)
    model.joint_axis = upload(robot.joint_axis, spatial.vec3)
    model.foot_offset = upload(robot.foot_offset, spatial.vec3)
    model.armature = upload(robot.actuator.armature, real)
    model.viscous = upload(robot.actuator.viscous, real)
    model.coulomb = upload(robot.actuator.coulomb, real)
    rough = terrain is not None
    model.ground = upload(terrain.coefficients() if rough else np.zeros((0, 0)), real)
    model.ground_rate = 1.0 / terrain.spacing if rough else 0.0
    model.ground_offset = wp.zeros((num_envs if rough else 0, 2), dtype=real, device=device)
    return model
