"""One control period of the simulator as a torch.autograd.Function, and the touch sensor of its
bodies: the only file that knows both Warp and torch.

The physics kernels read and write torch memory directly (`wp.from_torch`, no copy) on torch's
current stream, so a whole training iteration can be captured in one CUDA graph; nothing here waits
for the device.

Backward, per environment:
1. the incoming cotangent (state and sensors together) is scaled down to a norm of at most
   `cotangent_clip`;
2. an environment whose cotangent is not finite gets zero instead and is counted in
   `CotangentMonitor.nonfinite`: one bad robot must neither poison the batch nor pass unnoticed;
3. substeps are differentiated in reverse with `Simulator.step_adjoint`; each substep has its own
   state array, since an array written twice makes the adjoint silently wrong.
"""

from __future__ import annotations

import torch
import warp as wp

from diffsim_trainer.nonfinite import NonfiniteRecord
from diffsim_trainer.physics import Simulator

SENSOR_SIZE = 10
NUM_BODIES = 13


def silence_warp() -> None:
    """Keeps Warp's start-up banner off standard output, where commands print their results."""
    wp.config.log_level = wp.LOG_WARNING


class CotangentMonitor:
    """Device-side counters over all backward passes since the last `reset` (float32 [3]).

    nonfinite: environments whose cotangent was NaN or infinite, before or after the adjoint
    clipped: environments whose cotangent norm exceeded the clip
    largest: largest finite cotangent norm seen
    `inputs`, if given, keeps what the simulator was given where a cotangent was not finite.
    """

    def __init__(self, device: str | torch.device, inputs: NonfiniteRecord | None = None) -> None:
        self.inputs = inputs
        self.values = torch.zeros(3, device=device)

    def reset(self) -> None:
        self.values.zero_()

    def record(self, norm: torch.Tensor, clip: float) -> None:
        """norm float [N], zero where not finite."""
        self.values[1] += (norm > clip).sum()
        self.values[2] = torch.maximum(self.values[2], norm.max())

    def record_nonfinite(self, nonfinite: torch.Tensor, *inputs: torch.Tensor) -> None:
        """nonfinite bool [N]; inputs as in NonfiniteRecord.keep."""
        self.values[0] += nonfinite.sum()
        if self.inputs is not None:
            self.inputs.keep(nonfinite, *inputs)


def simulate(
    sim: Simulator,
    state: torch.Tensor,
    target_prev: torch.Tensor,
    target: torch.Tensor,
    params: torch.Tensor,
    delay_steps: torch.Tensor,
    substeps: int,
    cotangent_clip: float = float("inf"),
    monitor: CotangentMonitor | None = None,
) -> tuple[torch.Tensor, torch.Tensor]:
    """Runs `substeps` physics substeps and returns `(state' [N, 37], sensors [N, 4, 10])`.

    state [N, 37], target_prev [N, 12], target [N, 12], params [N, 9]: see diffsim_trainer.physics;
    delay_steps int32 [N]. Substep k applies `target_prev` while k < delay_steps, then `target`.
    Sensors are those of the last substep. Gradients flow into state, target_prev and target; params
    and delay_steps are constants. `cotangent_clip` is in units of loss per unit
    of state: divide by the number of samples when the loss is a mean.
    """
    return _ControlPeriod.apply(
        state, target_prev, target, params, delay_steps, sim, substeps, cotangent_clip, monitor
    )


def body_clearance(sim: Simulator, state: torch.Tensor) -> torch.Tensor:
    """Height of every body without its foot above ground [N, 13] in m, negative inside it, without
    gradient; see `Simulator.measure_clearance`."""
    state = state.detach().contiguous()
    clearance = state.new_empty(state.shape[0], NUM_BODIES)
    sim.measure_clearance(*_to_warp(state, clearance), stream=_torch_stream(state))
    return clearance


class _ControlPeriod(torch.autograd.Function):
    @staticmethod
    def forward(
        ctx, state, target_prev, target, params, delay_steps, sim, substeps, cotangent_clip, monitor
    ):
        states = [state.detach().contiguous()]
        inputs = [x.detach().contiguous() for x in (target_prev, target, params, delay_steps)]
        sensors = [state.new_empty(state.shape[0], 4, SENSOR_SIZE) for _ in range(substeps)]
        shared = _to_warp(*inputs)
        stream = _torch_stream(state)
        for k in range(substeps):
            states.append(torch.empty_like(states[0]))
            state_in, state_out, sensors_out = _to_warp(states[k], states[k + 1], sensors[k])
            sim.step(state_in, *shared, k, state_out, sensors_out, stream=stream)
        ctx.states, ctx.inputs, ctx.sensors = states[:-1], inputs, sensors
        ctx.final_state = states[-1].clone()
        ctx.settings = (sim, substeps, cotangent_clip, monitor)
        return states[-1], sensors[-1].clone()

    @staticmethod
    def backward(ctx, adj_state, adj_sensors):
        sim, substeps, cotangent_clip, monitor = ctx.settings
        adj_state, adj_sensors, bad = _clip_cotangent(
            adj_state, adj_sensors, cotangent_clip, monitor
        )
        shared = _to_warp(*ctx.inputs)
        adj_target_prev, adj_target = (torch.zeros_like(x) for x in ctx.inputs[:2])
        adj_shared = _to_warp(adj_target_prev, adj_target)
        states = [*ctx.states, ctx.final_state]
        stream = _torch_stream(adj_state)
        for k in reversed(range(substeps)):
            adj_state_in = torch.zeros_like(adj_state)
            state_in, state_out, sensors_out = _to_warp(states[k], states[k + 1], ctx.sensors[k])
            adj_in, adj_out, adj_sensors_out = _to_warp(adj_state_in, adj_state, adj_sensors)
            sim.step_adjoint(
                state_in,
                *shared,
                k,
                state_out,
                sensors_out,
                adj_in,
                *adj_shared,
                None,
                adj_out,
                adj_sensors_out,
                stream=stream,
            )
            adj_state = adj_state_in
            adj_sensors = torch.zeros_like(adj_sensors)
        bad = bad | ~_finite_rows(adj_state, adj_target_prev, adj_target)
        if monitor is not None:
            monitor.record_nonfinite(bad, ctx.states[0], *ctx.inputs)
        cut = bad.unsqueeze(1)
        grads = [x.masked_fill(cut, 0.0) for x in (adj_state, adj_target_prev, adj_target)]
        return *grads, None, None, None, None, None, None


def _clip_cotangent(adj_state, adj_sensors, clip, monitor):
    bad = ~_finite_rows(adj_state, adj_sensors.flatten(1))
    adj_state = adj_state.masked_fill(bad[:, None], 0.0)
    adj_sensors = adj_sensors.masked_fill(bad[:, None, None], 0.0)
    norm = (adj_state.square().sum(1) + adj_sensors.square().sum((1, 2))).sqrt()
    if monitor is not None:
        monitor.record(norm, clip)
    scale = (clip / norm.clamp(min=1e-30)).clamp(max=1.0)
    return adj_state * scale[:, None], adj_sensors * scale[:, None, None], bad


def _finite_rows(*arrays: torch.Tensor) -> torch.Tensor:
    """Bool [N]: every entry of the row is finite in all arrays. (x - x is 0 for finite x, NaN
    otherwise.)"""
    return sum((x - x).sum(1) for x in arrays) == 0


def _to_warp(*tensors: torch.Tensor) -> list[wp.array]:
    return [wp.from_torch(x, requires_grad=False) for x in tensors]


def _torch_stream(like: torch.Tensor) -> wp.Stream | None:
    """torch's current stream for Warp to launch on, None on the CPU. Handed to each launch: making
    it Warp's current stream would wait for the previous one, which a graph capture forbids."""
    return wp.stream_from_torch(torch.cuda.current_stream(like.device)) if like.is_cuda else None
