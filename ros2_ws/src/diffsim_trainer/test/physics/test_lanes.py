"""One lane per leg on the GPU against one thread per robot on the CPU."""

from types import SimpleNamespace

import numpy as np
import pytest
import warp as wp

from diffsim_trainer.physics import ContactModel, Terrain

pytestmark = [
    pytest.mark.physics,
    pytest.mark.gpu,
    pytest.mark.skipif(not wp.is_cuda_available(), reason="needs a CUDA device"),
]
# fast math on the GPU: a few units in the last place of float32 per operation
TOLERANCE = {"float32": 2e-3, "float64": 1e-9}
CASES = [
    (law, dtype, num_envs, ground)
    for law in ContactModel
    for dtype in ("float32", "float64")
    for num_envs in (3, 64)
    for ground in ("plane", "bumps")
]


def step_and_gradient(bench, robot, device, law, dtype, num_envs, ground) -> list[np.ndarray]:
    """State and sensors of a step, gradients of two control periods, of random robots."""
    rng = np.random.default_rng(num_envs)
    settings = dict(device=device, dtype=dtype, contact=law)
    settings["dt"] = 0.0005 if law is ContactModel.SOFT else 0.005
    if ground == "bumps":
        settings["terrain"] = Terrain(0.01 * rng.normal(size=(16, 16)), 0.1)
    b = bench(robot, num_envs, **settings)
    if ground == "bumps":
        b.sim.ground_offset.assign(rng.uniform(-1.0, 1.0, (num_envs, 2)))
    state = b.standing()
    state[:, 2] += rng.uniform(-0.01, 0.02, num_envs)
    state[:, 7:13] = 0.5 * rng.normal(size=(num_envs, 6))
    state[:, 13:25] += 0.1 * rng.normal(size=(num_envs, 12))
    state[:, 25:] = rng.normal(size=(num_envs, 12))
    target = robot.default_pose + 0.2 * rng.normal(size=(2, num_envs, 12))
    weights = SimpleNamespace(state=np.ones(37), sensors=np.full((4, 10), 0.1))
    return [*b.step(state, target[0]), *b.gradient(state, target, 4, weights)]


def assert_close(cpu, gpu, dtype):
    for expected, found in zip(cpu, gpu, strict=True):
        scale = np.abs(expected).max()
        np.testing.assert_allclose(found / scale, expected / scale, atol=TOLERANCE[dtype])


@pytest.mark.parametrize(("law", "dtype", "num_envs", "ground"), CASES)
def test_lanes_agree_with_threads(bench, robot, law, dtype, num_envs, ground):
    results = [
        step_and_gradient(bench, robot, device, law, dtype, num_envs, ground)
        for device in ("cpu", "cuda:0")
    ]
    assert_close(*results, dtype)


def test_lane_adjoint_is_repeatable(bench, robot):
    b = bench(robot, 256, device="cuda:0", contact=ContactModel.SMOOTHED)
    weights = SimpleNamespace(state=np.ones(37), sensors=np.ones((4, 10)))
    targets = np.tile(robot.default_pose, (2, 256, 1))
    first = b.gradient(b.standing(), targets, 4, weights)
    for _ in range(3):
        for x, y in zip(first, b.gradient(b.standing(), targets, 4, weights), strict=True):
            np.testing.assert_array_equal(x, y)
