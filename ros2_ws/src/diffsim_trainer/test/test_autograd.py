"""The simulator as a torch function: gradients against central differences, delay, clipping, bad
cotangents."""

import pytest
import torch

from diffsim_trainer.autograd import CotangentMonitor, simulate
from diffsim_trainer.physics import ContactModel, Simulator, load_robot

SUBSTEPS = 4


@pytest.fixture
def make_sim(robot_path):
    """Function num_envs -> simulator in float64."""

    def make(num_envs: int) -> Simulator:
        robot = load_robot(robot_path)
        return Simulator(robot, num_envs, dtype="float64", dt=0.005, contact=ContactModel.SMOOTHED)

    return make


def make_inputs(sim: Simulator) -> dict[str, torch.Tensor]:
    """Robots pressed slightly into the ground, standing, and in the air, all moving a little."""
    robot, num_envs = sim.robot, sim.num_envs
    pose = torch.tensor(robot.default_pose.tolist())
    state = torch.zeros(num_envs, 37)
    state[:, 2] = robot.stand_height + torch.linspace(-0.004, 0.05, num_envs)
    state[:, 6] = 1.0
    state[:, 7:13] = 0.3 * torch.randn(num_envs, 6)
    state[:, 13:25] = pose + 0.05 * torch.randn(num_envs, 12)
    state[:, 25:37] = 0.5 * torch.randn(num_envs, 12)
    return {
        "state": state,
        "target_prev": pose + 0.1 * torch.randn(num_envs, 12),
        "target": pose + 0.1 * torch.randn(num_envs, 12),
        "params": torch.tensor(sim.default_params().tolist()),
        "delay_steps": torch.arange(num_envs, dtype=torch.int32) % 3,
    }


def weights_like(outputs):
    generator = torch.Generator().manual_seed(1)
    return [torch.randn(x.shape, generator=generator) for x in outputs]


def loss_of(sim, inputs, periods: int = 1) -> torch.Tensor:
    """A fixed random linear function of the outputs of every control period."""
    inputs = dict(inputs)
    total = 0.0
    for _ in range(periods):
        state, sensors = simulate(sim, **inputs, substeps=SUBSTEPS)
        w_state, w_sensors = weights_like((state, sensors))
        # Forces are some hundred newtons: weigh them down so that no output dominates the sum.
        total = total + (w_state * state).sum() + 1e-3 * (w_sensors * sensors).sum()
        inputs["state"], inputs["target_prev"] = state, inputs["target"]
    return total


@pytest.mark.parametrize("periods", [1, 3])
@pytest.mark.parametrize("name", ["state", "target_prev", "target"])
def test_gradient_equals_central_differences(double, make_sim, name, periods):
    """float64, 4 random directions; the quaternion is left out of them, since a step leaves the
    unit sphere."""
    sim = make_sim(4)
    inputs = make_inputs(sim)
    inputs[name].requires_grad_()
    loss_of(sim, inputs, periods).backward()
    gradient = inputs[name].grad
    eps = 1e-6
    for seed in range(4):
        direction = torch.randn(gradient.shape, generator=torch.Generator().manual_seed(seed))
        if name == "state":
            direction[:, 3:7] = 0.0
        with torch.no_grad():
            up = loss_of(sim, inputs | {name: inputs[name] + eps * direction}, periods)
            down = loss_of(sim, inputs | {name: inputs[name] - eps * direction}, periods)
        expected = (up - down).item() / (2 * eps)
        assert (gradient * direction).sum().item() == pytest.approx(expected, rel=1e-5, abs=1e-5)


def test_forward_is_the_same_with_and_without_gradients(double, make_sim):
    sim = make_sim(3)
    inputs = make_inputs(sim)
    with torch.no_grad():
        plain = simulate(sim, **inputs, substeps=SUBSTEPS)
    inputs["target"].requires_grad_()
    recorded = simulate(sim, **inputs, substeps=SUBSTEPS)
    for a, b in zip(plain, recorded, strict=True):
        assert torch.equal(a, b)


def test_backward_can_run_on_states_that_later_steps_have_used(double, make_sim):
    """The graph of a window holds every substep's state; running more steps, and backward twice,
    must not change a gradient."""
    sim = make_sim(2)
    inputs = make_inputs(sim)
    inputs["target"].requires_grad_()
    loss = loss_of(sim, inputs)
    (first,) = torch.autograd.grad(loss, inputs["target"], retain_graph=True)
    loss_of(sim, inputs, periods=3)
    (second,) = torch.autograd.grad(loss, inputs["target"])
    assert torch.equal(first, second)


@pytest.mark.parametrize("delay", [0, 1, 2, 4])
def test_a_new_target_acts_after_exactly_delay_substeps(double, make_sim, delay):
    """Equal to `delay` substeps under the old target followed by the rest under the new one."""
    sim = make_sim(2)
    inputs = make_inputs(sim) | {"delay_steps": torch.full((2,), delay, dtype=torch.int32)}
    delayed, sensors = simulate(sim, **inputs, substeps=SUBSTEPS)
    none = torch.zeros(2, dtype=torch.int32)
    state = inputs["state"]
    if delay > 0:
        old = inputs["target_prev"]
        state, expected_sensors = simulate(sim, state, old, old, inputs["params"], none, delay)
    if delay < SUBSTEPS:
        new = inputs["target"]
        state, expected_sensors = simulate(
            sim, state, new, new, inputs["params"], none, SUBSTEPS - delay
        )
    assert torch.equal(delayed, state)
    assert torch.equal(sensors, expected_sensors)


def backward_with(sim, inputs, cotangent, clip=float("inf")):
    monitor = CotangentMonitor("cpu")
    inputs["target"].grad = None
    state, _ = simulate(sim, **inputs, substeps=SUBSTEPS, cotangent_clip=clip, monitor=monitor)
    state.backward(cotangent)
    return inputs["target"].grad.clone(), monitor.values.tolist()


def test_a_bad_cotangent_is_counted_and_leaves_the_other_robots_alone(double, make_sim):
    sim = make_sim(3)
    inputs = make_inputs(sim)
    inputs["target"].requires_grad_()
    cotangent = torch.randn(3, 37)
    good, counts = backward_with(sim, inputs, cotangent)
    assert counts[0] == 0
    cotangent[1, 5] = float("nan")
    bad, counts = backward_with(sim, inputs, cotangent)
    assert counts[0] == 1
    assert bad[1].abs().max() == 0
    assert torch.equal(bad[[0, 2]], good[[0, 2]])
    assert good[1].abs().max() > 0


def test_cotangents_are_clipped_per_robot(double, make_sim):
    """Clip at half the norm of robot 0: its gradient halves, the smaller one of robot 1 stays."""
    sim = make_sim(2)
    inputs = make_inputs(sim)
    inputs["target"].requires_grad_()
    cotangent = torch.randn(2, 37)
    cotangent[0] *= 8.0 / cotangent[0].norm()
    cotangent[1] *= 1.0 / cotangent[1].norm()
    free, _ = backward_with(sim, inputs, cotangent)
    clipped, counts = backward_with(sim, inputs, cotangent, clip=4.0)
    torch.testing.assert_close(clipped[0], 0.5 * free[0])
    assert torch.equal(clipped[1], free[1])
    assert counts[1:] == [1.0, 8.0]
