"""Foot–ground contact: three laws for one step of impulses.

World axes, ground z = 0. Foot i has height d_i at the middle of the step (negative inside the
ground), impulse p_i (N s) and velocity v_i after the step (m/s):

    v_i = c_i + sum_j G_ij p_j,     G the Delassus matrix, c the velocity without contact.

HARD      0 <= p_n  ⊥  v_n + b(d) >= 0 and Coulomb friction |p_t| <= mu p_n, opposing slip.
          b = d/dt above ground: a foot may come down to the ground within the step, not through it;
          b = max(0.2 d/dt, -0.5 m/s) below: depth is worked off gently, without a bounce.
SMOOTHED  every foot solves the same problem with the impulses that the other feet really apply,
          and applies the fraction s(d) = 1 / (1 + exp(kappa d)) of its own:
          v_i = c_i + G_ii p_i + sum_{j≠i} s_j G_ij p_j, applied impulse s_i p_i (Schwarke et al.,
          CoRL 2025). s is never cut off: a foot in the air feels e^(-kappa d) of the ground and has
          a gradient toward it. Optional b as in HARD, below ground only.
SOFT      spring, damper and regularised friction at the middle of the step; needs dt <= 0.5 ms.

The contact problem is solved by block Gauss–Seidel over two pairs of feet, and each foot exactly:
with the normal impulse eliminated, friction that opposes slip means (G_tt' + k) p_t = -c_t' with one
unknown k >= 0 that puts p on the cone; k follows from a safeguarded Newton iteration. Pairs can be
updated at once because a two-block splitting converges for every positive definite G, like plain
Gauss–Seidel. The adjoint differentiates the solution of each foot, not its iterations.
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


CORRECTION_RATE = 0.2  # share of the depth that is worked off in a step
CORRECTION_SPEED = 0.5  # m/s, its limit
NEWTON_STEPS = 16  # bound on the iterations for k; 3 to 5 are usual
SEPARATED = -1.0  # value of k for a foot without contact; 0 is sticking, > 0 slipping
MIN_FRICTION = 1.0e-4


@cache
def build_foot_contact(real) -> SimpleNamespace:
    """Contact of a single foot: `solve_foot` and its adjoint, gap terms, for `real`."""
    sp = build_spatial(real)
    vec3, vec4, mat33 = sp.vec3, sp.vec4, sp.mat33
    TOLERANCE = 1.0e-12 if real is wp.float64 else 1.0e-6
    TINY = 1.0e-30

    @wp.func
    def hard_bias(gap: real, dt: real) -> real:
        """Shift b of the normal velocity in the HARD law, m/s."""
        correction = wp.max(real(CORRECTION_RATE) * gap / dt, real(-CORRECTION_SPEED))
        return wp.where(gap > real(0.0), gap / dt, correction)

    @wp.func
    def correction_bias(gap: real, dt: real) -> real:
        """Shift of the normal velocity that works off depth, m/s; zero above ground."""
        depth = wp.min(gap, real(0.0))
        return wp.max(real(CORRECTION_RATE) * depth / dt, real(-CORRECTION_SPEED))

    @wp.func
    def contact_share(gap: real, kappa: real) -> real:
        """Fraction s(d) of the stopping impulse that the SMOOTHED law applies."""
        # exponent clamped: exp must not overflow, inf * 0 would be NaN in the adjoint
        x = wp.clamp(kappa * gap, real(-100.0), real(50.0))
        return real(1.0) / (real(1.0) + wp.exp(x))

    @wp.func
    def solve_foot(G: mat33, c: vec3, mu: real) -> vec4:
        """Impulse of one foot against velocity c, and its k: (p, k).

        G v/p of this foot, 1/kg; c m/s including the shift b; mu > 0.
        """
        if c[2] >= real(-1.0e-12):
            return vec4(real(0.0), real(0.0), real(0.0), real(SEPARATED))

        # sticking: G p = -c inside the cone
        stick = -(wp.inverse(G) * c)
        if stick[2] > real(0.0):
            if stick[0] * stick[0] + stick[1] * stick[1] <= mu * mu * stick[2] * stick[2]:
                return vec4(stick[0], stick[1], stick[2], real(0.0))

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
        return vec4(onto_cone * px, onto_cone * py, wp.max(pn, real(0.0)), wp.max(k, real(TINY)))

    @wp.func
    def solve_foot_adjoint(G: mat33, mu: real, solution: vec4, p_bar: vec3):
        """Adjoint of `solve_foot`: gradients of c and mu; that of G is outer(c_bar, p)."""
        zero = real(0.0)
        p = vec3(solution[0], solution[1], solution[2])
        k = solution[3]
        if k < zero:
            return vec3(), zero
        # dG p + G dp + dc + k (dp_t, 0) + dk (p_t, 0) = 0,  p_t.dp_t - mu^2 p_n dp_n = mu p_n^2 dmu
        K_inv = wp.inverse(
            mat33(
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
        tangent = vec3(p[0], p[1], zero)
        cone = vec3(p[0], p[1], -mu * mu * p[2])
        a = wp.transpose(K_inv) * cone
        # cone.K^-1 tangent > 0 unless friction jams; bounded away from zero there
        b = K_inv * tangent
        delta = wp.max(wp.dot(cone, b), real(1.0e-3) * wp.dot(tangent, b))
        f = wp.dot(tangent, z) / wp.max(delta, real(TINY))
        return f * a - z, f * mu * p[2] * p[2]

    return SimpleNamespace(
        hard_bias=hard_bias,
        correction_bias=correction_bias,
        contact_share=contact_share,
        solve_foot=solve_foot,
        solve_foot_adjoint=solve_foot_adjoint,
    )


@cache
def build_contact_problem(real):
    """Struct of the contact problem of four feet: blocks of G, velocities c, shares s, friction."""
    sp = build_spatial(real)
    vec3, vec4, mat33 = sp.vec3, sp.vec4, sp.mat33

    @wp.struct
    class ContactProblem:
        g00: mat33
        g11: mat33
        g22: mat33
        g33: mat33
        g01: mat33
        g02: mat33
        g03: mat33
        g12: mat33
        g13: mat33
        g23: mat33
        c0: vec3
        c1: vec3
        c2: vec3
        c3: vec3
        share: vec4
        friction: real

    return ContactProblem


@cache
def build_feet_solver(real, sweeps: int):
    """Function `solve_feet(problem) -> p_0 .. p_3` with a hand-written adjoint (one thread a robot).

    Feet 0 and 1, then 2 and 3, are updated at once; `sweeps` rounds. Impulses returned are the
    applied ones, s_i p_i.
    """
    sp = build_spatial(real)
    vec3, vec4 = sp.vec3, sp.vec4
    foot = build_foot_contact(real)
    solve_foot, solve_foot_adjoint = foot.solve_foot, foot.solve_foot_adjoint
    Problem = build_contact_problem(real)
    history_size = 4 * sweeps + 4

    @wp.func
    def impulse(solution: vec4) -> vec3:
        return vec3(solution[0], solution[1], solution[2])

    @wp.func
    def velocity_0(m: Problem, x1: vec3, x2: vec3, x3: vec3) -> vec3:
        """c_i as foot i sees it, given what the other feet apply."""
        return m.c0 + m.g01 * x1 + m.g02 * x2 + m.g03 * x3

    @wp.func
    def velocity_1(m: Problem, x0: vec3, x2: vec3, x3: vec3) -> vec3:
        return m.c1 + wp.transpose(m.g01) * x0 + m.g12 * x2 + m.g13 * x3

    @wp.func
    def velocity_2(m: Problem, x0: vec3, x1: vec3, x3: vec3) -> vec3:
        return m.c2 + wp.transpose(m.g02) * x0 + wp.transpose(m.g12) * x1 + m.g23 * x3

    @wp.func
    def velocity_3(m: Problem, x0: vec3, x1: vec3, x2: vec3) -> vec3:
        return m.c3 + wp.transpose(m.g03) * x0 + wp.transpose(m.g13) * x1 + wp.transpose(m.g23) * x2

    @wp.func
    def solve_feet(m: Problem):
        x0 = vec3()
        x1 = vec3()
        x2 = vec3()
        x3 = vec3()
        s = m.share
        mu = wp.max(m.friction, real(MIN_FRICTION))
        rounds = int(sweeps)
        for _sweep in range(rounds):
            p0 = impulse(solve_foot(m.g00, velocity_0(m, x1, x2, x3), mu))
            p1 = impulse(solve_foot(m.g11, velocity_1(m, x0, x2, x3), mu))
            x0 = s[0] * p0
            x1 = s[1] * p1
            p2 = impulse(solve_foot(m.g22, velocity_2(m, x0, x1, x3), mu))
            p3 = impulse(solve_foot(m.g33, velocity_3(m, x0, x1, x2), mu))
            x2 = s[2] * p2
            x3 = s[3] * p3
        return x0, x1, x2, x3

    @wp.func_grad(solve_feet)
    def adj_solve_feet(m: Problem, x0_bar: vec3, x1_bar: vec3, x2_bar: vec3, x3_bar: vec3):
        # forward again, keeping the solution of every foot after every sweep
        history = wp.zeros(shape=(history_size,), dtype=vec4)
        rounds = int(sweeps)
        s = m.share
        mu = wp.max(m.friction, real(MIN_FRICTION))
        x0 = vec3()
        x1 = vec3()
        x2 = vec3()
        x3 = vec3()
        for sweep in range(rounds):
            k = 4 * sweep + 4
            history[k] = solve_foot(m.g00, velocity_0(m, x1, x2, x3), mu)
            history[k + 1] = solve_foot(m.g11, velocity_1(m, x0, x2, x3), mu)
            x0 = s[0] * impulse(history[k])
            x1 = s[1] * impulse(history[k + 1])
            history[k + 2] = solve_foot(m.g22, velocity_2(m, x0, x1, x3), mu)
            history[k + 3] = solve_foot(m.g33, velocity_3(m, x0, x1, x2), mu)
            x2 = s[2] * impulse(history[k + 2])
            x3 = s[3] * impulse(history[k + 3])

        # backward: x_bar holds the adjoint of the newest applied impulses not yet explained
        b0 = x0_bar
        b1 = x1_bar
        b2 = x2_bar
        b3 = x3_bar
        zero = real(0.0)
        mu_bar = zero
        for back in range(rounds):
            k = 4 * (rounds - back)
            # pair 2, 3 saw the new x0, x1 and the old x2, x3
            p2 = impulse(history[k + 2])
            p3 = impulse(history[k + 3])
            x0 = s[0] * impulse(history[k])
            x1 = s[1] * impulse(history[k + 1])
            x2 = s[2] * impulse(history[k - 2])
            x3 = s[3] * impulse(history[k - 1])
            c2_bar, mu2_bar = solve_foot_adjoint(m.g22, mu, history[k + 2], s[2] * b2)
            c3_bar, mu3_bar = solve_foot_adjoint(m.g33, mu, history[k + 3], s[3] * b3)
            wp.adjoint[m].share += vec4(zero, zero, wp.dot(p2, b2), wp.dot(p3, b3))
            wp.adjoint[m].g22 += wp.outer(c2_bar, p2)
            wp.adjoint[m].g33 += wp.outer(c3_bar, p3)
            wp.adjoint[m].g02 += wp.outer(x0, c2_bar)
            wp.adjoint[m].g12 += wp.outer(x1, c2_bar)
            wp.adjoint[m].g03 += wp.outer(x0, c3_bar)
            wp.adjoint[m].g13 += wp.outer(x1, c3_bar)
            wp.adjoint[m].g23 += wp.outer(c2_bar, x3) + wp.outer(x2, c3_bar)
            wp.adjoint[m].c2 += c2_bar
            wp.adjoint[m].c3 += c3_bar
            b0 += m.g02 * c2_bar + m.g03 * c3_bar
            b1 += m.g12 * c2_bar + m.g13 * c3_bar
            b2 = m.g23 * c3_bar
            b3 = wp.transpose(m.g23) * c2_bar
            # pair 0, 1 saw the old impulses of all
            p0 = impulse(history[k])
            p1 = impulse(history[k + 1])
            x0 = s[0] * impulse(history[k - 4])
            x1 = s[1] * impulse(history[k - 3])
            c0_bar, mu0_bar = solve_foot_adjoint(m.g00, mu, history[k], s[0] * b0)
            c1_bar, mu1_bar = solve_foot_adjoint(m.g11, mu, history[k + 1], s[1] * b1)
            wp.adjoint[m].share += vec4(wp.dot(p0, b0), wp.dot(p1, b1), zero, zero)
            wp.adjoint[m].g00 += wp.outer(c0_bar, p0)
            wp.adjoint[m].g11 += wp.outer(c1_bar, p1)
            wp.adjoint[m].g01 += wp.outer(c0_bar, x1) + wp.outer(x0, c1_bar)
            wp.adjoint[m].g02 += wp.outer(c0_bar, x2)
            wp.adjoint[m].g03 += wp.outer(c0_bar, x3)
            wp.adjoint[m].g12 += wp.outer(c1_bar, x2)
            wp.adjoint[m].g13 += wp.outer(c1_bar, x3)
            wp.adjoint[m].c0 += c0_bar
            wp.adjoint[m].c1 += c1_bar
            b0 = m.g01 * c1_bar
            b1 = wp.transpose(m.g01) * c0_bar
            b2 += wp.transpose(m.g02) * c0_bar + wp.transpose(m.g12) * c1_bar
            b3 += wp.transpose(m.g03) * c0_bar + wp.transpose(m.g13) * c1_bar
            mu_bar += mu0_bar + mu1_bar + mu2_bar + mu3_bar
        if m.friction > real(MIN_FRICTION):
            wp.adjoint[m].friction += mu_bar

    return solve_feet
