"""The ONNX session: shapes, numbers, memory."""

from __future__ import annotations

import io

import numpy as np
import onnx
import pytest
from hypothesis import given
from hypothesis import strategies as st
from onnx import TensorProto, helper, numpy_helper
from sample_policies import build_onnx

from policy_controller.onnx_file import find_outside_tensors
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


def test_weights_in_another_file_are_refused_even_where_that_file_lies(
    make_onnx, tmp_path, monkeypatch
):
    """ONNX Runtime would find it in the working directory; no hash covers it."""
    model = onnx.load_from_string(make_onnx())
    onnx.save_model(
        model,
        str(tmp_path / "policy.onnx"),
        save_as_external_data=True,
        location="policy.onnx.data",
        size_threshold=0,
    )
    assert (tmp_path / "policy.onnx.data").stat().st_size == 50 * 12 * 4
    monkeypatch.chdir(tmp_path)
    with pytest.raises(PolicyError, match="weights outside of the file.*export again.*one file"):
        OnnxPolicy((tmp_path / "policy.onnx").read_bytes(), 50, 12)


def test_outside_tensor_is_found_wherever_it_hides():
    """Initializer, constant, body of a branch, sparse tensor, function."""
    outside = numpy_helper.from_array(np.ones((2, 2), dtype=np.float32), "w")
    outside.data_location = TensorProto.EXTERNAL
    constant = helper.make_node("Constant", [], ["c"], value=outside)
    body = helper.make_graph([constant], "body", [], [])
    branch = helper.make_node("If", ["x"], ["y"], then_branch=body, else_branch=body)
    function = helper.make_function("own", "f", [], ["c"], [constant], [])
    sparse = onnx.SparseTensorProto(values=outside)
    for nodes, others in (
        ([], dict(initializer=[outside])),
        ([constant], {}),
        ([branch], {}),
        ([], dict(sparse_initializer=[sparse])),
    ):
        graph = helper.make_graph(nodes, "g", [], [], **others)
        assert "w" in find_outside_tensors(helper.make_model(graph).SerializeToString())
    model = helper.make_model(helper.make_graph([], "g", [], []), functions=[function])
    assert find_outside_tensors(model.SerializeToString()) == ["w"]


def test_file_with_its_weights_inside_has_no_outside_tensor(make_onnx):
    assert find_outside_tensors(make_onnx()) == []


@given(content=st.binary(max_size=200), at=st.integers(0, 2000))
def test_damaged_file_is_refused_with_a_policy_error(content, at):
    model = io.BytesIO(build_onnx())
    model.seek(at)
    model.write(content)
    try:
        OnnxPolicy(model.getvalue(), 50, 12, warm_up=0)
    except PolicyError:
        pass
