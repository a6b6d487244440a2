"""Joystick reader for machines without ROS 2's `joy` package: sends sensor_msgs/Joy.

    python -m policy_controller.teleop.joystick

It reads through SDL2 (PySDL2 with the SDL2 of pysdl2-dll), as `joy` does: the same database says
which axis and button of which pad is which, so that a layout of config/teleop fits both. Python's
evdev was considered: it must be compiled, and gives each driver's own order. pygame too: three
times the size, and no virtual joystick to test with.

Messages come at a fixed rate, and only while the joystick is there. A wireless receiver stays there
when its pad is out of range; then the messages no longer change, which the teleop node notices.
"""

from __future__ import annotations

import sys
import warnings
from collections.abc import Sequence
from typing import Any, NamedTuple

import rclpy
from rclpy.node import Node
from rclpy.qos import QoSProfile
from rclpy.signals import SignalHandlerOptions
from sensor_msgs.msg import Joy

from policy_controller.process import SpinThread, catch_signals

with warnings.catch_warnings():
    warnings.simplefilter("ignore")  # it warns that the SDL2 of pysdl2-dll is used
    try:
        import sdl2
    except ImportError as missing:
        raise ImportError(
            f"{missing}; install pysdl2 and pysdl2-dll (requirements/runtime.txt), or use "
            "game_controller_node of the package joy"
        ) from missing

RATE = 50.0
"""Messages per second."""


class Sample(NamedTuple):
    """As in sensor_msgs/Joy: axes -1 to 1, forward and left positive, buttons 0 or 1."""

    axes: list[float]
    buttons: list[int]


class JoystickError(RuntimeError):
    """SDL cannot be used; says why."""


def convert_axis(value: int) -> float:
    """SDL's axis, -32768 to 32767 with right and down positive, to that of Joy.

    Triggers go from 0 to -1, as `joy` has them.
    """
    return -max(value, -32767) / 32767


class GamePad:
    """The first joystick with a given name that SDL knows, or the first of all.

    Order of axes and buttons: SDL_GameControllerAxis and SDL_GameControllerButton.
    """

    def __init__(self, name: str = ""):
        """name: as SDL has it; empty = any. Raises JoystickError."""
        self._name = name
        self._pad: Any = None
        self._unknown: set[str] = set()
        self.news = ""
        sdl2.SDL_SetHint(sdl2.SDL_HINT_NO_SIGNAL_HANDLERS, b"1")
        if sdl2.SDL_Init(sdl2.SDL_INIT_GAMECONTROLLER) != 0:
            raise JoystickError(f"SDL: {sdl2.SDL_GetError().decode()}")

    def read(self) -> Sample | None:
        """The joystick as it is now, or None while there is none. `news` says what has changed
        since the call before: found, lost, not usable; else it is empty."""
        self.news = ""
        sdl2.SDL_PumpEvents()  # updates the joysticks and the list of them
        sdl2.SDL_FlushEvents(sdl2.SDL_FIRSTEVENT, sdl2.SDL_LASTEVENT)
        if self._pad and not sdl2.SDL_GameControllerGetAttached(self._pad):
            self._release()
            self.news = "joystick lost: nothing is sent until it is there again"
        if not self._pad:
            self._find()
        if not self._pad:
            return None
        return Sample(
            [
                convert_axis(sdl2.SDL_GameControllerGetAxis(self._pad, axis))
                for axis in range(sdl2.SDL_CONTROLLER_AXIS_MAX)
            ],
            [
                int(sdl2.SDL_GameControllerGetButton(self._pad, button))
                for button in range(sdl2.SDL_CONTROLLER_BUTTON_MAX)
            ],
        )

    def _find(self) -> None:
        for index in range(sdl2.SDL_NumJoysticks()):
            name = (sdl2.SDL_JoystickNameForIndex(index) or b"").decode(errors="replace")
            if self._name not in ("", name):
                continue
            if sdl2.SDL_IsGameController(index):
                self._pad = sdl2.SDL_GameControllerOpen(index)
                if self._pad:
                    self.news = f"joystick found: {name}"
                    return
            if name not in self._unknown:
                self._unknown.add(name)
                self.news = (
                    f"joystick {name!r} is not usable: SDL does not know its axes, or it cannot be "
                    "opened; give a mapping in SDL_GAMECONTROLLERCONFIG, check the permissions"
                )

    def _release(self) -> None:
        sdl2.SDL_GameControllerClose(self._pad)
        self._pad = None

    def close(self) -> None:
        """Give the joystick and SDL back."""
        if self._pad:
            self._release()
        sdl2.SDL_QuitSubSystem(sdl2.SDL_INIT_GAMECONTROLLER)


class JoystickNode(Node):
    """Publishes `joy`. Parameter device_name: as that of `joy`; empty = the first joystick."""

    def __init__(self, **options: Any):
        """options: of rclpy's Node. Raises JoystickError."""
        super().__init__("joystick", **options)
        self._pad = GamePad(self.declare_parameter("device_name", "").value)
        self._publisher = self.create_publisher(Joy, "joy", QoSProfile(depth=10))
        self.get_logger().info("looking for a joystick")

    def poll(self) -> None:
        """Read the joystick and publish it, if it is there."""
        sample = self._pad.read()
        if self._pad.news:
            self.get_logger().warning(self._pad.news)
        if sample is not None:
            message = Joy(axes=sample.axes, buttons=sample.buttons)
            message.header.frame_id = "joy"
            message.header.stamp = self.get_clock().now().to_msg()
            self._publisher.publish(message)

    def close(self) -> None:
        """Give the joystick back."""
        self._pad.close()


def main(args: Sequence[str] | None = None) -> int:
    """Run the node until SIGINT or SIGTERM."""
    stop = catch_signals()
    rclpy.init(args=args, signal_handler_options=SignalHandlerOptions.NO)
    try:
        node = JoystickNode()
        spin = SpinThread(node)  # for the services of the parameters
        spin.start()
        while not stop.wait(1.0 / RATE):
            node.poll()
        spin.stop()
        node.close()
        node.destroy_node()
    except JoystickError as error:
        print(error, file=sys.stderr)
        return 1
    finally:
        rclpy.shutdown()
    return 0


if __name__ == "__main__":
    sys.exit(main())
