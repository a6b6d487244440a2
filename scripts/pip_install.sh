#!/usr/bin/env bash
# pip_install.sh VENV ARGUMENT...: pip install with the project's pinned versions.
set -euo pipefail
cd "$(dirname "$0")/.."
venv=$1
shift
constraints=requirements/constraints.txt
[ -z "$(scripts/in_underlay.sh "$venv" rclpy)" ] || constraints=requirements/ros-system.txt
"$venv/bin/python" -m pip install --quiet --quiet --disable-pip-version-check --constraint "$constraints" "$@"
