#!/usr/bin/env bash
# in_underlay.sh VENV PACKAGE...: print those of the packages that a ROS 2 sourced before VENV provides, one a line.
# Such a package wins: it is not installed from PyPI and not built here.
set -euo pipefail
venv=$(realpath -m "$1")
shift
IFS=: read -ra prefixes <<< "${AMENT_PREFIX_PATH:-}"
for package in "$@"; do
  for prefix in "${prefixes[@]}"; do
    if [ -n "$prefix" ] && [ "$(realpath -m "$prefix")" != "$venv" ] &&
      [ -e "$prefix/share/ament_index/resource_index/packages/$package" ]; then
      echo "$package"
      break
    fi
  done
done
