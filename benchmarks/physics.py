"""Steps per second of the physics beside other engines; every result is checked before its time.

    python benchmarks/physics.py --device cuda:0    # laws × environments, mujoco_warp, Newton
    python benchmarks/physics.py                    # CPU: per core, two processes, first compile

Same robot (ANYmal D, four feet, full drive model), same dt and same run for all engines. On a GPU
24 steps are one CUDA graph, forward and backward another. On the CPU rates count CPU time, so that
other load on the machine does not enter, except for the two processes, which count wall time.

Before timing: standing robots carry their weight, and d(height)/d(height at the start) is 1 in the
air. Peers must stand too (`physics_peers.py`).
"""

from __future__ import annotations

import argparse
import multiprocessing
import os
import re
import shutil
import subprocess
import sys
import tempfile
import time
from importlib.util import find_spec
from pathlib import Path

import numpy as np
import warp as wp
from physics_peers import mujoco_rate, mujoco_warp_rate, newton_rates

from diffsim_trainer.physics import ContactModel, Robot, Simulator, load_robot
from diffsim_trainer.physics.feet import FEET_SWEEPS
from diffsim_trainer.physics.model import GRAVITY
from diffsim_trainer.physics.step import LANE_BLOCK, build_lane_kernel

HORIZON = 24
REPEATS = 15
ENVS = (64, 256, 1024, 4096, 8192, 16384, 32768)
SOFT_DT = 0.0005  # s, penalty contacts are stiff
NEWTON_SOLVERS = ("SolverSemiImplicit", "SolverFeatherstone")
NEWTON_ENVS = (4096,)
CEILINGS = {"NVIDIA H200": (4.8e12, 67e12)}  # bytes/s, float32 FLOP/s outside the tensor cores
# float32 values of an environment: state, target, params, delay; state and sensors out
FORWARD_BYTES = 4 * (37 + 12 + 9 + 1 + 37 + 40)
# once more, with the cotangents read, and those of state and targets added to and written
BACKWARD_BYTES = FORWARD_BYTES + 4 * (37 + 40 + 2 * (37 + 12))


class Rollout:
    """HORIZON steps and their adjoint on fixed arrays."""

    def __init__(self, sim: Simulator, state: np.ndarray):
        self.sim = sim
        n = sim.num_envs

        def array(value):
            value = np.ascontiguousarray(value)
            return wp.array(value, dtype=sim.real, device=sim.device)

        self.states = [array(state) for _ in range(HORIZON + 1)]
        self.state_bars = [array(np.zeros((n, 37))) for _ in range(HORIZON + 1)]
        self.target = array(np.tile(sim.robot.default_pose, (n, 1)))
        self.target_bar = array(np.zeros((n, 12)))
        self.params = array(sim.default_params())
        self.delay = wp.zeros(n, dtype=wp.int32, device=sim.device)
        self.sensors = array(np.zeros((n, 4, 10)))
        self.sensors_bar = array(np.zeros((n, 4, 10)))
        self.seed = array(np.tile(np.eye(37)[2], (n, 1)))

    def _inputs(self, k: int) -> tuple:
        shared = (self.target, self.target, self.params, self.delay, 0)
        return self.states[k], *shared, self.states[k + 1], self.sensors

    def forward(self) -> None:
        for k in range(HORIZON):
            self.sim.step(*self._inputs(k))

    def backward(self) -> None:
        for bar in self.state_bars:
            bar.zero_()
        self.target_bar.zero_()
        wp.copy(self.state_bars[-1], self.seed)
        for k in reversed(range(HORIZON)):
            target_bars = (self.target_bar, self.target_bar, None)
            bars = (self.state_bars[k], *target_bars, self.state_bars[k + 1], self.sensors_bar)
            self.sim.step_adjoint(*self._inputs(k), *bars)

    def both(self) -> None:
        self.forward()
        self.backward()


def check(sim: Simulator) -> None:
    """Raise AssertionError when standing robots do not carry their weight or gradients are off."""
    state = np.zeros((sim.num_envs, 37))
    state[:, 2], state[:, 6] = sim.robot.stand_height, 1.0
    state[:, 13:25] = sim.robot.default_pose
    rollout = Rollout(sim, state)
    for _ in range(round(2.0 / sim.dt / HORIZON)):
        rollout.forward()
        wp.copy(rollout.states[0], rollout.states[-1])
    load = rollout.sensors.numpy()[:, :, 9].sum(1).mean()
    weight = sim.robot.mass.sum() * GRAVITY
    assert abs(load / weight - 1.0) < 0.05, f"standing load {load:.0f} N, weight {weight:.0f} N"
    state[:, 2] += 1.0
    rollout = Rollout(sim, state)
    rollout.both()
    slope = rollout.state_bars[0].numpy()[:, 2]
    assert np.allclose(slope, 1.0, atol=1e-3), f"d(height)/d(height) in the air is {slope[0]}"


def moving_robots(robot: Robot, num_envs: int) -> np.ndarray:
    """States [N, 37] of robots about to land or standing, all different."""
    rng = np.random.default_rng(0)
    state = np.zeros((num_envs, 37))
    state[:, 2] = robot.stand_height + 0.005 * rng.normal(size=num_envs)
    state[:, 6] = 1.0
    state[:, 7:13] = 0.2 * rng.normal(size=(num_envs, 6))
    state[:, 13:25] = robot.default_pose + 0.05 * rng.normal(size=(num_envs, 12))
    return state


def seconds(action, sim: Simulator) -> float:
    """Median time of `action`: wall time of a CUDA graph, or CPU time."""
    action()
    if sim.device.is_cuda:
        with wp.ScopedCapture(device=sim.device) as capture:
            action()

        def run():
            wp.capture_launch(capture.graph)
            wp.synchronize_device(sim.device)
    else:
        run = action
    clock = time.perf_counter if sim.device.is_cuda else time.process_time
    times = []
    for _ in range(REPEATS):
        wp.synchronize_device(sim.device)
        start = clock()
        run()
        times.append(clock() - start)
    return float(np.median(times))


def our_rates(robot: Robot, law: ContactModel, dt: float, num_envs: int, device: str):
    """Steps per second, forward and forward with backward."""
    dt = SOFT_DT if law is ContactModel.SOFT else dt
    sim = Simulator(robot, num_envs, device=device, dt=dt, contact=law)
    rollout = Rollout(sim, moving_robots(robot, num_envs))
    forward, both = seconds(rollout.forward, sim), seconds(rollout.both, sim)
    assert np.all(np.isfinite(rollout.states[-1].numpy())), f"{law}: states are not finite"
    assert np.all(np.isfinite(rollout.state_bars[0].numpy())), f"{law}: gradients are not finite"
    return num_envs * HORIZON / forward, num_envs * HORIZON / both


def count_operations(law: ContactModel) -> tuple[int, int] | None:
    """Float operations in the machine code of a step and of its adjoint (which repeats the step);
    loops of the contact solver count once. None where cuobjdump is missing."""
    if shutil.which("cuobjdump") is None:
        return None
    module = build_lane_kernel(wp.float32, law, False, FEET_SWEEPS).module
    name = module.get_module_identifier(block_dim=LANE_BLOCK)
    cubin = next(Path(wp.config.kernel_cache_dir, name).glob("*.cubin"))
    code = subprocess.run(["cuobjdump", "-sass", cubin], capture_output=True, text=True, check=True)
    counts = {}
    for part in code.stdout.split("Function : ")[1:]:
        fused = len(re.findall(r"\bFFMA\b", part))
        single = len(re.findall(r"\b(?:FADD|FMUL|MUFU)\b", part))
        counts["backward" in part.split("\n")[0]] = 4 * (2 * fused + single)  # four lanes
    return counts[False], counts[True]


def share(amount: float, rate: float, ceiling: float) -> str:
    return f"{100.0 * amount * rate / ceiling:.1f} %"


def run_gpu(robot: Robot, options) -> None:
    device = wp.get_device(options.device)
    peer = {}
    print(f"# {robot.name} on {device.name}, dt {1e3 * options.dt} ms; M environment-steps/s")
    if find_spec("mujoco_warp"):
        for n in options.num_envs:
            peer[n] = mujoco_warp_rate(robot, options.dt, n)
            print(f"mujoco_warp  N={n:6d} forward {peer[n] / 1e6:7.2f}", flush=True)
    if find_spec("newton"):
        for solver in NEWTON_SOLVERS:
            for n in NEWTON_ENVS:
                forward, both = newton_rates(robot, solver, SOFT_DT, n)
                print(
                    f"newton {solver} ({1e3 * SOFT_DT} ms) N={n:6d} forward {forward / 1e6:.3f}, "
                    f"with backward {both / 1e6:.3f}",
                    flush=True,
                )
    print(
        "| law | envs | forward | with backward | time ratio | forward / mujoco_warp | "
        "with backward / mujoco_warp forward | bandwidth fwd, both | arithmetic fwd, both |"
    )
    print("|---|---|---|---|---|---|---|---|---|")
    for law in options.laws:
        dt = SOFT_DT if law is ContactModel.SOFT else options.dt
        check(Simulator(robot, 8, device=options.device, dt=dt, contact=law))
        operations = count_operations(law)
        ceilings = CEILINGS.get(device.name)
        for n in options.num_envs:
            forward, both = our_rates(robot, law, options.dt, n, options.device)
            cells = [law.value, f"{n}", f"{forward / 1e6:.1f}", f"{both / 1e6:.1f}"]
            cells.append(f"{forward / both:.1f}")
            cells += [f"{r / peer[n]:.1f}" if n in peer else "-" for r in (forward, both)]
            traffic = (FORWARD_BYTES, forward), (FORWARD_BYTES + BACKWARD_BYTES, both)
            if ceilings:
                cells.append(", ".join(share(a, r, ceilings[0]) for a, r in traffic))
            if ceilings and operations:
                work = (operations[0], forward), (sum(operations), both)
                cells.append(", ".join(share(a, r, ceilings[1]) for a, r in work))
            print("| " + " | ".join(cells) + " |", flush=True)
        print(f"{law.value}: {FORWARD_BYTES} and {BACKWARD_BYTES} bytes, operations {operations}")


def roll_for(options, barrier, rates) -> None:
    """One of several processes: forward and backward for a few seconds of wall time."""
    robot = load_robot(options.robot)
    sim = Simulator(robot, 256, dt=options.dt, contact=ContactModel.SMOOTHED)
    rollout = Rollout(sim, moving_robots(robot, 256))
    rollout.both()
    barrier.wait()
    start, rounds = time.perf_counter(), 0
    while time.perf_counter() - start < 4.0:
        rollout.both()
        rounds += 1
    rates.put(rounds * HORIZON * 256 / (time.perf_counter() - start))


def two_process_rate(options) -> float:
    context = multiprocessing.get_context("spawn")
    barrier, rates = context.Barrier(2), context.Queue()
    workers = [context.Process(target=roll_for, args=(options, barrier, rates)) for _ in range(2)]
    for worker in workers:
        worker.start()
    total = sum(rates.get() for _ in workers)
    for worker in workers:
        worker.join()
    return total


def compile_seconds(options) -> tuple[float, float]:
    """Wall and CPU seconds of a process that builds the SMOOTHED kernels into an empty cache."""
    script = (
        "import sys; from diffsim_trainer.physics import *; import warp as wp;"
        "from diffsim_trainer.physics.step import build_robot_kernel;"
        "wp.load_module(build_robot_kernel(wp.float32, ContactModel.SMOOTHED, False).module)"
    )
    with tempfile.TemporaryDirectory() as cache:
        environment = {**os.environ, "WARP_CACHE_PATH": cache}
        environment["PYTHONPATH"] = os.pathsep.join(sys.path)
        start, before = time.perf_counter(), os.times()
        command = [sys.executable, "-c", script]
        subprocess.run(command, env=environment, check=True, stdout=subprocess.DEVNULL)
        after = os.times()
    spent = after.children_user + after.children_system
    return time.perf_counter() - start, spent - before.children_user - before.children_system


def run_cpu(robot: Robot, options) -> None:
    print(f"# {robot.name} on {os.cpu_count()} cores, load {os.getloadavg()[0]:.1f}, CPU time")
    print("first compile: {:.1f} s wall, {:.1f} s CPU".format(*compile_seconds(options)))
    for law in options.laws:
        dt = SOFT_DT if law is ContactModel.SOFT else options.dt
        check(Simulator(robot, 8, dt=dt, contact=law))
        mujoco = mujoco_rate(robot, options.dt)
        forward, both = our_rates(robot, law, options.dt, 256, "cpu")
        print(
            f"{law.value}: forward {forward / 1e3:.0f} k/s, with backward {both / 1e3:.1f} k/s; "
            f"mj_step {mujoco / 1e3:.1f} k/s; forward / mj_step {forward / mujoco:.2f}",
            flush=True,
        )
    rate = two_process_rate(options)
    load = os.getloadavg()[0]
    print(f"smoothed, two processes: with backward {rate / 1e3:.0f} k/s wall, load {load:.1f}")


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__.splitlines()[0], formatter_class=argparse.ArgumentDefaultsHelpFormatter
    )
    parser.add_argument("--robot", default="config/robot/anymal_d.yaml", help="robot file (YAML)")
    parser.add_argument("--device", default="cpu", help="cpu, or cuda:0")
    parser.add_argument("--dt", type=float, default=0.0025, help="step [s]")
    parser.add_argument(
        "--num-envs", type=int, nargs="+", default=ENVS, help="robots that are simulated at once"
    )
    parser.add_argument(
        "--laws",
        type=ContactModel,
        nargs="+",
        default=list(ContactModel),
        help="contact laws to time",
    )
    options = parser.parse_args()
    wp.config.quiet = True
    robot = load_robot(options.robot)
    (run_gpu if wp.get_device(options.device).is_cuda else run_cpu)(robot, options)


if __name__ == "__main__":
    main()
