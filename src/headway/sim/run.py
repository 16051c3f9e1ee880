"""`simulate`: replicas of one policy on one world, and what a run returns."""

import functools
import math
import os
import sys
import textwrap
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
from headway.settings import (
    MOST_REPLICAS,
    Resolved,
    as_number,
    policy_code,
    resolve,
    whole_number,
)
from headway.sim.drive import in_plain_python, player
from headway.sim.rollout import Tally, bucket_wait, new_tally, wait_bucket
from headway.state import (
    KNOWING,
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
STRETCH = 2048  # rounds between two chances to stop, at most
SHORT_STRETCH = 256  # at first: a round may take long
LONG_WAIT = 0.25  # seconds of a stretch after which the next is shorter
Advance = Callable[[int], None]  # told how many rounds were done


class Final(NamedTuple):
    """What is kept of a replica when it is done: no more than the result holds."""

    tally: Tally
    length: int  # jobs that still wait
    event_failed: int  # servers
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
    waits: NDArray[Any]  # (replicas, buckets): jobs by waiting time, up to the longest
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
        if as_number(replica) is None or not 0 <= replica < self.replicas:
            raise HeadwayError(f"replica {replica} must be one of 0..{self.replicas - 1}")
        if isinstance(self.world, Tape):
            return self.world
        if self.instances[replica].problem.rates.size:
            raise HeadwayError("a table of outcomes has no theta_star, so no tape can hold it")
        if self.world.remembers:
            raise HeadwayError("attempts that remember have no tape: it holds one coin a round")
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
        number = as_number(share)
        if number is None or not 0.0 <= number <= 1.0:
            raise HeadwayError(f"share {share!r} must be in [0, 1]: 0.99 is the p99")
        found = np.zeros(self.replicas, np.int64)
        for replica, waits in enumerate(self.waits):
            below = np.cumsum(waits, dtype=np.int64)
            if below.size and below[-1]:
                wanted = max(math.ceil(number * int(below[-1])), 1)
                found[replica] = bucket_wait(int(np.searchsorted(below, wanted)))
        return found


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
    rounds, replicas, seed = int(rounds), int(replicas), int(seed)
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
    """Refuse sizes that make no sense, by name, and what is no world."""
    if not isinstance(world, World):
        raise HeadwayError(f"world {world!r} must be a headway.Scenario, Tape or Outcomes")
    whole_number("rounds", rounds)
    whole_number("replicas", replicas, 1, MOST_REPLICAS)
    whole_number("seed", seed, 0, 2**64)
    whole_number("first_replica", first_replica, 0, MOST_REPLICAS)
    whole_number("every", 1 if every == "final" else every)
    whole_number("threads", 1 if threads is None else threads)
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
    if resolved.learner in KNOWING:
        model.theta[:] = instance.problem.theta_star
    queue = new_queue(servers, dimension)
    clock = new_clock()
    play_rounds = player(resolved.policy)
    start = time.thread_time()
    done = 0
    stretch = SHORT_STRETCH
    while done < rounds and not stop.is_set():
        began = time.perf_counter()
        last = min(done + stretch, rounds)
        queue = roomier_queue(queue, int(queue.length[0]) + last - done)
        model = roomier_model(model, int(model.updates.max()) + last - done)
        try:
            play_rounds(resolved.params, model, clock, queue, key, instance.problem, tally, last)
        except Exception as problem:
            if policy_code(resolved.policy) >= 0:
                raise
            raise failed_policy(resolved.policy, problem, int(clock.round[0])) from problem
        if tally.refused[0]:
            raise no_pair(resolved, model, queue, tally)
        if advance:
            advance(last - done)
        done = last
        quick = time.perf_counter() - began < LONG_WAIT
        stretch = min(2 * stretch, STRETCH) if quick else max(stretch // 4, 1)
    for entered in queue.entered[: queue.length[0]]:  # who still waits counts at its age
        tally.waits[wait_bucket(int(rounds - entered))] += 1
    seconds = time.thread_time() - start
    return Final(compact(tally), int(queue.length[0]), int(model.event_failed.sum()), seconds)


def compact(tally: Tally) -> Tally:
    """The tally in little memory: a comparison keeps thousands of them."""
    used = np.flatnonzero(tally.waits)
    waits = tally.waits[: used[-1] + 1 if used.size else 0]
    return tally._replace(
        waits=waits.astype(np.min_scalar_type(waits.max(initial=0))),
        columns=tally.columns.astype(np.int32),
        contexts=tally.contexts[: tally.arrived[0]].copy(),
    )


def no_pair(resolved: Resolved, model: Model, queue: Queue, tally: Tally) -> HeadwayError:
    """Why a run stopped at a choice that is none, in a sentence."""
    t, job, server = tally.refused
    said = (
        f"policy {resolved.policy.name} chose job {job}, server {server} in round {t}, but "
        f"{queue.length[0]} jobs wait (rows from 0) at {queue.free.shape[0]} servers"
    )
    lost = [
        name
        for name in ("theta", "inverse", "radius")
        if not np.isfinite(getattr(model, name)).all()
    ]
    if lost:
        return HeadwayError(
            f"{said}: learner {resolved.learner} holds NaN or infinity in {', '.join(lost)}; "
            "choose less extreme settings or contexts"
        )
    return HeadwayError(
        f"{said}: what learner {resolved.learner} holds is finite, so correct the policy's choose"
    )


def failed_policy(policy: Policy, problem: Exception, t: int) -> HeadwayError:
    """What a person's own function raised, in a sentence."""
    return HeadwayError(
        f"policy {policy.name} failed in round {t}: {type(problem).__name__}: "
        f"{textwrap.shorten(str(problem), 200)}"
    )


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
    final = np.array([each.length for each in finals])
    event_failed = np.array([each.event_failed for each in finals])
    waits = [each.tally.waits for each in finals]
    padded = np.zeros(
        (len(waits), max(map(len, waits))), np.result_type(*{each.dtype for each in waits})
    )
    for row, counts in zip(padded, waits, strict=True):
        row[: len(counts)] = counts
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
        waits=padded,
        served=np.array([each.tally.served[0] for each in finals]),
        redraws=np.array([each.redraws for each in drawn]),
        acceptance=np.array([each.acceptance for each in drawn]),
        event_failed=event_failed,
        rounds_per_second=rounds * len(finals) / max(seconds, 1e-9),
        remarks=(
            *resolved.remarks,
            *speed_remark(resolved.policy),
            *failure_remark(resolved, event_failed),
        ),
        job=np.array([each.tally.job for each in finals]) if recorded else None,
        server=np.array([each.tally.server for each in finals]) if recorded else None,
        success=np.array([each.tally.success for each in finals]) if recorded else None,
        contexts=tuple(each.tally.contexts for each in finals)
        if any(each.problem.contexts_by == ADAPTIVE for each in drawn)
        else None,
    )


def speed_remark(policy: Policy) -> tuple[str, ...]:
    """Plain Python is said to be slow."""
    if not in_plain_python(policy):
        return ()
    return (f"{policy.name} is plain Python and runs at its speed: @numba.njit makes it quicker",)


def failure_remark(resolved: Resolved, event_failed: Integers) -> tuple[str, ...]:
    """What it means that a confidence set became empty."""
    failed = int(event_failed.sum())
    if not failed:
        return ()
    return (
        f"{resolved.policy.name}: at {failed} servers (in {np.count_nonzero(event_failed)} of "
        f"{event_failed.size} replicas) no parameter within norm_bound "
        f"{resolved.settings['norm_bound']:g} explains the outcomes, so nothing is guaranteed "
        "there: norm_bound is too small, or success is not logistic in the context",
    )


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
