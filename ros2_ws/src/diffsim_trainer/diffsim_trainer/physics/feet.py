"""Contact problem of four feet: block Gauss–Seidel over the left and the right pair.

A sweep updates both left feet at once, then both right feet, each exactly (`contact.solve_foot`).
Two simultaneous blocks keep the guarantee of Gauss–Seidel: M + Mᵀ - G is the block diagonal of the
two pairs with the sign of their coupling flipped, which is positive definite whenever G is. It is
also as fast, since feet are coupled only through the heavy base. Distance from the converged
impulses on random hard stances of ANYmal D, friction 0.3 to 1.2, after 1, 2, 3, 4 sweeps:

    default stance         median 3.6, 0.11, 0.003, 0.0001 %  95 % below 12, 0.44, 0.03, 0.001 %
    knees nearly straight  median 8.3, 0.92, 0.11, 0.01 %     95 % below 42, 9.3, 2.4, 0.6 %

(`benchmarks/physics_convergence.py`; smoothed contact converges a little faster.)

Two layouts share the algorithm: `build_feet_solver` for one thread per robot, `build_lane_solver`
for one GPU lane per leg. Both carry a hand-written adjoint, since they loop at run time.
"""

from functools import cache
from types import SimpleNamespace

import warp as wp

from .contact import MIN_FRICTION, build_foot_contact
from .lanes import build_lanes
from .spatial import build_spatial

MAX_SWEEPS = 16  # room for the history of the adjoint


@cache
def build_feet_solver(real) -> SimpleNamespace:
    """Struct `Problem`; `solve(problem, sweeps) -> x_0 .. x_3`, the applied impulses s_i p_i."""
    sp = build_spatial(real)
    vec4 = sp.vec4  # Warp does not resolve sp.vec4 as a keyword argument
    foot = build_foot_contact(real)
    history_size = 4 * MAX_SWEEPS + 4

    @wp.struct
    class Problem:
        """Blocks of G (1/kg, symmetric), velocities c (m/s, with b), shares s, friction."""

        g00: sp.mat33
        g11: sp.mat33
        g22: sp.mat33
        g33: sp.mat33
        g01: sp.mat33
        g02: sp.mat33
        g03: sp.mat33
        g12: sp.mat33
        g13: sp.mat33
        g23: sp.mat33
        c0: sp.vec3
        c1: sp.vec3
        c2: sp.vec3
        c3: sp.vec3
        share: sp.vec4
        friction: real

    @wp.func
    def impulse(solution: sp.vec4) -> sp.vec3:
        return sp.vec3(solution[0], solution[1], solution[2])

    @wp.func
    def velocity_0(m: Problem, x1: sp.vec3, x2: sp.vec3, x3: sp.vec3) -> sp.vec3:
        """c as foot 0 sees it, given what the other feet apply."""
        return m.c0 + m.g01 * x1 + m.g02 * x2 + m.g03 * x3

    @wp.func
    def velocity_1(m: Problem, x0: sp.vec3, x2: sp.vec3, x3: sp.vec3) -> sp.vec3:
        return m.c1 + wp.transpose(m.g01) * x0 + m.g12 * x2 + m.g13 * x3

    @wp.func
    def velocity_2(m: Problem, x0: sp.vec3, x1: sp.vec3, x3: sp.vec3) -> sp.vec3:
        return m.c2 + wp.transpose(m.g02) * x0 + wp.transpose(m.g12) * x1 + m.g23 * x3

    @wp.func
    def velocity_3(m: Problem, x0: sp.vec3, x1: sp.vec3, x2: sp.vec3) -> sp.vec3:
        back = wp.transpose(m.g03) * x0 + wp.transpose(m.g13) * x1 + wp.transpose(m.g23) * x2
        return m.c3 + back

    @wp.func
    def solve(m: Problem, sweeps: int):
        s = m.share
        mu = wp.max(m.friction, real(MIN_FRICTION))
        x0 = sp.vec3()
        x1 = sp.vec3()
        x2 = sp.vec3()
        x3 = sp.vec3()
        for _sweep in range(sweeps):
            p0 = impulse(foot.solve_foot(m.g00, velocity_0(m, x1, x2, x3), mu))
            p2 = impulse(foot.solve_foot(m.g22, velocity_2(m, x0, x1, x3), mu))
            x0 = s[0] * p0
            x2 = s[2] * p2
            p1 = impulse(foot.solve_foot(m.g11, velocity_1(m, x0, x2, x3), mu))
            p3 = impulse(foot.solve_foot(m.g33, velocity_3(m, x0, x1, x2), mu))
            x1 = s[1] * p1
            x3 = s[3] * p3
        return x0, x1, x2, x3

    @wp.func_grad(solve)
    def adj_solve(
        m: Problem, sweeps: int, x0_bar: sp.vec3, x1_bar: sp.vec3, x2_bar: sp.vec3, x3_bar: sp.vec3
    ):
        s = m.share
        mu = wp.max(m.friction, real(MIN_FRICTION))

        # forward again; history[4 n + i] is the solution of foot i after sweep n
        history = wp.zeros(shape=(history_size,), dtype=vec4)
        x0 = sp.vec3()
        x1 = sp.vec3()
        x2 = sp.vec3()
        x3 = sp.vec3()
        for sweep in range(sweeps):
            k = 4 * sweep + 4
            history[k] = foot.solve_foot(m.g00, velocity_0(m, x1, x2, x3), mu)
            history[k + 2] = foot.solve_foot(m.g22, velocity_2(m, x0, x1, x3), mu)
            x0 = s[0] * impulse(history[k])
            x2 = s[2] * impulse(history[k + 2])
            history[k + 1] = foot.solve_foot(m.g11, velocity_1(m, x0, x2, x3), mu)
            history[k + 3] = foot.solve_foot(m.g33, velocity_3(m, x0, x1, x2), mu)
            x1 = s[1] * impulse(history[k + 1])
            x3 = s[3] * impulse(history[k + 3])

        # backward; b_i is the adjoint of the impulse that foot i applies at this point
        b0 = x0_bar
        b1 = x1_bar
        b2 = x2_bar
        b3 = x3_bar
        zero = real(0.0)
        mu_bar = zero
        for back in range(sweeps):
            k = 4 * (sweeps - back)
            p0 = impulse(history[k])
            p1 = impulse(history[k + 1])
            p2 = impulse(history[k + 2])
            p3 = impulse(history[k + 3])
            x1 = s[1] * impulse(history[k - 3])
            x3 = s[3] * impulse(history[k - 1])
            # the right pair saw the new impulses of the left
            x0 = s[0] * p0
            x2 = s[2] * p2
            c1_bar, mu1_bar = foot.solve_foot_adjoint(m.g11, mu, history[k + 1], s[1] * b1)
            c3_bar, mu3_bar = foot.solve_foot_adjoint(m.g33, mu, history[k + 3], s[3] * b3)
            wp.adjoint[m].share += sp.vec4(zero, wp.dot(p1, b1), zero, wp.dot(p3, b3))
            wp.adjoint[m].g11 += wp.outer(c1_bar, p1)
            wp.adjoint[m].g33 += wp.outer(c3_bar, p3)
            wp.adjoint[m].g01 += wp.outer(x0, c1_bar)
            wp.adjoint[m].g12 += wp.outer(c1_bar, x2)
            wp.adjoint[m].g03 += wp.outer(x0, c3_bar)
            wp.adjoint[m].g23 += wp.outer(x2, c3_bar)
            wp.adjoint[m].g13 += wp.outer(c1_bar, x3) + wp.outer(x1, c3_bar)
            wp.adjoint[m].c1 += c1_bar
            wp.adjoint[m].c3 += c3_bar
            b0 += m.g01 * c1_bar + m.g03 * c3_bar
            b2 += wp.transpose(m.g12) * c1_bar + m.g23 * c3_bar
            b1 = m.g13 * c3_bar
            b3 = wp.transpose(m.g13) * c1_bar
            # the left pair saw the old impulses of all
            x0 = s[0] * impulse(history[k - 4])
            x2 = s[2] * impulse(history[k - 2])
            c0_bar, mu0_bar = foot.solve_foot_adjoint(m.g00, mu, history[k], s[0] * b0)
            c2_bar, mu2_bar = foot.solve_foot_adjoint(m.g22, mu, history[k + 2], s[2] * b2)
            wp.adjoint[m].share += sp.vec4(wp.dot(p0, b0), zero, wp.dot(p2, b2), zero)
            wp.adjoint[m].g00 += wp.outer(c0_bar, p0)
            wp.adjoint[m].g22 += wp.outer(c2_bar, p2)
            wp.adjoint[m].g01 += wp.outer(c0_bar, x1)
            wp.adjoint[m].g03 += wp.outer(c0_bar, x3)
            wp.adjoint[m].g12 += wp.outer(x1, c2_bar)
            wp.adjoint[m].g23 += wp.outer(c2_bar, x3)
            wp.adjoint[m].g02 += wp.outer(c0_bar, x2) + wp.outer(x0, c2_bar)
            wp.adjoint[m].c0 += c0_bar
            wp.adjoint[m].c2 += c2_bar
            b1 += wp.transpose(m.g01) * c0_bar + m.g12 * c2_bar
            b3 += wp.transpose(m.g03) * c0_bar + wp.transpose(m.g23) * c2_bar
            b0 = m.g02 * c2_bar
            b2 = wp.transpose(m.g02) * c0_bar
            mu_bar += mu0_bar + mu1_bar + mu2_bar + mu3_bar
        if m.friction > real(MIN_FRICTION):
            wp.adjoint[m].friction += mu_bar

    return SimpleNamespace(Problem=Problem, solve=solve)


@cache
def build_lane_solver(real) -> SimpleNamespace:
    """Struct `Problem`; `solve(lane, problem, sweeps) -> x`, the impulse on this lane's foot."""
    sp = build_spatial(real)
    vec4 = sp.vec4  # Warp does not resolve sp.vec4 as a keyword argument
    foot = build_foot_contact(real)
    lanes = build_lanes(real)
    history_size = MAX_SWEEPS + 1

    @wp.struct
    class LaneProblem:
        """Row of G that belongs to this foot: own block, and those of the feet lane ^ 1, 2, 3."""

        own: sp.mat33
        across1: sp.mat33
        across2: sp.mat33
        across3: sp.mat33
        c: sp.vec3
        share: real
        friction: real

    @wp.func
    def impulse(solution: sp.vec4) -> sp.vec3:
        return sp.vec3(solution[0], solution[1], solution[2])

    @wp.func
    def velocity(m: LaneProblem, x: sp.vec3) -> sp.vec3:
        """c as this foot sees it, given what every lane applies."""
        return (
            m.c
            + m.across1 * lanes.exchange_vec3(x, 1)
            + m.across2 * lanes.exchange_vec3(x, 2)
            + m.across3 * lanes.exchange_vec3(x, 3)
        )

    @wp.func
    def solve(lane: int, m: LaneProblem, sweeps: int) -> sp.vec3:
        mu = wp.max(m.friction, real(MIN_FRICTION))
        x = sp.vec3()
        turns = 2 * sweeps
        for turn in range(turns):
            c = velocity(m, x)
            if turn % 2 == lane % 2:
                x = m.share * impulse(foot.solve_foot(m.own, c, mu))
        return x

    @wp.func_grad(solve)
    def adj_solve(lane: int, m: LaneProblem, sweeps: int, x_bar: sp.vec3):
        mu = wp.max(m.friction, real(MIN_FRICTION))
        history = wp.zeros(shape=(history_size,), dtype=vec4)
        x = sp.vec3()
        turns = 2 * sweeps
        for turn in range(turns):
            c = velocity(m, x)
            if turn % 2 == lane % 2:
                solution = foot.solve_foot(m.own, c, mu)
                history[turn // 2 + 1] = solution
                x = m.share * impulse(solution)

        b = x_bar
        mu_bar = real(0.0)
        for back in range(turns):
            turn = turns - 1 - back
            newest = turn // 2 + 1
            c_bar = sp.vec3()
            seen = newest - 1  # sweep whose impulse of this foot the others saw in this turn
            if turn % 2 == 1 and lane % 2 == 0:
                seen = newest
            if turn % 2 == lane % 2:
                p = impulse(history[newest])
                c_bar, m_bar = foot.solve_foot_adjoint(m.own, mu, history[newest], m.share * b)
                wp.adjoint[m].share += wp.dot(p, b)
                wp.adjoint[m].own += wp.outer(c_bar, p)
                wp.adjoint[m].c += c_bar
                mu_bar += m_bar
                b = sp.vec3()
            x = m.share * impulse(history[seen])
            wp.adjoint[m].across1 += wp.outer(c_bar, lanes.exchange_vec3(x, 1))
            wp.adjoint[m].across2 += wp.outer(c_bar, lanes.exchange_vec3(x, 2))
            wp.adjoint[m].across3 += wp.outer(c_bar, lanes.exchange_vec3(x, 3))
            # G is symmetric: the row of this foot is the column that the others need
            b += m.across1 * lanes.exchange_vec3(c_bar, 1)
            b += m.across2 * lanes.exchange_vec3(c_bar, 2)
            b += m.across3 * lanes.exchange_vec3(c_bar, 3)
        if m.friction > real(MIN_FRICTION):
            wp.adjoint[m].friction += mu_bar

    return SimpleNamespace(Problem=LaneProblem, solve=solve)
