"""The standard topics, for RViz, Foxglove and everything that does not know ANYmal's messages."""

from __future__ import annotations

import numpy as np
from builtin_interfaces.msg import Time
from geometry_msgs.msg import TransformStamped
from nav_msgs.msg import Odometry
from rclpy.node import Node
from sensor_msgs.msg import Imu, JointState
from std_msgs.msg import String

from .conversions import set_stamp
from .interface import (
    BASE_FRAME,
    IMU,
    JOINT_STATES,
    ODOM_FRAME,
    ODOMETRY,
    ROBOT_DESCRIPTION,
    advertise,
)
from .robot_file import RobotFile
from .robot_sample import (
    ANGULAR_VELOCITY,
    JOINT_POSITION,
    JOINT_VELOCITY,
    LINEAR_VELOCITY,
    ORIENTATION,
    POSITION,
    RobotSample,
)


class FanOut:
    """Publishes a sample as ``JointState``, ``Odometry``, ``Imu`` and, if asked for, on /tf; the
    robot description once."""

    def __init__(self, node: Node, topic_names: dict[str, str], robot: RobotFile, tf: bool) -> None:
        """
        Args:
            topic_names: by key of the interface table.
            robot: whose joints and URDF are told.
            tf: also broadcast odom -> base; off where the robot does so itself.

        Raises:
            RuntimeError: ``tf`` is set and tf2_msgs is not installed.
        """
        self._stamp = Time()
        self._joint_state = JointState(name=list(robot.joint_names))
        self._odometry = Odometry(child_frame_id=BASE_FRAME)
        self._odometry.header.frame_id = ODOM_FRAME
        self._joint_state.header.stamp = self._odometry.header.stamp = self._stamp
        self._imu = Imu()
        self._imu.header.frame_id = BASE_FRAME
        self._imu.header.stamp = self._stamp
        # AnymalState has no acceleration, and none is made up: -1 says so (sensor_msgs/Imu).
        self._imu.linear_acceleration_covariance[0] = -1.0
        self._imus = advertise(node, IMU, topic_names[IMU.key])
        self._joint_states = advertise(node, JOINT_STATES, topic_names[JOINT_STATES.key])
        self._odometries = advertise(node, ODOMETRY, topic_names[ODOMETRY.key])
        name = topic_names[ROBOT_DESCRIPTION.key]
        self._descriptions = advertise(node, ROBOT_DESCRIPTION, name)
        self._descriptions.publish(String(data=robot.urdf))
        self._transforms = None
        if tf:
            try:
                from tf2_msgs.msg import TFMessage
            except ImportError as error:
                raise RuntimeError(
                    "parameter publish_tf is true but package tf2_msgs is not installed; "
                    "install it (ROS package tf2_msgs) or set publish_tf to false"
                ) from error
            transform = TransformStamped(child_frame_id=BASE_FRAME)
            transform.header = self._odometry.header
            self._transform_message = TFMessage(transforms=[transform])
            self._transforms = node.create_publisher(TFMessage, "/tf", 100)

    def publish(self, stamp_ns: int, sample: RobotSample) -> None:
        """Send one sample with ``stamp_ns``."""
        set_stamp(self._stamp, stamp_ns)
        state = sample.state
        joints = self._joint_state
        joints.position = state[JOINT_POSITION].tolist()
        joints.velocity = state[JOINT_VELOCITY].tolist()
        joints.effort = sample.joint_torque.tolist()
        self._joint_states.publish(joints)

        pose, twist = self._odometry.pose.pose, self._odometry.twist.twist
        _set_xyz(pose.position, state[POSITION])
        _set_orientation(pose.orientation, state[ORIENTATION])
        _set_xyz(twist.linear, state[LINEAR_VELOCITY])
        _set_xyz(twist.angular, state[ANGULAR_VELOCITY])
        self._odometries.publish(self._odometry)

        _set_orientation(self._imu.orientation, state[ORIENTATION])
        _set_xyz(self._imu.angular_velocity, state[ANGULAR_VELOCITY])
        self._imus.publish(self._imu)

        if self._transforms is not None:
            transform = self._transform_message.transforms[0].transform
            _set_xyz(transform.translation, state[POSITION])
            _set_orientation(transform.rotation, state[ORIENTATION])
            self._transforms.publish(self._transform_message)


def _set_xyz(message, values: np.ndarray) -> None:
    message.x, message.y, message.z = values.tolist()


def _set_orientation(message, values: np.ndarray) -> None:
    message.x, message.y, message.z, message.w = values.tolist()
