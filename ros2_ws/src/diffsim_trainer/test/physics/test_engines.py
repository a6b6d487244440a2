"""Accelerations against MuJoCo and Pinocchio, built from the same robot files."""

from dataclasses import replace

import mujoco
import numpy as np
import pytest

from diffsim_trainer.physics import ContactModel, Terrain, to_mjcf

pytestmark = pytest.mark.physics

N = 16
# central difference of the step: O(h^2) of the step itself, rounding eps / h
STEP = {"float64": 1e-5, "float32": 1e-3}
TOLERANCE = {"float64": 1e-8, "float32": 3e-4}


@pytest.fixture
def without_drives():
    """Function: the robot with armature but without torque and friction."""

    def make(robot):
        zero = np.zeros(12)
        return replace(robot, actuator=replace(robot.actuator, viscous=zero, coulomb=zero))

    return make


@pytest.fixture
def accelerations(bench, reference, without_drives, rng):
    """Function: random states, and the accelerations that the simulator finds at their midpoint.

    Of the base in the world (linear, classical) and in base axes (angular), and of the joints.
    """

    def make(robot, dtype: str, added_mass: float = 0.0, com_shift=(0.0, 0.0, 0.0)):
        h = STEP[dtype]
        settings = dict(dtype=dtype, dt=h, contact=ContactModel.HARD)
        b = bench(without_drives(robot), N, **settings)
        b.params[:, 1], b.params[:, 2:5], b.params[:, 7] = added_mass, com_shift, 0.0
        state = b.standing(height=5.0)
        state[:, 3:7] = rng.normal(size=(N, 4))
        state[:, 3:7] /= np.linalg.norm(state[:, 3:7], axis=1, keepdims=True)
        state[:, 7:13] = rng.normal(size=(N, 6))
        state[:, 13:25] = rng.normal(size=(N, 12))
        state[:, 25:] = 3.0 * rng.normal(size=(N, 12))
        if dtype == "float32":
            state = state.astype(np.float32).astype(float)
        after, _ = b.step(state)
        found = []
        for x, y in zip(state, after, strict=True):
            dv = reference.rotation_of(y[3:7]) @ y[7:10] - reference.rotation_of(x[3:7]) @ x[7:10]
            found.append(np.concatenate([dv, y[10:13] - x[10:13], y[25:] - x[25:]]) / h)
        return state, np.array(found), h

    return make


def mujoco_accelerations(robot, state, h, reference, added_mass=0.0, com_shift=(0.0, 0.0, 0.0)):
    model = mujoco.MjModel.from_xml_string(to_mjcf(robot))
    model.dof_damping[:] = 0.0
    model.dof_frictionloss[:] = 0.0
    model.body_mass[1] += added_mass
    model.body_ipos[1] += com_shift
    data = mujoco.MjData(model)
    found = []
    for x in state:
        data.qpos[:] = np.concatenate([x[:3], x[[6, 3, 4, 5]], x[13:25]])
        data.qvel[:] = np.concatenate([reference.rotation_of(x[3:7]) @ x[7:10], x[10:13], x[25:]])
        mujoco.mj_integratePos(model, data.qpos, data.qvel, 0.5 * h)
        mujoco.mj_forward(model, data)
        found.append(data.qacc.copy())
    return np.array(found)


@pytest.mark.parametrize("dtype", ["float64", "float32"])
@pytest.mark.parametrize("name", "bcd")
def test_acceleration_as_in_mujoco(robots, accelerations, reference, name, dtype):
    state, ours, h = accelerations(robots[name], dtype)
    theirs = mujoco_accelerations(robots[name], state, h, reference)
    scale = np.abs(theirs).max(1, keepdims=True)
    np.testing.assert_allclose(ours / scale, theirs / scale, atol=TOLERANCE[dtype])


def test_payload_as_in_mujoco(robot, accelerations, reference):
    payload = dict(added_mass=4.0, com_shift=(0.03, -0.02, 0.05))
    state, ours, h = accelerations(robot, "float64", **payload)
    theirs = mujoco_accelerations(robot, state, h, reference, **payload)
    scale = np.abs(theirs).max(1, keepdims=True)
    np.testing.assert_allclose(ours / scale, theirs / scale, atol=TOLERANCE["float64"])


@pytest.mark.parametrize("name", "bcd")
def test_acceleration_as_in_pinocchio(robots, accelerations, reference, name):
    pinocchio = pytest.importorskip("pinocchio")
    robot = robots[name]
    state, ours, h = accelerations(robot, "float64")
    model = pinocchio.buildModelFromUrdf(str(robot.urdf_path), pinocchio.JointModelFreeFlyer())
    extra = [model.getJointId(n) for n in model.names[2:] if n not in robot.joint_names]
    if extra:
        model = pinocchio.buildReducedModel(model, extra, pinocchio.neutral(model))
    data = model.createData()
    order = [model.joints[model.getJointId(n)].idx_v for n in robot.joint_names]
    assert pinocchio.computeTotalMass(model) == pytest.approx(robot.mass.sum(), rel=1e-12)
    for x, found in zip(state, ours, strict=True):
        v = np.zeros(model.nv)
        v[:6], v[order] = x[7:13], x[25:]
        q = np.zeros(model.nq)
        q[:7], q[np.array(order) + 1] = x[:7], x[13:25]
        q = pinocchio.integrate(model, q, 0.5 * h * v)
        turn = pinocchio.exp3(0.5 * h * x[10:13])
        v[:3] = turn.T @ x[7:10]
        M = pinocchio.crba(model, data, q)
        M = np.triu(M) + np.triu(M, 1).T
        M[order, order] += robot.actuator.armature
        a = np.linalg.solve(M, -pinocchio.nonLinearEffects(model, data, q, v))
        # spatial to classical acceleration, then to world axes
        R = reference.rotation_of(q[3:7])
        expected = np.concatenate([R @ (a[:3] + np.cross(v[3:6], v[:3])), a[3:6], a[order]])
        np.testing.assert_allclose(
            found, expected, atol=TOLERANCE["float64"] * np.abs(expected).max()
        )


def test_standing_as_in_mujoco(bench, robot):
    # same drives, same stance: the two hard-contact engines settle at the same pose
    b = bench(robot, 1, dt=0.0025, contact=ContactModel.HARD)
    ours = b.run(b.standing(), 800)[0][-1, 0]
    model = mujoco.MjModel.from_xml_string(to_mjcf(robot, 0.0025, 0.8))
    data = mujoco.MjData(model)
    data.qpos[2], data.qpos[3], data.qpos[7:] = robot.stand_height, 1.0, robot.default_pose
    for _ in range(800):
        data.ctrl[:] = robot.kp * (robot.default_pose - data.qpos[7:]) - robot.kd * data.qvel[6:]
        mujoco.mj_step(model, data)
    # MuJoCo's contacts give by 0.8 mm
    np.testing.assert_allclose(ours[2], data.qpos[2], atol=1.5e-3)
    np.testing.assert_allclose(ours[13:25], data.qpos[7:], atol=5e-3)


def test_drop_as_in_mujoco(bench, robot):
    # 10 cm onto the legs at 1.4 m/s, MuJoCo with stiff contacts and a fifth of the step: the same
    # fall, touchdown and compression
    b = bench(robot, 1, dt=0.0025, contact=ContactModel.HARD)
    b.params[:, 6] = 5.0 / robot.kd
    start = b.standing(height=robot.stand_height + 0.1)
    ours = b.run(start, 200)[0][:, 0, 2]
    model = mujoco.MjModel.from_xml_string(to_mjcf(robot, 0.0005, 0.8))
    model.geom_solref[:, 0] = 0.001
    data = mujoco.MjData(model)
    data.qpos[2], data.qpos[3], data.qpos[7:] = start[0, 2], 1.0, robot.default_pose
    theirs = np.empty(200)
    for k in range(1000):
        data.ctrl[:] = robot.kp * (robot.default_pose - data.qpos[7:]) - 5.0 * data.qvel[6:]
        mujoco.mj_step(model, data)
        theirs[k // 5] = data.qpos[2]
    np.testing.assert_allclose(ours, theirs, atol=1e-3)


def test_height_field_is_the_terrain(robot, rng):
    """Rays straight down onto MuJoCo's ground find the height of the spline."""
    terrain = Terrain(rng.uniform(-0.02, 0.02, (24, 40)), 0.2)
    model = mujoco.MjModel.from_xml_string(to_mjcf(robot, terrain=terrain))
    data, ground = mujoco.MjData(model), model.geom("ground").id
    mujoco.mj_kinematics(model, data)
    down, above = np.array([0.0, 0.0, -1.0]), 0.5
    for x, y in rng.uniform(-7.0, 7.0, (200, 2)):
        found = above - mujoco.mj_rayHfield(model, data, ground, np.array([x, y, above]), down)
        assert found == pytest.approx(terrain.height(x, y), abs=1.0e-3)  # flat between its corners
