"""The robot's end of test_messages.py: publishes a state until commands arrive, prints them."""

import json

import rclpy
from any_msgs.msg import ExtendedJointState
from anymal_msgs.msg import AnymalState, Contact
from rclpy.qos import qos_profile_sensor_data
from series_elastic_actuator_msgs.msg import SeActuatorCommands


def make_state() -> AnymalState:
    state = AnymalState(state=AnymalState.STATE_ERROR_ESTIMATOR)
    state.header.stamp.sec = 12
    state.header.frame_id = "odom"
    orientation = state.pose.pose.orientation
    orientation.x, orientation.y, orientation.z, orientation.w = 0.1, 0.2, 0.3, 0.9
    state.twist.twist.angular.z = -0.75
    state.joints = ExtendedJointState(name=["LF_HAA", "LF_HFE"], position=[0.1, -0.8])
    state.contacts = [Contact(name="LF_FOOT", friction_coefficient=0.6)]
    return state


def main() -> None:
    with rclpy.init():
        node = rclpy.create_node("robot_side")
        received = []
        node.create_subscription(SeActuatorCommands, "commands", received.append, 1)
        publisher = node.create_publisher(AnymalState, "state", qos_profile_sensor_data)
        while not received:
            publisher.publish(make_state())
            rclpy.spin_once(node, timeout_sec=0.05)
        node.destroy_node()
    fields = "name mode position velocity pid_gains_p pid_gains_d".split()
    print(
        json.dumps(
            [
                [getattr(command, field) for field in fields] + [command.header.stamp.nanosec]
                for command in received[0].commands
            ]
        )
    )


if __name__ == "__main__":
    main()
