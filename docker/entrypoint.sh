#!/usr/bin/env bash
# Enters the ROS 2 of the image and the environment on top of it, then runs the command.
set -e
. "/opt/ros/$ROS_DISTRO/setup.bash"
. /footlight/scripts/env.sh
exec "$@"
