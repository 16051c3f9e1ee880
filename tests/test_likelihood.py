"""Proves the likelihood-ratio set: its formulas, its recursion, and its theorem path by path."""

import math
import types
from pathlib import Path

import mpmath
import numba
import numpy as np
import pytest
from scipy import optimize, special, stats

from headway.kernel import likelihood
from headway.kernel.laplace import filtered_logit
from headway.kernel.likelihood import (
    chord_curvature,
    initial_squared_radius,
    log_forecast,
    minorant_curvature,
    prior_precision,
    queried_radius,
    set_step,
)
from headway.kernel.logistic import sigmoid_slope

NODES, WEIGHTS = np.polynomial.hermite_e.hermegauss(20)
WEIGHTS = WEIGHTS / math.sqrt(2.0 * math.pi)
DIGITS = 60
STRATEGIES = ("theta direction", "greedy", "anti-greedy", "error direction", "bet-max", "mix")
THETA_DIRECTION, GREEDY, ANTI_GREEDY, ERROR_DIRECTION, BET_MAX, MIX = range(6)
CANDIDATES = 10
ROUNDS = 250


# Exact formulas.


def exact_softplus(z):
    return max(z, 0) + mpmath.log1p(mpmath.exp(-abs(z)))


def exact_mu(z):
    return 1 / (1 + mpmath.exp(-z))


def exact_chord(z, u):
    """[softplus(z + u) - softplus(z) - mu(z) u] / u^2; call it with many digits."""
    z, u = mpmath.mpf(float(z)), mpmath.mpf(float(u))
    if u == 0:
        return exact_mu(z) * exact_mu(-z) / 2
    return (exact_softplus(z + u) - exact_softplus(z) - exact_mu(z) * u) / u**2


def documented_chord(z, u):
    """The exact value, or below |u| = 1e-3 the documented lower bound."""
    if abs(u) >= 1e-3:
        return exact_chord(z, u)
    far = mpmath.mpf(max(abs(float(z)), abs(float(z) + float(u))))
    return exact_mu(far) * exact_mu(-far) / 2


class UncentredSet:
    """Theorem F2 as it is written: sums A, b, q and the forecaster's log loss, nothing centred.

    The forecaster's covariance is kept by its inverse, and its logit is found by bisection.
    """

    def __init__(self, dimension, norm_bound, level):
        self.norm_bound = norm_bound
        self.level = level
        self.ridge = dimension / norm_bound**2
        self.matrix = self.ridge * np.eye(dimension)
        self.linear = np.zeros(dimension)
        self.constant = 0.0
        self.loss = 0.0
        self.mean = np.zeros(dimension)
        self.precision = self.ridge * np.eye(dimension)

    @property
    def centre(self):
        return np.linalg.solve(self.matrix, self.linear)

    @property
    def squared_radius(self):
        total = self.loss + math.log(1.0 / self.level) + 0.5 * self.ridge * self.norm_bound**2
        return 2.0 * (total - self.constant + 0.5 * self.linear @ self.centre)

    def interval(self, x):
        half = math.sqrt(self.squared_radius * (x @ np.linalg.solve(self.matrix, x)))
        reach = self.norm_bound * np.linalg.norm(x)
        middle = x @ self.centre
        return max(middle - half, -reach), min(middle + half, reach)

    def learn(self, x, r):
        low, high = self.interval(x)  # of the set before this outcome
        variance = x @ np.linalg.solve(self.precision, x)
        reach = self.norm_bound * np.linalg.norm(x)
        before = x @ self.mean
        logits = np.clip(before + math.sqrt(variance) * NODES, -reach, reach)
        self.loss -= math.log(WEIGHTS @ special.expit(logits if r else -logits))
        xi = optimize.brentq(
            lambda z: z - before - variance * (r - special.expit(z)),
            before - variance, before + variance, xtol=1e-14, rtol=1e-14,
        )  # fmt: skip
        with mpmath.workdps(DIGITS):
            c = float(min(documented_chord(xi, low - xi), documented_chord(xi, high - xi)))
        miss = special.expit(xi) - r
        loss = np.logaddexp(0.0, xi) - r * xi
        self.matrix += 2.0 * c * np.outer(x, x)
        self.linear -= (miss - 2.0 * c * xi) * x
        self.constant += loss - miss * xi + c * xi**2
        self.mean -= np.linalg.solve(self.precision, x) * miss
        slope = special.expit(xi) * special.expit(-xi)
        self.precision += slope * np.outer(x, x)


class CentredState:
    """What set_step reads and writes."""

    def __init__(self, dimension, norm_bound, squared_radius):
        self.norm_bound = norm_bound
        self.centre = np.zeros(dimension)
        self.mean = np.zeros(dimension)
        self.inverse = np.eye(dimension) / prior_precision(dimension, norm_bound)
        self.covariance = self.inverse.copy()
        self.squared_radius = squared_radius
        self.failed = False
        self.step = np.zeros(dimension)

    def learn(self, x, outcome):
        before = self.inverse.copy()
        self.squared_radius, self.failed, scale = set_step(
            x, outcome, self.norm_bound, self.centre, self.inverse, self.mean, self.covariance,
            self.squared_radius, self.failed, self.step,
        )  # fmt: skip
        change = scale * np.outer(self.step, self.step)
        assert np.abs(before - change - self.inverse).max() <= 1e-14 * np.abs(before).max()
        return scale


# The pathwise harness.


@numba.njit
def draw_direction(rng, size, x):
    total = 0.0
    for i in range(x.shape[0]):
        x[i] = rng.standard_normal()
        total += x[i] * x[i]
    x *= size / math.sqrt(total)


@numba.njit
def forecast_success(x, mean, covariance, reach):
    """The mixture's probability of a success, by the plain formula."""
    middle = np.sum(x * mean)
    deviation = math.sqrt(np.sum(np.outer(x, x) * covariance))
    total = 0.0
    for node, weight in zip(NODES, WEIGHTS):  # noqa: B905 - Numba's zip takes no strict
        z = min(max(middle + deviation * node, -reach), reach)
        total += weight / (1.0 + math.exp(-z))
    return total


@numba.njit
def choose_context(rng, strategy, theta_star, centre, mean, covariance, norm_bound, size, x):
    """The adversary: it knows theta_star and the whole state."""
    if strategy == MIX:
        strategy = int(rng.random() * MIX)
    if strategy == THETA_DIRECTION:
        x[:] = theta_star * (size / norm_bound)
        return
    if strategy == ERROR_DIRECTION:
        error = theta_star - centre
        x[:] = error * (size / math.sqrt(np.sum(error * error)))
        return
    best = -np.inf
    trial = np.empty_like(x)
    for _ in range(CANDIDATES):
        draw_direction(rng, size, trial)
        score = np.sum(trial * centre)
        if strategy == ANTI_GREEDY:
            score = -score
        elif strategy == BET_MAX:
            bet = forecast_success(trial, mean, covariance, norm_bound * size)
            score = abs(bet - 1.0 / (1.0 + math.exp(-np.sum(trial * theta_star))))
        if score > best:
            best = score
            x[:] = trial


@numba.njit
def squared_distance(inverse, error):
    return np.sum(error * np.linalg.solve(inverse, error))


@numba.njit
def play(step_set, rng, runs, d, norm_bound, size, strategy, start, log_level, shift):
    """Runs against |theta_star| = norm_bound: misses, likelihood events and contradictions.

    A run misses where theta_star leaves the ellipsoid with rho^2 + shift; its event is that the
    likelihood ratio has reached exp(log_level). A miss without the event contradicts the theorem.
    """
    misses = 0
    events = 0
    contradictions = 0
    theta_star = np.empty(d)
    x = np.empty(d)
    step = np.empty(d)
    for _ in range(runs):
        draw_direction(rng, norm_bound, theta_star)
        centre = np.zeros(d)
        mean = np.zeros(d)
        inverse = np.eye(d) * (norm_bound * norm_bound / d)
        covariance = inverse.copy()
        squared = start
        failed = False
        ratio = 0.0
        event = False
        for _ in range(ROUNDS):
            choose_context(rng, strategy, theta_star, centre, mean, covariance, norm_bound, size, x)
            bet = forecast_success(x, mean, covariance, norm_bound * size)
            truth = 1.0 / (1.0 + math.exp(-np.sum(x * theta_star)))
            outcome = rng.random() < truth
            ratio += math.log(bet / truth if outcome else (1.0 - bet) / (1.0 - truth))
            event = event or ratio >= log_level
            squared, failed, _ = step_set(
                x, outcome, norm_bound, centre, inverse, mean, covariance, squared, failed, step
            )
            if squared_distance(inverse, theta_star - centre) > max(squared + shift, 0.0):
                misses += 1
                contradictions += 0 if event else 1
                break
        events += event
    return misses, events, contradictions


def play_level(step_set, level, runs, d, norm_bound, size, strategy):
    """One cell of the pathwise test: the chain itself runs at this level."""
    seed = [d, int(10 * norm_bound), int(size), strategy, int(100 * level)]
    start = 2.0 * math.log(1.0 / level) + prior_precision(d, norm_bound) * norm_bound**2
    return np.array(
        play(
            step_set, np.random.default_rng(seed), runs, d, norm_bound, size, strategy, start,
            math.log(1.0 / level), 0.0,
        )
    )  # fmt: skip


def set_step_with_margin(margin):
    """set_step of a copy of the module whose curvatures are multiplied by `margin`."""
    source = Path(likelihood.__file__).read_text()
    for old, new in (
        ("CURVATURE_MARGIN = 1.0 - 1e-9\n", f"CURVATURE_MARGIN = {margin!r}\n"),
        (
            "from headway.compiled import compiled\n",
            "import numba\n\ncompiled = numba.njit(error_model='numpy')\n",
        ),
    ):
        assert source.count(old) == 1
        source = source.replace(old, new)
    module = types.ModuleType("altered_likelihood")
    exec(compile(source, "altered_likelihood", "exec"), module.__dict__)
    return module.set_step


# Forecast and curvature.


def test_forecast_equals_the_clipped_mixture_and_its_two_outcomes_sum_to_one():
    rng = np.random.default_rng(1)
    with mpmath.workdps(DIGITS):
        for case in range(600):
            mean = rng.standard_normal() * (1.0, 10.0, 100.0)[case % 3]
            deviation = abs(rng.standard_normal()) * rng.choice([0.0, 0.1, 3.0, 50.0])
            reach = float(rng.choice([0.1, 2.3, 20.0, 36.0, 36.1, 100.0, 2400.0]))
            both = []
            for outcome in (True, False):
                sign = 1 if outcome else -1
                logits = sign * np.clip(mean + deviation * NODES, -reach, reach)
                chances = [exact_mu(mpmath.mpf(float(z))) for z in logits]
                wanted = mpmath.log(mpmath.fdot(WEIGHTS.tolist(), chances))
                found = log_forecast(mean, deviation, reach, outcome)
                assert abs(found - wanted) <= 1e-13 * max(1, abs(wanted))
                both.append(found)
            assert abs(math.exp(both[0]) + math.exp(both[1]) - 1.0) <= 1e-14


def test_forecast_is_finite_at_any_reach():
    for reach in (36.0, 37.0, 2400.0, 1e6):
        for mean in (-2.0 * reach, -reach, 0.0, reach, 2.0 * reach):
            for deviation in (0.0, 1.0, reach):
                for outcome in (True, False):
                    found = log_forecast(mean, deviation, reach, outcome)
                    assert -reach - 1e-9 <= found <= 1e-14
    assert log_forecast(2400.0, 0.0, 2400.0, False) == pytest.approx(-2400.0, rel=1e-14)


def test_chord_curvature_is_never_overstated_and_hardly_understated():
    rng = np.random.default_rng(2)
    count = 4000
    z = rng.uniform(-40.0, 40.0, count)
    z[::4] = rng.standard_normal(count // 4)
    u = rng.choice([-1.0, 1.0], count) * 10.0 ** rng.uniform(-6.0, math.log10(900.0), count)
    u[::5] = -z[::5] * (1.0 + 0.01 * rng.standard_normal(count // 5))  # z + u near 0
    u[1::5] = -2.0 * z[1::5] * (1.0 + 0.01 * rng.standard_normal(count // 5))
    edges = [0.99e-3, 1e-3, 1.01e-3, 1.0, 30.0, 40.0, 699.9, 700.1, 900.0]
    grid = [(a, s * b) for a in (-40, -20, -1, 0, 1, 20, 40) for b in edges for s in (-1, 1)]
    points = [*zip(z, u, strict=True), *grid]
    with mpmath.workdps(DIGITS):
        for a, b in points:
            ratio = chord_curvature(float(a), float(b)) / exact_chord(a, b) - 1
            assert ratio <= 1e-11, (a, b)
            assert ratio >= (-1e-11 if abs(b) >= 1e-3 else -1.1e-3), (a, b)


def test_chord_curvature_of_no_step_is_half_the_slope():
    for z in (-30.0, -1.0, 0.0, 2.5, 40.0):
        assert chord_curvature(z, 0.0) == 0.5 * sigmoid_slope(z)


def test_minorant_curvature_gives_a_minorant_and_almost_the_best_one():
    rng = np.random.default_rng(3)
    for case in range(200):
        z = rng.standard_normal() * (1.0, 5.0, 25.0)[case % 3]
        low, high = np.sort(z * (case % 2) + rng.standard_normal(2) * rng.choice([0.1, 3.0, 30.0]))
        c = minorant_curvature(z, low, high)
        with mpmath.workdps(DIGITS):
            best = min(exact_chord(z, low - z), exact_chord(z, high - z))
            assert c >= best * (0.9989 if min(abs(low - z), abs(high - z)) < 1e-3 else 1 - 2e-9)
            point = mpmath.mpf(float(z))
            for each in np.linspace(low, high, 21):
                u = mpmath.mpf(float(each)) - point
                tangent = exact_softplus(point) + exact_mu(point) * u
                assert exact_softplus(point + u) >= tangent + c * u**2, (z, low, high)


def test_filtered_logit_solves_its_equation_at_any_variance():
    rng = np.random.default_rng(4)
    for _ in range(3000):
        mean = rng.uniform(-60.0, 60.0)
        variance = 10.0 ** rng.uniform(-6.0, 5.0)
        for outcome in (True, False):
            z = filtered_logit(mean, variance, outcome)
            pull = special.expit(-z) if outcome else -special.expit(z)
            slope = 1.0 + variance * sigmoid_slope(z)
            error = abs(z - mean - variance * pull) / slope
            assert error <= 1e-10 * (1.0 + abs(z)), (mean, variance, outcome, z)


# Radii.


@pytest.mark.parametrize(
    ("servers", "failure_prob"), [(1, 0.05), (5, 4e-8), (20, 1e-13), (3, 0.999)]
)
def test_radii_are_the_formulas(servers, failure_prob):
    level = min(1e-12, failure_prob / servers)
    first = initial_squared_radius(4, servers, failure_prob, 2.3)
    assert first == pytest.approx(2.0 * math.log(1.0 / level) + 4.0, rel=1e-14)
    fresh = math.sqrt(2.0 * math.log(servers / failure_prob) + 4.0)
    assert queried_radius(first, servers, failure_prob) == pytest.approx(fresh, rel=1e-13)
    shift = 2.0 * math.log(level * servers / failure_prob)
    assert shift <= 1e-15
    wanted = math.sqrt(max(30.0 + shift, 0.0))
    assert queried_radius(30.0, servers, failure_prob) == pytest.approx(wanted, rel=1e-13)
    assert queried_radius(-1.0, servers, failure_prob) == 0.0
    assert prior_precision(4, 2.0) == 1.0


# The recursion.


@pytest.mark.parametrize(
    ("d", "norm_bound", "size"),
    [(1, 2.3, 1.0), (1, 20.0, 1.0), (2, 8.0, 1.0), (5, 2.3, 1.0), (5, 1.0, 3.0), (3, 2.0, 30.0)],
)
def test_recursion_equals_the_uncentred_sums_of_the_theorem(d, norm_bound, size):
    rng = np.random.default_rng([d, int(norm_bound)])
    theta_star = np.full(d, norm_bound / math.sqrt(d))
    plain = UncentredSet(d, norm_bound, 1e-12)
    state = CentredState(d, norm_bound, initial_squared_radius(d, 1, 0.05, norm_bound))
    for n in range(300):
        x = rng.standard_normal(d)
        x *= size / np.linalg.norm(x) * (1.0 if n % 3 else rng.random())
        outcome = bool(rng.random() < special.expit(x @ theta_star))
        state.learn(x, outcome)
        plain.learn(x, float(outcome))
        inverse = np.linalg.inv(plain.matrix)
        assert np.abs(state.centre - plain.centre).max() <= 1e-8
        assert np.abs(state.inverse - inverse).max() <= 1e-8 * np.abs(inverse).max()
        assert abs(state.squared_radius - plain.squared_radius) <= 1e-8 * plain.squared_radius
        assert np.abs(state.mean - plain.mean).max() <= 1e-8
    assert not state.failed
    assert plain.squared_radius > 0.0


def test_a_zero_context_is_skipped_exactly():
    state = CentredState(3, 2.0, initial_squared_radius(3, 2, 0.05, 2.0))
    state.learn(np.array([0.5, -0.2, 0.1]), True)
    arrays = (state.centre, state.inverse, state.mean, state.covariance)
    before = [each.copy() for each in arrays]
    squared = state.squared_radius
    for outcome in (True, False):
        assert state.learn(np.zeros(3), outcome) == 0.0
        assert not np.any(state.step)
    assert state.squared_radius == squared
    assert not state.failed
    assert all(np.array_equal(a, b) for a, b in zip(arrays, before, strict=True))


@pytest.mark.parametrize("d", [2, 5])
def test_a_failed_event_latches_and_then_the_set_shrinks_no_more(d):
    rng = np.random.default_rng(d)
    theta_star = np.zeros(d)
    theta_star[0] = 30.0
    state = CentredState(d, 0.5, initial_squared_radius(d, 1, 0.05, 0.5))
    for _ in range(20_000):
        x = rng.standard_normal(d)
        x /= np.linalg.norm(x)
        state.learn(x, bool(rng.random() < special.expit(x @ theta_star)))
        if state.failed:
            break
    assert state.failed
    inverse = state.inverse.copy()
    for _ in range(200):
        x = rng.standard_normal(d)
        assert state.learn(x, bool(rng.random() < 0.5)) == 0.0
        assert state.failed
    assert np.array_equal(state.inverse, inverse)
    assert np.all(np.isfinite(state.centre))


def test_a_negative_squared_radius_fails_the_event_at_once():
    state = CentredState(2, 2.0, -1e-9)
    assert state.learn(np.array([1.0, 0.0]), True) == 0.0
    assert state.failed


# The theorem, path by path.


@pytest.mark.parametrize("d", [1, 2, 5])
@pytest.mark.parametrize(("norm_bound", "size"), [(2.3, 1.0), (8.0, 1.0), (1.0, 3.0)])
def test_theta_star_leaves_the_set_only_after_the_likelihood_event(d, norm_bound, size):
    total = np.zeros(3, np.int64)
    for strategy in range(len(STRATEGIES)):
        for level in (0.5, 0.2, 0.9):
            found = play_level(set_step, level, 40, d, norm_bound, size, strategy)
            assert found[2] == 0, (STRATEGIES[strategy], level)
            total += found
    misses, events, _ = total
    assert 0 < misses <= events


@pytest.mark.parametrize(("margin", "sound"), [(1.0, True), (1.3, False)])
def test_the_pathwise_test_sees_an_overstated_curvature(margin, sound):
    altered = set_step_with_margin(margin)
    contradictions = [
        sum(
            play_level(altered, 0.2, 150, d, norm_bound, size, strategy)[2]
            for strategy in range(len(STRATEGIES))
        )
        for d, norm_bound, size in ((1, 2.3, 1.0), (5, 1.0, 3.0))
    ]
    assert all((each == 0) == sound for each in contradictions), contradictions


@pytest.mark.parametrize("strategy", range(len(STRATEGIES)), ids=STRATEGIES)
def test_coverage_of_a_query_above_the_level_of_the_chain(strategy):
    d, norm_bound, failure_prob, runs = 5, 2.3, 0.05, 200
    start = initial_squared_radius(d, 1, failure_prob, norm_bound)
    misses, _, contradictions = play(
        set_step, np.random.default_rng(strategy), runs, d, norm_bound, 1.0, strategy, start,
        math.log(1.0 / failure_prob), queried_radius(start, 1, failure_prob) ** 2 - start,
    )  # fmt: skip
    assert misses <= stats.binom.ppf(0.999, runs, failure_prob)
    assert contradictions == 0
