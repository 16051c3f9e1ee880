"""Worlds whose attempts remember: neutral values are the paper bit for bit, marginal rates stay,
what optimal and clairvoyant know is right.
"""

import math

import numpy as np
import pytest
from scipy import integrate, special, stats

import headway
from headway.kernel.normal import NODES, WEIGHTS, normal_cdf, normal_quantile
from headway.rng import RATE, log_gamma, make_key
from headway.world.coins import (
    beta_rate,
    expected_sticky,
    expected_with_effect,
    pair_rate,
    sticky_coin,
    sticky_rate,
)

KEY = make_key(7, 3)


# The normal law.


def test_quantiles_and_probabilities_of_the_normal_law():
    for p in [1e-300, 1e-20, 1e-8, 0.01, 0.3, 0.5, 0.6, 0.99, 1.0 - 1e-12]:
        assert normal_quantile(p) == pytest.approx(special.ndtri(p), rel=2e-12, abs=1e-15)
    for z in np.linspace(-30.0, 8.0, 77):
        assert normal_cdf(z) == pytest.approx(special.ndtr(z), rel=1e-12)
    assert normal_quantile(0.0) == -math.inf
    assert normal_quantile(1.0) == math.inf
    assert WEIGHTS.sum() == pytest.approx(1.0)
    assert (WEIGHTS * NODES**4).sum() == pytest.approx(3.0)


@pytest.mark.parametrize("shape", [0.01, 0.3, 1.0, 4.5])
def test_log_gamma_draws_follow_their_law(shape):
    found = np.array([log_gamma(KEY, RATE, i, 0, shape) for i in range(4000)])
    below = special.gammainc(shape, np.exp(found))
    if shape < 0.1:  # far below the least number: by the law of its logarithm
        below = np.exp(shape * found - special.gammaln(shape + 1.0)).clip(0.0, 1.0)
    assert stats.kstest(below, "uniform").pvalue > 1e-3


@pytest.mark.parametrize(("rate", "concentration"), [(0.7, 20.0), (0.3, 1.0), (0.9, 0.1)])
def test_pair_rates_are_beta(rate, concentration):
    found = np.array([beta_rate(KEY, i, 0, rate, concentration) for i in range(6000)])
    error = math.sqrt(rate * (1.0 - rate) / (1.0 + concentration) / 6000)
    assert abs(found.mean() - rate) < 4.5 * error
    if concentration >= 1.0:
        law = stats.beta(rate * concentration, (1.0 - rate) * concentration)
        assert stats.kstest(found, law.cdf).pvalue > 1e-3
    assert ((found >= 0.0) & (found <= 1.0)).all()


def test_pair_rates_are_redrawn_together_until_one_is_solvable():
    rates = np.array([0.5, 0.4, 0.3])
    for number in range(300):
        drawn = [pair_rate(KEY, number, k, rates, 0.1, 0.2) for k in range(3)]
        assert max(drawn) >= 0.2
    without = [pair_rate(KEY, number, 0, rates, 0.1, 0.0) for number in range(300)]
    assert without == [beta_rate(KEY, number, 0, 0.5, 0.1) for number in range(300)]


# Sticky coins.


@pytest.mark.parametrize("stickiness", [0.0, 0.3, 0.9, 1.0])
def test_the_marginal_rate_stays_whatever_the_stickiness(stickiness):
    rng = np.random.default_rng(1)
    coins = np.array(
        [sticky_coin(KEY, number, 2, rng.random(), stickiness) for number in range(6000)]
    )
    assert stats.kstest(coins, "uniform").pvalue > 1e-3


@pytest.mark.parametrize("stickiness", [0.3, 0.9, 1.0])
def test_a_pairs_coins_repeat_as_its_rate_says(stickiness):
    rng = np.random.default_rng(2)
    for number in range(6):
        z = headway.rng.normal(KEY, 14, number, 1)
        rate = sticky_rate(z, 0.6, stickiness)
        coins = [sticky_coin(KEY, number, 1, rng.random(), stickiness) for _ in range(3000)]
        share = np.mean(np.array(coins) <= 0.6)
        assert abs(share - rate) < 4.5 * math.sqrt(rate * (1.0 - rate) / 3000) + 1e-9


@pytest.mark.parametrize("stickiness", [0.1, 0.5, 0.9])
@pytest.mark.parametrize("failures", [0, 1, 4])
def test_expected_chances_of_sticky_coins(stickiness, failures):
    def chance(z):
        return special.ndtr(
            (special.ndtri(0.7) - math.sqrt(stickiness) * z) / math.sqrt(1.0 - stickiness)
        )

    def weighted(z, power):
        return stats.norm.pdf(z) * (1.0 - chance(z)) ** failures * chance(z) ** power

    top = integrate.quad(lambda z: weighted(z, 1), -9, 9, epsabs=1e-12)[0]
    bottom = integrate.quad(lambda z: weighted(z, 0), -9, 9, epsabs=1e-12)[0]
    assert expected_sticky(0.7, failures, stickiness) == pytest.approx(top / bottom, abs=2e-3)


def test_expected_chances_with_a_jobs_own_effect():
    rates, attempts = np.array([0.3, 0.8]), np.array([2, 1])

    def share(e, power):
        p = special.expit(special.logit(rates) + 1.5 * e)
        return stats.norm.pdf(e) * (1.0 - p[0]) ** 2 * (1.0 - p[1]) * p[1] ** power

    top = integrate.quad(lambda e: share(e, 1), -9, 9)[0]
    bottom = integrate.quad(lambda e: share(e, 0), -9, 9)[0]
    assert expected_with_effect(rates, 1, attempts, 1.5) == pytest.approx(top / bottom, rel=1e-6)
    none = np.zeros(2, np.int64)
    plain = integrate.quad(
        lambda e: stats.norm.pdf(e) * special.expit(special.logit(0.3) + 1.5 * e), -9, 9
    )[0]
    assert expected_with_effect(rates, 0, none, 1.5) == pytest.approx(plain, rel=1e-6)


# Worlds.


@pytest.mark.parametrize("policy", ["optimal", "clairvoyant", "headway", "cqb-eps", "random"])
def test_neutral_values_are_the_papers_world_bit_for_bit(policy):
    one = headway.simulate(policy, headway.Scenario(), rounds=800, replicas=2, record=True)
    neutral = headway.Scenario(stickiness=0.0, pair_concentration=None, job_effect=0.0)
    other = headway.simulate(policy, neutral, rounds=800, replicas=2, record=True)
    for name in ("queue_length", "job", "server", "success"):
        assert np.array_equal(getattr(one, name), getattr(other, name))
    if policy == "clairvoyant":
        best = headway.simulate("optimal", headway.Scenario(), rounds=800, replicas=2)
        assert np.array_equal(one.queue_length, best.queue_length)


def outcomes_by_pair(run):
    found = {}
    for job, server, success in zip(run.job[0], run.server[0], run.success[0], strict=True):
        if job >= 0:
            found.setdefault((int(job), int(server)), []).append(int(success))
    return found


def test_with_stickiness_one_an_outcome_never_changes():
    world = headway.Scenario(stickiness=1.0)
    run = headway.simulate("random", world, rounds=4000, record=True)
    pairs = outcomes_by_pair(run)
    repeated = [each for each in pairs.values() if len(each) > 1]
    assert len(repeated) > 100
    assert all(len(set(each)) == 1 for each in repeated)
    fresh = headway.simulate("random", headway.Scenario(), rounds=4000, record=True)
    assert any(len(set(each)) > 1 for each in outcomes_by_pair(fresh).values())


@pytest.mark.parametrize(
    "given", [{"stickiness": 0.9}, {"pair_concentration": 1.0}, {"job_effect": 2.0}]
)
def test_who_knows_more_has_the_shorter_queue(given):
    world = headway.Scenario(**given)
    names = ["headway", "clairvoyant", "cqb-opt"]
    found = headway.compare(names, world, rounds=2500, replicas=12, every="final")
    mean = {name: row["queue_mean"].mean for name, row in found.rows.items()}
    assert mean["clairvoyant"] < mean["optimal"] < mean["headway"] < 0.5 * mean["cqb-opt"]


def test_first_attempts_have_the_models_rate():
    """Whatever remembers, a job's first attempt at random succeeds at the model's rate."""
    for given in ({"stickiness": 0.7}, {"pair_concentration": 2.0, "solvable": 0.0}):
        world = headway.Scenario(**given)
        run = headway.simulate("random", world, rounds=6000, record=True)
        plain = headway.Scenario().tape(rounds=6000)
        seen, success, expected = set(), [], []
        for job, server, won in zip(run.job[0], run.server[0], run.success[0], strict=True):
            if job >= 0 and job not in seen:
                seen.add(job)
                success.append(won)
                logit = plain.contexts[job] @ plain.theta_star[server]
                expected.append(special.expit(logit))
        expected = np.array(expected)
        error = math.sqrt((expected * (1.0 - expected)).sum()) / len(expected)
        assert abs(np.mean(success) - expected.mean()) < 4.5 * error


@pytest.mark.parametrize(
    ("given", "says"),
    [
        ({"stickiness": 1.5}, "stickiness 1.5 must be in [0, 1]"),
        ({"stickiness": float("nan")}, "stickiness nan"),
        ({"pair_concentration": -1.0}, "pair_concentration -1.0"),
        ({"job_effect": float("inf")}, "job_effect inf"),
        ({"solvable": 1.0}, "solvable 1.0"),
        ({"stickiness": 0.5, "job_effect": 1.0}, "give one at a time"),
    ],
)
def test_memories_that_make_no_sense_are_refused(given, says):
    with pytest.raises(headway.HeadwayError) as problem:
        headway.Scenario(**given)
    assert says in str(problem.value)


def test_a_world_that_remembers_has_no_tape():
    world = headway.Scenario(stickiness=0.5)
    with pytest.raises(headway.HeadwayError, match="one coin a round"):
        world.tape(rounds=10)
    with pytest.raises(headway.HeadwayError, match="one coin a round"):
        headway.simulate("random", world, rounds=10).tape()


# Tables.


def test_optimal_on_a_table_with_known_rates_takes_failures_as_final():
    """Two jobs' kinds: what is known says server 0, the table says server 1."""
    contexts = np.eye(2)
    success = np.array([[0.0, 1.0], [0.0, 1.0]])
    known = np.array([[0.9, 0.6], [0.9, 0.6]])
    world = headway.Outcomes(contexts=contexts, success=success, known=known, arrival_rate=0.3)
    run = headway.simulate("optimal", world, rounds=200, record=True)
    pairs = outcomes_by_pair(run)
    jobs = {job for job, _ in pairs}
    assert all(len(each) == 1 for each in pairs.values())  # never the same server again
    assert sum((job, 0) in pairs for job in jobs) == len(jobs)
    sees_all = headway.simulate("clairvoyant", world, rounds=200, record=True)
    assert set(sees_all.server[0][sees_all.job[0] >= 0]) == {1}
    assert sees_all.queue_mean[0] < run.queue_mean[0]


def test_known_rates_of_the_wrong_shape_are_refused():
    with pytest.raises(headway.HeadwayError, match="known has shape"):
        headway.Outcomes(contexts=np.eye(2), success=np.eye(2), known=np.ones((2, 3)))


def test_regret_by_switching_is_refused_where_attempts_remember():
    from headway.sim.switching import switching_queues

    contexts = np.eye(2)
    table = headway.Outcomes(contexts=contexts, success=contexts, known=contexts)
    for world in (headway.Scenario(stickiness=0.5), headway.Scenario(job_effect=1.0), table):
        with pytest.raises(headway.HeadwayError, match="void where attempts remember"):
            switching_queues("cqb-opt", world, rounds=10)
