"""Runs a verified locomotion policy on the robot: bundle, safety, motion states, ROS 2 node."""
