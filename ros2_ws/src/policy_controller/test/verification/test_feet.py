"""Foot kinematics against closed forms and against finite differences."""

import numpy as np
import pytest

from policy_controller.verification.feet import FootKinematics, rotation_matrix

THIGH, SHANK, RADIUS = 0.3, 0.35, 0.03
JOINTS = tuple(f"{leg}_{j}" for leg in ("LF", "RF", "LH", "RH") for j in ("HAA", "HFE", "KFE"))
FEET = ("LF_FOOT", "RF_FOOT", "LH_FOOT", "RH_FOOT")


def test_planar_leg_closed_form(kinematics):
    # hip and knee about +y: foot x = -(l1 sin a + l2 sin(a + b)), z = -(l1 cos a + l2 cos(a + b));
    # the ball adds r below
    a, b = 0.5, -1.1
    q = np.tile([0.0, a, b], 4)[None]
    points = kinematics.contact_point(
        np.array([[1.0, 2.0, 0.6]]), np.array([[0.0, 0.0, 0.0, 1.0]]), q
    )
    x = -(THIGH * np.sin(a) + SHANK * np.sin(a + b))
    z = 0.6 - (THIGH * np.cos(a) + SHANK * np.cos(a + b)) - RADIUS
    np.testing.assert_allclose(points[0, 0], [1.3 + x, 2.2, z], atol=1e-12)
    np.testing.assert_allclose(points[0, 3], [0.7 + x, 1.8, z], atol=1e-12)
    np.testing.assert_allclose(kinematics.radius, RADIUS)


def test_rotation_matrix_of_a_non_symmetric_quaternion():
    # 120 degrees about (1, 1, 1) maps x -> y -> z -> x; wxyz read as xyzw would give another
    # permutation or none
    matrix = rotation_matrix(np.array([[0.5, 0.5, 0.5, 0.5], [0.0, 0.0, np.sin(0.3), np.cos(0.3)]]))
    np.testing.assert_allclose(matrix[0], [[0, 0, 1], [1, 0, 0], [0, 1, 0]], atol=1e-15)
    np.testing.assert_allclose(matrix[1] @ [1, 0, 0], [np.cos(0.6), np.sin(0.6), 0], atol=1e-15)


def test_velocity_of_the_foot_centre_matches_finite_differences(urdf):
    # With the foot radius taken out, contact velocity is the time derivative of the foot position;
    # central differences, O(dt^2).
    rng = np.random.default_rng(3)
    kinematics = FootKinematics(urdf, JOINTS, FEET)
    kinematics.radius = np.zeros(4)
    q, qd = rng.normal(size=(1, 12)), rng.normal(size=(1, 12))
    v, w = rng.normal(size=(1, 3)), rng.normal(size=(1, 3))
    quaternion = rng.normal(size=(1, 4))
    quaternion /= np.linalg.norm(quaternion)
    step = 1e-5

    def moved(dt):
        # base moves by v, w in its own frame: p + R v dt, R exp(w dt) with exp to second order in
        # quaternion form
        half = 0.5 * dt * w[0]
        x, y, z, s = quaternion[0]
        a, b, c, d = *half, np.sqrt(1 - half @ half)
        product = [
            [
                s * a + x * d + y * c - z * b,
                s * b - x * c + y * d + z * a,
                s * c + x * b - y * a + z * d,
                s * d - x * a - y * b - z * c,
            ]
        ]
        position = dt * np.einsum("tij,tj->ti", rotation_matrix(quaternion), v)
        return kinematics.contact_point(position, np.array(product), q + dt * qd)

    difference = (moved(step) - moved(-step)) / (2 * step)
    velocity = kinematics.contact_velocity(quaternion, v, w, q, qd)
    np.testing.assert_allclose(velocity, difference, atol=1e-8)


def test_rolling_foot_does_not_slide(kinematics):
    # The knee is straight and the hip turns at rate s. The foot centre moves with the base such
    # that the ball rolls: the material contact point is at distance l + r below the hip, so a base
    # speed of s (l1 + l2 + r) leaves it at rest.
    rate = 0.7
    q = np.zeros((1, 12))
    qd = np.tile([0.0, rate, 0.0], 4)[None]
    base = np.array([[rate * (THIGH + SHANK + RADIUS), 0.0, 0.0]])
    still = kinematics.contact_velocity(
        np.array([[0.0, 0.0, 0.0, 1.0]]), base, np.zeros((1, 3)), q, qd
    )
    np.testing.assert_allclose(still, 0.0, atol=1e-12)


def test_foreign_robot_file_is_refused(urdf):
    joints = tuple(f"joint_{i}" for i in range(12))
    with pytest.raises(ValueError, match="LF_KFE moves foot LF_FOOT"):
        FootKinematics(urdf, joints, ("LF_FOOT",))
    with pytest.raises(ValueError, match="no joint above a link TAIL"):
        FootKinematics(urdf, joints, ("TAIL",))
