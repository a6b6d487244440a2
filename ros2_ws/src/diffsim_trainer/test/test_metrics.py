"""Gait and tracking metrics on trajectories whose answer is known."""

import numpy as np
import pytest

from diffsim_trainer.metrics import Trajectory, has_fallen, measure, swing_apexes

DT = 0.01


def trajectory(steps: int = 400) -> Trajectory:
    state = np.zeros((steps, 1, 37))
    state[:, :, 2], state[:, :, 6] = 0.56, 1.0
    return Trajectory(DT, state, np.zeros((steps, 1, 4, 10)), np.zeros((steps, 1, 3)))


def test_swing_apexes_of_a_known_foot():
    """Loaded - 0.2 s swing to 5 cm - loaded - 0.02 s of chatter - loaded - swing that never
    ends."""
    height = np.concatenate(
        [
            np.zeros(10),
            0.05 * np.sin(np.linspace(0, np.pi, 21)),
            np.zeros(10),
            [0.001] * 2,
            np.zeros(5),
            [0.1] * 9,
        ]
    )
    loaded = np.concatenate(
        [np.ones(10), np.zeros(21), np.ones(10), np.zeros(2), np.ones(5), np.zeros(9)]
    ).astype(bool)
    assert swing_apexes(height, loaded, DT) == pytest.approx([0.05], abs=1e-6)


def test_tracking_error_splits_into_rmse_and_bias():
    t = trajectory()
    t.command[..., 0] = 0.5
    t.state[:, 0, 7] = 0.4 + 0.2 * np.sign(np.sin(2 * np.pi * np.arange(400) * DT + 1e-9))
    m = measure(t, measured_from=0.0)
    assert m["velocity_bias"] == pytest.approx(0.1, abs=2e-3)
    assert m["velocity_rmse"] == pytest.approx(np.hypot(0.1, 0.2), abs=2e-3)


def test_slip_counts_loaded_feet_only_and_penetration_is_positive_down():
    t = trajectory()
    t.sensors[:, 0, :, 4] = [0.3, 0.3, 2.0, 2.0]
    t.sensors[:, 0, :2, 9] = 100.0
    t.sensors[200, 0, 0, 3] = -0.004
    m = measure(t, measured_from=0.0)
    assert m["slip"] == pytest.approx(0.3)
    assert m["duty"] == 1.0
    assert m["penetration"] == pytest.approx(0.004)


def test_drift_counts_after_settling():
    t = trajectory()
    t.state[:, 0, 0] = np.where(np.arange(400) < 100, 5.0, 0.02 * np.linspace(0, 1, 400))
    assert measure(t, measured_from=2.0)["drift"] < 0.02
    assert measure(t, measured_from=0.0)["drift"] > 4.0


@pytest.mark.parametrize(("index", "value"), [(2, 0.2), (3, 0.8), (10, np.nan)])
def test_falls_are_seen_at_any_time(index, value):
    t = trajectory()
    assert not has_fallen(t.state)[0]
    t.state[50, 0, index] = value
    assert has_fallen(t.state)[0]


def test_heading_drift_is_an_angle_and_wraps():
    """From +170 to -170 degrees is 20 degrees, not 340."""
    t = trajectory()
    for step, degrees in ((0, 170.0), (-1, -170.0)):
        half = np.radians(degrees) / 2
        t.state[step, 0, 3:7] = [0.0, 0.0, np.sin(half), np.cos(half)]
    assert measure(t, measured_from=0.0)["heading_drift"] == pytest.approx(np.radians(20.0))


def test_part_selects_one_robot_and_its_time():
    t = trajectory(400)
    both = Trajectory(
        DT,
        np.concatenate([t.state, t.state + 1.0], 1),
        *(np.tile(x, (1, 2) + (1,) * (x.ndim - 2)) for x in (t.sensors, t.command)),
    )
    part = both.part(1, 2.0).after(0.5)
    assert part.state.shape == (150, 1, 37)
    assert part.sensors.shape == (150, 1, 4, 10)
    assert part.state[0, 0, 6] == 2.0
