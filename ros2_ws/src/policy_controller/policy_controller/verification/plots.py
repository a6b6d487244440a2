"""Figures of a run. Each function draws one; PLOTS lists them in the order of the report."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from matplotlib.figure import Figure
from matplotlib.patches import Rectangle

from policy_controller.verification import style
from policy_controller.verification.gait import debounce, phases
from policy_controller.verification.layout import (
    CYCLE,
    Run,
    legend_above,
    moving_mean,
    segment_strip,
    shade,
    state_strip,
)
from policy_controller.verification.metrics import tilt
from policy_controller.verification.recording import NANO, window
from policy_controller.verification.scenario import Measure
from policy_controller.verification.timing import command_latency


@dataclass(frozen=True)
class Plot:
    """A figure of the report. `draw` returns None where the run has nothing to show."""

    key: str
    title: str
    caption: str
    draw: Callable[[Run], Figure | None]


def draw_tracking(run: Run) -> Figure:
    state, status, seconds = run.recording.state, run.recording.status, run.recording.seconds
    figure = Figure(figsize=(11, 6.4))
    axes = figure.subplots(4, 1, sharex=True, height_ratios=[0.42, 1, 1, 1])
    segment_strip(axes[0], run)
    time = seconds(state.stamp)
    signals = np.column_stack(
        (state.base_linear_velocity[:, :2], state.base_angular_velocity[:, 2])
    )
    measured = {segment.name: segment for segment in run.metrics.segments}
    for row, (ax, label) in enumerate(
        zip(
            axes[1:],
            ("forward $v_x$ [m/s]", "left $v_y$ [m/s]", "yaw rate $\\omega_z$ [rad/s]"),
            strict=True,
        )
    ):
        shade(ax, run)
        ax.plot(time, signals[:, row], color=style.SKY, linewidth=0.5, alpha=0.55, label="measured")
        ax.plot(
            time,
            moving_mean(signals[:, row], state.stamp),
            color=style.BLUE,
            label=f"measured, mean of {CYCLE:g} s",
        )
        ax.step(
            seconds(status.stamp),
            status.velocity_command[:, row],
            where="post",
            color=style.INK,
            linewidth=1.1,
            label="commanded",
        )
        ax.set_ylabel(label)
        reach = 1.35 * max(0.6, float(np.percentile(np.abs(signals[:, row]), 99.5)))
        ax.set_ylim(-reach, reach)
        for mark in run.marks(Measure.TRACKING):
            segment = measured[mark.name]
            value = segment.yaw_rate_rmse if row == 2 else segment.velocity_rmse
            if row != 1:
                ax.text(
                    seconds((mark.steady + mark.end) // 2),
                    -0.95 * reach,
                    f"{value:.2f}",
                    ha="center",
                    va="bottom",
                    fontsize=7.5,
                    color="#59636D",
                )
    legend_above(figure, axes[1])
    axes[-1].set_xlabel("time [s]")
    axes[-1].set_xlim(0.0, time[-1])
    return figure


def draw_posture(run: Run) -> Figure:
    state, seconds = run.recording.state, run.recording.seconds
    figure = Figure(figsize=(11, 4.2))
    axes = figure.subplots(4, 1, sharex=True, height_ratios=[0.5, 0.32, 1.2, 1])
    segment_strip(axes[0], run)
    time = seconds(state.stamp)
    state_strip(axes[1], run)
    for ax in axes[2:]:
        shade(ax, run)
    axes[2].plot(time, state.base_height, color=style.BLUE)
    style.limit_line(axes[2], run.scenario.fall.height, "fall below, while standing or walking")
    axes[2].set_ylabel("base height [m]")
    axes[2].set_ylim(0.0, None)
    axes[2].legend(loc="lower center")
    axes[3].plot(time, np.degrees(tilt(state.base_orientation)), color=style.BLUE)
    axes[3].set_ylabel("tilt [°]")
    axes[3].set_ylim(0.0, None)
    axes[3].set_xlabel("time [s]")
    axes[3].set_xlim(0.0, time[-1])
    return figure


def draw_path(run: Run) -> Figure:
    state = run.recording.state
    figure = Figure(figsize=(11, 4.8))
    ax = figure.subplots()
    colours = (
        style.BLUE,
        style.ORANGE,
        style.GREEN,
        style.VERMILLION,
        style.SKY,
        style.PURPLE,
        style.INK,
        style.BROWN,
    )
    number = 0
    for mark in run.recording.marks:
        part = window(state.stamp, mark.requested, mark.end)
        position = state.base_position[part]
        if len(position) < 2:
            continue
        moving = mark in run.marks(Measure.TRACKING)
        colour = colours[number % len(colours)] if moving else style.GREY
        label = None
        if moving:
            number += 1
            label = f"{number}  {mark.name}"
        ax.plot(
            position[:, 0],
            position[:, 1],
            color=colour,
            linewidth=2.2,
            label=label,
            solid_capstyle="round",
        )
        if moving:
            every = max(1, len(position) // 7)
            heading = _heading(state.base_orientation[part])[every // 2 :: every]
            ax.quiver(
                position[every // 2 :: every, 0],
                position[every // 2 :: every, 1],
                heading[:, 0],
                heading[:, 1],
                color=colour,
                angles="xy",
                scale=36,
                width=0.0022,
                headwidth=4.5,
                zorder=3,
            )
    start, end = state.base_position[0], state.base_position[-1]
    ax.plot(*start[:2], marker="o", color=style.INK, markersize=7, linestyle="none", label="start")
    ax.plot(*end[:2], marker="s", color=style.INK, markersize=7, linestyle="none", label="end")
    center = (state.base_position.max(axis=0) + state.base_position.min(axis=0)) / 2
    ax.plot(*(center[:2, None] + np.array([[-0.6, 0.6], [-0.6, 0.6]])), alpha=0.0)  # 1 m or more
    ax.set_aspect("equal", adjustable="datalim")
    ax.set_xlabel("x [m]")
    ax.set_ylabel("y [m]")
    ax.legend(loc="center left", bbox_to_anchor=(1.01, 0.5))
    return figure


def draw_gait(run: Run) -> Figure | None:
    excerpt = run.excerpt()
    if excerpt is None:
        return None
    mark, start, end = excerpt
    state, names = run.recording.state, run.recording.foot_names
    part = window(state.stamp, start, end)
    time = (state.stamp[part] - start) * NANO
    if len(time) < 2:
        return None
    figure = Figure(figsize=(11, 4.6))
    above, below = figure.subplots(2, 1, sharex=True, height_ratios=[1, 1.5])
    for foot, name in enumerate(names):
        contact = debounce(state.foot_contact[part, foot], state.stamp[part])
        for first, last in phases(contact, True):
            begin, stop = time[first], time[min(last, len(time) - 1)]
            above.add_patch(
                Rectangle(
                    (begin, 3 - foot - 0.36),
                    stop - begin,
                    0.72,
                    color=style.LEGS[foot],
                    linewidth=0,
                )
            )
        below.plot(
            time, 1e3 * state.foot_height[part, foot], color=style.LEGS[foot], label=_leg(name)
        )
    above.set_yticks(range(4), [_leg(name) for name in names][::-1])
    above.set_ylim(-0.6, 3.6)
    above.grid(visible=False, axis="y")
    above.set_title(f"Feet in contact, '{mark.name}'")
    style.limit_line(below, 1e3 * run.scenario.limits.swing_apex, "limits")
    style.limit_line(below, -1e3 * run.scenario.limits.penetration)
    below.set_ylabel("lowest point of foot [mm]")
    below.set_xlabel("time [s]")
    below.set_xlim(time[0], time[-1])
    legend_above(figure, below)
    return figure


def draw_joints(run: Run) -> Figure | None:
    excerpt = run.excerpt()
    if excerpt is None:
        return None
    _, start, end = excerpt
    state, command = run.recording.state, run.recording.command
    part, asked = window(state.stamp, start, end), window(command.stamp, start, end)
    figure = Figure(figsize=(11, 6.4))
    axes = figure.subplots(4, 3, sharex=True)
    for joint, (ax, name) in enumerate(zip(axes.flat, run.recording.joint_names, strict=True)):
        ax.step(
            (command.stamp[asked] - start) * NANO,
            command.position[asked, joint],
            where="post",
            color=style.GREY,
            linewidth=1.0,
            label="target",
        )
        ax.plot(
            (state.stamp[part] - start) * NANO,
            state.joint_position[part, joint],
            color=style.LEGS[joint // 3],
            label="measured",
        )
        ax.set_title(name.replace("_", " "))
        if joint % 3 == 0:
            ax.set_ylabel("position [rad]")
        if joint >= 9:
            ax.set_xlabel("time [s]")
    axes[0, 0].set_xlim(0.0, (end - start) * NANO)
    legend_above(figure, axes[0, 0])
    return figure


def draw_phase_portraits(run: Run) -> Figure | None:
    excerpt = run.excerpt()
    if excerpt is None:
        return None
    mark, _, _ = excerpt
    state = run.recording.state
    part = window(state.stamp, mark.steady, mark.end)
    figure = Figure(figsize=(11, 3.6))
    axes = figure.subplots(1, 3)
    for kind, ax in enumerate(axes):
        for leg in range(4):
            joint = 3 * leg + kind
            ax.plot(
                state.joint_position[part, joint],
                state.joint_velocity[part, joint],
                color=style.LEGS[leg],
                linewidth=0.6,
                alpha=0.85,
                label=run.recording.joint_names[joint].split("_")[0],
            )
        ax.set_title(run.recording.joint_names[kind].split("_")[-1])
        ax.set_xlabel("position [rad]")
    axes[0].set_ylabel("speed [rad/s]")
    legend_above(figure, axes[-1])
    return figure


def draw_torques(run: Run) -> Figure:
    state, limits = run.recording.state, run.limits
    part = window(state.stamp, run.recording.origin, int(state.stamp[-1]) + 1)
    time = run.recording.seconds(state.stamp[part])
    figure = Figure(figsize=(11, 5.8))
    axes = figure.subplots(3, 2, width_ratios=[2.6, 1], sharex="col")
    for kind in range(3):
        series, plane = axes[kind]
        shade(series, run)
        for leg in range(4):
            joint = 3 * leg + kind
            series.plot(
                time,
                state.joint_torque[part, joint],
                color=style.LEGS[leg],
                linewidth=0.45,
                alpha=0.8,
                label=run.recording.joint_names[joint].split("_")[0],
            )
            plane.plot(
                state.joint_velocity[part, joint],
                state.joint_torque[part, joint],
                linestyle="none",
                marker=".",
                markersize=0.9,
                color=style.LEGS[leg],
                alpha=0.4,
                rasterized=True,
            )
        for sign in (-1, 1):
            style.limit_line(series, sign * limits.torque)
        plane.add_patch(
            Rectangle(
                (-limits.velocity, -limits.torque),
                2 * limits.velocity,
                2 * limits.torque,
                fill=False,
                edgecolor=style.VERMILLION,
                linestyle=(0, (5, 3)),
                linewidth=1.0,
            )
        )
        series.set_title(run.recording.joint_names[kind].split("_")[-1])
        series.set_ylabel("torque [N m]")
        series.set_ylim(-1.15 * limits.torque, 1.15 * limits.torque)
        plane.set_ylim(-1.15 * limits.torque, 1.15 * limits.torque)
        plane.set_xlim(-1.25 * limits.velocity, 1.25 * limits.velocity)
    legend_above(figure, axes[0, 0])
    axes[2, 0].set_xlabel("time [s]")
    axes[2, 0].set_xlim(time[0], time[-1])
    axes[2, 1].set_xlabel("joint speed [rad/s]")
    return figure


def draw_standstill(run: Run) -> Figure | None:
    marks = run.marks(Measure.STANDSTILL)
    if not marks:
        return None
    mark, state = marks[0], run.recording.state
    whole, steady = (
        window(state.stamp, mark.start, mark.end),
        window(state.stamp, mark.steady, mark.end),
    )
    if steady.stop - steady.start < 2:
        return None
    time = (state.stamp[whole] - mark.start) * NANO
    drift = np.linalg.norm(
        state.base_position[whole, :2] - state.base_position[steady.start, :2], axis=1
    )
    speed = np.sqrt((state.joint_velocity[whole] ** 2).mean(axis=1))
    figure = Figure(figsize=(11, 2.9))
    axes = figure.subplots(1, 2)
    for ax, value, limit, label in (
        (axes[0], 1e3 * drift, 1e3 * run.scenario.limits.drift, "distance from rest position [mm]"),
        (axes[1], speed, run.scenario.limits.joint_speed_rms, "joint speed, RMS of 12 [rad/s]"),
    ):
        ax.axvspan((mark.steady - mark.start) * NANO, time[-1], color=style.BAND, linewidth=0)
        ax.plot(time, value, color=style.BLUE)
        style.limit_line(ax, limit, "limit")
        ax.set_ylabel(label)
        ax.set_xlabel("time since zero command [s]")
        ax.set_ylim(0.0, 2.0 * limit)
        ax.set_xlim(0.0, time[-1])
        ax.legend(loc="upper right", frameon=True)
    return figure


def draw_timing(run: Run) -> Figure:
    recording, timing = run.recording, run.metrics.timing
    used = (recording.status.stamp >= recording.origin) & (recording.status.period > 0.0)
    period = 1e3 * recording.status.period[used]
    nominal, tolerance = 1e3 * timing.nominal_period, 1e3 * timing.period_tolerance
    figure = Figure(figsize=(11, 3.2))
    axes = figure.subplots(1, 3, width_ratios=[1.5, 1, 1])
    reach = max(2.0 * tolerance, 1.05 * float(np.abs(period - nominal).max(initial=0.0)))
    axes[0].axvspan(
        nominal - tolerance,
        nominal + tolerance,
        color=style.BAND,
        linewidth=0,
        label=f"±{tolerance:g} ms",
    )
    axes[0].hist(
        period, bins=np.linspace(nominal - reach, nominal + reach, 81), color=style.BLUE, log=True
    )
    axes[0].set_title(f"Control period: {100 * timing.period_share:.1f} % within ±{tolerance:g} ms")
    axes[0].set_xlabel("period [ms]")
    axes[0].set_ylabel("ticks")
    axes[0].legend(loc="upper right")
    for ax, value, title, spread in (
        (axes[1], 1e3 * recording.status.tick_duration[used], "Control tick", timing.tick),
        (axes[2], 1e3 * command_latency(recording), "State to command", timing.latency),
    ):
        top = float(np.percentile(value, 99.8)) if value.size else 1.0
        ax.hist(value, bins=np.linspace(0.0, top, 50), color=style.SKY)
        for percentile, dashes in (("p50", "solid"), ("p99", (0, (2, 2)))):
            at = 1e3 * getattr(spread, percentile)
            ax.axvline(
                at,
                color=style.INK,
                linewidth=1.0,
                linestyle=dashes,
                label=f"{percentile}: {at:.2f} ms",
            )
        ax.set_title(title)
        ax.legend(loc="upper right", frameon=True)
        ax.set_xlabel("duration [ms]")
    return figure


PLOTS = (
    Plot(
        "tracking",
        "Velocity tracking",
        "Commanded and measured base velocity, base frame. Shaded: steady part of a segment, the "
        "part that is judged. Small numbers: RMS error of the planar velocity vector (top) and of "
        "the yaw rate (bottom) over that part.",
        draw_tracking,
    ),
    Plot(
        "posture",
        "Posture and motion states",
        "Base height and tilt through the whole run, with the motion state that the controller "
        "reports.",
        draw_posture,
    ),
    Plot(
        "path",
        "Path of the base",
        "Top view. Arrows show where the robot looks while it walks a segment.",
        draw_path,
    ),
    Plot(
        "gait",
        "Gait",
        "Contact of each foot and height of its lowest point over the ground, excerpt of the first "
        "tracking segment. Dashed: least swing apex and deepest penetration allowed.",
        draw_gait,
    ),
    Plot(
        "standstill",
        "Standing at zero command",
        "Walking state with zero command. Shaded: the part that is judged.",
        draw_standstill,
    ),
    Plot(
        "joints",
        "Joint positions",
        "Target of the controller and measured position, excerpt of the first tracking segment.",
        draw_joints,
    ),
    Plot(
        "phase_portraits",
        "Phase portraits",
        "Joint speed over joint position in the steady part of the first tracking segment: a "
        "closed loop is a periodic gait.",
        draw_phase_portraits,
    ),
    Plot(
        "torques",
        "Joint torques",
        "Measured torque over time, and over joint speed. Dashed: torque and speed limits of the "
        "bundle.",
        draw_torques,
    ),
    Plot(
        "timing",
        "Timing of the control loop",
        "State to command: from the robot handing a state to the middleware until the controller "
        "hands over the command that answers it.",
        draw_timing,
    ),
)


def _leg(foot_name: str) -> str:
    return foot_name.split("_")[0]


def _heading(orientation: np.ndarray) -> np.ndarray:
    """Base x axis in the world, horizontal part [T, 2]."""
    x, y, z, w = orientation.T
    return np.column_stack((1 - 2 * (y * y + z * z), 2 * (x * y + w * z)))
