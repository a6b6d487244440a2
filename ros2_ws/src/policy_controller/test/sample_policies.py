"""Tiny ONNX policies, their golden data, and the poses and limits of the tests' robot."""

from __future__ import annotations

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

from policy_controller import bundle as contract
from policy_controller.observation import (
    STANDARD_OBSERVATION,
    ObservationBuilder,
    ObservationTerm,
    define_term,
)
from policy_controller.policy import OnnxPolicy
from policy_controller.state import RobotState

DEFAULT_POSE = (0.0, 0.4, -0.8, 0.0, 0.4, -0.8, 0.0, -0.4, 0.8, 0.0, -0.4, 0.8)
LYING_POSE = (-0.05, 1.57, -2.75, 0.05, 1.57, -2.75, -0.05, -1.57, 2.75, 0.05, -1.57, 2.75)
LOWER = (-0.7, -2.0, -2.8) * 4
UPPER = (0.7, 2.0, 2.8) * 4
OBSERVATION_WITH_PAST = (
    define_term("joint_position", history=3),
    define_term("command"),
    define_term("joint_velocity", 0.1, history=2),
)


def build_onnx(
    gain: float = 0.05,
    inputs: int = 50,
    outputs: int = 12,
    batch: str | int = "batch",
    nan_above_speed: float | None = None,
) -> bytes:
    """action = tanh(gain * W observation), W from a fixed seed.

    nan_above_speed: if given, log(nan_above_speed - observation[0]) * 0 is added: 0 while the
    forward speed is below, NaN above.
    """
    weights = np.random.default_rng(5).normal(0.0, gain, (inputs, outputs)).astype(np.float32)
    initializers = [numpy_helper.from_array(weights, "weights")]
    nodes = [helper.make_node("MatMul", ["observation", "weights"], ["linear"])]
    if nan_above_speed is None:
        nodes.append(helper.make_node("Tanh", ["linear"], ["action"]))
    else:
        pick = np.zeros((inputs, outputs), dtype=np.float32)
        pick[0] = 1.0
        initializers += [
            numpy_helper.from_array(pick, "pick"),
            numpy_helper.from_array(np.float32(nan_above_speed), "speed"),
            numpy_helper.from_array(np.float32(0.0), "zero"),
        ]
        nodes += [
            helper.make_node("Tanh", ["linear"], ["squashed"]),
            helper.make_node("MatMul", ["observation", "pick"], ["forward"]),
            helper.make_node("Sub", ["speed", "forward"], ["below"]),
            helper.make_node("Log", ["below"], ["logarithm"]),
            helper.make_node("Mul", ["logarithm", "zero"], ["poison"]),
            helper.make_node("Add", ["squashed", "poison"], ["action"]),
        ]
    graph = helper.make_graph(
        nodes,
        "policy",
        [helper.make_tensor_value_info("observation", TensorProto.FLOAT, [batch, inputs])],
        [helper.make_tensor_value_info("action", TensorProto.FLOAT, [batch, outputs])],
        initializers,
    )
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)
    onnx.checker.check_model(model)
    return model.SerializeToString()


def build_golden(
    onnx_model: bytes,
    clock,
    rows: int = 10,
    terms: tuple[ObservationTerm, ...] = STANDARD_OBSERVATION,
    run: int = 1,
) -> bytes:
    """Golden data with asymmetric states, moderate enough for any policy of build_onnx. Every
    `run` rows the past begins anew."""
    rng = np.random.default_rng(7)
    state = rng.normal(0.0, 0.2, (rows, 37))
    state[:, 3:7] = rng.normal(0.0, 0.1, (rows, 4)) + (0.0, 0.0, 0.0, 1.0)
    state[:, 3:7] /= np.linalg.norm(state[:, 3:7], axis=1, keepdims=True)
    state[:, 13:25] += DEFAULT_POSE
    command = rng.uniform(-0.5, 0.5, (rows, 3))
    command[3] = 0.0
    phase = rng.uniform(0.0, 6.28, rows)
    previous_action = rng.uniform(-1.0, 1.0, (rows, 12))
    builder = ObservationBuilder(terms, DEFAULT_POSE)
    policy = OnnxPolicy(onnx_model, builder.size, 12, warm_up=0)
    start = np.arange(rows) % run == 0
    observation, action = [], []
    for row in range(rows):
        if start[row]:
            builder.reset()
        observation.append(
            builder.build(
                RobotState.from_packed(state[row]),
                command[row],
                clock.signal(phase[row], command[row]),
                previous_action[row],
            ).copy()
        )
        action.append(policy(observation[-1]))
    return contract.encode_golden(
        contract.Golden(
            state, command, phase, previous_action, np.array(observation), np.array(action), start
        )
    )
