"""One lane per leg on the GPU against one thread per robot on the CPU."""

from types import SimpleNamespace

import numpy as np
import pytest
import warp as wp

from diffsim_trainer.physics import ContactModel

pytestmark = [
    pytest.mark.physics,
    pytest.mark.gpu,
    pytest.mark.skipif(not wp.is_cuda_available(), reason="needs a CUDA device"),
]
# fast math on the GPU: a few units in the last place of float32 per operation
TOLERANCE = {"float32": 2e-3, "float64": 1e-9}


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("law", list(ContactModel))
@pytest.mark.parametrize("num_envs", [3, 64])
def test_lanes_agree_with_threads(bench, robot, rng, law, dtype, num_envs):
    state = target = None
    results = []
    for device in ("cpu", "cuda:0"):
        dt = 0.0005 if law is ContactModel.SOFT else 0.005
        b = bench(robot, num_envs, device=device, dtype=dtype, dt=dt, contact=law)
        if state is None:
            state = b.standing()
            state[:, 2] += rng.uniform(-0.01, 0.02, num_envs)
            state[:, 7:13] = 0.5 * rng.normal(size=(num_envs, 6))
            state[:, 13:25] += 0.1 * rng.normal(size=(num_envs, 12))
            state[:, 25:] = rng.normal(size=(num_envs, 12))
            target = robot.default_pose + 0.2 * rng.normal(size=(2, num_envs, 12))
        weights = SimpleNamespace(state=np.ones(37), sensors=np.full((4, 10), 0.1))
        results.append([*b.step(state, target[0]), *b.gradient(state, target, 4, weights)])
    for cpu, gpu in zip(*results, strict=True):
        scale = np.abs(cpu).max()
        np.testing.assert_allclose(gpu / scale, cpu / scale, atol=TOLERANCE[dtype])


def test_lane_adjoint_is_repeatable(bench, robot):
    b = bench(robot, 256, device="cuda:0", contact=ContactModel.SMOOTHED)
    weights = SimpleNamespace(state=np.ones(37), sensors=np.ones((4, 10)))
    targets = np.tile(robot.default_pose, (2, 256, 1))
    first = b.gradient(b.standing(), targets, 4, weights)
    for _ in range(3):
        for x, y in zip(first, b.gradient(b.standing(), targets, 4, weights), strict=True):
            np.testing.assert_array_equal(x, y)
