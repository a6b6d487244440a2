"""Verification through the real nodes, on suites small enough for a test: what passes, what fails
and by which limit, what a certificate is given for, what a rerun gives."""

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
import yaml

from policy_controller.certificate import (
    CertificateError,
    check_certificate,
    default_path,
    describe_subject,
    read_controller_settings,
    trusted_keys_path,
)
from policy_controller.verification.certify import certify

pytest.importorskip("warp", reason="needs Warp")
pytest.importorskip("mujoco", reason="needs MuJoCo")

ROOT = Path(__file__).parents[5]
CONFIG, SOURCE = ROOT / "config", ROOT / "ros2_ws" / "src"
BUNDLE, ROBOT = CONFIG / "bundles" / "anymal_d", CONFIG / "robot" / "anymal_d.yaml"
SETTINGS = CONFIG / "controller.yaml"
RERUN_TOLERANCE = 1e-9  # of every figure in SI units: lockstep repeats to the last bit


def write_suite(path: Path, cases: dict[str, dict[str, int]]) -> Path:
    """The shipped suite with these families alone, each with these numbers of cases."""
    data = yaml.safe_load((CONFIG / "scenarios" / "suite.yaml").read_text())
    data["families"] = [
        family | {"cases": cases[family["name"]]}
        for family in data["families"]
        if family["name"] in cases
    ]
    path.write_text(yaml.safe_dump(data))
    return path


def verify(bundle: Path, suite: Path, out: Path, first_on_path: Path | None = None):
    """Runs the command; returns its exit status, its report and what it printed."""
    sources = [SOURCE / p for p in ("policy_controller", "anymal_bridge", "diffsim_trainer")]
    path = [first_on_path, *sources] if first_on_path else sources
    environment = os.environ | {
        "PYTHONPATH": os.pathsep.join([*map(str, path), os.environ.get("PYTHONPATH", "")]),
        "COLUMNS": "200",
    }
    command = [sys.executable, "-m", "policy_controller.verification.verify"]
    command += ["--bundle", bundle, "--suite", suite, "--out", out]
    command += ["--robot", ROBOT, "--settings", SETTINGS]
    done = subprocess.run(
        list(map(str, command)), capture_output=True, text=True, timeout=300, env=environment
    )
    report = out / "report.json"
    assert report.exists(), done.stdout + done.stderr
    return done.returncode, json.loads(report.read_text()), done.stdout


def broken_limits(report: dict) -> set[str]:
    """Keys of the limits that were not kept, over all cases."""
    return {
        check["key"]
        for result in report["results"]
        for check in result["checks"]
        if check["decides"] and not check["passed"]
    }


@pytest.fixture(scope="module")
def verified(tmp_path_factory):
    """(folder, exit status, report, output) of a passing run: both engines, and one fault."""
    folder = tmp_path_factory.mktemp("verified")
    suite = write_suite(
        folder / "suite.yaml",
        {"commands": {"warp": 1, "mujoco": 1}, "joint reads NaN": {"warp": 1}},
    )
    return folder, *verify(BUNDLE, suite, folder / "report")


def test_default_bundle_passes_on_both_engines(verified):
    _, status, report, output = verified
    assert status == 0 and report["passed"], output
    assert report["cases"] == 3 and report["pattern"] == "no failure"
    assert {result["engine"] for result in report["results"]} == {"warp", "mujoco"}


def test_engines_are_compared_joint_by_joint(verified):
    joints = verified[2]["joints"]
    assert len(joints) == 12
    assert all(0.0 < joint["torque_rms"] < 10.0 for joint in joints)  # N m


def test_page_needs_nothing_beside_it(verified):
    page = (verified[0] / "report" / "index.html").read_text()
    assert 'src="data:image/png;base64,' in page
    assert "http" not in page.replace("http://www.w3.org", "")


@pytest.fixture
def own_key(tmp_path, monkeypatch):
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "user"))


def copy_bundle(folder: Path) -> Path:
    return Path(shutil.copytree(BUNDLE, folder / "bundle"))


def test_certificate_of_a_passing_run_is_valid(verified, own_key, tmp_path):
    suite, bundle = verified[0] / "suite.yaml", copy_bundle(tmp_path)
    path = certify(verified[0] / "report", bundle, ROBOT, suite, SETTINGS)
    assert path == default_path(bundle)
    subject = describe_subject(bundle, ROBOT, suite, *read_controller_settings(SETTINGS))
    content = check_certificate(path, subject, trusted_keys_path())
    assert content["results"]["cases"] == 3
    assert "velocity_rmse" in {row["limit"] for row in content["results"]["margins"]}


@pytest.mark.parametrize("changed", ["bundle", "robot_file", "limits", "controller"])
def test_no_certificate_for_what_was_changed_after_the_run(verified, own_key, tmp_path, changed):
    bundle = copy_bundle(tmp_path)
    for name in ("anymal_d.yaml", "anymal_d.urdf"):
        shutil.copy(ROBOT.with_name(name), tmp_path)
    robot, suite = (
        tmp_path / "anymal_d.yaml",
        Path(shutil.copy(verified[0] / "suite.yaml", tmp_path)),
    )
    settings = Path(shutil.copy(SETTINGS, tmp_path))
    if changed == "controller":
        text = settings.read_text()
        assert "max_tilt: 0.7" in text
        settings.write_text(text.replace("max_tilt: 0.7", "max_tilt: 0.8"))
    else:
        file = {"bundle": bundle / "bundle.json", "robot_file": robot, "limits": suite}[changed]
        file.write_bytes(file.read_bytes() + b"\n")
    with pytest.raises(CertificateError, match=f"{changed}: changed since it was verified"):
        certify(verified[0] / "report", bundle, robot, suite, settings)
    assert not default_path(bundle).exists()


@pytest.mark.parametrize(
    ("change", "named"),
    [
        (lambda report: report.update(passed=False), "passed: found False"),
        (lambda report: report["provenance"].update(complete=False), "complete: found false"),
    ],
)
def test_no_certificate_for_a_run_that_failed_or_was_partial(
    verified, own_key, tmp_path, change, named
):
    report = json.loads((verified[0] / "report" / "report.json").read_text())
    change(report)
    (tmp_path / "report.json").write_text(json.dumps(report))
    bundle, suite = copy_bundle(tmp_path), verified[0] / "suite.yaml"
    with pytest.raises(CertificateError, match=named):
        certify(tmp_path, bundle, ROBOT, suite, SETTINGS)


@pytest.mark.slow
def test_rerun_gives_the_same_verdicts_and_figures(verified, tmp_path):
    _, _, again, _ = verify(BUNDLE, verified[0] / "suite.yaml", tmp_path / "again")
    for before, after in zip(verified[2]["results"], again["results"], strict=True):
        assert (before["name"], before["passed"]) == (after["name"], after["passed"])
        for one, other in zip(before["checks"], after["checks"], strict=True):
            if one["key"] != "tick_duration":  # wall time
                assert one["value"] == pytest.approx(other["value"], abs=RERUN_TOLERANCE)


def edit_json(bundle: Path, change) -> None:
    path = bundle / "bundle.json"
    data = json.loads(path.read_text())
    change(data)
    path.write_text(json.dumps(data))


def halve_kp(bundle: Path) -> None:
    edit_json(bundle, lambda d: d["gains"].update(kp=[0.5 * kp for kp in d["gains"]["kp"]]))


def scale_action(bundle: Path) -> None:
    edit_json(bundle, lambda d: d["action"].update(scale=1.5 * d["action"]["scale"]))


def swap_two_joints(bundle: Path) -> None:
    """As if training had exported LF_HFE and RF_HFE in the other's place; golden data included, so
    that the bundle is consistent in itself and only a simulation can tell."""
    import hashlib

    import onnx

    order = np.arange(12)
    order[[1, 4]] = 4, 1
    model = onnx.load(str(bundle / "policy.onnx"))
    last = next(node for node in model.graph.node if "action" in node.output)
    last.output[list(last.output).index("action")] = "unswapped"
    model.graph.initializer.append(onnx.numpy_helper.from_array(order, "order"))
    swap = onnx.helper.make_node("Gather", ["unswapped", "order"], ["action"], axis=1)
    model.graph.node.append(swap)
    onnx.save(model, str(bundle / "policy.onnx"))
    golden = dict(np.load(bundle / "golden.npz"))
    golden["action"] = golden["action"][:, order]
    np.savez(bundle / "golden.npz", **golden)
    hashes = {
        key: hashlib.sha256((bundle / name).read_bytes()).hexdigest()
        for key, name in (("onnx_sha256", "policy.onnx"), ("golden_sha256", "golden.npz"))
    }
    edit_json(bundle, lambda d: d.update(hashes))


@pytest.mark.slow
@pytest.mark.parametrize(
    ("spoil", "named"),
    [
        (swap_two_joints, {"falls", "guard_trips"}),
        (halve_kp, {"velocity_rmse", "yaw_rate_rmse", "swing_apex", "falls", "guard_trips"}),
        (scale_action, {"target_rate", "torque_ratio", "velocity_rmse", "falls", "guard_trips"}),
    ],
)
def test_negative_bundle_fails_by_a_named_limit(tmp_path, spoil, named):
    bundle = copy_bundle(tmp_path)
    spoil(bundle)
    suite = write_suite(tmp_path / "suite.yaml", {"commands": {"warp": 2}})
    status, report, output = verify(bundle, suite, tmp_path / "report")
    assert status == 1 and not report["passed"], output
    assert broken_limits(report) & named, output
    if spoil is swap_two_joints:
        assert report["pattern"].startswith("scrambled interface"), output


@pytest.mark.slow
def test_negative_controller_without_one_guard_fails_by_its_reason_code(tmp_path):
    shutil.copytree(
        SOURCE / "policy_controller" / "policy_controller", tmp_path / "policy_controller"
    )
    guards = tmp_path / "policy_controller" / "guards.py"
    text, body = guards.read_text(), "    state = sample.state\n    found = [\n"
    assert text.count(body) == 1
    guards.write_text(text.replace(body, "    return None\n" + body))
    suite = write_suite(tmp_path / "suite.yaml", {"joint reads NaN": {"warp": 1}})
    status, report, output = verify(BUNDLE, suite, tmp_path / "report", tmp_path)
    assert status == 1 and broken_limits(report) == {"reason_code"}, output
    assert "STATE_NONFINITE" in output
