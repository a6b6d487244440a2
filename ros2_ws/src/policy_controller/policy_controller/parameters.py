"""ROS parameters of the controller: declared from the dataclasses that hold them, read once.

Every field of NodeSettings is a parameter of its name; those of SafetyLimits and MotionSettings
have the prefixes `safety.` and `motion.`. Unit, range and meaning are in the parameter's
description.
"""

from __future__ import annotations

from dataclasses import dataclass

from rclpy.node import Node

from policy_controller.declaration import declare_groups, read_values
from policy_controller.fields import build_groups, spec
from policy_controller.limits import SafetyLimits
from policy_controller.motion import MotionSettings


@dataclass(frozen=True)
class NodeSettings:
    """What to run and how to be connected."""

    bundle: str = spec("text", "policy bundle, a directory or a .zip file")
    robot: str = spec("text", "robot file (YAML)")
    state_topic: str = spec("text", "anymal_msgs/AnymalState in", "state_estimator/anymal_state")
    command_topic: str = spec(
        "text",
        "series_elastic_actuator_msgs/SeActuatorCommands out",
        "motion_control_manager/actuator_commands",
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
    require_certificate: bool = spec(
        "boolean", "configure only with a valid certificate.json of the bundle", False
    )
    certificate_override: str = spec(
        "text", "reason to run without a valid certificate; recorded in status and bag", "none"
    )
    verified_limits: str = spec(
        "text",
        "suite of scenarios and limits (YAML) that the certificate must be about",
        "config/scenarios/suite.yaml",
    )


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
    """declare_groups for the parameters of the controller."""
    declare_groups(node, _GROUPS)


def read_parameters(node: Node) -> ControllerParams:
    """Read and check all parameters.

    Raises RefusedError with one line for each parameter that is unknown, missing, or of the wrong
    type or range.
    """
    cure, example = "correct the parameter", "config/controller.yaml"
    return ControllerParams(*build_groups(read_values(node), _GROUPS, cure, example))
