"""Proves the best pair under the discount: the plain rule, in any storage order, at any length."""

import hashlib
import math
import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import special
from test_stickiness import REPRODUCIBLE, new, random_outcomes, teach, teach_servers

from headway.kernel.discounting import (
    SHORT,
    best_discounted_pair,
    best_discounted_pair_long,
    discounted_column,
)
from headway.kernel.optimism import TIE, best_pair
from headway.kernel.stickiness import DEPTH, HARD, PLACES, POINTS, STICKY, tabulate

EDGES = [SHORT - 1, SHORT, SHORT + 1, SHORT + 9]


class Waiting:
    """A queue's columns with room for more rows than it has jobs; the rest is rubbish."""

    def __init__(self, logit, attempts, *, arrival=None, free=None, belief=None, penalty=0.0):
        self.jobs, servers = logit.shape
        self.spread = np.asfortranarray(np.full((self.jobs + 7, servers), np.inf))
        self.mean = self.spread.copy(order="F")
        self.attempts = np.zeros((self.jobs + 7, servers), np.int64)
        self.arrival = np.zeros(self.jobs + 7, np.int64)
        self.spread[: self.jobs] = np.abs(logit)  # radius 1/2: half of each logit comes from here
        self.mean[: self.jobs] = logit - 0.5 * np.abs(logit)
        self.attempts[: self.jobs] = attempts
        self.arrival[: self.jobs] = np.arange(self.jobs) if arrival is None else arrival
        self.free = np.ones(servers, np.bool_) if free is None else free
        self.radius = np.full(servers, 0.5)
        self.belief = belief or new()
        self.penalty = penalty

    def permuted(self, order):
        rows = np.asarray(order)
        logit = self.mean[rows] + 0.5 * self.spread[rows]
        return Waiting(
            logit, self.attempts[rows], arrival=self.arrival[rows], free=self.free,
            belief=self.belief, penalty=self.penalty,
        )  # fmt: skip

    def scores(self):
        """The definition: mu(z) F(m, n) - penalty m, F by enumeration."""
        m = self.attempts[: self.jobs]
        n = m.sum(axis=1, keepdims=True)
        p = special.expit(self.mean[: self.jobs] + self.radius * self.spread[: self.jobs])
        weights = np.broadcast_to(self.belief.weights, (m.shape[1], POINTS))
        f = np.empty(m.shape)
        for k in range(m.shape[1]):
            h = 1.0 / (1.0 + np.multiply.outer(m[:, k], STICKY) + np.multiply.outer(n[:, 0], HARD))
            f[:, k] = np.where(n[:, 0] == 0, 1.0, h @ weights[k])
        return p * f - self.penalty * m

    def expected(self):
        """(arrival number, server) by the rule: equal within 1e-10, first arrival, first server."""
        score = np.where(self.free, self.scores(), -np.inf)
        rows, servers = np.nonzero(score >= score.max() - TIE)
        return min((int(self.arrival[j]), int(k)) for j, k in zip(rows, servers, strict=True))

    def choice(self, search=best_discounted_pair):
        """(arrival number, server) as found."""
        job, server = search(
            self.mean, self.spread, self.arrival, self.attempts, self.attempts.sum(axis=1),
            self.jobs, self.free, self.radius, self.penalty, self.belief.weights, self.belief.table,
        )  # fmt: skip
        return (int(self.arrival[job]), int(server)) if job >= 0 else (-1, -1)


def beliefs(seed, servers, kind):
    """A prior, a learned posterior, or one for each server."""
    outcomes = random_outcomes(seed, seed % 70)
    if kind == "servers":
        told = [(*each, i % servers) for i, each in enumerate(outcomes)]
        return teach_servers(new(servers=servers), told)
    return teach(new(), outcomes if kind == "learned" else [])


def random_attempts(rng, jobs, servers, share, deepest):
    """Failed attempts of a share of the jobs, from one to `deepest` of them."""
    attempts = np.zeros((jobs, servers), np.int64)
    for j in np.flatnonzero(rng.random(jobs) < share):
        count = rng.integers(1, deepest + 1)
        attempts[j] = rng.multinomial(count, np.ones(servers) / servers)
    return attempts


@st.composite
def queues(draw):
    """Few distinct contexts and counts, rounding noise, busy servers, every kind of memory."""
    rng = np.random.default_rng(draw(st.integers(0, 2**32 - 1)))
    jobs = draw(st.sampled_from([1, 2, 5, 20, *EDGES, 200]))
    servers = draw(st.integers(1, 5))
    distinct = draw(st.sampled_from([1, 2, 5, 60]))
    kind = rng.integers(0, distinct, jobs)
    centre, width = draw(st.sampled_from([(0.0, 3.0), (2.0, 0.3), (25.0, 20.0), (-25.0, 9.0)]))
    logit = rng.uniform(centre - width, centre + width, (distinct, servers))[kind]
    share = draw(st.sampled_from([0.0, 0.1, 0.5, 1.0]))
    deepest = draw(st.sampled_from([1, DEPTH, 40]))
    attempts = random_attempts(rng, distinct, servers, share, deepest)[kind]
    logit = logit + draw(st.sampled_from([0.0, 1e-14])) * rng.uniform(-1.0, 1.0, logit.shape)
    free = rng.random(servers) < 0.7
    free[rng.integers(servers)] = True
    memory = draw(st.sampled_from(["prior", "learned", "servers"]))
    return Waiting(
        logit, attempts, arrival=rng.choice(10 * jobs, jobs, replace=False), free=free,
        belief=beliefs(int(rng.integers(10_000)), servers, memory),
        penalty=draw(st.sampled_from([0.0, 0.0, 0.3])),
    )  # fmt: skip


@REPRODUCIBLE
@given(queue=queues(), data=st.data())
def test_the_pair_is_the_rule_in_any_storage_order_and_by_either_way(queue, data):
    expected = queue.expected()
    assert queue.choice() == expected
    assert queue.choice(best_discounted_pair_long) == expected
    seed = data.draw(st.integers(0, 2**32 - 1))
    order = np.random.default_rng(seed).permutation(queue.jobs)
    assert queue.permuted(order).choice() == expected
    assert queue.permuted(order).choice(best_discounted_pair_long) == expected


@pytest.mark.parametrize("jobs", [2, 5, *EDGES])
@pytest.mark.parametrize("failed", ["nobody", "everybody", "the winner", "the first"])
@pytest.mark.parametrize("depth", [1, DEPTH + 3])
def test_ties_reach_as_far_as_the_tolerance_on_probability(jobs, failed, depth):
    """A lead by a hair's breadth of p F: 0.9 of the tolerance loses to an older job, 1.1 wins."""
    for row in {0, 1, jobs // 2, jobs - 2}:
        attempts = np.zeros((jobs, 3), np.int64)
        rows = {"nobody": [], "everybody": range(jobs), "the winner": [row], "the first": [-1]}
        attempts[rows[failed], 0] = depth
        f = Waiting(np.zeros((jobs, 3)), attempts).scores()[:, 1:] * 2.0
        for gap in (0.0, 0.9 * TIE, 1.1 * TIE):
            p = np.full((jobs, 2), 0.2) / f  # equal scores of 0.2 by different p
            p[row, 1] = (0.2 + gap) / f[row, 1]
            logit = np.column_stack([np.full(jobs, 9.0), special.logit(p)])
            queue = Waiting(
                logit, attempts, arrival=np.arange(jobs, 0, -1), free=np.array([False, True, True])
            )
            wanted = (jobs - row, 2) if gap > TIE else (1, 1)
            assert queue.choice() == wanted
            assert queue.choice(best_discounted_pair_long) == wanted


@pytest.mark.parametrize("jobs", [3, *EDGES])
def test_a_failed_pair_waits_for_the_others(jobs):
    """Stickiness is sure: the job goes on elsewhere, and only then comes back."""
    belief = teach(new(), [(0.8, 1, 1, False), (0.8, 0, 1, True)] * 30)
    logit = np.tile([1.0, 0.5, 0.0], (jobs, 1))
    logit[:, :2] -= 20.0 * (np.arange(jobs) != 1)[:, None]
    attempts = np.zeros((jobs, 3), np.int64)
    seen = []
    for _ in range(3):
        number, server = Waiting(logit, attempts, belief=belief).choice()
        seen.append((number, server))
        attempts[number, server] += 1
    assert seen == [(1, 0), (1, 1), (0, 2)]


def test_without_failures_it_is_the_pair_of_the_logit():
    rng = np.random.default_rng(3)
    for jobs in (1, 4, 40, *EDGES, 300):
        queue = Waiting(rng.uniform(-3.0, 3.0, (jobs, 4)), np.zeros((jobs, 4), np.int64))
        job, server = best_pair(
            queue.mean, queue.spread, queue.arrival, jobs, queue.free, queue.radius, True
        )
        assert queue.choice() == (queue.arrival[job], server)


def test_a_penalty_is_taken_for_each_failure_here_and_f_is_one():
    weights, table = np.zeros((1, POINTS)), np.zeros((1, PLACES))
    weights[0, 0] = 1.0
    tabulate(weights[0], table[0])
    belief = new()._replace(weights=weights, table=table)
    logit = special.logit(np.array([[0.9, 0.5], [0.8, 0.1]]))
    for attempts, wanted in (
        ([[0, 0], [0, 0]], (0, 0)),
        ([[1, 0], [0, 0]], (1, 0)),
        ([[1, 0], [1, 0]], (0, 0)),
        ([[2, 9], [1, 0]], (1, 0)),
        ([[9, 9], [9, 9]], (0, 0)),  # below 0 the best is still the best
    ):
        queue = Waiting(logit, np.array(attempts), belief=belief, penalty=0.3)
        assert queue.choice() == wanted == queue.choice(best_discounted_pair_long)


@pytest.mark.parametrize("jobs", [2, SHORT + 20])
@pytest.mark.parametrize("depth", [1, DEPTH + 3])
def test_each_server_has_its_own_stickiness(jobs, depth):
    """Everybody failed everywhere alike: the fresh server gets the job, the sticky one waits."""
    for sticky in (0, 1):
        belief = new(servers=2)
        told = [(0.8, 1, 1, k != sticky, k) for k in (0, 1) for _ in range(30)]
        teach_servers(belief, told)
        attempts = np.full((jobs, 2), depth)
        assert Waiting(np.ones((jobs, 2)), attempts, belief=belief).choice() == (0, 1 - sticky)


@pytest.mark.parametrize("jobs", [3, SHORT + 20])
def test_busy_servers_are_not_chosen_and_their_columns_do_not_matter(jobs):
    rng = np.random.default_rng(jobs)
    attempts = random_attempts(rng, jobs, 3, 0.5, 12)
    free = np.array([True, False, True])
    queue = Waiting(rng.standard_normal((jobs, 3)), attempts, free=free)
    expected = queue.choice()
    for rubbish in (1e300, -1e300, math.inf, math.nan):
        queue.mean[:, 1] = rubbish
        assert queue.choice() == expected


@pytest.mark.parametrize("jobs", [0, 3, SHORT + 20])
def test_without_a_job_or_a_free_server_there_is_no_pair(jobs):
    for share in (0.0, 1.0):
        attempts = np.full((jobs, 2), int(share))
        busy = np.array([jobs == 0, False])
        assert Waiting(np.zeros((jobs, 2)), attempts, free=busy).choice() == (-1, -1)


@pytest.mark.parametrize("jobs", [4, SHORT + 20])
@pytest.mark.parametrize("share", [0.0, 0.5, 1.0])
def test_logits_of_any_size_have_a_best_pair(jobs, share):
    rng = np.random.default_rng(1)
    for size in (0.0, 50.0, 800.0, 1e300, math.inf):
        for sign in (1.0, -1.0):
            queue = Waiting(np.zeros((jobs, 2)), random_attempts(rng, jobs, 2, share, 2000))
            queue.mean[:jobs] = sign * size
            assert queue.choice() == queue.expected()


@REPRODUCIBLE
@given(queue=queues())
def test_a_column_of_scores_is_the_definition(queue):
    failures = queue.attempts.sum(axis=1)
    wanted = queue.scores()
    for k in range(len(queue.free)):
        row = k if len(queue.belief.weights) > 1 else 0
        score = np.empty(queue.jobs)
        discounted_column(
            queue.mean[:, k], queue.spread[:, k], queue.radius[k], queue.attempts[:, k], failures,
            queue.penalty, queue.belief.weights[row], queue.belief.table[row], score,
        )  # fmt: skip
        assert score == pytest.approx(wanted[:, k], abs=1e-12)


CODE = """
import sys
sys.path.insert(0, sys.argv[1])
from test_discounting import digest
print(digest())
"""


def digest():
    """A hash of choices and scores on queues of every kind."""
    rng = np.random.default_rng(77)
    found = []
    for jobs in (1, 6, 30, SHORT + 5):
        for share in (0.0, 0.2, 1.0):
            attempts = random_attempts(rng, jobs, 3, share, 12)
            logit = np.round(rng.standard_normal((jobs, 3)), 1)
            found.append(Waiting(logit, attempts, belief=beliefs(61, 3, "servers")).choice())
    score = np.empty(20)
    queue = Waiting(rng.standard_normal((20, 2)), random_attempts(rng, 20, 2, 0.5, 12))
    discounted_column(
        queue.mean[:, 0], queue.spread[:, 0], 0.5, queue.attempts[:, 0],
        queue.attempts.sum(axis=1), 0.1, queue.belief.weights[0], queue.belief.table[0], score,
    )  # fmt: skip
    return hashlib.sha256(np.array(found).tobytes() + score.tobytes()).hexdigest()


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
