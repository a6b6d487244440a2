"""Certificate: what it is about may not change by one byte; what is wrong is named."""

import json
import shutil
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pytest

from policy_controller.certificate import (
    NO_OVERRIDE,
    CertificateError,
    admit,
    check_certificate,
    default_path,
    describe_subject,
    load_or_create_key,
    read_controller_settings,
    trusted_keys_path,
    write_certificate,
)
from policy_controller.limits import SafetyLimits
from policy_controller.motion import MotionSettings

CONFIG = Path(__file__).parents[4] / "config"


class Case:
    """Copies of the shipped files, and a certificate of them."""

    def __init__(self, folder: Path) -> None:
        self.bundle = Path(shutil.copytree(CONFIG / "bundles" / "anymal_d", folder / "bundle"))
        for name in ("anymal_d.yaml", "anymal_d.urdf"):
            shutil.copy(CONFIG / "robot" / name, folder)
        self.robot, self.urdf = folder / "anymal_d.yaml", folder / "anymal_d.urdf"
        self.limits = Path(shutil.copy(CONFIG / "scenarios" / "demo.yaml", folder))
        self.safety, self.motion = SafetyLimits(), MotionSettings()
        self.path = default_path(self.bundle)
        self.sign(passed=True)

    def subject(self):
        return describe_subject(self.bundle, self.robot, self.limits, self.safety, self.motion)

    def sign(self, passed: bool) -> None:
        results, key = {"passed": passed, "runs": 3}, load_or_create_key()
        write_certificate(self.path, self.subject(), results, "2026-11-30 12:00", key)

    def check(self):
        return check_certificate(self.path, self.subject(), trusted_keys_path())


@pytest.fixture
def case(tmp_path, monkeypatch):
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "user"))
    return Case(tmp_path)


def flip_byte(path: Path, position: int) -> None:
    content = bytearray(path.read_bytes())
    content[position] ^= 1
    path.write_bytes(content)


def test_valid_certificate_is_accepted(case):
    assert case.check()["results"] == {"passed": True, "runs": 3}
    assert admit(case.bundle, case.subject(), NO_OVERRIDE) == ""


def test_key_is_made_once_and_for_the_user_alone(case):
    assert load_or_create_key().private_bytes_raw() == load_or_create_key().private_bytes_raw()
    path = trusted_keys_path().parent / "signing_key.pem"
    assert path.stat().st_mode & 0o777 == 0o600
    assert len(trusted_keys_path().read_text().splitlines()) == 1
    path.chmod(0o644)
    with pytest.raises(CertificateError, match="chmod 600"):
        load_or_create_key()


@pytest.mark.parametrize("name", ["bundle.json", "policy.onnx", "golden.npz"])
def test_one_byte_of_the_bundle(case, name):
    flip_byte(case.bundle / name, -1)
    with pytest.raises(CertificateError, match="the policy bundle is not what was") as error:
        case.check()
    assert len(error.value.problems) == 1


@pytest.mark.parametrize(
    "name, meaning",
    [("robot", "robot file"), ("urdf", "URDF of the robot"), ("limits", "scenarios and limits")],
)
def test_one_byte_of_a_file(case, name, meaning):
    path = getattr(case, name)
    flip_byte(path, path.read_bytes().index(b"# ") + 2 if b"# " in path.read_bytes() else -1)
    with pytest.raises(CertificateError, match=f"{meaning}.* is not what was certified") as error:
        case.check()
    assert len(error.value.problems) == 1


def test_one_setting_of_the_controller(case):
    case.safety = replace(case.safety, max_tilt=0.71)
    with pytest.raises(CertificateError, match=r"safety.max_tilt: found 0.71, allowed: 0.7;"):
        case.check()


def test_one_byte_of_the_control_code(case, monkeypatch, tmp_path):
    code = Path(shutil.copytree(Path(__file__).parents[1] / "policy_controller", tmp_path / "code"))
    flip_byte(code / "guards.py", 5)
    monkeypatch.setattr("policy_controller.certificate._PACKAGE", code)
    with pytest.raises(CertificateError, match="the controller's own code is not what was"):
        case.check()


@pytest.mark.parametrize("key", ["results", "subject", "issued", "schema_version"])
def test_change_of_the_certificate_itself(case, key):
    content = json.loads(case.path.read_text())
    content[key] = {**content[key], "runs": 4} if isinstance(content[key], dict) else 2
    case.path.write_text(json.dumps(content))
    with pytest.raises(CertificateError, match="changed after it was signed"):
        case.check()


def test_key_that_is_not_trusted(case):
    trusted_keys_path().write_text("# nobody\n")
    with pytest.raises(CertificateError, match="add the key if you trust who signed"):
        case.check()


def test_failed_verification_is_no_certificate(case):
    case.sign(passed=False)
    with pytest.raises(CertificateError, match="results.passed: found False, allowed: true"):
        case.check()


def test_missing_certificate_and_override(case):
    case.path.unlink()
    with pytest.raises(CertificateError, match="cannot be read"):
        admit(case.bundle, case.subject(), NO_OVERRIDE)
    words = admit(case.bundle, case.subject(), "hoist test")
    assert words.startswith("NOT CERTIFIED, overridden by the operator (hoist test)")


def test_settings_of_the_shipped_parameter_file_are_read():
    safety, motion = read_controller_settings(CONFIG / "controller.yaml")
    assert (safety, motion) == (SafetyLimits(), MotionSettings())


def test_check_needs_no_simulation_training_or_plots():
    code = (
        "import sys, policy_controller.certificate; "
        "print([m for m in ('torch', 'warp', 'mujoco', 'matplotlib', 'rclpy') if m in sys.modules])"
    )
    output = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert output.stdout.strip() == "[]", output.stderr
