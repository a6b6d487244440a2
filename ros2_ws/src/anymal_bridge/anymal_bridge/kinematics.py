"""Where the feet are, and the rotations that this takes. Quaternions are xyzw.

A leg is a hip about x and two joints about y; all frames are parallel to the base at angle 0.
"""

from __future__ import annotations

import math

import numpy as np

from .robot_sample import JOINT_POSITION, ORIENTATION, POSITION


class FootKinematics:
    """Positions of the four feet of one robot.

    Args:
        joint_offset: [12, 3] m, origin of each joint in the frame of the joint before it.
        joint_axis: [12, 3] unit vectors; +-x for the first joint of each leg, +-y for the others.
        foot_offset: [4, 3] m, centre of the foot sphere in the frame of the last joint.
        foot_radius: m.

    Raises:
        ValueError: an axis is none of these.
    """

    def __init__(
        self,
        joint_offset: np.ndarray,
        joint_axis: np.ndarray,
        foot_offset: np.ndarray,
        foot_radius: float,
    ) -> None:
        axis = np.asarray(joint_axis, dtype=np.float64).reshape(4, 3, 3)
        wanted = np.abs(axis[:, (0, 1, 2), (0, 1, 1)])
        if not np.allclose(wanted, 1.0, atol=1e-9):
            raise ValueError(
                f"joint axes are {axis.reshape(12, 3).tolist()}; feet can only be found for hips "
                "about +-x and the other joints about +-y"
            )
        self._sign = axis[:, (0, 1, 2), (0, 1, 1)]
        offset = np.asarray(joint_offset, dtype=np.float64).reshape(4, 3, 3)
        self._hip, self._thigh, self._knee = offset[:, 0], offset[:, 1], offset[:, 2]
        self._foot = np.asarray(foot_offset, dtype=np.float64)
        self._radius = foot_radius

    def lowest_points(self, state: np.ndarray, out: np.ndarray) -> None:
        """Lowest point of each foot on level ground.

        Args:
            state: [37], packed as in ``robot_sample``.
            out: [4, 3] m, world frame, written.
        """
        angle = state[JOINT_POSITION].reshape(4, 3) * self._sign
        # v = p_hfe + Ry(a1) p_kfe + Ry(a1 + a2) p_foot,  foot = p_haa + Rx(a0) v
        pitch = np.cumsum(angle[:, 1:], axis=1)
        sin, cos = np.sin(pitch), np.cos(pitch)
        knee, foot = self._knee, self._foot
        x = self._thigh[:, 0] + cos[:, 0] * knee[:, 0] + sin[:, 0] * knee[:, 2]
        z = self._thigh[:, 2] - sin[:, 0] * knee[:, 0] + cos[:, 0] * knee[:, 2]
        x += cos[:, 1] * foot[:, 0] + sin[:, 1] * foot[:, 2]
        z += -sin[:, 1] * foot[:, 0] + cos[:, 1] * foot[:, 2]
        y = self._thigh[:, 1] + knee[:, 1] + foot[:, 1]
        sin, cos = np.sin(angle[:, 0]), np.cos(angle[:, 0])
        out[:, 0] = x
        out[:, 1] = cos * y - sin * z
        out[:, 2] = sin * y + cos * z
        out += self._hip
        np.matmul(out, rotation_matrix(state[ORIENTATION]).T, out=out)
        out += state[POSITION]
        out[:, 2] -= self._radius


def rotation_matrix(quaternion: np.ndarray) -> np.ndarray:
    """Unit quaternion xyzw -> matrix [3, 3] that turns base vectors into the world frame."""
    x, y, z, w = quaternion.tolist()
    return np.array(
        (
            (1.0 - 2.0 * (y * y + z * z), 2.0 * (x * y - z * w), 2.0 * (x * z + y * w)),
            (2.0 * (x * y + z * w), 1.0 - 2.0 * (x * x + z * z), 2.0 * (y * z - x * w)),
            (2.0 * (x * z - y * w), 2.0 * (y * z + x * w), 1.0 - 2.0 * (x * x + y * y)),
        )
    )


def multiply_quaternions(a: np.ndarray, b: np.ndarray) -> np.ndarray:
    """Product a b of two quaternions xyzw: the rotation b, then a."""
    ax, ay, az, aw = a.tolist()
    bx, by, bz, bw = b.tolist()
    return np.array(
        (
            aw * bx + ax * bw + ay * bz - az * by,
            aw * by - ax * bz + ay * bw + az * bx,
            aw * bz + ax * by - ay * bx + az * bw,
            aw * bw - ax * bx - ay * by - az * bz,
        )
    )


def small_rotation(angles: np.ndarray) -> np.ndarray:
    """Rotation vector [3] in rad -> unit quaternion xyzw."""
    angle = math.sqrt(float(angles @ angles))
    if angle == 0.0:
        return np.array((0.0, 0.0, 0.0, 1.0))
    return np.append(angles * (math.sin(0.5 * angle) / angle), math.cos(0.5 * angle))
