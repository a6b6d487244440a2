"""Export: one self-contained ONNX file that equals the network on raw observations, and a bundle
the controller accepts."""

import numpy as np
import onnx
import onnxruntime
import pytest
import torch

from diffsim_trainer.checkpoint import load_checkpoint, save_checkpoint
from diffsim_trainer.export import ExportError, check_parity, export_bundle, export_onnx
from diffsim_trainer.networks import Actor
from diffsim_trainer.observation import OBSERVATION_TERMS
from diffsim_trainer.train import build_trainer


@pytest.fixture
def checkpoint(tmp_path, small_config):
    """A policy after two iterations: its normaliser has moved away from its initial values."""
    config = small_config(iterations=2)
    shac = build_trainer(config, "cpu")
    for _ in range(2):
        shac.update()
    save_checkpoint(tmp_path / "c.pt", config, shac.state_dict(), samples=24, training_seconds=1.0)
    return load_checkpoint(tmp_path / "c.pt")


def test_onnx_equals_the_network_on_raw_observations(checkpoint):
    actor = checkpoint.actor()
    assert actor.norm.mean.abs().max() > 0.1
    observation = (3 * torch.randn(64, 50)).numpy()
    assert check_parity(actor, export_onnx(actor), observation) <= 1e-5


def test_a_file_without_the_normaliser_is_noticed(checkpoint):
    """The mistake of PITFALLS B17: exporting the bare network."""
    actor = checkpoint.actor()
    with torch.no_grad():
        actor.net[-1].weight.mul_(30.0)
    bare = Actor(50, 12, checkpoint.config.shac.hidden_sizes)
    bare.net.load_state_dict(actor.net.state_dict())
    with pytest.raises(ExportError, match="differ by"):
        check_parity(actor, export_onnx(bare), torch.randn(8, 50).numpy())


def test_onnx_is_one_file_at_the_pinned_opset_with_dynamic_batch(checkpoint, tmp_path, robot_path):
    bundle = export_bundle(checkpoint, tmp_path / "bundle", robot_path)
    assert sorted(p.name for p in (tmp_path / "bundle").iterdir()) == [
        "bundle.json",
        "golden.npz",
        "policy.onnx",
    ]
    model = onnx.load_from_string(bundle.onnx)
    assert [o.version for o in model.opset_import if o.domain == ""] == [17]
    assert not any(t.external_data for t in model.graph.initializer)
    alone = tmp_path / "alone"
    alone.mkdir()
    (alone / "policy.onnx").write_bytes((tmp_path / "bundle" / "policy.onnx").read_bytes())
    session = onnxruntime.InferenceSession(
        alone / "policy.onnx", providers=["CPUExecutionProvider"]
    )
    observation = np.random.default_rng(0).normal(size=(64, 50)).astype(np.float32)
    together = session.run(None, {"observation": observation})[0]
    one = session.run(None, {"observation": observation[:1]})[0]
    np.testing.assert_allclose(one, together[:1], atol=1e-6)


def test_an_untrained_normaliser_is_refused(checkpoint, tmp_path, robot_path):
    state = checkpoint.shac["actor"]
    state["norm.mean"].zero_(), state["norm.var"].fill_(1.0), state["norm.count"].fill_(1e-2)
    with pytest.raises(ExportError, match="initial values"):
        export_bundle(checkpoint, tmp_path / "bundle", robot_path)
    assert not (tmp_path / "bundle").exists()


def test_the_controller_accepts_the_bundle_and_reproduces_the_golden_data(
    checkpoint, tmp_path, robot_path
):
    from policy_controller.bundle import check_robot, load_bundle
    from policy_controller.robot import load_robot_description

    written = export_bundle(checkpoint, tmp_path / "bundle", robot_path)
    read = load_bundle(tmp_path / "bundle")
    check_robot(read, load_robot_description(robot_path))
    assert read.sha256 == written.sha256
    assert read.action.scale == checkpoint.config.env.action_scale
    assert read.training.config_sha256 == checkpoint.config.sha256()


def test_observation_terms_are_those_of_the_controller():
    from policy_controller.observation import STANDARD_OBSERVATION

    ours = [(t.name, t.size, t.scale) for t in OBSERVATION_TERMS]
    assert ours == [(t.name, t.size, t.scale) for t in STANDARD_OBSERVATION]
