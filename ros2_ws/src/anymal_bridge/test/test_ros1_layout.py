"""Packets between the two processes: what is read is what was written, to the last bit."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from anymal_bridge.ros1.layout import (
    COMMAND_VALUES,
    COMMANDED_VALUES,
    MAX_PACKET,
    NUM_FEET,
    NUM_JOINTS,
    READING_VALUES,
    STATE_VALUES,
    Command,
    Health,
    LayoutError,
    Readings,
    Release,
    State,
    read_packet,
)

stamps = st.integers(-(2**63), 2**63 - 1)
modes = st.integers(-(2**15), 2**15 - 1)


def numbers(size: int):
    return st.lists(st.floats(allow_nan=False), min_size=size, max_size=size)


def integers(size: int, bits: int):
    return st.lists(st.integers(0, 2**bits - 1), min_size=size, max_size=size)


packets = st.one_of(
    st.builds(
        State, stamps, st.integers(-128, 127), integers(NUM_FEET, 8), st.floats(allow_nan=False),
        numbers(STATE_VALUES),
    ),
    st.builds(
        Readings, stamps, stamps, modes, integers(NUM_JOINTS, 32),
        numbers(NUM_JOINTS * (READING_VALUES + COMMANDED_VALUES)),
    ),
    st.builds(Command, stamps, modes, numbers(NUM_JOINTS * COMMAND_VALUES)),
    st.just(Release()),
    st.builds(Health, st.booleans(), st.integers(0, 2**16 - 1), st.text(max_size=200)),
)  # fmt: skip


@given(packets)
def test_packet_comes_back_as_it_was(packet):
    data = packet.pack()
    assert len(data) <= MAX_PACKET
    assert read_packet(data) == packet and type(read_packet(data)) is type(packet)


@pytest.mark.parametrize("data", [b"", b"\x63", b"\x03short", Release().pack() + b"x", b"\x05"])
def test_other_bytes_are_refused(data):
    with pytest.raises(LayoutError):
        read_packet(data)


def test_packet_numbers_are_those_of_the_robot_sample():
    from anymal_bridge.robot_sample import NUM_FEET as FEET
    from anymal_bridge.robot_sample import NUM_JOINTS as JOINTS
    from anymal_bridge.robot_sample import STATE_SIZE

    assert (NUM_JOINTS, NUM_FEET) == (JOINTS, FEET)
    assert STATE_VALUES == STATE_SIZE + 12 + 12 + 4 * 3 + 4 * 3
