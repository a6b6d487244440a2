#!/usr/bin/env bash
# lock.sh: write requirements/constraints.txt again, one file for Linux with Python 3.10 to 3.13. Needs uv.
set -euo pipefail
cd "$(dirname "$0")/../requirements"
uv pip compile --quiet --no-config --universal --python-version 3.10 --no-annotate --custom-compile-command scripts/lock.sh \
  build.txt ros.txt runtime.txt train.txt test.txt --output-file constraints.txt "$@"
