"""Recordings: what is written is read, by us and by an independent reader, whatever goes wrong."""

from __future__ import annotations

import os
import resource
import signal
import subprocess
import sys
from contextlib import contextmanager

import pytest

pytest.importorskip("rclpy")
pytest.importorskip("anymal_msgs")

from anymal_msgs.msg import AnymalState, Contact  # noqa: E402
from mcap_ros2.reader import read_ros2_messages  # noqa: E402
from rclpy.serialization import serialize_message  # noqa: E402
from std_msgs.msg import String  # noqa: E402

from policy_controller.bag import __main__ as command  # noqa: E402
from policy_controller.bag.reader import BagReader  # noqa: E402
from policy_controller.bag.schema import SchemaError, describe_type  # noqa: E402
from policy_controller.bag.writer import CHUNK, BagError, BagWriter  # noqa: E402

STATE = "anymal_msgs/msg/AnymalState"
KILLED = """
import os, sys
from pathlib import Path
from policy_controller.bag.writer import BagWriter
writer = BagWriter(Path(sys.argv[1]), "killed", 10**9, 2, 0)
writer.add_topic("/text", "std_msgs/msg/String")
for number in range(2000):
    writer.write("/text", os.urandom(1000), number, number)
writer.flush()
print("written", flush=True)
input()
"""


def state_of(number: int) -> AnymalState:
    message = AnymalState(state=-1)
    message.header.stamp.nanosec = number
    message.joints.name, message.joints.position = ["LF_HAA"], [0.1 * number]
    message.contacts = [Contact(name="LF_FOOT", state=Contact.STATE_SLIPPING)]
    return message


def make_writer(folder, split_size=10**9, max_files=100, min_free=0) -> BagWriter:
    writer = BagWriter(folder, "run", split_size, max_files, min_free)
    writer.add_topic("/state", STATE)
    return writer


def write_states(writer: BagWriter, count: int) -> None:
    for number in range(count):
        writer.write("/state", serialize_message(state_of(number)), 100 + number, 50 + number)
        writer.flush()


def test_messages_come_back_as_they_were(tmp_path):
    writer = make_writer(tmp_path)
    write_states(writer, 20)
    writer.close()
    reader = BagReader(tmp_path)
    messages = list(reader.read())
    assert [m.decode() for m in messages] == [state_of(n) for n in range(20)]
    assert [(m.log_ns, m.publish_ns) for m in messages] == [(100 + n, 50 + n) for n in range(20)]
    assert {(m.topic, m.kind) for m in messages} == {("/state", STATE)} and not reader.unfinished
    assert not list(reader.read(topics=["/other"]))


def test_an_independent_reader_understands_the_file_from_its_schema_alone(tmp_path):
    writer = make_writer(tmp_path)
    write_states(writer, 3)
    writer.close()
    found = [m.ros_msg for m in read_ros2_messages(str(writer.files[0]))]
    assert [m.joints.position[0] for m in found] == [0.1 * n for n in range(3)]
    assert found[1].contacts[0].name == "LF_FOOT" and found[1].state == -1
    assert found[2].header.stamp.nanosec == 2


def test_schema_names_every_dependency_once():
    text = describe_type(STATE)
    parts = [line.split()[1] for line in text.splitlines() if line.startswith("MSG: ")]
    assert len(parts) == len(set(parts))
    assert {"any_msgs/ExtendedJointState", "geometry_msgs/Quaternion"} <= set(parts)


@pytest.mark.parametrize("name", ["std_msgs/String", "no_msgs/msg/Thing", "std_msgs/msg/Thing"])
def test_unknown_types_are_named(name):
    with pytest.raises(SchemaError, match=name.split("/")[-1]):
        describe_type(name)


def test_files_are_split_and_the_oldest_deleted(tmp_path):
    writer = BagWriter(tmp_path, "run", 3 * CHUNK, 3, 0)
    writer.add_topic("/text", "std_msgs/msg/String")
    for number in range(1000):
        writer.write("/text", os.urandom(2000), number, number)
        writer.flush()
    writer.close()
    assert sorted(tmp_path.iterdir()) == writer.files and len(writer.files) == 3
    assert all(file.stat().st_size < 5 * CHUNK for file in writer.files)
    numbers = [m.log_ns for m in BagReader(tmp_path).read()]
    assert numbers == list(range(numbers[0], 1000)) and numbers[0] > 0


@pytest.fixture
def killed(tmp_path):
    """The file of a process that was killed while it recorded 2000 messages of 1 kB."""
    with subprocess.Popen(
        [sys.executable, "-c", KILLED, str(tmp_path / "bag")],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    ) as process:
        assert process.stdout.readline() == "written\n"
        process.send_signal(signal.SIGKILL)
    return tmp_path / "bag" / "killed_0000.mcap"


def test_a_killed_process_loses_one_chunk_at_most(killed):
    reader = BagReader(killed)
    numbers = [m.log_ns for m in reader.read()]
    assert numbers == list(range(len(numbers)))
    assert 2000 - len(numbers) <= CHUNK / 1000
    assert reader.unfinished == [killed]


def test_a_file_cut_anywhere_can_be_read_up_to_there(killed):
    content = killed.read_bytes()
    counts = []
    for share in (0.01, 0.3, 0.7, 0.999):
        killed.write_bytes(content[: int(share * len(content))])
        counts.append(len(list(BagReader(killed).read())))
    assert counts == sorted(counts) and counts[0] < counts[1] < counts[2]


def test_recovered_file_is_complete(killed, tmp_path, capsys):
    assert command.main(["recover", str(killed), str(tmp_path / "new")]) == 0
    assert "unfinished" in capsys.readouterr().out
    reader = BagReader(tmp_path / "new")
    assert [m.data for m in reader.read()] == [m.data for m in BagReader(killed).read()]
    assert not reader.unfinished


def test_damage_in_the_middle_is_no_silent_end(killed):
    content = bytearray(killed.read_bytes())
    content[len(content) // 2] ^= 0xFF
    killed.write_bytes(content)
    with pytest.raises(ValueError, match="damaged"):
        list(BagReader(killed).read())


@contextmanager
def largest_file(size: int):
    """The system refuses to write beyond `size` bytes of a file, as when a disk is full."""
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (size, before[1]))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)


def test_full_disk_ends_recording_with_a_clear_message(tmp_path):
    writer = BagWriter(tmp_path, "run", 10**9, 2, 0)
    writer.add_topic("/text", "std_msgs/msg/String")
    with largest_file(5 * CHUNK), pytest.raises(BagError, match="recording ended.*free the disk"):
        for number in range(1000):
            writer.write("/text", os.urandom(2000), number, number)
            writer.flush()
    numbers = [m.log_ns for m in BagReader(tmp_path).read()]
    assert numbers == list(range(len(numbers))) and len(numbers) > 100
    with pytest.raises(BagError, match="has ended"):
        writer.write("/text", serialize_message(String()), 0, 0)


def test_recording_ends_before_the_disk_is_full(tmp_path):
    writer = make_writer(tmp_path, min_free=10**18)
    with pytest.raises(BagError, match="MB free .* allowed: at least"):
        write_states(writer, 1)
    reader = BagReader(tmp_path)
    assert len(list(reader.read())) == 1 and not reader.unfinished


@pytest.mark.parametrize("content", [None, b"", b"text, and no recording at all"])
def test_what_is_no_recording_is_refused_with_a_line(tmp_path, capsys, content):
    path = tmp_path / "x.mcap"
    if content is not None:
        path.write_bytes(content)
    status = command.main(["info", str(path)])
    output = capsys.readouterr()
    assert (status, "unfinished" in output.out) == ((0, True) if content == b"" else (1, False))
    assert len(output.err.splitlines()) == (0 if content == b"" else 1)
