"""Drive: torque–speed table, friction, implicit damping, gradient, and the command delay."""

from dataclasses import replace

import numpy as np
import pytest
import warp as wp

from diffsim_trainer.physics import ContactModel
from diffsim_trainer.physics.actuator import COULOMB_VELOCITY, build_actuator
from diffsim_trainer.physics.model import build_model, build_model_type

pytestmark = pytest.mark.physics
JOINT = 4  # any of the twelve


@pytest.fixture(scope="module")
def drive(robot):
    """Function: motor torque, joint torque and damping for targets, positions, velocities."""
    real = wp.float64
    act, Model = build_actuator(real), build_model_type(real)

    @wp.kernel(module="unique", enable_backward=False)
    def evaluate(
        model: Model,
        demand: wp.array(dtype=real),
        v: wp.array(dtype=real),
        strength: real,
        out: wp.array2d(dtype=real),
    ):
        i = wp.tid()
        motor, torque, damping = act.drive_joint(
            model, JOINT, demand[i] / model.kp, real(0.0), v[i], real(1.0), real(0.0), strength
        )
        out[i, 0] = motor
        out[i, 1] = torque
        out[i, 2] = damping

    model = build_model(robot, real, 0.005, 3, 0.0, "cpu")

    def run(demand, velocity, strength=1.0):
        demand, velocity = np.broadcast_arrays(*np.atleast_1d(demand, velocity))
        out = wp.array(np.full((len(demand), 3), np.nan), dtype=real, device="cpu")
        arrays = [wp.array(x.astype(float), dtype=real, device="cpu") for x in (demand, velocity)]
        wp.launch(
            evaluate, len(demand), inputs=[model, *arrays, strength], outputs=[out], device="cpu"
        )
        return out.numpy().T

    return run


@pytest.mark.parametrize(
    ("demand", "speed", "expected"),
    [  # ANYmal D: 140 N m stall, 80 N m limit; speed as a share of 8.5 rad/s
        (30.0, 0.0, 30.0),
        (-60.0, 0.0, -60.0),
        (1e4, 0.0, 80.0),
        (-1e4, 0.0, -80.0),
        (1e4, 0.25, 80.0),  # 140 (1 - 0.25) = 105, above the limit
        (1e4, 0.75, 35.0),  # 140 (1 - 0.75)
        (1e4, 1.0, 0.0),
        (1e4, 1.5, 0.0),  # overspeed: no more drive
        (-1e4, 1.5, -80.0),  # but brake
        (1e4, -1.0, 80.0),
        (-1e4, -0.75, -35.0),
    ],
)
def test_torque_speed_table(drive, robot, demand, speed, expected):
    motor, _, _ = drive(demand, speed * robot.velocity_limit)
    assert motor[0] == pytest.approx(expected, abs=0.1)


def test_strength_scales_torque_and_limit(drive):
    demand = np.array([20.0, 500.0])
    np.testing.assert_allclose(drive(demand, 1.0, 0.7)[0], 0.7 * drive(demand, 1.0)[0], rtol=1e-12)


def test_joint_friction(drive, robot):
    # motor - b v - c tanh(v / v_c)
    v = np.array([-3.0, -0.01, 0.0, 0.01, 3.0])
    motor, torque, _ = drive(5.0, v)
    friction = robot.actuator.viscous[JOINT] * v + robot.actuator.coulomb[JOINT] * np.tanh(
        v / COULOMB_VELOCITY
    )
    np.testing.assert_allclose(motor - torque, friction, atol=1e-12)


def test_damping_is_the_slope_of_the_clamp(bench, robot):
    # implicit damping b + kd inside the torque range, b beyond it: seen in the joint acceleration
    soft = replace(robot, kd=20.0)
    b = bench(soft, 2, dtype="float64", contact=ContactModel.HARD)
    state = b.standing(height=5.0)
    after, sensors = b.step(state, target=robot.default_pose + np.array([[0.1], [50.0]]))
    held, free = after[:, 25]
    assert sensors[0, 0, 0] == pytest.approx(0.1 * robot.kp, rel=1e-3)
    assert sensors[1, 0, 0] == pytest.approx(80.0, rel=1e-3)
    # with kd dt = 0.1 kg m^2 held back, the joint inside the range answers less per N m
    assert held / sensors[0, 0, 0] < 0.8 * free / sensors[1, 0, 0]


def test_torque_is_smooth_through_saturation(drive):
    # central slope never jumps: the largest change over 0.5 N m stays below 20/80 * 0.5
    demand = np.linspace(-160.0, 160.0, 641)
    slope = np.gradient(drive(demand, 2.0)[0], demand)
    assert np.all((slope >= -1e-9) & (slope <= 1 + 1e-9))
    assert np.abs(np.diff(slope)).max() < 0.125


@pytest.mark.parametrize("delay", [0, 1, 2, 3, 4])
def test_delay_in_substeps(bench, robot, delay):
    # substep k applies the previous target while k < delay, in every control period alike
    b = bench(robot, 1, dtype="float64", contact=ContactModel.HARD)
    old, new = robot.default_pose, robot.default_pose + 0.2
    state = b.standing(height=5.0)
    b.delay[:] = delay
    for k in range(4):
        found, torque = b.step(state, new, old, substep=k)
        b.delay[:] = 0
        expected, expected_torque = b.step(state, old if k < delay else new)
        b.delay[:] = delay
        np.testing.assert_array_equal(found, expected)
        np.testing.assert_array_equal(torque, expected_torque)
