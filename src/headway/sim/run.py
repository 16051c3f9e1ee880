"""`simulate`: replicas of one policy on one world, and what a run returns."""

import functools
import os
import sys
import threading
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from headway.compiled import is_warm, mark_warm
from headway.errors import HeadwayError
from headway.learners import new_model
from headway.policy import Policy, Settings, Situation
from headway.rng import make_key
from headway.settings import Resolved, policy_code, resolve
from headway.sim.drive import in_plain_python, player
from headway.sim.rollout import Tally, bucket_wait, new_tally, wait_bucket
from headway.state import (
    TRUTH,
    Floats,
    Integers,
    Model,
    Queue,
    new_clock,
    new_queue,
    roomier_model,
    roomier_queue,
)
from headway.world.outcomes import Outcomes
from headway.world.problem import ADAPTIVE, Instance
from headway.world.scenario import Scenario
from headway.world.tape import Tape, written_out

World = Scenario | Tape | Outcomes
COMPILING = "compiling for this machine (once per version, about half a minute)"
STRETCH = 2048  # rounds between two chances to stop
Advance = Callable[[int], None]  # told how many rounds were done


class Final(NamedTuple):
    """One replica when it is done."""

    tally: Tally
    model: Model
    queue: Queue
    waits: Integers  # the tally's, with the jobs that still wait counted at their age
    seconds: float  # of CPU


@dataclass(frozen=True)
class Run:
    """What `simulate` returns. Arrays have a row a replica; `round` names their columns."""

    policy: str
    learner: str
    settings: Settings
    scenario: dict[str, Any]
    world: World = field(repr=False)
    instances: tuple[Instance, ...] = field(repr=False)  # the problem of each replica
    seed: int
    rounds: int
    replicas: int
    first_replica: int
    round: Integers  # the round after which each column counts; column 0 is the start
    queue_length: NDArray[np.int32]
    queue_final: Integers
    queue_mean: NDArray[np.float64]  # over rounds 1..rounds
    waits: Integers  # (replicas, buckets)
    served: Integers
    redraws: Integers
    acceptance: NDArray[np.float64]
    event_failed: Integers  # servers whose confidence event was seen to fail
    rounds_per_second: float  # of CPU time
    remarks: tuple[str, ...]
    job: Integers | None = None  # with record: chosen arrival number by round, -1 = none
    server: Integers | None = None
    success: Integers | None = None
    contexts: tuple[Floats, ...] | None = field(default=None, repr=False)  # of an adaptive world

    def tape(self, replica: int = 0) -> Tape:
        """The problem that this replica met, as explicit arrays: an adaptive world's too."""
        if not 0 <= replica < self.replicas:
            raise HeadwayError(f"replica {replica} must be one of 0..{self.replicas - 1}")
        if isinstance(self.world, Tape):
            return self.world
        if self.instances[replica].problem.rates.size:
            raise HeadwayError("a table of outcomes has no theta_star, so no tape can hold it")
        return written_out(
            self.instances[replica].problem,
            make_key(self.seed, self.first_replica + replica),
            self.world.situation(self.rounds),
            self.contexts[replica] if self.contexts else None,
        )

    def wait(self, share: float) -> Integers:
        """Waiting time (rounds from entering to leaving, or to the end) that this share of the
        jobs does not exceed, by replica: wait(0.99) is the p99. 0 where no job came.
        """
        totals = self.waits.sum(axis=1)
        below = np.cumsum(self.waits, axis=1)
        wanted = np.maximum(np.ceil(share * totals), 1)
        bucket = (below < wanted[:, None]).sum(axis=1)
        return np.array(
            [bucket_wait(int(b)) if n else 0 for b, n in zip(bucket, totals, strict=True)],
            np.int64,
        )


def simulate(
    policy: str | Policy,
    world: World,
    *,
    rounds: int,
    replicas: int = 1,
    seed: int = 0,
    learner: str | None = None,
    record: bool = False,
    every: int | str = 1,
    threads: int | None = None,
    first_replica: int = 0,
    instances: list[Instance] | None = None,
    advance: Advance | None = None,
    **params: Any,  # noqa: ANN401 - settings by name, checked one by one
) -> Run:
    """Run a policy on a world.

    `every` thins the columns of `queue_length` (every n-th round and the last; "final" keeps the
    last only). `record` keeps each round's choice. `params` are the policy's settings. Results
    do not depend on `threads`. Replicas first_replica, first_replica + 1, ... are run, on their
    own problems or on `instances` instead, with the same draws.
    """
    check_size(
        world, rounds=rounds, replicas=replicas, seed=seed, every=every, threads=threads,
        first_replica=first_replica,
    )  # fmt: skip
    resolved = resolve(policy, world.situation(rounds), learner=learner, given=params)
    return run_resolved(
        resolved, world,
        instances or draw_instances(
            world, seed=seed, replicas=replicas, rounds=rounds, first=first_replica
        ),
        rounds=rounds, seed=seed, record=record, every=every, threads=threads, advance=advance,
        first=first_replica,
    )  # fmt: skip


def run_resolved(
    resolved: Resolved,
    world: World,
    drawn: list[Instance],
    *,
    rounds: int,
    seed: int,
    record: bool,
    every: int | str,
    threads: int | None,
    advance: Advance | None,
    first: int = 0,
) -> Run:
    """`simulate` once everything is checked and the problem of each replica is drawn."""
    servers, dimension = drawn[0].problem.theta_star.shape
    ensure_compiled(servers, dimension)
    ensure_specialised(resolved, servers, dimension)
    step = int(every) if every != "final" else 0
    stop = threading.Event()
    adapted = any(each.problem.contexts_by == ADAPTIVE for each in drawn)

    def one(replica: int) -> Final:
        tally = new_tally(
            rounds=rounds, every=step, record=record, dimension=dimension, keep_contexts=adapted
        )
        key = make_key(seed, first + replica)
        return run_replica(resolved, drawn[replica], key, tally, rounds, stop, advance)

    finals = in_threads(one, len(drawn), threads or os.cpu_count() or 1, stop)
    return assemble(
        world, resolved, drawn, finals, seed=seed, rounds=rounds, step=step, first=first
    )


def check_size(
    world: World,
    *,
    rounds: int,
    replicas: int,
    seed: int,
    every: int | str,
    threads: int | None,
    first_replica: int = 0,
) -> None:
    """Refuse sizes that make no sense, by name."""
    for name, value, least in (
        ("rounds", rounds, 1),
        ("replicas", replicas, 1),
        ("seed", seed, 0),
        ("first_replica", first_replica, 0),
        ("every", 1 if every == "final" else every, 1),
        ("threads", 1 if threads is None else threads, 1),
    ):
        whole = isinstance(value, int | np.integer) and not isinstance(value, bool)
        if not whole or int(value) < least:
            raise HeadwayError(f"{name} {value!r} must be a whole number of at least {least}")
    if seed >= 2**64:
        raise HeadwayError(f"seed {seed} must be below 2**64")
    if world.most_rounds is not None:
        if rounds > world.most_rounds:
            raise HeadwayError(f"rounds {rounds}: the tape covers only {world.most_rounds}")
        if replicas != 1:
            raise HeadwayError(f"replicas {replicas}: a tape is one problem, so 1 replica")


def draw_instances(
    world: World, *, seed: int, replicas: int, rounds: int, first: int = 0
) -> list[Instance]:
    """The problem of each replica."""
    return [world.instance(seed, replica, rounds) for replica in range(first, first + replicas)]


def run_replica(
    resolved: Resolved,
    instance: Instance,
    key: NDArray[np.uint64],
    tally: Tally,
    rounds: int,
    stop: threading.Event,
    advance: Advance | None,
) -> Final:
    """One replica, a stretch of rounds at a time."""
    servers, dimension = instance.problem.theta_star.shape
    model = new_model(resolved.params, servers, dimension)
    if resolved.params.learner == TRUTH:
        model.theta[:] = instance.problem.theta_star
    queue = new_queue(servers, dimension)
    clock = new_clock()
    play_rounds = player(resolved.policy)
    start = time.thread_time()
    done = 0
    while done < rounds and not stop.is_set():
        last = min(done + STRETCH, rounds)
        queue = roomier_queue(queue, int(queue.length[0]) + last - done)
        model = roomier_model(model, int(model.updates.max()) + last - done)
        play_rounds(resolved.params, model, clock, queue, key, instance.problem, tally, last)
        if advance:
            advance(last - done)
        done = last
    waits = tally.waits.copy()
    for entered in queue.entered[: queue.length[0]]:
        waits[wait_bucket(int(rounds - entered))] += 1
    return Final(tally, model, queue, waits, time.thread_time() - start)


def in_threads(
    one: Callable[[int], Final], replicas: int, threads: int, stop: threading.Event
) -> list[Final]:
    """one(0..replicas-1) on threads (kernels hold no interpreter lock); Ctrl-C stops them all."""
    with ThreadPoolExecutor(min(threads, replicas)) as pool:
        try:
            return list(pool.map(one, range(replicas)))
        except BaseException:
            stop.set()
            pool.shutdown(cancel_futures=True)
            raise


def assemble(
    world: World,
    resolved: Resolved,
    drawn: list[Instance],
    finals: list[Final],
    *,
    seed: int,
    rounds: int,
    step: int,
    first: int,
) -> Run:
    """The replicas as one result."""
    final = np.array([each.queue.length[0] for each in finals])
    shown = np.arange(0, rounds + 1, step) if step else np.empty(0, np.int64)
    lengths = np.array([each.tally.columns for each in finals])
    if shown.size == 0 or shown[-1] != rounds:
        shown = np.append(shown, rounds)
        lengths = np.hstack([lengths, final[:, None]])
    seconds = sum(each.seconds for each in finals)
    recorded = finals[0].tally.job.size > 0
    return Run(
        policy=resolved.policy.name,
        learner=resolved.learner,
        settings=resolved.settings,
        scenario=world.describe(),
        world=world,
        instances=tuple(drawn),
        seed=seed,
        rounds=rounds,
        replicas=len(finals),
        first_replica=first,
        round=shown,
        queue_length=lengths.astype(np.int32),
        queue_final=final,
        queue_mean=np.array([each.tally.queue_total[0] / rounds for each in finals]),
        waits=np.array([each.waits for each in finals]),
        served=np.array([each.tally.served[0] for each in finals]),
        redraws=np.array([each.redraws for each in drawn]),
        acceptance=np.array([each.acceptance for each in drawn]),
        event_failed=np.array([each.model.event_failed.sum() for each in finals]),
        rounds_per_second=rounds * len(finals) / max(seconds, 1e-9),
        remarks=(*resolved.remarks, *speed_remark(resolved.policy)),
        job=np.array([each.tally.job for each in finals]) if recorded else None,
        server=np.array([each.tally.server for each in finals]) if recorded else None,
        success=np.array([each.tally.success for each in finals]) if recorded else None,
        contexts=tuple(each.tally.contexts[: each.tally.arrived[0]] for each in finals)
        if finals[0].tally.contexts.size
        else None,
    )


def speed_remark(policy: Policy) -> tuple[str, ...]:
    """Plain Python is said to be slow."""
    if not in_plain_python(policy):
        return ()
    return (f"{policy.name} is plain Python and runs at its speed: @numba.njit makes it quicker",)


def ensure_compiled(servers: int = 2, dimension: int = 2, *, announce: bool = True) -> None:
    """Load all compiled code that simulating touches, or compile it, once per version and
    machine; never a silent pause. What is timed later is then simulating alone.

    An array with one column lies in memory as one with one row does, which is another type: one
    server and one dimension have code of their own.
    """
    _ensure_compiled(min(servers, 2), min(dimension, 2), announce)


def compiled_kind(servers: int, dimension: int) -> str:
    """The name of the kind of problem that shares its compiled code."""
    return f"{min(servers, 2)}-{min(dimension, 2)}"


@functools.cache
def _ensure_compiled(servers: int, dimension: int, announce: bool) -> None:  # noqa: FBT001
    kind = compiled_kind(servers, dimension)
    if announce and not is_warm(kind):
        tell(COMPILING)
    resolved = resolve("random", Situation(servers, dimension, rounds=2), given={})
    two_rounds(resolved, servers, dimension)
    mark_warm(kind)


def ensure_specialised(resolved: Resolved, servers: int, dimension: int) -> None:
    """Compile what a person's policy needs, before anything is timed: the loop for a compiled
    one, for a plain one the pieces of the loop that Python calls (kept on disk).
    """
    if policy_code(resolved.policy) >= 0:
        return
    if in_plain_python(resolved.policy):
        kind = f"plain-{resolved.learner}-{compiled_kind(servers, dimension)}"
        if not is_warm(kind):
            tell(COMPILING)
            two_rounds(resolved, servers, dimension)
            mark_warm(kind)
    elif getattr(player(resolved.policy), "signatures", None) == []:
        tell(f"compiling policy {resolved.policy.name} (a few seconds, once per process)")
        two_rounds(resolved, servers, dimension)


def two_rounds(resolved: Resolved, servers: int, dimension: int) -> None:
    """Touch everything that simulating touches."""
    world = Scenario(servers=servers, dimension=dimension, slack_by="none")
    tally = new_tally(rounds=2, every=0, record=False, dimension=dimension)
    run_replica(resolved, world.instance(0, 0), make_key(0), tally, 2, threading.Event(), None)


def tell(text: str) -> None:
    """A line on stderr, at once."""
    sys.stderr.write(f"headway: {text}\n")
    sys.stderr.flush()
