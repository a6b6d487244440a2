#!/usr/bin/env bash
# build_ros.sh VENV messages|python: build the packages of ros2_ws into VENV, which so becomes a colcon underlay too.
# Messages that a sourced ROS 2 already provides are not built: the official ANYmal packages win over ours.
set -euo pipefail
cd "$(dirname "$0")/.."
venv=$(realpath "$1")
messages=(any_msgs anymal_msgs series_elastic_actuator_msgs footlight_msgs)
packages=(diffsim_trainer policy_controller anymal_bridge)

# shellcheck disable=SC1091
. "$venv/bin/activate"
export AMENT_PREFIX_PATH=$venv${AMENT_PREFIX_PATH:+:$AMENT_PREFIX_PATH}
export CMAKE_PREFIX_PATH=$venv${CMAKE_PREFIX_PATH:+:$CMAKE_PREFIX_PATH}
colcon=(python -m colcon --log-base "$venv/build/log" build --base-paths ros2_ws/src --build-base "$venv/build" --install-base "$venv" --merge-install
  --event-handlers console_direct- console_cohesion- status-)
case $2 in
  messages)
    mapfile -t skipped < <(scripts/in_underlay.sh "$venv" "${messages[@]}")
    [ ${#skipped[@]} -eq 0 ] || echo "taken from the sourced ROS 2: ${skipped[*]}"
    "${colcon[@]}" --packages-select "${messages[@]}" --packages-skip "${skipped[@]}" \
      --cmake-args -DBUILD_TESTING=OFF -DCMAKE_BUILD_TYPE=Release "-DCMAKE_PROJECT_INCLUDE=$PWD/cmake/ros_wheels.cmake"
    ;;
  python)
    # A link to a file that is gone would fail the build.
    for package in "${packages[@]}"; do
      rm -rf "$venv/build/$package" "$venv/share/$package" "$venv/lib/$package"
    done
    "${colcon[@]}" --packages-select "${packages[@]}" --symlink-install
    # colcon links the sources from its build folders and puts those on PYTHONPATH when setup.bash is sourced. This file does
    # it for the activated environment, so that `python -m policy_controller.node` needs nothing sourced.
    printf "$venv/build/%s\n" "${packages[@]}" > "$(python -c 'import sysconfig; print(sysconfig.get_path("purelib"))')/footlight_packages.pth"
    ;;
  *)
    echo "build_ros.sh: second argument is '$2', allowed: messages, python" >&2
    exit 2
    ;;
esac
