"""A policy on ANYmal. As a dry run, unless told otherwise: nothing is sent to the drives.

ros2 launch policy_controller anymal_real.launch.py bundle:=DIRECTORY [dry_run:=false]
"""

from launch import LaunchDescription
from launch.actions import DeclareLaunchArgument
from launch.substitutions import LaunchConfiguration, PathJoinSubstitution
from launch_ros.actions import LifecycleNode, Node
from launch_ros.parameter_descriptions import ParameterValue
from launch_ros.substitutions import FindPackageShare


def generate_launch_description() -> LaunchDescription:
    controller = PathJoinSubstitution([FindPackageShare("policy_controller"), "config"])
    bridge = PathJoinSubstitution([FindPackageShare("anymal_bridge"), "config"])
    robot = PathJoinSubstitution([controller, "robot", "anymal_d.yaml"])
    shared = {"robot": ParameterValue(LaunchConfiguration("robot"), value_type=str)}
    link = {
        "dry_run": ParameterValue(LaunchConfiguration("dry_run"), value_type=bool),
        "transport": LaunchConfiguration("transport"),
    }
    own = {
        "bundle": ParameterValue(LaunchConfiguration("bundle"), value_type=str),
        "autostart": True,
    }
    return LaunchDescription(
        [
            DeclareLaunchArgument("bundle", description="policy bundle"),
            DeclareLaunchArgument("robot", default_value=robot, description="robot file"),
            DeclareLaunchArgument("dry_run", default_value="true", choices=["true", "false"]),
            DeclareLaunchArgument("transport", default_value="ros2", choices=["ros2"]),
            # Neither ends the other: without commands the bridge damps the robot.
            Node(
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
        ]
    )
