"""Policy-switching queues: the five states, the telescoping sum, and every figure against a plain
simulation of each switched run by itself.
"""

import dataclasses
import itertools
import math
import os
import subprocess
import sys

import numpy as np
import pytest
from hypothesis import HealthCheck, assume, event, given, settings
from hypothesis import strategies as st
from naive_switching import Naive

import headway
from headway.errors import HeadwayError
from headway.policies import POLICIES
from headway.sim.decomposition import (
    around,
    decompose,
    mistakes,
    parts,
    reach,
    visits,
    whole_bound,
)  # fmt: skip
from headway.sim.forks import LOST, NEITHER, NOBODY, OTHER, SAME
from headway.sim.switching import InternalError, switch_everywhere, switching_queues
from headway.state import LEARN_NOTHING

CASES = [
    (name, None if learner in LEARN_NOTHING else learner)
    for name, policy in POLICIES.items()
    for learner in policy.learners
]
KINDS = (
    "cube", "ball", "gaussian", "finite", "fixed", "rotating", "late-surprise", "adaptive",
)  # fmt: skip
# (C1) to (C5) of the refined lemma; S_2- is never entered, as the minus queue is the optimal one.
ALLOWED = {(0, 0), (1, 0), (1, 1), (2, 0), (2, 2), (3, 0), (3, 2), (3, 3)}
GIVEN = {
    "cqb-eps": {"burn_in_rounds": 10, "explore_prob": 0.3},
    "cqb-eta-2": {"burn_in_rounds": 10, "explore_prob": 0.3, "cutoff": 40},
}
THOROUGH = settings(max_examples=150, deadline=None, suppress_health_check=[HealthCheck.too_slow])


@st.composite
def scenarios(draw):
    """Small worlds of every kind, stable and not."""
    kind = draw(st.sampled_from(KINDS))
    shapes = [(2, 2), (3, 4), (2, 5)] + ([(1, 1)] if kind != "late-surprise" else [])
    servers, dimension = draw(st.sampled_from(shapes))
    return headway.Scenario(
        servers=servers,
        dimension=dimension,
        arrival_rate=draw(st.sampled_from((0.3, 0.6, 0.9, 1.0))),
        slack_by="none",
        contexts=kind,
        vectors=draw(st.integers(1, 4)),
        rotate_every=7,
        surprise_round=20 if kind == "late-surprise" else None,
        arrivals=draw(st.sampled_from(("bernoulli", "bursty", "periodic"))),
        period=9,
    )


@st.composite
def tapes(draw):
    """Small whole numbers everywhere: jobs of equal rates and different contexts."""
    rounds = draw(st.integers(1, 40))
    servers, dimension = draw(st.sampled_from([(1, 1), (2, 2)]))
    rng = np.random.default_rng(draw(st.integers(0, 2**32)))
    return headway.Tape(
        theta_star=rng.integers(-2, 3, (servers, dimension)),
        contexts=rng.integers(-1, 2, (rounds, dimension)),
        arrivals=rng.random(rounds) < draw(st.sampled_from((0.4, 0.7, 1.0))),
        service=rng.choice([0.0, 0.3, 0.5, 0.7, 0.9, 1.0], rounds),
        arrival_rate=0.5,
        slack=0.1,
    )


def switched(world, case, *, rounds, seed=0, replicas=1):
    policy, learner = case
    return switching_queues(
        policy, world, rounds=rounds, seed=seed, replicas=replicas, learner=learner, threads=1,
        **GIVEN.get(policy, {}),
    )  # fmt: skip


def begins(minus, plus, t):
    """The case of fork t from what left the queues in round t."""
    assert minus[t] == plus[t]
    lost, served = minus[t] - minus[t + 1], plus[t] - plus[t + 1]
    assert len(served) <= len(lost) <= 1, "D+ <= D-"
    if not minus[t]:
        return NOBODY
    if not lost:
        return NEITHER
    if not served:
        return LOST
    return SAME if lost == served else OTHER


def hold_to_naive(found, replica=0):
    """Every figure of every fork."""
    naive = Naive(found.run, replica)
    rounds = found.run.rounds
    runs = [naive.switched(t) for t in range(rounds + 1)]
    transitions = np.zeros((5, 5), np.int64)
    for t in range(1, rounds + 1):
        minus, plus = runs[t - 1], runs[t]
        states = [naive.state(plus[s], minus[s]) for s in range(t + 1, rounds + 2)]
        case, gap = begins(minus, plus, t), len(plus[-1]) - len(minus[-1])
        for before, after in itertools.pairwise(states):
            assert (before, after) in ALLOWED
            if before:
                transitions[before, after] += 1
        assert gap in ({0, 1} if case == LOST else {-1, 0})
        assert states[0] == {LOST: 1, OTHER: 3}.get(case, 0)
        event(f"case {case}, end {states[-1]}")
        here = (replica, t - 1)
        assert found.switch_gap(t)[replica] == gap
        assert found.case[here] == case
        assert found.end[here] == states[-1]
        assert found.life[here] == sum(state != 0 for state in states)
        assert found.forced[here] == naive.forced(minus[t], t)
        assert found.rate_gap[here] == pytest.approx(naive.rate_gap(minus[t], t), abs=1e-12)
        assert found.misaligned[here] == (runs[rounds][t] != runs[0][t])
    assert np.array_equal(found.transitions[replica], transitions)
    assert found.gap[replica].sum() == len(runs[rounds][-1]) - len(runs[0][-1])
    assert found.regret[replica] == found.gap[replica].sum()


@THOROUGH
@given(world=scenarios(), case=st.sampled_from(CASES), seed=st.integers(0, 1000))
def test_every_fork_is_what_separate_switched_runs_show(world, case, seed):
    assume(not (world.contexts == "gaussian" and case[0] not in ("random", "optimal", "q-ths")))
    hold_to_naive(switched(world, case, rounds=60, seed=seed))


@THOROUGH
@given(world=tapes(), case=st.sampled_from(CASES))
def test_jobs_of_equal_rates_are_served_first_in_first(world, case):
    hold_to_naive(switched(world, case, rounds=world.most_rounds))


@THOROUGH
@given(
    table=st.lists(
        st.lists(st.sampled_from((0.0, 0.3, 0.6, 1.0)), min_size=2, max_size=2),
        min_size=1, max_size=6,
    ),
    case=st.sampled_from(CASES), seed=st.integers(0, 1000),
)  # fmt: skip
def test_tables_of_rates_couple_as_well(table, case, seed):
    """Known outcomes (0 and 1) among them: a rate is fixed when the job arrives."""
    world = headway.Outcomes(contexts=np.eye(len(table), 6), success=table, arrival_rate=0.6)
    hold_to_naive(switched(world, case, rounds=50, seed=seed))


@THOROUGH
@given(
    seed=st.integers(0, 1000), case=st.sampled_from(CASES), rate=st.sampled_from((0.4, 0.7, 0.95))
)
def test_with_one_fixed_context_no_queue_holds_another_kind_of_job(seed, case, rate):
    """All jobs are alike: S_2 never occurs where they are served in the order in which they came.
    Where they are not (an explored newest job, a random one), two queues may hold other arrival
    numbers, but S_2 leads nowhere: no choice ever shortens the queue.
    """
    world = headway.Scenario(
        contexts="fixed", servers=3, dimension=2, arrival_rate=rate, slack_by="none"
    )
    found = switched(world, case, rounds=200, seed=seed)
    assert not found.transitions[:, 2].any()
    assert not found.transitions[:, :, 2].any()
    assert found.gap.min() >= 0
    if case[0] in ("cqb-opt", "q-ucb", "q-ths", "optimal"):
        assert not (found.case == OTHER).any()
        assert not found.transitions[:, 3:].any()
        assert not found.transitions[:, :, 3:].any()


# The coupling broken on purpose, in the plain simulation: the properties above are not empty.


def breaks(tail):
    """Does psi leave {-1, 0, 1} if the queues' tails are these functions of (naive, t1)?"""
    world = headway.Scenario(slack_by="none", servers=2, dimension=2, arrival_rate=0.6)
    for seed in range(20):
        naive = Naive(switched(world, ("random", None), rounds=60, seed=seed).run)
        for t in range(1, 61):
            plus, minus = naive.switched(t)[-1], tail(naive, t - 1)[-1]
            if abs(len(plus) - len(minus)) > 1:
                return True
    return False


def test_the_lemma_needs_one_coin_for_both_queues():
    assert not breaks(lambda naive, t1: naive.switched(t1))
    assert breaks(lambda naive, t1: naive.switched(t1, coin=lambda t: naive.coins[-t]))


def test_the_lemma_needs_one_coin_for_all_jobs_of_a_round():
    """As in worlds in which a job that failed fails again: they are refused."""

    def own_coins(naive, t1):
        queue = frozenset()
        states = [None, queue]
        rng = np.random.default_rng(0)
        coins = rng.random((naive.rounds + 1, len(naive.rate) + 1))
        for t in range(1, naive.rounds + 1):
            if t <= t1:
                queue = queue - ({naive.job[t - 1]} if naive.success[t - 1] == 1 else set())
            elif queue:
                queue = naive.serve(queue, t, coins[t, max(queue, key=naive.order)])
            queue = naive.arrive(queue, t)
            states.append(queue)
        return states

    assert breaks(own_coins)


# What is refused, and what is caught.


def test_switch_points_and_lengths_of_a_run():
    found = switched(headway.Scenario(), ("cqb-opt", "laplace"), rounds=400, replicas=3, seed=2)
    for replica in range(3):
        naive = Naive(found.run, replica)
        for t1 in (0, 1, 17, 399, 400):
            states = naive.switched(t1)
            for t2 in {t1 + 1, min(t1 + 30, 401), 401}:
                assert found.switched_length(t1, t2)[replica] == len(states[t2])
    for t in (1, 100, 400):
        ends = found.switched_length(t, 401) - found.switched_length(t - 1, 401)
        assert np.array_equal(found.switch_gap(t), ends)
    assert np.array_equal(found.switched_length(400, 401), found.run.queue_final)
    assert np.array_equal(found.switched_length(0, 401), found.optimal.queue_final)


@pytest.mark.parametrize(
    ("call", "text"),
    [
        (lambda found: found.switch_gap(0), "t 0 must be a whole number in 1..50"),
        (lambda found: found.switch_gap(2.5), "t 2.5 must be"),
        (lambda found: found.switched_length(3, 52), "t2 52 must be a whole number in 1..51"),
        (lambda found: found.switched_length(3, 3), "t1 3 must be a whole number in 0..2"),
    ],
)
def test_rounds_that_are_none_are_refused(call, text):
    found = switched(headway.Scenario(), ("random", None), rounds=50)
    with pytest.raises(HeadwayError, match=text):
        call(found)


def test_worlds_without_a_coupling_are_refused_with_the_reason():
    with pytest.raises(HeadwayError, match="success rates fixed at arrival and one coin a round"):
        switching_queues("random", object(), rounds=10)
    found = switched(headway.Scenario(), ("random", None), rounds=50)
    sticky = found.run.success.copy()
    t = int(np.flatnonzero(sticky[0] == 1)[-1])
    sticky[0, t] = 0
    run = dataclasses.replace(found.run, success=sticky)
    with pytest.raises(HeadwayError, match=f"round {t + 1} of replica 0: its outcome is not what"):
        switch_everywhere(run, found.optimal)


def test_a_run_that_breaks_a_lemma_is_never_reported():
    found = switched(headway.Scenario(), ("random", None), rounds=200)
    longer = dataclasses.replace(found.run, queue_final=found.run.queue_final + 1)
    with pytest.raises(InternalError, match="sum up to"):
        switch_everywhere(longer, found.optimal)
    with pytest.raises(InternalError, match="part in round"):
        switch_everywhere(found.run, found.run)  # its own run in place of `optimal`'s


def test_results_depend_on_neither_threads_nor_the_number_of_replicas():
    few = switched(headway.Scenario(), ("cqb-eps", "likelihood"), rounds=300, replicas=2)
    many = switching_queues(
        "cqb-eps", headway.Scenario(), rounds=300, replicas=5, threads=2, learner="likelihood",
        **GIVEN["cqb-eps"],
    )  # fmt: skip
    for name in ("gap", "life", "case", "end", "rate_gap", "forced", "misaligned"):
        assert np.array_equal(getattr(few, name), getattr(many, name)[:2])


def test_an_adaptive_world_says_what_its_bound_is_worth():
    world = headway.Scenario(contexts="adaptive")
    found = switched(world, ("cqb-opt", "laplace"), rounds=200)
    assert any("so here it is none" in text for text in found.remarks)
    assert not switched(headway.Scenario(), ("cqb-opt", None), rounds=20).remarks


def test_interpreted_switching_equals_the_compiled_one():
    code = (
        "import headway, numpy as np\n"
        "from headway.sim.switching import switching_queues\n"
        "world = headway.Scenario(slack_by='none')\n"
        "found = switching_queues('random', world, rounds=90, seed=4)\n"
        "print(*found.gap[0], *found.life[0], *found.forced[0])\n"
    )
    printed = subprocess.run(
        [sys.executable, "-W", "error", "-c", code], capture_output=True, text=True, check=True,
        env={**os.environ, "NUMBA_DISABLE_JIT": "1"},
    ).stdout  # fmt: skip
    found = switched(headway.Scenario(slack_by="none"), ("random", None), rounds=90, seed=4)
    expected = [*found.gap[0], *found.life[0], *found.forced[0]]
    assert np.array_equal(np.array(printed.split(), np.int64), expected)


# The decomposition.


@pytest.fixture(scope="module")
def saturated():
    """Regret made over a long stretch: a slow learner."""
    return switched(
        headway.Scenario(slack=0.05), ("cqb-opt", "paper"), rounds=600, replicas=30, seed=1
    )


def test_the_decomposition_is_what_it_says(saturated):
    found = decompose(saturated)
    for i in (0, 1, 5, 300, 599):
        column = saturated.forced[:, i]
        asked = column[column >= 0]
        m = math.sqrt(np.mean(saturated.rate_gap[:, i] ** 2))
        assert found.rate_gap[i] == pytest.approx(m, abs=1e-12)
        if asked.size:
            assert found.long_term[i] == pytest.approx(math.sqrt(asked.mean()), abs=1e-12)
            assert found.bound[i] == pytest.approx(m * math.sqrt(asked.mean()), abs=1e-12)
        else:
            assert math.isnan(found.long_term[i])
            assert found.bound[i] == 0.0
    assert found.long_term[-1] == 1.0  # what is lost in the last round is missing after it
    regret = saturated.regret.mean()
    assert found.gap.sum() == pytest.approx(regret)
    assert whole_bound(saturated).low > regret


def test_forcing_is_not_picking_the_disagreements_that_happened(saturated):
    """Where D+ = 0, D- = 1 came by itself, the forced one is that one."""
    own = saturated.case == LOST
    assert np.array_equal(saturated.gap[own], saturated.forced[own])
    assert own.sum() < (saturated.forced >= 0).sum() / 3


def test_parts_add_up(saturated):
    rows = parts(saturated)
    assert [row.first for row in rows] == list(range(1, 600, 60))
    assert rows[-1].last == 600
    assert sum(row.gap.mean for row in rows) == pytest.approx(saturated.regret.mean())
    assert sum(row.bound.mean for row in rows) == pytest.approx(whole_bound(saturated).mean)
    assert whole_bound(saturated).mean == pytest.approx(decompose(saturated).bound.sum())
    kinds = mistakes(saturated)
    assert sum(kind.gap.mean for kind in kinds) == pytest.approx(saturated.regret.mean())
    states = {each.state: each for each in visits(saturated)}
    assert states["S1+"].left - states["S1-"].left == saturated.regret.sum()
    assert states["S1+"].begun == round(kinds[0].made.mean * 30)
    for each in states.values():  # what comes in goes out or is there in the end
        assert each.begun + each.entered == sum(each.to.values()) + each.left
    assert states["S2-"].begun == states["S2-"].entered == 0
    last = reach(saturated, 0.5)
    assert abs(saturated.gap[:, -last:]).sum() >= abs(saturated.gap).sum() / 2
    assert abs(saturated.gap[:, 1 - last :]).sum() < abs(saturated.gap).sum() / 2
    assert len(parts(switched(headway.Scenario(), ("random", None), rounds=3))) == 3


def test_the_interval_of_the_bound_is_the_jackknife(saturated):
    whole = whole_bound(saturated)
    without = []
    for replica in range(saturated.run.replicas):
        kept = np.arange(saturated.run.replicas) != replica
        rest = dataclasses.replace(
            saturated,
            **{name: getattr(saturated, name)[kept]
               for name in ("gap", "rate_gap", "forced", "misaligned")},
        )  # fmt: skip
        without.append(decompose(rest).bound.sum())
    assert whole == pytest.approx(around(whole.mean, np.array(without)))
    single = switched(headway.Scenario(), ("random", None), rounds=50)
    assert math.isnan(whole_bound(single).se)
