"""Declaring parameters: each with unit, default and range, so that a bad value stops the start."""

from __future__ import annotations

from rcl_interfaces.msg import FloatingPointRange, IntegerRange, ParameterDescriptor
from rclpy.node import Node

from .interface import INTERFACE


def declare_number(
    node: Node,
    name: str,
    default: float,
    lower: float,
    upper: float,
    text: str,
    read_only: bool = True,
) -> float:
    """A float parameter; ``text`` starts with the unit in brackets."""
    descriptor = ParameterDescriptor(
        description=text,
        read_only=read_only,
        floating_point_range=[FloatingPointRange(from_value=lower, to_value=upper)],
    )
    return node.declare_parameter(name, float(default), descriptor).value


def declare_integer(
    node: Node,
    name: str,
    default: int,
    lower: int,
    upper: int,
    text: str,
    read_only: bool = True,
) -> int:
    """An integer parameter."""
    descriptor = ParameterDescriptor(
        description=text,
        read_only=read_only,
        integer_range=[IntegerRange(from_value=lower, to_value=upper)],
    )
    return node.declare_parameter(name, default, descriptor).value


def declare_flag(node: Node, name: str, default: bool, text: str, read_only: bool = True) -> bool:
    """A true/false parameter."""
    descriptor = ParameterDescriptor(description=text, read_only=read_only)
    return node.declare_parameter(name, default, descriptor).value


def declare_text(node: Node, name: str, default: str, text: str, read_only: bool = True) -> str:
    """A string parameter."""
    descriptor = ParameterDescriptor(description=text, read_only=read_only)
    return node.declare_parameter(name, default, descriptor).value


def declare_topics(node: Node) -> dict[str, str]:
    """One parameter ``topics.<key>`` for every row of the interface; returns key -> name in use."""
    return {
        topic.key: declare_text(
            node,
            f"topics.{topic.key}",
            topic.name,
            f"{topic.type.__name__}, {topic.direction.value} by this node",
        )
        for topic in INTERFACE
    }
