"""The policy bundle: the one contract between training and robot.

A bundle is a directory, or the same in one .zip, of

- `policy.onnx`: the network with the observation normaliser inside, one file, dynamic batch;
- `bundle.json`: everything else that must agree (contract.py, field for field);
- `golden.npz`: states and commands with the observation and action that training computed for them;
- `certificate.json`, added by verification, not read here.

target = default_pose + action.scale * clip(action, -action.clip, action.clip), applied by the
controller, once. Nothing is guessed: a bundle that differs from the robot file or from itself in
any field is refused with all differences named.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import math
import os
import sys
import tempfile
import zipfile
from dataclasses import fields
from pathlib import Path, PurePosixPath
from typing import Any, NamedTuple

import numpy as np

from policy_controller.contract import (
    SCHEMA_VERSION,
    ActionScaling,
    CommandRange,
    Gains,
    GaitSettings,
    JointLimits,
    PolicyBundle,
    RobotIdentity,
    TrainingRecord,
    list_differences,
    to_json,
)
from policy_controller.fields import RefusedError, describe_problem, spec_of
from policy_controller.golden import (
    UNREADABLE_ZIP,
    Golden,
    GoldenError,
    encode_golden,
    longest_run,
    read_golden,
)
from policy_controller.observation import (
    MAX_HISTORY,
    MAX_SCALE,
    MIN_SCALE,
    TERMS,
    ObservationBuilder,
    ObservationTerm,
    define_term,
)
from policy_controller.policy import OnnxPolicy, PolicyError
from policy_controller.robot import RobotDescription, load_robot_description
from policy_controller.state import JOINT_NAMES, NUM_JOINTS, RobotState

__all__ = [
    "ActionScaling",
    "BundleError",
    "CommandRange",
    "Gains",
    "GaitSettings",
    "Golden",
    "GoldenReport",
    "JointLimits",
    "PolicyBundle",
    "RobotIdentity",
    "TrainingRecord",
    "check_robot",
    "encode_golden",
    "load_bundle",
    "replay_golden",
    "save_bundle",
]

JSON_FILE, ONNX_FILE, GOLDEN_FILE = "bundle.json", "policy.onnx", "golden.npz"
GOLDEN_OBSERVATION_TOLERANCE = 1e-6  # relative above 1, absolute below
GOLDEN_ACTION_TOLERANCE = 1e-5
_MAX_FILE_BYTES = 64 * 2**20
_EXPORT_AGAIN = "export the bundle again"


class BundleError(RefusedError):
    """A bundle is refused."""


class GoldenReport(NamedTuple):
    """Largest differences found by replay_golden."""

    rows: int
    observation_error: float
    action_error: float


def load_bundle(path: str | Path) -> PolicyBundle:
    """Read and check a bundle: a directory or a .zip file.

    Checked: schema, types, ranges, unknown and missing keys, joint order, observation terms,
    hashes, names and shapes of the ONNX file, content of the golden data. Not checked here: that
    the golden data is reproduced (replay_golden) and that the robot is the one trained for
    (check_robot). Raises BundleError with one line per difference.
    """
    path = Path(path)
    content = read_files(path)
    try:
        data = json.loads(content[JSON_FILE], parse_constant=_refuse_constant)
    except (ValueError, RecursionError) as error:
        raise BundleError(
            f"{path}", [f"{JSON_FILE}: not valid JSON ({error}); {_EXPORT_AGAIN}"]
        ) from error
    version = data.get("schema_version") if isinstance(data, dict) else None
    if type(version) is not int or version != SCHEMA_VERSION:
        cure = (
            "its checkpoint becomes a bundle of this version with python -m "
            "diffsim_trainer.export; a newer version wants newer software"
        )
        raise BundleError(
            f"{path}", [describe_problem("schema_version", version, f"{SCHEMA_VERSION}", cure)]
        )
    problems: list[str] = []
    data.pop("schema_version")
    for key, name in (("onnx_sha256", ONNX_FILE), ("golden_sha256", GOLDEN_FILE)):
        found, wanted = hashlib.sha256(content[name]).hexdigest(), data.pop(key, None)
        if wanted is None:
            problems.append(f"{key}: missing; {_EXPORT_AGAIN}")
        elif found != wanted:
            cure = f"the files do not belong together, {_EXPORT_AGAIN}"
            problems.append(describe_problem(f"hash of {name}", found, f"{wanted!r} ({key})", cure))
    terms = _read_terms(data.pop("observation", None), problems)
    binary = {"observation": terms, "onnx": content[ONNX_FILE], "golden_npz": content[GOLDEN_FILE]}
    bundle = _read_section(PolicyBundle, data, "", problems, binary)
    if not problems:
        problems = _check_consistency(bundle)
    if problems:
        raise BundleError(f"{path}", problems)
    return bundle


def save_bundle(path: str | Path, bundle: PolicyBundle) -> PolicyBundle:
    """Write a bundle to a new directory, or to a new file if `path` ends in .zip.

    What was written is read back, checked and its golden data replayed before it gets its name, so
    a bundle that the robot would refuse never appears. Returns the bundle as read back.
    Raises BundleError as load_bundle and replay_golden do, FileExistsError if `path` exists.
    """
    path = Path(path)
    if path.exists():
        raise FileExistsError(f"{path} exists; remove it or choose another name")
    path.parent.mkdir(parents=True, exist_ok=True)
    content = {
        JSON_FILE: json.dumps(to_json(bundle), indent=2).encode() + b"\n",
        ONNX_FILE: bundle.onnx,
        GOLDEN_FILE: bundle.golden_npz,
    }
    with tempfile.TemporaryDirectory(dir=path.parent, prefix=".bundle-") as folder:
        fresh = Path(folder) / path.name
        if path.suffix == ".zip":
            with zipfile.ZipFile(fresh, "w", zipfile.ZIP_DEFLATED) as archive:
                for name, data in content.items():
                    archive.writestr(name, data)
        else:
            fresh.mkdir()
            for name, data in content.items():
                (fresh / name).write_bytes(data)
        written = load_bundle(fresh)
        replay_golden(written)
        os.replace(fresh, path)
    return written


def read_files(path: Path) -> dict[str, bytes]:
    """Content of the files of a bundle by name. Raises BundleError if one is missing."""
    names = (JSON_FILE, ONNX_FILE, GOLDEN_FILE)
    try:
        if path.is_dir():
            return {name: _read_bounded(path / name) for name in names}
        with zipfile.ZipFile(path) as archive:
            folders = [
                PurePosixPath(n).parent
                for n in archive.namelist()
                if PurePosixPath(n).name == JSON_FILE
            ]
            if len(folders) != 1:
                raise KeyError(f"{len(folders)} files named {JSON_FILE}, exactly one is allowed")
            return {
                name: _read_bounded(zipfile.Path(archive, str(folders[0] / name))) for name in names
            }
    except (*UNREADABLE_ZIP, KeyError) as error:
        allowed = f"a directory or a .zip with {', '.join(names)}"
        problem = (
            f"cannot be read ({error!r}), allowed: {allowed}; check the path or {_EXPORT_AGAIN}"
        )
        raise BundleError(f"{path}", [problem]) from error


def _read_bounded(file: Path | zipfile.Path) -> bytes:
    with file.open("rb") as stream:
        content = stream.read(_MAX_FILE_BYTES + 1)
    if len(content) > _MAX_FILE_BYTES:
        raise ValueError(f"{file} holds more than {_MAX_FILE_BYTES} bytes")
    return content


def _refuse_constant(text: str) -> None:
    raise ValueError(f"found {text}, allowed: finite numbers")


def _read_section(
    kind: type, data: Any, path: str, problems: list[str], given: dict[str, Any] | None = None
) -> Any:
    """An instance of dataclass `kind` from JSON, or None if `problems` grew."""
    if not isinstance(data, dict):
        problems.append(describe_problem(path.rstrip("."), data, "an object", _EXPORT_AGAIN))
        return None
    before, values = len(problems), dict(given or {})
    wanted = {item.name: item for item in fields(kind) if item.name not in values}
    problems += [f"{path}{key}: unknown key; {_EXPORT_AGAIN}" for key in data if key not in wanted]
    for name, item in wanted.items():
        if name not in data:
            problems.append(f"{path}{name}: missing; {_EXPORT_AGAIN}")
        elif "section" in item.metadata:
            section = item.metadata["section"]
            values[name] = _read_section(section, data[name], f"{path}{name}.", problems)
        else:
            item_spec, value = spec_of(item), data[name]
            if item_spec.accepts(value):
                values[name] = _freeze(item_spec.kind, value)
            else:
                problems.append(
                    describe_problem(path + name, value, item_spec.allowed(), _EXPORT_AGAIN)
                )
    return kind(**values) if len(problems) == before else None


def _freeze(kind: str, value: Any) -> Any:
    if isinstance(value, list):
        return tuple(float(v) if kind == "vector" and type(v) is int else v for v in value)
    return float(value) if kind == "number" and type(value) is int else value


def _read_terms(data: Any, problems: list[str]) -> tuple[ObservationTerm, ...]:
    if not isinstance(data, list) or not data:
        problems.append(describe_problem("observation", data, "a list of terms", _EXPORT_AGAIN))
        return ()
    terms = []
    for index, item in enumerate(data):
        path = f"observation[{index}]"
        name = item.get("name") if isinstance(item, dict) else None
        definition = TERMS.get(name) if isinstance(name, str) else None
        if definition is None or any(term.name == name for term in terms):
            problems.append(
                describe_problem(
                    path + ".name", name, f"each once: {', '.join(TERMS)}", _EXPORT_AGAIN
                )
            )
            continue
        wanted = {
            "name": name,
            "size": definition.size,
            "unit": definition.unit,
            "frame": definition.frame,
        }
        for key in sorted(wanted.keys() | item.keys() - {"scale", "history"}):
            if key not in wanted or item.get(key) != wanted[key]:
                allowed = repr(wanted[key]) if key in wanted else "no such key"
                problems.append(
                    describe_problem(
                        f"{path}.{key} ({name})", item.get(key), allowed, _EXPORT_AGAIN
                    )
                )
        scale = item.get("scale")
        if type(scale) not in (int, float) or not MIN_SCALE <= abs(scale) <= MAX_SCALE:
            allowed = f"number of magnitude {MIN_SCALE:g} to {MAX_SCALE:g}"
            problems.append(
                describe_problem(f"{path}.scale ({name})", scale, allowed, _EXPORT_AGAIN)
            )
            scale = 1.0
        history = item.get("history", 1)
        if "history" in item and not (type(history) is int and 2 <= history <= MAX_HISTORY):
            allowed = f"integer from 2 to {MAX_HISTORY}, or no such key"
            problems.append(
                describe_problem(f"{path}.history ({name})", history, allowed, _EXPORT_AGAIN)
            )
            history = 1
        terms.append(define_term(name, float(scale), history))
    return tuple(terms)


def _check_consistency(bundle: PolicyBundle) -> list[str]:
    problems = []
    if bundle.joint_names != JOINT_NAMES:
        cure = f"the robot's order is fixed, {_EXPORT_AGAIN}"
        problems.append(describe_problem("joint_names", bundle.joint_names, f"{JOINT_NAMES}", cure))
    limits = bundle.limits
    for index, joint in enumerate(JOINT_NAMES):
        lower, upper = limits.position_lower[index], limits.position_upper[index]
        if not upper - lower <= 2.0 * math.pi:
            found, allowed = (lower, upper), "at most one turn apart"
            cure = f"limits that wide are no guard, {_EXPORT_AGAIN}"
            problems.append(describe_problem(f"limits.position {joint}", found, allowed, cure))
        if not lower < bundle.default_pose[index] < upper:
            allowed = f"between {lower} and {upper} rad (limits)"
            problems.append(
                describe_problem(
                    f"default_pose {joint}", bundle.default_pose[index], allowed, _EXPORT_AGAIN
                )
            )
    try:
        OnnxPolicy(bundle.onnx, bundle.observation_size, NUM_JOINTS, warm_up=0)
    except PolicyError as error:
        problems.append(str(error))
    try:
        golden = read_golden(bundle.golden_npz, bundle.observation_size)
        history, run = max(term.history for term in bundle.observation), longest_run(golden)
        if history > 1 and run <= history:
            found, allowed = f"{run} rows in a row", f"more than {history}, the longest history"
            problems.append(describe_problem(f"{GOLDEN_FILE} start", found, allowed, _EXPORT_AGAIN))
    except GoldenError as error:
        problems += [f"{GOLDEN_FILE} {problem}" for problem in error.problems]
    return problems


def replay_golden(bundle: PolicyBundle, policy: OnnxPolicy | None = None) -> GoldenReport:
    """Compute every golden observation and action with the code of the robot and compare.

    policy: the session to check; a new one if not given. Tolerance: 1e-6 for the observation, 1e-5
    for the action (relative above magnitude 1). Raises BundleError naming the term or joint that
    differs.
    """
    policy = policy or OnnxPolicy(bundle.onnx, bundle.observation_size, NUM_JOINTS, warm_up=0)
    golden = read_golden(bundle.golden_npz, bundle.observation_size)
    builder = ObservationBuilder(bundle.observation, bundle.default_pose)
    columns = [
        f"{term.name}[{i}]" + (f" {age} steps ago" if age else "")
        for term in bundle.observation
        for age in reversed(range(term.history))
        for i in range(term.size)
    ]
    problems, worst = [], [0.0, 0.0]
    for row in range(len(golden.phase)):
        if golden.start[row]:
            builder.reset()
        command = golden.command[row].astype(np.float64)
        observation = builder.build(
            RobotState.from_packed(golden.state[row]),
            command,
            bundle.clock.signal(float(golden.phase[row]), command),
            golden.previous_action[row],
        )
        action = policy(golden.observation[row])
        for which, (kind, names, found, wanted, tolerance) in enumerate(
            (
                (
                    "observation",
                    columns,
                    observation,
                    golden.observation[row],
                    GOLDEN_OBSERVATION_TOLERANCE,
                ),
                ("action", JOINT_NAMES, action, golden.action[row], GOLDEN_ACTION_TOLERANCE),
            )
        ):
            error = np.abs(found - wanted) / np.maximum(1.0, np.abs(wanted))
            error = np.where(np.isfinite(error), error, np.inf)
            worst[which] = max(worst[which], float(error.max()))
            for index in np.flatnonzero(error > tolerance):
                allowed = f"{wanted[index]:.8g} within {tolerance:g}"
                cure = f"training and robot code differ, {_EXPORT_AGAIN}"
                problems.append(
                    describe_problem(
                        f"golden {kind} {names[index]}, row {row}",
                        float(found[index]),
                        allowed,
                        cure,
                    )
                )
    if problems:
        raise BundleError("golden data", problems)
    return GoldenReport(len(golden.phase), *worst)


def check_robot(bundle: PolicyBundle, robot: RobotDescription) -> None:
    """Compare a bundle with the robot it is to run on.

    Equal: name, URDF hash, joint order, default pose, gains. Inside the robot's: all limits.
    Raises BundleError with one line per difference.
    """
    cure = "use the bundle trained for this robot file, or the robot file it was trained with"
    problems = []
    for name, found, wanted in (
        ("robot.name", bundle.robot.name, robot.name),
        ("robot.urdf_sha256", bundle.robot.urdf_sha256, robot.urdf_sha256),
        ("joint_names", bundle.joint_names, robot.joint_names),
    ):
        if found != wanted:
            problems.append(describe_problem(name, found, f"{wanted!r} (robot file)", cure))
    limits = bundle.limits
    for index, joint in enumerate(JOINT_NAMES):
        for name, found, wanted in (
            ("default_pose", bundle.default_pose[index], robot.default_pose[index]),
            ("gains.kp", bundle.gains.kp[index], robot.kp),
            ("gains.kd", bundle.gains.kd[index], robot.kd),
        ):
            if abs(found - wanted) > 1e-6:
                problems.append(
                    describe_problem(f"{name} {joint}", found, f"{wanted!r} (robot file)", cure)
                )
        lower, upper = robot.position_lower[index], robot.position_upper[index]
        if (
            limits.position_lower[index] < lower - 1e-6
            or limits.position_upper[index] > upper + 1e-6
        ):
            found = (limits.position_lower[index], limits.position_upper[index])
            allowed = f"inside {(lower, upper)} rad (robot file)"
            problems.append(describe_problem(f"limits.position {joint}", found, allowed, cure))
    for name, found, wanted in (
        ("limits.velocity", limits.velocity, robot.velocity_limit),
        ("limits.torque", limits.torque, robot.torque_limit),
    ):
        if found > wanted + 1e-6:
            problems.append(describe_problem(name, found, f"at most {wanted} (robot file)", cure))
    if problems:
        raise BundleError(f"bundle on robot {robot.name}", problems)


def main(arguments: list[str] | None = None) -> int:
    """`inspect PATH` prints the contract, `verify PATH` also replays the golden data, `diff PATH
    OTHER` prints what differs between two bundles. Returns 1 if refused or different."""
    parser = argparse.ArgumentParser(
        prog="python -m policy_controller.bundle",
        description=__doc__.splitlines()[0],
        formatter_class=argparse.ArgumentDefaultsHelpFormatter,
    )
    actions = parser.add_subparsers(dest="action", required=True)
    for name in ("inspect", "verify", "diff"):
        action = actions.add_parser(name)
        action.add_argument("path", type=Path, help="bundle, a directory or a .zip file")
        if name == "diff":
            action.add_argument("other", type=Path, help="the bundle to compare it with")
        else:
            action.add_argument("--robot", type=Path, help="robot file (YAML) to compare with")
    options = parser.parse_args(arguments)
    try:
        bundle = load_bundle(options.path)
        if options.action == "diff":
            differences = list_differences(bundle, load_bundle(options.other))
            for name, found, other in differences:
                print(f"{name}: {found} -> {other}")
            return 1 if differences else 0
        if options.action == "inspect":
            print(json.dumps(to_json(bundle), indent=2))
        else:
            report = replay_golden(bundle)
            print(
                f"golden data: {report.rows} rows, largest difference of an observation "
                f"{report.observation_error:.1e}, of an action {report.action_error:.1e}"
            )
        if options.robot:
            check_robot(bundle, load_robot_description(options.robot))
            print(f"fits robot file {options.robot}")
    except RefusedError as error:
        print(error, file=sys.stderr)
        return 1
    print(f"bundle sha256 {bundle.sha256}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
