"""What a policy bundle says, field by field; bundle.json has exactly these names."""

from __future__ import annotations

import hashlib
import json
from dataclasses import asdict, dataclass, field
from functools import cached_property
from typing import Any

from policy_controller.fields import spec
from policy_controller.observation import GaitClock, ObservationTerm
from policy_controller.state import NUM_JOINTS

SCHEMA_VERSION = 1


def _joints(text: str, **limits: Any) -> Any:
    return spec("vector", text, size=NUM_JOINTS, **limits)


@dataclass(frozen=True)
class RobotIdentity:
    """The robot the policy was trained for."""

    name: str = spec("text", "name in the robot file")
    urdf_sha256: str = spec("sha256", "hash of the URDF used in training")


@dataclass(frozen=True)
class ActionScaling:
    """How the output of the policy becomes a joint position target."""

    scale: float = spec(
        "number", "joint angle of one unit of action", unit="rad", low=1e-3, high=3.0
    )
    clip: float = spec("number", "bound of the raw action", unit="1", low=1e-3, high=10.0)
    applied_by: str = spec("text", "who scales and clips", choices=("controller",))


@dataclass(frozen=True)
class Gains:
    """Gains of the drives in training; commanded with every target."""

    kp: tuple[float, ...] = _joints("position gain", unit="N m/rad", low=0.1, high=1000.0)
    kd: tuple[float, ...] = _joints("velocity gain", unit="N m s/rad", low=0.0, high=100.0)


@dataclass(frozen=True)
class GaitSettings:
    """The gait clock of training, see observation.GaitClock."""

    frequency: float = spec("number", "strides per second", unit="Hz", low=0.1, high=10.0)
    stand_command_threshold: float = spec(
        "number", "norm of the command up to which the robot stands", unit="1", low=0.0, high=1.0
    )


@dataclass(frozen=True)
class CommandRange:
    """Range of (vx m/s, vy m/s, yaw rate rad/s) seen in training."""

    lower: tuple[float, ...] = spec("vector", "least command", size=3, low=-5.0, high=0.0)
    upper: tuple[float, ...] = spec("vector", "greatest command", size=3, low=0.0, high=5.0)


@dataclass(frozen=True)
class JointLimits:
    """Limits of the joints; targets are kept inside the position limits."""

    position_lower: tuple[float, ...] = _joints("least angle", unit="rad", low=-6.3, high=6.3)
    position_upper: tuple[float, ...] = _joints("greatest angle", unit="rad", low=-6.3, high=6.3)
    velocity: float = spec("number", "of every drive", unit="rad/s", low=0.1, high=50.0)
    torque: float = spec("number", "of every drive", unit="N m", low=1.0, high=500.0)


@dataclass(frozen=True)
class TrainingRecord:
    """Where the policy comes from."""

    config_sha256: str = spec("sha256", "hash of the training configuration")
    git_commit: str = spec("text", "commit of the training code")
    software_version: str = spec("text", "version of the training package")
    seed: int = spec("integer", "random seed", low=0, high=2**63 - 1)
    samples: int = spec("integer", "environment steps trained on", low=0, high=2**63 - 1)


def _section(kind: type) -> Any:
    return field(metadata={"section": kind})


@dataclass(frozen=True)
class PolicyBundle:
    """Content of a bundle. Joint vectors are in the canonical joint order.

    onnx, golden_npz: content of the two binary files. Equal bundles have equal `sha256`.
    """

    robot: RobotIdentity = _section(RobotIdentity)
    joint_names: tuple[str, ...] = spec("names", "order of all joint vectors", size=NUM_JOINTS)
    default_pose: tuple[float, ...] = _joints("pose of action 0", unit="rad", low=-6.3, high=6.3)
    action: ActionScaling = _section(ActionScaling)
    gains: Gains = _section(Gains)
    control_period: float = spec("number", "between two actions", unit="s", low=0.002, high=0.1)
    observation: tuple[ObservationTerm, ...]
    gait: GaitSettings = _section(GaitSettings)
    command: CommandRange = _section(CommandRange)
    limits: JointLimits = _section(JointLimits)
    training: TrainingRecord = _section(TrainingRecord)
    onnx: bytes = field(repr=False)
    golden_npz: bytes = field(repr=False)

    @property
    def observation_size(self) -> int:
        """Numbers in one observation."""
        return sum(term.width for term in self.observation)

    @property
    def clock(self) -> GaitClock:
        """The gait clock of training."""
        return GaitClock(
            self.gait.frequency, self.control_period, self.gait.stand_command_threshold
        )

    @cached_property
    def sha256(self) -> str:
        """Hash of the whole content (both binary files included), independent of JSON layout."""
        text = json.dumps(to_json(self), sort_keys=True, separators=(",", ":"), allow_nan=False)
        return hashlib.sha256(text.encode()).hexdigest()


def to_json(bundle: PolicyBundle) -> dict[str, Any]:
    """Content of bundle.json. A term without a past has no `history`."""
    content = asdict(bundle)
    for term in content["observation"]:
        if term["history"] == 1:
            del term["history"]
    return {
        "schema_version": SCHEMA_VERSION,
        **{key: value for key, value in content.items() if key not in ("onnx", "golden_npz")},
        "onnx_sha256": hashlib.sha256(content["onnx"]).hexdigest(),
        "golden_sha256": hashlib.sha256(content["golden_npz"]).hexdigest(),
    }


def list_differences(first: PolicyBundle, second: PolicyBundle) -> list[tuple[str, str, str]]:
    """(name, value in the first, value in the second) of everything that differs; "absent" where
    a name is in one of them only. Joint vectors are compared joint by joint."""
    left, right = _flatten(to_json(first)), _flatten(to_json(second))
    return [
        (name, left.get(name, "absent"), right.get(name, "absent"))
        for name in {**left, **right}
        if left.get(name) != right.get(name)
    ]


def _flatten(value: Any, name: str = "") -> dict[str, str]:
    """{"gains.kp[0]": "85.0", ...}; floats exact."""
    if isinstance(value, dict):
        parts = {f"{name}.{key}" if name else key: item for key, item in value.items()}
    elif isinstance(value, (list, tuple)):
        parts = {f"{name}[{index}]": item for index, item in enumerate(value)}
    else:
        return {name: repr(value)}
    return {k: v for key, item in parts.items() for k, v in _flatten(item, key).items()}
