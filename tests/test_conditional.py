"""Proves what theta learns from repeats: through the conditional likelihood, without bias."""

import math

import mpmath
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import special
from test_stickiness import REPRODUCIBLE, f, new, teach

from headway.kernel.laplace import filter_step
from headway.kernel.stickiness import (
    GRID,
    conditional_logit,
    conditional_step,
    failure_slope,
    mean_chance,
    set_may_learn,
)


@pytest.mark.parametrize(
    ("share", "success", "logit", "slope", "scale"),
    [
        (0.4, False, 0.245972261134, 0.127013869433, 0.0501457928616),
        (0.4, True, 1.02723933371, -0.263619666853, 0.139833980344),
        (1.0, False, -0.334360198756, 0.417180099378, 0.163590024327),
        (0.05, False, 0.475610062429, 0.0121949687854, 0.0046309092004),
    ],
)
def test_theta_of_one_repeat(share, success, logit, slope, scale):
    mean, covariance, push = np.array([0.5]), np.array([[2.0]]), np.array([2.0])
    found = conditional_step(np.ones(1), success, share, mean, covariance, push)
    assert found == pytest.approx((logit, scale), abs=6e-12)
    assert mean[0] == pytest.approx(0.5 - 2.0 * slope, abs=2e-12)
    assert covariance[0, 0] == pytest.approx(2.0 - 4.0 * scale, abs=1e-11)


def test_a_first_attempt_and_a_success_teach_theta_as_ever():
    rng = np.random.default_rng(4)
    root = rng.standard_normal((3, 3))
    x, mean, covariance = rng.standard_normal(3), rng.standard_normal(3), root @ root.T
    for share, success in ((1.0, False), (1.0, True), (0.3, True), (1e-9, True)):
        ours, plain = (mean.copy(), covariance.copy()), (mean.copy(), covariance.copy())
        found = conditional_step(x, success, share, *ours, covariance @ x)
        assert found == filter_step(x, success, *plain, covariance @ x)
        assert np.array_equal(ours[0], plain[0])
        assert np.array_equal(ours[1], plain[1])


def loss_slope(z, mean, variance, share):
    """(z - mean)/v + g'(z), as the requirement writes it."""
    return (z - mean) / variance + special.expit(z) - special.expit(z + np.log1p(-share))


@pytest.mark.parametrize("share", [1e-6, 0.3, 0.9, 1.0 - 1e-9])
def test_slope_curvature_and_information_of_a_failure(share):
    for z in (-30.0, -2.0, 0.0, 0.7, 5.0, 12.0):
        with mpmath.workdps(50):
            p = 1 / (1 + mpmath.exp(-mpmath.mpf(z)))
            found = failure_slope(z, share)
            loss = lambda y: -mpmath.log(1 - share / (1 + mpmath.exp(-y)))  # noqa: E731
            fisher = share * p * (1 - p) ** 2 / (1 - share * p)
            for value, wanted in zip(
                found, (mpmath.diff(loss, z), mpmath.diff(loss, z, 2), fisher), strict=True
            ):
                assert value == pytest.approx(float(wanted), rel=1e-6, abs=1e-15)


@REPRODUCIBLE
@given(
    mean=st.floats(-60.0, 60.0),
    variance=st.floats(1e-6, 400.0),
    share=st.one_of(st.floats(1e-9, 1.0 - 1e-9), st.sampled_from([1e-300, 1.0 - 2.0**-53])),
)
def test_the_conditional_logit_is_a_mode(mean, variance, share):
    z = conditional_logit(mean, variance, share)
    assert mean - variance <= z <= mean
    assert abs(variance * loss_slope(z, mean, variance, share)) <= 1e-9 * (1.0 + abs(mean))
    h = 1e-3 * min(1.0, variance)  # a minimum: the loss falls before it and rises after
    assert loss_slope(z - h, mean, variance, share) <= 1e-9
    assert loss_slope(z + h, mean, variance, share) >= -1e-9


def test_a_failure_teaches_less_the_more_it_was_expected():
    shares = [1e-12, 0.05, 0.2, 0.5, 0.9, 0.999, 1.0 - 1e-12]
    found = [0.5 - conditional_logit(0.5, 2.0, share) for share in shares]
    assert found[0] == pytest.approx(0.0, abs=1e-11)
    assert np.all(np.diff(found) > 0.0)
    assert found[-1] == pytest.approx(0.5 + 0.334360198756, abs=1e-9)


def test_theta_from_sticky_repeats_is_not_biased():
    """Three tries at s = 8.9: plain learning takes p = 0.7 for much less."""
    rng = np.random.default_rng(9)
    c, p = 1.0 / GRID[4], 0.7
    errors = {}
    for plain in (False, True):
        mean, covariance, belief = np.zeros(1), np.eye(1), new()
        x = np.ones(1)
        for _ in range(3000):
            rate = rng.beta(p * c, (1.0 - p) * c)
            for m in range(3):
                success = bool(rng.random() < rate)
                share = f(belief, m, m)
                chance = mean_chance(mean[0], covariance[0, 0])
                conditional_step(x, success, 1.0 if plain else share, mean, covariance,
                                 covariance[:, 0].copy())  # fmt: skip
                if not plain:
                    teach(belief, [(chance, m, m, success)])
                if success:
                    break
        errors[plain] = special.expit(mean[0]) - p
    assert abs(errors[False]) < 0.03
    assert errors[True] < -0.1


def test_the_mean_chance_is_the_expectation_of_the_sigmoid():
    nodes, weights = np.polynomial.hermite_e.hermegauss(60)
    for mean in (-6.0, -1.0, 0.0, 0.5, 4.0):
        for variance in (0.0, 0.3, 2.0, 10.0):
            wanted = weights @ special.expit(mean + math.sqrt(variance) * nodes) / weights.sum()
            assert mean_chance(mean, variance) == pytest.approx(wanted, abs=0.02)
            scaled = special.expit(mean / math.sqrt(1.0 + math.pi / 8.0 * variance))
            assert mean_chance(mean, variance) == pytest.approx(scaled, rel=1e-14)
    assert mean_chance(1.0, -1e-18) == special.expit(1.0)


def test_the_gate_of_a_guaranteed_set():
    assert set_may_learn(0, 0.1)  # a first attempt, whatever F says
    assert set_may_learn(3, 0.98)
    assert not set_may_learn(1, np.nextafter(0.98, 0.0))
