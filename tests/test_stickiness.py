"""Proves what repeats teach about stickiness: the discount F and its posterior."""

import hashlib
import math
import os
import subprocess
import sys
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import integrate, special

from headway.kernel import stickiness
from headway.kernel.stickiness import (
    DEPTH,
    EXPECTED,
    GRID,
    HARD,
    PLACES,
    POINTS,
    REPEATS,
    STICKY,
    SUCCESSES,
    begin,
    begin_servers,
    conditional_logit,
    discount,
    exact_discount,
    exact_discounts,
    keep_of,
    learn_repeat,
    learn_server_repeat,
    place_of,
)
from headway.state import from_bytes, to_bytes

REPRODUCIBLE = settings(derandomize=True, deadline=None, database=None, max_examples=200)
SOME = [
    (0, 1),
    (1, 1),
    (0, 3),
    (2, 3),
    (3, 3),
    (2, 5),
    (7, 7),
    (0, 8),
    (8, 8),
    (3, 40),
    (900, 1000),
]


class Belief(NamedTuple):
    """The state of one run: rows are servers, or one row is all of them."""

    likelihood: Any
    weights: Any
    table: Any
    evidence: Any


def new(fresh_prior=0.9, servers=0):
    """The prior: one row, or with `servers` a row for each."""
    rows = max(servers, 1)
    belief = Belief(
        np.zeros((servers, POINTS)), np.zeros((rows, POINTS)), np.zeros((rows, PLACES)),
        np.zeros((rows, 3)),
    )  # fmt: skip
    if servers:
        begin_servers(fresh_prior, belief.likelihood, belief.weights, belief.table)
    else:
        begin(fresh_prior, belief.weights[0], belief.table[0])
    return belief


def teach(belief, outcomes, *, keep=1.0, fresh_prior=0.9):
    """Learn (chance, m, n, success) one by one with one row."""
    for chance, m, n, success in outcomes:
        learn_repeat(
            m, n, chance, bool(success), keep, fresh_prior, belief.weights[0], belief.table[0],
            belief.evidence[0],
        )  # fmt: skip
    return belief


def f(belief, m, n, row=0):
    return discount(m, n, belief.weights[row], belief.table[row])


def of_s(weights):
    return weights.reshape(6, 6).sum(axis=1)


def of_r(weights):
    return weights.reshape(6, 6).sum(axis=0)


def prior(fresh_prior):
    one = np.array([fresh_prior] + [(1.0 - fresh_prior) / 5.0] * 5)
    return np.outer(one, one).ravel()


def posterior(outcomes, *, keep=1.0, fresh_prior=0.9):
    """The weights by the definition: evidence in logarithms, log-sum-exp at the end."""
    log_evidence = np.zeros(POINTS)
    for chance, m, n, success in outcomes:
        h = 1.0 / (1.0 + STICKY * m + HARD * n)
        log_evidence = keep * log_evidence + (np.log(h) if success else np.log1p(-chance * h))
    return special.softmax(np.log(prior(fresh_prior)) + log_evidence)


def random_outcomes(seed, count):
    rng = np.random.default_rng(seed)
    n = rng.integers(1, 12, count)
    chance = rng.uniform(0.01, 0.99, count)
    return [
        (float(c), int(rng.integers(0, b + 1)), int(b), bool(rng.random() < c))
        for c, b in zip(chance, n, strict=True)
    ]


def sticky_outcomes(rng, jobs, s, r=0.0, servers=1):
    """(chance, m, n, success, server) of jobs tried on random servers up to nine times, where
    P(success) = chance / (1 + s m + r n); s may differ by server.
    """
    s = np.broadcast_to(s, servers)
    for _ in range(jobs):
        m = np.zeros(servers, int)
        for n in range(9):
            k = rng.integers(servers)
            chance = rng.uniform(0.4, 0.95)
            success = rng.random() < chance / (1.0 + s[k] * m[k] + r * n)
            yield chance, int(m[k]), n, success, int(k)
            if success:
                break
            m[k] += 1


# The published numbers.


def test_discounts_of_the_prior():
    belief = new()
    for (m, n), wanted in {
        (1, 1): 0.8928919856054,
        (0, 1): 0.9448209754596,
        (3, 3): 0.8699031705160,
        (2, 5): 0.8689197292795,
    }.items():
        assert f(belief, m, n) == pytest.approx(wanted, abs=1e-13)


def test_discounts_after_four_repeats():
    outcomes = [(0.8, 1, 1, False), (0.7, 0, 1, True), (0.8, 2, 2, False), (0.6, 1, 3, False)]
    belief = teach(new(), outcomes)
    assert f(belief, 1, 1) == pytest.approx(0.3587235195487, abs=1e-13)
    assert f(belief, 0, 1) == pytest.approx(0.9227762870545, abs=1e-13)
    assert f(belief, 2, 5) == pytest.approx(0.2929951087575, abs=1e-13)
    assert of_s(belief.weights[0])[0] == pytest.approx(0.3156053722535, abs=1e-13)
    assert of_r(belief.weights[0])[0] == pytest.approx(0.8443381803405, abs=1e-13)
    assert belief.evidence[0, REPEATS] == 4
    assert belief.evidence[0, SUCCESSES] == 1
    assert belief.evidence[0, EXPECTED] == pytest.approx(2.9)


# F.


def test_the_grid_is_zero_and_five_geometric_points():
    assert pytest.approx([0.0, *np.geomspace(0.05, 50.0, 5)], rel=1e-15) == GRID


@pytest.mark.parametrize("c", [0.1, 1.0, 5.0])
def test_one_point_is_the_mean_of_a_beta_rate_after_failures(c):
    """E[q | m failures] / E[q] for q ~ Beta(pc, (1-p)c), by quadrature, is 1/(1 + m/c)."""
    p = 0.7
    for m in (1, 2, 9):
        # By parts of the Beta function's own integral, in logit form: no singular ends.
        def moment(power, m=m):
            def integrand(z):
                q = special.expit(z)
                return q ** (p * c + power) * special.expit(-z) ** ((1 - p) * c + m)

            return integrate.quad(integrand, -300, 300, points=[-20, 0, 20], limit=500)[0]

        ratio = moment(1) / moment(0) / p
        assert ratio == pytest.approx(1.0 / (1.0 + m / c), rel=1e-7)
        weights = np.zeros(POINTS)
        weights[6] = 1.0  # s = 0.05, r = 0
        assert exact_discount(m, m, weights) == pytest.approx(1.0 / (1.0 + 0.05 * m))


@REPRODUCIBLE
@given(seed=st.integers(0, 2**32 - 1), count=st.sampled_from([0, 1, 5, 300]))
def test_f_is_the_sum_over_the_posterior_in_the_table_and_beyond(seed, count):
    belief = teach(new(), random_outcomes(seed, count))
    weights = belief.weights[0]
    pairs = SOME + [(m, n) for n in range(1, DEPTH + 3) for m in range(n + 1)]
    for m, n in pairs:
        wanted = math.fsum(weights / (1.0 + STICKY * m + HARD * n))
        assert f(belief, m, n) == pytest.approx(wanted, rel=1e-13)
        assert exact_discount(m, n, weights) == pytest.approx(wanted, rel=1e-13)
    m, n = np.array(pairs, float).T
    out = np.empty(len(pairs))
    exact_discounts(np.ascontiguousarray(m), np.ascontiguousarray(n), weights, out)
    assert out == pytest.approx([exact_discount(*pair, weights) for pair in pairs], rel=1e-13)


@REPRODUCIBLE
@given(seed=st.integers(0, 2**32 - 1))
def test_f_is_one_at_first_and_falls_with_every_failure(seed):
    belief = teach(new(), random_outcomes(seed, seed % 50))
    assert f(belief, 0, 0) == 1.0 == belief.table[0, 0]
    for n in range(12):
        for m in range(n + 1):
            here = f(belief, m, n)
            assert 0.0 < f(belief, m, n + 1) <= here + 1e-15
            assert f(belief, m + 1, n + 1) <= f(belief, m, n + 1) + 1e-15
            assert belief.table[0, place_of(m, n)] >= here - 1e-15  # beyond the table: a bound


# The posterior.


@REPRODUCIBLE
@given(
    seed=st.integers(0, 2**32 - 1),
    fresh_prior=st.sampled_from([0.5, 0.9, 0.97]),
    half_life=st.sampled_from([math.nan, math.inf, 3.0, 1000.0]),
)
def test_the_posterior_is_prior_times_likelihood(seed, fresh_prior, half_life):
    outcomes = random_outcomes(seed, 60)
    keep = keep_of(half_life)
    assert keep == (2.0 ** (-1.0 / half_life) if half_life < math.inf else 1.0)
    belief = teach(new(fresh_prior), outcomes, keep=keep, fresh_prior=fresh_prior)
    wanted = posterior(outcomes, keep=keep, fresh_prior=fresh_prior)
    assert belief.weights[0] == pytest.approx(wanted, rel=1e-10)
    assert f(belief, 1, 1) == pytest.approx(np.sum(wanted / (1.0 + STICKY + HARD)), rel=1e-12)


def test_a_long_history_keeps_its_digits():
    outcomes = random_outcomes(5, 20_000)
    wanted = posterior(outcomes)
    found = teach(new(), outcomes).weights[0]
    kept = wanted > 1e-12
    assert found[kept] == pytest.approx(wanted[kept], rel=1e-9)
    assert found.sum() == pytest.approx(1.0, abs=1e-14)


def test_first_attempts_teach_no_stickiness():
    belief = teach(new(), [(0.8, 0, 0, False), (0.3, 0, 0, True), (0.5, 0, -1, False)])
    assert to_bytes(belief) == to_bytes(new())


def test_the_order_of_repeats_does_not_matter_unless_evidence_fades():
    outcomes = random_outcomes(7, 100)
    forward, back = teach(new(), outcomes), teach(new(), outcomes[::-1])
    assert forward.weights == pytest.approx(back.weights, rel=1e-11)
    assert forward.table == pytest.approx(back.table, rel=1e-12)
    assert np.array_equal(forward.evidence[:, :EXPECTED], back.evidence[:, :EXPECTED])
    keep = keep_of(10.0)
    forward, back = teach(new(), outcomes, keep=keep), teach(new(), outcomes[::-1], keep=keep)
    assert f(forward, 1, 1) != pytest.approx(f(back, 1, 1), rel=1e-3)


def test_faded_evidence_returns_to_the_prior():
    belief = teach(new(), [(0.9, 1, 1, False)] * 40)
    assert f(belief, 1, 1) < 0.05
    teach(belief, [(0.0, 1, 1, False)] * 400, keep=keep_of(5.0))  # outcomes that tell nothing
    assert belief.weights[0] == pytest.approx(prior(0.9), rel=1e-12)


@pytest.mark.parametrize("point", [2, 3, 4, 5])
def test_the_posterior_finds_the_stickiness_of_sticky_coins(point):
    """Rates drawn once for each pair from Beta(pc, (1-p)c), c = 1/s: no formula of ours inside."""
    rng = np.random.default_rng(100 + point)
    c = 1.0 / GRID[point]
    belief = new()
    for _ in range(4000):
        chance = rng.uniform(0.4, 0.9)
        rate = rng.beta(chance * c, (1.0 - chance) * c)
        for m in range(6):
            success = rng.random() < rate
            teach(belief, [(chance, m, m, success)])
            if success:
                break
            n_elsewhere = rng.random() < 0.5  # one attempt on a server of its own rate
            if n_elsewhere:
                other = rng.random() < rng.beta(chance * c, (1.0 - chance) * c)
                teach(belief, [(chance, 0, m + 1, other)])
                break
    assert of_s(belief.weights[0])[point] > 0.9
    assert of_r(belief.weights[0])[0] > 0.9
    assert f(belief, 1, 1) == pytest.approx(1.0 / (1.0 + GRID[point]), rel=0.05)
    assert f(belief, 0, 1) > 0.99


@pytest.mark.parametrize("point", [1, 2, 3])
def test_the_posterior_finds_the_hardness_of_jobs(point):
    rng = np.random.default_rng(200 + point)
    repeats = sticky_outcomes(rng, 6000, 0.0, GRID[point], servers=4)
    belief = teach(new(), [each[:4] for each in repeats])
    assert of_r(belief.weights[0])[point] > 0.9
    assert of_s(belief.weights[0])[0] > 0.9


@pytest.mark.parametrize("fresh_prior", [0.9, 0.97])
@pytest.mark.parametrize("seed", range(5))
def test_fresh_coins_stay_fresh(seed, fresh_prior):
    rng = np.random.default_rng(seed)
    outcomes = [each[:4] for each in sticky_outcomes(rng, 3000, 0.0, servers=3)]
    belief = teach(new(fresh_prior), outcomes, fresh_prior=fresh_prior)
    assert of_s(belief.weights[0])[0] > 0.9
    assert of_r(belief.weights[0])[0] > 0.9
    assert min(f(belief, 1, 1), f(belief, 0, 1)) > 0.99
    assert belief.evidence[0, SUCCESSES] == pytest.approx(belief.evidence[0, EXPECTED], rel=0.1)


# An s for each server.


def teach_servers(belief, outcomes, keep=1.0):
    for chance, m, n, success, k in outcomes:
        learn_server_repeat(k, m, n, chance, bool(success), keep, 0.9, *belief)
    return belief


def pooled(likelihood, weights):
    """The posteriors of all servers by the definition."""
    servers = len(likelihood)
    marginals = [of_s(each) for each in weights]
    one = prior(0.9).reshape(6, 6).sum(axis=1)
    priors = [(one + sum(marginals) - mine) / servers for mine in marginals]
    e_r = [p @ each.reshape(6, 6) for p, each in zip(priors, likelihood, strict=True)]
    for k in range(servers):
        others = np.prod([e_r[j] for j in range(servers) if j != k], axis=0)
        joint = priors[k][:, None] * one * others * likelihood[k].reshape(6, 6)
        yield (joint / joint.sum()).ravel()


def test_one_server_of_its_own_is_the_common_form():
    outcomes = random_outcomes(3, 80)
    own = teach_servers(new(servers=1), [(*each, 0) for each in outcomes])
    common = teach(new(), outcomes)
    assert own.weights == pytest.approx(common.weights, rel=1e-10)
    assert own.table == pytest.approx(common.table, rel=1e-12)
    assert np.array_equal(own.evidence, common.evidence)
    fading = teach_servers(new(servers=1), [(*each, 0) for each in outcomes], keep_of(20.0))
    wanted = posterior(outcomes, keep=keep_of(20.0))
    assert fading.weights[0] == pytest.approx(wanted, rel=1e-10)


def test_servers_share_r_and_borrow_s():
    belief = new(servers=3)
    rng = np.random.default_rng(1)
    for outcome in sticky_outcomes(rng, 60, np.array([50.0, 0.0, 0.0]), servers=3):
        before = belief.weights.copy()
        teach_servers(belief, [outcome])
        if outcome[2] > 0:
            wanted = np.array(list(pooled(belief.likelihood, before)))
            assert belief.weights == pytest.approx(wanted, rel=1e-9)
    outcomes = sticky_outcomes(rng, 2000, np.array([50.0, 0.0, 0.0]), servers=3)
    teach_servers(belief, outcomes)
    assert f(belief, 1, 1, 0) < 0.1
    assert min(f(belief, 1, 1, 1), f(belief, 1, 1, 2)) > 0.98


# Any input, any machine.


@pytest.mark.parametrize("chance", [0.0, 0.5, 1.0, math.nan, math.inf, -math.inf, -3.0, 7.0])
@pytest.mark.parametrize("success", [True, False])
@pytest.mark.parametrize("keep", [1.0, 0.5])
def test_no_input_spoils_the_state(chance, success, keep):
    huge = 2**62
    numbers = [(0, 1), (1, 1), (huge, huge), (0, huge), (5, 2), (-3, 4), (9, 9)]
    for m, n in numbers:
        own = new(servers=2)
        common = teach(new(), [(chance, m, n, success)] * 300, keep=keep)
        teach_servers(own, [(chance, m, n, success, k % 2) for k in range(300)], keep)
        for belief in (common, own):
            for array in belief:
                assert np.all(np.isfinite(array))
            assert np.all(belief.weights > 0.0)
            assert belief.weights.sum(axis=1) == pytest.approx(1.0, abs=1e-12)
            for pair in numbers:
                assert 0.0 < f(belief, *pair) <= 1.0


def test_a_failure_of_a_sure_thing_rules_nothing_out_for_ever():
    belief = teach(new(), [(1.0, 1, 1, False)])
    assert 1e-12 < belief.weights[0, 0] < 1e-10
    teach(belief, [(0.9, 1, 1, True)] * 40)
    assert f(belief, 1, 1) > 0.9


def test_a_point_that_was_ruled_out_can_come_back():
    belief = teach(new(), [(1.0, 1, 1, False)] * 5000)
    assert of_s(belief.weights[0])[5] > 0.9
    teach(belief, [(0.9, 1, 1, True)] * 1000)
    assert f(belief, 1, 1) > 0.99


def test_a_saved_state_goes_on_to_the_same_bits():
    for servers in (0, 3):
        outcomes = [(*each, i % 3) for i, each in enumerate(random_outcomes(8, 120))]

        def go(belief, part, servers=servers):
            if servers:
                return teach_servers(belief, part, 0.99)
            return teach(belief, [each[:4] for each in part], keep=0.99)

        whole = go(new(servers=servers), outcomes)
        half = from_bytes(Belief, to_bytes(go(new(servers=servers), outcomes[:50])))
        assert to_bytes(go(half, outcomes[50:])) == to_bytes(whole)
        again = np.zeros_like(whole.table)
        for row in range(len(again)):
            stickiness.tabulate(whole.weights[row], again[row])
        assert np.array_equal(again, whole.table)  # the table is nothing but the weights


CODE = """
import sys
sys.path.insert(0, sys.argv[1])
from test_stickiness import digest
print(digest())
"""


def digest():
    """A hash of everything that the kernel computes on one history."""
    outcomes = [(*each, i % 3) for i, each in enumerate(random_outcomes(21, 60))]
    states = [
        teach(new(), [each[:4] for each in outcomes]),
        teach(new(0.97), [each[:4] for each in outcomes], keep=0.9, fresh_prior=0.97),
        teach_servers(new(servers=3), outcomes, 0.95),
    ]
    theta = [
        conditional_logit(mean, variance, share)
        for mean in (-3.0, 0.4, 8.0) for variance in (0.1, 30.0) for share in (0.02, 0.6, 0.9999)
    ]  # fmt: skip
    far = [exact_discount(m, n, states[0].weights[0]) for m, n in SOME]
    content = b"".join(map(to_bytes, states)) + np.array([*theta, *far]).tobytes()
    return hashlib.sha256(content).hexdigest()


def test_interpreted_equals_compiled():
    found = subprocess.run(
        [sys.executable, "-W", "error", "-c", CODE, str(Path(__file__).parent)],
        env={**os.environ, "NUMBA_DISABLE_JIT": "1"},
        capture_output=True,
        text=True,
        check=False,
    )
    assert found.returncode == 0, found.stderr
    assert found.stdout.strip() == digest()
