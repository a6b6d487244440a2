"""Parameters of the simulated robot that may be changed while it runs: its world and its faults."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np
from rcl_interfaces.msg import ParameterDescriptor, SetParametersResult
from rclpy.node import Node
from rclpy.parameter import Parameter

from .estimator_noise import NoiseLevels
from .faults import Faults
from .ground import Ground
from .hard_contact import World
from .parameters import declare_flag, declare_integer, declare_number, declare_text
from .robot_sample import RobotState

_WORLD = {  # field of World: lower, upper, text
    "friction": (0.0, 2.0, "[1] Coulomb coefficient of feet and ground"),
    "payload": (-10.0, 20.0, "[kg] added to the base"),
    "com_x": (-0.3, 0.3, "[m] shift of the base's centre of mass, forward"),
    "com_y": (-0.3, 0.3, "[m] shift of the base's centre of mass, to the left"),
    "kp_scale": (0.0, 2.0, "[1] gain error: what the drives make of P"),
    "kd_scale": (0.0, 2.0, "[1] gain error: what the drives make of D"),
    "motor_strength": (0.0, 2.0, "[1] scales torque and torque limit"),
    "encoder_bias": (0.0, 2.0, "[1] share of the robot file's encoder bias"),
}
_FAULTS = {  # number field of Faults: lower, upper, text
    "command_delay": (0.0, 1.0, "[s] of commands, on top of the drives' own delay"),
    "command_jitter": (0.0, 0.1, "[s] greatest further delay of a command, uniform"),
    "command_loss": (0.0, 1.0, "[1] share of command messages that are lost"),
    "command_reorder": (0.0, 1.0, "[1] share that arrive after their successor"),
    "command_duplicate": (0.0, 1.0, "[1] share that arrive once more after their successor"),
    "state_loss": (0.0, 1.0, "[1] share of state and readings messages that are lost"),
    "stamp_offset": (-10.0, 10.0, "[s] added to the robot's stamps"),
}
_FAULT_JOINTS = {  # joint field of Faults: text
    "nan_joint": "joint that reads NaN, or empty",
    "stuck_joint": "joint that reads as it does now from now on, or empty",
}
_FAULT_FLAGS = {  # flag field of Faults: text
    "quaternion_wxyz": "send the orientation as w x y z",
    "twist_in_odom": "send the velocities of the base in odom axes",
    "second_publisher": "announce another publisher of commands, within 1 s, on ROS 2",
    "low_battery": "the drives switch off",
}
_NOISE = {  # field of NoiseLevels: greatest magnitude, text
    "orientation": (1.0, "[rad] standard deviation about each axis of the base"),
    "linear_velocity": (5.0, "[m/s] standard deviation"),
    "angular_velocity": (5.0, "[rad/s] standard deviation"),
    "joint_position": (1.0, "[rad] standard deviation"),
    "joint_velocity": (10.0, "[rad/s] standard deviation"),
    "pitch_bias": (0.3, "[rad] of the orientation, about y of the base"),
    "velocity_bias": (1.0, "[m/s] of the velocity, forward"),
}
_GROUND = {  # field of Ground: lower, upper, text
    "slope": (-0.35, 0.35, "[rad] the ground rises along x of odom, for 8 m around the origin"),
    "roughness": (0.0, 0.1, "[m] greatest height above and below, drawn every 0.2 m with `seed`"),
}
_PUSH = "push_velocity"
_MAX_PUSH = 3.0  # m/s


class SimSettings:
    """Parameters ``world.*``, ``ground.*``, ``fault.*``, ``noise.*``, ``seed`` and
    ``push_velocity``; the attributes ``world``, ``ground``, ``faults``, ``noise``, ``seed`` follow.

    One that is set while the node runs takes effect at the next step, ground, noise and seed at the
    next reset; one that is not allowed is refused with the reason in the result. Each setting of
    ``push_velocity`` pushes once.
    """

    def __init__(
        self, node: Node, joint_names: Sequence[str], push: Callable[[np.ndarray], None]
    ) -> None:
        """``push`` is called with the velocity step [3] m/s in the world frame."""
        self._node, self._joint_names, self._push = node, tuple(joint_names), push
        for field, (lower, upper, text) in _WORLD.items():
            default = getattr(World, field)
            declare_number(node, f"world.{field}", default, lower, upper, text, read_only=False)
        for field, (lower, upper, text) in _GROUND.items():
            declare_number(node, f"ground.{field}", 0.0, lower, upper, text, read_only=False)
        for field, (lower, upper, text) in _FAULTS.items():
            declare_number(node, f"fault.{field}", 0.0, lower, upper, text, read_only=False)
        for field, (upper, text) in _NOISE.items():
            lower = -upper if field.endswith("_bias") else 0.0
            declare_number(node, f"noise.{field}", 0.0, lower, upper, text, read_only=False)
        declare_integer(
            node,
            "seed",
            0,
            0,
            2**31 - 1,
            "of noise, losses and rough ground, from the next reset",
            read_only=False,
        )
        for field, text in _FAULT_JOINTS.items():
            declare_text(node, f"fault.{field}", "", text, read_only=False)
            self._check_joint(f"fault.{field}", node.get_parameter(f"fault.{field}").value)
        for field, text in _FAULT_FLAGS.items():
            declare_flag(node, f"fault.{field}", False, text, read_only=False)
        declare_integer(
            node, "fault.robot_state", 0, -3, 1, "state that the robot reports", read_only=False
        )
        text = f"[m/s] x, y, z of odom: a push, once per setting; norm <= {_MAX_PUSH}"
        node.declare_parameter(_PUSH, [0.0, 0.0, 0.0], ParameterDescriptor(description=text))
        self._read()
        node.add_on_set_parameters_callback(self._check)
        node.add_post_set_parameters_callback(self._take_over)

    def _read(self) -> None:
        def value(name: str):
            return self._node.get_parameter(name).value

        self.world = World(**{field: value(f"world.{field}") for field in _WORLD})
        self.ground = Ground(**{field: value(f"ground.{field}") for field in _GROUND})
        joints = {field: value(f"fault.{field}") for field in _FAULT_JOINTS}
        self.faults = Faults(
            **{field: value(f"fault.{field}") for field in (*_FAULTS, *_FAULT_FLAGS)},
            **{field: self._joint_names.index(j) if j else None for field, j in joints.items()},
            robot_state=RobotState(value("fault.robot_state")),
        )
        self.noise = NoiseLevels(**{field: value(f"noise.{field}") for field in _NOISE})
        self.seed = value("seed")

    def _check_joint(self, parameter: str, joint: str) -> None:
        if joint and joint not in self._joint_names:
            raise ValueError(
                f"{parameter} is {joint!r}, allowed: empty or one of {', '.join(self._joint_names)}"
            )

    def _check(self, parameters: list[Parameter]) -> SetParametersResult:
        """Refuses what the ranges of the parameters cannot express."""
        try:
            for parameter in parameters:
                if parameter.name.removeprefix("fault.") in _FAULT_JOINTS:
                    self._check_joint(parameter.name, parameter.value)
                if parameter.name == _PUSH:
                    push = np.asarray(parameter.value, dtype=np.float64)
                    if push.shape != (3,) or not np.linalg.norm(push) <= _MAX_PUSH:
                        raise ValueError(
                            f"{_PUSH} is {push.tolist()}, wanted three finite numbers with "
                            f"norm <= {_MAX_PUSH}"
                        )
        except ValueError as error:
            return SetParametersResult(successful=False, reason=str(error))
        return SetParametersResult(successful=True)

    def _take_over(self, parameters: list[Parameter]) -> None:
        self._read()
        for parameter in parameters:
            if parameter.name == _PUSH:
                self._push(np.asarray(parameter.value, dtype=np.float64))
