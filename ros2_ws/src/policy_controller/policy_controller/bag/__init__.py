"""Recordings of ROS topics as MCAP files, readable by rosbag2 and Foxglove. No rclpy, no node."""
