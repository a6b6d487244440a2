"""A person drives with a joystick; may run on another machine than the controller.

ros2 launch policy_controller teleop.launch.py [layout:=ps5] [device:="NAME"]
"""

from ament_index_python.packages import get_packages_with_prefixes
from launch import LaunchDescription
from launch.actions import DeclareLaunchArgument
from launch.conditions import IfCondition, UnlessCondition
from launch.substitutions import LaunchConfiguration, PathJoinSubstitution
from launch_ros.actions import Node
from launch_ros.parameter_descriptions import ParameterFile, ParameterValue
from launch_ros.substitutions import FindPackageShare

LAYOUTS = ["game_controller", "xbox", "ps4", "ps5", "logitech_f710"]


def generate_launch_description() -> LaunchDescription:
    folder = PathJoinSubstitution([FindPackageShare("policy_controller"), "config", "teleop"])
    layout = ParameterFile([folder, "/", LaunchConfiguration("layout"), ".yaml"])
    device = {"device_name": ParameterValue(LaunchConfiguration("device"), value_type=str)}
    use_joy = LaunchConfiguration("use_joy")
    found = str("joy" in get_packages_with_prefixes()).lower()
    return LaunchDescription(
        [
            DeclareLaunchArgument(
                "layout", default_value=LAYOUTS[0], choices=LAYOUTS, description="of the joystick"
            ),
            DeclareLaunchArgument("device", default_value="", description="empty: the first one"),
            DeclareLaunchArgument(
                "use_joy", default_value=found, choices=["true", "false"], description="package joy"
            ),
            Node(
                package="joy",
                executable="game_controller_node",
                name="joystick",
                output="screen",
                parameters=[device, {"deadzone": 0.0}],  # the teleop node has a dead zone
                condition=IfCondition(use_joy),
            ),
            Node(
                package="policy_controller",
                executable="joystick",
                name="joystick",
                output="screen",
                parameters=[device],
                condition=UnlessCondition(use_joy),
            ),
            Node(
                package="policy_controller",
                executable="teleop",
                name="teleop",
                output="screen",
                parameters=[layout],
            ),
        ]
    )
