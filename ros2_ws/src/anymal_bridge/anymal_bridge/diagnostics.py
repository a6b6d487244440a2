"""Diagnostics of both nodes: a level, a sentence and numbers, once a second."""

from __future__ import annotations

from dataclasses import dataclass, field

from diagnostic_msgs.msg import DiagnosticArray, DiagnosticStatus, KeyValue

LEVELS = (DiagnosticStatus.OK, DiagnosticStatus.WARN, DiagnosticStatus.ERROR)
OK, WARN, ERROR = range(3)


@dataclass
class Status:
    """One entry: the most severe report gives level and message, all numbers are listed."""

    name: str
    level: int = OK
    message: str = "running"
    values: dict[str, object] = field(default_factory=dict)

    def report(self, level: int, message: str) -> None:
        """State a problem; kept if it is worse than what is known so far."""
        if level > self.level:
            self.level, self.message = level, message


def to_message(stamp, hardware_id: str, statuses: list[Status]) -> DiagnosticArray:
    """Statuses -> message with ``stamp`` (builtin_interfaces/Time)."""
    array = DiagnosticArray()
    array.header.stamp = stamp
    array.status = [
        DiagnosticStatus(
            level=LEVELS[status.level],
            name=status.name,
            message=status.message,
            hardware_id=hardware_id,
            values=[
                KeyValue(key=key, value=f"{value:.6g}" if isinstance(value, float) else str(value))
                for key, value in status.values.items()
            ],
        )
        for status in statuses
    ]
    return array
