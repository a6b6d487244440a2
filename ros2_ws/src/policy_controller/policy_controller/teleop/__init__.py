"""Driving with a joystick. Knows the controller only by its topics and services."""
