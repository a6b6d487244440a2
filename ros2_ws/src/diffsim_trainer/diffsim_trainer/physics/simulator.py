"""Batched simulator of one robot type: the public face of the physics."""

from __future__ import annotations

import numpy as np
import warp as wp

from . import model as layout
from .body_contact import MAX_CONTACTS, build_body_contact
from .clearance import PARTS, build_clearance_kernel
from .contact import CORRECTION_RATE, ContactModel
from .discs import build_discs
from .feet import FEET_SWEEPS, MAX_SWEEPS
from .model import build_model
from .step import LANE_BLOCK, build_body_kernel, build_lane_kernel, build_robot_kernel
from .terrain import Terrain
from .urdf import Robot

REALS = {"float32": wp.float32, "float64": wp.float64}
SHAPES = {  # per environment, of the arguments of `step`
    "state_in": (layout.STATE_SIZE,),
    "target_prev": (12,),
    "target": (12,),
    "params": (layout.PARAMS_SIZE,),
    "delay_steps": (),
    "state_out": (layout.STATE_SIZE,),
    "sensors_out": (4, layout.SENSORS_SIZE),
}
NUM_BODIES = 13
MAX_BODY_SWEEPS = 1000
BODY_SWEEPS = 20  # points of one body are coupled much more than feet


class Simulator:
    """Steps `num_envs` copies of `robot`, forward and adjoint.

    Packed arrays (see `model`): state [N, 37] position in the world (m), orientation xyzw, linear
    and angular velocity in base axes (m/s, rad/s), joint position [12] (rad) and velocity (rad/s);
    target [N, 12] joint position set point (rad); params [N, 9] friction, added base mass (kg),
    base com shift [3] (m), kp scale, kd scale, motor strength, kappa (1/m); sensors [N, 4, 10] per
    leg: motor torque before friction [3] (N m), height of the foot's nearest point above ground,
    along the normal (m), its velocity in the world [3] (m/s), contact force on it [3] (N). Torque
    is the one applied during the substep and force its mean; height (to first order) and velocity
    are those at its end.

    ground_offset [N, 2] (m) is there on a terrain only: it is added to x and y before the terrain
    is looked up, so that every environment sees other ground. Write to it at any time.

    On a CUDA device each leg has a lane; on the CPU each robot has a thread. Same functions, same
    result up to rounding.
    """

    def __init__(
        self,
        robot: Robot,
        num_envs: int,
        device: str = "cpu",
        dtype: str = "float32",
        dt: float = 0.005,
        contact: ContactModel = ContactModel.SMOOTHED,
        sweeps: int | None = None,
        position_correction: bool = True,
        body_contacts: bool = False,
        terrain: Terrain | None = None,
    ):
        """Build the kernels and upload the robot.

        dt in s; sweeps of the contact solver, by default enough for 0.1 %; position_correction
        works off depth in the SMOOTHED law (HARD always does, SOFT never). With body_contacts the
        base and all links touch the ground too (HARD only, `step` only). The ground is the plane
        z = 0 or a terrain; they are different kernels, so the plane costs nothing more.

        Raises ValueError for an unknown dtype, a non-positive dt or sweep count, or body_contacts
        with another law than HARD.
        """
        if dtype not in REALS:
            raise ValueError(f"dtype is {dtype!r}; use one of {sorted(REALS)}")
        if not dt > 0.0:
            raise ValueError(f"dt is {dt} s; it must be positive")
        if body_contacts and contact is not ContactModel.HARD:
            raise ValueError(f"body_contacts with {contact}; only ContactModel.HARD supports them")
        sweeps = (BODY_SWEEPS if body_contacts else FEET_SWEEPS) if sweeps is None else sweeps
        limit = MAX_BODY_SWEEPS if body_contacts else MAX_SWEEPS
        if not 1 <= sweeps <= limit:
            raise ValueError(f"sweeps is {sweeps}; use 1 to {limit}")
        self.robot = robot
        self.num_envs = num_envs
        self.device = wp.get_device(device)
        self.real = REALS[dtype]
        self.dt = dt
        self.contact = contact
        self.body_contacts = body_contacts
        correction = CORRECTION_RATE if position_correction or contact is ContactModel.HARD else 0.0
        self._model = build_model(
            robot, terrain, num_envs, self.real, dt, sweeps, correction, self.device
        )
        self.ground_offset = self._model.ground_offset
        rough = terrain is not None
        self._scratch: list = []
        self._dim: tuple[int, ...] = (num_envs,)
        self._block_dim = 64
        self._discs = build_discs(robot, self.real, self.device)
        self._clearance_kernel = build_clearance_kernel(self.real, rough)
        if body_contacts:
            types = build_body_contact(self.real, rough)
            self._scratch = [
                self._discs,
                wp.zeros((num_envs, 4), dtype=types.LegWork, device=self.device),
                wp.zeros((num_envs, MAX_CONTACTS), dtype=types.Contact, device=self.device),
            ]
            self._kernel = build_body_kernel(self.real, rough)
        elif self.device.is_cuda:
            self._kernel = build_lane_kernel(self.real, contact, rough, sweeps)
            self._dim, self._block_dim = (num_envs, 4), LANE_BLOCK
        else:
            self._kernel = build_robot_kernel(self.real, contact, rough)

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
        k < delay_steps.

        Raises ValueError for an array of another shape and for state_out on the memory of state_in
        (`step_adjoint` too).
        """
        self._check(state_in, target_prev, target, params, delay_steps, state_out, sensors_out)
        inputs = [self._model, state_in, target_prev, target, params, delay_steps, substep]
        wp.launch(
            self._kernel,
            dim=self._dim,
            block_dim=self._block_dim,
            inputs=inputs + self._scratch,
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
        """Adjoint of `step` with the same arguments: one launch.

        Adds to adj_state_in, adj_target_prev, adj_target and, unless None, adj_params. The step is
        computed again from its inputs, which writes the same values to state_out and sensors_out
        again. adj_state_out and adj_sensors_out are read only.

        Raises RuntimeError for a simulator with body_contacts.
        """
        if self.body_contacts:
            raise RuntimeError("a simulator with body_contacts has no gradient; build one without")
        self._check(state_in, target_prev, target, params, delay_steps, state_out, sensors_out)
        self._check(
            adj_state_in,
            adj_target_prev,
            adj_target,
            params if adj_params is None else adj_params,
            delay_steps,
            adj_state_out,
            adj_sensors_out,
        )
        inputs = [self._model, state_in, target_prev, target, params, delay_steps, substep]
        adj_inputs = [self._model, adj_state_in, adj_target_prev, adj_target, adj_params, None]
        wp.launch(
            self._kernel,
            dim=self._dim,
            block_dim=self._block_dim,
            inputs=inputs,
            outputs=[state_out, sensors_out],
            adj_inputs=[*adj_inputs, substep],
            adj_outputs=[adj_state_out, adj_sensors_out],
            adjoint=True,
            device=self.device,
            stream=stream,
        )

    def measure_clearance(
        self, state: wp.array, clearance: wp.array, stream: wp.Stream | None = None
    ) -> None:
        """Height above ground (m, negative inside it) of the lowest point of every body without its
        foot, [N, 13]: base, then hip, thigh and shank of each leg; infinity for a body without
        collision shape. One launch, no gradient.

        Raises ValueError for an array of another shape.
        """
        for array, size, name in (
            (state, layout.STATE_SIZE, "state"),
            (clearance, NUM_BODIES, "clearance"),
        ):
            if array.shape != (self.num_envs, size):
                raise ValueError(
                    f"{name} has shape {array.shape}; it must be {(self.num_envs, size)}"
                )
        wp.launch(
            self._clearance_kernel,
            dim=(self.num_envs, PARTS),
            inputs=[self._model, self._discs, state],
            outputs=[clearance],
            device=self.device,
            stream=stream,
        )

    def _check(self, *arrays: wp.array) -> None:
        """Refuse wrong shapes, which a kernel would overrun, and a step in place, which would leave
        the result right and its gradient wrong."""
        for array, (name, shape) in zip(arrays, SHAPES.items(), strict=True):
            if array.shape != (self.num_envs, *shape):
                raise ValueError(
                    f"{name} has shape {array.shape}; it must be {(self.num_envs, *shape)}"
                )
        if arrays[0].ptr == arrays[5].ptr:
            raise ValueError(
                "state_out lies on the memory of state_in; give it an array of its own"
            )
