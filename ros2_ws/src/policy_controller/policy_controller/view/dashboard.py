"""What the controller does, in words and curves, beside the 3D scene."""

from __future__ import annotations

import html
from collections import deque

import numpy as np
import viser
from viser import uplot

from policy_controller.view.frame import Frame

WINDOW = 10.0
"""Seconds that the curves show."""
_COLOURS = ("#c62a21", "#2a7a3f", "#326edc")
_BADGES = {"FAULT": "#b00020", "WALK": "#1b7f3b", "PASSIVE": "#666666"}
_LEGS = ("LF", "RF", "LH", "RH")
_JOINTS = ("HAA", "HFE", "KFE")
_VELOCITIES = ("forward", "left", "turn")


class Dashboard:
    """Motion state, reasons and plots. Colours: red, green, blue; dashed lines are commanded."""

    def __init__(self, server: viser.ViserServer):
        """Adds its elements to the panel of `server`, in their order of reading."""
        gui = server.gui
        self._server, self._frames = server, deque[Frame]()
        self._status = gui.add_html(describe(None), order=1)
        with gui.add_folder("Plots", order=3):
            self._velocity = self._add_plot("velocity [m/s, rad/s]", _VELOCITIES)
            self._leg = gui.add_dropdown("leg", _LEGS)
            self._position = self._add_plot("joint position [rad]", _JOINTS)
            self._torque = self._add_plot("joint torque [N m]", _JOINTS, commanded=False)

    def _add_plot(
        self, title: str, names: tuple[str, ...], commanded: bool = True
    ) -> viser.GuiUplotHandle:
        lines = [
            uplot.Series(label=name, stroke=colour, width=2, points={"show": False})
            for name, colour in zip(names, _COLOURS, strict=True)
        ]
        if commanded:
            lines += [
                uplot.Series(
                    label=f"{name} cmd", stroke=colour, width=1, dash=[4, 4], points={"show": False}
                )
                for name, colour in zip(names, _COLOURS, strict=True)
            ]
        return self._server.gui.add_uplot(
            (np.zeros(1),) * (1 + len(lines)),
            (uplot.Series(label="t"), *lines),
            title=title,
            scales={"x": uplot.Scale(time=False, auto=True)},
            legend=uplot.Legend(show=False),
            height=150,
        )

    def show(self, frame: Frame) -> None:
        """Say what this moment is, and remember it for the curves. A moment before the last one
        begins them anew."""
        if self._frames and frame.stamp < self._frames[-1].stamp:
            self.clear()
        self._frames.append(frame)
        while frame.stamp - self._frames[0].stamp > WINDOW:
            self._frames.popleft()
        self._say(describe(frame))

    def clear(self) -> None:
        """Begin the curves anew."""
        self._frames.clear()

    def show_silence(self, age: float) -> None:
        """Say that the robot was silent for `age` seconds."""
        self._say(describe(None, age))

    def _say(self, text: str) -> None:
        if self._status.content != text:
            self._status.content = text

    def plot(self) -> None:
        """Draw the curves; a few times a second is enough."""
        frames = list(self._frames)
        if not frames:
            return
        times = np.array([frame.stamp - frames[-1].stamp for frame in frames])
        nothing = np.full(3, np.nan)
        measured = np.array([frame.velocity for frame in frames])
        commanded = np.array([nothing if f.command is None else f.command for f in frames])
        self._velocity.data = (times, *measured.T, *commanded.T)
        joints = [f"{self._leg.value}_{joint}" for joint in _JOINTS]
        values, targets, torques = (
            np.array([[table.get(joint, np.nan) for joint in joints] for table in tables])
            for tables in (
                [frame.joint_position for frame in frames],
                [frame.joint_target for frame in frames],
                [frame.joint_torque for frame in frames],
            )
        )
        self._position.data = (times, *values.T, *targets.T)
        self._torque.data = (times, *torques.T)


def describe(frame: Frame | None, silence: float | None = None) -> str:
    """The status as HTML: motion state, reason codes, and the controller's own words for them."""
    if frame is None:
        text = "no robot state yet" if silence is None else f"no robot state for {silence:.1f} s"
        return f'<div style="padding: 0.5em 1em"><b>{text}</b></div>'
    if not frame.motion:
        return '<div style="padding: 0.5em 1em"><b>the controller says nothing</b></div>'
    badge = _BADGES.get(frame.motion, "#285ea8")
    reasons = " ".join(f"<code>{html.escape(reason)}</code>" for reason in frame.reasons)
    speed = "forward {:+.2f} m/s, left {:+.2f} m/s, turn {:+.2f} rad/s".format(*frame.velocity)
    return (
        '<div style="padding: 0.5em 1em; font-size: 0.9em">'
        f'<span style="background:{badge}; color:white; padding:0.2em 0.7em; border-radius:0.3em;'
        f' font-weight:bold; font-size:1.3em">{html.escape(frame.motion)}</span> {reasons}<br>'
        f"{html.escape(frame.detail)}<br><small>{speed}</small></div>"
    )
