"""Layouts: those that are shipped are consistent, and what is wrong with one is named."""

from __future__ import annotations

from pathlib import Path

import pytest

from policy_controller.fields import RefusedError
from policy_controller.teleop.layout import GROUPS, read_layout

FILES = sorted((Path(__file__).parents[5] / "config" / "teleop").glob("*.yaml"))
# SDL_GameControllerButton, as in the README of ros-drivers/joystick_drivers
BUTTONS = "A B X Y BACK GUIDE START LEFTSTICK RIGHTSTICK LEFTSHOULDER RIGHTSHOULDER".split()
NAMES = {
    "A": "A CROSS",
    "B": "B CIRCLE",
    "X": "X SQUARE",
    "Y": "Y TRIANGLE",
    "START": "START MENU OPTIONS",
    "LEFTSHOULDER": "LB L1",
    "RIGHTSHOULDER": "RB R1",
}


def test_every_common_pad_has_a_layout():
    assert {file.stem for file in FILES} == {
        "game_controller",
        "logitech_f710",
        "ps4",
        "ps5",
        "xbox",
    }


@pytest.mark.parametrize("file", FILES, ids=lambda file: file.stem)
def test_shipped_layout_is_complete_and_consistent(file, read_file):
    layout = read_layout(read_file(file))
    assert layout.settings.require_enable_button and layout.settings.publish_stamped_twist
    assert len(layout.mapped_axes) == 3  # a legged robot also goes sideways
    assert set(layout.modes.__dict__) == set(layout.mode_buttons)
    for normal, turbo in (
        (layout.scale_linear.x, layout.scale_linear_turbo.x),
        (layout.scale_linear.y, layout.scale_linear_turbo.y),
        (layout.scale_angular.yaw, layout.scale_angular_turbo.yaw),
    ):
        assert 0.0 < normal < turbo <= 1.0
    for line in file.read_text().splitlines():  # the comment names the button of that index
        key, _, comment = line.partition("#")
        name, _, index = key.strip().partition(":")
        if f"modes.{name}" in layout.buttons or name in layout.buttons:
            words = comment.replace(",", " ").replace(";", " ").split()
            assert words[0] in NAMES[BUTTONS[int(index)]].split()


def test_layout_has_one_field_for_each_group(layout):
    assert [type(value) for value in vars(layout).values()] == [kind for _, kind in GROUPS]


@pytest.mark.parametrize(
    "change, message",
    [
        ({"enable_button": -1}, "enable_button: found -1"),
        ({"modes.walk": 9}, "enable_button, modes.walk: found button 9 for all"),
        ({"axis_linear.y": 1}, "found (1, 1, 2), allowed: one or more, different ones"),
        ({"axis_angular.yaw": 7}, "allowed: below axes = 6"),
        ({"no_change_timeout": 2.0}, "above no_change_warning = 2 s"),
        ({"scale_linear.x": 5.0}, "scale_linear.x: found 5.0, allowed: number from -3 to 3 m/s"),
        ({"scale_linear.x": float("nan")}, "scale_linear.x: found nan"),
        ({"silence_timeout": 0.0}, "silence_timeout: found 0.0"),
        ({"enable_buton": 9}, "enable_buton: unknown parameter, allowed: enable_button"),
        ({"axis_linear.x": None}, "axis_linear.x: found None, allowed: integer from -1"),
    ],
)
def test_wrong_layout_is_refused_by_name(values, change, message):
    with pytest.raises(RefusedError) as refused:
        read_layout(values | change)
    assert len(refused.value.problems) == 1
    assert message in str(refused.value)


def test_nothing_is_guessed_without_a_file():
    with pytest.raises(RefusedError, match="axis_linear.x: found ''.*game_controller.yaml"):
        read_layout({"enable_button": 9})
