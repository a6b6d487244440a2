"""Observation of the policy and its gait clock, in numpy.

The observation is the concatenation of the bundle's terms, each raw value times its scale, in the
last `history` control steps. The running normaliser is no part of it: it is inside the ONNX file.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from policy_controller.state import NUM_JOINTS, RobotState

MAX_HISTORY = 16  # control steps
MIN_SCALE, MAX_SCALE = 1e-3, 1e3  # magnitude of a term's scale


@dataclass(frozen=True)
class ObservationTerm:
    """One part of the observation, as written in the bundle.

    name: key of TERMS. size: how many numbers. scale: factor on the raw value.
    unit: of the raw value. frame: in which the raw value is expressed.
    history: in how many control steps it is seen, the newest included; the oldest comes first.
    """

    name: str
    size: int
    scale: float
    unit: str
    frame: str
    history: int = 1

    @property
    def width(self) -> int:
        """Numbers in the observation."""
        return self.size * self.history


class _Inputs(NamedTuple):
    state: RobotState
    command: np.ndarray
    clock: tuple[float, float]
    previous_action: np.ndarray
    default_pose: np.ndarray


class TermDefinition(NamedTuple):
    """What a term name means: size, unit and frame of the raw value, and how it is computed."""

    size: int
    unit: str
    frame: str
    compute: Callable[[_Inputs], np.ndarray | tuple[float, ...]]


def projected_gravity(orientation: np.ndarray) -> np.ndarray:
    """Direction of gravity in the base frame: R^T (0, 0, -1), a unit vector.

    orientation: base to world, xyzw, shape [4], any norm but zero. Upright gives (0, 0, -1).
    A zero or non-finite quaternion gives NaN, which the safety filter refuses.
    """
    x, y, z, w = (float(v) for v in orientation)
    norm_squared = x * x + y * y + z * z + w * w
    if not 0.0 < norm_squared < math.inf:
        return np.full(3, np.nan)
    # third row of R(q), negated: -(2(xz - wy), 2(yz + wx), w^2 - x^2 - y^2 + z^2) / |q|^2
    return np.array(
        (
            -2.0 * (x * z - w * y) / norm_squared,
            -2.0 * (y * z + w * x) / norm_squared,
            -(w * w - x * x - y * y + z * z) / norm_squared,
        )
    )


TERMS: dict[str, TermDefinition] = {
    "base_linear_velocity": TermDefinition(
        3, "m/s", "base", lambda i: i.state.base_linear_velocity
    ),
    "base_angular_velocity": TermDefinition(
        3, "rad/s", "base", lambda i: i.state.base_angular_velocity
    ),
    "projected_gravity": TermDefinition(
        3, "1", "base", lambda i: projected_gravity(i.state.base_orientation)
    ),
    "command": TermDefinition(3, "m/s, m/s, rad/s", "base", lambda i: i.command),
    "joint_position": TermDefinition(
        NUM_JOINTS, "rad", "joint", lambda i: i.state.joint_position - i.default_pose
    ),
    "joint_velocity": TermDefinition(
        NUM_JOINTS, "rad/s", "joint", lambda i: i.state.joint_velocity
    ),
    "previous_action": TermDefinition(NUM_JOINTS, "1", "action", lambda i: i.previous_action),
    "gait_clock": TermDefinition(2, "1", "phase", lambda i: i.clock),
}
"""Every term this controller can compute. `command` is (vx, vy, yaw rate); `joint_position` is
relative to the default pose; `previous_action` is the policy's last output after the clip;
`gait_clock` is (sin, cos) of the gait phase, (0, 0) while standing."""


def define_term(name: str, scale: float = 1.0, history: int = 1) -> ObservationTerm:
    """The ObservationTerm for a name of TERMS, with its size, unit and frame filled in."""
    if name not in TERMS:
        raise KeyError(f"observation term: found {name!r}, allowed: {', '.join(TERMS)}")
    definition = TERMS[name]
    return ObservationTerm(name, definition.size, scale, definition.unit, definition.frame, history)


STANDARD_OBSERVATION = tuple(
    define_term(name, 0.1 if name == "joint_velocity" else 1.0) for name in TERMS
)
"""The 50 numbers a policy is trained with by default, in order."""


class ObservationBuilder:
    """Computes the observation of one control step into one reused float32 array.

    That array is all the memory there is: of a term with a past, the older numbers move up by one
    control step and the newest are added behind. After `reset` the first step stands for the past.
    """

    def __init__(self, terms: Sequence[ObservationTerm], default_pose: Sequence[float]):
        """terms: in order. default_pose: rad, shape [12]."""
        self._default_pose = np.asarray(default_pose, dtype=np.float64)
        self.size = sum(term.width for term in terms)
        self._out = np.zeros(self.size, dtype=np.float32)
        self._parts, self._pasts = [], []
        start = 0
        for term in terms:
            whole = self._out[start : start + term.width]
            newest = whole[-term.size :]
            self._parts.append((TERMS[term.name].compute, term.scale, newest))
            if term.history > 1:
                self._pasts.append((whole, newest))
            start += term.width
        self.reset()

    def reset(self) -> None:
        """Forget the past: to be called when walking begins."""
        self._begins = True

    def build(
        self,
        state: RobotState,
        command: np.ndarray,
        clock: tuple[float, float],
        previous_action: np.ndarray,
    ) -> np.ndarray:
        """The observation, float32, shape [size]; the array is the builder's memory: read it only,
        and before the next call.

        command: (vx m/s, vy m/s, yaw rate rad/s), base frame. clock: GaitClock.signal.
        previous_action: last output of the policy after the clip, shape [12].
        """
        inputs = _Inputs(state, command, clock, previous_action, self._default_pose)
        for whole, newest in self._pasts:
            whole[: -newest.size] = whole[newest.size :]
        with np.errstate(over="ignore", invalid="ignore"):  # the safety filter checks the result
            for compute, scale, part in self._parts:
                np.multiply(compute(inputs), scale, out=part, casting="unsafe")
        if self._begins:
            for whole, newest in self._pasts:
                whole.reshape(-1, newest.size)[:] = newest
            self._begins = False
        return self._out


@dataclass(frozen=True)
class GaitClock:
    """Clock that tells the policy when to lift which legs. LF and RH lift while sin(phase) > 0.

    frequency: strides per second. control_period: s.
    stand_command_threshold: norm of (vx, vy, yaw rate) up to which the robot is meant to stand.
    The phase itself is passed in and out, so that the clock has no state.
    """

    frequency: float
    control_period: float
    stand_command_threshold: float

    def is_moving(self, command: np.ndarray) -> bool:
        """True if the norm of the command (vx, vy, yaw rate) exceeds the threshold."""
        vx, vy, yaw_rate = (float(v) for v in command)
        return math.sqrt(vx * vx + vy * vy + yaw_rate * yaw_rate) > self.stand_command_threshold

    def signal(self, phase: float, command: np.ndarray) -> tuple[float, float]:
        """(sin, cos) of the phase (rad) while moving, (0, 0) while standing."""
        return (math.sin(phase), math.cos(phase)) if self.is_moving(command) else (0.0, 0.0)

    def advance(self, phase: float, command: np.ndarray) -> float:
        """Phase of the next control step in [0, 2 pi) rad; 0 while standing."""
        if not self.is_moving(command):
            return 0.0
        return math.fmod(
            phase + 2.0 * math.pi * self.frequency * self.control_period, 2.0 * math.pi
        )
