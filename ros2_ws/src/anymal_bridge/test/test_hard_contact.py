"""The simulated robot without ROS: drives, timeout, contacts, disturbances, against equations."""

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from anymal_bridge.estimator_noise import NoiseLevels
from anymal_bridge.faults import Faults
from anymal_bridge.joint_command import JointCommand, Mode
from anymal_bridge.kinematics import rotation_matrix
from anymal_bridge.robot_file import load_robot_file
from anymal_bridge.robot_sample import FootContact, RobotState

hard_contact = pytest.importorskip("anymal_bridge.hard_contact", reason="needs Warp")
from anymal_bridge.ground import LEVEL, Ground, make_terrain  # noqa: E402
from anymal_bridge.hard_contact import STEP_S, Engine, HardContactSim, StartPose, World  # noqa: E402
from diffsim_trainer.physics import load_robot  # noqa: E402

ROBOT_PATH = Path(__file__).parents[4] / "config" / "robot" / "anymal_d.yaml"
ROBOT = load_robot_file(ROBOT_PATH)
GRAVITY = 9.81


def make_sim(
    start_pose: StartPose, noise: NoiseLevels, path=ROBOT_PATH, engine=Engine.WARP
) -> HardContactSim:
    return HardContactSim(
        path,
        start_pose,
        World(),
        noise,
        damping=5.0,
        command_timeout=0.1,
        seed=0,
        engine=engine,
    )


@pytest.fixture(scope="module")
def shared_sim() -> HardContactSim:
    return make_sim(StartPose.STANDING, NoiseLevels())


@pytest.fixture
def sim(shared_sim) -> HardContactSim:
    """A standing robot at rest, nominal world, no faults."""
    shared_sim.world, shared_sim.faults = World(), Faults()
    shared_sim.reset()
    return shared_sim


def hold(sim, position=None, kp=ROBOT.kp, kd=ROBOT.kd, **changes) -> JointCommand:
    zero, one = np.zeros(12), np.ones(12)
    position = ROBOT.default_pose if position is None else position
    command = JointCommand(sim.time_ns, Mode.PID_GAINS, position, zero, zero, kp * one, kd * one)
    return replace(command, **changes)


def run(sim, seconds: float, command=None, each=lambda: None) -> None:
    """Step with a command every 20 ms; ``each`` is called after each step."""
    for k in range(round(seconds / STEP_S)):
        if command is not None and k % 8 == 0:
            sim.command(command)
        sim.step()
        each()


def throw_into_air(sim, seed: int) -> tuple[np.ndarray, np.ndarray]:
    """Joints at random, 3 m above ground; returns joint position and velocity."""
    random = np.random.default_rng(seed)
    state = sim._engine.state_out[0]
    state[2] = 3.0
    state[13:25] = ROBOT.default_pose + random.uniform(-0.2, 0.2, 12)
    state[25:37] = random.uniform(-3.0, 3.0, 12)
    return state[13:25].astype(float), state[25:37].astype(float)


@pytest.mark.physics
@pytest.mark.parametrize("seed", range(6))
def test_drives_obey_mode_13_joint_by_joint(sim, seed):
    """torque = P (q* - q) + D (v* - v) + tau with every number different for every joint."""
    random = np.random.default_rng(100 + seed)
    q, v = throw_into_air(sim, seed)
    kp = random.uniform(20, 120, 12) if seed % 2 else np.full(12, 85.0)
    kd = random.uniform(0.1, 3.0, 12)
    if seed >= 4:
        kp[:] = 0.0  # torque control
    target, v_target = q + random.uniform(-0.2, 0.2, 12), random.uniform(-2, 2, 12)
    tau = random.uniform(-15, 15, 12)
    sim.command(hold(sim, target, kp, kd, velocity=v_target, torque=tau))
    # The drives' own delay is two steps; the robot is put back to its state for the third.
    sim.step(), sim.step()
    throw_into_air(sim, seed)
    sim.step()
    # The step evaluates the law at its middle, with the velocity of its start.
    middle = q + 0.5 * STEP_S * v
    expected = kp * (target - middle) + kd * (v_target - v) + tau
    assert np.abs(expected).max() < 0.7 * ROBOT.torque_limit  # the rounded clamp has no part
    np.testing.assert_allclose(sim.sample.joint_torque, expected, atol=5e-3)


@pytest.mark.parametrize(("mode", "kd"), [(Mode.FREEZE, 5.0), (Mode.DISABLE, 0.0)])
@pytest.mark.physics
def test_freeze_brakes_and_disable_is_limp(sim, mode, kd):
    sim.command(hold(sim, mode=mode))
    sim.step(), sim.step()
    _, v = throw_into_air(sim, 1)
    sim.step()
    np.testing.assert_allclose(sim.sample.joint_torque, -kd * v, atol=1e-4)


def test_drives_obey_after_their_delay(sim):
    """5 ms are two steps: the third step after the command is the first that feels it."""
    torques = []
    sim.command(hold(sim, ROBOT.default_pose + 0.2))
    for _ in range(4):
        sim.step()
        torques.append(sim.sample.joint_torque.max())
    assert max(torques[:2]) < 5.0 < 10.0 < min(torques[2:])


def test_robot_damps_without_commands(sim):
    sim.command(hold(sim))
    obeyed = []
    run(sim, 0.15, each=lambda: obeyed.append(float(sim.obeyed.kp[0])))
    # Received by the drives in step 2, so that 0.1 s are over after 40 more.
    assert obeyed == [0.0] * 2 + [ROBOT.kp] * 41 + [0.0] * 17
    assert (sim.obeyed.kd == 5.0).all()
    assert sim.command_age() == pytest.approx(0.145)
    sim.command(hold(sim))
    run(sim, 0.01)
    assert sim.obeyed.kp[0] == ROBOT.kp  # the robot's own timeout does not latch


@pytest.mark.physics
def test_standing_robot_stands(sim):
    forces = []
    run(sim, 2.0, hold(sim), each=lambda: forces.append(sim.sample.foot_force.sum(axis=0)))
    assert sim.sample.foot_contact == [FootContact.CLOSED] * 4
    np.testing.assert_allclose(sim.sample.foot_position[:, 2], 0.0, atol=1e-3)
    assert sim.sample.state[2] == pytest.approx(ROBOT.stand_height, abs=0.06)
    # Force of the ground on the feet is the weight (57.03 kg, ANYmal D).
    weight = 57.03 * GRAVITY
    np.testing.assert_allclose(np.mean(forces[-100:], axis=0), [0, 0, weight], atol=0.01 * weight)


@pytest.mark.physics
def test_payload_is_carried_by_the_feet(sim):
    def ground_force():
        forces = []
        run(sim, 0.25, hold(sim), each=lambda: forces.append(sim.sample.foot_force[:, 2].sum()))
        return np.mean(forces)

    run(sim, 2.0, hold(sim))
    before = ground_force()
    sim.world = World(payload=8.0)
    run(sim, 2.0, hold(sim))
    assert ground_force() - before == pytest.approx(8.0 * GRAVITY, rel=0.05)


@pytest.mark.physics
def test_sliding_robot_slows_down_by_friction(sim):
    """Coulomb: v(t) = v0 - mu g t, and the feet are told to be slipping."""
    friction = 0.1
    sim.world = World(friction=friction)
    run(sim, 1.0, hold(sim, kp=400.0, kd=10.0))
    sim.push(np.array([0.0, 1.0, 0.0]))
    run(sim, 0.3, hold(sim, kp=400.0, kd=10.0))
    state = sim.sample.state
    velocity = (rotation_matrix(state[3:7]) @ state[7:10])[1]
    assert velocity == pytest.approx(1.0 - friction * GRAVITY * 0.3, rel=0.1)
    assert FootContact.SLIPPING in sim.sample.foot_contact


def test_feet_are_where_the_physics_has_them(sim):
    """Our kinematics against the height that the simulator computes, in free fall and turning."""
    state = sim._engine.state_out[0]
    state[2] = 1.5
    state[3:7] = np.array([0.2, -0.3, 0.1, 0.9]) / np.sqrt(0.95)
    state[10:13] = 0.5, -1.0, 2.0
    for _ in range(20):
        sim.step()
        heights = sim._engine.sensors[0, :, 3]
        # The simulator's height is first order at the end of the step: v^2 dt^2 / 2r < 1e-4 m.
        np.testing.assert_allclose(sim.sample.foot_position[:, 2], heights, atol=1e-4)
    assert sim.sample.foot_contact == [FootContact.OPEN] * 4
    assert not sim.sample.foot_force.any()


def test_push_is_in_world_axes(sim):
    state = sim._engine.state_out[0]
    state[3:7] = np.array([0.2, -0.3, 0.1, 0.9]) / np.sqrt(0.95)
    push = np.array([0.5, -0.25, 0.1])
    sim.push(push)
    turned = rotation_matrix(sim.sample.state[3:7]) @ sim.sample.state[7:10]
    np.testing.assert_allclose(turned, push, atol=1e-6)


def test_joint_acceleration_is_the_change_of_velocity(sim):
    before = sim.sample.state[25:37].copy()
    run(sim, STEP_S)
    change = (sim.sample.state[25:37] - before) / STEP_S
    np.testing.assert_array_equal(sim.sample.joint_acceleration, change)


@pytest.mark.parametrize("field", ["kp_scale", "kd_scale", "motor_strength"])
@pytest.mark.physics
def test_gain_errors_scale_the_torque(sim, field):
    def torque(world):
        sim.reset()
        sim.world = world
        kp = 0.0 if field == "kd_scale" else ROBOT.kp
        sim.command(hold(sim, ROBOT.default_pose + 0.2, kp=kp, kd=3.0))
        sim.step(), sim.step()
        state = sim._engine.state_out[0]
        state[2], state[13:25] = 3.0, ROBOT.default_pose
        state[25:37] = 1.0 if field == "kd_scale" else 0.0
        sim.step()
        return sim.sample.joint_torque.copy()

    nominal, changed = torque(World()), torque(World(**{field: 0.8}))
    np.testing.assert_allclose(changed, 0.8 * nominal, rtol=1e-3)
    assert np.abs(nominal).min() > 2.0


@pytest.mark.physics
def test_encoder_bias_reaches_drives_and_report(sim):
    """kp (q* - (q + b)): what the encoders report too much acts like a set point lower by b."""
    bias = load_robot(ROBOT_PATH).actuator.encoder_bias
    assert np.abs(bias).max() > 0.01

    def state_and_report(world, position):
        sim.reset()
        sim.world = world
        sim.command(hold(sim, position))
        for _ in range(20):
            sim.step()
        return sim.sample.state.copy(), sim.report().state.copy()

    position = ROBOT.default_pose + 0.1
    with_bias, reported = state_and_report(World(encoder_bias=1.0), position)
    expected, honest = state_and_report(World(), position - bias)
    unshifted, _ = state_and_report(World(), position)
    np.testing.assert_allclose(with_bias, expected, atol=1e-5)
    assert np.abs(with_bias - unshifted)[13:25].max() > 1e-3
    np.testing.assert_allclose(reported[13:25] - with_bias[13:25], bias, atol=1e-6)
    np.testing.assert_array_equal(honest, expected)


@pytest.mark.physics
def test_engines_agree_on_fall_stance_and_payload(sim):
    """Free fall to the order of the step (g dt t = 2.5 mm); in stance the feet carry m g."""
    pytest.importorskip("mujoco", reason="needs MuJoCo")
    other = make_sim(StartPose.STANDING, NoiseLevels(), engine=Engine.MUJOCO)
    robot, reports = load_robot(ROBOT_PATH), []
    for one in (sim, other):
        q, _ = throw_into_air(one, seed=2)
        one.command(hold(one, q))
        run(one, 0.1)
        reports.append(one.sample.state.astype(float))
    np.testing.assert_allclose(reports[0][:13], reports[1][:13], atol=5e-3)
    np.testing.assert_allclose(reports[0][13:25], reports[1][13:25], atol=5e-3)
    for payload in (0.0, 8.0):
        knees = []
        for one in (sim, other):
            one.world = World(payload=payload)
            one.reset()
            run(one, 1.0, hold(one))
            weight = (robot.mass.sum() + payload) * GRAVITY
            assert one.sample.foot_force[:, 2].sum() == pytest.approx(weight, rel=0.01)
            knees.append(one.sample.state[15:25:3].astype(float))
        np.testing.assert_allclose(*knees, atol=0.01)


def test_diverged_simulation_stops_in_error_until_reset(sim):
    run(sim, 0.1, hold(sim))
    sim._engine.state_out[0, 30] = 1e30  # rad/s
    run(sim, 0.02)
    assert sim.sample.robot_state is RobotState.ERROR_UNKNOWN
    assert sim.report().robot_state is RobotState.ERROR_UNKNOWN
    assert np.isfinite(sim.sample.state).all()
    sim.reset()
    run(sim, 0.1, hold(sim))
    assert sim.sample.robot_state is RobotState.OK
    assert sim.sample.foot_contact == [FootContact.CLOSED] * 4


def test_equal_commands_give_equal_robots_bit_for_bit(sim):
    """Also after a reset, with noise, loss and delay: nothing depends on the clock of the host."""

    def trajectory(sim):
        sim.reset()
        sim.faults = Faults(command_delay=0.01, command_loss=0.2, state_loss=0.1)
        rows, random = [], np.random.default_rng(5)
        for _ in range(50):
            sim.command(hold(sim, ROBOT.default_pose + random.uniform(-0.1, 0.1, 12)))
            for _ in range(8):
                sim.step()
                report = sim.report()
                rows.append(np.full(37, -1.0) if report is None else report.state.copy())
        return np.array(rows)

    levels = NoiseLevels(0.01, 0.1, 0.1, 0.01, 0.5)
    noisy = make_sim(StartPose.STANDING, levels)
    first, again = trajectory(noisy), trajectory(noisy)
    other = trajectory(make_sim(StartPose.STANDING, levels))
    assert first.tobytes() == again.tobytes() == other.tobytes()
    assert (first == -1.0).all(axis=1).any()  # the loss took part


@pytest.mark.physics
@pytest.mark.parametrize("name", ["anymal_b", "anymal_c", "anymal_d"])
def test_lying_robot_rests_on_the_ground_and_stands_up(name):
    """Before it stands up nothing moves and no foot is below the ground."""
    path = ROBOT_PATH.with_stem(name)
    sim, robot = make_sim(StartPose.LYING, NoiseLevels(), path), load_robot_file(path)
    start = sim.sample.state.copy()
    run(sim, 2.0)
    np.testing.assert_allclose(sim.sample.state[:3], start[:3], atol=1e-3)
    np.testing.assert_allclose(sim.sample.state[13:25], start[13:25], atol=0.01)
    assert np.abs(sim.sample.state[7:13]).max() < 1e-2
    np.testing.assert_allclose(start[13:25], robot.lying_pose, atol=0.3)  # legs sink to the ground
    assert 0.05 < start[2] < 0.3 * robot.stand_height
    assert sim.sample.foot_position[:, 2].min() > -1e-3

    for share in np.linspace(0.0, 1.0, 75):
        target = (1.0 - share) * start[13:25] + share * robot.default_pose
        run(sim, 0.02, hold(sim, target, kp=200.0, kd=2.0))
    run(sim, 1.0, hold(sim, robot.default_pose, kp=200.0, kd=2.0))
    assert sim.sample.state[2] == pytest.approx(robot.stand_height, rel=0.06)
    assert sim.sample.foot_contact == [FootContact.CLOSED] * 4


def test_reset_leaves_time_running(sim):
    run(sim, 0.1, hold(sim))
    before = sim.time_ns
    sim.reset()
    assert sim.time_ns == before
    assert sim.command_age() == np.inf
    np.testing.assert_array_equal(sim.sample.state[13:25], ROBOT.default_pose.astype(np.float32))


def test_mujoco_step_depends_on_its_state_alone(pytestconfig):
    """... and not on what was simulated before: a reset would else not give the same run again."""
    pytest.importorskip("mujoco", reason="needs MuJoCo")
    from anymal_bridge.mujoco_engine import MujocoEngine

    robot = load_robot(pytestconfig.rootpath / "config/robot/anymal_d.yaml")
    engine = MujocoEngine(robot, 0.0025)
    start = np.zeros(37)
    start[2], start[6], start[13:25] = robot.stand_height, 1.0, robot.default_pose
    results = []
    for height in (0.0, 0.3):  # of a fall that comes before
        engine.state_out[0] = start
        engine.state_out[0, 2] += height
        engine.target[0] = robot.default_pose
        for state in [None] * 40 + [start] + [None] * 40:
            engine.state_in[0] = engine.state_out[0] if state is None else state
            engine.step()
        results.append(engine.state_out.tobytes())
    assert results[0] == results[1]


@pytest.mark.physics
@pytest.mark.parametrize("engine", Engine)
@pytest.mark.parametrize("ground", [Ground(slope=0.15), Ground(roughness=0.02)], ids=repr)
def test_robot_stands_on_slope_and_rough_ground_and_on_level_ground_again(engine, ground):
    pytest.importorskip("mujoco", reason="needs MuJoCo")
    sim = make_sim(StartPose.STANDING, NoiseLevels(), engine=engine)
    level = sim.sample.state.copy()
    sim.ground = ground
    sim.reset()
    run(sim, 2.0, hold(sim, kp=150.0, kd=6.0))
    weight = sim._robot.mass.sum() * GRAVITY
    assert sim.sample.foot_force[:, 2].sum() == pytest.approx(weight, rel=0.02)
    depth = sim.sample.ground_height[1:] - sim.sample.foot_position[:, 2]
    assert np.abs(depth).max() < 2e-3  # MuJoCo's soft contact, and the triangles of its field
    spread = np.ptp(sim.sample.ground_height)
    assert spread > 0.01
    sim.ground = LEVEL
    sim.reset()
    np.testing.assert_array_equal(sim.sample.state, level)
    assert not sim.sample.ground_height.any()


def test_rough_ground_follows_the_seed_and_a_slope_does_not():
    sim = make_sim(StartPose.STANDING, NoiseLevels())

    def heights(ground: Ground, seed: int) -> np.ndarray:
        sim.ground, sim.seed = ground, seed
        sim.reset()
        return sim.sample.ground_height.copy()

    rough, slope = Ground(roughness=0.02), Ground(slope=0.1)
    np.testing.assert_array_equal(heights(rough, 1), heights(rough, 1))
    assert np.abs(heights(rough, 1) - heights(rough, 2)).max() > 1e-3
    np.testing.assert_array_equal(heights(slope, 1), heights(slope, 2))


def test_a_slope_rises_by_its_angle_along_x():
    terrain = make_terrain(Ground(slope=0.1), 0)
    x = np.linspace(-7.0, 7.0, 9)
    np.testing.assert_allclose(terrain.height(x, 0.3 * x), np.tan(0.1) * x, atol=1e-9)
