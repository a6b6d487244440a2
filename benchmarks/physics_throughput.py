"""Steps per second of the physics, forward and with its adjoint; the result is checked first.

    python benchmarks/physics_throughput.py [--device cuda:0] [--num-envs 4096] [--law smoothed]

On a GPU `--horizon` steps are captured in one CUDA graph; on the CPU they are launched one by one.
The check: robots that stand carry their weight, and the gradient of a mean height with respect to
the height at the start is near 1 in the air.
"""

from __future__ import annotations

import argparse
import time

import numpy as np
import warp as wp

from diffsim_trainer.physics import ContactModel, Simulator, load_robot
from diffsim_trainer.physics.model import GRAVITY


class Rollout:
    """`horizon` steps and their adjoint on fixed arrays."""

    def __init__(self, sim: Simulator, horizon: int, state: np.ndarray):
        self.sim, self.horizon = sim, horizon
        n = sim.num_envs

        def array(value):
            value = np.ascontiguousarray(value)
            return wp.array(value, dtype=sim.real, device=sim.device)

        self.states = [array(state) for _ in range(horizon + 1)]
        self.state_bars = [array(np.zeros((n, 37))) for _ in range(horizon + 1)]
        self.target = array(np.tile(sim.robot.default_pose, (n, 1)))
        self.target_bar = array(np.zeros((n, 12)))
        self.params = array(sim.default_params())
        self.delay = wp.zeros(n, dtype=wp.int32, device=sim.device)
        self.sensors = array(np.zeros((n, 4, 10)))
        self.sensors_bar = array(np.zeros((n, 4, 10)))
        self.seed = array(np.tile(np.eye(37)[2], (n, 1)))

    def forward(self) -> None:
        for k in range(self.horizon):
            self.sim.step(
                self.states[k],
                self.target,
                self.target,
                self.params,
                self.delay,
                0,
                self.states[k + 1],
                self.sensors,
            )

    def backward(self) -> None:
        for bar in self.state_bars:
            bar.zero_()
        self.target_bar.zero_()
        wp.copy(self.state_bars[-1], self.seed)
        for k in reversed(range(self.horizon)):
            self.sim.step_adjoint(
                self.states[k],
                self.target,
                self.target,
                self.params,
                self.delay,
                0,
                self.states[k + 1],
                self.sensors,
                self.state_bars[k],
                self.target_bar,
                self.target_bar,
                None,
                self.state_bars[k + 1],
                self.sensors_bar,
            )


def check(sim: Simulator, horizon: int) -> None:
    """Raise AssertionError when standing robots do not carry their weight or gradients are off."""
    state = np.zeros((sim.num_envs, 37))
    state[:, 2], state[:, 6] = sim.robot.stand_height, 1.0
    state[:, 13:25] = sim.robot.default_pose
    rollout = Rollout(sim, horizon, state)
    for _ in range(round(2.0 / sim.dt / horizon)):
        rollout.forward()
        wp.copy(rollout.states[0], rollout.states[-1])
    load = rollout.sensors.numpy()[:, :, 9].sum(1).mean()
    weight = sim.robot.mass.sum() * GRAVITY
    assert abs(load / weight - 1.0) < 0.05, f"standing load {load:.0f} N, weight {weight:.0f} N"
    state[:, 2] += 1.0
    rollout = Rollout(sim, horizon, state)
    rollout.forward()
    rollout.backward()
    slope = rollout.state_bars[0].numpy()[:, 2]
    assert np.allclose(slope, 1.0, atol=1e-3), f"d(height)/d(height) in the air is {slope[0]}"


def seconds(action, sim: Simulator, repeats: int) -> float:
    """Median wall time of `action`, as a CUDA graph on a GPU."""
    action()
    if sim.device.is_cuda:
        with wp.ScopedCapture(device=sim.device) as capture:
            action()
        run = lambda: wp.capture_launch(capture.graph)  # noqa: E731
    else:
        run = action
    times = []
    for _ in range(repeats):
        wp.synchronize_device(sim.device)
        start = time.perf_counter()
        run()
        wp.synchronize_device(sim.device)
        times.append(time.perf_counter() - start)
    return float(np.median(times))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--robot", default="config/robot/anymal_d.yaml")
    parser.add_argument("--device", default="cpu")
    parser.add_argument("--dtype", default="float32")
    parser.add_argument("--law", default="smoothed", choices=[law.value for law in ContactModel])
    parser.add_argument("--num-envs", type=int, nargs="+", default=[256])
    parser.add_argument("--horizon", type=int, default=12)
    parser.add_argument("--repeats", type=int, default=7)
    options = parser.parse_args()
    robot, law = load_robot(options.robot), ContactModel(options.law)
    dt = 0.0005 if law is ContactModel.SOFT else 0.005
    settings = dict(device=options.device, dtype=options.dtype, dt=dt, contact=law)

    start = time.perf_counter()
    check(Simulator(robot, 8, **settings), options.horizon)
    print(f"check passed; with compiling it took {time.perf_counter() - start:.1f} s")
    for n in options.num_envs:
        sim = Simulator(robot, n, **settings)
        rng = np.random.default_rng(0)
        state = np.zeros((n, 37))
        state[:, 2], state[:, 6] = robot.stand_height + 0.01 * rng.normal(size=n), 1.0
        state[:, 13:25] = robot.default_pose + 0.1 * rng.normal(size=(n, 12))
        state[:, 25:] = rng.normal(size=(n, 12))
        rollout = Rollout(sim, options.horizon, state)
        forward = seconds(rollout.forward, sim, options.repeats)
        backward = seconds(rollout.backward, sim, options.repeats)
        steps = n * options.horizon
        print(
            f"{robot.name} {law.value} {options.dtype} {options.device} N={n}: forward "
            f"{steps / forward:.3g} steps/s, with backward {steps / (forward + backward):.3g}; a "
            f"launch {1e6 * forward / options.horizon:.1f} and "
            f"{1e6 * backward / options.horizon:.1f} us"
        )


if __name__ == "__main__":
    main()
