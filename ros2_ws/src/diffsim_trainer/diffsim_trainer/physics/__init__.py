"""Differentiable simulation of legged robots with smoothed or hard contact (NumPy and Warp)."""

from .contact import ContactModel
from .mjcf import to_mjcf
from .simulator import Simulator
from .terrain import Terrain
from .urdf import Robot, RobotError, load_robot

__all__ = ["ContactModel", "Robot", "RobotError", "Simulator", "Terrain", "load_robot", "to_mjcf"]
