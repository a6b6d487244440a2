"""Training configuration: frozen dataclasses, read from YAML; an unknown or ill-typed key is
refused.

Every number that shapes a training run lives here with its unit; the YAML files in `config/train/`
only override what they need.
"""

from __future__ import annotations

import dataclasses
import difflib
import hashlib
import json
import types
import typing
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import yaml

Range = tuple[float, float]


class ConfigError(ValueError):
    """A configuration file says something this version does not understand."""


@dataclass(frozen=True)
class SimConfig:
    """Physics used for training (always the SMOOTHED contact model)."""

    dt: float = 0.005  # s, one physics substep
    substeps: int = 4  # substeps per control period: 4 x 5 ms = 50 Hz
    sweeps: int = 4  # Gauss-Seidel sweeps of the contact solver
    kappa: float = 300.0  # 1/m, steepness of the contact sigmoid; PHYSICS.md section 1.3

    @property
    def control_period(self) -> float:
        return self.dt * self.substeps


@dataclass(frozen=True)
class CommandConfig:
    """Velocity commands (v_x m/s, v_y m/s, yaw rate rad/s), in the base frame."""

    lower: tuple[float, float, float] = (-1.0, -0.6, -1.0)
    upper: tuple[float, float, float] = (1.0, 0.6, 1.0)
    zero_fraction: float = 0.2  # share of commands that ask to stand still
    single_axis_fraction: float = 0.3  # share of commands with only one axis non-zero
    resample_probability: float = 0.012  # per control step


@dataclass(frozen=True)
class GaitConfig:
    frequency: float = 1.75  # Hz, trot clock
    swing_height: float = 0.08  # m, peak of the foot-height target
    stand_command_threshold: float = 0.05  # |(v_x, v_y, w_z)| at or below which the clock stops


@dataclass(frozen=True)
class RandomizationConfig:
    """Ranges drawn uniformly per environment at each reset; pushes come at random times."""

    friction: Range = (0.3, 1.2)
    base_mass: Range = (-3.0, 5.0)  # kg added to the base
    com_shift: float = 0.03  # m, +- per axis
    kp_scale: Range = (0.9, 1.1)
    kd_scale: Range = (0.9, 1.1)
    motor_strength: Range = (0.9, 1.1)
    encoder_bias: float = 0.02  # rad, +- per joint: measured minus true position
    delay_steps: tuple[int, int] = (0, 2)  # substeps until a new target acts, both ends included
    push_velocity: float = 0.4  # m/s, standard deviation per horizontal axis of a velocity kick
    push_probability: float = 0.004  # per control step


@dataclass(frozen=True)
class NoiseConfig:
    """Half width of the uniform noise on what the actor sees (the critic sees clean values)."""

    base_linear_velocity: float = 0.05  # m/s
    base_angular_velocity: float = 0.05  # rad/s
    projected_gravity: float = 0.02
    joint_position: float = 0.01  # rad
    joint_velocity: float = 0.4  # rad/s


@dataclass(frozen=True)
class RewardConfig:
    """Weights and shape constants of the reward terms; the formulas are in reward.py."""

    alive: float = 0.5
    linear_tracking: float = 2.0  # times exp(-e^2 / tracking_width)
    linear_tracking_tail: float = 1.0  # times -e^2: keeps a gradient where exp is flat
    yaw_tracking: float = 1.0
    yaw_tracking_tail: float = 0.3
    tracking_width: float = 0.25  # (m/s)^2 or (rad/s)^2
    foot_height: float = 150.0  # 1/m^2
    foot_slip: float = 0.2  # s^2/m^2
    vertical_velocity: float = 1.0
    roll_pitch_rate: float = 0.05
    orientation: float = 2.0
    base_height: float = 20.0  # 1/m^2
    base_height_target: float = 0.57  # m
    action_rate: float = 0.02
    action_magnitude: float = 0.02
    torque: float = 2.5e-5  # 1/(N m)^2
    torque_excess: float = 1.0e-3  # times the square of the excess over torque_soft_limit
    torque_soft_limit: float = 60.0  # N m
    joint_speed: float = 0.05  # times the square of the excess over joint_speed_limit
    joint_speed_limit: float = 6.0  # rad/s
    stand_joint_speed: float = 0.02  # on the squared joint speed, zero command only
    stand_base_speed: float = 1.0  # on the squared base speed, zero command only
    stand_torque: float = 1.0e-4  # on the squared torque, zero command only: no feet pulling apart
    stand_pose: float = 1.0  # on |q - default|^2, zero command only


@dataclass(frozen=True)
class EnvConfig:
    num_envs: int = 64
    episode_steps: int = 1000  # control steps until truncation (20 s)
    action_scale: float = 1.0  # rad: target = default_pose + action_scale * action
    max_tilt: float = 1.0472  # rad between the base z axis and the vertical, terminated beyond
    max_speed: float = 15.0  # m/s and rad/s of the base; joints may reach five times this
    reset_pool_size: int = 4096
    commands: CommandConfig = field(default_factory=CommandConfig)
    gait: GaitConfig = field(default_factory=GaitConfig)
    randomization: RandomizationConfig = field(default_factory=RandomizationConfig)
    noise: NoiseConfig = field(default_factory=NoiseConfig)
    reward: RewardConfig = field(default_factory=RewardConfig)


@dataclass(frozen=True)
class ShacConfig:
    horizon: int = 12  # control steps per window
    gamma: float = 0.99
    lam: float = 0.95  # TD(lambda)
    actor_learning_rate: float = 2e-3  # decays linearly to final_learning_rate of itself
    critic_learning_rate: float = 2e-3
    final_learning_rate: float = 0.02
    betas: tuple[float, float] = (0.7, 0.95)
    max_grad_norm: float = 1.0
    cotangent_clip: float = 300.0  # reward per unit of state, per environment and control step
    critic_epochs: int = 8
    critic_minibatches: int = 2
    target_critic_smoothing: float = 0.9  # share kept of the old target critic at each iteration
    noise_start: float = 0.3  # standard deviation of the exploration noise before tanh ...
    noise_end: float = 0.1  # ... decaying linearly to this
    hidden_sizes: tuple[int, ...] = (128, 64, 32)


@dataclass(frozen=True)
class TrainConfig:
    robot: str  # robot description, relative to the directory of the configuration file
    iterations: int
    seed: int = 0
    checkpoint_every: int = 100  # iterations
    log_every: int = 1  # iterations per row of the log
    sim: SimConfig = field(default_factory=SimConfig)
    env: EnvConfig = field(default_factory=EnvConfig)
    shac: ShacConfig = field(default_factory=ShacConfig)

    def to_dict(self) -> dict[str, Any]:
        return dataclasses.asdict(self)

    def sha256(self) -> str:
        """Hash over all values, defaults included, whatever the directory: runs with equal hash
        were configured alike."""
        text = json.dumps(self.to_dict() | {"robot": Path(self.robot).name}, sort_keys=True)
        return hashlib.sha256(text.encode()).hexdigest()


def load_config(path: str | Path) -> TrainConfig:
    """Reads a YAML file into a TrainConfig; `robot` is resolved to an absolute path.

    Raises ConfigError naming the key, what was found and what is allowed.
    """
    path = Path(path)
    try:
        data = yaml.safe_load(path.read_text())
    except (OSError, UnicodeDecodeError, yaml.YAMLError) as error:
        raise ConfigError(f"{path}: cannot be read ({error}); give a YAML file") from error
    if not isinstance(data, dict):
        raise ConfigError(f"{path}: expected a mapping at the top, found {type(data).__name__}")
    config = config_from_dict(data, source=str(path))
    robot = (path.parent / config.robot).resolve()
    if not robot.is_file():
        raise ConfigError(
            f"{path}: robot: no file at {robot}; "
            "give a path relative to the directory of this configuration"
        )
    return dataclasses.replace(config, robot=str(robot))


def config_from_dict(data: dict[str, Any], source: str = "configuration") -> TrainConfig:
    """Builds a TrainConfig from nested dictionaries (as in a YAML file or a checkpoint)."""
    config = _build(TrainConfig, data, source)
    _check_values(config, source)
    return config


def _build(cls: type, data: dict[str, Any], where: str) -> Any:
    types_of = typing.get_type_hints(cls)
    names = [f.name for f in dataclasses.fields(cls)]
    for key in data:
        if key not in types_of:
            near = difflib.get_close_matches(str(key), names, n=1)
            hint = f"did you mean '{near[0]}'?" if near else f"allowed keys: {', '.join(names)}"
            raise ConfigError(f"{where}: unknown key '{key}'; {hint}")
    for f in dataclasses.fields(cls):
        if (
            f.default is dataclasses.MISSING
            and f.default_factory is dataclasses.MISSING
            and f.name not in data
        ):
            raise ConfigError(f"{where}: key '{f.name}' is missing; it has no default")
    return cls(
        **{key: _convert(types_of[key], value, f"{where}: {key}") for key, value in data.items()}
    )


def _convert(expected: Any, value: Any, where: str) -> Any:
    if dataclasses.is_dataclass(expected):
        if not isinstance(value, dict):
            raise ConfigError(f"{where}: expected a mapping, found {value!r}")
        return _build(expected, value, where)
    if typing.get_origin(expected) is tuple:
        items = typing.get_args(expected)
        if not isinstance(value, (list, tuple)):
            raise ConfigError(f"{where}: expected a list, found {value!r}")
        if items[-1] is types.EllipsisType or items[-1] is Ellipsis:
            items = (items[0],) * len(value)
        if len(items) != len(value):
            raise ConfigError(f"{where}: expected {len(items)} numbers, found {len(value)}")
        return tuple(_convert(t, v, where) for t, v in zip(items, value, strict=True))
    if expected is float and isinstance(value, (int, float)) and not isinstance(value, bool):
        return float(value)
    if isinstance(value, expected) and not isinstance(value, bool):
        return value
    hint = (
        "; write 1.0e-3, not 1e-3 (YAML 1.1 reads the latter as text)" if expected is float else ""
    )
    raise ConfigError(f"{where}: expected {expected.__name__}, found {value!r}{hint}")


def _check_values(config: TrainConfig, source: str) -> None:
    def require(ok: bool, message: str) -> None:
        if not ok:
            raise ConfigError(f"{source}: {message}")

    commands, randomization, shac = config.env.commands, config.env.randomization, config.shac
    require(config.iterations >= 1, f"iterations must be at least 1, found {config.iterations}")
    require(
        config.env.num_envs >= 1, f"env: num_envs must be at least 1, found {config.env.num_envs}"
    )
    require(shac.horizon >= 1, f"shac: horizon must be at least 1, found {shac.horizon}")
    require(
        shac.horizon % shac.critic_minibatches == 0,
        f"shac: critic_minibatches ({shac.critic_minibatches}) must divide "
        f"horizon ({shac.horizon}): a minibatch is some of the steps of all robots",
    )
    require(
        all(low <= high for low, high in zip(commands.lower, commands.upper, strict=True)),
        f"env: commands: lower {commands.lower} exceeds upper {commands.upper}",
    )
    for name in ("friction", "base_mass", "kp_scale", "kd_scale", "motor_strength", "delay_steps"):
        low, high = getattr(randomization, name)
        require(
            low <= high, f"env: randomization: {name}: lower end {low} exceeds upper end {high}"
        )
    low, high = randomization.delay_steps
    require(
        0 <= low and high <= config.sim.substeps,
        f"env: randomization: delay_steps {(low, high)} must lie within 0 and substeps "
        f"({config.sim.substeps})",
    )
