"""Faults of the simulated robot and the noise of its estimator."""

import numpy as np
import pytest

from anymal_bridge.estimator_noise import EstimatorNoise, NoiseLevels
from anymal_bridge.faults import CommandLink, Faults, StateLink, StuckJoint, corrupt
from anymal_bridge.joint_command import damping_command
from anymal_bridge.kinematics import rotation_matrix
from anymal_bridge.robot_sample import RobotSample, RobotState

STEP = 2_500_000


def arrivals(faults: Faults, drive_delay: float, send_every: int, steps: int):
    """(sent, received) steps of commands sent every ``send_every`` steps."""
    link, result = CommandLink(drive_delay, seed=1), []
    for k in range(steps):
        if k % send_every == 0:
            link.send(k * STEP, damping_command(k, 1.0), faults)
        command = link.receive(k * STEP)
        if command:
            result.append((command.stamp_ns, k))
    return result


@pytest.mark.parametrize(("delay", "steps_late"), [(0.0, 2), (0.0025, 3), (0.02, 10)])
def test_command_arrives_exactly_after_drive_delay_and_fault(delay, steps_late):
    """The drives' own 5 ms are two steps; also the first command and with others under way."""
    result = arrivals(Faults(command_delay=delay), drive_delay=0.005, send_every=4, steps=40)
    assert result[0][0] == 0
    assert all(received - sent == steps_late for sent, received in result)


def test_jitter_delays_within_its_bound_and_keeps_the_order():
    faults = Faults(command_delay=0.01, command_jitter=0.02)
    result = arrivals(faults, drive_delay=0.0, send_every=8, steps=4000)
    late = np.array([received - sent for sent, received in result])
    assert late.min() >= 4 and late.max() <= 12  # steps: 10 ms to 30 ms
    assert late.std() > 1.0
    assert np.all(np.diff([sent for sent, _ in result]) > 0)


def test_reordered_command_arrives_with_its_successor_and_after_it():
    """Every second one is held: of each pair the older arrives last, when the newer one is due."""
    link = CommandLink(0.0, seed=1)
    for k, share in enumerate((1.0, 0.0, 1.0, 0.0)):
        link.send(k * STEP, damping_command(k, 1.0), Faults(command_reorder=share))
        received = link.receive(k * STEP)
        assert (received.stamp_ns if received else None) == (None, 0, None, 2)[k]


def test_duplicate_arrives_on_time_and_again_after_its_successor():
    link, received = CommandLink(0.0, seed=1), []
    for k in range(4):
        link.send(k * STEP, damping_command(k, 1.0), Faults(command_duplicate=float(k == 0)))
        received.append(link.receive(k * STEP).stamp_ns)
    assert received == [0, 0, 2, 3]


def test_stuck_joint_reads_what_it_read_first_until_the_fault_is_gone():
    stuck, faults = StuckJoint(), Faults(stuck_joint=5)
    for k in range(3):
        sample = RobotSample()
        sample.state[:] = np.arange(37.0) + k
        stuck.hold(sample, faults)
        assert sample.state[13 + 5] == 18.0 and sample.state[25 + 5] == 0.0
        others = [i for i in range(37) if i not in (18, 30)]
        np.testing.assert_array_equal(sample.state[others], (np.arange(37.0) + k)[others])
    for faults, first in ((Faults(), 40.0), (Faults(stuck_joint=5), 50.0)):
        sample = RobotSample()
        sample.state[:] = first
        stuck.hold(sample, faults)
        assert sample.state[13 + 5] == first


def test_twist_in_odom_axes_is_turned_by_the_robots_yaw():
    sample = RobotSample()
    sample.state[3:7] = (0.0, 0.0, np.sqrt(0.5), np.sqrt(0.5))  # 90 degrees to the left
    sample.state[7:13] = (1.0, 2.0, 3.0, 4.0, 5.0, 6.0)
    corrupt(sample, Faults(twist_in_odom=True))
    np.testing.assert_allclose(sample.state[7:13], (-2.0, 1.0, 3.0, -5.0, 4.0, 6.0), atol=1e-12)


def test_biases_shift_pitch_and_forward_velocity_alone():
    sample, clean = RobotSample(), RobotSample()
    sample.state[3:7] = clean.state[3:7] = (0.0, 0.0, 0.0, 1.0)
    EstimatorNoise(NoiseLevels(pitch_bias=0.02, velocity_bias=0.1), seed=0).add(sample)
    np.testing.assert_allclose(sample.state[3:7], (0.0, np.sin(0.01), 0.0, np.cos(0.01)), atol=1e-6)
    assert sample.state[7] - clean.state[7] == pytest.approx(0.1, abs=1e-6)
    others = np.r_[0:3, 8:37]
    np.testing.assert_array_equal(sample.state[others], clean.state[others])


def test_share_of_commands_is_lost():
    # 2000 commands at 30 %: 600 +- 3 sigma, sigma = sqrt(2000 * 0.3 * 0.7) = 20.5
    result = arrivals(Faults(command_loss=0.3), drive_delay=0.0, send_every=1, steps=2000)
    assert 2000 - len(result) == pytest.approx(600, abs=62)


def test_share_of_states_is_lost():
    link = StateLink(seed=1)
    lost = sum(link.lost(Faults(state_loss=0.3)) for _ in range(2000))
    assert lost == pytest.approx(600, abs=62)
    assert not any(link.lost(Faults()) for _ in range(100))


def test_corruption_hits_what_it_names_and_nothing_else():
    sample, clean = RobotSample(), RobotSample()
    clean.state[:] = sample.state[:] = np.arange(37.0)
    corrupt(sample, Faults(nan_joint=5, quaternion_wxyz=True, robot_state=RobotState.ERROR_SENSOR))
    assert np.flatnonzero(np.isnan(sample.state)).tolist() == [13 + 5, 25 + 5]
    # xyzw 3 4 5 6 is sent as w x y z.
    assert sample.state[3:7].tolist() == [6.0, 3.0, 4.0, 5.0]
    assert sample.robot_state is RobotState.ERROR_SENSOR
    untouched = [i for i in range(37) if i not in (18, 30, 3, 4, 5, 6)]
    np.testing.assert_array_equal(sample.state[untouched], clean.state[untouched])


def test_no_fault_changes_nothing():
    sample = RobotSample()
    sample.state[:] = np.arange(37.0)
    corrupt(sample, Faults())
    np.testing.assert_array_equal(sample.state, np.arange(37.0))


def test_noise_has_its_standard_deviations_and_its_seed():
    levels = NoiseLevels(0.05, 0.1, 0.2, 0.01, 1.5)
    noise, again = EstimatorNoise(levels, seed=3), EstimatorNoise(levels, seed=3)
    truth = RobotSample()
    truth.state[3:7] = np.array([0.1, -0.2, 0.3, 0.9]) / np.sqrt(0.95)
    rows = []
    for _ in range(4000):
        sample, twin = RobotSample(), RobotSample()
        sample.copy_from(truth)
        twin.copy_from(truth)
        noise.add(sample)
        again.add(twin)
        np.testing.assert_array_equal(sample.state, twin.state)
        turn = rotation_matrix(truth.state[3:7]).T @ rotation_matrix(sample.state[3:7])
        rows.append([turn[2, 1], turn[0, 2], turn[1, 0], *sample.state[7:]])
    # Sample deviation of 4000 draws: relative error 1 / sqrt(8000) = 1.1 %; 5 sigma.
    expected = [0.05] * 3 + [0.1] * 3 + [0.2] * 3 + [0.01] * 12 + [1.5] * 12
    np.testing.assert_allclose(np.std(rows, axis=0), expected, rtol=0.056)
    np.testing.assert_array_equal(sample.state[0:3], 0.0)
    assert np.linalg.norm(sample.state[3:7]) == pytest.approx(1.0)
