"""Gait measures of each foot: contact intervals, duty factor, swing apex, slip.

Terms. Swing: from lift-off to touch-down. Apex: highest point that the lowest point of the foot
reaches in one swing. Duty factor: share of time in contact. Slip: speed of the material contact
point over the ground while in contact (see feet.py).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from policy_controller.verification.recording import NANO, StateTrack

SHORTEST_PHASE = 0.02
"""Contact and flight phases shorter than this [s] are chatter of touch-down and lift-off, an eighth
of the swing of a 3 Hz trot."""


@dataclass(frozen=True)
class FootGait:
    """Gait of one foot over the measured windows; NaN where there was nothing to measure."""

    name: str
    swings: int  # complete swings seen
    swing_apex: float  # m, median over the swings; 0 if the foot never left the ground
    swing_apex_lowest: float  # m, of all swings
    duty_factor: float
    step_frequency: float  # Hz, of touch-downs; 0 without two touch-downs in a row
    stance_slip: float  # m/s, mean
    stance_slip_peak: float  # m/s, 99th percentile


def debounce(
    contact: np.ndarray, stamp: np.ndarray, shortest: float = SHORTEST_PHASE
) -> np.ndarray:
    """Contact flags bool [T] without phases shorter than `shortest` [s].

    The shortest phase is removed first, and so on until none is left below `shortest`: a graze of
    the ground inside a swing goes before it can split the swing into two short ones. `stamp` int64
    [T], ns. The first and the last phase are cut by the window, not by the robot, and are kept
    however short.
    """
    result = np.array(contact, dtype=bool)
    while True:
        edges = np.flatnonzero(result[1:] != result[:-1]) + 1
        lengths = np.diff(stamp[edges]) * NANO
        if lengths.size == 0 or lengths.min() >= shortest:
            return result
        first = int(lengths.argmin())
        result[edges[first] : edges[first + 1]] ^= True


def phases(contact: np.ndarray, value: bool) -> list[tuple[int, int]]:
    """Runs of samples equal to `value`, as (first, one past last)."""
    padded = np.concatenate(([not value], np.asarray(contact, dtype=bool), [not value])) == value
    edges = np.flatnonzero(padded[1:] != padded[:-1])
    return [(int(start), int(end)) for start, end in edges.reshape(-1, 2)]


def measure_gait(
    names: Sequence[str], state: StateTrack, contact_velocity: np.ndarray, windows: Sequence[slice]
) -> tuple[FootGait, ...]:
    """Gait of each foot over all `windows` (slices of the samples of `state`) together.

    `contact_velocity` [T, 4, 3] is the velocity of the contact points in the world, m/s.
    """
    return tuple(
        _measure_foot(name, foot, state, contact_velocity, windows)
        for foot, name in enumerate(names)
    )


def _measure_foot(
    name: str, foot: int, state: StateTrack, contact_velocity: np.ndarray, windows: Sequence[slice]
) -> FootGait:
    apexes: list[float] = []
    slip: list[np.ndarray] = []
    steps = closed = samples = 0
    stepping = 0.0
    for part in windows:
        stamp = state.stamp[part]
        if len(stamp) < 2:
            continue
        contact = debounce(state.foot_contact[part, foot], stamp)
        height = state.foot_height[part, foot]
        speed = np.linalg.norm(contact_velocity[part, foot, :2], axis=-1)
        swings = [(a, b) for a, b in phases(contact, False) if a > 0 and b < len(contact)]
        apexes += [float(height[a:b].max()) for a, b in swings]
        slip.append(speed[contact])
        touch_downs = [stamp[a] for a, _ in phases(contact, True) if a > 0]
        if touch_downs:
            steps += len(touch_downs) - 1
            stepping += float(touch_downs[-1] - touch_downs[0]) * NANO
        closed += int(contact.sum())
        samples += len(contact)
    if samples == 0:
        return FootGait(name, 0, *([float("nan")] * 6))
    sliding = np.concatenate(slip)
    return FootGait(
        name=name,
        swings=len(apexes),
        swing_apex=float(np.median(apexes)) if apexes else 0.0,
        swing_apex_lowest=min(apexes, default=0.0),
        duty_factor=closed / samples,
        step_frequency=steps / stepping if steps else 0.0,
        stance_slip=float(sliding.mean()) if sliding.size else float("nan"),
        stance_slip_peak=float(np.percentile(sliding, 99)) if sliding.size else float("nan"),
    )
