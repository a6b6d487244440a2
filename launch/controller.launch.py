"""The controller node, configured and activated. Included by anymal_sim and anymal_real."""

from launch import LaunchDescription
from launch.actions import DeclareLaunchArgument, EmitEvent, RegisterEventHandler
from launch.event_handlers import OnProcessStart
from launch.events import matches_action
from launch.substitutions import LaunchConfiguration, PathJoinSubstitution
from launch_ros.actions import LifecycleNode
from launch_ros.event_handlers import OnStateTransition
from launch_ros.events.lifecycle import ChangeState
from launch_ros.parameter_descriptions import ParameterValue
from launch_ros.substitutions import FindPackageShare
from lifecycle_msgs.msg import Transition


def generate_launch_description() -> LaunchDescription:
    config = PathJoinSubstitution([FindPackageShare("policy_controller"), "config"])
    controller = LifecycleNode(
        package="policy_controller",
        executable="node",
        name="policy_controller",
        namespace="",
        output="screen",
        parameters=[
            PathJoinSubstitution([config, "controller.yaml"]),
            {
                "bundle": ParameterValue(LaunchConfiguration("bundle"), value_type=str),
                "robot": ParameterValue(LaunchConfiguration("robot"), value_type=str),
                "lockstep": ParameterValue(LaunchConfiguration("lockstep"), value_type=bool),
            },
        ],
    )

    def change_state(transition: int) -> EmitEvent:
        return EmitEvent(
            event=ChangeState(
                lifecycle_node_matcher=matches_action(controller), transition_id=transition
            )
        )

    configured = OnStateTransition(
        target_lifecycle_node=controller,
        start_state="configuring",
        goal_state="inactive",
        entities=[change_state(Transition.TRANSITION_ACTIVATE)],
    )
    started = OnProcessStart(
        target_action=controller, on_start=[change_state(Transition.TRANSITION_CONFIGURE)]
    )
    return LaunchDescription(
        [
            DeclareLaunchArgument("bundle", description="directory or .zip of the policy bundle"),
            DeclareLaunchArgument("robot", description="robot file, config/robot/*.yaml"),
            DeclareLaunchArgument("lockstep", default_value="false", choices=["true", "false"]),
            RegisterEventHandler(configured),
            RegisterEventHandler(started),
            controller,
        ]
    )
