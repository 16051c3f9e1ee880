"""Proves the sigmoids, the ridge MLE, its refit, the projection and the radius of the paper."""

import math

import mpmath
import numba
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import optimize, special

from headway.kernel.ellipsoid import confidence_radius, shrink, uncertainty
from headway.kernel.linear import add_outer
from headway.kernel.logistic import (
    BLOCK,
    append,
    loop_sigmoid,
    project,
    refit,
    ridge_mle,
    sigmoid,
    sigmoid_slope,
    softplus,
)

REPRODUCIBLE = settings(derandomize=True, deadline=None, database=None, max_examples=60)
LOGITS = np.concatenate(
    [
        np.linspace(-700.0, 700.0, 2801),
        np.linspace(-40.0, 40.0, 1601),
        [sign * 10.0**power for sign in (-1.0, 1.0) for power in range(-300, 1)],
        [0.0, -0.0, 36.0, -36.0, 36.7, -36.8],
    ]
)


# The independent solvers.


def loss_and_gradient(theta, x, r, ridge):
    z = x @ theta
    loss = np.sum(np.logaddexp(0.0, z) - r * z) + 0.5 * ridge * theta @ theta
    return loss, x.T @ (special.expit(z) - r) + ridge * theta


def loss_hessian(theta, x, r, ridge):
    p = special.expit(x @ theta)
    return (x.T * (p * (1.0 - p))) @ x + ridge * np.eye(len(theta))


def reference_mle(x, r, ridge):
    """SciPy's trust region method, then Newton's method on a long double gradient."""
    found = optimize.minimize(
        loss_and_gradient, np.zeros(x.shape[1]), (x, r, ridge), jac=True, hess=loss_hessian,
        method="trust-exact", options={"gtol": 1e-9, "maxiter": 2000},
    )  # fmt: skip
    theta = found.x.astype(np.longdouble)
    long_x = x.astype(np.longdouble)
    sign = 1.0 - 2.0 * r.astype(np.longdouble)  # mu(z) - r = sign mu(sign z): no cancellation
    for _ in range(30):
        gradient = long_x.T @ (sign / (1.0 + np.exp(-sign * (long_x @ theta)))) + ridge * theta
        hessian = loss_hessian(theta.astype(float), x, r, ridge)
        step = np.linalg.solve(hessian, gradient.astype(float))
        theta -= step
        if np.linalg.norm(step) <= 1e-14 * (1.0 + np.linalg.norm(theta.astype(float))):
            break
    else:
        raise AssertionError("the reference solver did not converge")
    return theta.astype(float)


def gap_and_jacobian(theta, x, mle, ridge):
    p = special.expit(x @ theta)
    gap = x.T @ (p - special.expit(x @ mle)) + ridge * (theta - mle)
    return gap, (x.T * (p * (1.0 - p))) @ x + ridge * np.eye(len(theta))


def projection_objective(theta, x, mle, v, ridge):
    """|gap|^2 / 2 in the norm of V^-1, and its gradient."""
    gap, jacobian = gap_and_jacobian(theta, x, mle, ridge)
    weight = np.linalg.solve(v, gap)
    return 0.5 * gap @ weight, jacobian @ weight


def scaled_objective(x, mle, v, bound, ridge):
    """The objective as a function on the unit ball, 1 where the MLE is scaled back to the ball."""
    scale = projection_objective(bound * mle / np.linalg.norm(mle), x, mle, v, ridge)[0]

    def scaled(t):
        value, gradient = projection_objective(bound * t, x, mle, v, ridge)
        return value / scale, gradient * bound / scale

    return scaled


def best_of_slsqp(scaled, mle):
    """SLSQP on the unit ball from the scaled MLE, the origin and three random points."""
    radial = mle / np.linalg.norm(mle)
    starts = 0.5 * np.random.default_rng(len(mle)).standard_normal((3, len(mle)))
    found = [
        optimize.minimize(
            scaled, first, jac=True, method="SLSQP", options={"ftol": 1e-14, "maxiter": 500},
            constraints={"type": "ineq", "fun": lambda t: 1.0 - t @ t, "jac": lambda t: -2.0 * t},
        )
        for first in (radial, 0.0 * radial, *starts)
    ]  # fmt: skip
    # SLSQP may end a little outside the ball.
    points = [each.x / max(1.0, np.linalg.norm(each.x)) for each in found]
    return min(points, key=lambda t: scaled(t)[0])


def reference_projection(x, mle, v, bound, ridge):
    """The best SLSQP solution, polished to a root of the KKT conditions on the sphere."""
    scaled = scaled_objective(x, mle, v, bound, ridge)

    def conditions(unknown):
        t, multiplier = unknown[:-1], unknown[-1]
        return np.append(scaled(t)[1] + multiplier * t, 0.5 * (t @ t - 1.0))

    best = best_of_slsqp(scaled, mle)
    t = best / np.linalg.norm(best)
    root = optimize.root(conditions, np.append(t, -scaled(t)[1] @ t), tol=1e-15)
    assert np.abs(root.fun).max() < 1e-11
    lowest = scaled(best)[0]
    assert abs(scaled(root.x[:-1])[0] - lowest) < 1e-6 * (1.0 + lowest)
    return bound * root.x[:-1]


# Data.


def draw_history(seed, count, d, truth_norm=2.0, scale=1.0):
    """Contexts and outcomes of a logistic model; an infinite norm gives separable data."""
    rng = np.random.default_rng(seed)
    x = scale * rng.uniform(-1.0, 1.0, (count, d))
    direction = rng.standard_normal(d)
    direction /= np.linalg.norm(direction)
    if math.isinf(truth_norm):
        return x, (x @ direction > 0.0).astype(float)
    return x, (rng.random(count) < special.expit(truth_norm * (x @ direction))).astype(float)


def design_of(x, start=10.0):
    return start * np.eye(x.shape[1]) + x.T @ x


def assert_close_mle(x, r, ridge):
    expected = reference_mle(x, r, ridge)
    error = np.linalg.norm(ridge_mle(x, r, ridge) - expected)
    assert error <= 1e-8 * (1.0 + np.linalg.norm(expected))


# The sigmoids.


def test_sigmoid_its_slope_and_softplus_to_a_few_roundings():
    with mpmath.workdps(60):
        for z in LOGITS:
            exact = mpmath.mpf(float(z))
            tail = mpmath.exp(-abs(exact))
            mu = (1 if z >= 0.0 else tail) / (1 + tail)
            assert abs(sigmoid(z) / mu - 1) < 1e-15
            assert abs(sigmoid_slope(z) / (tail / (1 + tail) ** 2) - 1) < 1.5e-15
            wanted = max(exact, 0) + mpmath.log1p(tail)
            assert abs(softplus(z) / wanted - 1) < 1e-15


def test_sigmoids_at_infinity_and_beyond_the_range_of_exp():
    for z in (800.0, 1e6, 1e308, math.inf):
        assert (sigmoid(z), sigmoid(-z), sigmoid_slope(z), softplus(-z)) == (1.0, 0.0, 0.0, 0.0)
        assert softplus(z) == z
        assert loop_sigmoid(z) == 1.0
        assert 0.0 <= loop_sigmoid(-z) < 5e-18


def test_loop_sigmoid_is_good_to_3e_13_where_it_is_not_cut():
    with mpmath.workdps(60):
        for z in LOGITS:
            mu = 1 / (1 + mpmath.exp(-mpmath.mpf(float(z))))
            error = abs(loop_sigmoid(z) - mu)
            assert error <= (3e-13 * mu if abs(z) <= 40.0 else 5e-18), z


# The ridge MLE.


@REPRODUCIBLE
@given(
    seed=st.integers(0, 2**32 - 1),
    count=st.integers(1, 150),
    d=st.integers(1, 6),
    truth_norm=st.sampled_from([0.0, 1.0, 4.0, math.inf]),
    scale=st.floats(-1.0, 2.0),
    ridge=st.floats(-6.0, 2.0),
)
def test_ridge_mle_equals_an_independent_solver(seed, count, d, truth_norm, scale, ridge):
    x, r = draw_history(seed, count, d, truth_norm, 10.0**scale)
    assert_close_mle(x, r, 10.0**ridge)


@pytest.mark.parametrize("ridge", [1e-6, 1e-3, 1.0, 100.0])
@pytest.mark.parametrize(
    ("count", "d", "truth_norm", "scale"),
    [
        (1, 1, 2.0, 1.0),
        (1, 5, 2.0, 30.0),
        (64, 3, math.inf, 1.0),
        (65, 2, math.inf, 1000.0),
        (200, 5, 2.0, 1000.0),
        (2000, 20, 3.0, 1.0),
        (10, 20, 2.0, 1.0),
    ],
)
def test_ridge_mle_of_separable_single_large_and_deficient_data(count, d, truth_norm, scale, ridge):
    assert_close_mle(*draw_history(count + d, count, d, truth_norm, scale), ridge)


def test_ridge_mle_of_nothing_and_of_zero_contexts_is_zero():
    assert np.array_equal(ridge_mle(np.zeros((0, 3)), np.zeros(0), 1.0), np.zeros(3))
    assert np.array_equal(ridge_mle(np.zeros((5, 2)), np.ones(5), 1e-6), np.zeros(2))


@numba.njit
def largest_refit_error(x, r, ridge):
    """Drive refit outcome by outcome; its worst distance from ridge_mle, and where."""
    count, d = x.shape
    history = np.zeros(((count + BLOCK - 1) // BLOCK, d, BLOCK))
    theta = np.zeros(d)
    inverse = np.eye(d) / ridge
    worst = 0.0
    place = -1
    for n in range(count):
        append(history, n, x[n], r[n] == 1.0)
        refit(history, n + 1, ridge, theta, inverse)
        error = np.sqrt(np.sum((theta - ridge_mle(x[: n + 1], r[: n + 1], ridge)) ** 2))
        if not error <= worst:
            worst = error
            place = n
    return worst, place


@pytest.mark.parametrize("d", [1, 5, 20])
@pytest.mark.parametrize(
    ("truth_norm", "scale", "ridge"), [(2.0, 1.0, 1.0), (math.inf, 1.0, 1.0), (4.0, 3.0, 0.1)]
)
def test_refit_follows_the_exact_mle_at_every_count(d, truth_norm, scale, ridge):
    x, r = draw_history(100 + d, 600, d, truth_norm, scale)
    worst, place = largest_refit_error(x, r, ridge)
    assert worst <= 5e-8, place


def test_refit_survives_a_reversal_and_a_repeated_context():
    x = np.ones((600, 2)) * np.array([1.0, -0.5])
    r = (np.arange(600) >= 300).astype(float)
    worst, place = largest_refit_error(x, r, 1.0)
    assert worst <= 5e-8, place


# The projection.


@pytest.mark.parametrize("ridge", [0.0, 1.0])
@pytest.mark.parametrize("bound", [0.1, 0.7, 2.2])
@pytest.mark.parametrize(
    ("count", "d", "truth_norm", "scale", "mle_ridge"),
    [
        (1, 1, math.inf, 1.0, 1e-4),
        (40, 1, 6.0, 1.0, 1.0),
        (30, 2, math.inf, 1.0, 1e-4),
        (200, 2, 5.0, 1.0, 1.0),
        (100, 5, math.inf, 1.0, 1e-4),
        (400, 5, 8.0, 1.0, 1.0),
        (400, 5, math.inf, 2.0, 1e-4),
    ],
)
def test_projection_equals_an_independent_solver(
    count, d, truth_norm, scale, mle_ridge, bound, ridge
):
    x, r = draw_history(7 * count + d, count, d, truth_norm, scale)
    mle = ridge_mle(x, r, mle_ridge)
    if np.linalg.norm(mle) <= bound:
        mle *= 1.5 * bound / np.linalg.norm(mle)
    v = design_of(x)
    theta = project(x, mle, v, bound, ridge)
    assert np.linalg.norm(theta) <= bound * (1.0 + 1e-12)
    sphere = np.sign(mle) * bound
    expected = sphere if d == 1 else reference_projection(x, mle, v, bound, ridge)
    assert np.linalg.norm(theta - expected) <= 1e-8


@pytest.mark.parametrize("ridge", [0.0, 1.0])
@pytest.mark.parametrize(("count", "d", "bound"), [(1, 5, 0.5), (2, 5, 1.0), (3, 4, 0.3)])
def test_projection_of_a_rank_deficient_history_reaches_the_lowest_objective(
    count, d, bound, ridge
):
    x, r = draw_history(count, count, d, math.inf, 1.0)
    mle = ridge_mle(x, r, 1e-4)
    assert np.linalg.norm(mle) > bound
    v = design_of(x)
    theta = project(x, mle, v, bound, ridge)
    assert np.linalg.norm(theta) <= bound * (1.0 + 1e-12)
    scaled = scaled_objective(x, mle, v, bound, ridge)
    assert scaled(theta / bound)[0] <= scaled(best_of_slsqp(scaled, mle))[0] + 1e-10


def test_projection_returns_an_mle_inside_the_ball_unchanged():
    for seed in range(5):
        x, r = draw_history(seed, 50, 3)
        mle = ridge_mle(x, r, 1.0)
        for bound in (np.linalg.norm(mle) * (1.0 + 1e-9), 100.0):
            assert np.array_equal(project(x, mle, design_of(x), bound, 0.0), mle)


# Radius and design matrix.


@pytest.mark.parametrize("count", [0, 1, 1000, 10**7])
@pytest.mark.parametrize(("d", "kappa", "ridge"), [(1, 4.0, 1.0), (5, 10.0, 1.0), (20, 173.0, 0.1)])
def test_confidence_radius_is_eq_beta(count, d, kappa, ridge):
    servers, failure_prob, norm_bound = 5, 4e-8, 2.3
    growth = 2 * d * math.log(1 + count / (kappa * ridge * d))
    beta = kappa / 2 * math.sqrt(growth + math.log(servers / failure_prob))
    beta += kappa * norm_bound * math.sqrt(ridge) / 2
    found = confidence_radius(count, d, kappa, ridge, servers, failure_prob, norm_bound)
    assert found == pytest.approx(beta, rel=1e-14)


def test_confidence_radius_at_hand_computed_values():
    # kappa/2 = 2, 2d log(1 + 8/8) = 4 log 2, log(K/delta) = 4 log 2; kappa S sqrt(ridge)/2 = 6.
    found = confidence_radius(8, 2, 4.0, 1.0, 2, 0.125, 3.0)
    assert found == pytest.approx(2.0 * math.sqrt(8.0 * math.log(2.0)) + 6.0, rel=1e-14)


@REPRODUCIBLE
@given(
    seed=st.integers(0, 2**32 - 1),
    d=st.integers(1, 8),
    count=st.integers(1, 400),
    start=st.floats(0.5, 100.0),
    scale=st.sampled_from([0.1, 1.0, 3.0]),
)
def test_inverse_stays_the_inverse_of_the_design(seed, d, count, start, scale):
    rng = np.random.default_rng(seed)
    v = start * np.eye(d)
    inverse = np.eye(d) / start
    step = np.empty(d)
    for x in scale * rng.uniform(-1.0, 1.0, (count, d)):
        weight = rng.choice([1.0, 0.25])
        before = inverse.copy()
        add_outer(v, weight, x)
        s = shrink(inverse, weight, x, step)
        assert np.abs(before - s * np.outer(step, step) - inverse).max() <= 1e-15 / start * 10.0
    assert np.array_equal(inverse, inverse.T)
    assert np.abs(v @ inverse - np.eye(d)).max() <= 1e-10
    expected = math.sqrt(x @ np.linalg.solve(v, x))
    assert uncertainty(inverse, x) == pytest.approx(expected, rel=1e-10, abs=1e-300)
