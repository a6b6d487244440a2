"""Foot–ground contact: three laws for the impulses of one step.

Contact axes: the third is the normal of the ground. Foot i has height d_i at the middle of the
step (negative inside the ground), impulse p_i (N s) and velocity v_i after the step (m/s):

    v_i = c_i + sum_j G_ij p_j,     G the Delassus matrix, c the velocity without contact.

HARD      0 <= p_n  ⊥  v_n + b(d) >= 0, and Coulomb friction |p_t| <= mu p_n that opposes slip.
          b = d/dt above ground: a foot may come down to the ground within the step, not through it;
          b = max(0.2 d/dt, -0.5 m/s) below: depth is worked off gently, without a bounce.
SMOOTHED  every foot solves the same problem against the impulses the other feet really apply, and
          applies the share s(d) = 1 / (1 + exp(kappa d)) of its own (Schwarke et al., CoRL 2025):
          v_i = c_i + G_ii p_i + sum_{j≠i} s_j G_ij p_j, applied impulse s_i p_i.
          s is never cut off: a foot in the air feels e^(-kappa d) of the ground and has a gradient
          toward it. Optional b as in HARD, below ground only.
SOFT      spring, damper and regularised friction at the middle of the step, with the velocity
          before it; stiff, so it wants dt <= 1 ms.

One foot is solved exactly (`solve_foot`). With the normal impulse eliminated, friction that opposes
slip reads (H + k) p_t = -e with one unknown k >= 0 which puts p on the cone; k is the root of a
nearly linear function and follows from a safeguarded Newton iteration. The adjoint differentiates
the solution, not the iterations. It converges for every armature: there is no relaxation to choose.
"""

from enum import Enum
from functools import cache
from types import SimpleNamespace

import warp as wp

from .spatial import build_spatial


class ContactModel(Enum):
    """Contact law of the step; see the module docstring."""

    HARD = "hard"
    SMOOTHED = "smoothed"
    SOFT = "soft"


CORRECTION_RATE = 0.2  # share of the depth that is worked off in a step, where it is on
CORRECTION_SPEED = 0.5  # m/s, its limit
NEWTON_STEPS = 16  # bound on the iterations for k; 3 to 5 are usual
SEPARATED = -1.0  # value of k for a foot without contact; 0 is sticking, > 0 slipping
MIN_FRICTION = 1.0e-4

# SOFT law: a foot of a 57 kg robot stands 14 mm deep. Damping and friction are explicit: either
# times dt over the effective mass of a foot (ANYmal D: 0.4 kg at least) must stay below 2, or the
# gradient explodes.
SOFT_STIFFNESS = 1.0e4  # N/m
SOFT_DAMPING = 2.0e2  # N s/m, while going down
SOFT_FRICTION = 3.0e2  # N s/m, slope of friction at zero slip
SOFT_SLIP = 1.0e-4  # m/s, rounds the slip speed at zero


@cache
def build_foot_contact(real) -> SimpleNamespace:
    """Contact of a single foot: `solve_foot` and its adjoint, gap terms, for `real`."""
    sp = build_spatial(real)
    TOLERANCE = 1.0e-12 if real is wp.float64 else 1.0e-6
    TINY = 1.0e-30

    @wp.func
    def correction_bias(gap: real, rate: real, dt: real) -> real:
        """Shift of the normal velocity that works off depth, m/s; zero above ground."""
        return wp.max(rate * wp.min(gap, real(0.0)) / dt, real(-CORRECTION_SPEED))

    @wp.func
    def hard_bias(gap: real, rate: real, dt: real) -> real:
        """Shift b of the normal velocity in the HARD law, m/s."""
        return wp.max(gap, real(0.0)) / dt + correction_bias(gap, rate, dt)

    @wp.func
    def contact_share(gap: real, kappa: real) -> real:
        """Fraction s(d) of the stopping impulse that the SMOOTHED law applies."""
        # exponent clamped: exp must not overflow, inf * 0 would be NaN in the adjoint
        x = wp.clamp(kappa * gap, real(-100.0), real(50.0))
        return real(1.0) / (real(1.0) + wp.exp(x))

    @wp.func
    def solve_foot(G: sp.mat33, c: sp.vec3, mu: real) -> sp.vec4:
        """Impulse of one foot against velocity c, and its k: (p, k).

        G v/p of this foot, 1/kg; c m/s including the shift b; mu > 0.
        """
        if c[2] >= real(-1.0e-12):
            return sp.vec4(real(0.0), real(0.0), real(0.0), real(SEPARATED))

        # sticking: G p = -c inside the cone
        stick = -(wp.inverse(G) * c)
        if stick[2] > real(0.0):
            if stick[0] * stick[0] + stick[1] * stick[1] <= mu * mu * stick[2] * stick[2]:
                return sp.vec4(stick[0], stick[1], stick[2], real(0.0))

        # slipping: eliminate p_n = -(c_n + g.p_t) / G_nn
        g_inv = real(1.0) / G[2, 2]
        gx = G[0, 2] * g_inv
        gy = G[1, 2] * g_inv
        hxx = G[0, 0] - gx * G[2, 0]
        hxy = G[0, 1] - gx * G[2, 1]
        hyy = G[1, 1] - gy * G[2, 1]
        ex = c[0] - gx * c[2]
        ey = c[1] - gy * c[2]

        # root of phi(k) = mu p_n / |p_t| - 1, which is nearly linear in k
        k = real(0.0)
        low = real(0.0)
        high = real(-1.0)
        px = real(0.0)
        py = real(0.0)
        pn = real(0.0)
        size = real(1.0)
        steps = int(NEWTON_STEPS)
        for _step in range(steps):
            a = hxx + k
            d = hyy + k
            det_inv = real(1.0) / (a * d - hxy * hxy)
            px = -(d * ex - hxy * ey) * det_inv
            py = -(a * ey - hxy * ex) * det_inv
            pn = -(c[2] * g_inv + gx * px + gy * py)
            size = wp.max(wp.sqrt(px * px + py * py), real(TINY))
            phi = mu * pn / size - real(1.0)
            if wp.abs(phi) <= real(TOLERANCE):
                break
            # dp_t/dk = -(H + k)^-1 p_t
            dx = -(d * px - hxy * py) * det_inv
            dy = -(a * py - hxy * px) * det_inv
            slope = mu * (-(gx * dx + gy * dy) - pn * (px * dx + py * dy) / (size * size)) / size
            if phi < real(0.0):
                low = k
            else:
                high = k
            k = k - phi / wp.max(slope, real(TINY))
            if slope <= real(0.0) or k <= low or (high > real(0.0) and k >= high):
                k = wp.where(
                    high > real(0.0), real(0.5) * (low + high), real(2.0) * low + hxx + hyy
                )
        onto_cone = mu * wp.max(pn, real(0.0)) / size
        return sp.vec4(onto_cone * px, onto_cone * py, wp.max(pn, real(0.0)), wp.max(k, real(TINY)))

    @wp.func
    def solve_foot_adjoint(G: sp.mat33, mu: real, solution: sp.vec4, p_bar: sp.vec3):
        """Adjoint of `solve_foot`: gradients of c and mu; that of G is outer(c_bar, p)."""
        zero = real(0.0)
        p = sp.vec3(solution[0], solution[1], solution[2])
        k = solution[3]
        if k < zero:
            return sp.vec3(), zero
        # dG p + G dp + dc + k (dp_t, 0) + dk (p_t, 0) = 0,  p_t.dp_t - mu^2 p_n dp_n = mu p_n^2 dmu
        K_inv = wp.inverse(
            sp.mat33(
                G[0, 0] + k,
                G[0, 1],
                G[0, 2],
                G[1, 0],
                G[1, 1] + k,
                G[1, 2],
                G[2, 0],
                G[2, 1],
                G[2, 2],
            )
        )
        z = wp.transpose(K_inv) * p_bar
        if k == zero:
            return -z, zero
        tangent = sp.vec3(p[0], p[1], zero)
        cone = sp.vec3(p[0], p[1], -mu * mu * p[2])
        a = wp.transpose(K_inv) * cone
        # cone.K^-1 tangent > 0 unless friction jams; bounded away from zero there
        b = K_inv * tangent
        delta = wp.max(wp.dot(cone, b), real(1.0e-3) * wp.dot(tangent, b))
        f = wp.dot(tangent, z) / wp.max(delta, real(TINY))
        return f * a - z, f * mu * p[2] * p[2]

    @wp.func
    def soft_force(gap: real, v: sp.vec3, mu: real) -> sp.vec3:
        """Force of the SOFT law on a foot at height gap (m) with velocity v (m/s), N."""
        zero = real(0.0)
        if gap >= zero:
            return sp.vec3()
        # f_n = -k d - c min(v_n, 0),  f_t = -v_t min(k_t, mu f_n / |v_t|)
        normal = -real(SOFT_STIFFNESS) * gap - real(SOFT_DAMPING) * wp.min(v[2], zero)
        slip = wp.sqrt(v[0] * v[0] + v[1] * v[1] + real(SOFT_SLIP * SOFT_SLIP))
        drag = wp.min(real(SOFT_FRICTION), mu * normal / slip)
        return sp.vec3(-drag * v[0], -drag * v[1], normal)

    return SimpleNamespace(
        soft_force=soft_force,
        hard_bias=hard_bias,
        correction_bias=correction_bias,
        contact_share=contact_share,
        solve_foot=solve_foot,
        solve_foot_adjoint=solve_foot_adjoint,
    )
