"""Foot positions and rotations, against chains of elementary rotations."""

import numpy as np
import pytest

from anymal_bridge.kinematics import (
    FootKinematics,
    multiply_quaternions,
    rotation_matrix,
    small_rotation,
)

X, Y, Z = np.eye(3)


def turn(axis: np.ndarray, angle: float) -> np.ndarray:
    """Rotation matrix by the exponential series, independent of quaternions."""
    k = angle * np.array(
        [[0, -axis[2], axis[1]], [axis[2], 0, -axis[0]], [-axis[1], axis[0], 0]], dtype=float
    )
    matrix, term = np.eye(3), np.eye(3)
    for n in range(1, 30):
        term = term @ k / n
        matrix = matrix + term
    return matrix


@pytest.mark.parametrize("seed", range(5))
def test_feet_are_at_the_end_of_the_chain(seed):
    random = np.random.default_rng(seed)
    offset, foot = random.uniform(-0.4, 0.4, (12, 3)), random.uniform(-0.4, 0.4, (4, 3))
    axis = np.tile([X, Y, Y], (4, 1)) * random.choice([-1.0, 1.0], 12)[:, None]
    state = random.uniform(-2.0, 2.0, 37)
    state[3:7] /= np.linalg.norm(state[3:7])
    out = np.full((4, 3), np.nan)
    FootKinematics(offset, axis, foot, 0.03).lowest_points(state, out)
    base = rotation_matrix(state[3:7])
    for leg in range(4):
        point = foot[leg]
        for joint in (3 * leg + 2, 3 * leg + 1, 3 * leg):
            point = offset[joint] + turn(axis[joint], state[13 + joint]) @ point
        expected = state[0:3] + base @ point - 0.03 * Z
        np.testing.assert_allclose(out[leg], expected, atol=1e-12)


def test_other_axes_are_refused():
    axis = np.tile([X, Y, Y], (4, 1))
    axis[4] = Z
    with pytest.raises(ValueError, match="about"):
        FootKinematics(np.zeros((12, 3)), axis, np.zeros((4, 3)), 0.03)


# Gravity direction in the base, R^T (0, 0, -1), of rotations that tell wxyz from xyzw (B25).
QUARTER, TEN = np.sqrt(0.5), np.radians(10.0)
GRAVITY = [
    ((np.sin(TEN / 2), 0, 0, np.cos(TEN / 2)), (0, -np.sin(TEN), -np.cos(TEN))),  # roll +10 deg
    ((0, np.sin(TEN / 2), 0, np.cos(TEN / 2)), (np.sin(TEN), 0, -np.cos(TEN))),  # pitch +10 deg
    ((0, 0, QUARTER, QUARTER), (0, 0, -1)),  # yaw 90 deg
    ((1, 0, 0, 0), (0, 0, 1)),  # on its back, about x
]


@pytest.mark.parametrize(("quaternion", "gravity"), GRAVITY)
def test_projected_gravity_table(quaternion, gravity):
    matrix = rotation_matrix(np.array(quaternion, dtype=float))
    np.testing.assert_allclose(matrix.T @ [0, 0, -1], gravity, atol=1e-12)


def test_product_is_one_rotation_after_the_other():
    a, b = small_rotation(np.array([0.3, -0.2, 0.5])), small_rotation(np.array([-0.7, 0.1, 0.2]))
    both = rotation_matrix(multiply_quaternions(a, b))
    np.testing.assert_allclose(both, rotation_matrix(a) @ rotation_matrix(b), atol=1e-12)


def test_rotation_vector_is_axis_times_angle():
    vector = np.array([0.3, -0.2, 0.5])
    angle = np.linalg.norm(vector)
    expected = turn(vector / angle, angle)
    np.testing.assert_allclose(rotation_matrix(small_rotation(vector)), expected, atol=1e-12)
    assert small_rotation(np.zeros(3)).tolist() == [0, 0, 0, 1]
