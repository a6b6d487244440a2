"""A policy on the simulated robot.

ros2 launch policy_controller anymal_sim.launch.py [bundle:=DIRECTORY] [engine:=mujoco]
    [record:=false] [view:=true] [joystick:=true] [namespace:=NAME]
    [lockstep:=true real_time_factor:=1.0]
"""

from launch import Condition, LaunchDescription
from launch.actions import DeclareLaunchArgument, GroupAction, IncludeLaunchDescription, Shutdown
from launch.substitutions import LaunchConfiguration, PathJoinSubstitution
from launch_ros.actions import Node, PushROSNamespace
from launch_ros.parameter_descriptions import ParameterValue
from launch_ros.substitutions import FindPackageShare

OFF = {"default_value": "false", "choices": ["true", "false"]}
ON = {"default_value": "true", "choices": ["true", "false"]}
ENGINE = {"default_value": "warp", "choices": ["warp", "mujoco"]}
# A second shutdown during the first would end launch with status 1.
WHILE_RUNNING = Condition(predicate=lambda context: not context.is_shutdown)


def generate_launch_description() -> LaunchDescription:
    share = FindPackageShare("policy_controller")
    bundle = PathJoinSubstitution([share, "config", "bundles", "anymal_d"])
    robot = PathJoinSubstitution([share, "config", "robot", "anymal_d.yaml"])
    controller = PathJoinSubstitution([share, "launch", "controller.launch.py"])
    bridge = PathJoinSubstitution([FindPackageShare("anymal_bridge"), "config"])
    factor = LaunchConfiguration("real_time_factor")
    own = {
        "robot": ParameterValue(LaunchConfiguration("robot"), value_type=str),
        "engine": LaunchConfiguration("engine"),
        "lockstep": ParameterValue(LaunchConfiguration("lockstep"), value_type=bool),
        "max_real_time_factor": ParameterValue(factor, value_type=float),
    }
    passed_on = {
        "bundle": LaunchConfiguration("bundle"),
        "robot": LaunchConfiguration("robot"),
        "lockstep": LaunchConfiguration("lockstep"),
        "require_certificate": "false",
        "record": LaunchConfiguration("record"),
        "view": LaunchConfiguration("view"),
        "joystick": LaunchConfiguration("joystick"),
    }
    nodes = [
        PushROSNamespace(LaunchConfiguration("namespace")),
        Node(
            package="anymal_bridge",
            executable="sim_node",
            name="anymal_sim",
            output="screen",
            sigterm_timeout="20",  # s, until the controller has brought it to rest
            parameters=[PathJoinSubstitution([bridge, "sim.yaml"]), own],
            on_exit=Shutdown(condition=WHILE_RUNNING),
        ),
        IncludeLaunchDescription(controller, launch_arguments=passed_on.items()),
    ]
    return LaunchDescription(
        [
            DeclareLaunchArgument("bundle", default_value=bundle, description="policy bundle"),
            DeclareLaunchArgument("robot", default_value=robot, description="robot file"),
            DeclareLaunchArgument("namespace", default_value="", description="of all nodes"),
            DeclareLaunchArgument("engine", **ENGINE, description="of the contact simulation"),
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
