"""What a run shows beside the paper's bounds: bad rounds, drift, tails, growth of V.

    watched = watch(headway.simulate("cqb-opt", world, rounds=5000, learner="paper", record=True))
    print(bad_rounds(watched))

A run with `record` is learned once more, round by round, and looked at just before each choice.
"""

import heapq
import math
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from headway.errors import HeadwayError
from headway.kernel.ellipsoid import uncertainty
from headway.learners import learn, new_model
from headway.settings import find_policy, make_params
from headway.sim.compare import Interval, interval
from headway.sim.run import Run
from headway.state import PAPER, Flags, Floats, roomier_model
from headway.theory.formulas import (
    LEFT_BEHIND,
    Premises,
    explored_growth,
    log_growth_failure,
    log_or_never,
    value_of,
)

PROVEN = ("paper", "likelihood")  # learners whose radius is one of a confidence set
STEEPEST = 0.25  # of the logistic function: what a logit is worth in success rate at most
LAST_SHARE = 10  # the last tenth of a run stands for its end


@dataclass(frozen=True)
class Watched:
    """What was seen in each round, a row a replica. NaN and False where nothing was chosen."""

    policy: str
    learner: str
    arrival_rate: float
    slack: float
    queue_length: NDArray[np.int32] = field(repr=False)  # column t-1 is the paper's Q(t)
    rate: Floats = field(repr=False)  # success rate of the chosen pair
    best: Floats = field(repr=False)  # and of the best waiting pair
    bonus: Floats = field(repr=False)  # success rate that optimism adds to the chosen pair
    widest: Floats = field(repr=False)  # (replicas,) the largest radius that was used

    @property
    def chosen(self) -> Flags:
        """Was a pair chosen? An empty queue's round is neither good nor bad."""
        return ~np.isnan(self.rate)

    @property
    def bad(self) -> Flags:
        """Bad rounds (section 6): uncertainty > slack / (4 radius), that is bonus > slack / 4.

        So written it holds for radii on the logit too: what follows from it, a departure rate at
        most 2 bonus below the best, is the same.
        """
        return self.chosen & (np.nan_to_num(self.bonus) > self.slack / 4.0)


class Looks(NamedTuple):
    """One replica's rounds."""

    rate: Floats
    best: Floats
    bonus: Floats
    widest: float


def watch(run: Run) -> Watched:
    """Look at each choice of a recorded run with what the learner knew before it."""
    situation = run.world.situation(run.rounds)
    if run.job is None:
        raise HeadwayError("the run was not recorded: simulate(..., record=True)")
    if run.queue_length.shape[1] != run.rounds + 1:
        raise HeadwayError(
            f"the run kept {run.queue_length.shape[1]} of {run.rounds + 1} columns: "
            "simulate(..., every=1)"
        )
    if run.learner not in PROVEN:
        raise HeadwayError(
            f"learner {run.learner!r} of {run.policy} has no confidence set: take "
            f"{' or '.join(PROVEN)}"
        )
    if not situation.slack or situation.arrival_rate is None:
        missing = "arrival rate" if situation.slack else "slack"
        raise HeadwayError(f"the world states no {missing}: no round of it is good or bad")
    looks = [look(run, replica) for replica in range(run.replicas)]
    return Watched(
        policy=run.policy,
        learner=run.learner,
        arrival_rate=situation.arrival_rate,
        slack=situation.slack,
        queue_length=run.queue_length,
        rate=np.array([each.rate for each in looks]),
        best=np.array([each.best for each in looks]),
        bonus=np.array([each.bonus for each in looks]),
        widest=np.array([each.widest for each in looks]),
    )


def look(run: Run, replica: int) -> Looks:
    """One replica, learned once more."""
    tape = run.tape(replica)
    params = make_params(find_policy(run.policy), run.learner, run.settings)
    servers, dimension = tape.theta_star.shape
    model = roomier_model(new_model(params, servers, dimension), run.rounds)
    worth = 1.0 if params.learner == PAPER else STEEPEST
    rates = 1.0 / (1.0 + np.exp(-tape.contexts @ tape.theta_star.T))
    rate, best, bonus = (np.full(run.rounds, math.nan) for _ in range(3))
    waiting: list[tuple[float, int]] = []  # by best success rate; those that left go lazily
    left: set[int] = set()
    number = 0
    widest = 0.0
    nothing = np.zeros(servers, np.int64)  # no learner reads failed tries here
    jobs, picks, marks = recorded(run, replica)
    for i in range(run.rounds):
        job, server = int(jobs[i]), int(picks[i])
        if job >= 0:
            while waiting[0][1] in left:
                heapq.heappop(waiting)
            x = tape.contexts[job]
            best[i] = -waiting[0][0]
            rate[i] = rates[job, server]
            widest = max(widest, float(model.radius[server]))
            spread = uncertainty(model.inverse[server], x)
            bonus[i] = worth * model.radius[server] * spread
            learn(params, model, x, nothing, server, bool(marks[i]))
            if marks[i]:
                left.add(job)
        if tape.arrivals[i]:
            heapq.heappush(waiting, (-float(rates[number].max()), number))
            number += 1
    return Looks(rate, best, bonus, widest)


def recorded(run: Run, replica: int) -> tuple[Any, Any, Any]:
    """Jobs, servers and successes of a recorded replica."""
    if run.job is None or run.server is None or run.success is None:
        raise HeadwayError("the run was not recorded: simulate(..., record=True)")
    return run.job[replica], run.server[replica], run.success[replica]


@dataclass(frozen=True)
class BadRounds:
    """How many rounds of a run are bad (section 6)."""

    count: Interval  # bad rounds, over replicas
    chosen: Interval  # rounds in which a pair was chosen
    last_share: float  # share of bad rounds among those of the last tenth

    def __str__(self) -> str:
        return (
            f"{self.count.mean:,.1f} bad rounds of {self.chosen.mean:,.1f} with a choice; "
            f"{self.last_share:.0%} in the last tenth"
        )


def bad_rounds(watched: Watched) -> BadRounds:
    """Count them: Proposition 6.1 bounds their number."""
    bad, chosen = watched.bad, watched.chosen
    late = slice(-max(1, bad.shape[1] // LAST_SHARE), None)
    return BadRounds(
        count=interval(bad.sum(axis=1)),
        chosen=interval(chosen.sum(axis=1)),
        last_share=float(bad[:, late].sum() / max(1, chosen[:, late].sum())),
    )


@dataclass(frozen=True)
class Drift:
    """E[A(t) - D(t)] given all before, where a pair was chosen: arrival rate - success rate."""

    promised: float  # at most so much in a good round
    good: int  # good rounds with a choice, of all replicas
    worst: float  # the largest drift in a good round, NaN without one
    mean: float  # in good rounds
    kept: float  # share of good rounds that keep the promise
    mean_bad: float  # in bad rounds, NaN without one
    kept_bad: float  # share of bad rounds that keep it all the same

    def __str__(self) -> str:
        bad = f"bad ones: {self.mean_bad:+.3f}, {self.kept_bad:.1%} keep {self.promised:+.3f}"
        if not self.good:
            return f"no good round; {bad}"
        return (
            f"{self.good:,} good rounds: drift {self.mean:+.3f}, worst {self.worst:+.3f}, "
            f"{self.kept:.1%} keep {self.promised:+.3f}; {bad}"
        )


def drift(watched: Watched) -> Drift:
    """Drift in good rounds, known exactly: Proposition D.1 promises -slack / 2 or less."""
    falling = watched.arrival_rate - watched.rate
    good = falling[watched.chosen & ~watched.bad]
    bad = falling[watched.bad]
    promised = -watched.slack / 2.0
    return Drift(
        promised=promised,
        good=good.size,
        worst=float(good.max()) if good.size else math.nan,
        mean=float(good.mean()) if good.size else math.nan,
        kept=float((good <= promised).mean()) if good.size else math.nan,
        mean_bad=float(bad.mean()) if bad.size else math.nan,
        kept_bad=float((bad <= promised).mean()) if bad.size else math.nan,
    )


class TailRow(NamedTuple):
    """P(Q(t) >= 2 B(t-1) + b)."""

    beyond: float  # b
    share: float  # of rounds and replicas
    bound: float


@dataclass(frozen=True)
class Tail:
    """How often the queue is longer than its bad rounds explain (Lemma C.6)."""

    speaks_from: float  # the b from which the bound is below 1
    rows: tuple[TailRow, ...]

    def __str__(self) -> str:
        lines = [f"P(Q >= 2 B + {b:g}) = {share:.2g}, at most {min(bound, 1.0):.2g}"
                 for b, share, bound in self.rows]  # fmt: skip
        return "\n".join(lines)


def tail(watched: Watched, beyond: tuple[float, ...] = ()) -> Tail:
    """Q(t) against 2 B(t-1) + b over all rounds, for each b of `beyond`; by default b = 0, where
    the bound gets below 1, and where it is 5 %.

    The bound holds for each round, so for their average, on which there is less noise.
    """
    slack = watched.slack
    constant = math.log(1.0 + 16.0 / slack**2)
    speaks = 2.0 * constant / slack
    chosen = beyond or (0.0, speaks, 2.0 * (constant + math.log(20.0)) / slack)
    bad = watched.bad.astype(np.int64)
    before = bad.cumsum(axis=1) - bad
    excess = watched.queue_length[:, :-1] - LEFT_BEHIND * before
    rows = [
        TailRow(b, float((excess >= b).mean()), value_of(constant - slack * b / 2.0))
        for b in chosen
    ]
    return Tail(speaks, tuple(rows))


@dataclass(frozen=True)
class RateGap:
    """m_t: root mean square of what the departure rate lacks against the best waiting pair."""

    whole: float  # over all rounds with a choice
    late: float  # over those of the last tenth

    def __str__(self) -> str:
        return f"{self.whole:.3f} over the run, {self.late:.3f} over its last tenth"


def rate_gap(watched: Watched) -> RateGap:
    """The first factor of Lemma 4.2 as it was."""
    squared = (watched.best - watched.rate) ** 2
    late = squared[:, -max(1, squared.shape[1] // LAST_SHARE) :]
    return RateGap(root_mean(squared), root_mean(late))


def root_mean(squared: Floats) -> float:
    """Over what is no NaN; NaN where that is nothing."""
    known = squared[~np.isnan(squared)]
    return float(np.sqrt(known.mean())) if known.size else math.nan


class GrowthRow(NamedTuple):
    """lambda_min of the sum of x x' of each server after one round."""

    round: int
    least: float  # of any server and replica
    median: float
    promised: float  # Lemma C.2, without the initial ridge
    below: float  # share of servers and replicas with less
    may_fail: float  # how often the lemma allows that


@dataclass(frozen=True)
class Growth:
    """How V grows, against Lemma C.2."""

    burn_in_rounds: int
    explore_prob: float
    rows: tuple[GrowthRow, ...]

    def __str__(self) -> str:
        return "\n".join(
            f"round {row.round:,}: least eigenvalue {row.least:.3g} (median {row.median:.3g}), "
            f"promised {row.promised:.3g}, less in {row.below:.1%} where {row.may_fail:.1%} may be"
            for row in self.rows
        )


def eigenvalue_growth(run: Run, premises: Premises, points: int = 5) -> Growth:
    """lambda_min of V without its ridge at a few rounds after the burn-in, all servers."""
    if "explore_prob" not in run.settings or "burn_in_rounds" not in run.settings:
        raise HeadwayError(f"{run.policy} does not explore as Lemma C.2 asks: take cqb-eps")
    tau = min(int(run.settings["burn_in_rounds"]), run.rounds - 1)
    coin = float(run.settings["explore_prob"])
    rounds = np.unique(np.linspace(tau, run.rounds, points + 1).astype(np.int64)[1:])
    least = np.array([eigenvalues(run, replica, rounds) for replica in range(run.replicas)])
    rows = []
    for i, t in enumerate(rounds):
        since = float(t - tau)
        promised = explored_growth(premises, since, coin)
        failing = log_growth_failure(premises, math.log(since), log_or_never(coin))
        found = least[:, i]
        rows.append(
            GrowthRow(
                int(t), float(found.min()), float(np.median(found)), promised,
                float((found < promised).mean()), min(1.0, value_of(float(failing))),
            )
        )  # fmt: skip
    return Growth(tau, coin, tuple(rows))


def eigenvalues(run: Run, replica: int, rounds: NDArray[np.int64]) -> Floats:
    """lambda_min of each server's sum of x x' after each of these rounds: (rounds, servers)."""
    tape = run.tape(replica)
    servers, dimension = tape.theta_star.shape
    jobs, picks, _ = recorded(run, replica)
    sums = np.zeros((servers, dimension, dimension))
    found = []
    start = 0
    for t in rounds:
        for k in range(servers):
            mine = jobs[start:t][picks[start:t] == k]
            x = tape.contexts[mine]
            sums[k] += x.T @ x
        found.append(np.linalg.eigvalsh(sums)[:, 0])
        start = int(t)
    return np.maximum(np.array(found), 0.0)


def summary(measured: Any) -> dict[str, Any]:  # noqa: ANN401 - any dataclass of this file
    """As JSON has it, once NaN is null."""
    return {name: named(value) for name, value in vars(measured).items()}


def named(value: Any) -> Any:  # noqa: ANN401 - any field of a dataclass of this file
    """Rows and intervals as objects."""
    if hasattr(value, "_asdict"):
        return value._asdict()
    return [named(each) for each in value] if isinstance(value, tuple) else value
