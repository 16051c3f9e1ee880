"""The regret decomposition of Lemma 4.2, measured: E[psi(t)] <= m_t delta_t, round by round.

m_t is the root mean square over replicas of what the departure rate lacks in round t (0 where
nobody waits). delta_t^2 is the mean, over the replicas in which somebody waits, of what is left in
the end of a disagreement *forced* in round t: `optimal`'s job leaves the minus queue, nobody leaves
the plus queue. The lemma conditions on that disagreement whatever its probability; a mean over the
disagreements that happened would favour the states in which they are likely.

Both are square roots of means, so few replicas make them too small on average.
"""

import math
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from headway.sim.compare import Interval, interval
from headway.sim.forks import (
    EQUAL,
    LOST,
    ONE_LESS,
    ONE_MORE,
    OTHER,
    SWAPPED,
    SWAPPED_BACK,
    UNASKED,
)
from headway.sim.switching import Switching
from headway.state import Floats, Integers

PARTS = 10  # of a run, unless it is shorter


STATES = {EQUAL: "S0", ONE_MORE: "S1+", ONE_LESS: "S1-", SWAPPED: "S2+", SWAPPED_BACK: "S2-"}


@dataclass(frozen=True)
class Decomposition:
    """One value a round, over all replicas."""

    gap: Floats  # mean psi(t, T + 1)
    rate_gap: Floats  # m_t
    long_term: Floats  # delta_t; NaN where nobody waits in any replica
    bound: Floats  # m_t delta_t; 0 where nobody waits
    misaligned: Floats  # share of replicas whose queue states differ


class Part(NamedTuple):
    """Some rounds of a run, first..last."""

    first: int
    last: int
    gap: Interval  # regret made in them: the sum of their gaps
    rate_gap: float  # root mean square, all rounds and replicas together
    long_term: float
    bound: Interval  # sum of m_t delta_t
    misaligned: Interval  # share of the rounds


class Mistakes(NamedTuple):
    """One kind of choice after which the two queues of a fork differ."""

    kind: str
    made: Interval  # how many, by replica
    share: float  # of the rounds in which somebody waited
    life_p50: int  # rounds; those that last to the end count at their age
    life_p99: int
    gap: Interval  # what is left of them after the last round, in jobs


class Visits(NamedTuple):
    """One state of the two queues of a fork: how they came into it and where they went."""

    state: str
    begun: int  # forks that began in it
    entered: int  # from another state
    stayed: int  # rounds after which the state was the same
    to: dict[str, int]  # transitions to each other state
    left: int  # forks still in it after the last round


def decompose(found: Switching) -> Decomposition:
    """m_t, delta_t and their product for each round."""
    asked = found.forced != UNASKED
    squared = (found.rate_gap**2).mean(axis=0)
    left = found.forced.clip(min=0).sum(axis=0, dtype=np.int64)
    long_term = np.full(found.run.rounds, math.nan)
    np.divide(left, asked.sum(axis=0), out=long_term, where=asked.any(axis=0))
    long_term = np.sqrt(long_term)
    rate_gap = np.sqrt(squared)
    return Decomposition(
        gap=found.gap.mean(axis=0),
        rate_gap=rate_gap,
        long_term=long_term,
        bound=np.nan_to_num(rate_gap * long_term),
        misaligned=found.misaligned.mean(axis=0),
    )


def parts(found: Switching, count: int = PARTS) -> list[Part]:
    """The run in about equal stretches, in order."""
    starts = np.unique(np.linspace(0, found.run.rounds, count, endpoint=False).astype(np.int64))
    ends = np.append(starts[1:], found.run.rounds)
    bounds = summed_bounds(found, starts)
    rows = []
    for i, (first, last) in enumerate(zip(starts, ends, strict=True)):
        here = slice(first, last)
        forced = found.forced[:, here]
        asked = forced[forced != UNASKED]
        rows.append(
            Part(
                first=int(first) + 1,
                last=int(last),
                gap=interval(found.gap[:, here].sum(axis=1, dtype=np.int64)),
                rate_gap=float(np.sqrt((found.rate_gap[:, here] ** 2).mean())),
                long_term=float(np.sqrt(asked.mean())) if asked.size else math.nan,
                bound=bounds[i],
                misaligned=interval(found.misaligned[:, here].mean(axis=1)),
            )
        )
    return rows


def whole_bound(found: Switching) -> Interval:
    """The bound of Lemma 4.2 on the regret after the last round: the sum of all m_t delta_t."""
    return summed_bounds(found, np.zeros(1, np.int64))[0]


def summed_bounds(found: Switching, starts: Integers) -> list[Interval]:
    """Sums of m_t delta_t over the stretches that begin at these columns.

    Intervals by the jackknife: a sum is no mean over replicas, so it is computed again without
    each of them in turn.
    """
    asked = (found.forced != UNASKED).astype(np.int64)
    left = found.forced.clip(min=0).astype(np.int64)
    squared = found.rate_gap**2
    sums = squared.sum(axis=0), left.sum(axis=0), asked.sum(axis=0)
    replicas = found.run.replicas

    def products(squares: Floats, lasting: Integers, asking: Integers, among: int) -> Floats:
        share = lasting / np.maximum(asking, 1)
        return np.asarray(np.add.reduceat(np.sqrt(squares / among * share), starts))

    whole = products(*sums, replicas)
    if replicas < 2:
        return [Interval(float(value), math.nan, math.nan, math.nan) for value in whole]
    without = np.array(
        [
            products(
                np.maximum(sums[0] - squared[r], 0.0), sums[1] - left[r], sums[2] - asked[r],
                replicas - 1,
            )
            for r in range(replicas)
        ]
    )  # fmt: skip
    return [around(float(value), without[:, i]) for i, value in enumerate(whole)]


def around(value: float, without: Floats) -> Interval:
    """A value with the jackknife's error and Student's interval."""
    from scipy.special import stdtrit

    replicas = without.size
    error = math.sqrt((replicas - 1) / replicas * float(((without - without.mean()) ** 2).sum()))
    half = float(stdtrit(replicas - 1, 0.975)) * error
    return Interval(value, error, value - half, value + half)


def mistakes(found: Switching) -> list[Mistakes]:
    """The two kinds: a departure lost, or another job served in place of the best."""
    asked = max(1, int((found.forced != UNASKED).sum()))
    rows = []
    for kind, case in (("departure lost", LOST), ("another job served", OTHER)):
        mine = found.case == case
        lives = found.life[mine]
        rows.append(
            Mistakes(
                kind=kind,
                made=interval(mine.sum(axis=1)),
                share=float(mine.sum() / asked),
                life_p50=lived(lives, 0.50),
                life_p99=lived(lives, 0.99),
                gap=interval(np.where(mine, found.gap, 0).sum(axis=1, dtype=np.int64)),
            )
        )
    return rows


def lived(lives: NDArray[Any], share: float) -> int:
    """What this share of some counts of rounds does not exceed; 0 without any."""
    if not lives.size:
        return 0
    return int(np.sort(lives)[max(0, math.ceil(share * lives.size) - 1)])


def visits(found: Switching) -> list[Visits]:
    """The four states in which the queues of a fork differ, over all rounds and replicas."""
    steps = found.transitions.sum(axis=0)
    begun = {ONE_MORE: int((found.case == LOST).sum()), SWAPPED: int((found.case == OTHER).sum())}
    return [
        Visits(
            state=name,
            begun=begun.get(state, 0),
            entered=int(steps[:, state].sum() - steps[state, state]),
            stayed=int(steps[state, state]),
            to={STATES[other]: int(steps[state, other]) for other in STATES if other != state},
            left=int((found.end == state).sum()),
        )
        for state, name in STATES.items()
        if state != EQUAL
    ]


def reach(found: Switching, share: float) -> int:
    """Of the choices that still matter after the last round (a gap of 1 or -1) this share was made
    in the last so many rounds; 0 without such a choice.
    """
    ages = found.run.rounds - np.nonzero(found.gap)[1]
    return lived(ages, share)
