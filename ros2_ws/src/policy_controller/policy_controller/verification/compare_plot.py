"""Overlays of a recorded and a simulated walk."""

from __future__ import annotations

from pathlib import Path

import matplotlib.pyplot as plt
import numpy as np

from policy_controller.verification.recording import NANO, Recording
from policy_controller.verification.scenario import MOTION_STATES
from policy_controller.verification.style import BLUE, INK, VERMILLION, house_style

WALK = MOTION_STATES.index("walk")
LEG, WINDOW, BEFORE = (
    "LF",
    2.0,
    3.0,
)  # the leg drawn, for how long [s], how long after the take-over
RECORDED, SIMULATED = (
    {"color": BLUE, "label": "recorded"},
    {"color": VERMILLION, "label": "simulated"},
)


def _take_over(recording: Recording) -> int:
    return int(recording.status.stamp[np.argmax(recording.status.motion_state == WALK)])


def draw_velocity(recorded: Recording, simulated: Recording, path: Path) -> None:
    """Velocity of the base against the command, from the take-over on."""
    with house_style():
        figure, axes = plt.subplots(3, 1, figsize=(9.0, 6.0), sharex=True)
        for recording, look in ((recorded, RECORDED), (simulated, SIMULATED)):
            state, begin = recording.state, _take_over(recording)
            time = (state.stamp - begin) * NANO
            for k in range(2):
                axes[k].plot(time, state.base_linear_velocity[:, k], linewidth=0.8, **look)
            axes[2].plot(time, state.base_angular_velocity[:, 2], linewidth=0.8, **look)
        status = recorded.status
        time = (status.stamp - _take_over(recorded)) * NANO
        for k, text in enumerate(("forward, m/s", "left, m/s", "yaw rate, rad/s")):
            axes[k].plot(time, status.velocity_command[:, k], color=INK, label="command")
            axes[k].set_ylabel(text)
            axes[k].set_xlim(0.0, time[-1])
        axes[0].legend(ncols=3)
        axes[2].set_xlabel("time since the take-over, s")
        figure.savefig(path)
        plt.close(figure)


def draw_joints(recorded: Recording, simulated: Recording, path: Path) -> None:
    """Position, velocity and torque of one leg's joints over two seconds."""
    with house_style():
        figure, axes = plt.subplots(3, 3, figsize=(11.0, 6.5), sharex=True)
        for recording, look in ((recorded, RECORDED), (simulated, SIMULATED)):
            state = recording.state
            time = (state.stamp - _take_over(recording)) * NANO
            used = (time >= BEFORE) & (time < BEFORE + WINDOW)
            rows = (state.joint_position, state.joint_velocity, state.joint_torque)
            for column, joint in enumerate(("HAA", "HFE", "KFE")):
                index = recording.joint_names.index(f"{LEG}_{joint}")
                for row, values in enumerate(rows):
                    axes[row, column].plot(time[used], values[used, index], **look)
                axes[0, column].set_title(f"{LEG}_{joint}")
                axes[2, column].set_xlabel("time since the take-over, s")
        for row, text in enumerate(("position, rad", "velocity, rad/s", "torque, N m")):
            axes[row, 0].set_ylabel(text)
        axes[0, 0].legend()
        figure.savefig(path)
        plt.close(figure)
