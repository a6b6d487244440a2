"""Certificate: signed evidence that exactly this bundle, on exactly this robot file, with exactly
these controller settings and this control code, has passed exactly these limits.

The controller checks it before it commands a robot (parameter `require_certificate`); verification
writes it (policy_controller.verification.certify). No ROS, nothing of training or simulation.

The file is JSON. The signature is Ed25519 over all other keys, sorted, without spaces. A public key
is trusted when its 64 hexadecimal digits begin a line of the file of trusted keys.
"""

from __future__ import annotations

import hashlib
import json
import os
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import yaml
from cryptography.exceptions import InvalidSignature
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey, Ed25519PublicKey

from policy_controller.bundle import read_files
from policy_controller.fields import RefusedError, build_groups, describe_problem
from policy_controller.limits import SafetyLimits
from policy_controller.motion import MotionSettings

SCHEMA_VERSION = 1
FILE_NAME = "certificate.json"
NO_OVERRIDE = "none"
"""Value of the parameter `certificate_override` that overrides nothing."""
_CURE = "run `make verify` and certify again, or restore what was certified"
_PACKAGE = Path(__file__).parent


class CertificateError(RefusedError):
    """There is no valid certificate for what is to be run."""


@dataclass(frozen=True)
class Subject:
    """What a certificate is about. Files count byte by byte, as SHA-256; `controller` has every
    setting of the guards and of the motions by its parameter name."""

    bundle: str
    robot_file: str
    urdf: str
    limits: str
    control_code: str
    controller: dict[str, Any]


_MEANING = {
    "bundle": "the policy bundle",
    "robot_file": "the robot file (YAML)",
    "urdf": "the URDF of the robot",
    "limits": "the scenarios and limits",
    "control_code": "the controller's own code",
}


def describe_subject(
    bundle: str | Path,
    robot: str | Path,
    limits: str | Path,
    safety: SafetyLimits,
    motion: MotionSettings,
) -> Subject:
    """The subject of files and settings as they are now. Raises RefusedError or OSError for a file
    that cannot be read.

    bundle: directory or .zip. robot: robot file. limits: the suite of scenarios (YAML).
    """
    content, robot = read_files(Path(bundle)), Path(robot)
    urdf = robot.parent / yaml.safe_load(robot.read_text())["urdf"]
    return Subject(
        bundle=_hash(*(part for item in sorted(content.items()) for part in _bytes_of(*item))),
        robot_file=_hash(robot.read_bytes()),
        urdf=_hash(urdf.read_bytes()),
        limits=_hash(Path(limits).read_bytes()),
        control_code=_hash(
            *(
                part
                for file in sorted(_PACKAGE.glob("*.py"))
                for part in _bytes_of(file.name, file.read_bytes())
            )
        ),
        controller={f"safety.{name}": value for name, value in asdict(safety).items()}
        | {f"motion.{name}": value for name, value in asdict(motion).items()},
    )


def read_controller_settings(path: str | Path) -> tuple[SafetyLimits, MotionSettings]:
    """Guards and motions of a parameter file as config/controller.yaml. Raises RefusedError."""
    (node,) = yaml.safe_load(Path(path).read_text()).values()
    tables = node["ros__parameters"]
    values = {
        f"{group}.{name}": value
        for group in ("safety", "motion")
        for name, value in tables.get(group, {}).items()
    }
    groups = (("safety.", SafetyLimits), ("motion.", MotionSettings))
    return tuple(build_groups(values, groups, "correct the parameter file", f"{path}"))


def default_path(bundle: str | Path) -> Path:
    """Where the certificate of a bundle lies: in its directory, or beside its .zip."""
    bundle = Path(bundle)
    return bundle / FILE_NAME if bundle.is_dir() else bundle.with_suffix(f".{FILE_NAME}")


def key_directory() -> Path:
    """The user's own directory of the signing key and of the trusted public keys."""
    return Path(os.environ.get("XDG_CONFIG_HOME") or Path.home() / ".config") / "footlight"


def trusted_keys_path() -> Path:
    """The user's file of trusted public keys, one a line: hexadecimal digits, then any comment."""
    return key_directory() / "trusted_keys"


def load_or_create_key() -> Ed25519PrivateKey:
    """The user's signing key. The first call makes it, readable by the user alone, and trusts it
    on this computer."""
    path = key_directory() / "signing_key.pem"
    if not path.exists():
        path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
        key = Ed25519PrivateKey.generate()
        text = key.private_bytes(
            serialization.Encoding.PEM,
            serialization.PrivateFormat.PKCS8,
            serialization.NoEncryption(),
        )
        with open(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "wb") as file:
            file.write(text)
        with trusted_keys_path().open("a") as file:
            file.write(f"{_public_hex(key)} made on this computer\n")
    if path.stat().st_mode & 0o077:
        mode = oct(path.stat().st_mode & 0o777)
        cure = f"chmod 600 {path}, and make a new key if others could read it"
        raise CertificateError("signing key", [describe_problem("mode", mode, "0o600", cure)])
    return serialization.load_pem_private_key(path.read_bytes(), password=None)


def write_certificate(
    path: Path, subject: Subject, results: dict[str, Any], issued: str, key: Ed25519PrivateKey
) -> None:
    """Sign and write. results: plain data, the summary of the report. issued: date and time."""
    content = {
        "schema_version": SCHEMA_VERSION,
        "subject": asdict(subject),
        "results": results,
        "issued": issued,
        "public_key": _public_hex(key),
    }
    content["signature"] = key.sign(_signed_bytes(content)).hex()
    path.write_text(json.dumps(content, indent=2, allow_nan=False) + "\n")


def check_certificate(path: Path, subject: Subject, trusted_keys: Path) -> dict[str, Any]:
    """The content of a certificate that is signed by a trusted key and fits `subject`.

    Raises CertificateError with one line for everything that differs.
    """
    what = f"certificate {path}"
    try:
        content = json.loads(path.read_text())
        certified = content["subject"]
        key = Ed25519PublicKey.from_public_bytes(bytes.fromhex(content["public_key"]))
        signature = bytes.fromhex(content["signature"])
        passed = content["results"]["passed"]
    except (OSError, ValueError, KeyError, TypeError) as error:
        problem = f"cannot be read ({error!r}); {_CURE}"
        raise CertificateError(what, [problem]) from error
    try:
        key.verify(signature, _signed_bytes(content))
    except InvalidSignature:
        problem = "signature: does not fit the content, which was changed after it was signed"
        raise CertificateError(what, [f"{problem}; {_CURE}"]) from None
    problems = []
    if content["schema_version"] != SCHEMA_VERSION:
        found = content["schema_version"]
        problems.append(describe_problem("schema_version", found, f"{SCHEMA_VERSION}", _CURE))
    if content["public_key"] not in _read_trusted(trusted_keys):
        allowed = f"the keys in {trusted_keys}"
        cure = "add the key if you trust who signed, or certify yourself"
        problems.append(describe_problem("public_key", content["public_key"], allowed, cure))
    if passed is not True:
        problems.append(describe_problem("results.passed", passed, "true", _CURE))
    problems += _differences(certified, subject)
    if problems:
        raise CertificateError(what, problems)
    return content


def admit(bundle: str | Path, subject: Subject, override: str) -> str:
    """Empty for a bundle with a valid certificate beside it. Without one: what is wrong and the
    operator's reason, if `override` has one, else CertificateError."""
    try:
        check_certificate(default_path(bundle), subject, trusted_keys_path())
    except CertificateError as error:
        if override == NO_OVERRIDE:
            raise
        return f"NOT CERTIFIED, overridden by the operator ({override}): {error}"
    return ""


def admit_files(bundle: str, robot: str, limits: str, settings: str, override: str) -> str:
    """`admit` for the files that a launch starts the controller with, before anything is started.

    settings: the controller's parameter file.
    """
    subject = describe_subject(bundle, robot, limits, *read_controller_settings(settings))
    return admit(bundle, subject, override)


def _differences(certified: dict[str, Any], subject: Subject) -> list[str]:
    problems = []
    for name, meaning in _MEANING.items():
        found, wanted = getattr(subject, name), certified.get(name)
        if found != wanted:
            text = f"{meaning} is not what was certified"
            problems.append(f"{text}: found {found[:12]}, allowed: {str(wanted)[:12]}; {_CURE}")
    settings = certified.get("controller", {})
    for name in sorted(settings.keys() | subject.controller.keys()):
        found, wanted = subject.controller.get(name), settings.get(name)
        if found != wanted:
            problem = describe_problem(f"controller setting {name}", found, f"{wanted!r}", _CURE)
            problems.append(problem)
    return problems


def _read_trusted(path: Path) -> set[str]:
    if not path.exists():
        return set()
    return {line.split()[0] for line in path.read_text().splitlines() if line.strip()}


def _signed_bytes(content: dict[str, Any]) -> bytes:
    signed = {name: value for name, value in content.items() if name != "signature"}
    return json.dumps(signed, sort_keys=True, separators=(",", ":"), allow_nan=False).encode()


def _public_hex(key: Ed25519PrivateKey) -> str:
    raw = serialization.Encoding.Raw, serialization.PublicFormat.Raw
    return key.public_key().public_bytes(*raw).hex()


def _bytes_of(name: str, content: bytes) -> tuple[bytes, bytes]:
    return name.encode(), content


def _hash(*parts: bytes) -> str:
    """SHA-256 of parts, each after its length, so that no byte can move from one to the next."""
    digest = hashlib.sha256()
    for part in parts:
        digest.update(len(part).to_bytes(8, "little"))
        digest.update(part)
    return digest.hexdigest()
