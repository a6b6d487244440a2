"""The ONNX policy on one thread, with its shapes checked and its memory allocated once."""

from __future__ import annotations

import numpy as np
import onnxruntime

from policy_controller.onnx_file import find_outside_tensors

OBSERVATION_NAME = "observation"
ACTION_NAME = "action"


class PolicyError(ValueError):
    """The ONNX file cannot be run as a policy; the message says what was found and allowed."""


class OnnxPolicy:
    """action = policy(observation), deterministic, float32, one sample.

    One intra-op and one inter-op thread without spinning: the control thread does the work itself.
    """

    def __init__(self, model: bytes, observation_size: int, action_size: int, warm_up: int = 20):
        """model: content of the ONNX file, complete in itself.

        warm_up: runs made now, so that the first control step is not the slow one.
        Raises PolicyError if weights are in another file, or if names, types or shapes differ from
        the contract.
        """
        _check_complete(model)
        options = onnxruntime.SessionOptions()
        options.intra_op_num_threads = 1
        options.inter_op_num_threads = 1
        options.execution_mode = onnxruntime.ExecutionMode.ORT_SEQUENTIAL
        options.add_session_config_entry("session.intra_op.allow_spinning", "0")
        options.log_severity_level = 3
        try:
            self._session = onnxruntime.InferenceSession(
                model, sess_options=options, providers=["CPUExecutionProvider"]
            )
        except Exception as error:  # onnxruntime raises bare RuntimeError-like types of its own
            raise PolicyError(
                f"policy.onnx: cannot be loaded ({error}); allowed: one "
                "self-contained ONNX file; export again"
            ) from error
        _check_port("input", self._session.get_inputs(), OBSERVATION_NAME, observation_size)
        _check_port("output", self._session.get_outputs(), ACTION_NAME, action_size)
        self._observation = np.zeros((1, observation_size), dtype=np.float32)
        self._action = np.zeros((1, action_size), dtype=np.float32)
        self._binding = self._session.io_binding()
        self._binding.bind_input(
            OBSERVATION_NAME,
            "cpu",
            0,
            np.float32,
            self._observation.shape,
            self._observation.ctypes.data,
        )
        self._binding.bind_output(
            ACTION_NAME, "cpu", 0, np.float32, self._action.shape, self._action.ctypes.data
        )
        for _ in range(warm_up):
            self._session.run_with_iobinding(self._binding)

    def __call__(self, observation: np.ndarray) -> np.ndarray:
        """The action, float32, shape [action_size]; a new array. May hold NaN: the caller
        checks."""
        self._observation[0] = observation
        self._session.run_with_iobinding(self._binding)
        return self._action[0].copy()


def _check_complete(model: bytes) -> None:
    try:
        outside = find_outside_tensors(model)
    except ValueError as error:
        raise PolicyError(
            f"policy.onnx: cannot be loaded, {error}; allowed: an ONNX file; export again"
        ) from error
    if outside:
        raise PolicyError(
            f"policy.onnx: found weights outside of the file ({', '.join(outside[:3])}"
            f"{' and more' if len(outside) > 3 else ''}), allowed: none, since nothing proves that "
            "they belong to it; export again as one file, without external data"
        )


def _check_port(kind: str, ports: list, name: str, size: int) -> None:
    found = [(port.name, port.type, port.shape) for port in ports]
    fits = (
        len(ports) == 1
        and ports[0].name == name
        and ports[0].type == "tensor(float)"
        and len(ports[0].shape) == 2
        and not isinstance(ports[0].shape[0], int)
        and ports[0].shape[1] == size
    )
    if not fits:
        raise PolicyError(
            f"policy.onnx {kind}s: found {found}, allowed: one {kind} "
            f"({name!r}, 'tensor(float)', ['batch', {size}]); export again with a dynamic batch"
        )
