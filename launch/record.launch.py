"""Records a run into MCAP files (docs/interfaces.md).

ros2 launch policy_controller record.launch.py [folder:=DIRECTORY]
"""

from launch import LaunchDescription
from launch.actions import DeclareLaunchArgument
from launch.substitutions import LaunchConfiguration, PathJoinSubstitution
from launch_ros.actions import Node
from launch_ros.parameter_descriptions import ParameterValue
from launch_ros.substitutions import FindPackageShare


def generate_launch_description() -> LaunchDescription:
    config = PathJoinSubstitution([FindPackageShare("policy_controller"), "config"])
    own = {"folder": ParameterValue(LaunchConfiguration("folder"), value_type=str)}
    return LaunchDescription(
        [
            DeclareLaunchArgument(
                "folder", default_value="recordings", description="each run makes its own in it"
            ),
            Node(
                package="policy_controller",
                executable="record",
                name="recorder",
                output="screen",
                parameters=[PathJoinSubstitution([config, "recorder.yaml"]), own],
            ),
        ]
    )
