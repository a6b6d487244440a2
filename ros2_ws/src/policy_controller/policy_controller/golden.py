"""Golden data: what training computed for a few states, replayed on the robot at every start."""

from __future__ import annotations

import io
import zipfile
import zlib
from typing import NamedTuple

import numpy as np

from policy_controller.fields import RefusedError, describe_problem
from policy_controller.state import NUM_JOINTS

MIN_ROWS = 8
UNREADABLE_ZIP = (OSError, EOFError, RuntimeError, ValueError, zipfile.BadZipFile, zlib.error)
"""What reading a damaged, encrypted or strangely compressed .zip or .npz raises."""
_MAX_BYTES = 64 * 2**20
_EXPORT_AGAIN = "export the bundle again"


class GoldenError(RefusedError):
    """The golden data cannot be used."""


class Golden(NamedTuple):
    """What training computed for K states; K >= 8, asymmetric, with at least one zero command.

    state: packed as in RobotState.from_packed, shape [K, 37].
    command: (vx m/s, vy m/s, yaw rate rad/s), shape [K, 3].
    phase: gait phase, rad, shape [K].
    previous_action: shape [K, 12].
    observation: shape [K, observation size].
    action: raw output of the policy, shape [K, 12].
    start: bool, shape [K]; the row has no past. Any other is the control step after the row before.
        The file leaves it out where it is true throughout.
    """

    state: np.ndarray
    command: np.ndarray
    phase: np.ndarray
    previous_action: np.ndarray
    observation: np.ndarray
    action: np.ndarray
    start: np.ndarray


def encode_golden(golden: Golden) -> bytes:
    """Content of golden.npz."""
    arrays = golden._asdict()
    if golden.start.all():
        del arrays["start"]
    buffer = io.BytesIO()
    np.savez(buffer, **arrays)
    return buffer.getvalue()


def read_golden(content: bytes, observation_size: int) -> Golden:
    """Parse golden.npz.

    Raises GoldenError naming each array that is missing, unknown, misshapen or not finite, and data
    that could not reveal a swapped joint, quaternion order or gait clock.
    """
    try:
        with zipfile.ZipFile(io.BytesIO(content)) as archive:
            if sum(member.file_size for member in archive.infolist()) > _MAX_BYTES:
                raise ValueError(f"it unpacks to more than {_MAX_BYTES} bytes")
        with np.load(io.BytesIO(content), allow_pickle=False) as archive:
            arrays = {name: archive[name] for name in archive.files}
        if not all(isinstance(array, np.ndarray) for array in arrays.values()):
            raise ValueError("it holds something that is no array")
    except (*UNREADABLE_ZIP, MemoryError) as error:
        raise GoldenError("golden.npz", [f"cannot be read ({error}); {_EXPORT_AGAIN}"]) from error
    if "phase" in arrays:
        arrays.setdefault("start", np.ones(arrays["phase"].shape, dtype=bool))
    problems = [
        f"{name}: unknown array; {_EXPORT_AGAIN}" for name in arrays.keys() - set(Golden._fields)
    ]
    problems += [
        f"{name}: missing; {_EXPORT_AGAIN}" for name in Golden._fields if name not in arrays
    ]
    if not problems:
        golden = Golden(**arrays)
        problems = _check_arrays(golden, observation_size) or _find_blind_spots(golden)
    if problems:
        raise GoldenError("golden.npz", problems)
    return golden


def _check_arrays(golden: Golden, observation_size: int) -> list[str]:
    problems = []
    rows = golden.phase.size
    if rows < MIN_ROWS:
        problems.append(describe_problem("rows", rows, f"{MIN_ROWS} or more", _EXPORT_AGAIN))
    shapes = Golden(
        (rows, 37),
        (rows, 3),
        (rows,),
        (rows, NUM_JOINTS),
        (rows, observation_size),
        (rows, NUM_JOINTS),
        (rows,),
    )
    for name, array, shape in zip(Golden._fields, golden, shapes, strict=True):
        kind = "bool" if name == "start" else "float"
        if array.shape != shape or array.dtype.kind != kind[0]:
            found = f"{array.dtype} {list(array.shape)}"
            problems.append(describe_problem(name, found, f"{kind} {list(shape)}", _EXPORT_AGAIN))
        elif not np.isfinite(array).all():
            problems.append(
                describe_problem(name, "NaN or infinity", "finite numbers", _EXPORT_AGAIN)
            )
    if not problems and not golden.start[0]:
        problems.append(describe_problem("start of row 0", False, "True", _EXPORT_AGAIN))
    return problems


def longest_run(golden: Golden) -> int:
    """Most rows that are consecutive control steps."""
    bounds = np.append(np.flatnonzero(golden.start), len(golden.start))
    return int(np.diff(bounds).max())


def _find_blind_spots(golden: Golden) -> list[str]:
    problems = []
    for name, columns in (
        ("quaternion", golden.state[:, 3:7]),
        ("linear velocity", golden.state[:, 7:10]),
        ("angular velocity", golden.state[:, 10:13]),
        ("joint position", golden.state[:, 13:25]),
        ("joint velocity", golden.state[:, 25:37]),
        ("command", golden.command),
        ("previous_action", golden.previous_action),
    ):
        count = columns.shape[1]
        for first in range(count):
            for second in range(first + 1, count):
                if np.abs(columns[:, first] - columns[:, second]).max() < 1e-3:
                    found = f"columns {first} and {second} equal in every row"
                    problems.append(
                        describe_problem(name, found, "distinct columns", _EXPORT_AGAIN)
                    )
    standing = (golden.command == 0.0).all(axis=1)
    if not standing.any() or standing.all():
        found = f"{int(standing.sum())} of {len(standing)} commands zero"
        problems.append(describe_problem("command", found, "some zero, some not", _EXPORT_AGAIN))
    return problems
