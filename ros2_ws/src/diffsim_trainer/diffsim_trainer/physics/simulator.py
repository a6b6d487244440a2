"""Batched simulator of one robot type: the public face of the physics."""

from __future__ import annotations

import numpy as np
import warp as wp

from . import model as layout
from .contact import ContactModel
from .model import build_model
from .step import LANE_BLOCK, build_lane_kernel, build_robot_kernel
from .urdf import Robot

REALS = {"float32": wp.float32, "float64": wp.float64}
DEFAULT_SWEEPS = 3


class Simulator:
    """Steps `num_envs` copies of `robot`, forward and adjoint.

    Packed arrays (see `model`): state [N, 37] position in the world (m), orientation xyzw, linear
    and angular velocity in base axes (m/s, rad/s), joint position [12] (rad) and velocity (rad/s);
    target [N, 12] joint position set point (rad); params [N, 9] friction, added base mass (kg),
    base com shift [3] (m), kp scale, kd scale, motor strength, kappa (1/m); sensors [N, 4, 10] per
    leg: motor torque before friction [3] (N m), height of the lowest point of the foot (m), its
    velocity in the world [3] (m/s), contact force on it [3] (N). Torque is the one applied during
    the substep and force its mean; height (to first order) and velocity are those at its end.
    """

    def __init__(
        self,
        robot: Robot,
        num_envs: int,
        device: str = "cpu",
        dtype: str = "float32",
        dt: float = 0.005,
        contact: ContactModel = ContactModel.SMOOTHED,
        sweeps: int = DEFAULT_SWEEPS,
        position_correction: bool = True,
        body_contacts: bool = False,
    ):
        """dt in s; position_correction works off depth in the SMOOTHED law (HARD always does).

        Raises ValueError for an unknown dtype, a non-positive dt or sweep count.
        """
        if dtype not in REALS:
            raise ValueError(f"dtype is {dtype!r}; use one of {sorted(REALS)}")
        if not dt > 0.0:
            raise ValueError(f"dt is {dt} s; it must be positive")
        if sweeps < 1:
            raise ValueError(f"sweeps is {sweeps}; at least 1 is needed")
        if body_contacts:
            raise NotImplementedError("body contacts come with the next slice")
        self.robot = robot
        self.num_envs = num_envs
        self.device = device
        self.real = REALS[dtype]
        self.dt = dt
        self.contact = contact
        self._model = build_model(robot, self.real, dt, device)
        if wp.get_device(device).is_cuda:
            self._kernel = build_lane_kernel(self.real, contact, sweeps, position_correction)
            self._dim, self._block_dim = (num_envs, 4), LANE_BLOCK
        else:
            self._kernel = build_robot_kernel(self.real, contact, sweeps, position_correction)
            self._dim, self._block_dim = (num_envs,), 1

    def default_params(self) -> np.ndarray:
        """Nominal params [N, 9]."""
        params = np.zeros((self.num_envs, layout.PARAMS_SIZE))
        params[:, layout.FRICTION] = layout.DEFAULT_FRICTION
        params[:, [layout.KP_SCALE, layout.KD_SCALE, layout.MOTOR_STRENGTH]] = 1.0
        params[:, layout.KAPPA] = layout.DEFAULT_KAPPA
        return params

    def step(
        self,
        state_in: wp.array,
        target_prev: wp.array,
        target: wp.array,
        params: wp.array,
        delay_steps: wp.array,
        substep: int,
        state_out: wp.array,
        sensors_out: wp.array,
        stream: wp.Stream | None = None,
    ) -> None:
        """Advance every environment by dt: one launch, no allocation, no synchronisation.

        delay_steps int32 [N]: substep k of a control period applies target_prev while
        k < delay_steps. state_out must not be state_in.
        """
        wp.launch(
            self._kernel,
            dim=self._dim,
            block_dim=self._block_dim,
            inputs=[
                self._model,
                state_in,
                target_prev,
                target,
                params,
                delay_steps,
                substep,
            ],
            outputs=[state_out, sensors_out],
            device=self.device,
            stream=stream,
        )

    def step_adjoint(
        self,
        state_in: wp.array,
        target_prev: wp.array,
        target: wp.array,
        params: wp.array,
        delay_steps: wp.array,
        substep: int,
        state_out: wp.array,
        sensors_out: wp.array,
        adj_state_in: wp.array,
        adj_target_prev: wp.array,
        adj_target: wp.array,
        adj_params: wp.array | None,
        adj_state_out: wp.array,
        adj_sensors_out: wp.array,
        stream: wp.Stream | None = None,
    ) -> None:
        """Adjoint of `step` with the same arguments.

        Adds to adj_state_in, adj_target_prev, adj_target and, unless None, adj_params. Reads only
        the inputs, not the outputs, of the step. adj_state_out and adj_sensors_out are consumed:
        they are zero afterwards.
        """
        wp.launch(
            self._kernel,
            dim=self._dim,
            block_dim=self._block_dim,
            inputs=[
                self._model,
                state_in,
                target_prev,
                target,
                params,
                delay_steps,
                substep,
            ],
            outputs=[state_out, sensors_out],
            adj_inputs=[
                self._model,
                adj_state_in,
                adj_target_prev,
                adj_target,
                adj_params,
                None,
                substep,
            ],
            adj_outputs=[adj_state_out, adj_sensors_out],
            adjoint=True,
            device=self.device,
            stream=stream,
        )
