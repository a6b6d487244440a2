"""One foot on its own: the Coulomb–Signorini problem, its adjoint, the smoothed law, the soft law.

Frozen in the adjoint: nothing but the case (separated, sticking, slipping), which is piecewise.
"""

from types import SimpleNamespace

import numpy as np
import pytest
import warp as wp

from diffsim_trainer.physics.contact import (
    MIN_FRICTION,
    SOFT_DAMPING,
    SOFT_STIFFNESS,
    build_foot_contact,
)
from diffsim_trainer.physics.spatial import build_spatial

pytestmark = pytest.mark.physics
N = 500
G = 9.81


@pytest.fixture(scope="module")
def kernels() -> SimpleNamespace:
    real = wp.float64
    sp, foot = build_spatial(real), build_foot_contact(real)

    @wp.kernel(module="unique", enable_backward=False)
    def solve(
        g: wp.array(dtype=sp.mat33),
        c: wp.array(dtype=sp.vec3),
        mu: wp.array(dtype=real),
        p_bar: wp.array(dtype=sp.vec3),
        p: wp.array(dtype=sp.vec4),
        c_bar: wp.array(dtype=sp.vec3),
        mu_bar: wp.array(dtype=real),
    ):
        i = wp.tid()
        p[i] = foot.solve_foot(g[i], c[i], mu[i])
        c_out, mu_out = foot.solve_foot_adjoint(g[i], mu[i], p[i], p_bar[i])
        c_bar[i] = c_out
        mu_bar[i] = mu_out

    @wp.kernel(module="unique", enable_backward=False)
    def drop_mass(
        height: wp.array(dtype=real),
        velocity: wp.array(dtype=real),
        kappa: real,
        dt: real,
        steps: int,
    ):
        """Point mass of 1 kg under gravity with the SMOOTHED law, Moreau steps."""
        i = wp.tid()
        d = height[i]
        v = velocity[i]
        for _step in range(steps):
            middle = d + real(0.5) * dt * v
            free = v - real(G) * dt
            p = foot.solve_foot(
                wp.identity(n=3, dtype=real), sp.vec3(real(0.0), real(0.0), free), real(0.8)
            )
            v = free + foot.contact_share(middle, kappa) * p[2]
            d = middle + real(0.5) * dt * v
        height[i] = d
        velocity[i] = v

    @wp.kernel(module="unique", enable_backward=False)
    def press(
        height: wp.array(dtype=real),
        velocity: wp.array(dtype=sp.vec3),
        mu: real,
        force: wp.array(dtype=sp.vec3),
    ):
        i = wp.tid()
        force[i] = foot.soft_force(height[i], velocity[i], mu)

    return SimpleNamespace(solve=solve, drop_mass=drop_mass, press=press, sp=sp)


def random_problem(rng):
    """Delassus blocks with condition numbers up to 100, velocities, friction."""
    frame = np.linalg.qr(rng.normal(size=(N, 3, 3)))[0]
    g = np.einsum("nij,nj,nkj->nik", frame, 10.0 ** rng.uniform(-1, 1, (N, 3)), frame)
    return g, rng.normal(size=(N, 3)) * [0.3, 0.3, 1.0], rng.uniform(0.2, 1.2, N)


def solve(kernels, g, c, mu, p_bar):
    def array(value, dtype):
        return wp.array(value, dtype=dtype, device="cpu")

    p = array(np.full((N, 4), np.nan), kernels.sp.vec4)
    c_bar = array(np.full((N, 3), np.nan), kernels.sp.vec3)
    mu_bar = array(np.full(N, np.nan), wp.float64)
    inputs = [array(g, kernels.sp.mat33), array(c, kernels.sp.vec3), array(mu, wp.float64)]
    inputs.append(array(p_bar, kernels.sp.vec3))
    wp.launch(kernels.solve, N, inputs=inputs, outputs=[p, c_bar, mu_bar], device="cpu")
    return p.numpy()[:, :3], p.numpy()[:, 3], c_bar.numpy(), mu_bar.numpy()


def test_solution_obeys_signorini_and_coulomb(kernels, rng):
    # 0 <= p_n ⊥ v_n >= 0;  |p_t| <= mu p_n;  v_t = 0 inside the cone, p_t = -mu p_n v_t/|v_t| on it
    g, c, mu = random_problem(rng)
    p, k, _, _ = solve(kernels, g, c, mu, np.zeros((N, 3)))
    v = c + np.einsum("nij,nj->ni", g, p)
    tangent = np.linalg.norm(p[:, :2], axis=1)
    slip = np.linalg.norm(v[:, :2], axis=1)
    apart, stick, slide = k < 0, k == 0, k > 0
    assert apart.sum() > 50 and stick.sum() > 50 and slide.sum() > 50
    assert np.all(p[apart] == 0.0) and np.all(c[apart, 2] >= 0.0)
    assert np.all(p[~apart, 2] > 0.0)
    np.testing.assert_allclose(v[~apart, 2], 0.0, atol=1e-9)
    np.testing.assert_allclose(v[stick], 0.0, atol=1e-9)
    assert np.all(tangent[stick] <= mu[stick] * p[stick, 2] * (1 + 1e-9))
    np.testing.assert_allclose(tangent[slide], mu[slide] * p[slide, 2], rtol=1e-9)
    direction = v[slide, :2] / slip[slide, None]
    np.testing.assert_allclose(p[slide, :2] / tangent[slide, None], -direction, atol=1e-6)


def test_adjoint_of_the_solution(kernels, rng):
    # central differences of weights.p over c and mu; the step stays clear of case changes
    g, c, mu = random_problem(rng)
    weights, dc, dmu = rng.normal(size=(N, 3)), rng.normal(size=(N, 3)), rng.normal(size=N)
    _, k, c_bar, mu_bar = solve(kernels, g, c, mu, weights)
    h = 1e-6
    up, k_up, _, _ = solve(kernels, g, c + h * dc, mu + h * dmu, weights)
    down, k_down, _, _ = solve(kernels, g, c - h * dc, mu - h * dmu, weights)
    numeric = ((up - down) * weights).sum(1) / (2 * h)
    analytic = (c_bar * dc).sum(1) + mu_bar * dmu
    same = (np.sign(k_up) == np.sign(k)) & (np.sign(k_down) == np.sign(k))
    # g.p_t > g_nn p_n / mu: friction jams, where the adjoint is bounded on purpose
    v = c + np.einsum("nij,nj->ni", g, solve(kernels, g, c, mu, weights)[0])
    regular = same & (np.abs(v).max(1) < 1e3) & (np.abs(numeric) < 1e3)
    assert regular.sum() > 0.95 * N
    np.testing.assert_allclose(analytic[regular], numeric[regular], rtol=1e-4, atol=1e-6)


@pytest.mark.parametrize("case", ["no gap speed", "no slip", "no friction", "at rest", "far away"])
def test_finite_at_singular_points(kernels, case):
    g, mu = np.tile(np.eye(3), (N, 1, 1)), np.full(N, 0.8)
    c = np.zeros((N, 3))
    c[:] = {
        "no gap speed": (1.0, 0.5, 0.0),
        "no slip": (0.0, 0.0, -1.0),
        "no friction": (1.0, 0.0, -1.0),
        "at rest": (0.0, 0.0, 0.0),
        "far away": (0.0, 0.0, 1.0),
    }[case]
    if case == "no friction":
        mu[:] = MIN_FRICTION
    p, _, c_bar, mu_bar = solve(kernels, g, c, mu, np.ones((N, 3)))
    assert np.all(np.isfinite(p)) and np.all(np.isfinite(c_bar)) and np.all(np.isfinite(mu_bar))


def drop(kernels, height, velocity, kappa, dt, steps):
    d = wp.array(np.atleast_1d(height).astype(float), dtype=wp.float64, device="cpu")
    v = wp.array(np.full(len(d), float(velocity)), dtype=wp.float64, device="cpu")
    wp.launch(kernels.drop_mass, len(d), inputs=[d, v, kappa, dt, steps], device="cpu")
    return d.numpy(), v.numpy()


@pytest.mark.parametrize("kappa", [100.0, 300.0, 500.0, 1000.0])
def test_creep_law_of_the_smoothed_contact(kernels, kappa):
    # at rest v' = (1 - s) (v - g dt): d(t) = -ln(1 + kappa g dt t) / kappa, to leading order
    dt, steps = 0.005, 60
    d, _ = drop(kernels, 0.0, 0.0, kappa, dt, steps)
    expected = -np.log(1.0 + kappa * G * dt * dt * steps) / kappa
    assert d[0] == pytest.approx(expected, abs=2e-4)


def test_touchdown_jacobian_is_bounded_by_kappa(kernels):
    # |dv'/dd| <= kappa |v - g dt| / 4, the steepest slope of the sigmoid
    kappa, v, dt, h = 300.0, -1.0, 0.005, 1e-6
    heights = np.linspace(-0.03, 0.03, 301)
    up = drop(kernels, heights + h, v, kappa, dt, 1)[1]
    down = drop(kernels, heights - h, v, kappa, dt, 1)[1]
    slope = np.abs(up - down) / (2 * h)
    bound = 0.25 * kappa * (abs(v) + G * dt)
    assert 0.99 * bound < slope.max() <= bound * (1 + 1e-6)


def test_smoothed_contact_never_restores_energy(kernels):
    heights = np.linspace(0.0, 0.1, 101)
    _, v = drop(kernels, heights, -1.5, 300.0, 0.005, 200)
    assert np.all(v <= 0.0)


def test_soft_law(kernels):
    # spring alone; spring and damper; apart; friction limited by mu f_n
    height = wp.array([-0.001, -0.001, 0.001, -0.001], dtype=wp.float64, device="cpu")
    velocity = np.array([[0, 0, 0], [0, 0, -0.1], [0, 0, -0.1], [3.0, 4.0, 1.0]], dtype=float)
    force = wp.array(np.full((4, 3), np.nan), dtype=kernels.sp.vec3, device="cpu")
    speed = wp.array(velocity, dtype=kernels.sp.vec3, device="cpu")
    wp.launch(kernels.press, 4, inputs=[height, speed, 0.5], outputs=[force], device="cpu")
    spring = 0.001 * SOFT_STIFFNESS
    expected = [
        [0, 0, spring],
        [0, 0, spring + 0.1 * SOFT_DAMPING],
        [0, 0, 0],
        [-0.6 * 0.5 * spring, -0.8 * 0.5 * spring, spring],
    ]
    np.testing.assert_allclose(force.numpy(), expected, rtol=1e-6)
