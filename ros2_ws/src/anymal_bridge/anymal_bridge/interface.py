"""The interface of the robot: one table of topics that the sim node and the bridge node both use.

A controller that works with one node works with the other, because neither makes a publisher or
a subscription for a topic of this table in any other way than from here. Names are defaults; each
is a parameter ``topics.<key>`` of the node, for robots of other software versions. A name without
a leading slash is relative to the node's namespace.
"""

from __future__ import annotations

import enum
from collections.abc import Callable
from dataclasses import dataclass

from anymal_msgs.msg import AnymalState
from diagnostic_msgs.msg import DiagnosticArray
from nav_msgs.msg import Odometry
from rclpy.event_handler import SubscriptionEventCallbacks
from rclpy.node import Node
from rclpy.publisher import Publisher
from rclpy.qos import (
    DurabilityPolicy,
    HistoryPolicy,
    QoSProfile,
    ReliabilityPolicy,
    qos_policy_name_from_kind,
)
from rclpy.subscription import Subscription
from sensor_msgs.msg import Imu, JointState
from series_elastic_actuator_msgs.msg import SeActuatorCommands, SeActuatorReadings
from std_msgs.msg import String

STATE_RATE_HZ = 400.0  # of the robot's state estimator and low-level loop
FAN_OUT_RATE_HZ = 50.0  # of the standard topics, for people to look at
ROBOT_COMMAND_TIMEOUT_S = 0.1  # s, the robot's own: without a command for this long it damps
COMMAND_TIMEOUT_S = 0.08
"""s, of the bridge and the simulated robot: of commands at 50 Hz two in a row may be lost, and
damping is there 0.1 s after the sender died, the way through DDS included."""

ODOM_FRAME = "odom"
BASE_FRAME = "base"


class Direction(enum.Enum):
    FROM_ROBOT = "published"
    TO_ROBOT = "subscribed"


def _qos(
    reliability: ReliabilityPolicy,
    depth: int,
    durability: DurabilityPolicy = DurabilityPolicy.VOLATILE,
) -> QoSProfile:
    return QoSProfile(
        history=HistoryPolicy.KEEP_LAST,
        depth=depth,
        reliability=reliability,
        durability=durability,
    )


SENSOR_QOS = _qos(ReliabilityPolicy.BEST_EFFORT, 5)  # publishers of state and readings
LATEST_SENSOR_QOS = _qos(ReliabilityPolicy.BEST_EFFORT, 1)  # subscribers that want the newest only
COMMAND_QOS = _qos(ReliabilityPolicy.RELIABLE, 1)
STANDARD_QOS = _qos(ReliabilityPolicy.RELIABLE, 10)  # what RViz and Foxglove expect
LATCHED_QOS = _qos(ReliabilityPolicy.RELIABLE, 1, DurabilityPolicy.TRANSIENT_LOCAL)


@dataclass(frozen=True)
class Topic:
    """One row of the interface, seen from the node that plays the robot."""

    key: str  # parameter topics.<key>
    name: str  # default
    type: type
    qos: QoSProfile
    direction: Direction
    rate_hz: float  # expected; 0: once, for everybody who ever asks


STATE = Topic(
    "state",
    "state_estimator/anymal_state",
    AnymalState,
    SENSOR_QOS,
    Direction.FROM_ROBOT,
    STATE_RATE_HZ,
)
READINGS = Topic(
    "readings",
    "anymal_low_level_controller/actuator_readings",
    SeActuatorReadings,
    SENSOR_QOS,
    Direction.FROM_ROBOT,
    STATE_RATE_HZ,
)
COMMANDS = Topic(
    "commands",
    "motion_control_manager/actuator_commands",
    SeActuatorCommands,
    COMMAND_QOS,
    Direction.TO_ROBOT,
    50.0,
)
JOINT_STATES = Topic(
    "joint_states",
    "joint_states",
    JointState,
    STANDARD_QOS,
    Direction.FROM_ROBOT,
    FAN_OUT_RATE_HZ,
)
ODOMETRY = Topic(
    "odometry",
    "odom",
    Odometry,
    STANDARD_QOS,
    Direction.FROM_ROBOT,
    FAN_OUT_RATE_HZ,
)
IMU = Topic(
    "imu",
    "imu/data",
    Imu,
    STANDARD_QOS,
    Direction.FROM_ROBOT,
    FAN_OUT_RATE_HZ,
)
ROBOT_DESCRIPTION = Topic(
    "robot_description",
    "robot_description",
    String,
    LATCHED_QOS,
    Direction.FROM_ROBOT,
    0.0,
)
DIAGNOSTICS = Topic(
    "diagnostics",
    "/diagnostics",
    DiagnosticArray,
    STANDARD_QOS,
    Direction.FROM_ROBOT,
    1.0,
)

INTERFACE = (
    STATE,
    READINGS,
    COMMANDS,
    JOINT_STATES,
    ODOMETRY,
    IMU,
    ROBOT_DESCRIPTION,
    DIAGNOSTICS,
)


def advertise(node: Node, topic: Topic, name: str) -> Publisher:
    """Publisher for a row that the robot sends, under ``name``."""
    assert topic.direction is Direction.FROM_ROBOT, topic
    return node.create_publisher(topic.type, name, topic.qos)


def listen(
    node: Node,
    topic: Topic,
    name: str,
    receive: Callable[[object], None],
    cannot_connect: Callable[[str], None],
) -> Subscription:
    """Subscription for a row that the robot receives, under ``name``.

    ``cannot_connect`` is called with an explanation when a publisher is there whose QoS does not
    fit, so that nothing of it will ever arrive.
    """
    assert topic.direction is Direction.TO_ROBOT, topic

    def on_incompatible(event) -> None:
        policy = qos_policy_name_from_kind(event.last_policy_kind)
        cannot_connect(f"a publisher on {name} offers incompatible QoS, policy {policy}")

    return node.create_subscription(
        topic.type,
        name,
        receive,
        topic.qos,
        event_callbacks=SubscriptionEventCallbacks(incompatible_qos=on_incompatible),
    )
