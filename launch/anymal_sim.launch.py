"""A policy on the simulated robot.

ros2 launch policy_controller anymal_sim.launch.py [bundle:=DIRECTORY]
    [record:=false] [view:=true] [joystick:=true] [namespace:=NAME]
    [lockstep:=true real_time_factor:=1.0]
"""

from launch import Condition, LaunchDescription
from launch.actions import DeclareLaunchArgument, GroupAction, IncludeLaunchDescription, Shutdown
from launch.conditions import IfCondition
from launch.substitutions import LaunchConfiguration, PathJoinSubstitution
from launch_ros.actions import LifecycleNode, Node, PushROSNamespace
from launch_ros.parameter_descriptions import ParameterValue
from launch_ros.substitutions import FindPackageShare

OFF = {"default_value": "false", "choices": ["true", "false"]}
ON = OFF | {"default_value": "true"}
# A second shutdown during the first would end launch with status 1.
WHILE_RUNNING = Condition(predicate=lambda context: not context.is_shutdown)


def include(name: str, wanted: LaunchConfiguration) -> IncludeLaunchDescription:
    folder = PathJoinSubstitution([FindPackageShare("policy_controller"), "launch"])
    return IncludeLaunchDescription([folder, f"/{name}.launch.py"], condition=IfCondition(wanted))


def generate_launch_description() -> LaunchDescription:
    controller = PathJoinSubstitution([FindPackageShare("policy_controller"), "config"])
    bridge = PathJoinSubstitution([FindPackageShare("anymal_bridge"), "config"])
    bundle = PathJoinSubstitution([controller, "bundles", "anymal_d"])
    robot = PathJoinSubstitution([controller, "robot", "anymal_d.yaml"])
    shared = {
        "robot": ParameterValue(LaunchConfiguration("robot"), value_type=str),
        "lockstep": ParameterValue(LaunchConfiguration("lockstep"), value_type=bool),
    }
    factor = ParameterValue(LaunchConfiguration("real_time_factor"), value_type=float)
    pace = {"max_real_time_factor": factor}
    own = {
        "bundle": ParameterValue(LaunchConfiguration("bundle"), value_type=str),
        "autostart": True,
    }
    nodes = [
        PushROSNamespace(LaunchConfiguration("namespace")),
        Node(
            package="anymal_bridge",
            executable="sim_node",
            name="anymal_sim",
            output="screen",
            sigterm_timeout="20",  # s, until the controller has brought it to rest
            parameters=[PathJoinSubstitution([bridge, "sim.yaml"]), shared, pace],
            on_exit=Shutdown(condition=WHILE_RUNNING),
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
        include("record", LaunchConfiguration("record")),
        include("view", LaunchConfiguration("view")),
        include("teleop", LaunchConfiguration("joystick")),
    ]
    return LaunchDescription(
        [
            DeclareLaunchArgument("bundle", default_value=bundle, description="policy bundle"),
            DeclareLaunchArgument("robot", default_value=robot, description="robot file"),
            DeclareLaunchArgument("namespace", default_value="", description="of all nodes"),
            DeclareLaunchArgument("record", **ON, description="record into MCAP files"),
            DeclareLaunchArgument("view", **OFF, description="show and drive in the browser"),
            DeclareLaunchArgument("joystick", **OFF, description="drive with a joystick"),
            DeclareLaunchArgument("lockstep", **OFF, description="time waits for the controller"),
            DeclareLaunchArgument(
                "real_time_factor", default_value="0.0", description="limit in lockstep; 0: none"
            ),
            GroupAction(nodes),
        ]
    )
