"""How many sweeps the contact solver needs: distance from the converged impulses.

    python benchmarks/physics_convergence.py [--robot config/robot/anymal_d.yaml] [--num-envs 512]

Random stances with loaded feet, friction 0.3 to 1.2, hard and smoothed contact, 5 ms. For every
environment the applied impulses of all feet after n sweeps are compared with those after 16.
"""

from __future__ import annotations

import argparse

import numpy as np
import warp as wp

from diffsim_trainer.physics import ContactModel, Robot, Simulator, load_robot
from diffsim_trainer.physics.feet import MAX_SWEEPS

LOADED = 50.0  # N, stances with less force on all feet together are left out


def random_stances(robot: Robot, num_envs: int, bend: float, rng: np.random.Generator):
    """States [N, 37], targets [N, 12], friction [N]; bend scales the default pose of the legs."""
    state = np.zeros((num_envs, 37))
    state[:, 6] = 1.0
    state[:, 3:6] = 0.02 * rng.normal(size=(num_envs, 3))
    state[:, 7:13] = rng.normal(size=(num_envs, 6)) * [0.5, 0.3, 0.3, 0.5, 0.5, 0.5]
    state[:, 13:25] = robot.default_pose * bend + 0.1 * bend * rng.normal(size=(num_envs, 12))
    state[:, 25:] = rng.normal(size=(num_envs, 12))
    target = state[:, 13:25] + 0.2 * rng.normal(size=(num_envs, 12))
    return state, target, rng.uniform(0.3, 1.2, num_envs)


def forces(robot, state, target, friction, law: ContactModel, sweeps: int) -> np.ndarray:
    """Foot forces [N, 12] of one step and foot heights [N, 4]."""
    n = len(state)
    sim = Simulator(robot, n, dtype="float64", contact=law, sweeps=sweeps)
    params = sim.default_params()
    params[:, 0] = friction
    state_in, target_in, params_in, state_out, sensors = (
        wp.array(np.ascontiguousarray(x), dtype=sim.real, device="cpu")
        for x in (state, target, params, np.zeros((n, 37)), np.zeros((n, 4, 10)))
    )
    delay = wp.zeros(n, dtype=wp.int32, device="cpu")
    sim.step(state_in, target_in, target_in, params_in, delay, 0, state_out, sensors)
    reading = sensors.numpy()
    return reading[..., 7:10].reshape(n, 12), reading[..., 3]


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__.splitlines()[0], formatter_class=argparse.ArgumentDefaultsHelpFormatter
    )
    parser.add_argument("--robot", default="config/robot/anymal_d.yaml", help="robot file (YAML)")
    parser.add_argument(
        "--num-envs", type=int, default=512, help="robots that are simulated at once"
    )
    options = parser.parse_args()
    robot = load_robot(options.robot)
    print(f"{robot.name}: error of the impulses, median / 95th percentile / maximum")
    for label, bend in (("default stance", 1.0), ("knees nearly straight", 0.15)):
        rng = np.random.default_rng(0)
        state, target, friction = random_stances(robot, options.num_envs, bend, rng)
        # put every robot down: its third-highest foot on the ground, one foot may hang
        _, heights = forces(robot, state, target, friction, ContactModel.HARD, 1)
        state[:, 2] -= np.sort(heights, axis=1)[:, 2]
        for law in (ContactModel.HARD, ContactModel.SMOOTHED):
            reference, _ = forces(robot, state, target, friction, law, MAX_SWEEPS)
            size = np.linalg.norm(reference, axis=1)
            loaded = size > LOADED
            for sweeps in range(1, 7):
                found, _ = forces(robot, state, target, friction, law, sweeps)
                error = np.linalg.norm(found - reference, axis=1)[loaded] / size[loaded]
                print(
                    f"  {label}, {law.value}, {loaded.sum()} stances, {sweeps} sweeps: "
                    f"{np.median(error):.1e} / {np.quantile(error, 0.95):.1e} / {error.max():.1e}"
                )


if __name__ == "__main__":
    main()
