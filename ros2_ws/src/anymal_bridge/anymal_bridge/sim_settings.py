"""Parameters of the simulated robot that may be changed while it runs: its world and its faults."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np
from rcl_interfaces.msg import ParameterDescriptor, SetParametersResult
from rclpy.node import Node
from rclpy.parameter import Parameter

from .estimator_noise import NoiseLevels
from .faults import Faults
from .hard_contact import World
from .parameters import declare_flag, declare_integer, declare_number, declare_text
from .robot_sample import RobotState

_WORLD = {  # field of World: lower, upper, text
    "friction": (0.0, 2.0, "[1] Coulomb coefficient of feet and ground"),
    "payload": (-10.0, 20.0, "[kg] added to the base"),
    "kp_scale": (0.0, 2.0, "[1] gain error: what the drives make of P"),
    "kd_scale": (0.0, 2.0, "[1] gain error: what the drives make of D"),
    "motor_strength": (0.0, 2.0, "[1] scales torque and torque limit"),
    "encoder_bias": (0.0, 2.0, "[1] share of the robot file's encoder bias"),
}
_FAULTS = {  # number field of Faults: lower, upper, text
    "command_delay": (0.0, 1.0, "[s] of commands, on top of the drives' own delay"),
    "command_loss": (0.0, 1.0, "[1] share of command messages that are lost"),
    "state_loss": (0.0, 1.0, "[1] share of state and readings messages that are lost"),
}
_NOISE = {  # field of NoiseLevels: upper, text
    "orientation": (1.0, "[rad] standard deviation about each axis of the base"),
    "linear_velocity": (5.0, "[m/s] standard deviation"),
    "angular_velocity": (5.0, "[rad/s] standard deviation"),
    "joint_position": (1.0, "[rad] standard deviation"),
    "joint_velocity": (10.0, "[rad/s] standard deviation"),
}
_PUSH = "push_velocity"
_MAX_PUSH = 3.0  # m/s


def declare_noise(node: Node) -> NoiseLevels:
    """Parameters ``noise.*``: fixed at the start, off by default."""
    levels = {
        field: declare_number(node, f"noise.{field}", 0.0, 0.0, upper, text)
        for field, (upper, text) in _NOISE.items()
    }
    return NoiseLevels(**levels)


class SimSettings:
    """Parameters ``world.*``, ``fault.*`` and ``push_velocity``; ``world`` and ``faults`` follow.

    One that is set while the node runs takes effect at the next step; one that is not allowed is
    refused with the reason in the result. Each setting of ``push_velocity`` pushes once.
    """

    def __init__(
        self, node: Node, joint_names: Sequence[str], push: Callable[[np.ndarray], None]
    ) -> None:
        """``push`` is called with the velocity step [3] m/s in the world frame."""
        self._node, self._joint_names, self._push = node, tuple(joint_names), push
        for field, (lower, upper, text) in _WORLD.items():
            default = getattr(World, field)
            declare_number(node, f"world.{field}", default, lower, upper, text, read_only=False)
        for field, (lower, upper, text) in _FAULTS.items():
            declare_number(node, f"fault.{field}", 0.0, lower, upper, text, read_only=False)
        declare_text(node, "fault.nan_joint", "", "joint that reads NaN, or empty", read_only=False)
        declare_flag(
            node, "fault.quaternion_wxyz", False, "send the orientation as w x y z", read_only=False
        )
        declare_integer(
            node, "fault.robot_state", 0, -3, 1, "state that the robot reports", read_only=False
        )
        text = f"[m/s] x, y, z of odom: a push, once per setting; norm <= {_MAX_PUSH}"
        node.declare_parameter(_PUSH, [0.0, 0.0, 0.0], ParameterDescriptor(description=text))
        self._check_joint(node.get_parameter("fault.nan_joint").value)
        self.world, self.faults = self._read()
        node.add_on_set_parameters_callback(self._check)
        node.add_post_set_parameters_callback(self._take_over)

    def _read(self) -> tuple[World, Faults]:
        def value(name: str):
            return self._node.get_parameter(name).value

        world = World(**{field: value(f"world.{field}") for field in _WORLD})
        joint = value("fault.nan_joint")
        faults = Faults(
            **{field: value(f"fault.{field}") for field in _FAULTS},
            nan_joint=self._joint_names.index(joint) if joint else None,
            quaternion_wxyz=value("fault.quaternion_wxyz"),
            robot_state=RobotState(value("fault.robot_state")),
        )
        return world, faults

    def _check_joint(self, joint: str) -> None:
        if joint and joint not in self._joint_names:
            raise ValueError(
                f"fault.nan_joint is {joint!r}, allowed: empty or one of "
                f"{', '.join(self._joint_names)}"
            )

    def _check(self, parameters: list[Parameter]) -> SetParametersResult:
        """Refuses what the ranges of the parameters cannot express."""
        try:
            for parameter in parameters:
                if parameter.name == "fault.nan_joint":
                    self._check_joint(parameter.value)
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
        self.world, self.faults = self._read()
        for parameter in parameters:
            if parameter.name == _PUSH:
                self._push(np.asarray(parameter.value, dtype=np.float64))
