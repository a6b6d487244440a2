"""ROS parameters of the controller: declared from the dataclasses that hold them, read once.

Every field of NodeSettings is a parameter of its name; those of SafetyLimits and MotionSettings
have the prefixes `safety.` and `motion.`. Unit, range and meaning are in the parameter's
description.
"""

from __future__ import annotations

from dataclasses import MISSING, Field, dataclass, fields
from difflib import get_close_matches
from typing import Any

from rcl_interfaces.msg import ParameterDescriptor
from rclpy.node import Node

from policy_controller.fields import RefusedError, find_problems, spec, spec_of
from policy_controller.limits import SafetyLimits
from policy_controller.motion import MotionSettings

_CURE = "correct the parameter"
_OF_EVERY_NODE = ("use_sim_time", "start_type_description_service")


@dataclass(frozen=True)
class NodeSettings:
    """What to run and how to be connected."""

    bundle: str = spec("text", "policy bundle, a directory or a .zip file")
    robot: str = spec("text", "robot file (YAML)")
    state_topic: str = spec("text", "anymal_msgs/AnymalState in", "/state_estimator/anymal_state")
    command_topic: str = spec(
        "text",
        "series_elastic_actuator_msgs/SeActuatorCommands out",
        "/motion_control_manager/actuator_commands",
    )
    use_stamped_cmd_vel: bool = spec(
        "boolean", "~/cmd_vel is a TwistStamped; if false a Twist", True
    )
    lockstep: bool = spec(
        "boolean", "the stamps of the states are the clock, for simulation only", False
    )
    autostart: bool = spec("boolean", "configure and activate at the start of the process", False)
    real_time_priority: int = spec(
        "integer",
        "SCHED_FIFO priority of the control thread, one less for the others; 0 = none",
        0,
        low=0,
        high=98,
    )
    lock_memory: bool = spec("boolean", "keep the process from being paged out", False)


@dataclass(frozen=True)
class ControllerParams:
    """All parameters, checked."""

    node: NodeSettings
    safety: SafetyLimits
    motion: MotionSettings


_GROUPS: tuple[tuple[str, type], ...] = (
    ("", NodeSettings),
    ("safety.", SafetyLimits),
    ("motion.", MotionSettings),
)


def declare_parameters(node: Node) -> None:
    """Declare every parameter on a node that was made with
    automatically_declare_parameters_from_overrides, so that unknown ones can be found."""
    for prefix, kind in _GROUPS:
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
        dynamic_typing=True,  # so that 1 for 1.0 and what is refused both reach read_parameters
    )


def read_parameters(node: Node) -> ControllerParams:
    """Read and check all parameters.

    Raises RefusedError with one line for each parameter that is unknown, missing, or of the wrong
    type or range.
    """
    known, groups, problems = set(_OF_EVERY_NODE), [], []
    for prefix, kind in _GROUPS:
        values: dict[str, Any] = {}
        for item in fields(kind):
            known.add(prefix + item.name)
            value = node.get_parameter(prefix + item.name).value
            number = spec_of(item).kind == "number" and type(value) is int
            values[item.name] = float(value) if number else value
        group = kind(**values)
        problems += find_problems(group, _CURE, prefix)
        groups.append(group)
    for name in sorted(node.get_parameters_by_prefix("").keys() - known):
        if not name.startswith("qos_overrides."):
            near = get_close_matches(name, known, n=1) or ["those of config/controller.yaml"]
            problems.append(f"{name}: unknown parameter, allowed: {near[0]}; {_CURE}")
    if problems:
        raise RefusedError("parameters", problems)
    return ControllerParams(*groups)
