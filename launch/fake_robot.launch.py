"""The simulated robot in the place of a real one, for anymal_real.launch.py in another terminal.

ros2 launch policy_controller fake_robot.launch.py [engine:=mujoco] [namespace:=NAME]
"""

from launch import LaunchDescription
from launch.actions import DeclareLaunchArgument, GroupAction
from launch.substitutions import LaunchConfiguration, PathJoinSubstitution
from launch_ros.actions import Node, PushROSNamespace
from launch_ros.parameter_descriptions import ParameterValue
from launch_ros.substitutions import FindPackageShare

ENGINE = {"default_value": "warp", "choices": ["warp", "mujoco"]}


def generate_launch_description() -> LaunchDescription:
    config = PathJoinSubstitution([FindPackageShare("anymal_bridge"), "config"])
    robot = PathJoinSubstitution([config, "robot", "anymal_d.yaml"])
    own = {
        "robot": ParameterValue(LaunchConfiguration("robot"), value_type=str),
        "engine": LaunchConfiguration("engine"),
    }
    nodes = [
        PushROSNamespace(LaunchConfiguration("namespace")),
        PushROSNamespace("robot"),  # where the bridge looks for it: robot_topics of bridge.yaml
        Node(
            package="anymal_bridge",
            executable="sim_node",
            name="anymal_sim",
            output="screen",
            sigterm_timeout="20",  # s, while the bridge still sends commands
            parameters=[PathJoinSubstitution([config, "sim.yaml"]), own],
        ),
    ]
    return LaunchDescription(
        [
            DeclareLaunchArgument("robot", default_value=robot, description="robot file"),
            DeclareLaunchArgument("namespace", default_value="", description="of bridge and robot"),
            DeclareLaunchArgument("engine", **ENGINE, description="of the contact simulation"),
            GroupAction(nodes),
        ]
    )
