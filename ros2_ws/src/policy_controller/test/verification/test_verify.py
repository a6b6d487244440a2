"""Verification through the real nodes, on suites small enough for a test: what passes, what fails
and by which limit, what a certificate is given for, what a rerun gives."""

import json
import os
import shutil
import signal
import subprocess
import sys
import time
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


def start_verify(
    bundle: Path, suite: Path, out: Path, robot: Path = ROBOT, first_on_path: Path | None = None
) -> subprocess.Popen:
    sources = [SOURCE / p for p in ("policy_controller", "anymal_bridge", "diffsim_trainer")]
    path = [first_on_path, *sources] if first_on_path else sources
    environment = os.environ | {
        "PYTHONPATH": os.pathsep.join([*map(str, path), os.environ.get("PYTHONPATH", "")]),
        "COLUMNS": "200",
    }
    command = [sys.executable, "-m", "policy_controller.verification.verify"]
    command += ["--bundle", bundle, "--suite", suite, "--out", out]
    command += ["--robot", robot, "--settings", SETTINGS]
    return subprocess.Popen(
        list(map(str, command)),
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        env=environment,
    )


def verify(bundle: Path, suite: Path, out: Path, **options):
    """Runs the command; returns its exit status, its report and what it printed."""
    process = start_verify(bundle, suite, out, **options)
    output, _ = process.communicate(timeout=300)
    report = out / "report.json"
    assert report.exists(), output
    return process.returncode, json.loads(report.read_text()), output


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
    assert "://" not in page.replace("http://www.w3.org", "")  # base64 has no colon


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
    _, again, _ = verify(BUNDLE, verified[0] / "suite.yaml", tmp_path / "again")
    for before, after in zip(verified[2]["results"], again["results"], strict=True):
        assert (before["name"], before["passed"]) == (after["name"], after["passed"])
        for one, other in zip(before["checks"], after["checks"], strict=True):
            if one["key"] != "tick_duration":  # wall time
                assert one["value"] == other["value"], one["key"]  # to the last bit


def edit_json(bundle: Path, change) -> None:
    path = bundle / "bundle.json"
    data = json.loads(path.read_text())
    change(data)
    path.write_text(json.dumps(data))


@pytest.mark.slow
def test_interrupt_stops_everything_at_once(tmp_path):
    suite = write_suite(tmp_path / "suite.yaml", {"commands": {"warp": 9, "mujoco": 9}})
    process = start_verify(BUNDLE, suite, tmp_path / "report")
    first = process.stdout.readline()  # a case is done: both engines are running
    assert "1/9" in first
    nodes = node_processes(tmp_path)
    assert nodes
    process.send_signal(signal.SIGINT)
    output, _ = process.communicate(timeout=30)
    assert process.returncode == 130 and "Stopped" in output
    deadline = time.monotonic() + 30.0
    while node_processes(tmp_path) and time.monotonic() < deadline:
        time.sleep(0.1)
    assert not node_processes(tmp_path)


def node_processes(folder: Path) -> list[str]:
    """Processes that write a log below `folder`."""
    found = []
    for link in Path("/proc").glob("[0-9]*/fd/1"):
        try:
            target = os.readlink(link)
        except OSError:  # has ended, or is not ours
            continue
        if target.startswith(str(folder)):
            found.append(target)
    return found


def halve_kp(bundle: Path) -> None:
    edit_json(bundle, lambda d: d["gains"].update(kp=[0.5 * kp for kp in d["gains"]["kp"]]))


def scale_action(bundle: Path) -> None:
    edit_json(bundle, lambda d: d["action"].update(scale=1.5 * d["action"]["scale"]))


def swap_two_joints(bundle: Path) -> None:
    """LF_HFE and RF_HFE, each in the other's place."""
    order = np.arange(12)
    order[[1, 4]] = 4, 1
    reorder_actions(bundle, order)


def order_by_joint(bundle: Path) -> None:
    """All HAA first, then all HFE, then all KFE, as other frameworks sort them."""
    reorder_actions(bundle, np.arange(12).reshape(4, 3).T.ravel())


def reorder_actions(bundle: Path, order: np.ndarray) -> None:
    """As if training had exported the actions in another order; golden data included, so that the
    bundle is consistent in itself and only a simulation can tell."""
    import hashlib

    import onnx

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
        (swap_two_joints, {"velocity_rmse", "stance_slip", "falls", "guard_trips"}),
        (order_by_joint, {"falls", "guard_trips"}),
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
    if spoil is order_by_joint:
        assert report["pattern"].startswith("scrambled interface"), output


@pytest.mark.slow
def test_negative_bundle_with_half_the_gain_is_refused_by_the_robot_file(tmp_path):
    bundle = copy_bundle(tmp_path)
    halve_kp(bundle)
    suite = write_suite(tmp_path / "suite.yaml", {"commands": {"warp": 2}})
    process = start_verify(bundle, suite, tmp_path / "report")
    output, _ = process.communicate(timeout=300)
    assert process.returncode == 2 and "gains.kp LF_HAA: found 42.5, allowed: 85.0" in output


@pytest.mark.slow
def test_negative_robot_with_half_the_gain_fails_by_a_named_limit(tmp_path):
    """Bundle and robot file agree, so that only a simulation can tell."""
    bundle = copy_bundle(tmp_path)
    halve_kp(bundle)
    robot = tmp_path / ROBOT.name
    text = ROBOT.read_text()
    assert text.count("kp: 85.0") == 1
    robot.write_text(text.replace("kp: 85.0", "kp: 42.5"))
    shutil.copy(ROBOT.with_suffix(".urdf"), tmp_path)
    suite = write_suite(tmp_path / "suite.yaml", {"commands": {"warp": 2}})
    status, report, output = verify(bundle, suite, tmp_path / "report", robot=robot)
    named = {"velocity_rmse", "yaw_rate_rmse", "swing_apex", "drift", "falls", "guard_trips"}
    assert status == 1 and broken_limits(report) & named, output


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
    status, report, output = verify(BUNDLE, suite, tmp_path / "report", first_on_path=tmp_path)
    assert status == 1 and broken_limits(report) == {"reason_code"}, output
    assert "STATE_NONFINITE" in output
