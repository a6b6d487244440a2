"""A rollout with its adjoint: overwritten states are caught, memory stays flat, and asking for
gradients changes nothing in the forward pass."""

import os
import sys
from types import SimpleNamespace

import numpy as np
import pytest
import torch
import warp as wp

from diffsim_trainer.autograd import simulate
from diffsim_trainer.physics import ContactModel, Simulator
from diffsim_trainer.physics.step import build_robot_kernel

pytestmark = pytest.mark.physics
needs_cuda = [pytest.mark.gpu, pytest.mark.skipif(not wp.is_cuda_available(), reason="needs CUDA")]
DEVICES = ["cpu", pytest.param("cuda:0", marks=needs_cuda)]


class Detector:
    """Warp's logger with its warnings about overwritten arrays turned into failures."""

    def __init__(self, logger):
        self._logger = logger

    def __getattr__(self, name):
        return getattr(self._logger, name)

    def warning(self, message, *args, **settings):
        if "already been read" in message:
            raise AssertionError(message)
        self._logger.warning(message, *args, **settings)


@pytest.fixture
def detector():
    """Warp's detector of overwritten arrays, on. It knows of kernels built while it is on, which
    Warp does not cache: hence one test, and not all of them."""
    logger = wp.get_logger()
    wp.set_logger(Detector(logger))
    wp.config.verify_autograd_array_access = True
    yield
    wp.config.verify_autograd_array_access = False
    wp.set_logger(logger)


def test_overwritten_states_are_detected(bench, robot, detector):
    # a rollout as every gradient test makes it passes; a step that writes where one has read fails
    b = bench(robot, 1, contact=ContactModel.SMOOTHED)
    build_robot_kernel(b.sim.real, ContactModel.SMOOTHED, False).module.unload()
    weights = SimpleNamespace(state=np.ones(37), sensors=np.zeros((4, 10)))
    b.gradient(b.standing(), robot.default_pose[None, None], 2, weights)
    states = [b.array(b.standing()), b.nan(37)]
    target, params = b.array(robot.default_pose[None]), b.array(b.params)
    delay, sensors = wp.zeros(1, dtype=wp.int32, device="cpu"), b.nan(4, 10)
    with pytest.raises(AssertionError, match="already been read"), wp.Tape():
        for k in range(2):
            now, after = states[k], states[1 - k]
            b.sim.step(now, target, target, params, delay, 0, after, sensors)


def test_tape_gives_the_gradient_of_step_adjoint(bench, robot):
    # what Warp records itself, three steps, against the chain of step_adjoint
    b = bench(robot, 1, dtype="float64", contact=ContactModel.SMOOTHED)
    shared = dict(dtype=b.sim.real, device="cpu", requires_grad=True)
    states = [wp.array(b.standing(), **shared), *(wp.zeros((1, 37), **shared) for _ in range(3))]
    target, params = wp.array(robot.default_pose[None], **shared), wp.array(b.params, **shared)
    delay, sensors = wp.zeros(1, dtype=wp.int32, device="cpu"), wp.zeros((1, 4, 10), **shared)
    tape = wp.Tape()
    with tape:
        for before, after in zip(states[:-1], states[1:], strict=True):
            b.sim.step(before, target, target, params, delay, 0, after, sensors)
    tape.backward(grads={states[3]: b.array(np.ones((1, 37)))})
    weights = SimpleNamespace(state=np.ones(37), sensors=np.zeros((4, 10)))
    state_bar, target_bars, params_bar = b.gradient(
        b.standing(), robot.default_pose[None, None], 3, weights
    )
    for found, expected in (states[0], state_bar), (target, target_bars[0]), (params, params_bar):
        np.testing.assert_allclose(found.grad.numpy(), expected, rtol=1e-9, atol=1e-9)


@pytest.mark.parametrize("law", list(ContactModel))
def test_forward_is_the_same_with_and_without_gradient(bench, robot, rng, law):
    # 200 steps, the adjoint after each: states and contacts equal to the last bit
    b = bench(robot, 4, dt=0.0005 if law is ContactModel.SOFT else 0.005, contact=law)
    start = b.standing()
    start[:, 2] += 0.02
    start[:, 7:13] = 0.3 * rng.normal(size=(4, 6))
    states, sensors = b.run(start, 200)
    target = b.array(np.tile(robot.default_pose, (4, 1)))
    params, delay = b.array(b.params), wp.zeros(4, dtype=wp.int32, device="cpu")
    before = b.array(start)
    for k in range(200):
        after, reading = b.nan(37), b.nan(4, 10)
        inputs = (before, target, target, params, delay, 0, after, reading)
        b.sim.step(*inputs)
        forward = after.numpy().copy()
        bars = [wp.zeros_like(x) for x in (before, target, target, params)]
        ones = b.array(np.ones((4, 37))), b.array(np.ones((4, 4, 10)))
        b.sim.step_adjoint(*inputs, *bars, *ones)
        np.testing.assert_array_equal(after.numpy(), forward)
        np.testing.assert_array_equal(after.numpy(), states[k].astype(np.float32))
        np.testing.assert_array_equal(reading.numpy(), sensors[k].astype(np.float32))
        before = after


def used_memory(device: str) -> int:
    """Bytes in use on the GPU, or resident in this process."""
    if device == "cpu":
        with open("/proc/self/statm") as f:
            return int(f.read().split()[1]) * os.sysconf("SC_PAGE_SIZE")
    torch.cuda.synchronize()
    free, total = torch.cuda.mem_get_info()
    return total - free


def make_window(robot, device: str):
    """Parameter [12, N, 12] and a function that returns the loss of a horizon of 12 with it."""
    n, horizon = 8, 12
    sim = Simulator(robot, n, device=device, contact=ContactModel.SMOOTHED)
    start = torch.zeros(n, 37, device=device)
    start[:, 2], start[:, 6] = robot.stand_height, 1.0
    pose = torch.tensor(robot.default_pose, dtype=torch.float32, device=device).expand(n, 12)
    start[:, 13:25] = pose
    params = torch.tensor(sim.default_params(), dtype=torch.float32, device=device)
    delay = torch.zeros(n, dtype=torch.int32, device=device)
    offset = torch.zeros(horizon, n, 12, device=device, requires_grad=True)

    def loss():
        state, previous, total = start, pose.contiguous(), 0.0
        for k in range(horizon):
            target = pose + offset[k]
            state, sensors = simulate(sim, state, previous, target, params, delay, substeps=1)
            previous, total = target, total + sensors.square().mean() + state.square().mean()
        return total

    return offset, loss


@pytest.mark.skipif(sys.platform != "linux", reason="reads /proc")
@pytest.mark.parametrize("device", DEVICES)
def test_memory_is_flat(robot, device):
    # 300 optimiser iterations through torch: after the last as after the 20th
    offset, loss = make_window(robot, device)
    optimizer = torch.optim.SGD([offset], lr=1e-6)
    memory = []
    for _ in range(300):
        optimizer.zero_grad()
        loss().backward()
        optimizer.step()
        memory.append(used_memory(device))
    assert torch.all(torch.isfinite(offset)) and torch.any(offset != 0.0)
    assert memory[-1] <= 1.01 * memory[19]


@pytest.mark.gpu
@pytest.mark.skipif(not wp.is_cuda_available(), reason="needs CUDA")
def test_memory_is_flat_with_a_graph(robot):
    # the same as one CUDA graph: 300 replays, with the gradient of a plain pass at the end
    offset, loss = make_window(robot, "cuda:0")
    side = torch.cuda.Stream()
    with torch.cuda.stream(side):
        for _ in range(3):  # builds kernels and fills torch's pools, as its documentation asks
            loss().backward()
    torch.cuda.current_stream().wait_stream(side)
    offset.grad.zero_()
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        offset.grad.zero_()
        loss().backward()
        offset.data -= 1e-6 * offset.grad
    memory = []
    for _ in range(300):
        graph.replay()
        memory.append(used_memory("cuda:0"))
    last = offset.grad.clone()
    offset.data += 1e-6 * last
    offset.grad = None
    loss().backward()
    assert torch.all(torch.isfinite(last)) and torch.any(last != 0.0)
    assert (offset.grad - last).abs().max() <= 1e-3 * last.abs().max()
    assert memory[-1] <= 1.01 * memory[19]
