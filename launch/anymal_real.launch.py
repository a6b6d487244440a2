"""A policy on ANYmal. Nothing is sent to the drives unless told so; nothing starts uncertified.

ros2 launch policy_controller anymal_real.launch.py bundle:=DIRECTORY [dry_run:=false]
    [namespace:=NAME]
"""

from launch import LaunchDescription
from launch.actions import (
    DeclareLaunchArgument,
    GroupAction,
    IncludeLaunchDescription,
    LogInfo,
    OpaqueFunction,
)
from launch.conditions import IfCondition
from launch.substitutions import LaunchConfiguration, PathJoinSubstitution
from launch_ros.actions import LifecycleNode, Node, PushROSNamespace
from launch_ros.parameter_descriptions import ParameterValue
from launch_ros.substitutions import FindPackageShare

from policy_controller.certificate import NO_OVERRIDE, admit_files

OFF = {"default_value": "false", "choices": ["true", "false"]}
ON = {"default_value": "true", "choices": ["true", "false"]}
REASON = {"default_value": NO_OVERRIDE}
TRANSPORT = {"default_value": "ros2", "choices": ["ros2", "ros1"]}


def generate_launch_description() -> LaunchDescription:
    controller = PathJoinSubstitution([FindPackageShare("policy_controller"), "config"])
    bridge = PathJoinSubstitution([FindPackageShare("anymal_bridge"), "config"])
    robot = [controller, "/robot/anymal_d.yaml"]
    limits = PathJoinSubstitution([controller, "scenarios", "suite.yaml"])
    settings = PathJoinSubstitution([controller, "controller.yaml"])
    recording = PathJoinSubstitution([controller, "..", "launch", "record.launch.py"])
    teleop = PathJoinSubstitution([controller, "..", "launch", "teleop.launch.py"])
    override = LaunchConfiguration("certificate_override")
    bundle, chosen = LaunchConfiguration("bundle"), LaunchConfiguration("robot")
    admitted = (bundle, chosen, limits, settings, override)
    shared = {"robot": ParameterValue(chosen, value_type=str)}
    dry_run = ParameterValue(LaunchConfiguration("dry_run"), value_type=bool)
    link = {"dry_run": dry_run, "transport": LaunchConfiguration("transport")}
    own = {
        "bundle": ParameterValue(bundle, value_type=str),
        "autostart": True,
        "require_certificate": True,
        "certificate_override": ParameterValue(override, value_type=str),
        "verified_limits": limits,
    }
    nodes = [
        PushROSNamespace(LaunchConfiguration("namespace")),
        Node(  # neither ends the other: without commands the bridge damps the robot
            package="anymal_bridge",
            executable="bridge_node",
            name="anymal_bridge",
            output="screen",
            sigterm_timeout="20",  # s, as long as the controller lies down
            parameters=[PathJoinSubstitution([bridge, "bridge.yaml"]), shared, link],
        ),
        LifecycleNode(
            package="policy_controller",
            executable="node",
            name="policy_controller",
            namespace="",
            output="screen",
            sigterm_timeout="20",  # s, to stop, lie down and rest
            parameters=[PathJoinSubstitution([controller, "controller.yaml"]), shared, own],
        ),
        IncludeLaunchDescription(recording, condition=IfCondition(LaunchConfiguration("record"))),
        IncludeLaunchDescription(teleop, condition=IfCondition(LaunchConfiguration("joystick"))),
    ]
    return LaunchDescription(
        [
            DeclareLaunchArgument("bundle", description="policy bundle"),
            DeclareLaunchArgument("robot", default_value=robot, description="robot file"),
            DeclareLaunchArgument("namespace", default_value="", description="of all nodes"),
            DeclareLaunchArgument("record", **ON, description="record into MCAP files"),
            DeclareLaunchArgument("joystick", **OFF, description="drive with a joystick"),
            DeclareLaunchArgument("dry_run", **ON, description="send the drives nothing"),
            DeclareLaunchArgument("transport", **TRANSPORT, description="what the robot speaks"),
            DeclareLaunchArgument("certificate_override", **REASON, description="why none"),
            OpaqueFunction(
                function=lambda context: [
                    LogInfo(msg=admit_files(*(part.perform(context) for part in admitted)))
                ]
            ),
            GroupAction(nodes),
        ]
    )
