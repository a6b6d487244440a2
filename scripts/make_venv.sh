#!/usr/bin/env bash
# make_venv.sh VENV: a new virtual environment with ROS 2 and what builds its packages.
# ROS 2 comes from PyPI or, where one is sourced, from there: the environment then lies on top of the system's Python.
set -euo pipefail
cd "$(dirname "$0")/.."
venv=$1

fail() {
  echo "make_venv.sh: $*" >&2
  exit 1
}

usable() {  # a Python of a version that the wheels are made for, with venv and its C headers
  "$1" - 2>/dev/null <<'PY'
import ensurepip, pathlib, sys, sysconfig, venv
header = pathlib.Path(sysconfig.get_path("include"), "Python.h")
sys.exit(not ((3, 10) <= sys.version_info[:2] <= (3, 13) and header.exists()))
PY
}

for tool in cc c++ make; do
  command -v "$tool" > /dev/null || fail "no $tool found; the message packages are compiled: apt install build-essential"
done
python=
for candidate in ${PYTHON:-python3 python3.13 python3.12 python3.11 python3.10}; do
  if usable "$candidate"; then
    python=$candidate
    break
  fi
done
[ -n "$python" ] || fail "no usable Python among: ${PYTHON:-python3 python3.13 python3.12 python3.11 python3.10}." \
  "Needed: 3.10 to 3.13 with venv and C headers (apt install python3-venv python3-dev), or say which: make PYTHON=/path/to/python"

if [ -n "$(scripts/in_underlay.sh "$venv" rclpy)" ]; then
  "$python" -c 'import rclpy' || fail "a ROS 2 is sourced, but $("$python" --version) cannot import its rclpy." \
    "Use its Python (make PYTHON=/usr/bin/python3), or a shell where no ROS 2 is sourced."
  "$python" -m venv --clear --system-site-packages "$venv"
  requirements=()
else
  "$python" -m venv --clear "$venv"
  requirements=(-r requirements/ros.txt)
  # Lets the wheels' ament index be found in the activated environment without sourcing anything.
  site=$("$venv/bin/python" -c 'import sysconfig; print(sysconfig.get_path("purelib"))')
  echo 'import os, sys; os.environ.setdefault("AMENT_PREFIX_PATH", sys.prefix)' > "$site/footlight_ament_prefix.pth"
fi
"$venv/bin/python" -m pip install --quiet --quiet 'pip==26.2'
scripts/pip_install.sh "$venv" -r requirements/build.txt "${requirements[@]}"
