"""The robot in 3D: its shapes, the forces on its feet, its velocities."""

from __future__ import annotations

from typing import Any

import numpy as np
import viser
from anymal_msgs.msg import Contact

from policy_controller.view.frame import Frame
from policy_controller.view.shapes import BASE, MovingLink, Shape

_SHELL, _LEG, _FOOT = (198, 42, 33), (52, 56, 66), (20, 20, 22)
_FORCE, _SLIPPING = (40, 150, 60), (235, 130, 0)
_COMMANDED, _MEASURED = (50, 110, 220), (130, 130, 140)
_METRES_PER_NEWTON = 2e-3
_SECONDS = 0.6  # length of the velocity arrows, as the way in this time
_ABOVE = 0.35  # m, of the velocity arrows over the base
_NOWHERE = np.array([[[0.0, 0.0, -10.0], [0.0, 0.0, -9.9]]])
_CELL = 1.0  # m


class Stage:
    """Draws frames into a viser scene. The robot stays in the middle; the ground moves past it."""

    def __init__(self, server: viser.ViserServer, links: list[MovingLink]):
        """links: from shapes.load_links."""
        self._server, self._links = server, links
        scene = server.scene
        scene.set_up_direction("+z")
        scene.configure_default_lights(cast_shadow=False)
        server.initial_camera.position = (1.9, -1.7, 0.75)
        server.initial_camera.look_at = (0.0, 0.0, 0.35)
        self._ground = scene.add_grid(
            "/ground", 30.0, 30.0, cell_size=_CELL / 2, section_size=_CELL, shadow_opacity=0.0
        )
        self._odom = scene.add_frame("/odom", show_axes=False)
        self._frames: dict[str, Any] = {}
        names = {None: "/odom"}
        for link in links:
            names[link.joint] = f"{names[link.parent]}/{link.joint}"
            self._frames[link.joint] = scene.add_frame(
                names[link.joint],
                show_axes=False,
                position=link.origin.translation(),
                wxyz=link.orientation(0.0),
            )
            for number, shape in enumerate(link.shapes):
                _add_shape(scene, f"{names[link.joint]}/shape{number}", shape, link)
        self._forces = self._add_arrows("/odom/forces", _FORCE)
        self._slips = self._add_arrows("/odom/slips", _SLIPPING)
        self._commanded = self._add_arrows("/odom/base/commanded", _COMMANDED)
        self._measured = self._add_arrows("/odom/base/measured", _MEASURED)

    def _add_arrows(self, name: str, color: tuple[int, int, int]) -> Any:
        return self._server.scene.add_arrows(
            name, _NOWHERE, color, shaft_radius=0.012, head_radius=0.03, head_length=0.06
        )

    def draw(self, frame: Frame) -> None:
        """Show this moment. Joints that the frame does not name stay as they are."""
        x, y, _ = frame.position
        with self._server.atomic():
            self._ground.position = (-x % _CELL, -y % _CELL, 0.0)
            self._odom.position = (-x, -y, 0.0)
            base = self._frames[BASE]
            base.position, base.wxyz = frame.position, frame.orientation
            for link in self._links:
                angle = frame.joint_position.get(link.joint)
                if angle is not None:
                    self._frames[link.joint].wxyz = link.orientation(angle)
            for arrows, state in (
                (self._forces, Contact.STATE_CLOSED),
                (self._slips, Contact.STATE_SLIPPING),
            ):
                feet = [foot for foot in frame.feet.values() if foot.state == state]
                ends = [(f.position, f.position + _METRES_PER_NEWTON * f.force) for f in feet]
                arrows.points = np.array(ends) if ends else _NOWHERE
            self._measured.points = _velocity_arrow(frame.velocity, _ABOVE)
            self._commanded.points = _velocity_arrow(frame.command, _ABOVE + 0.03)


def _velocity_arrow(velocity: np.ndarray | None, height: float) -> np.ndarray:
    """Start and end [1, 2, 3] of the horizontal part in the base frame; hidden when small."""
    if velocity is None or np.hypot(*velocity[:2]) < 0.02:
        return _NOWHERE
    start = np.array((0.0, 0.0, height))
    return np.array([[start, start + _SECONDS * np.array((velocity[0], velocity[1], 0.0))]])


def _add_shape(scene: viser.SceneApi, name: str, shape: Shape, link: MovingLink) -> None:
    color = _FOOT if shape.kind == "sphere" else _SHELL if link.joint == BASE else _LEG
    place: dict[str, Any] = {
        "color": color,
        "wxyz": shape.pose.rotation().wxyz,
        "position": shape.pose.translation(),
    }
    if shape.kind == "box":
        scene.add_box(name, dimensions=shape.size, **place)
    elif shape.kind == "cylinder":
        scene.add_cylinder(name, radius=shape.size[0], height=shape.size[1], **place)
    else:
        scene.add_icosphere(name, radius=shape.size[0], **place)
