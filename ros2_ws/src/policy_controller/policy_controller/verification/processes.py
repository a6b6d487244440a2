"""Processes of the nodes: started with their output in a log file each, watched, and stopped on
every way out."""

from __future__ import annotations

import ctypes
import os
import shlex
import signal
import subprocess
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType

_PR_SET_PDEATHSIG = 1
_REAL_TIME_PRIORITY = 20


class NodeDiedError(RuntimeError):
    """A node ended although it should run; the message has its exit status, `detail` the end of its
    log."""

    def __init__(self, message: str, detail: str) -> None:
        super().__init__(message)
        self.detail = detail


@dataclass(frozen=True)
class NodeCommand:
    """What to start."""

    name: str  # also the name of the log file
    arguments: tuple[str, ...]

    @property
    def line(self) -> str:
        """The command as a shell would take it."""
        return shlex.join(self.arguments)


class NodeProcesses:
    """Runs nodes while the `with` block lasts.

    Every node gets a session of its own, so that Ctrl-C in the terminal reaches this process only
    and the nodes are then stopped in order, last started first: SIGTERM, and SIGKILL if that does
    not help within `stop_timeout` [s]. Should this process be killed, the kernel sends the nodes
    SIGTERM.
    """

    def __init__(
        self,
        commands: Sequence[NodeCommand],
        log_directory: Path,
        environment: Mapping[str, str],
        real_time: bool = False,
        stop_timeout: float = 10.0,
    ) -> None:
        self._commands = tuple(commands)
        self._logs = {command.name: log_directory / f"{command.name}.log" for command in commands}
        self._environment = dict(environment)
        self._real_time = real_time
        self._stop_timeout = stop_timeout
        self._processes: dict[str, subprocess.Popen] = {}

    def __enter__(self) -> NodeProcesses:
        try:
            for command in self._commands:
                self._start(command)
        except BaseException:
            self.stop()
            raise
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.stop()

    def check(self) -> None:
        """Raise NodeDiedError if a node has ended."""
        for name, process in self._processes.items():
            status = process.poll()
            if status is not None:
                how = (
                    f"exit status {status}"
                    if status >= 0
                    else f"signal {signal.Signals(-status).name}"
                )
                raise NodeDiedError(f"the {name} process ended with {how}", self.log_tails([name]))

    def log_tails(self, names: Sequence[str] | None = None, lines: int = 15) -> str:
        """The last lines of the logs, each under the path of its file."""
        parts = []
        for name, path in self._logs.items():
            if path.exists() and (names is None or name in names):
                tail = path.read_text(encoding="utf-8", errors="replace").splitlines()[-lines:]
                parts.append("\n".join([f"--- {path}", *(tail or ["(empty)"])]))
        return "\n".join(parts)

    def stop(self) -> None:
        """End all nodes. Safe to call again; interrupted while it waits, it kills what is left."""
        try:
            for process in reversed(self._processes.values()):
                _signal_group(process, signal.SIGTERM)
                try:
                    process.wait(self._stop_timeout)
                except subprocess.TimeoutExpired:
                    pass
        finally:
            for process in self._processes.values():
                _signal_group(process, signal.SIGKILL)
                process.wait()
            self._processes.clear()

    def _start(self, command: NodeCommand) -> None:
        path = self._logs[command.name]
        path.parent.mkdir(parents=True, exist_ok=True)
        with path.open("wb") as log:
            log.write(f"$ {command.line}\n".encode())
            log.flush()
            process = subprocess.Popen(
                command.arguments,
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=subprocess.STDOUT,
                env=self._environment,
                start_new_session=True,
                preexec_fn=_stop_with_parent,
            )
        self._processes[command.name] = process
        if self._real_time:  # before it has threads: they inherit it
            os.sched_setscheduler(process.pid, os.SCHED_FIFO, os.sched_param(_REAL_TIME_PRIORITY))


def may_use_real_time() -> bool:
    """Whether this process may start others under SCHED_FIFO (root, CAP_SYS_NICE or an rtprio
    limit). Asked by doing it, for a moment, to the calling thread."""
    policy, parameters = os.sched_getscheduler(0), os.sched_getparam(0)
    try:
        os.sched_setscheduler(0, os.SCHED_FIFO, os.sched_param(_REAL_TIME_PRIORITY))
    except PermissionError:
        return False
    os.sched_setscheduler(0, policy, parameters)
    return True


def _signal_group(process: subprocess.Popen, number: signal.Signals) -> None:
    """Signal a process that still runs, and its children; it leads a group of its own."""
    if process.poll() is None:
        os.killpg(process.pid, number)


_LIBC = ctypes.CDLL(None)  # loaded here: nothing may be allocated between fork and exec


def _stop_with_parent() -> None:
    _LIBC.prctl(_PR_SET_PDEATHSIG, signal.SIGTERM)
