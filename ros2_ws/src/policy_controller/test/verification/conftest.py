"""A hand-made recording with known answers, and the scenario that belongs to it."""

import copy

import numpy as np
import pytest

from policy_controller.verification.feet import FootKinematics
from policy_controller.verification.metrics import RobotLimits
from policy_controller.verification.recording import (
    JointCommandTrack,
    Mark,
    Recording,
    StateTrack,
    StatusTrack,
)
from policy_controller.verification.scenario import MOTION_STATES, parse_scenario

JOINTS = tuple(
    f"{leg}_{joint}" for leg in ("LF", "RF", "LH", "RH") for joint in ("HAA", "HFE", "KFE")
)
FEET = ("LF_FOOT", "RF_FOOT", "LH_FOOT", "RH_FOOT")
RATE = 400  # Hz, states
PERIOD = 0.02  # s, control
APEX, DUTY, STEP_RATE, HEIGHT = 0.07, 0.6, 2.0, 0.55
START = 1_700_000_000_000_000_000  # ns; a system clock, so that stamps need all 64 bits

SCENARIO = {
    "schema_version": 1,
    "name": "hand made",
    "description": "Stand, walk, turn, stop.",
    "command_rate": 20.0,
    "tolerated": ["TARGET_POSITION"],
    "fall": {"tilt": 1.0, "height": 0.25},
    "limits": {
        "velocity_rmse": 0.2,
        "yaw_rate_rmse": 0.2,
        "drift": 0.05,
        "joint_speed_rms": 0.1,
        "swing_apex": 0.04,
        "duty_factor": 0.8,
        "penetration": 0.005,
    },
    "targets": {
        "period_tolerance": 0.002,
        "period_share": 0.99,
        "tick_duration": 0.002,
        "stance_slip": 0.15,
        "foot_agreement": 0.005,
        "cut_share": 0.01,
    },
    "segments": [
        {"name": "stand", "request": "stand", "duration": 1.0},
        {
            "name": "forward",
            "request": "walk",
            "command": [0.8, 0.0, 0.0],
            "duration": 6.0,
            "settle": 1.0,
            "measure": "tracking",
        },
        {
            "name": "turn",
            "command": [0.0, 0.0, -0.5],
            "duration": 6.0,
            "settle": 1.0,
            "measure": "tracking",
        },
        {"name": "stop", "duration": 11.0, "settle": 1.0, "measure": "standstill"},
    ],
}


LEG = """
<link name="{leg}_HIP"/><link name="{leg}_THIGH"/><link name="{leg}_SHANK"/>
<link name="{leg}_FOOT">
  <collision><origin xyz="0 0 0.01"/><geometry><sphere radius="{radius}"/></geometry></collision>
</link>
<joint name="{leg}_HAA" type="revolute"><parent link="base"/><child link="{leg}_HIP"/>
  <origin xyz="{x} {y} 0"/><axis xyz="1 0 0"/></joint>
<joint name="{leg}_HFE" type="revolute"><parent link="{leg}_HIP"/><child link="{leg}_THIGH"/>
  <origin xyz="0 0 0"/><axis xyz="0 1 0"/></joint>
<joint name="{leg}_KFE" type="revolute"><parent link="{leg}_THIGH"/><child link="{leg}_SHANK"/>
  <origin xyz="0 0 -{thigh}"/><axis xyz="0 1 0"/></joint>
<joint name="{leg}_TIP" type="fixed"><parent link="{leg}_SHANK"/><child link="{leg}_FOOT"/>
  <origin xyz="0 0 -{shank_and_offset}"/></joint>
"""


def leg_urdf(thigh: float = 0.3, shank: float = 0.35, radius: float = 0.03) -> str:
    """Four legs, x forward: hip roll about x, hip and knee about y, ball foot below the knee."""
    parts = []
    for leg, x, y in (("LF", 0.3, 0.2), ("RF", 0.3, -0.2), ("LH", -0.3, 0.2), ("RH", -0.3, -0.2)):
        parts.append(
            LEG.format(leg=leg, x=x, y=y, thigh=thigh, shank_and_offset=shank + 0.01, radius=radius)
        )
    return f'<robot name="four_legs"><link name="base"/>{"".join(parts)}</robot>'


def trot(time: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Contact [T, 4] and height [T, 4] of a trot: per foot STEP_RATE steps a second, in contact for
    DUTY of each, half-sine swing."""
    phase = (time[:, None] * STEP_RATE + np.array([0.0, 0.5, 0.5, 0.0])) % 1.0
    contact = phase < DUTY
    swing = np.clip((phase - DUTY) / (1.0 - DUTY), 0.0, 1.0)
    return contact, np.where(contact, 0.0, APEX * np.sin(np.pi * swing))


@pytest.fixture
def scenario_data() -> dict:
    return copy.deepcopy(SCENARIO)


@pytest.fixture(scope="session")
def scenario():
    return parse_scenario(SCENARIO)


@pytest.fixture(scope="session")
def limits() -> RobotLimits:
    return RobotLimits(np.full(12, -3.0), np.full(12, 3.0), velocity=8.5, torque=80.0)


@pytest.fixture(scope="session")
def urdf(tmp_path_factory):
    path = tmp_path_factory.mktemp("robot") / "four_legs.urdf"
    path.write_text(leg_urdf())
    return path


@pytest.fixture(scope="session")
def kinematics(urdf) -> FootKinematics:
    return FootKinematics(urdf, JOINTS, FEET)


@pytest.fixture(scope="session")
def recording(scenario) -> Recording:
    """A run that follows every command exactly and trots as `trot` says while a command is
    given."""
    marks, begin = [], START
    for segment in scenario.segments:
        end = begin + round(segment.duration * 1e9)
        marks.append(
            Mark(segment.name, begin, begin, begin + round(segment.settle * 1e9), end, True)
        )
        begin = end
    total = scenario.duration
    stamp = START + (np.arange(round(total * RATE)) * 1e9 / RATE).astype(np.int64)
    time = (stamp - START) * 1e-9
    count = len(stamp)
    command = np.zeros((count, 3))
    for segment, mark in zip(scenario.segments, marks, strict=True):
        command[(stamp >= mark.start) & (stamp < mark.end)] = segment.command
    moving = np.any(command != 0.0, axis=1)

    contact, height = trot(time)
    contact = np.where(moving[:, None], contact, True)
    height = np.where(moving[:, None], height, 0.0)
    yaw = np.cumsum(command[:, 2]) / RATE
    position = np.zeros((count, 3))
    position[:, 0] = np.cumsum(command[:, 0]) / RATE
    position[:, 2] = HEIGHT
    orientation = np.column_stack((np.zeros((count, 2)), np.sin(yaw / 2), np.cos(yaw / 2)))
    feet = position[:, None, :] + np.array(
        [[0.3, 0.2, 0], [0.3, -0.2, 0], [-0.3, 0.2, 0], [-0.3, -0.2, 0]]
    )
    feet[:, :, 2] = height
    sway = 0.3 * np.sin(2 * np.pi * STEP_RATE * time)[:, None] * np.ones(12) * moving[:, None]
    state = StateTrack(
        stamp=stamp,
        sent=stamp + 50_000,
        robot_state=np.zeros(count, dtype=np.int8),
        base_position=position,
        base_orientation=orientation,
        base_linear_velocity=np.column_stack((command[:, :2], np.zeros(count))),
        base_angular_velocity=np.column_stack((np.zeros((count, 2)), command[:, 2])),
        joint_position=sway,
        joint_velocity=0.3
        * 2
        * np.pi
        * STEP_RATE
        * np.cos(2 * np.pi * STEP_RATE * time)[:, None]
        * np.ones(12)
        * moving[:, None],
        joint_torque=np.where(moving[:, None], 20.0 * np.sin(7.0 * time)[:, None], 5.0)
        * np.ones(12),
        foot_contact=contact,
        foot_position=feet,
        foot_force=np.where(contact[:, :, None], [0.0, 0.0, 125.0], 0.0),
        ground_height=np.zeros((count, 5)),
    )
    ticks = stamp[:: round(RATE * PERIOD)]
    steps = len(ticks)
    walk, stand = MOTION_STATES.index("walk"), MOTION_STATES.index("stand")
    status = StatusTrack(
        stamp=ticks + 300_000,
        motion_state=np.where(ticks < marks[1].start, stand, walk).astype(np.uint8),
        velocity_command=command[:: round(RATE * PERIOD)],
        state_age=np.full(steps, 0.0003),
        command_age=np.full(steps, 0.02),
        period=np.full(steps, PERIOD),
        tick_duration=np.full(steps, 0.0006),
        ticks=np.arange(steps, dtype=np.int64),
        overruns=np.zeros(steps, dtype=np.int64),
        reasons=((),) * steps,
        bundle="0" * 64,
    )
    joint_command = JointCommandTrack(
        stamp=ticks,
        sent=ticks + 50_000 + 900_000,
        position=sway[:: round(RATE * PERIOD)] + 0.02,
        kp=np.full((steps, 12), 85.0),
        kd=np.full((steps, 12), 0.6),
    )
    return Recording(JOINTS, FEET, PERIOD, state, joint_command, status, tuple(marks))
