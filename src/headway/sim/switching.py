"""Policy-switching queues: where in time a policy's regret is made, exactly, choice by choice.

    found = switching_queues("cqb-opt", headway.Scenario(), rounds=5000, replicas=20)
    found.switch_gap(100)           psi(100, T + 1), by replica
    found.switched_length(99, 200)  Q(99, 200): the policy in rounds 1..99, then `optimal`

switch_gap(t) is what the choice of round t costs in the end: the length after the last round if
`optimal` takes over in round t + 1, less that if it takes over in round t, on the same draws. So
the gaps of all rounds sum up to the regret; every run is held to that (`InternalError`).
"""

import functools
import os
import threading
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from headway.compiled import is_warm, mark_warm
from headway.errors import HeadwayError
from headway.policy import Policy
from headway.rng import make_key
from headway.settings import resolve
from headway.sim.compare import replayed
from headway.sim.forks import Forks, Ranked, follow, lay_out, tail_length, walk
from headway.sim.run import (
    STRETCH,
    Advance,
    Run,
    World,
    check_size,
    draw_instances,
    in_threads,
    run_resolved,
    tell,
)
from headway.sim.run import ensure_compiled as ensure_simulator
from headway.state import Flags, Floats, Integers
from headway.world.outcomes import Outcomes
from headway.world.problem import Instance
from headway.world.scenario import Scenario
from headway.world.tape import Tape

COMPILING = "compiling the switching queues (once per version, a few seconds)"
ADAPTS = (
    "the world answers to the policy: gaps are those of the jobs that this run met, exactly; the "
    "bound of Lemma 4.2 is one of an average over what might have come instead, so here it is none"
)


class InternalError(HeadwayError):
    """A lemma failed on a run: headway has a fault, and the result must not be used."""


@dataclass(frozen=True)
class Switching:
    """All switch points of a policy's runs; arrays have a row a replica and a column a round."""

    run: Run
    optimal: Run = field(repr=False)  # on the same jobs
    gap: NDArray[np.int8] = field(repr=False)  # psi(t, T + 1)
    life: NDArray[np.int32] = field(repr=False)  # rounds at whose start the queues of fork t differ
    case: NDArray[np.int8] = field(repr=False)  # how fork t began: NOBODY .. LOST of `forks`
    end: NDArray[np.int8] = field(repr=False)  # its state after the last round: EQUAL .. of `forks`
    rate_gap: Floats = field(repr=False)  # best success rate less the chosen one; 0 = nobody waited
    forced: NDArray[np.int8] = field(repr=False)  # psi of a disagreement forced in round t; -1 =
    # nobody waited
    misaligned: Flags = field(repr=False)  # did the two queues differ as sets when round t began?
    transitions: Integers  # (replicas, 5, 5) between states of a fork, from a round to the next
    remarks: tuple[str, ...]

    @property
    def regret(self) -> Integers:
        """Jobs beyond `optimal` after the last round, by replica: the sum of the gaps."""
        return np.asarray(self.run.queue_final - self.optimal.queue_final)

    def switch_gap(self, t: int) -> NDArray[np.int8]:
        """psi(t, T + 1) by replica: -1, 0 or 1 jobs."""
        self.check("t", t, 1, self.run.rounds)
        return self.gap[:, t - 1]

    def switched_length(self, t1: int, t2: int) -> Integers:
        """Q(t1, t2) by replica: jobs that wait when round t2 begins, if the policy serves rounds
        1..t1 and `optimal` those after. T + 1 stands for the end.
        """
        self.check("t2", t2, 1, self.run.rounds + 1)
        self.check("t1", t1, 0, t2 - 1)
        assert self.run.job is not None
        assert self.run.success is not None
        found = []
        for replica, instance in enumerate(self.optimal.instances):
            ranked = rank(self.run, instance, replica)
            job, success = self.run.job[replica], self.run.success[replica]
            tree = new_tree(ranked.number.shape[0])
            found.append(tail_length(ranked, job, success, tree, t1, t2))
        return np.array(found)

    def check(self, name: str, value: int, least: int, most: int) -> None:
        """Refuse a round that is none."""
        whole = isinstance(value, int | np.integer) and not isinstance(value, bool)
        if not whole or not least <= value <= most:
            raise HeadwayError(f"{name} {value!r} must be a whole number in {least}..{most}")


def switching_queues(
    policy: str | Policy,
    world: World,
    *,
    rounds: int,
    replicas: int = 1,
    seed: int = 0,
    learner: str | None = None,
    threads: int | None = None,
    advance: Advance | None = None,
    **params: Any,  # noqa: ANN401 - settings by name, checked one by one
) -> Switching:
    """Run a policy and, on the same draws, `optimal`; switch from one to the other at all rounds.

    `advance` is told of rounds three times over: of the policy, of `optimal`, of switch points.
    """
    refuse_void(world)
    check_size(world, rounds=rounds, replicas=replicas, seed=seed, every="final", threads=threads)
    size: dict[str, Any] = {
        "rounds": rounds, "seed": seed, "record": True, "every": "final", "threads": threads,
        "advance": advance,
    }  # fmt: skip
    situation = world.situation(rounds)
    resolved = resolve(policy, situation, learner=learner, given=params)
    drawn = draw_instances(world, seed=seed, replicas=replicas, rounds=rounds)
    ensure_compiled()
    run = run_resolved(resolved, world, drawn, **size)
    jobs = replayed(run) if world.adaptive else drawn
    optimal = run_resolved(resolve("optimal", situation, given={}), world, jobs, **size)
    return switch_everywhere(run, optimal, threads=threads, advance=advance)


def refuse_void(world: World) -> None:
    """The lemmas ask for success rates that are fixed when a job arrives, and for outcomes that
    are decided by such a rate and the round's one coin. So it is here: by theta_star and in tables,
    stochastic, adversarial or replayed.
    """
    if not isinstance(world, Scenario | Tape | Outcomes):
        raise HeadwayError(
            f"world {type(world).__name__!r}: regret by switching needs success rates fixed at "
            "arrival and one coin a round, as in Scenario, Tape and Outcomes"
        )
    remembering = isinstance(world, Scenario) and world.remembers
    if remembering or (isinstance(world, Outcomes) and world.known is not None):
        raise HeadwayError(
            "regret by switching is void where attempts remember: a job's chance changes with its "
            "failures, so no order of jobs is fixed at their arrival"
        )


def switch_everywhere(
    run: Run, optimal: Run, *, threads: int | None = None, advance: Advance | None = None
) -> Switching:
    """All switch points of recorded runs, of a policy and of `optimal` on the same jobs."""
    stop = threading.Event()

    def one(replica: int) -> Any:  # noqa: ANN401 - in_threads names what run.py makes
        return forks_of(run, optimal, replica, stop, advance)

    found: list[Any] = in_threads(one, run.replicas, threads or os.cpu_count() or 1, stop)
    switching = Switching(
        run=run,
        optimal=optimal,
        gap=np.array([each.gap for each in found], np.int8),
        life=np.array([each.life for each in found], np.int32),
        case=np.array([each.case for each in found], np.int8),
        end=np.array([each.end for each in found], np.int8),
        rate_gap=np.array([each.rate_gap for each in found]),
        forced=np.array([each.forced for each in found], np.int8),
        misaligned=np.array([each.misaligned for each in found], np.bool_),
        transitions=np.array([each.transitions for each in found]),
        remarks=run.remarks + ((ADAPTS,) if run.world.adaptive else ()),
    )
    short = switching.gap.sum(axis=1, dtype=np.int64) != switching.regret
    if short.any():
        replica = int(np.flatnonzero(short)[0])
        raise InternalError(
            f"the gaps of replica {replica} (seed {run.seed}) sum up to "
            f"{switching.gap[replica].sum()}, but its regret is {switching.regret[replica]}: "
            "this is a fault of headway"
        )
    return switching


def forks_of(
    run: Run, optimal: Run, replica: int, stop: threading.Event, advance: Advance | None
) -> Forks:
    """One replica, a stretch of forks at a time."""
    assert run.job is not None
    assert run.server is not None
    assert run.success is not None
    assert optimal.job is not None
    assert optimal.success is not None
    ranked = rank(run, optimal.instances[replica], replica)
    count = ranked.number.shape[0]
    forks = new_forks(run.rounds, count)
    wrong = walk(
        ranked, run.job[replica], run.server[replica], run.success[replica],
        optimal.job[replica], optimal.success[replica], new_tree(count),
        np.zeros(count, np.int64), forks,
    )  # fmt: skip
    if wrong:
        raise HeadwayError(
            f"round {wrong} of replica {replica}: its outcome is not what a success rate fixed at "
            "arrival and the round's coin say, so queues cannot be coupled and the lemmas are void"
        )
    done = 0
    while done < run.rounds and not stop.is_set():
        last = min(done + STRETCH, run.rounds)
        wrong = follow(ranked, forks, done + 1, last)
        if wrong:
            raise InternalError(
                f"the coupled queues of replica {replica} (seed {run.seed}) part in round {wrong} "
                "as they never should: this is a fault of headway"
            )
        if advance:
            advance(last - done)
        done = last
    return forks


def rank(run: Run, instance: Instance, replica: int) -> Ranked:
    """The jobs and coins of one replica in `optimal`'s order: the larger rate, then the first in.

    The ranking is by what `optimal` compares, x . theta_star, or the rate itself in tables.
    """
    problem = instance.problem
    rounds, (servers, dimension) = run.rounds, problem.theta_star.shape
    entered, value = np.empty(rounds, np.int64), np.empty(rounds)
    best_rate, rate = np.empty(rounds), np.empty((rounds, servers))
    coin, x = np.zeros(rounds + 1), np.empty(dimension)
    nobody = np.empty((0, dimension, dimension))
    key = make_key(run.seed, run.first_replica + replica)
    count = lay_out(problem, key, nobody, np.empty(0), x, entered, value, best_rate, rate, coin)
    strict = problem.rates.size > 0
    arrival = np.arange(count)
    order = np.lexsort((-arrival, value[:count]))
    number = np.empty(count, np.int64)
    number[order] = 2 * arrival + 1
    climbing = np.maximum.accumulate(best_rate[order])  # sigmoid may err by a last bit
    below = np.searchsorted(climbing, coin, side="right" if strict else "left")
    return Ranked(
        number=number,
        entered=entered[:count],
        rate=rate[:count],
        entered_at=entered[order],
        best_rate=best_rate[order],
        uniform=coin,
        coin=2 * below.astype(np.int64),
        strict=strict,
    )


def new_tree(count: int) -> Integers:
    """A tournament of so many places in which nobody waits."""
    return np.zeros(2 << max(count - 1, 0).bit_length(), np.int64)


def new_forks(rounds: int, count: int) -> Forks:
    """Nothing found yet."""

    def none() -> Integers:
        return np.zeros(rounds, np.int64)

    return Forks(
        own=np.zeros(rounds + 1, np.int64),
        bar=np.zeros(rounds + 1, np.int64),
        best=np.zeros(rounds + 1, np.int64),
        stays=np.ones(count, np.int64),
        rate_gap=np.zeros(rounds),
        misaligned=none(),
        gap=none(),
        life=none(),
        case=none(),
        end=none(),
        forced=none(),
        transitions=np.zeros((5, 5), np.int64),
    )


@functools.cache
def ensure_compiled(*, announce: bool = True) -> None:
    """Load the compiled code of switching, or compile it and say so; it serves all problems."""
    ensure_simulator(announce=announce)
    if announce and not is_warm("forks"):
        tell(COMPILING)
    world = Scenario(servers=2, dimension=2, slack_by="none")
    size: dict[str, Any] = {"rounds": 4, "every": "final", "record": True, "threads": 1}
    run, optimal = (
        run_resolved(
            resolve(name, world.situation(4), given={}), world, [world.instance(0, 0)],
            seed=0, advance=None, **size,
        )
        for name in ("random", "optimal")
    )  # fmt: skip
    switch_everywhere(run, optimal, threads=1).switched_length(1, 4)
    mark_warm("forks")
