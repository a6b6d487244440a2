"""A policy on ANYmal. Nothing is sent to the drives unless told so; nothing starts uncertified.

ros2 launch policy_controller anymal_real.launch.py bundle:=DIRECTORY [dry_run:=false] [view:=true]
"""

from launch import LaunchDescription
from launch.actions import (
    DeclareLaunchArgument,
    GroupAction,
    IncludeLaunchDescription,
    LogInfo,
    OpaqueFunction,
)
from launch.substitutions import LaunchConfiguration, PathJoinSubstitution
from launch_ros.actions import Node, PushROSNamespace
from launch_ros.parameter_descriptions import ParameterValue
from launch_ros.substitutions import FindPackageShare

from policy_controller.certificate import admit_files

OFF = {"default_value": "false", "choices": ["true", "false"]}
ON = {"default_value": "true", "choices": ["true", "false"]}
TRANSPORT = {"default_value": "ros2", "choices": ["ros2", "ros1"]}


def admit(context, *parts) -> list[LogInfo]:
    return [LogInfo(msg=admit_files(*(part.perform(context) for part in parts)))]


def generate_launch_description() -> LaunchDescription:
    share = FindPackageShare("policy_controller")
    robot = PathJoinSubstitution([share, "config", "robot", "anymal_d.yaml"])
    controller = PathJoinSubstitution([share, "launch", "controller.launch.py"])
    bridge = PathJoinSubstitution([FindPackageShare("anymal_bridge"), "config"])
    bundle, chosen = LaunchConfiguration("bundle"), LaunchConfiguration("robot")
    override = LaunchConfiguration("certificate_override")
    limits = PathJoinSubstitution([share, "config", "scenarios", "suite.yaml"])
    settings = PathJoinSubstitution([share, "config", "controller.yaml"])
    own = {
        "robot": ParameterValue(chosen, value_type=str),
        "dry_run": ParameterValue(LaunchConfiguration("dry_run"), value_type=bool),
        "transport": LaunchConfiguration("transport"),
    }
    passed_on = {
        "bundle": bundle,
        "robot": chosen,
        "require_certificate": "true",
        "certificate_override": override,
        "record": LaunchConfiguration("record"),
        "view": LaunchConfiguration("view"),
        "joystick": LaunchConfiguration("joystick"),
    }
    nodes = [
        PushROSNamespace(LaunchConfiguration("namespace")),
        Node(  # neither ends the other: without commands the bridge damps the robot
            package="anymal_bridge",
            executable="bridge_node",
            name="anymal_bridge",
            output="screen",
            sigterm_timeout="20",  # s, as long as the controller lies down
            parameters=[PathJoinSubstitution([bridge, "bridge.yaml"]), own],
        ),
        IncludeLaunchDescription(controller, launch_arguments=passed_on.items()),
    ]
    return LaunchDescription(
        [
            DeclareLaunchArgument("bundle", description="policy bundle"),
            DeclareLaunchArgument("robot", default_value=robot, description="robot file"),
            DeclareLaunchArgument("namespace", default_value="", description="of all nodes"),
            DeclareLaunchArgument("record", **ON, description="record into MCAP files"),
            DeclareLaunchArgument("view", **OFF, description="show and drive in the browser"),
            DeclareLaunchArgument("joystick", **OFF, description="drive with a joystick"),
            DeclareLaunchArgument("dry_run", **ON, description="send the drives nothing"),
            DeclareLaunchArgument("transport", **TRANSPORT, description="what the robot speaks"),
            DeclareLaunchArgument("certificate_override", default_value="none", description="why"),
            OpaqueFunction(function=admit, args=[bundle, chosen, limits, settings, override]),
            GroupAction(nodes),
        ]
    )
