"""Processes are watched, their logs are kept, and nothing survives, whatever way the run ends."""

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from policy_controller.verification.processes import (
    NodeCommand,
    NodeDiedError,
    NodeProcesses,
    may_use_real_time,
)

SOURCE = Path(__file__).parents[2]


def python(name: str, code: str) -> NodeCommand:
    return NodeCommand(name, (sys.executable, "-u", "-c", code))


SLEEPER = "import time; print('ready'); time.sleep(60)"


def wait_for(condition, what: str) -> None:
    deadline = time.monotonic() + 20.0
    while not condition():
        assert time.monotonic() < deadline, f"no {what}"
        time.sleep(0.01)


def is_running(pid: int) -> bool:
    """Whether the process lives; one that nobody waited for yet counts as ended."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()[0] != "Z"
    except FileNotFoundError:
        return False


def number_in(log: Path) -> int:
    """The number that a process has written to its log, after the line with its command."""
    wait_for(lambda: len(log.read_text().split()) > 1 and log.read_text().endswith("\n"), "number")
    wait_for(lambda: log.read_text().splitlines()[-1].isdigit(), "number")
    return int(log.read_text().splitlines()[-1])


@pytest.mark.skipif(not may_use_real_time(), reason="no permission for SCHED_FIFO")
def test_threads_of_a_real_time_node_are_real_time(tmp_path):
    say = "threading.Thread(target=lambda: print(os.sched_getscheduler(0))).start()"
    node = python("node", f"import os, threading, time; time.sleep(0.3); {say}; time.sleep(60)")
    for real_time, policy in ((False, os.SCHED_OTHER), (True, os.SCHED_FIFO)):
        with NodeProcesses([node], tmp_path, os.environ, real_time):
            assert number_in(tmp_path / "node.log") == policy


def test_asking_for_real_time_leaves_the_scheduling_alone():
    before = os.sched_getscheduler(0)
    may_use_real_time()
    assert os.sched_getscheduler(0) == before


def test_node_that_ends_is_reported_with_status_and_log(tmp_path):
    commands = [
        python("quiet", SLEEPER),
        python("broken", "import sys; print('no such bundle', file=sys.stderr); sys.exit(3)"),
    ]
    with NodeProcesses(commands, tmp_path, os.environ) as processes:

        def find_end():
            try:
                processes.check()
            except NodeDiedError as error:
                found.append(error)
            return found

        found = []
        wait_for(find_end, "end of the process")
    assert "broken process ended with exit status 3" in str(found[0])
    assert "no such bundle" in found[0].detail and str(tmp_path / "broken.log") in found[0].detail
    assert "quiet.log" not in found[0].detail


def test_log_begins_with_the_command(tmp_path):
    command = python("node", "print('hello')")
    with NodeProcesses([command], tmp_path, os.environ) as processes:
        wait_for(lambda: "hello" in (tmp_path / "node.log").read_text().splitlines(), "output")
        assert processes.log_tails(lines=2).splitlines()[1:] == [f"$ {command.line}", "hello"]


@pytest.mark.parametrize("error", [None, KeyboardInterrupt, RuntimeError])
def test_all_nodes_are_ended_on_every_way_out(tmp_path, error):
    stubborn = (
        "import os, signal, time; signal.signal(signal.SIGTERM, signal.SIG_IGN); "
        "print(os.getpid()); time.sleep(60)"
    )
    parent = (
        "import os, subprocess, sys, time; p = subprocess.Popen([sys.executable, '-c', "
        "'import time; time.sleep(60)']); print(p.pid); time.sleep(60)"
    )
    pids = []
    try:
        with NodeProcesses(
            [python("stubborn", stubborn), python("parent", parent)],
            tmp_path,
            os.environ,
            stop_timeout=0.2,
        ):
            pids = [number_in(tmp_path / "stubborn.log"), number_in(tmp_path / "parent.log")]
            assert all(map(is_running, pids))
            if error:
                raise error
    except (KeyboardInterrupt, RuntimeError):
        assert error
    wait_for(lambda: not any(map(is_running, pids)), "end of the processes")


def test_nodes_end_when_this_process_is_killed(tmp_path):
    code = f"""
import os, sys, time
from pathlib import Path
from policy_controller.verification.processes import NodeCommand, NodeProcesses
node = NodeCommand("node", (sys.executable, "-u", "-c",
                            "import os, time; print(os.getpid()); time.sleep(60)"))
with NodeProcesses([node], Path({str(tmp_path)!r}), os.environ):
    time.sleep(60)
"""
    environment = os.environ | {"PYTHONPATH": f"{SOURCE}:{os.environ.get('PYTHONPATH', '')}"}
    parent = subprocess.Popen([sys.executable, "-c", code], env=environment)
    wait_for((tmp_path / "node.log").exists, "log")
    child = number_in(tmp_path / "node.log")
    assert is_running(child)
    parent.send_signal(signal.SIGKILL)
    parent.wait()
    wait_for(lambda: not is_running(child), "end of the child")
