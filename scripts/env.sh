# Source this in bash or zsh, to enter the environment that `make setup` made: . scripts/env.sh
# With ROS 2 from PyPI, `. .venv/bin/activate` alone does as well.
_footlight_venv=$(cd "$(dirname "${BASH_SOURCE[0]:-$0}")/../.venv" && pwd)
. "$_footlight_venv/bin/activate"
export AMENT_PREFIX_PATH="$_footlight_venv${AMENT_PREFIX_PATH:+:$AMENT_PREFIX_PATH}"
. "$_footlight_venv/setup.$([ -n "$ZSH_VERSION" ] && echo zsh || echo bash)"
unset _footlight_venv
