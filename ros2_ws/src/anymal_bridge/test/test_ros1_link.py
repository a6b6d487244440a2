"""Two side processes, one as the bridge and one as the robot, on a real roscore."""

import math
import os
import signal
import subprocess
import time
from collections.abc import Callable

import numpy as np
import pytest

pytest.importorskip("anymal_msgs", reason="needs the message packages")
pytestmark = pytest.mark.ros

from anymal_bridge.ros1.layout import (  # noqa: E402
    STATE_VALUES,
    Command,
    Readings,
    Release,
    State,
)
from anymal_bridge.ros1.link import (  # noqa: E402
    DEFINED_HERE,
    PYTHON,
    Ros1Link,
    SideOptions,
    get_package_share_directory,
)

JOINTS = [f"{leg}_{joint}" for leg in ("LF", "RF", "LH", "RH") for joint in ("HAA", "HFE", "KFE")]
FEET = [f"{leg}_FOOT" for leg in ("LF", "RF", "LH", "RH")]
PATIENCE_S = 30.0
DAMPING = 5.0
SILENCE_S = 0.1


class End:
    """A link, and what came through it."""

    def __init__(self, uri: str, role: str, name: str = "", camel_case: bool = False) -> None:
        self.packets: list = []
        options = SideOptions(
            role, name or f"test_{role}", "/state", "/readings", "/commands", JOINTS, FEET, uri,
            DAMPING, SILENCE_S, camel_case,
        )  # fmt: skip
        self.link = Ros1Link(options, self.packets.append)

    def of(self, kind: type) -> list:
        return [packet for packet in self.packets if isinstance(packet, kind)]


def until(condition: Callable[[], object], act: Callable[[], object] = lambda: None) -> None:
    """Until ``condition`` is true, calling ``act`` at 400 Hz."""
    end = time.monotonic() + PATIENCE_S
    while not condition():
        assert time.monotonic() < end, f"not within {PATIENCE_S} s"
        act()
        time.sleep(0.0025)


@pytest.fixture
def make_end(roscore):
    ends: list[End] = []

    def make(*arguments, **options) -> End:
        ends.append(End(roscore.uri, *arguments, **options))
        return ends[-1]

    yield make
    for end in ends:
        end.link.close()


@pytest.fixture
def pair(make_end):
    """Bridge and robot that hear each other."""
    bridge, robot = make_end("bridge"), make_end("robot")
    until(lambda: bridge.of(State), lambda: robot.link.send(a_state(1)))
    until(lambda: robot.of(Command), lambda: bridge.link.send(a_command(1)))
    bridge.link.send(Release())
    bridge.packets.clear(), robot.packets.clear()
    return bridge, robot


def a_state(stamp_ns: int) -> State:
    values = np.random.default_rng(stamp_ns).normal(size=STATE_VALUES).tolist()
    return State(stamp_ns, -2, [0, 1, 2, 1], 0.7, values)


def a_command(stamp_ns: int) -> Command:
    values = np.random.default_rng(stamp_ns).normal(size=(5, 12))
    values[3:] = np.float32(values[3:])  # the gains are float32 in the message
    return Command(stamp_ns, 13, values.ravel().tolist())


def a_damping(stamp_ns: int) -> Command:
    return Command(stamp_ns, 13, [0.0] * 48 + [DAMPING] * 12)


def test_check_sums_are_those_of_the_robot(roscore):
    """ANYmal's own are known from recordings; the two of AnymalState are ours to keep."""
    program = (
        "import sys, pathlib; sys.path.insert(0, sys.argv[1]); import messages as m\n"
        "d = {p: pathlib.Path(f) for p, f in zip(sys.argv[2::2], sys.argv[3::2])}\n"
        "for camel in (False, True):\n"
        "    for name in (m.COMMANDS, m.READINGS, m.STATE):\n"
        "        print(m.Definitions(d, camel).make(name)._md5sum)"
    )
    folder = os.path.dirname(__import__("anymal_bridge.ros1.link", fromlist=["_"]).__file__)
    folders = [w for p in DEFINED_HERE for w in (p, get_package_share_directory(p) + "/msg")]
    sums = subprocess.run(
        [PYTHON, "-E", "-s", "-c", program, folder, *folders],
        capture_output=True, text=True, check=True,
    ).stdout.split()  # fmt: skip
    drives = ["8bac105afcdb07f69773e72515936600", "ff6230194b1da4ad6213f9aae966106d"]
    assert sums[:2] == drives and sums[3:5] == drives
    assert sums[2] != sums[5]


def test_every_number_passes_both_ways_at_the_robots_rate(pair):
    bridge, robot = pair
    readings_values = np.random.default_rng(0).normal(size=(2, 12, 7))
    readings_values[1, :, 4:] = np.float32(readings_values[1, :, 4:])
    readings = Readings(7, 5, 13, list(range(12)), readings_values.ravel().tolist())
    end = time.monotonic() + PATIENCE_S
    first, fewest = 2, 0
    # Queues hold the newest only, so a busy machine skips some and may need several attempts, and
    # may damp the robot meanwhile, as silence does; what arrives is whole and in order every time.
    while fewest <= 300:
        assert time.monotonic() < end, f"at most {fewest} of 400 packets came through"
        bridge.packets.clear(), robot.packets.clear()
        last = first + 399
        for stamp_ns in range(first, last + 1):
            robot.link.send(readings._replace(stamp_ns=stamp_ns))
            robot.link.send(a_state(stamp_ns))
            bridge.link.send(a_command(stamp_ns))
            time.sleep(0.0025)
        bridge.link.send(Release())
        until(lambda last=last: bridge.of(State) and bridge.of(State)[-1].stamp_ns == last)
        until(lambda last=last: robot.of(Command) and robot.of(Command)[-1].stamp_ns == last)
        counts = []
        for packets, expected in (
            (bridge.of(State), a_state),
            ([p for p in robot.of(Command) if p != a_damping(p.stamp_ns)], a_command),
            (bridge.of(Readings), lambda stamp_ns: readings._replace(stamp_ns=stamp_ns)),
        ):
            stamps = [packet.stamp_ns for packet in packets]
            assert stamps == sorted(set(stamps))
            assert all(packet == expected(packet.stamp_ns) for packet in packets)
            counts.append(len(stamps))
        print(f"of 400 states, commands, readings came {counts}")
        first, fewest = last + 1, min(counts)


def test_old_spelling_of_the_friction_field_is_read(make_end):
    bridge, robot = make_end("bridge"), make_end("robot", camel_case=True)
    until(lambda: bridge.of(State), lambda: robot.link.send(a_state(3)))
    assert bridge.of(State)[-1] == a_state(3)


def test_silence_after_a_command_becomes_damping_and_release_ends_it(pair):
    bridge, robot = pair
    bridge.link.send(a_command(9))
    until(lambda: robot.of(Command).count(a_damping(9)) > 5)
    bridge.link.send(a_command(10))  # the parent speaks again
    until(lambda: a_command(10) in robot.of(Command))
    until(lambda: robot.of(Command)[-1] == a_damping(10))
    bridge.link.send(Release())
    bridge.link.send(a_command(11))
    bridge.link.send(Release())
    until(lambda: a_command(11) in robot.of(Command))
    time.sleep(3 * SILENCE_S)  # nothing may come
    assert robot.of(Command)[-1] == a_command(11)


def test_side_process_of_a_dead_bridge_leaves_the_robot_damping(pair):
    bridge, robot = pair
    bridge.link.send(a_command(9))
    bridge.link.close()  # the same end of file that the kernel sends for a killed process
    until(lambda: robot.packets and robot.of(Command)[-1] == a_damping(9))


def test_killed_side_process_comes_back(pair):
    bridge, robot = pair
    os.kill(bridge.link.pid, signal.SIGKILL)
    until(lambda: bridge.link.starts == 2)
    until(lambda: bridge.of(State), lambda: robot.link.send(a_state(20)))
    until(lambda: robot.of(Command), lambda: bridge.link.send(a_command(20)))


def test_roscore_may_go_and_come_back(pair, make_end, roscore):
    bridge, robot = pair
    roscore.kill()
    until(lambda: "no roscore" in bridge.link.health.problem)
    until(lambda: bridge.of(State), lambda: robot.link.send(a_state(30)))
    until(lambda: robot.of(Command), lambda: bridge.link.send(a_command(30)))
    bridge.link.send(Release())

    roscore.start()
    until(lambda: bridge.link.health.has_master and robot.link.health.has_master)
    robot.link.close()  # a robot that is started anew after the roscore
    bridge.packets.clear()
    again = make_end("robot")
    until(lambda: bridge.of(State), lambda: again.link.send(a_state(31)))
    until(lambda: again.of(Command), lambda: bridge.link.send(a_command(31)))
    assert (bridge.link.starts, bridge.link.health.problem) == (1, "")


def test_side_process_waits_for_the_roscore(make_end, roscore):
    roscore.kill()
    bridge, robot = make_end("bridge"), make_end("robot")
    until(lambda: f"no roscore at {roscore.uri}" in bridge.link.health.problem)
    roscore.start()
    until(lambda: bridge.of(State), lambda: robot.link.send(a_state(40)))
    assert bridge.link.starts == 1


def test_another_sender_of_commands_is_counted(pair, make_end):
    bridge, _ = pair
    assert bridge.link.health.drivers == 0
    other = make_end("bridge", name="motion_control_manager")
    until(lambda: bridge.link.health.drivers == 1 and other.link.health.drivers == 1)


def test_foot_that_is_not_a_number_passes(pair):
    bridge, robot = pair
    state = a_state(50)
    values = list(state.values)
    values[61:64] = [math.nan] * 3
    until(lambda: bridge.of(State), lambda: robot.link.send(state._replace(values=values)))
    np.testing.assert_equal(bridge.of(State)[-1].values, values)
