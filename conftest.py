"""Test settings of the whole repository: what is marked `ros` needs ROS 2, and CI has it."""

import os
from importlib.util import find_spec

import pytest

ROS_PACKAGES = (
    "rclpy",
    "any_msgs",
    "anymal_msgs",
    "footlight_msgs",
    "series_elastic_actuator_msgs",
)


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Skip tests marked `ros` where a ROS package is missing; with CI=true that is an error."""
    missing = [package for package in ROS_PACKAGES if find_spec(package) is None]
    if not missing:
        return
    reason = f"not importable: {', '.join(missing)}; make setup installs and builds them"
    if os.environ.get("CI") == "true":
        raise pytest.UsageError(f"CI must run the tests marked ros, but {reason}")
    for item in items:
        if item.get_closest_marker("ros"):
            item.add_marker(pytest.mark.skip(reason=reason))
