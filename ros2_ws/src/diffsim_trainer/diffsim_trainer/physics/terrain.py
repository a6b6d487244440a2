"""Height field: a smooth periodic surface through the samples of a grid.

The surface is the bicubic B-spline that passes through the samples, repeated in both directions, so
that it is defined everywhere and twice continuously differentiable: normals vary continuously, and
so does their derivative, which the adjoint of a step on a slope contains.

    h(x, y) = sum_ab c_ab B(x / spacing - a) B(y / spacing - b)
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache, cached_property
from types import SimpleNamespace

import numpy as np
import warp as wp

from .spatial import build_spatial

MIN_SAMPLES = 4  # along each side: the spline reaches over four


@dataclass(frozen=True)
class Terrain:
    """Heights [rows along x, columns along y] in m, `spacing` m apart; sample (0, 0) lies at x = y
    = 0. The field repeats after rows * spacing and columns * spacing.

    Raises ValueError for heights that are not finite, a grid smaller than 4 × 4, or spacing <= 0.
    """

    heights: np.ndarray
    spacing: float

    def __post_init__(self):
        heights = np.asarray(self.heights, dtype=float)
        if heights.ndim != 2 or min(heights.shape) < MIN_SAMPLES:
            raise ValueError(f"heights has shape {heights.shape}; at least 4 × 4 samples needed")
        if not np.all(np.isfinite(heights)):
            raise ValueError(f"heights has {np.sum(~np.isfinite(heights))} values not finite")
        if not self.spacing > 0.0:
            raise ValueError(f"spacing is {self.spacing} m; it must be positive")
        object.__setattr__(self, "heights", heights)

    def coefficients(self) -> np.ndarray:
        """Coefficients c of the spline, same shape as the heights, m."""
        return self._coefficients.copy()

    @cached_property
    def _coefficients(self) -> np.ndarray:
        # samples are c convolved with (1, 4, 1) / 6 along each side
        spectrum = np.fft.fft2(self.heights)
        for axis, n in enumerate(self.heights.shape):
            response = (4.0 + 2.0 * np.cos(2.0 * np.pi * np.arange(n) / n)) / 6.0
            spectrum = spectrum / np.expand_dims(response, 1 - axis)
        return np.fft.ifft2(spectrum).real

    def height(self, x, y) -> np.ndarray:
        """Height (m) of the surface at the points x, y (m), any equal shape."""
        c, near = self._coefficients, np.arange(-1, 3)  # the four samples around a point

        def look(x, count: int) -> tuple[np.ndarray, np.ndarray]:
            """Their indices and weights [..., 4]."""
            u = np.asarray(x, dtype=float)[..., None] / self.spacing
            index = np.floor(u).astype(int) + near
            return index % count, _bump(u - index)

        (i, wx), (j, wy) = look(x, c.shape[0]), look(y, c.shape[1])
        return np.einsum("...a,...ab,...b", wx, c[i[..., :, None], j[..., None, :]], wy)


def _bump(t: np.ndarray) -> np.ndarray:
    """Cubic B-spline B(t)."""
    t = np.abs(t)
    return np.where(t < 1.0, 2.0 / 3.0 - t**2 + 0.5 * t**3, np.maximum(2.0 - t, 0.0) ** 3 / 6.0)


@cache
def build_terrain(real) -> SimpleNamespace:
    """Functions `surface` and `axes_on_ground` for `real`."""
    sp = build_spatial(real)
    # computed here: a kernel would divide float32 literals
    SIXTH, TWO_THIRDS = 1.0 / 6.0, 2.0 / 3.0

    @wp.func
    def weights(f: real) -> sp.vec4:
        """B at the distances of the four samples around a point, 0 <= f < 1 behind the second."""
        g = real(1.0) - f
        sixth = real(SIXTH)
        return sp.vec4(
            sixth * g * g * g,
            real(TWO_THIRDS) - f * f * (real(1.0) - real(0.5) * f),
            real(TWO_THIRDS) - g * g * (real(1.0) - real(0.5) * g),
            sixth * f * f * f,
        )

    @wp.func
    def slopes(f: real) -> sp.vec4:
        """Derivative of `weights`."""
        g = real(1.0) - f
        half = real(0.5)
        return sp.vec4(
            -half * g * g,
            f * (real(1.5) * f - real(2.0)),
            g * (real(2.0) - real(1.5) * g),
            half * f * f,
        )

    @wp.func
    def wrap(index: int, size: int) -> int:
        remainder = index % size  # has the sign of index
        return wp.where(remainder < 0, remainder + size, remainder)

    @wp.func
    def surface(c: wp.array2d(dtype=real), rate: real, x: real, y: real) -> sp.vec3:
        """Height (m) and its slopes along x and y of the spline c with 1 / rate m spacing."""
        u = x * rate
        v = y * rate
        i = int(wp.floor(u))
        j = int(wp.floor(v))
        wx = weights(u - wp.floor(u))
        wy = weights(v - wp.floor(v))
        dx = slopes(u - wp.floor(u))
        dy = slopes(v - wp.floor(v))
        j0 = wrap(j - 1, c.shape[1])
        j1 = wrap(j, c.shape[1])
        j2 = wrap(j + 1, c.shape[1])
        j3 = wrap(j + 2, c.shape[1])
        h = real(0.0)
        hx = real(0.0)
        hy = real(0.0)
        for a in range(4):
            k = wrap(i + a - 1, c.shape[0])
            row = sp.vec4(c[k, j0], c[k, j1], c[k, j2], c[k, j3])
            across = wp.dot(wy, row)
            h += wx[a] * across
            hx += dx[a] * across
            hy += wx[a] * wp.dot(dy, row)
        return sp.vec3(h, rate * hx, rate * hy)

    @wp.func
    def axes_on_ground(n: sp.vec3) -> sp.mat33:
        """World to contact axes, whose third is the normal n (n_z > 0): the smallest turn."""
        k = real(1.0) / (real(1.0) + n[2])
        xy = -n[0] * n[1] * k
        one = real(1.0)
        return sp.mat33(
            one - n[0] * n[0] * k, xy, -n[0], xy, one - n[1] * n[1] * k, -n[1], n[0], n[1], n[2]
        )

    return SimpleNamespace(surface=surface, axes_on_ground=axes_on_ground)
