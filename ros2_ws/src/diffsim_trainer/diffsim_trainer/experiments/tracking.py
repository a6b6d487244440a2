"""Commanded against achieved velocity, and joint traces, in smoothed, hard and MuJoCo contact.

The shipped policy (`config/bundles/<robot>`) walks one script of commands in all three simulators
from the same standing pose (Fig. 7 and 8). CPU.
"""

from __future__ import annotations

from pathlib import Path

import numpy as np
import warp as wp

from diffsim_trainer.evaluate import EVALUATION_DT, import_mujoco_engine, policy_from_bundle
from diffsim_trainer.experiments import output
from diffsim_trainer.experiments.task import Settings
from diffsim_trainer.hard_contact_engine import HardContactEngine
from diffsim_trainer.physics import ContactModel, Robot, Simulator, load_robot
from diffsim_trainer.physics.model import KAPPA
from diffsim_trainer.rollout import ControlLoop, PolicyContract, play, standing_state

DELAY = 0.005  # s
FRICTION = 0.8
SCRIPT = (  # from time s: m/s, m/s, rad/s
    (0.0, (0.0, 0.0, 0.0)),
    (1.0, (0.5, 0.0, 0.0)),
    (4.0, (1.0, 0.0, 0.0)),
    (7.0, (0.0, 0.4, 0.0)),
    (10.0, (0.0, 0.0, 0.8)),
    (13.0, (-0.5, 0.0, -0.5)),
    (16.0, (0.0, 0.0, 0.0)),
)

TRANSIENT = 0.5  # s after a change of command that the errors leave out
TRACES = (4.0, 6.0)  # s, shown of the joints
VELOCITIES = ("forward, m/s", "sideways, m/s", "yaw rate, rad/s")


class SmoothedEngine(HardContactEngine):
    """The same step function with the smoothed law of the training."""

    def __init__(self, kappa: float, robot: Robot, num_envs: int, dt: float, friction: float):
        super().__init__(robot, num_envs, dt, friction)
        self.sim = Simulator(robot, num_envs, dt=dt, contact=ContactModel.SMOOTHED)
        params = self.params.numpy()
        params[:, KAPPA] = kappa
        self.params = wp.array(params, dtype=wp.float32, device="cpu")


def run(settings: Settings) -> None:
    config = settings.config
    robot = load_robot(config.robot)
    bundle = Path(config.robot).parents[1] / "bundles" / robot.name
    policy, contract = policy_from_bundle(bundle, robot)
    seconds = settings.pick(18, 2)
    engines = {
        "smoothed": SmoothedEngine(config.sim.kappa, robot, 1, EVALUATION_DT, FRICTION),
        "hard": HardContactEngine(robot, 1, EVALUATION_DT, FRICTION),
        "mujoco": import_mujoco_engine()(robot, 1, EVALUATION_DT, FRICTION),
    }
    walks = {name: _walk(policy, contract, step, seconds) for name, step in engines.items()}
    command = np.array([command_at(t) for t in _times(seconds)])
    _draw_and_save(settings, robot, command, walks)


def command_at(time: float) -> tuple[float, float, float]:
    return [command for start, command in SCRIPT if start <= time + 1e-9][-1]


def _times(seconds: float) -> np.ndarray:
    return np.arange(round(seconds / EVALUATION_DT)) * EVALUATION_DT


def _walk(policy, contract: PolicyContract, step, seconds: float) -> np.ndarray:
    """State [T, 37] after every substep."""
    loop = ControlLoop(policy, contract, 1)
    start = standing_state(contract.robot, 1)

    def command(time: float) -> np.ndarray:
        return np.array([command_at(time)], dtype=np.float32)

    records = play(loop, step, start, command, seconds, EVALUATION_DT, DELAY)
    return np.stack([record.state[0] for record in records])


def _draw_and_save(settings: Settings, robot: Robot, command: np.ndarray, walks: dict) -> None:
    t = _times(len(command) * EVALUATION_DT)
    figure, axes = output.new_figure(2, 3, (11, 5.5))
    shown = (t >= TRACES[0]) & (t < TRACES[1]) if t[-1] > TRACES[1] else t >= 0.0
    for name, state in walks.items():
        colour = output.COLOURS[name]
        for i, ax in enumerate(axes[0]):
            ax.plot(t, velocity(state)[:, i], color=colour, lw=0.6, label=name)
        for j, ax in enumerate(axes[1]):
            ax.plot(t[shown], state[shown, 13 + j], color=colour, lw=1.0, label=name)
    for i, name in enumerate(VELOCITIES):
        axes[0, i].plot(t, command[:, i], "r--", lw=1.0, label="command")
        axes[0, i].set_title(name, fontsize=9)
        axes[1, i].set_title(f"{robot.joint_names[i]}, rad", fontsize=9)
        axes[1, i].set_xlabel("s")
    axes[0, 0].legend(fontsize=7)
    table = [_compare(name, state, walks["hard"], command) for name, state in walks.items()]
    rows: list[output.Row] = []
    for k in range(0, len(t), 8):  # control rate
        row: output.Row = {"time": t[k]} | dict(zip(VELOCITIES, command[k], strict=True))
        for name, state in walks.items():
            row |= {f"{name} {v}": velocity(state)[k, i] for i, v in enumerate(VELOCITIES)}
            row |= {f"{name} {q}": state[k, 13 + j] for j, q in enumerate(robot.joint_names)}
        rows.append(row)
    output.save(settings.out, "tracking", figure, rows, table)


def velocity(state: np.ndarray) -> np.ndarray:
    """v_x, v_y, yaw rate [T, 3] in base axes of states [T, 37]."""
    return state[:, [7, 8, 12]]


def _compare(name: str, state: np.ndarray, hard: np.ndarray, command: np.ndarray) -> output.Row:
    """RMS errors outside transients; difference of the joints from the walk in hard contact, all
    the time and in the first 3 s, before small differences have grown."""
    settled = np.ones(len(state), bool)
    for start, _ in SCRIPT:
        first = round(start / EVALUATION_DT)
        settled[first : first + round(TRANSIENT / EVALUATION_DT)] = False
    error = (velocity(state) - command)[settled]
    early = slice(0, round(3.0 / EVALUATION_DT))
    joints = state[:, 13:25] - hard[:, 13:25]
    return {
        "contact": name,
        "velocity RMSE m/s": np.sqrt(np.square(error[:, :2]).sum(1).mean()),
        "yaw rate RMSE rad/s": np.sqrt(np.square(error[:, 2]).mean()),
        "joints to hard, first 3 s, rad": np.sqrt(np.square(joints[early]).mean()),
        "joints to hard, all, rad": np.sqrt(np.square(joints).mean()),
    }
