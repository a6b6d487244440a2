"""A policy on ANYmal. As a dry run, unless told otherwise: nothing is sent to the drives.

ros2 launch policy_controller anymal_real.launch.py bundle:=DIRECTORY [robot:=FILE] [dry_run:=false]
"""

from launch import LaunchDescription
from launch.actions import DeclareLaunchArgument, IncludeLaunchDescription
from launch.substitutions import LaunchConfiguration, PathJoinSubstitution
from launch_ros.actions import Node
from launch_ros.parameter_descriptions import ParameterValue
from launch_ros.substitutions import FindPackageShare


def generate_launch_description() -> LaunchDescription:
    share = FindPackageShare("policy_controller")
    bridge_share = FindPackageShare("anymal_bridge")
    return LaunchDescription(
        [
            DeclareLaunchArgument(
                "robot",
                default_value=PathJoinSubstitution([share, "config", "robot", "anymal_d.yaml"]),
                description="robot file, config/robot/*.yaml",
            ),
            DeclareLaunchArgument(
                "dry_run",
                default_value="true",
                choices=["true", "false"],
                description="say what would be sent to the drives, and send nothing",
            ),
            DeclareLaunchArgument("transport", default_value="ros2", choices=["ros2"]),
            # Not ended with the controller: the bridge then damps the robot.
            Node(
                package="anymal_bridge",
                executable="bridge_node",
                name="anymal_bridge",
                output="screen",
                parameters=[
                    PathJoinSubstitution([bridge_share, "config", "bridge.yaml"]),
                    {
                        "robot": ParameterValue(LaunchConfiguration("robot"), value_type=str),
                        "dry_run": ParameterValue(LaunchConfiguration("dry_run"), value_type=bool),
                        "transport": LaunchConfiguration("transport"),
                    },
                ],
            ),
            IncludeLaunchDescription(
                PathJoinSubstitution([share, "launch", "controller.launch.py"])
            ),
        ]
    )
