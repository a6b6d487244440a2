"""Layouts for the tests of the teleoperation."""

from __future__ import annotations

import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import yaml

from policy_controller.teleop.layout import Layout, read_layout

sys.path.insert(0, str(Path(__file__).parent))  # for joy_publisher

LAYOUTS = Path(__file__).parents[5] / "config" / "teleop"


def read_parameter_file(path: Path) -> dict[str, Any]:
    """The parameters of a layout file, by their dotted names, as rclpy gives them."""

    def flatten(prefix: str, values: dict) -> dict[str, Any]:
        flat = {}
        for key, value in values.items():
            name = prefix + key
            flat |= flatten(name + ".", value) if isinstance(value, dict) else {name: value}
        return flat

    return flatten("", yaml.safe_load(path.read_text())["/**/teleop"]["ros__parameters"])


@pytest.fixture
def read_file() -> Callable[[Path], dict[str, Any]]:
    """The function read_parameter_file."""
    return read_parameter_file


@pytest.fixture
def values() -> dict[str, Any]:
    """The parameters of the layout for any pad."""
    return read_parameter_file(LAYOUTS / "game_controller.yaml")


@pytest.fixture
def layout(values) -> Layout:
    """The layout for any pad."""
    return read_layout(values)
