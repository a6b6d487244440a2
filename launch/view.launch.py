"""Robot and controller in a browser, which may also drive; docs/view.md.

ros2 launch policy_controller view.launch.py [port:=8080] [host:=0.0.0.0]
"""

from launch import LaunchDescription
from launch.actions import DeclareLaunchArgument
from launch.substitutions import LaunchConfiguration, PathJoinSubstitution
from launch_ros.actions import Node
from launch_ros.parameter_descriptions import ParameterValue
from launch_ros.substitutions import FindPackageShare


def generate_launch_description() -> LaunchDescription:
    config = PathJoinSubstitution([FindPackageShare("policy_controller"), "config"])
    robot = PathJoinSubstitution([config, "robot", "anymal_d.yaml"])
    own = {
        "robot": ParameterValue(LaunchConfiguration("robot"), value_type=str),
        "host": ParameterValue(LaunchConfiguration("host"), value_type=str),
        "port": ParameterValue(LaunchConfiguration("port"), value_type=int),
    }
    return LaunchDescription(
        [
            DeclareLaunchArgument("robot", default_value=robot, description="robot file"),
            DeclareLaunchArgument(
                "host", default_value="127.0.0.1", description="others than this: with a token"
            ),
            DeclareLaunchArgument("port", default_value="8080", description="0: any free one"),
            Node(
                package="policy_controller",
                executable="view",
                name="view",
                output="screen",
                parameters=[PathJoinSubstitution([config, "view.yaml"]), own],
            ),
        ]
    )
