"""Proves that the best pair, its tie rule and the uniform choices ignore the order of storage."""

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from headway.kernel.exploration import count_free, next_free, uniform_free, uniform_job
from headway.kernel.optimism import SHORT_ON_LOGIT, SHORT_ON_PROBABILITY, TIE, best_pair
from headway.rng import JOB, make_key, uniform

REPRODUCIBLE = settings(derandomize=True, deadline=None, database=None, max_examples=300)
# Sizes on both sides of where the search changes its way.
EDGES = [short + more for short in (SHORT_ON_LOGIT, SHORT_ON_PROBABILITY) for more in (-1, 0, 1, 5)]
LAST_DRAW = 1.0 - 2.0**-53  # the largest draw below 1


class Scored:
    """A queue's cached columns with room for more rows than it has jobs; the rest is rubbish."""

    def __init__(self, mean, spread, arrival, free, radius):
        self.jobs, servers = mean.shape
        capacity = self.jobs + 7
        self.mean = np.full((capacity, servers), np.inf, order="F")
        self.spread = np.full((capacity, servers), np.inf, order="F")
        self.arrival = np.zeros(capacity, np.int64)
        self.mean[: self.jobs] = mean
        self.spread[: self.jobs] = spread
        self.arrival[: self.jobs] = arrival
        self.free = free
        self.radius = radius

    def permuted(self, order):
        rows = np.asarray(order)
        return Scored(
            self.mean[rows], self.spread[rows], self.arrival[rows], self.free, self.radius
        )

    def choice(self, on_logit):
        """(arrival number, server) of best_pair."""
        job, server = best_pair(
            self.mean, self.spread, self.arrival, self.jobs, self.free, self.radius, on_logit
        )
        assert 0 <= job < self.jobs
        return int(self.arrival[job]), int(server)

    def expected(self, on_logit):
        """(arrival number, server) by the rule: equal within 1e-10, first arrival, first server."""
        mean = self.mean[: self.jobs]
        score = mean if on_logit else 1.0 / (1.0 + np.exp(-mean))
        score = score + self.radius * self.spread[: self.jobs]
        score = np.where(self.free, score, -np.inf)
        rows, servers = np.nonzero(score >= score.max() - 1e-10)
        return min(
            (int(self.arrival[row]), int(server)) for row, server in zip(rows, servers, strict=True)
        )


@st.composite
def queues(draw):
    """Queues of 1 to 60 jobs, with few distinct contexts and rounding noise, some servers busy."""
    rng = np.random.default_rng(draw(st.integers(0, 2**32 - 1)))
    jobs = draw(st.integers(1, 60))
    servers = draw(st.integers(1, 6))
    distinct = draw(st.sampled_from([1, 2, 5, 60]))
    kind = rng.integers(0, distinct, jobs)
    mean = rng.uniform(-4.0, 4.0, (distinct, servers))[kind]
    spread = rng.uniform(0.0, 2.0, (distinct, servers))[kind]
    if draw(st.booleans()):  # servers alike: ties across servers
        mean = np.repeat(mean[:, :1], servers, axis=1)
        spread = np.repeat(spread[:, :1], servers, axis=1)
    # Noise well inside or well outside the tolerance.
    mean = mean + draw(st.sampled_from([0.0, 1e-13, 1e-7])) * rng.uniform(-1.0, 1.0, mean.shape)
    arrival = rng.choice(10 * jobs, jobs, replace=False)
    free = rng.random(servers) < 0.6
    free[rng.integers(servers)] = True
    one_radius = draw(st.booleans())
    radius = np.full(servers, 1.5) if one_radius else rng.uniform(0.0, 3.0, servers)
    return Scored(mean, spread, arrival, free, radius)


@REPRODUCIBLE
@given(queue=queues(), on_logit=st.booleans(), data=st.data())
def test_best_pair_is_the_rule_in_any_storage_order(queue, on_logit, data):
    expected = queue.expected(on_logit)
    assert queue.choice(on_logit) == expected
    assert queue.free[expected[1]]
    order = data.draw(st.permutations(range(queue.jobs)))
    assert queue.permuted(order).choice(on_logit) == expected
    assert queue.permuted(range(queue.jobs)[::-1]).choice(on_logit) == expected


@pytest.mark.parametrize("jobs", [2, *EDGES, 60])
@pytest.mark.parametrize("on_logit", [True, False])
def test_ties_reach_as_far_as_the_tolerance(jobs, on_logit):
    flat = np.zeros((jobs, 3))
    arrival = np.arange(jobs, 0, -1)  # the last row came first
    radius = np.ones(3)
    free = np.array([False, True, True])
    for gap, wins in ((0.0, False), (0.9 * TIE, False), (1.1 * TIE, True)):
        for row in {0, 1, jobs // 2, jobs - 2}:
            spread = flat.copy()
            spread[row, 2] = gap
            queue = Scored(flat, spread, arrival, free, radius)
            assert queue.choice(on_logit) == ((int(arrival[row]), 2) if wins else (1, 1))


@pytest.mark.parametrize("jobs", [1, *EDGES, 59])
def test_the_best_job_is_found_in_every_row_and_column(jobs):
    for row in range(jobs):
        for server in range(4):
            mean = np.zeros((jobs, 4))
            mean[row, server] = 1.0
            queue = Scored(mean, 0.0 * mean, np.arange(jobs), np.ones(4, np.bool_), np.ones(4))
            for on_logit in (True, False):
                assert queue.choice(on_logit) == (row, server)


@pytest.mark.parametrize("jobs", [3, 40])
def test_busy_servers_are_not_chosen_and_their_columns_do_not_matter(jobs):
    rng = np.random.default_rng(jobs)
    mean = rng.standard_normal((jobs, 3))
    spread = np.ones((jobs, 3))
    free = np.array([True, False, True])
    queue = Scored(mean, spread, np.arange(jobs), free, np.ones(3))
    expected = queue.choice(True)
    for rubbish in (1e300, -1e300, math.inf, math.nan):
        queue.mean[:, 1] = rubbish
        assert queue.choice(True) == expected


@pytest.mark.parametrize("jobs", [0, 3, 40])
def test_without_a_job_or_a_free_server_there_is_no_pair(jobs):
    mean = np.zeros((50, 2), order="F")
    arrival = np.arange(50)
    busy = np.array([jobs == 0, False])
    for on_logit in (True, False):
        assert best_pair(mean, mean, arrival, jobs, busy, np.ones(2), on_logit) == (-1, -1)


def test_the_two_scales_differ_where_the_paper_and_the_logit_differ():
    mean = np.array([[4.0, 2.0]])
    spread = np.array([[0.0, 1.0]])
    both = np.ones(2, np.bool_)
    assert Scored(mean, spread, np.zeros(1), both, np.ones(2)).choice(True) == (0, 0)
    assert Scored(mean, spread, np.zeros(1), both, np.ones(2)).choice(False) == (0, 1)


# Choosing without knowing.


@REPRODUCIBLE
@given(
    numbers=st.lists(st.integers(0, 2**50), min_size=1, max_size=60, unique=True),
    draw=st.floats(0.0, LAST_DRAW),
    data=st.data(),
)
def test_uniform_job_picks_a_rank_by_arrival_in_any_storage_order(numbers, draw, data):
    length = len(numbers)
    wanted = sorted(numbers)[min(int(draw * length), length - 1)]
    for stored in (numbers, data.draw(st.permutations(numbers))):
        arrival = np.array([*stored, -5, 2**60, 0], np.int64)  # rows beyond the length are old
        assert arrival[uniform_job(arrival, length, draw)] == wanted


@pytest.mark.parametrize("length", [1, 2, 7, 24, 60])
def test_uniform_job_is_uniform(length):
    arrival = np.random.default_rng(length).permutation(1000)[:length]
    picked = [uniform_job(arrival, length, (i + 0.5) / (100 * length)) for i in range(100 * length)]
    assert np.array_equal(np.bincount(picked, minlength=length), np.full(length, 100))
    assert arrival[uniform_job(arrival, length, 0.0)] == arrival.min()
    assert arrival[uniform_job(arrival, length, LAST_DRAW)] == arrival.max()
    draws = [uniform(make_key(length), JOB, i, 0) for i in range(1000 * length)]
    counts = np.bincount([uniform_job(arrival, length, u) for u in draws], minlength=length)
    chi = np.sum((counts - 1000.0) ** 2) / 1000.0
    assert abs(chi - (length - 1)) <= 4.0 * math.sqrt(2.0 * (length - 1))


@REPRODUCIBLE
@given(flags=st.lists(st.booleans(), min_size=1, max_size=12), draw=st.floats(0.0, LAST_DRAW))
def test_free_servers_are_counted_and_drawn(flags, draw):
    free = np.array(flags)
    places = np.flatnonzero(free)
    assert count_free(free) == len(places)
    found = uniform_free(free, draw)
    if len(places) == 0:
        assert found == -1
    else:
        assert found == places[min(int(draw * len(places)), len(places) - 1)]


@pytest.mark.parametrize("flags", [[1], [0, 1, 1, 0, 1], [1] * 6, [0, 0, 0, 1]])
def test_uniform_free_is_uniform_over_the_free_servers(flags):
    free = np.array(flags, np.bool_)
    total = int(free.sum())
    picked = [uniform_free(free, (i + 0.5) / (100 * total)) for i in range(100 * total)]
    assert np.array_equal(np.bincount(picked, minlength=len(flags)), 100 * free)


@REPRODUCIBLE
@given(flags=st.lists(st.booleans(), min_size=1, max_size=12), data=st.data())
def test_next_free_is_the_first_free_server_from_the_start_on(flags, data):
    start = data.draw(st.integers(0, len(flags) - 1))
    around = [*range(start, len(flags)), *range(start)]
    wanted = next((k for k in around if flags[k]), -1)
    assert next_free(np.array(flags), start) == wanted
