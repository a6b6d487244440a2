"""The operator's part of the page: emergency stop, mode buttons, sliders and the dead-man."""

from __future__ import annotations

import html
import time
from functools import partial

import viser

from policy_controller.view.stick import AXES, HOLD_RATE, BrowserStick

_MODES = (
    ("stand_up", "Stand up (ends walking, too)"),
    ("walk", "Walk"),
    ("lie_down", "Lie down"),
    ("clear_fault", "Clear the fault"),
)
_SLIDERS = ("forward [m/s]", "left [m/s]", "turn left [rad/s]")
_DRIVE = "Hold to drive"


class DrivePanel:
    """Makes a BrowserStick of what people do on the page.

    Callbacks are coroutines: viser runs these in the order in which a browser sent the events.
    """

    def __init__(
        self, server: viser.ViserServer, stick: BrowserStick, speeds: tuple[float, float, float]
    ):
        """speeds: at the ends of the sliders, m/s, m/s, rad/s."""
        gui = server.gui
        self._stick, self._speeds = stick, dict(zip(AXES, speeds, strict=True))
        stop = gui.add_button("EMERGENCY STOP (the robot drops)", color="red", order=0)
        stop.on_hold(partial(self._press, "emergency_stop"), callback_hz=2.0)  # when it goes down
        stop.on_click(partial(self._press, "emergency_stop"))  # by the keyboard
        with gui.add_folder("Drive", order=2):
            for name, label in _MODES:
                gui.add_button(label).on_click(partial(self._press, name))
            self._sliders = {}
            for axis, label in zip(AXES, _SLIDERS, strict=True):
                limit = self._speeds[axis]
                slider = gui.add_slider(label, min=-limit, max=limit, step=0.05, initial_value=0.0)
                slider.on_update(partial(self._move, axis))
                self._sliders[axis] = slider
            gui.add_button("Centre the sliders").on_click(self._centre)
            hold = gui.add_button(_DRIVE, color="green")
            hold.on_hold(self._hold, callback_hz=HOLD_RATE)
            hold.on_click(self._release)
            self._text = gui.add_html("")
        self._said: dict[str, str] = {}
        self._shown = ""
        server.on_client_connect(self._connect)
        server.on_client_disconnect(self._disconnect)

    def say(self, key: str, text: str) -> None:
        """Show a line under the sliders; the newest of each key."""
        self._said.pop(key, None)
        self._said[key] = text
        lines = [f"{html.escape(k)}: {html.escape(t)}" for k, t in list(self._said.items())[-3:]]
        content = f'<div style="padding: 0 1em; font-size: 0.8em">{"<br>".join(lines)}</div>'
        if content != self._shown:
            self._shown = self._text.content = content

    def centre(self) -> None:
        """Let the sliders spring back."""
        for axis, slider in self._sliders.items():
            slider.value = 0.0
            self._stick.move(time.monotonic(), -1, axis, 0.0)

    async def _connect(self, client: viser.ClientHandle) -> None:
        self._stick.connect(time.monotonic(), client.client_id)

    async def _disconnect(self, client: viser.ClientHandle) -> None:
        self._stick.disconnect(time.monotonic(), client.client_id)

    async def _press(self, mode: str, event: viser.GuiEvent) -> None:
        self._stick.press(time.monotonic(), event.client_id, mode)

    async def _hold(self, event: viser.GuiEvent) -> None:
        self._stick.hold(time.monotonic(), event.client_id)

    async def _release(self, event: viser.GuiEvent) -> None:
        self._stick.release(time.monotonic(), event.client_id)

    async def _centre(self, event: viser.GuiEvent) -> None:
        self.centre()

    async def _move(self, axis: str, event: viser.GuiEvent) -> None:
        if event.client_id is not None:  # a person, not `centre`
            deflection = event.target.value / self._speeds[axis]
            self._stick.move(time.monotonic(), event.client_id, axis, deflection)
