"""The joystick reader on the real SDL, with SDL's own virtual joysticks in place of hardware."""

from __future__ import annotations

import time

import pytest

rclpy = pytest.importorskip("rclpy")
sdl2 = pytest.importorskip("sdl2")

from lockstep_robot import own_context  # noqa: E402
from rclpy.executors import SingleThreadedExecutor  # noqa: E402
from sensor_msgs.msg import Joy  # noqa: E402

from policy_controller.teleop.joystick import GamePad, JoystickNode, convert_axis  # noqa: E402

pytestmark = pytest.mark.ros

NAME = "Virtual Controller"  # SDL's name for one of its type
AXES, BUTTONS = 6, 21  # as `joy` has them
LEFT_Y, TRIGGER_LEFT, LEFT_SHOULDER, DPAD_UP = 1, 4, 9, 11


@pytest.fixture
def pad():
    """A reader for virtual joysticks only, whatever is plugged into this machine."""
    pad = GamePad(NAME)
    yield pad
    pad.close()


def plug(kind: int = sdl2.SDL_JOYSTICK_TYPE_GAMECONTROLLER, axes: int = AXES) -> int:
    index = sdl2.SDL_JoystickAttachVirtual(kind, axes, BUTTONS, 0)
    assert index >= 0, sdl2.SDL_GetError()
    return index


def open_virtual(index: int):
    return sdl2.SDL_JoystickOpen(index)


def test_nothing_is_read_without_a_joystick(pad):
    assert pad.read() is None and pad.news == ""


def test_order_and_sign_are_those_of_joy(pad):
    index = plug()
    joystick = open_virtual(index)
    sample = pad.read()
    assert pad.news == f"joystick found: {NAME}"
    assert sample == ([0.0] * AXES, [0] * BUTTONS)
    sdl2.SDL_JoystickSetVirtualAxis(joystick, LEFT_Y, -32768)  # up
    sdl2.SDL_JoystickSetVirtualAxis(joystick, 0, 16384)  # right
    sdl2.SDL_JoystickSetVirtualButton(joystick, LEFT_SHOULDER, 1)
    sdl2.SDL_JoystickSetVirtualButton(joystick, DPAD_UP, 1)
    sample = pad.read()
    assert sample.axes == pytest.approx([-0.5, 1.0, 0.0, 0.0, 0.0, 0.0], abs=1e-4)
    assert [i for i, down in enumerate(sample.buttons) if down] == [LEFT_SHOULDER, DPAD_UP]
    sdl2.SDL_JoystickSetVirtualButton(joystick, LEFT_SHOULDER, 0)
    assert [i for i, down in enumerate(pad.read().buttons) if down] == [DPAD_UP]
    sdl2.SDL_JoystickClose(joystick)
    sdl2.SDL_JoystickDetachVirtual(index)


def test_unplugged_joystick_is_not_read_until_it_is_back(pad):
    index = plug()
    joystick = open_virtual(index)
    sdl2.SDL_JoystickSetVirtualAxis(joystick, LEFT_Y, -32768)
    assert pad.read().axes[LEFT_Y] == 1.0
    sdl2.SDL_JoystickClose(joystick)
    sdl2.SDL_JoystickDetachVirtual(index)
    assert pad.read() is None
    assert pad.news.startswith("joystick lost")
    assert pad.read() is None and pad.news == ""
    index = plug()
    assert pad.read() == ([0.0] * AXES, [0] * BUTTONS)
    assert pad.news == f"joystick found: {NAME}"
    sdl2.SDL_JoystickDetachVirtual(index)


def test_joystick_that_sdl_does_not_know_is_named_once():
    pad = GamePad()
    index = plug(sdl2.SDL_JOYSTICK_TYPE_THROTTLE, axes=1)
    assert pad.read() is None
    assert "is not usable" in pad.news and "SDL_GAMECONTROLLERCONFIG" in pad.news
    assert pad.read() is None and pad.news == ""
    sdl2.SDL_JoystickDetachVirtual(index)
    pad.close()


@pytest.mark.parametrize(
    "raw, expected",
    [(-32768, 1.0), (-32767, 1.0), (0, 0.0), (32767, -1.0), (16384, -16384 / 32767)],
)
def test_axis_conversion(raw, expected):
    assert convert_axis(raw) == expected


@pytest.fixture
def context():
    """A ROS context in a domain that no other test uses."""
    with own_context() as context:
        yield context


def test_node_publishes_while_the_joystick_is_there(context):
    node = JoystickNode(context=context, cli_args=["--ros-args", "-p", f"device_name:={NAME}"])
    listener = rclpy.create_node("listener", context=context)
    heard: list[Joy] = []
    listener.create_subscription(Joy, "joy", heard.append, 10)
    executor = SingleThreadedExecutor(context=context)
    executor.add_node(listener)
    index = plug()
    joystick = open_virtual(index)
    sdl2.SDL_JoystickSetVirtualAxis(joystick, LEFT_Y, -32768)
    end = time.monotonic() + 60.0
    while not heard:
        assert time.monotonic() < end, "waited 60 s for a message"
        node.poll()
        executor.spin_once(timeout_sec=0.02)
    assert list(heard[0].axes) == [0.0, 1.0, 0.0, 0.0, 0.0, 0.0]
    assert len(heard[0].buttons) == BUTTONS and heard[0].header.frame_id == "joy"
    sdl2.SDL_JoystickClose(joystick)
    sdl2.SDL_JoystickDetachVirtual(index)
    node.poll()  # notices
    while heard:  # what was sent before
        heard.clear()
        executor.spin_once(timeout_sec=0.2)
    for _ in range(20):
        node.poll()
        executor.spin_once(timeout_sec=0.02)
    assert heard == []
    node.close()
    executor.shutdown()
    node.destroy_node()
    listener.destroy_node()
