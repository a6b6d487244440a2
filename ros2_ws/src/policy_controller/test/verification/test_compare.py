"""Comparison of two runs: what is sent again, and differences that are known."""

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import yaml

from policy_controller.verification.compare import difference, replay_scenario
from policy_controller.verification.compare_plot import draw_joints, draw_velocity

SUITE = Path(__file__).parents[5] / "config" / "scenarios" / "suite.yaml"


def later(recording, seconds: float):
    """The same run on a clock that is ahead by `seconds`."""
    shift = round(seconds * 1e9)
    tracks = {
        name: replace(getattr(recording, name), stamp=getattr(recording, name).stamp + shift)
        for name in ("state", "command", "status")
    }
    return replace(recording, **tracks)


def test_commands_of_the_walk_are_sent_again(recording, scenario):
    shared = yaml.safe_load(SUITE.read_text())["shared"]
    segments = replay_scenario(recording, shared).segments
    walked = [s for s in scenario.segments if s.name != "stand"]
    assert [s.command for s in segments[1:]] == [s.command for s in walked]
    assert segments[0].reach == "stand" and segments[1].request == "walk"
    wanted = [s.duration for s in walked]
    assert [s.duration for s in segments[1:]] == pytest.approx(wanted, abs=0.05)


def test_same_run_on_another_clock_has_no_difference(recording):
    found = difference(recording, later(recording, 123.0))
    assert max(found.velocity) < 1e-9
    assert max(found.joint_torque_rms.values()) < 1e-9


def test_known_offsets_are_found(recording):
    state = recording.state
    velocity = state.base_linear_velocity + np.array((0.1, -0.2, 0.0))
    changed = replace(state, base_linear_velocity=velocity, joint_torque=1.5 * state.joint_torque)
    found = difference(recording, replace(recording, state=changed))
    assert found.velocity == pytest.approx((0.1, 0.2, 0.0), abs=1e-9)
    rms = np.sqrt((state.joint_torque[state.stamp >= recording.marks[1].start] ** 2).mean(axis=0))
    assert list(found.joint_torque_rms.values()) == pytest.approx(0.5 * rms, rel=0.01)


def test_a_recording_without_walking_is_refused(recording):
    still = replace(recording.status, motion_state=np.zeros_like(recording.status.motion_state))
    with pytest.raises(ValueError, match="no walking"):
        difference(replace(recording, status=still), recording)


def test_overlays_are_drawn(recording, tmp_path):
    for draw in (draw_velocity, draw_joints):
        draw(recording, later(recording, 1.0), tmp_path / "plot.png")
        assert (tmp_path / "plot.png").stat().st_size > 20_000
        (tmp_path / "plot.png").unlink()
