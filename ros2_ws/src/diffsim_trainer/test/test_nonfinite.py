"""A robot whose simulation or gradient is not finite is left out, counted and written to a file."""

import numpy as np
import torch
from rich.console import Console

from diffsim_trainer.autograd import CotangentMonitor, simulate
from diffsim_trainer.nonfinite import COLUMNS, NonfiniteRecord
from diffsim_trainer.physics import Simulator, load_robot
from diffsim_trainer.train import LOG_NAME, train

BAD_CALL = 28  # substep of the first window in which the simulator is made to fail


def example_inputs(num_envs: int) -> list[torch.Tensor]:
    return [torch.rand(num_envs, size) for size in COLUMNS.values()]


def test_dump_holds_the_inputs_of_the_bad_robots_only(tmp_path):
    record, inputs = NonfiniteRecord(4, "cpu"), example_inputs(4)
    assert record.dump(tmp_path / "none.npz") is None
    record.keep(torch.tensor([False, True, False, True]), *inputs)
    record.keep(torch.tensor([False, False, False, False]), *example_inputs(4))
    message = record.dump(tmp_path / "bad.npz", first_env=10)
    assert "2 robots (number 11, 13)" in message and "bad.npz" in message
    data = np.load(tmp_path / "bad.npz")
    assert data["env"].tolist() == [11, 13] and data["count"].tolist() == [1, 1]
    for name, value in zip(COLUMNS, inputs, strict=True):
        np.testing.assert_array_equal(data[name], value[[1, 3]].numpy())
    assert record.dump(tmp_path / "again.npz") is None


def test_a_bad_gradient_is_recorded_with_the_input_of_its_step(robot_path):
    robot = load_robot(robot_path)
    sim, record = Simulator(robot, 2), NonfiniteRecord(2, "cpu")
    state = torch.zeros(2, 37)
    state[:, 2], state[:, 6] = robot.stand_height, 1.0
    target = torch.tensor(np.asarray(robot.default_pose), dtype=torch.float32).repeat(2, 1)
    state[:, 13:25] = target
    params = torch.as_tensor(sim.default_params(), dtype=torch.float32)
    delay = torch.zeros(2, dtype=torch.int32)
    target.requires_grad_()
    monitor = CotangentMonitor("cpu", record)
    out, _ = simulate(sim, state, target, target, params, delay, 1, monitor=monitor)
    cotangent = torch.ones(2, 37)
    cotangent[1, 0] = float("inf")
    out.backward(cotangent)
    assert record.count.tolist() == [0, 1]
    torch.testing.assert_close(record.rows[1, :37], state[1])


def test_training_goes_on_without_the_robot_and_says_where_its_state_is(
    tmp_path, small_config, monkeypatch, capsys
):
    step, calls = Simulator.step, []

    def step_and_break(self, *arrays, **stream):
        step(self, *arrays, **stream)
        calls.append(arrays)
        if len(calls) == BAD_CALL:
            arrays[-2].numpy()[2, 30] = np.nan

    monkeypatch.setattr(Simulator, "step", step_and_break)
    train(small_config(iterations=2), tmp_path, "cpu", None, Console(quiet=True))
    data = np.load(tmp_path / "nonfinite_1_0.npz")
    assert data["env"].tolist() == [2]
    assert data["count"].tolist() == [1] and np.isfinite(data["state"]).all()
    assert "number 2" in capsys.readouterr().err
    log = np.genfromtxt(tmp_path / LOG_NAME, delimiter=",", skip_header=1)
    assert log.shape[0] == 2 and np.isfinite(log).all()
    assert not (tmp_path / "nonfinite_2_0.npz").exists()
