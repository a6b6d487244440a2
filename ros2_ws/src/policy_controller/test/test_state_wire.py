"""AnymalState read from its bytes equals AnymalState read by rclpy."""

from __future__ import annotations

from dataclasses import astuple

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

pytest.importorskip("anymal_msgs")
pytest.importorskip("rclpy")

from anymal_msgs.msg import AnymalState, Contact  # noqa: E402
from geometry_msgs.msg import TransformStamped  # noqa: E402
from rclpy.serialization import deserialize_message, serialize_message  # noqa: E402

from policy_controller.state_wire import (  # noqa: E402
    WireError,
    check_layout,
    fields_of,
    unpack_state,
)

pytestmark = pytest.mark.ros

TEXT = st.text(st.characters(exclude_characters="\0", exclude_categories=("Cs",)), max_size=9)
NUMBER = st.floats(width=64, allow_nan=False)
NUMBERS = st.lists(NUMBER, max_size=14)


@st.composite
def states(draw) -> AnymalState:
    message = AnymalState(state=draw(st.integers(-3, 1)))
    stamp = message.header.stamp
    stamp.sec, stamp.nanosec = draw(st.integers(-(2**31), 2**31 - 1)), draw(st.integers(0, 999))
    for header in (message.header, message.pose.header, message.twist.header):
        header.frame_id = draw(TEXT)
    for part in (
        message.pose.pose.position,
        message.pose.pose.orientation,
        message.twist.twist.linear,
        message.twist.twist.angular,
    ):
        for name in part.get_fields_and_field_types():
            setattr(part, name, draw(NUMBER))
    message.joints.name = draw(st.lists(TEXT, max_size=14))
    for name in ("position", "velocity", "acceleration", "effort"):
        setattr(message.joints, name, draw(NUMBERS))
    for name in draw(st.lists(TEXT, max_size=5, unique=True)):
        contact = Contact(name=name, state=draw(st.integers(0, 2)))
        contact.header.frame_id = draw(TEXT)
        message.contacts.append(contact)
    message.frame_transforms = [TransformStamped()] * draw(st.integers(0, 2))
    return message


def assert_same(found, wanted):
    for a, b in zip(astuple(found), astuple(wanted), strict=True):
        assert np.array_equal(a, b), (found, wanted)


@settings(max_examples=200, deadline=None)
@given(states())
def test_reads_what_rclpy_reads(message):
    content = serialize_message(message)
    assert_same(unpack_state(content), fields_of(deserialize_message(content, AnymalState)))


@settings(max_examples=200, deadline=None)
@given(states(), st.data())
def test_cut_or_damaged_bytes_are_an_error_or_fields_but_nothing_else(message, data):
    content = bytearray(serialize_message(message))
    for _ in range(data.draw(st.integers(0, 3))):
        content[data.draw(st.integers(0, len(content) - 1))] = data.draw(st.integers(0, 255))
    del content[data.draw(st.integers(0, len(content))) :]
    try:
        unpack_state(bytes(content))
    except WireError as error:
        assert "found" in str(error)


def test_installed_message_has_the_layout():
    check_layout(serialize_message)


@pytest.mark.parametrize("edit", [lambda b: b[:-200], lambda b: b.replace(b"bcd", b"bce")])
def test_another_layout_is_refused(edit):
    with pytest.raises(WireError, match="install matching message packages"):
        check_layout(lambda message: edit(serialize_message(message)))
