"""Compare a recorded run, of a robot or of a simulation, with the simulation of the same commands.

    python -m policy_controller.verification.compare --bag RECORDING --bundle BUNDLE

The velocity commands of the recording are sent again, through the real nodes in lockstep, from the
moment the policy took over. Two overlays are drawn: base velocity against command, and one leg's
joints. Exit status: 0 compared, 2 could not run.
"""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import yaml

from policy_controller.bag.reader import BagReader
from policy_controller.bundle import load_bundle
from policy_controller.state import FOOT_NAMES, JOINT_NAMES
from policy_controller.verification.bench import Bench
from policy_controller.verification.compare_plot import draw_joints, draw_velocity
from policy_controller.verification.options import find_robot, make_parser
from policy_controller.verification.recorder import Topics, decode_messages
from policy_controller.verification.recording import NANO, Recording
from policy_controller.verification.report import plain
from policy_controller.verification.runner import RunFailedError
from policy_controller.verification.scenario import MOTION_STATES, Scenario, parse_scenario
from policy_controller.verification.session import Setup
from policy_controller.verification.suite import ENGINES, Case
from policy_controller.verification.verify import COULD_NOT, COULD_NOT_RUN, PASS

WALK = MOTION_STATES.index("walk")
AVERAGE = 0.5  # s, a gait cycle: velocities are compared as moving means


@dataclass(frozen=True)
class Difference:
    """RMS over the common time of recording minus simulation."""

    velocity: tuple[float, float, float]  # m/s, m/s, rad/s, moving means
    joint_torque_rms: dict[str, float]  # N m, of the RMS torques, not sample by sample
    duration: float  # s


def main(arguments: Sequence[str] | None = None) -> int:
    """Compare; returns the exit status."""
    options = _parse(arguments)
    try:
        return _compare(options)
    except (*COULD_NOT, ValueError) as error:
        print(f"Could not run: {error}\n{getattr(error, 'detail', '')}", file=sys.stderr)
        return COULD_NOT_RUN


def read_bag(path: Path, control_period: float, topics: Topics) -> Recording:
    """States, joint commands and statuses of a bag. Raises ValueError if one kind is missing."""
    wanted = (topics.state, topics.robot_commands, f"{topics.controller}/status")
    found: dict[str, list] = {name: [] for name in wanted}
    for message in BagReader(path).read(wanted):
        is_status = message.topic == wanted[2]
        item = message.decode() if is_status else (message.data, message.publish_ns)
        found[message.topic].append(item)
    missing = [name for name in wanted if not found[name]]
    if missing:
        raise ValueError(f"{path}: no message on {', '.join(missing)}; record them, too")
    return decode_messages(
        *found.values(), JOINT_NAMES, FOOT_NAMES, control_period, (), lambda share: None
    )


def walking(recording: Recording) -> tuple[int, int]:
    """Stamps [ns] of the first walk's begin and end. Raises ValueError if there is none."""
    status = recording.status
    walks = status.motion_state == WALK
    if not walks.any():
        raise ValueError("the recording has no walking in it; record a run with WALK")
    first = int(np.argmax(walks))
    rest = np.flatnonzero(~walks[first:])
    last = first + int(rest[0]) if rest.size else len(walks) - 1
    return int(status.stamp[first]), int(status.stamp[last])


def replay_scenario(recording: Recording, shared: dict[str, Any]) -> Scenario:
    """Stand up, then the velocity commands of the first walk, one segment for each value.

    The commands are those that the policy was given, so ramps and age limits are in them.
    """
    begin, end = walking(recording)
    status = recording.status
    used = np.flatnonzero((status.stamp >= begin) & (status.stamp < end))
    values = np.round(status.velocity_command[used], 3)
    starts = [0, *(np.flatnonzero(np.any(np.diff(values, axis=0) != 0.0, axis=1)) + 1).tolist()]
    stamps = [*status.stamp[used[starts]].tolist(), end]
    segments: list[dict[str, Any]] = [
        {"name": "stand up", "request": "stand_up", "reach": "stand", "timeout": 10.0}
        | {"duration": 0.5}
    ]
    for number, start in enumerate(starts):
        segments.append(
            {"name": f"command {number + 1}", "command": values[start].tolist()}
            | {"duration": (stamps[number + 1] - stamps[number]) * NANO}
        )
    segments[1]["request"] = "walk"
    content = {"schema_version": 1, "name": "replay", "description": "commands of a recording"}
    return parse_scenario(content | shared | {"command_rate": 50.0, "segments": segments})


def difference(recorded: Recording, simulated: Recording) -> Difference:
    """Compare the two walks over their common time."""
    a, b = base_velocity(recorded), base_velocity(simulated)
    end = min(a[0][-1], b[0][-1])
    time = np.arange(0.0, end, 0.02)
    columns = [
        moving_mean(np.interp(time, *pair(a, k)) - np.interp(time, *pair(b, k)), 0.02)
        for k in range(3)
    ]
    torque = [_torque_rms(recording, end) for recording in (recorded, simulated)]
    return Difference(
        tuple(float(np.sqrt((column**2).mean())) for column in columns),
        dict(zip(JOINT_NAMES, np.abs(torque[0] - torque[1]).tolist(), strict=True)),
        float(end),
    )


def base_velocity(recording: Recording) -> tuple[np.ndarray, np.ndarray]:
    """Time since the take-over [T] s and (vx, vy, yaw rate) [T, 3] of the walk."""
    begin, end = walking(recording)
    state = recording.state
    used = (state.stamp >= begin) & (state.stamp <= end)
    velocity = np.column_stack(
        (state.base_linear_velocity[used, :2], state.base_angular_velocity[used, 2])
    )
    return (state.stamp[used] - begin) * NANO, velocity


def pair(track: tuple[np.ndarray, np.ndarray], column: int) -> tuple[np.ndarray, np.ndarray]:
    return track[0], track[1][:, column]


def moving_mean(values: np.ndarray, step: float) -> np.ndarray:
    """Mean over AVERAGE, samples `step` [s] apart."""
    width = min(len(values), max(1, round(AVERAGE / step)))
    return np.convolve(values, np.ones(width) / width, "valid")


def _torque_rms(recording: Recording, duration: float) -> np.ndarray:
    begin, _ = walking(recording)
    state = recording.state
    used = (state.stamp >= begin) & (state.stamp <= begin + round(duration / NANO))
    return np.sqrt((state.joint_torque[used] ** 2).mean(axis=0))


def _compare(options: argparse.Namespace) -> int:
    bundle = load_bundle(options.bundle)
    robot = find_robot(options.robot, bundle)
    recorded = read_bag(options.bag, bundle.control_period, Topics())
    if recorded.status.bundle != bundle.sha256:
        raise RunFailedError(
            f"the recording is of bundle {recorded.status.bundle[:12]}, {options.bundle} is "
            f"{bundle.sha256[:12]}; give the bundle that ran"
        )
    shared = yaml.safe_load(options.suite.read_text())["shared"]
    scenario = replay_scenario(recorded, shared)
    setup = Setup(
        options.bundle,
        bundle,
        robot,
        scenario,
        lockstep=True,
        seed=0,
        real_time=False,
        engine=options.engine,
        settings=options.settings.resolve(),
    )
    options.out.mkdir(parents=True, exist_ok=True)
    with Bench(setup, {}, options.out) as bench:
        simulated, failure = bench.record(Case("replay", "replay", options.engine, scenario, {}))
    if failure is not None:
        print(f"the simulation stopped early: {failure.reason}")
    found = difference(recorded, simulated)
    draw_velocity(recorded, simulated, options.out / "velocity.png")
    draw_joints(recorded, simulated, options.out / "joints.png")
    content = {"schema_version": 1, "bag": str(options.bag), "engine": options.engine}
    content |= {"velocity_rms": found.velocity, "joint_torque_rms": found.joint_torque_rms}
    content |= {"duration": found.duration, "failure": failure and failure.reason}
    (options.out / "compare.json").write_text(json.dumps(plain(content), indent=1) + "\n")
    x, y, yaw = found.velocity
    worst = max(found.joint_torque_rms, key=found.joint_torque_rms.get)
    print(
        f"over {found.duration:.1f} s: velocity x {x:.3f} m/s, y {y:.3f} m/s, yaw {yaw:.3f} rad/s; "
        f"RMS torque {found.joint_torque_rms[worst]:.1f} N m ({worst}); plots: {options.out}"
    )
    return PASS


def _parse(arguments: Sequence[str] | None) -> argparse.Namespace:
    parser = make_parser(__doc__)
    parser.add_argument("--bag", type=Path, required=True, help=".mcap file or folder")
    parser.add_argument(
        "--out", type=Path, default=Path("report/compare"), help="folder for the results"
    )
    parser.add_argument("--engine", choices=ENGINES, default="warp", help="physics of the robot")
    return parser.parse_args(arguments)


if __name__ == "__main__":
    sys.exit(main())
