"""What /diagnostics shows of the controller once a second. Pure; message types, but no rclpy."""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np
from diagnostic_msgs.msg import DiagnosticStatus, KeyValue

from policy_controller.controller import TickResult
from policy_controller.inbox import StateInbox
from policy_controller.loop import LoopStatistics
from policy_controller.motion import MotionState
from policy_controller.sample import Outcome
from policy_controller.state import JOINT_NAMES, NUM_JOINTS

_LEVELS = {
    Outcome.NORMAL: DiagnosticStatus.OK,
    Outcome.LIMIT: DiagnosticStatus.OK,
    Outcome.ZERO_COMMAND: DiagnosticStatus.WARN,
    Outcome.DAMPING: DiagnosticStatus.ERROR,
}


@dataclass
class Counters:
    """Counted by the node since the controller was activated.

    limited: ticks in which the target of each joint was cut to its limit, int [12].
    bad_commands: velocity commands that could not be used. warnings: about set-up and QoS.
    """

    limited: np.ndarray = field(default_factory=lambda: np.zeros(NUM_JOINTS, dtype=int))
    bad_commands: int = 0
    warnings: list[str] = field(default_factory=list)


class RateMeter:
    """Events per second between two looks at a counter."""

    def __init__(self) -> None:
        self._count, self._time = 0, 0.0

    def update(self, count: int, time: float) -> float:
        """Rate since the call before, 1/s. time: s, of any steady clock."""
        rate = (count - self._count) / (time - self._time) if time > self._time else 0.0
        self._count, self._time = count, time
        return rate


def describe_safety(result: TickResult, bundle_sha256: str) -> DiagnosticStatus:
    """Motion state, outcome and reasons."""
    return _status(
        "safety",
        DiagnosticStatus.ERROR if result.motion == MotionState.FAULT else _LEVELS[result.outcome],
        result.detail,
        {
            "motion state": result.motion.name,
            "outcome": result.outcome.name,
            "reasons": " ".join(result.reasons),
            "state age [s]": f"{result.state_age:.4f}",
            "command age [s]": f"{result.command_age:.3f}",
            "bundle": bundle_sha256,
        },
    )


def describe_loop(statistics: LoopStatistics, rate: float, period: float) -> DiagnosticStatus:
    """Rate, durations and overruns of the control loop. rate: measured, 1/s. period: wanted, s."""
    values = {"rate [Hz]": f"{rate:.2f}", "wanted rate [Hz]": f"{1.0 / period:.2f}"}
    for name, histogram in (
        ("jitter", statistics.jitter),
        ("lateness", statistics.lateness),
        ("tick duration", statistics.duration),
    ):
        values |= {
            f"{name} p50 [ms]": f"{histogram.quantile(0.5) * 1e3:.3f}",
            f"{name} p99 [ms]": f"{histogram.quantile(0.99) * 1e3:.3f}",
            f"{name} max [ms]": f"{histogram.maximum * 1e3:.3f}",
        }
    values |= {
        "ticks": str(statistics.ticks),
        "overruns": str(statistics.overruns),
        "missed slots": str(statistics.missed),
    }
    late = statistics.consecutive_overruns > 0
    return _status(
        "loop",
        DiagnosticStatus.WARN if late else DiagnosticStatus.OK,
        "late" if late else "on time",
        values,
    )


def describe_inputs(
    inbox: StateInbox, rate: float, bad_states: int, counters: Counters
) -> DiagnosticStatus:
    """Arrival of states, what could not be used, and saturation.

    rate: of states, 1/s. bad_states: how many could not be used.
    """
    values = {
        "state rate [Hz]": f"{rate:.1f}",
        "states received": str(inbox.received),
        "states repeated or late": str(inbox.dropped),
        "states unusable": str(bad_states),
        "velocity commands unusable": str(counters.bad_commands),
    }
    for joint, count in zip(JOINT_NAMES, counters.limited, strict=True):
        values[f"{joint} targets limited"] = str(count)
    level = DiagnosticStatus.WARN if counters.warnings else DiagnosticStatus.OK
    return _status("inputs", level, "; ".join(counters.warnings) or "ok", values)


def _status(part: str, level: bytes, text: str, values: dict[str, str]) -> DiagnosticStatus:
    return DiagnosticStatus(
        level=level,
        name=f"policy_controller: {part}",
        message=text,
        hardware_id="anymal",
        values=[KeyValue(key=key, value=value) for key, value in values.items()],
    )
