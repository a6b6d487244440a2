"""What goes in and out of the controller, as plain arrays in the canonical joint order.

World frame z up; base frame x forward, y left. Quaternions are xyzw, base to world.
"""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np

LEG_NAMES = ("LF", "RF", "LH", "RH")
JOINT_NAMES = tuple(f"{leg}_{joint}" for leg in LEG_NAMES for joint in ("HAA", "HFE", "KFE"))
FOOT_NAMES = tuple(f"{leg}_FOOT" for leg in LEG_NAMES)
NUM_JOINTS = len(JOINT_NAMES)

ROBOT_OK = 0
"""The only value of `RobotState.robot_ok` that is good: below is an error, above is not ready."""


@dataclass(frozen=True)
class RobotState:
    """State of the robot, float64 arrays.

    stamp_ns: time of the measurement in the sender's clock, ns.
    base_position: in the world, m, shape [3].
    base_orientation: base to world, xyzw, shape [4].
    base_linear_velocity: of the base origin, in the base frame, m/s, shape [3].
    base_angular_velocity: in the base frame, rad/s, shape [3].
    joint_position: rad, shape [12].
    joint_velocity: rad/s, shape [12].
    joint_torque: N m, shape [12].
    robot_ok: 0 is good, below is an error, above is not ready (AnymalState.state).
    foot_contact: True where the estimator sees the foot loaded, LF, RF, LH, RH, shape [4].
        Not given means no contact, so that the policy is not started.
    received_ns: time of reception in the control clock, ns; -1 = the stamp is in the control clock.
    """

    stamp_ns: int
    base_position: np.ndarray
    base_orientation: np.ndarray
    base_linear_velocity: np.ndarray
    base_angular_velocity: np.ndarray
    joint_position: np.ndarray
    joint_velocity: np.ndarray
    joint_torque: np.ndarray
    robot_ok: int
    foot_contact: np.ndarray = field(default_factory=lambda: np.zeros(4, dtype=bool))
    received_ns: int = -1

    @property
    def time_ns(self) -> int:
        """Time of reception in the control clock, ns."""
        return self.stamp_ns if self.received_ns < 0 else self.received_ns

    @classmethod
    def from_packed(
        cls, packed: np.ndarray, stamp_ns: int = 0, joint_torque: np.ndarray | None = None
    ) -> RobotState:
        """State from the simulator's packed row.

        packed: shape [37] = position 3, orientation 4 (xyzw), linear velocity 3, angular velocity 3
            (both in the base frame), joint position 12, joint velocity 12.
        joint_torque: N m, shape [12]; zeros if not given.
        """
        packed = np.asarray(packed, dtype=np.float64)
        if packed.shape != (37,):
            raise ValueError(
                f"packed state: found shape {packed.shape}, allowed (37,); pass one row"
            )
        torque = np.zeros(NUM_JOINTS) if joint_torque is None else np.asarray(joint_torque)
        return cls(
            stamp_ns=stamp_ns,
            base_position=packed[0:3],
            base_orientation=packed[3:7],
            base_linear_velocity=packed[7:10],
            base_angular_velocity=packed[10:13],
            joint_position=packed[13:25],
            joint_velocity=packed[25:37],
            joint_torque=torque,
            robot_ok=ROBOT_OK,
        )


@dataclass(frozen=True)
class VelocityCommand:
    """Velocity wanted by the operator, base frame.

    linear_x, linear_y: m/s. yaw_rate: rad/s. stamp_ns: when it was given, control clock, ns.
    """

    linear_x: float
    linear_y: float
    yaw_rate: float
    stamp_ns: int = 0


@dataclass(frozen=True)
class JointCommand:
    """Set points of the twelve drives; torque = kp (position - q) + kd (velocity - qd) + torque.

    position: rad. velocity: rad/s. torque: N m. kp: N m/rad. kd: N m s/rad. Each of shape [12].
    """

    position: np.ndarray
    velocity: np.ndarray
    torque: np.ndarray
    kp: np.ndarray
    kd: np.ndarray
