"""The ONNX session: shapes, numbers, memory."""

from __future__ import annotations

import numpy as np
import pytest

from policy_controller.policy import OnnxPolicy, PolicyError


def test_action_is_the_network_of_the_file(make_onnx):
    weights = np.random.default_rng(5).normal(0.0, 0.05, (50, 12)).astype(np.float32)
    policy = OnnxPolicy(make_onnx(), 50, 12)
    for observation in np.random.default_rng(2).normal(size=(5, 50)).astype(np.float32):
        np.testing.assert_allclose(policy(observation), np.tanh(observation @ weights), atol=1e-6)


def test_actions_do_not_share_memory(make_onnx):
    policy = OnnxPolicy(make_onnx(), 50, 12)
    first = policy(np.ones(50, dtype=np.float32))
    kept = first.copy()
    policy(np.zeros(50, dtype=np.float32))
    np.testing.assert_array_equal(first, kept)


def test_non_finite_output_is_passed_on_for_the_safety_filter(make_onnx):
    policy = OnnxPolicy(make_onnx(nan_above_speed=0.5), 50, 12)
    assert np.isfinite(policy(np.full(50, 0.4, dtype=np.float32))).all()
    assert np.isnan(policy(np.full(50, 0.6, dtype=np.float32))).all()


@pytest.mark.parametrize(("observation_size", "action_size"), [(49, 12), (50, 11)])
def test_sizes_must_fit(make_onnx, observation_size, action_size):
    with pytest.raises(PolicyError, match="allowed: one (in|out)put"):
        OnnxPolicy(make_onnx(), observation_size, action_size)
