"""Our simulator with hard contact as a plain step function, to play policies in: no gradients.

An engine is called with state [N, 37] and joint target [N, 12] (rad) and returns the state one
substep later and the sensors [N, 4, 10], both packed as in diffsim_trainer.physics.
"""

from __future__ import annotations

import numpy as np
import warp as wp

from diffsim_trainer.physics import ContactModel, Robot, Simulator


class HardContactEngine:
    """The simulator with hard contact as a `Step`: float32, CPU, no gradient. friction:
    coefficient; base_mass: kg added."""

    def __init__(
        self, robot: Robot, num_envs: int, dt: float, friction: float = 0.8, base_mass: float = 0.0
    ) -> None:
        self.sim = Simulator(
            robot, num_envs, device="cpu", dtype="float32", dt=dt, contact=ContactModel.HARD
        )
        params = self.sim.default_params().astype(np.float32)
        params[:, 0], params[:, 1] = friction, base_mass
        self.params = wp.array(params, dtype=wp.float32, device="cpu")
        self.no_delay = wp.zeros(num_envs, dtype=wp.int32, device="cpu")
        self.state_out = wp.empty((num_envs, 37), dtype=wp.float32, device="cpu")
        self.sensors_out = wp.empty((num_envs, 4, 10), dtype=wp.float32, device="cpu")

    def __call__(self, state: np.ndarray, target: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        state_in, target_in = (
            wp.array(np.ascontiguousarray(x), dtype=wp.float32, device="cpu")
            for x in (state, target)
        )
        self.sim.step(
            state_in,
            target_in,
            target_in,
            self.params,
            self.no_delay,
            0,
            self.state_out,
            self.sensors_out,
        )
        return self.state_out.numpy().copy(), self.sensors_out.numpy().copy()
