"""Engine ``warp``: one robot in the hard-contact simulator of the trainer, on the CPU."""

from __future__ import annotations

import numpy as np
import warp as wp

from diffsim_trainer.physics import ContactModel, Robot, Simulator, Terrain


class WarpEngine:
    """Steps one robot; bodies touch the ground, too.

    Attributes:
        state_in, state_out: float32 [1, 37], before and after a step.
        target: float32 [1, 12] rad. params: float32 [1, P] of the simulator.
        sensors: float32 [1, 4, 10].
    """

    def __init__(self, robot: Robot, dt: float, terrain: Terrain | None = None) -> None:
        self._simulator = Simulator(
            robot,
            1,
            device="cpu",
            dtype="float32",
            dt=dt,
            contact=ContactModel.HARD,
            body_contacts=True,
            terrain=terrain,
        )

        def on_cpu(shape: tuple[int, ...], dtype=wp.float32) -> tuple[wp.array, np.ndarray]:
            storage = wp.zeros(shape, dtype=dtype, device="cpu")
            return storage, storage.numpy()  # on the CPU the second is a view of the first

        self._state_in, self.state_in = on_cpu((1, 37))
        self._state_out, self.state_out = on_cpu((1, 37))
        self._target, self.target = on_cpu((1, 12))
        self._sensors, self.sensors = on_cpu((1, 4, 10))
        self._no_delay, _ = on_cpu((1,), wp.int32)
        self._params, self.params = on_cpu(self._simulator.default_params().shape)
        self.params[:] = self._simulator.default_params()

    def step(self) -> None:
        """One step of `dt`, from `state_in` to `state_out` and `sensors`."""
        self._simulator.step(
            self._state_in,
            self._target,
            self._target,
            self._params,
            self._no_delay,
            0,
            self._state_out,
            self._sensors,
        )
