"""The same robot in MuJoCo: an independent opinion on dynamics and contact.

Called like diffsim_trainer.hard_contact_engine; the model is written by physics.mjcf.
"""

from __future__ import annotations

import mujoco
import numpy as np

from diffsim_trainer.physics import Robot, to_mjcf


class MujocoEngine:
    """One MuJoCo simulation per robot. Drives as in physics.actuator, with the plain clamp instead
    of the rounded one. friction: coefficient; base_mass: kg added."""

    def __init__(
        self, robot: Robot, num_envs: int, dt: float, friction: float = 0.8, base_mass: float = 0.0
    ) -> None:
        self.robot = robot
        self.model = mujoco.MjModel.from_xml_string(to_mjcf(robot, dt, friction))
        self.model.body("base").mass[0] += base_mass
        self.feet = [self.model.geom(name).id for name in robot.foot_names]
        self.data = [mujoco.MjData(self.model) for _ in range(num_envs)]
        self.started = False

    def __call__(self, state: np.ndarray, target: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """`state` counts in the first call only: after that MuJoCo keeps its own, in float64."""
        if not self.started:
            for data, row in zip(self.data, state, strict=True):
                self._load(data, row.astype(np.float64))
            self.started = True
        state_out = np.empty_like(state)
        sensors = np.zeros((len(self.data), 4, 10), dtype=state.dtype)
        for i, data in enumerate(self.data):
            data.ctrl[:] = self._drive(data, target[i])
            mujoco.mj_step(self.model, data)
            # Contacts and their forces stay those of the step; poses and velocities become those at
            # its end.
            mujoco.mj_kinematics(self.model, data)
            mujoco.mj_comPos(self.model, data)
            mujoco.mj_comVel(self.model, data)
            state_out[i] = self._pack(data)
            sensors[i, :, 0:3] = data.ctrl.reshape(4, 3)
            for foot, geom in enumerate(self.feet):
                sensors[i, foot, 3:10] = self._sense(data, geom)
        return state_out, sensors

    def _drive(self, data, target: np.ndarray) -> np.ndarray:
        """PD torque within the DC motor's torque-speed lines; friction is MuJoCo's."""
        robot, speed = self.robot, data.qvel[6:]
        demand = robot.kp * (target - data.qpos[7:]) - robot.kd * speed
        stall, limit = robot.actuator.saturation_torque, robot.torque_limit
        upper = np.clip(stall * (1.0 - speed / robot.velocity_limit), 0.0, limit)
        lower = -np.clip(stall * (1.0 + speed / robot.velocity_limit), 0.0, limit)
        return np.clip(demand, lower, upper)

    def _load(self, data, row: np.ndarray) -> None:
        data.qpos[0:3], data.qpos[3:7], data.qpos[7:] = row[0:3], row[[6, 3, 4, 5]], row[13:25]
        rotation = np.zeros(9)
        mujoco.mju_quat2Mat(rotation, data.qpos[3:7])
        data.qvel[0:3] = rotation.reshape(3, 3) @ row[7:10]
        data.qvel[3:6], data.qvel[6:] = row[10:13], row[25:37]
        mujoco.mj_forward(self.model, data)

    def _pack(self, data) -> np.ndarray:
        rotation = data.body("base").xmat.reshape(3, 3)
        return np.concatenate(
            [
                data.qpos[0:3],
                data.qpos[[4, 5, 6, 3]],
                rotation.T @ data.qvel[0:3],
                data.qvel[3:6],
                data.qpos[7:],
                data.qvel[6:],
            ]
        )

    def _sense(self, data, geom: int) -> np.ndarray:
        """Height and velocity of the lowest point of a foot, and the contact force on it [7]."""
        radius = self.robot.foot_radius
        twist, wrench, force = np.zeros(6), np.zeros(6), np.zeros(3)
        mujoco.mj_objectVelocity(self.model, data, mujoco.mjtObj.mjOBJ_GEOM, geom, twist, 0)
        velocity = twist[3:] + np.cross(twist[:3], [0.0, 0.0, -radius])
        for i in range(data.ncon):
            contact = data.contact[i]
            if geom in (contact.geom1, contact.geom2):
                mujoco.mj_contactForce(self.model, data, i, wrench)
                # The contact frame's x axis points from geom1 to geom2; the force acts on geom2.
                sign = 1.0 if contact.geom2 == geom else -1.0
                force += sign * contact.frame.reshape(3, 3).T @ wrench[:3]
        return np.concatenate([[data.geom_xpos[geom][2] - radius], velocity, force])
