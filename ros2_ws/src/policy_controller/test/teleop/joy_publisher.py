"""The joystick's process in test_teleop_node.py: repeats the last line of its input at 20 Hz.

A line is {"axes": […], "buttons": […]} in JSON.
"""

import json
import sys
import threading

import rclpy
from sensor_msgs.msg import Joy


def main() -> None:
    newest: list[Joy] = []

    def read() -> None:
        for line in sys.stdin:
            newest.append(Joy(**json.loads(line)))

    threading.Thread(target=read, daemon=True).start()
    with rclpy.init():
        node = rclpy.create_node("joystick")
        publisher = node.create_publisher(Joy, "joy", 10)
        tremble = 0
        while rclpy.ok():
            if newest:
                message = newest[-1]
                tremble = 1 - tremble
                message.axes[5] = 0.001 * tremble
                message.header.stamp = node.get_clock().now().to_msg()
                publisher.publish(message)
            rclpy.spin_once(node, timeout_sec=0.05)


if __name__ == "__main__":
    main()
