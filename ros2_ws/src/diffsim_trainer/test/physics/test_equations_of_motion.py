"""Mass matrix and bias forces against Pinocchio and MuJoCo on 1000 random states of each robot.

The kernel writes the block-arrow equations of `dynamics` as one 18 × 18 matrix: base angular, base
linear (of the base origin, base axes), joints; M dv = dt (torque - bias). The classical linear
acceleration makes the bias independent of the linear velocity, which is zero here.
"""

import mujoco
import numpy as np
import pytest
import warp as wp

from diffsim_trainer.physics import to_mjcf
from diffsim_trainer.physics.dynamics import build_dynamics
from diffsim_trainer.physics.model import build_model, build_model_type
from diffsim_trainer.physics.spatial import build_spatial

pytestmark = pytest.mark.physics
N = 1000
REALS = {"float64": wp.float64, "float32": wp.float32}
TOLERANCE = {"float64": 1e-8, "float32": 1e-4}


@pytest.fixture(scope="module")
def states():
    """Rotations up [N, 3] in base axes, angular velocities, joint positions and velocities."""
    rng = np.random.default_rng(4)
    quaternion = rng.normal(size=(N, 4))
    quaternion /= np.linalg.norm(quaternion, axis=1, keepdims=True)
    x, y, z, w = quaternion.T
    up = np.stack([2 * (x * z - w * y), 2 * (y * z + w * x), 1 - 2 * (x * x + y * y)], 1)
    return quaternion, up, rng.normal(size=(N, 3)), *(rng.normal(size=(N, 12)) for _ in range(2))


def build_kernel(real):
    sp, dyn, Model = build_spatial(real), build_dynamics(real), build_model_type(real)

    @wp.kernel(module="unique", enable_backward=False, module_options={"max_unroll": 1})
    def write_equations(
        model: Model,
        up: wp.array2d(dtype=real),
        omega: wp.array2d(dtype=real),
        q: wp.array2d(dtype=real),
        v: wp.array2d(dtype=real),
        matrix: wp.array3d(dtype=real),
        bias: wp.array2d(dtype=real),
    ):
        i = wp.tid()
        zero = sp.vec3()
        vertical = sp.vec3(up[i, 0], up[i, 1], up[i, 2])
        w = sp.vec3(omega[i, 0], omega[i, 1], omega[i, 2])
        base = dyn.place_base(model, w, vertical, real(0.0), zero)
        equation = dyn.base_equation(base)
        for leg in range(4):
            j = 3 * leg
            q_leg = sp.vec3(q[i, j], q[i, j + 1], q[i, j + 2])
            v_leg = sp.vec3(v[i, j], v[i, j + 1], v[i, j + 2])
            chain = dyn.place_leg(model, leg, base, q_leg, v_leg)
            part = dyn.assemble_leg(model, leg, chain, vertical, zero, zero)
            unfolded = dyn.BaseEquation()
            unfolded.aa = part.inertia
            unfolded.al = sp.skew(part.first_moment)
            unfolded.ll = sp.scaled_identity(part.mass)
            unfolded.moment = -part.bias_moment
            unfolded.force = -part.bias_force
            equation = dyn.add_equations(equation, unfolded)
            block = wp.inverse(part.inverse)
            for a in range(3):
                bias[i, 6 + j + a] = -part.torque[a]
                for b in range(3):
                    matrix[i, 6 + j + a, 6 + j + b] = block[a, b]
                    matrix[i, a, 6 + j + b] = part.coupling_a[a, b]
                    matrix[i, 3 + a, 6 + j + b] = part.coupling_l[a, b]
                    matrix[i, 6 + j + b, a] = part.coupling_a[a, b]
                    matrix[i, 6 + j + b, 3 + a] = part.coupling_l[a, b]
        for a in range(3):
            bias[i, a] = -equation.moment[a]
            bias[i, 3 + a] = -equation.force[a]
            for b in range(3):
                matrix[i, a, b] = equation.aa[a, b]
                matrix[i, a, 3 + b] = equation.al[a, b]
                matrix[i, 3 + b, a] = equation.al[a, b]
                matrix[i, 3 + a, 3 + b] = equation.ll[a, b]

    return write_equations


@pytest.fixture(scope="module", params=REALS)
def ours(request, states):
    """Function: (M [N, 18, 18], bias [N, 18], tolerance) of a robot."""
    real = REALS[request.param]
    kernel = build_kernel(real)

    def make(robot):
        model = build_model(robot, None, N, real, 0.005, 1, 0.0, "cpu")
        inputs = [wp.array(x.copy(), dtype=real, device="cpu") for x in states[1:]]
        matrix = wp.zeros((N, 18, 18), dtype=real, device="cpu")
        bias = wp.full((N, 18), np.nan, dtype=real, device="cpu")
        wp.launch(kernel, N, inputs=[model, *inputs], outputs=[matrix, bias], device="cpu")
        return matrix.numpy(), bias.numpy(), TOLERANCE[request.param]

    return make


def assert_equal(ours, matrix, bias, robot):
    """Relative to the largest entry; the acceleration under no torque to its norm, and that in
    single precision to the condition of M too."""
    found_matrix, found_bias, tolerance = ours(robot)
    for found, expected in ((found_matrix, matrix), (found_bias, bias)):
        scale = np.abs(expected).reshape(N, -1).max(1).reshape(-1, *[1] * (expected.ndim - 1))
        np.testing.assert_allclose(found / scale, expected / scale, atol=tolerance)
    found = np.linalg.solve(found_matrix.astype(float), -found_bias.astype(float)[..., None])
    expected = np.linalg.solve(matrix, -bias[..., None])
    error = np.linalg.norm(found - expected, axis=1) / np.linalg.norm(expected, axis=1)
    assert error.max() < tolerance


@pytest.mark.parametrize("name", "bcd")
def test_equations_as_in_pinocchio(robots, states, ours, name):
    pinocchio = pytest.importorskip("pinocchio")
    robot = robots[name]
    model = pinocchio.buildModelFromUrdf(str(robot.urdf_path), pinocchio.JointModelFreeFlyer())
    extra = [model.getJointId(n) for n in model.names[2:] if n not in robot.joint_names]
    if extra:
        model = pinocchio.buildReducedModel(model, extra, pinocchio.neutral(model))
    data = model.createData()
    joints = np.array([model.joints[model.getJointId(n)].idx_v for n in robot.joint_names])
    order = np.concatenate([[3, 4, 5, 0, 1, 2], joints])
    matrix, bias = np.empty((N, 18, 18)), np.empty((N, 18))
    for i, (quaternion, _, omega, q_joint, v_joint) in enumerate(zip(*states, strict=True)):
        q, v = np.zeros(model.nq), np.zeros(model.nv)
        q[3:7], q[joints + 1] = quaternion, q_joint
        v[3:6], v[joints] = omega, v_joint
        upper = pinocchio.crba(model, data, q)
        full = np.triu(upper) + np.triu(upper, 1).T
        full[joints, joints] += robot.actuator.armature
        matrix[i] = full[np.ix_(order, order)]
        bias[i] = pinocchio.nonLinearEffects(model, data, q, v)[order]
    assert_equal(ours, matrix, bias, robot)


@pytest.mark.parametrize("name", "bcd")
def test_equations_as_in_mujoco(robots, states, ours, name):
    # qvel: linear in the world, angular in base axes
    robot = robots[name]
    model = mujoco.MjModel.from_xml_string(to_mjcf(robot))
    data = mujoco.MjData(model)
    order = np.concatenate([[3, 4, 5, 0, 1, 2], np.arange(6, 18)])
    matrix, bias = np.empty((N, 18, 18)), np.empty((N, 18))
    full, rotation = np.empty((18, 18)), np.empty(9)
    for i, (quaternion, _, omega, q_joint, v_joint) in enumerate(zip(*states, strict=True)):
        data.qpos[:3], data.qpos[3:7] = [0.0, 0.0, 5.0], quaternion[[3, 0, 1, 2]]
        data.qpos[7:], data.qvel[3:6], data.qvel[6:] = q_joint, omega, v_joint
        mujoco.mj_fwdPosition(model, data)
        mujoco.mj_fwdVelocity(model, data)
        mujoco.mj_fullM(model, data, full)
        mujoco.mju_quat2Mat(rotation, data.qpos[3:7])
        to_base = np.eye(18)
        to_base[:3, :3] = rotation.reshape(3, 3).T
        matrix[i] = (to_base @ full @ to_base.T)[np.ix_(order, order)]
        bias[i] = (to_base @ data.qfrc_bias)[order]
    assert_equal(ours, matrix, bias, robot)
