"""The text of a ROS 2 message definition with all that it depends on, as MCAP's `ros2msg` wants it.

https://mcap.dev/spec/registry#ros2msg: the definition, then for each dependency a line of 80 `=`, a
line `MSG: package/Type`, and its definition.
"""

from __future__ import annotations

import re
from importlib import import_module
from pathlib import Path

from ament_index_python.packages import PackageNotFoundError, get_package_share_directory

_FIELD = re.compile(r"^\s*([A-Za-z][A-Za-z0-9_/]*)(?:<=\d+)?(?:\[[^\]]*\])?\s+[A-Za-z]")
_PRIMITIVES = frozenset(
    "bool byte char float32 float64 int8 uint8 int16 uint16 int32 uint32 int64 uint64 string "
    "wstring".split()
)


class SchemaError(ValueError):
    """A message type is not known; says which and what to do."""


def split_type(name: str) -> tuple[str, str]:
    """("package", "Type") of "package/msg/Type". Raises SchemaError."""
    parts = name.split("/")
    if len(parts) != 3 or parts[1] != "msg" or not all(parts):
        raise SchemaError(
            f"message type: found {name!r}, allowed: package/msg/Type; correct the name"
        )
    return parts[0], parts[2]


def load_type(name: str) -> type:
    """The Python class of "package/msg/Type". Raises SchemaError."""
    package, kind = split_type(name)
    try:
        return getattr(import_module(f"{package}.msg"), kind)
    except (ImportError, AttributeError) as error:
        raise SchemaError(
            f"message type {name}: {error}; source the workspace that has the package {package}"
        ) from error


def describe_type(name: str) -> str:
    """The `ros2msg` schema of "package/msg/Type". Raises SchemaError if a definition is missing."""
    known: dict[str, str] = {}
    waiting = [split_type(name)]
    while waiting:
        package, kind = waiting.pop(0)
        key = f"{package}/{kind}"
        if key in known:
            continue
        known[key] = _read_definition(package, kind)
        for line in known[key].splitlines():
            found = _FIELD.match(line.split("#", 1)[0])
            if found and found[1] not in _PRIMITIVES:
                owner, _, inner = found[1].rpartition("/")
                waiting.append((owner.removesuffix("/msg") or package, inner))
    first, *rest = known.items()
    return "\n".join([first[1], *(f"{'=' * 80}\nMSG: {key}\n{text}" for key, text in rest)])


def _read_definition(package: str, kind: str) -> str:
    try:
        return (Path(get_package_share_directory(package)) / "msg" / f"{kind}.msg").read_text()
    except (PackageNotFoundError, OSError) as error:
        raise SchemaError(
            f"definition of {package}/msg/{kind}: {error}; source the workspace that has it"
        ) from error
