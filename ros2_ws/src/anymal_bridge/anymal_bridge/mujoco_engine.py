"""Engine ``mujoco``: the same robot in MuJoCo, an independent opinion on dynamics and contact.

Called like WarpEngine. The model is written by `to_mjcf`; drives as in the trainer's actuator, with
the plain clamp of a DC motor instead of the rounded one.
"""

from __future__ import annotations

import mujoco
import numpy as np

from diffsim_trainer.physics import Robot, Terrain, to_mjcf

NUM_PARAMS = 9


class MujocoEngine:
    """Steps one robot; attributes as of WarpEngine.

    ``params``: friction, added mass kg, shift of the centre of mass [3] m, scales of kp, kd and
    motor strength.
    """

    def __init__(self, robot: Robot, dt: float, terrain: Terrain | None = None) -> None:
        self._robot, self._terrain = robot, terrain
        self._model = mujoco.MjModel.from_xml_string(to_mjcf(robot, dt, terrain=terrain))
        # A step depends on its state alone, not on the forces of the step before: runs repeat.
        self._model.opt.disableflags |= int(mujoco.mjtDisableBit.mjDSBL_WARMSTART)
        self._data = mujoco.MjData(self._model)
        self._base = self._model.body("base").id
        self._mass = float(self._model.body_mass[self._base])
        self._com = self._model.body_ipos[self._base].copy()
        self._feet = [self._model.geom(name).id for name in robot.foot_names]
        self.state_in, self.state_out = np.zeros((1, 37)), np.zeros((1, 37))
        self.target, self.sensors = np.zeros((1, 12)), np.zeros((1, 4, 10))
        self.params = np.zeros((1, NUM_PARAMS))
        self.params[0, [0, 5, 6, 7]] = 1.0
        self._applied = np.full(5, np.nan)

    def step(self) -> None:
        """One step of `dt`, from `state_in` to `state_out` and `sensors`."""
        data, model = self._data, self._model
        self._apply_params()
        self._load(self.state_in[0])
        data.ctrl[:] = self._drive()
        mujoco.mj_step(model, data)
        # Contacts and their forces stay those of the step; poses and velocities become those at
        # its end.
        mujoco.mj_kinematics(model, data)
        mujoco.mj_comPos(model, data)
        mujoco.mj_comVel(model, data)
        self._read()

    def _apply_params(self) -> None:
        wanted = self.params[0, :5]
        if (wanted == self._applied).all():
            return
        self._applied = wanted.copy()
        model, added = self._model, float(wanted[1])
        model.geom_friction[:, 0] = wanted[0]
        model.body_mass[self._base] = self._mass + added
        model.body_ipos[self._base] = self._com + wanted[2:5]
        mujoco.mj_setConst(model, mujoco.MjData(model))

    def _drive(self) -> np.ndarray:
        robot, params = self._robot, self.params[0]
        position, speed = self._data.qpos[7:], self._data.qvel[6:]
        kp, kd, strength = robot.kp * params[5], robot.kd * params[6], params[7]
        demand = strength * (kp * (self.target[0] - position) - kd * speed)
        stall, limit = robot.actuator.saturation_torque, robot.torque_limit
        upper = strength * np.clip(stall * (1.0 - speed / robot.velocity_limit), 0.0, limit)
        lower = -strength * np.clip(stall * (1.0 + speed / robot.velocity_limit), 0.0, limit)
        return np.clip(demand, lower, upper)

    def _load(self, row: np.ndarray) -> None:
        data, rotation = self._data, np.zeros(9)
        data.qpos[0:3], data.qpos[3:7], data.qpos[7:] = row[0:3], row[[6, 3, 4, 5]], row[13:25]
        mujoco.mju_quat2Mat(rotation, data.qpos[3:7])
        data.qvel[0:3] = rotation.reshape(3, 3) @ row[7:10]
        data.qvel[3:6], data.qvel[6:] = row[10:13], row[25:37]

    def _read(self) -> None:
        data, out = self._data, self.state_out[0]
        rotation = data.xmat[self._base].reshape(3, 3)
        out[0:3], out[3:7] = data.qpos[0:3], data.qpos[[4, 5, 6, 3]]
        out[7:10], out[10:13] = rotation.T @ data.qvel[0:3], data.qvel[3:6]
        out[13:25], out[25:37] = data.qpos[7:], data.qvel[6:]
        self.sensors[0, :, 0:3] = data.ctrl.reshape(4, 3)
        radius, twist = self._robot.foot_radius, np.zeros(6)
        for foot, geom in enumerate(self._feet):
            mujoco.mj_objectVelocity(self._model, data, mujoco.mjtObj.mjOBJ_GEOM, geom, twist, 0)
            self.sensors[0, foot, 3] = self._clearance(data.geom_xpos[geom])
            self.sensors[0, foot, 4:7] = twist[3:] + np.cross(twist[:3], [0.0, 0.0, -radius])
        self.sensors[0, :, 7:10] = self._foot_forces()

    def _clearance(self, centre: np.ndarray) -> float:
        """Height of a foot's nearest point above ground, along the normal, m."""
        radius = self._robot.foot_radius
        if self._terrain is None:
            return centre[2] - radius
        x, y, z = centre
        reach = 1e-4  # m, of the central differences
        ground = self._terrain.height(
            x + reach * np.array([0.0, 1.0, -1.0, 0.0, 0.0]),
            y + reach * np.array([0.0, 0.0, 0.0, 1.0, -1.0]),
        )
        slopes = (ground[[1, 3]] - ground[[2, 4]]) / (2.0 * reach)
        return (z - ground[0]) / np.sqrt(1.0 + slopes @ slopes) - radius

    def _foot_forces(self) -> np.ndarray:
        """Force of the ground on each foot [4, 3] N, world axes."""
        forces, wrench = np.zeros((4, 3)), np.zeros(6)
        contacts = self._data.contact
        for i, (geom1, geom2) in enumerate(contacts.geom.tolist()):
            for foot, geom in enumerate(self._feet):
                if geom in (geom1, geom2):
                    mujoco.mj_contactForce(self._model, self._data, i, wrench)
                    # The contact frame's x axis points from geom1 to geom2; the force acts on 2.
                    sign = 1.0 if geom2 == geom else -1.0
                    forces[foot] += sign * contacts.frame[i].reshape(3, 3).T @ wrench[:3]
        return forces
