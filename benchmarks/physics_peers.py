"""The same robot in other engines, for `physics.py`: each stands before it is timed.

Peers get the settings in which they are fastest: feet as the only geoms, no joint friction, PD as
their own position drive, pyramidal friction cones, at most ten solver iterations (one is used).
"""

from __future__ import annotations

import time
import xml.etree.ElementTree as ElementTree

import numpy as np
import warp as wp

from diffsim_trainer.physics import Robot, to_mjcf

CHECK_SECONDS = 1.0  # simulated, before timing
GRAPH_STEPS = 24
NEWTON_STEPS = 12
REPEATS = 5


def peer_xml(robot: Robot, dt: float) -> str:
    """MJCF of `robot` with feet only and its PD gains (kd and viscous drag in one damping)."""
    root = ElementTree.fromstring(to_mjcf(robot, dt))
    option = root.find("option")
    option.set("cone", "pyramidal")
    option.set("impratio", "10")  # with 1 the feet of a standing robot slide apart
    option.set("iterations", "10")
    option.set("ls_iterations", "10")
    for body in root.iter("body"):
        for geom in body.findall("geom"):
            if geom.get("name") not in robot.foot_names:
                body.remove(geom)
        for joint in body.findall("joint"):
            joint.set("frictionloss", "0")
    for motor in root.find("actuator"):
        motor.tag = "position"
        motor.attrib.pop("ctrlrange")
        motor.set("kp", repr(robot.kp))
        motor.set("kv", repr(robot.kd))
        motor.set("forcerange", f"{-robot.torque_limit} {robot.torque_limit}")
    return ElementTree.tostring(root, encoding="unicode")


def stand(model, data, robot: Robot) -> None:
    """MuJoCo data at rest in the default pose, with the drives holding it."""
    data.qpos[:3] = 0.0, 0.0, robot.stand_height
    data.qpos[3:7] = 1.0, 0.0, 0.0, 0.0
    data.qpos[7:], data.ctrl[:] = robot.default_pose, robot.default_pose


def assert_standing(height: np.ndarray, robot: Robot, engine: str) -> None:
    """Raise AssertionError unless every base is near its height with sagging drives."""
    low, high = robot.stand_height - 0.15, robot.stand_height + 0.02
    good = np.isfinite(height) & (height > low) & (height < high)
    assert np.all(good), f"{engine}: base heights {height.min()} to {height.max()} m; not standing"


def mujoco_rate(robot: Robot, dt: float, steps: int = 4000) -> float:
    """Steps per CPU second of MuJoCo C's mj_step."""
    import mujoco

    model = mujoco.MjModel.from_xml_string(peer_xml(robot, dt))
    data = mujoco.MjData(model)
    stand(model, data, robot)
    mujoco.mj_step(model, data, nstep=round(CHECK_SECONDS / dt))
    start = time.process_time()
    mujoco.mj_step(model, data, nstep=steps)
    spent = time.process_time() - start
    assert_standing(data.qpos[2:3], robot, "mujoco")
    return steps / spent


def graph_seconds(action) -> float:
    """Median seconds of `action` as a CUDA graph; it must have run once."""
    with wp.ScopedCapture() as capture:
        action()
    times = []
    for _ in range(REPEATS):
        wp.synchronize()
        start = time.perf_counter()
        wp.capture_launch(capture.graph)
        wp.synchronize()
        times.append(time.perf_counter() - start)
    return float(np.median(times))


def mujoco_warp_rate(robot: Robot, dt: float, num_envs: int) -> float:
    """Steps per second of mujoco_warp, GRAPH_STEPS steps in a CUDA graph."""
    import mujoco
    import mujoco_warp

    model = mujoco.MjModel.from_xml_string(peer_xml(robot, dt))
    data = mujoco.MjData(model)
    stand(model, data, robot)
    mujoco.mj_forward(model, data)
    on_device = mujoco_warp.put_model(model)
    worlds = mujoco_warp.put_data(model, data, nworld=num_envs, nconmax=8, njmax=32)

    def roll():
        for _ in range(GRAPH_STEPS):
            mujoco_warp.step(on_device, worlds)

    roll()
    for _ in range(round(CHECK_SECONDS / dt / GRAPH_STEPS)):
        roll()
    seconds = graph_seconds(roll)
    assert_standing(worlds.qpos.numpy()[:, 2], robot, "mujoco_warp")
    return num_envs * GRAPH_STEPS / seconds


def newton_rates(robot: Robot, solver: str, dt: float, num_envs: int) -> tuple[float, float]:
    """Steps per second of a differentiable Newton solver: forward, and forward with backward.

    Its contacts are penalties, so dt is its own. The check: heights are finite after the graph's
    few steps, and the gradient of the mean height reaches the joint velocities.
    """
    import newton

    one = newton.ModelBuilder()
    one.default_shape_cfg.ke, one.default_shape_cfg.kd = 5.0e4, 1.0e3
    one.add_mjcf(peer_xml(robot, dt), ignore_names=["ground"])
    one.joint_q[:7] = [0.0, 0.0, robot.stand_height, 0.0, 0.0, 0.0, 1.0]
    one.joint_q[7:] = list(robot.default_pose)
    one.joint_target_q[-12:] = list(robot.default_pose)
    one.joint_target_ke[-12:] = [robot.kp] * 12
    one.joint_target_kd[-12:] = [robot.kd] * 12
    many = newton.ModelBuilder()
    many.replicate(one, num_envs)
    many.add_ground_plane()
    model = many.finalize(requires_grad=True)
    stepper = getattr(newton.solvers, solver)(model)
    states = [model.state() for _ in range(NEWTON_STEPS + 1)]
    control = model.control()
    newton.eval_fk(model, model.joint_q, model.joint_qd, states[0])
    pipeline = newton.CollisionPipeline(model, broad_phase="explicit", requires_grad=True)
    contacts = pipeline.contacts()
    pipeline.collide(states[0], contacts)
    seed = wp.full(len(model.body_q), 1.0, dtype=wp.spatial_vector)
    tape = wp.Tape()

    def forward():
        for before, after in zip(states[:-1], states[1:], strict=True):
            before.clear_forces()
            stepper.step(before, after, control, contacts, dt)

    with tape:
        forward()

    def both():
        forward()
        tape.zero()
        tape.backward(grads={states[-1].body_qd: seed})

    both()
    forward_seconds, both_seconds = graph_seconds(forward), graph_seconds(both)
    assert np.all(np.isfinite(states[-1].body_q.numpy())), f"newton {solver}: not finite"
    gradient = control.joint_target_q.grad.numpy()
    assert np.any(gradient != 0.0), f"newton {solver}: no gradient reaches the targets"
    steps = num_envs * NEWTON_STEPS
    return steps / forward_seconds, steps / both_seconds
