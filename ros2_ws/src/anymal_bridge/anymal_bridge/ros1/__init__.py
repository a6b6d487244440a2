"""A robot that speaks ROS 1: rospy in a process of its own, joined by packets of fixed layout.

rospy and rclpy cannot share a process, since both bring ``std_msgs``. ``side`` is the program of
the ROS 1 process, run by the system's Python; ``link`` starts and watches it; ``layout`` is the
only module that both processes load; ``messages`` makes the ROS 1 message classes.
"""
