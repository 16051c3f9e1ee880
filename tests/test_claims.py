"""Verdicts on made-up trajectories whose truth is known."""

import numpy as np
import pytest

from headway.experiments.claims import (
    FAILS,
    HOLDS,
    UNDECIDED,
    claims_of,
    comes_back,
    grows_linearly,
    judge,
    return_round,
    verdict_rows,
)
from headway.experiments.grid import Place
from headway.experiments.panels import Panel, Series
from headway.experiments.spec import load_experiment
from headway.sim.compare import Interval

ROUND = np.arange(0.0, 5001.0, 10.0)
REPLICAS = 20


def series(shape, noise=0.5, burn_in=0.0, seed=0):
    """A mean trajectory with noise over an optimal queue of one job."""
    rng = np.random.default_rng(seed)
    optimal = 1.0 + rng.normal(0.0, 0.3, (REPLICAS, ROUND.size))
    lengths = optimal + shape + rng.normal(0.0, noise, (REPLICAS, 1))
    names = ("queue_final", "wait_p50", "wait_p99", "acceptance", "redraws")
    measures = {name: np.ones(REPLICAS) for name in names}
    measures["queue_mean"] = lengths.mean(axis=1)
    measures["queue_final"] = lengths[:, -1]
    measures["burn_in"] = np.full(REPLICAS, burn_in)
    return Series(ROUND, lengths, optimal, measures)


def panel(name, given):
    return Panel(load_experiment(name), 5000, REPLICAS, given, (), "0")


def decline(height, until):
    return np.maximum(height * (1.0 - ROUND / until), 0.0)


def test_a_part_on_the_wrong_side_decides():
    yes, no, open_ = Interval(1, 0, 0.5, 1.5), Interval(-1, 0, -1.5, -0.5), Interval(0, 0, -1, 1)
    assert judge([yes, yes]) == HOLDS
    assert judge([yes, open_]) == UNDECIDED
    assert judge([open_, no, yes]) == FAILS


def test_the_round_of_return_is_the_last_time_above_one():
    found = return_round(series(decline(100.0, 1000.0), noise=0.0))
    assert 1000 <= found <= 1110  # the moving average looks back over 100 rounds
    assert return_round(series(0.0 * ROUND, noise=0.0)) == 0.0
    assert return_round(series(0.0 * ROUND + 5.0)) == float("inf")
    late = decline(50.0, 500.0) + np.where((ROUND > 3000) & (ROUND < 3500), 9.0, 0.0)
    assert 3490 <= return_round(series(late, noise=0.0)) <= 3610


@pytest.mark.parametrize(
    ("shape", "verdict"),
    [(0.14 * ROUND, HOLDS), (ROUND**2 / 1e5, FAILS), (8.0 * np.sqrt(ROUND), FAILS),
     (0.0 * ROUND, FAILS)],
)  # fmt: skip
def test_linear_growth(shape, verdict):
    given = {Place("literal", "", None, "random"): series(shape, noise=3.0)}
    (claim,) = grows_linearly(panel("baselines", given))
    assert claim.verdict == verdict


@pytest.mark.parametrize(
    ("shape", "noise", "verdict"),
    [(decline(80.0, 900.0), 0.5, HOLDS), (0.02 * ROUND, 0.5, FAILS),
     (decline(80.0, 900.0) + 1.0, 2.0, UNDECIDED)],
)  # fmt: skip
def test_coming_back(shape, noise, verdict):
    given = {
        Place("literal", "", None, policy): series(shape, noise)
        for policy in ("cqb-eps", "cqb-opt")
    }
    claims = list(comes_back(panel("baselines", given)))
    assert [claim.verdict for claim in claims] == [verdict, verdict]


def slack_panel(ends, burn_ins, shapes=None):
    given = {}
    for variant in ("natural logarithm", "base ten"):
        for i, value in enumerate((0.05, 0.1, 0.15)):
            shape = shapes[i] if shapes else decline(100.0, ends[i])
            for policy in ("cqb-eps", "optimal"):
                given[Place("literal", variant, value, policy)] = series(
                    shape, 0.2, burn_ins[i], seed=i
                )
    return panel("slack-cqb-eps", given)


def verdicts(found):
    return {(claim.id, claim.variant): claim.verdict for claim in claims_of(found)}


def test_sooner_with_slack_both_ways():
    falling = slack_panel((4000.0, 2000.0, 1000.0), (900.0, 500.0, 200.0))
    assert verdicts(falling)["cqb-eps-sooner-with-slack", "base ten"] == HOLDS
    rising = slack_panel((1000.0, 2000.0, 4000.0), (900.0, 500.0, 200.0))
    assert verdicts(rising)["cqb-eps-sooner-with-slack", "base ten"] == FAILS
    never = slack_panel((1e9, 1e9, 1e9), (900.0, 500.0, 200.0))
    assert verdicts(never)["cqb-eps-sooner-with-slack", "base ten"] == UNDECIDED


def test_burn_in_then_fall():
    key = "cqb-eps-burn-in-then-fall", "base ten"

    def peak(at):
        return np.where(at > ROUND, ROUND * 0.05, np.maximum(at * 0.05 - (ROUND - at) * 0.1, 0.0))

    peaks = [peak(at) for at in (2000.0, 800.0, 400.0)]
    assert verdicts(slack_panel(None, (2000.0, 800.0, 400.0), peaks))[key] == HOLDS
    assert verdicts(slack_panel(None, (400.0, 800.0, 2000.0), peaks))[key] == FAILS
    growing = [0.05 * ROUND] * 3
    assert verdicts(slack_panel(None, (2000.0, 800.0, 400.0), growing))[key] == FAILS
    assert (
        verdicts(slack_panel(None, (4800.0, 800.0, 400.0), [peak(4800.0), *peaks[1:]]))[key]
        == UNDECIDED
    )  # no room to see the first fall


@pytest.mark.parametrize(
    ("heights", "verdict"),
    [((3.0, 5.0, 7.0, 9.0), HOLDS), ((9.0, 5.0, 7.0, 9.0), FAILS), ((3.0, 3.0, 7.0, 9.0), None)],
)
def test_worse_with_size(heights, verdict):
    given = {}
    for variant in ("raw features", "unit norm"):
        for i, (value, height) in enumerate(zip((3, 5, 7, 9), heights, strict=True)):
            for policy in ("cqb-opt", "optimal"):
                given[Place("literal", variant, value, policy)] = series(
                    height + 0.0 * ROUND, 0.5, seed=i
                )
    found = set(verdicts(panel("servers-cqb-opt", given)).values())
    assert found == {verdict} if verdict else found <= {UNDECIDED, FAILS}


@pytest.mark.parametrize(("mine", "verdict"), [(1.0, HOLDS), (4.0, FAILS)])
def test_best_on_data(mine, verdict):
    given = {}
    for i, policy in enumerate(("cqb-eps", "cqb-opt", "random", "optimal")):
        height = {"cqb-eps": mine, "optimal": 0.0}.get(policy, 3.0)
        given[Place("literal", "label", None, policy)] = series(height + 0.0 * ROUND, 0.3, seed=i)
    found = verdicts(panel("heart", given))
    assert found["cqb-eps-best-by-queue-mean", "label"] == verdict
    assert found["cqb-eps-best-by-queue-final", "label"] == verdict


def test_one_replica_has_no_verdict():
    given = {Place("literal", "", None, "random"): series(0.14 * ROUND)}
    assert claims_of(panel("baselines", given)._replace(replicas=1)) == []


def test_rows_of_verdicts_have_a_column_a_version():
    found = slack_panel((4000.0, 2000.0, 1000.0), (900.0, 500.0, 200.0))
    versions, rows = verdict_rows(claims_of(found))
    assert versions == ["literal"]
    assert len(rows) == 4
    assert all(len(verdicts) == 1 for _, _, verdicts in rows)
