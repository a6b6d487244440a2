"""What a person sees in the terminal while a scenario runs, and at its end."""

from __future__ import annotations

from collections.abc import Sequence
from types import TracebackType

from rich.console import Console, Group
from rich.live import Live
from rich.panel import Panel
from rich.progress_bar import ProgressBar
from rich.table import Table
from rich.text import Text

from policy_controller.verification.metrics import Metrics
from policy_controller.verification.recording import Failure
from policy_controller.verification.runner import Look
from policy_controller.verification.scenario import Scenario, Segment
from policy_controller.verification.verdict import Check, Verdict, quantity


class Display:
    """Live view of a run. Without a terminal it prints one line for each stage and segment."""

    def __init__(self, console: Console, scenario: Scenario) -> None:
        self._console, self._scenario = console, scenario
        self._look: Look | None = None
        self._stage, self._share = "", 0.0
        self._live = Live(
            console=console, refresh_per_second=8, transient=True, get_renderable=self._render
        )

    def __enter__(self) -> Display:
        if self._console.is_terminal:
            self._live.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._live.stop()

    def on_stage(self, text: str) -> None:
        self._stage, self._share, self._look = text, 0.0, None
        if not self._console.is_terminal:
            self._console.print(text)

    def on_progress(self, share: float) -> None:
        self._share = share

    def on_look(self, look: Look) -> None:
        self._look = look
        self._share = self._done(look) / self._scenario.duration

    def on_segment_end(self, look: Look, completed: bool) -> None:
        """Leave one line for the segment: command, velocity at its end, motion state."""
        sign, colour = ("✓", "green") if completed else ("✗", "bold red")
        self._console.print(
            Text.assemble(
                (f"  {sign} ", colour),
                f"{look.segment.name:<11}",
                (_triple(look.segment.command), "dim"),
                ("  →  ", "dim"),
                _triple(look.velocity),
                ("   " + look.motion_state.upper().replace("_", " "), "cyan"),
                ("   " + ", ".join(look.reasons), "red"),
            )
        )

    def _done(self, look: Look) -> float:
        return sum(s.duration for s in self._scenario.segments[: look.index]) + min(
            look.elapsed, look.segment.duration
        )

    def _render(self) -> Group | Text:
        look = self._look
        bar = ProgressBar(
            total=1.0, completed=self._share, width=46, pulse=look is None and self._share == 0.0
        )
        if look is None:
            return Group(Text(f"  {self._stage} …"), bar)
        return Panel(
            Group(
                _segment_line(look.segment, look),
                Text.assemble(
                    ("commanded  ", "dim"),
                    _triple(look.segment.command),
                    ("   m/s, m/s, rad/s", "dim"),
                ),
                Text.assemble(("measured   ", "dim"), _triple(look.velocity)),
                Text.assemble(
                    ("state      ", "dim"),
                    (look.motion_state.upper().replace("_", " "), "cyan"),
                    ("   guards  ", "dim"),
                    (", ".join(look.reasons) or "none tripped", "red" if look.reasons else "green"),
                ),
                bar,
            ),
            title=f"{self._scenario.name}: {look.index + 1} of {len(self._scenario.segments)}",
            title_align="left",
            width=76,
        )


def print_result(
    console: Console, verdict: Verdict, metrics: Metrics, failure: Failure | None
) -> None:
    """Limits table, timing, and what went wrong."""
    table = Table(
        title="Limits",
        title_justify="left",
        title_style="bold",
        header_style="dim",
        box=None,
        pad_edge=False,
    )
    for head, side in (
        ("", "left"),
        ("measured", "right"),
        ("limit", "right"),
        ("margin", "right"),
        ("where", "left"),
        ("", "left"),
    ):
        table.add_column(head, justify=side)
    for check in verdict.checks:
        table.add_row(*_row(check))
    console.print(table)
    timing = metrics.timing
    console.print(
        f"[dim]Timing[/]  period p50 {_ms(timing.period.p50)}, p99 {_ms(timing.period.p99)}, "
        f"max {_ms(timing.period.max)};  tick p50 {_ms(timing.tick.p50)}, "
        f"p99 {_ms(timing.tick.p99)};  state to command p50 {_ms(timing.latency.p50)}, "
        f"p99 {_ms(timing.latency.p99)} ms;  {timing.overruns} overruns",
        highlight=False,
    )
    if failure:
        console.print(
            f"[bold red]Ended early in segment '{failure.segment}':[/] {failure.reason}",
            highlight=False,
        )
        print_detail(console, failure.detail)
    for event in (*metrics.falls, *metrics.guard_trips):
        console.print(f"[red]{event.time:.2f} s, {event.segment}:[/] {event.what}", highlight=False)


def print_detail(console: Console, detail: str) -> None:
    """Log tails and reason codes, as they are."""
    if detail:
        console.print(detail, markup=False, highlight=False, style="dim")


def _segment_line(segment: Segment, look: Look) -> Text:
    waiting = (
        f"waiting for {segment.reach.upper()}" if segment.reach and look.elapsed == 0.0 else ""
    )
    timer = waiting or f"{min(look.elapsed, segment.duration):4.1f} of {segment.duration:.1f} s"
    return Text.assemble((f"{segment.name:<16}", "bold"), (timer, "dim"))


def _row(check: Check) -> tuple[str, ...]:
    sign = "=" if check.limit == 0.0 else "≤" if check.upper else "≥"
    margin = (
        ""
        if check.margin is None or check.unit == "" or check.margin != check.margin
        else f"{100.0 * check.margin:+.0f} %"
    )
    if check.decides:
        word = "[green]PASS[/]" if check.passed else "[bold red]FAIL[/]"
    else:
        word = "[dim]met[/]" if check.passed else "[yellow]not met[/]"
    return (
        check.title,
        quantity(check.value, check.unit),
        f"{sign} {quantity(check.limit, check.unit)}",
        margin,
        f"[dim]{check.where}[/]",
        word,
    )


def _triple(values: Sequence[float]) -> str:
    return "  ".join(f"{value:+.2f}" for value in values)


def _ms(seconds: float) -> str:
    return f"{1e3 * seconds:.2f}"
