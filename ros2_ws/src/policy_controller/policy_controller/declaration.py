"""ROS parameters of a node, declared from the dataclasses that hold them and read back as they are.

Unit, range and meaning of a field are in the parameter's description.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import MISSING, Field, fields
from typing import Any

from rcl_interfaces.msg import ParameterDescriptor
from rclpy.node import Node

from policy_controller.fields import spec_of

_OF_EVERY_NODE = ("use_sim_time", "start_type_description_service")


def declare_groups(node: Node, groups: Sequence[tuple[str, type]]) -> None:
    """Declare every parameter on a node that was made with
    automatically_declare_parameters_from_overrides, so that unknown ones can be found.

    groups: as for fields.build_groups.
    """
    for prefix, kind in groups:
        for item in fields(kind):
            name = prefix + item.name
            if not node.has_parameter(name):
                default = item.default if item.default is not MISSING else ""
                node.declare_parameter(name, default, _describe(item))
            else:
                node.set_descriptor(name, _describe(item))


def _describe(item: Field) -> ParameterDescriptor:
    item_spec = spec_of(item)
    return ParameterDescriptor(
        description=item_spec.text,
        additional_constraints=item_spec.allowed(),
        dynamic_typing=True,  # so that 1 for 1.0 and what is refused both reach build_groups
    )


def read_values(node: Node) -> dict[str, Any]:
    """All parameters of a node by name, without those that every node has."""
    return {
        name: parameter.value
        for name, parameter in node.get_parameters_by_prefix("").items()
        if name not in _OF_EVERY_NODE and not name.startswith("qos_overrides.")
    }
