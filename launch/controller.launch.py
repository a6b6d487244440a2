"""The controller and who is with it: recorder, browser view, joystick. The launch files of the
robots include it; by itself it may run on another computer than the robot's side.

ros2 launch policy_controller controller.launch.py bundle:=DIRECTORY [view:=true]
"""

from launch import LaunchDescription
from launch.actions import DeclareLaunchArgument, IncludeLaunchDescription
from launch.conditions import IfCondition
from launch.substitutions import LaunchConfiguration, PathJoinSubstitution
from launch_ros.actions import LifecycleNode
from launch_ros.parameter_descriptions import ParameterValue
from launch_ros.substitutions import FindPackageShare

OFF = {"default_value": "false", "choices": ["true", "false"]}
ON = {"default_value": "true", "choices": ["true", "false"]}


def include(name: str, wanted: LaunchConfiguration) -> IncludeLaunchDescription:
    folder = PathJoinSubstitution([FindPackageShare("policy_controller"), "launch"])
    return IncludeLaunchDescription([folder, f"/{name}.launch.py"], condition=IfCondition(wanted))


def generate_launch_description() -> LaunchDescription:
    config = PathJoinSubstitution([FindPackageShare("policy_controller"), "config"])
    robot = PathJoinSubstitution([config, "robot", "anymal_d.yaml"])
    certified = LaunchConfiguration("require_certificate")
    override = LaunchConfiguration("certificate_override")
    own = {
        "bundle": ParameterValue(LaunchConfiguration("bundle"), value_type=str),
        "robot": ParameterValue(LaunchConfiguration("robot"), value_type=str),
        "lockstep": ParameterValue(LaunchConfiguration("lockstep"), value_type=bool),
        "autostart": True,
        "require_certificate": ParameterValue(certified, value_type=bool),
        "certificate_override": ParameterValue(override, value_type=str),
        "verified_limits": PathJoinSubstitution([config, "scenarios", "suite.yaml"]),
    }
    return LaunchDescription(
        [
            DeclareLaunchArgument("bundle", description="policy bundle"),
            DeclareLaunchArgument("robot", default_value=robot, description="robot file"),
            DeclareLaunchArgument("lockstep", **OFF, description="simulated time, which waits"),
            DeclareLaunchArgument("require_certificate", **ON, description="that fits the bundle"),
            DeclareLaunchArgument(
                "certificate_override", default_value="none", description="reason to go without"
            ),
            DeclareLaunchArgument("record", **ON, description="record into MCAP files"),
            DeclareLaunchArgument("view", **OFF, description="show and drive in the browser"),
            DeclareLaunchArgument("joystick", **OFF, description="drive with a joystick"),
            LifecycleNode(
                package="policy_controller",
                executable="node",
                name="policy_controller",
                namespace="",
                output="screen",
                sigterm_timeout="20",  # s, to stop, lie down and rest
                parameters=[PathJoinSubstitution([config, "controller.yaml"]), own],
            ),
            include("record", LaunchConfiguration("record")),
            include("view", LaunchConfiguration("view")),
            include("teleop", LaunchConfiguration("joystick")),
        ]
    )
