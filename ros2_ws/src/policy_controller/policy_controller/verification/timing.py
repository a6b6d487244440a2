"""Timing measures: control periods, tick durations, latency from state to command."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from policy_controller.verification.recording import NANO, Recording


@dataclass(frozen=True)
class Spread:
    """Spread of a duration over its samples [s]; NaN without samples."""

    samples: int
    p50: float
    p99: float
    max: float


@dataclass(frozen=True)
class Timing:
    """Timing of the control loop from the first request on."""

    nominal_period: float  # s
    period: Spread
    period_share: float  # share of periods within the tolerance of nominal
    period_tolerance: float  # s
    tick: Spread  # state to published command, as measured by the controller
    state_age: Spread  # age of the robot state when the tick used it
    latency: Spread  # from sending a state to sending the command that answers it
    overruns: int  # ticks that ended after their deadline


def measure_timing(recording: Recording, tolerance: float) -> Timing:
    """Timing of a recording; `tolerance` [s] is the allowed deviation of a period from nominal."""
    status = recording.status
    used = status.stamp >= recording.origin
    used &= status.period > 0.0  # the first tick after activation has no predecessor
    period = status.period[used]
    overruns = status.overruns[status.stamp >= recording.origin]
    return Timing(
        nominal_period=recording.control_period,
        period=spread(period),
        period_share=float(np.mean(np.abs(period - recording.control_period) <= tolerance))
        if period.size
        else float("nan"),
        period_tolerance=tolerance,
        tick=spread(status.tick_duration[used]),
        state_age=spread(status.state_age[used]),
        latency=spread(command_latency(recording)),
        overruns=int(overruns[-1] - overruns[0]) if overruns.size else 0,
    )


def command_latency(recording: Recording) -> np.ndarray:
    """Time from sending a state to sending the command that answers it [s].

    Both times are taken by the middleware on one computer; a command names the state it answers by
    its stamp. Commands to states that were not recorded are left out.
    """
    state, command = recording.state, recording.command
    used = command.stamp >= recording.origin
    stamps, sent = command.stamp[used], command.sent[used]
    index = np.searchsorted(state.stamp, stamps)
    found = index < len(state.stamp)
    found[found] = state.stamp[index[found]] == stamps[found]
    return (sent[found] - state.sent[index[found]]) * NANO


def spread(values: np.ndarray) -> Spread:
    """Median, 99th percentile and maximum of `values`."""
    values = values[np.isfinite(values)]
    if values.size == 0:
        return Spread(0, float("nan"), float("nan"), float("nan"))
    p50, p99 = np.percentile(values, (50, 99))
    return Spread(int(values.size), float(p50), float(p99), float(values.max()))
