"""JSON Schema of bundle.json, made from the contract.

`python -m policy_controller.bundle_schema` prints it; config/bundle.schema.json is that output.
What the schema refuses load_bundle refuses too. The schema cannot say what connects two fields or
two files (hashes, poses within limits, shapes of the network), nor tell 1.0 from 1 where an integer
is wanted; load_bundle checks that as well.
"""

from __future__ import annotations

import json
from dataclasses import fields
from typing import Any

from policy_controller.contract import SCHEMA_VERSION, PolicyBundle
from policy_controller.fields import Spec, spec_of
from policy_controller.observation import (
    MAX_HISTORY,
    MAX_SCALE,
    MIN_SCALE,
    TERMS,
    TermDefinition,
)
from policy_controller.state import JOINT_NAMES

_SHA256 = {"type": "string", "pattern": "^[0-9a-f]{64}$"}


def describe_bundle() -> dict[str, Any]:
    """The schema of bundle.json, JSON Schema draft 2020-12."""
    hashes = {"onnx_sha256": "policy.onnx", "golden_sha256": "golden.npz"}
    properties = _describe_section(PolicyBundle)["properties"]
    properties["joint_names"]["const"] = list(JOINT_NAMES)
    return {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "title": f"Footlight policy bundle, version {SCHEMA_VERSION}",
        **_object(
            {
                "schema_version": {"type": "integer", "const": SCHEMA_VERSION},
                **properties,
                "observation": {
                    "description": "terms in the order of the policy's input, each at most once",
                    "type": "array",
                    "minItems": 1,
                    "maxItems": len(TERMS),
                    "items": {"oneOf": [_describe_term(*item) for item in TERMS.items()]},
                },
                **{
                    key: {"description": f"hash of {file}", **_SHA256}
                    for key, file in hashes.items()
                },
            }
        ),
    }


def _object(properties: dict[str, Any], optional: tuple[str, ...] = ()) -> dict[str, Any]:
    return {
        "type": "object",
        "properties": properties,
        "required": [name for name in properties if name not in optional],
        "additionalProperties": False,
    }


def _describe_section(kind: type) -> dict[str, Any]:
    """The object that a dataclass of the contract stands for."""
    properties = {}
    for item in fields(kind):
        if "section" in item.metadata:
            properties[item.name] = _describe_section(item.metadata["section"])
        elif (found := spec_of(item)) is not None:
            properties[item.name] = _describe_field(found)
    return _object(properties)


def _describe_field(field: Spec) -> dict[str, Any]:
    unit = f" [{field.unit}]" if field.unit else ""
    number = {"minimum": field.low, "maximum": field.high}
    text = {"type": "string", "minLength": 1}
    form: dict[str, Any] = {
        "number": {"type": "number", **number},
        "integer": {"type": "integer", **number},
        "boolean": {"type": "boolean"},
        "text": {"enum": list(field.choices)} if field.choices else text,
        "sha256": _SHA256,
        "vector": _array({"type": "number", **number}, field.size),
        "names": _array({"type": "string"}, field.size),
    }[field.kind]
    return {"description": f"{field.text}{unit}", **form}


def _array(items: dict[str, Any], size: int) -> dict[str, Any]:
    return {"type": "array", "items": items, "minItems": size, "maxItems": size}


def _describe_term(name: str, definition: TermDefinition) -> dict[str, Any]:
    positive = {"minimum": MIN_SCALE, "maximum": MAX_SCALE}
    negative = {"minimum": -MAX_SCALE, "maximum": -MIN_SCALE}
    return _object(
        {
            "name": {"const": name},
            "size": {"const": definition.size},
            "scale": {"type": "number", "anyOf": [positive, negative]},
            "unit": {"const": definition.unit},
            "frame": {"const": definition.frame},
            "history": {
                "description": "control steps seen, absent if it is the newest alone",
                "type": "integer",
                "minimum": 2,
                "maximum": MAX_HISTORY,
            },
        },
        optional=("history",),
    )


if __name__ == "__main__":
    print(json.dumps(describe_bundle(), indent=2))
