"""Numbers that say whether a policy walks well, from recorded physics substeps (numpy only).

A good reward proves little: a policy can track velocity while skating, shuffling or sinking. So
gait, slip, penetration, joint speed and torque are measured beside tracking, and standing is judged
on its own.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

CONTACT_FORCE = 1.0  # N, above which a foot counts as loaded
SHORTEST_SWING = 0.06  # s, shorter unloaded moments are chatter, not steps
MIN_BASE_HEIGHT = 0.3  # m
MAX_TILT_COSINE = 0.5  # 60 degrees


@dataclass(frozen=True)
class Trajectory:
    """T substeps of N robots, `dt` s apart: state [T, N, 37], sensors [T, N, 4, 10], command [T, N,
    3]."""

    dt: float
    state: np.ndarray
    sensors: np.ndarray
    command: np.ndarray

    def after(self, seconds: float) -> Trajectory:
        start = round(seconds / self.dt)
        return Trajectory(self.dt, *(x[start:] for x in (self.state, self.sensors, self.command)))

    def part(self, robot: int, seconds: float) -> Trajectory:
        """The first `seconds` of one robot (N = 1)."""
        end, one = round(seconds / self.dt), slice(robot, robot + 1)
        arrays = (self.state, self.sensors, self.command)
        return Trajectory(self.dt, *(x[:end, one] for x in arrays))


def has_fallen(state: np.ndarray) -> np.ndarray:
    """Bool [N] over a trajectory [T, N, 37]: ever low, tilted or not finite."""
    x, y = state[..., 3], state[..., 4]
    upright = 1 - 2 * (x * x + y * y)
    good = (
        (state[..., 2] > MIN_BASE_HEIGHT) & (upright > MAX_TILT_COSINE) & np.isfinite(state).all(-1)
    )
    return ~good.all(0)


def measure(trajectory: Trajectory, measured_from: float) -> dict[str, float]:
    """All metrics of ONE robot (N = 1). Falls, penetration, joint speed and torque count from the
    start, the rest from `measured_from` s."""
    settled = trajectory.after(measured_from)
    metrics = {"fallen": float(has_fallen(trajectory.state)[0])}
    metrics |= _tracking(settled) | _standing(settled) | _gait(settled) | _effort(trajectory)
    return {name: float(value) for name, value in metrics.items()}


def _tracking(t: Trajectory) -> dict[str, float]:
    """Instantaneous RMSE in m/s and rad/s, and the part of it that is a steady offset."""
    linear = t.state[:, 0, 7:9] - t.command[:, 0, :2]
    yaw = t.state[:, 0, 12] - t.command[:, 0, 2]
    return {
        "velocity_rmse": np.sqrt((linear**2).sum(1).mean()),
        "velocity_bias": np.linalg.norm(linear.mean(0)),
        "yaw_rate_rmse": np.sqrt((yaw**2).mean()),
        "yaw_rate_bias": abs(yaw.mean()),
    }


def _standing(t: Trajectory) -> dict[str, float]:
    return {
        "heading_drift": abs(_heading_change(t.state[:, 0])),
        "drift": np.linalg.norm(t.state[-1, 0, :2] - t.state[0, 0, :2]),
        "joint_speed_rms": np.sqrt((t.state[:, 0, 25:37] ** 2).mean()),
        "base_height": t.state[:, 0, 2].mean(),
    }


def _heading_change(state: np.ndarray) -> float:
    """Angle in rad between the first and the last heading of one robot [T, 37]."""
    x, y, z, w = state[[0, -1], 3:7].T
    heading = np.arctan2(2 * (w * z + x * y), 1 - 2 * (y * y + z * z))
    return (heading[1] - heading[0] + np.pi) % (2 * np.pi) - np.pi


def _gait(t: Trajectory) -> dict[str, float]:
    """apex: smallest over feet of the mean highest point of a swing; duty: largest over feet of the
    loaded share of time; slip: mean horizontal speed of loaded feet; penetration: deepest point
    below ground."""
    height, loaded = (
        t.sensors[:, 0, :, 3],
        np.linalg.norm(t.sensors[:, 0, :, 7:10], axis=2) > CONTACT_FORCE,
    )
    apexes = [swing_apexes(height[:, foot], loaded[:, foot], t.dt) for foot in range(4)]
    speed = np.linalg.norm(t.sensors[:, 0, :, 4:6], axis=2)
    return {
        "swing_apex": min(float(np.mean(a)) if len(a) else 0.0 for a in apexes),
        "steps": sum(len(a) for a in apexes),
        "duty": loaded.mean(0).max(),
        "slip": speed[loaded].mean() if loaded.any() else 0.0,
        "penetration": max(0.0, float(-height.min())),
    }


def _effort(t: Trajectory) -> dict[str, float]:
    torque = np.abs(t.sensors[:, 0, :, 0:3])
    speed = np.abs(t.state[:, 0, 25:37])
    return {
        "joint_speed_max": speed.max(),
        "torque_max": torque.max(),
        "torque_rms": np.sqrt((torque**2).mean()),
    }


def swing_apexes(height: np.ndarray, loaded: np.ndarray, dt: float) -> list[float]:
    """Highest point of each complete swing of one foot; height [T] m, loaded bool [T]."""
    edges = np.flatnonzero(np.diff(loaded.astype(int)))
    apexes = []
    for lift, touch in zip(edges[:-1], edges[1:], strict=True):
        if loaded[lift] and (touch - lift) * dt >= SHORTEST_SWING:
            apexes.append(float(height[lift : touch + 1].max()))
    return apexes
