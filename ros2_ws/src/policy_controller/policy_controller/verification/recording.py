"""Recording: what one run sent over ROS, as arrays.

Every stamp is the ROS time of the robot's clock in nanoseconds (int64), so real time and lockstep
runs are measured alike. World frame `odom` with z up; base frame x forward, y left; quaternions
xyzw; joints and feet in the order of `joint_names`, `foot_names`.
"""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass, fields
from pathlib import Path

import numpy as np

FORMAT_VERSION = 2
NANO = 1e-9


@dataclass(frozen=True)
class StateTrack:
    """Robot states, T samples."""

    stamp: np.ndarray  # int64 [T], ns
    sent: (
        np.ndarray
    )  # int64 [T], ns, system time at which the publisher handed the message to the middleware
    robot_state: np.ndarray  # int8 [T], constants of anymal_msgs/AnymalState; 0 is good
    base_position: np.ndarray  # [T, 3], m, world
    base_orientation: np.ndarray  # [T, 4], base -> world
    base_linear_velocity: np.ndarray  # [T, 3], m/s, base frame
    base_angular_velocity: np.ndarray  # [T, 3], rad/s, base frame
    joint_position: np.ndarray  # [T, 12], rad
    joint_velocity: np.ndarray  # [T, 12], rad/s
    joint_torque: np.ndarray  # [T, 12], N m
    foot_contact: np.ndarray  # bool [T, 4]
    foot_position: np.ndarray  # [T, 4, 3], m, world, lowest point of the foot
    foot_force: np.ndarray  # [T, 4, 3], N, world
    ground_height: (
        np.ndarray
    )  # [T, 5], m, world, below the base and each foot; 0 where nobody tells

    @property
    def base_height(self) -> np.ndarray:
        """Of the base over the ground below it [T], m."""
        return self.base_position[:, 2] - self.ground_height[:, 0]

    @property
    def foot_height(self) -> np.ndarray:
        """Of the feet over the ground [T, 4], m."""
        return self.foot_position[:, :, 2] - self.ground_height[:, 1:]


@dataclass(frozen=True)
class JointCommandTrack:
    """Joint commands, C samples."""

    stamp: np.ndarray  # int64 [C], ns, stamp of the state that the command answers
    sent: np.ndarray  # int64 [C], ns, system time of sending
    position: np.ndarray  # [C, 12], rad
    kp: np.ndarray  # [C, 12], N m/rad
    kd: np.ndarray  # [C, 12], N m s/rad


@dataclass(frozen=True)
class StatusTrack:
    """Controller status, one sample a control period, S samples."""

    stamp: np.ndarray  # int64 [S], ns
    motion_state: np.ndarray  # uint8 [S], index into scenario.MOTION_STATES
    velocity_command: np.ndarray  # [S, 3], m/s, m/s, rad/s, base frame, as given to the policy
    state_age: np.ndarray  # [S], s
    command_age: np.ndarray  # [S], s; -1: no command yet
    period: np.ndarray  # [S], s
    tick_duration: np.ndarray  # [S], s
    ticks: np.ndarray  # int64 [S]
    overruns: np.ndarray  # int64 [S]
    reasons: tuple[tuple[str, ...], ...]  # [S], reason codes of guards
    bundle: str  # sha256 that the controller reports


@dataclass(frozen=True)
class Mark:
    """When a segment of the scenario was active, ns of the robot's clock."""

    name: str
    requested: int  # the motion state was requested
    start: int  # the motion state was reached; the duration counts from here
    steady: int  # the settling time is over
    end: int
    completed: bool  # False: the run failed in this segment, at `end`


@dataclass(frozen=True)
class Failure:
    """Why a run ended before its last segment."""

    segment: str
    reason: str
    detail: str  # reason codes, or the end of a log


@dataclass(frozen=True)
class Recording:
    """One run."""

    joint_names: tuple[str, ...]
    foot_names: tuple[str, ...]
    control_period: float  # s, nominal
    state: StateTrack
    command: JointCommandTrack
    status: StatusTrack
    marks: tuple[Mark, ...]

    @property
    def origin(self) -> int:
        """Stamp [ns] that plots and reports count as zero."""
        return self.marks[0].requested if self.marks else int(self.state.stamp[0])

    def seconds(self, stamp: np.ndarray | int) -> np.ndarray:
        """Stamps [ns] as seconds since `origin`."""
        return (np.asarray(stamp, dtype=np.int64) - self.origin) * NANO


def window(stamp: np.ndarray, start: int, end: int) -> slice:
    """Slice of the samples with start <= stamp < end. `stamp` must not decrease."""
    first, last = np.searchsorted(stamp, (start, end), side="left")
    return slice(int(first), int(last))


def save_recording(recording: Recording, path: str | Path) -> None:
    """Write a recording as one compressed .npz file, so that it can be measured and plotted
    again."""
    arrays = {}
    for track in ("state", "command", "status"):
        value = getattr(recording, track)
        for field in fields(value):
            if field.name not in ("reasons", "bundle"):
                arrays[f"{track}.{field.name}"] = getattr(value, field.name)
    text = {
        "format_version": FORMAT_VERSION,
        "joint_names": recording.joint_names,
        "foot_names": recording.foot_names,
        "control_period": recording.control_period,
        "reasons": recording.status.reasons,
        "bundle": recording.status.bundle,
        "marks": [asdict(mark) for mark in recording.marks],
    }
    np.savez_compressed(path, text=json.dumps(text), **arrays)


def load_recording(path: str | Path) -> Recording:
    """Read what `save_recording` wrote. Raises ValueError for another format version."""
    with np.load(path, allow_pickle=False) as data:
        text = json.loads(str(data["text"]))
        if text["format_version"] != FORMAT_VERSION:
            raise ValueError(
                f"{path}: recording format {text['format_version']}, this software reads "
                f"{FORMAT_VERSION}; record the run again"
            )
        arrays = {name: data[name] for name in data.files if name != "text"}

    def track(name: str) -> dict[str, np.ndarray]:
        return {
            key.split(".", 1)[1]: value
            for key, value in arrays.items()
            if key.startswith(f"{name}.")
        }

    reasons = tuple(tuple(codes) for codes in text["reasons"])
    return Recording(
        joint_names=tuple(text["joint_names"]),
        foot_names=tuple(text["foot_names"]),
        control_period=text["control_period"],
        state=StateTrack(**track("state")),
        command=JointCommandTrack(**track("command")),
        status=StatusTrack(**track("status"), reasons=reasons, bundle=text["bundle"]),
        marks=tuple(Mark(**mark) for mark in text["marks"]),
    )
