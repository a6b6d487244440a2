"""The ground under the simulated robot: level, or sloping and rough."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from diffsim_trainer.physics import Terrain

SPACING = 0.2  # m between drawn heights
COUNT = 160  # samples along each side: the ground repeats after 32 m


@dataclass(frozen=True)
class Ground:
    """Shape of the ground. The default is the plane z = 0."""

    slope: float = 0.0  # rad, the ground rises along x of odom
    roughness: float = 0.0  # m, heights between -roughness and +roughness, uniform, every 0.2 m


LEVEL = Ground()


def make_terrain(ground: Ground, seed: int) -> Terrain | None:
    """The terrain of that shape; None for level ground.

    The slope goes on for 8 m around the origin, turns there, and comes back.
    """
    if ground == LEVEL:
        return None
    x = SPACING * np.arange(COUNT)
    half = SPACING * COUNT / 2
    ramp = half / 2 - np.abs((x + half / 2) % (2 * half) - half)  # slope 1 at the origin
    random = np.random.default_rng(seed)
    rough = ground.roughness * random.uniform(-1.0, 1.0, (COUNT, COUNT))
    return Terrain(np.tan(ground.slope) * ramp[:, None] + rough, SPACING)
