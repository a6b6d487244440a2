"""A policy on the simulated robot.

ros2 launch policy_controller anymal_sim.launch.py [bundle:=DIRECTORY] [lockstep:=true]
"""

from launch import LaunchDescription
from launch.actions import DeclareLaunchArgument, IncludeLaunchDescription, Shutdown
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
                "bundle",
                default_value=PathJoinSubstitution([share, "config", "bundles", "anymal_d"]),
                description="directory or .zip of the policy bundle",
            ),
            DeclareLaunchArgument(
                "robot",
                default_value=PathJoinSubstitution([share, "config", "robot", "anymal_d.yaml"]),
                description="robot file, config/robot/*.yaml",
            ),
            DeclareLaunchArgument(
                "lockstep",
                default_value="false",
                choices=["true", "false"],
                description="simulated time on /clock that waits for the controller",
            ),
            Node(
                package="anymal_bridge",
                executable="sim_node",
                name="anymal_sim",
                output="screen",
                on_exit=Shutdown(),
                parameters=[
                    PathJoinSubstitution([bridge_share, "config", "sim.yaml"]),
                    {
                        "robot": ParameterValue(LaunchConfiguration("robot"), value_type=str),
                        "lockstep": ParameterValue(
                            LaunchConfiguration("lockstep"), value_type=bool
                        ),
                    },
                ],
            ),
            IncludeLaunchDescription(
                PathJoinSubstitution([share, "launch", "controller.launch.py"])
            ),
        ]
    )
