"""The compiled loop over rounds, and what it counts.

It is called for a stretch of rounds at a time. Between two stretches Python makes room in the
queue and the history, shows progress and can stop; the loop itself never allocates a record.
"""

from typing import NamedTuple

import numpy as np

from headway.compiled import borrowed, compiled, inlined
from headway.kernel.linear import copy, copy_row
from headway.learners import learn
from headway.policies import choose
from headway.queue import add_job, fail_job, refresh_server, remove_job
from headway.state import Floats, Integers
from headway.world.coins import remembers
from headway.world.problem import arrives, draw_context, know_job, succeeds

# Waiting times are counted one by one below 4096 rounds and in 2048 buckets an octave above:
# exact, then within 1/2048, in fixed memory.
EXACT_WAITS = 4096
OCTAVE = 2048
WAIT_BUCKETS = EXACT_WAITS + OCTAVE * 32


class Tally(NamedTuple):
    """What a run counts."""

    queue_total: Integers  # (1,) sum over rounds of the number waiting
    arrived: Integers  # (1,) jobs so far: the next arrival number
    served: Integers  # (1,) jobs that left
    waits: Integers  # (WAIT_BUCKETS,) rounds from entering to leaving
    columns: Integers  # queue length after rounds 0, every, 2 every, ...; length 0 = not kept
    every: Integers  # (1,)
    job: Integers  # (rounds,) or (0,): chosen arrival number by round, -1 = nothing chosen
    server: Integers
    success: Integers
    contexts: Floats  # (rounds, d) or (0, d): the contexts of the jobs that arrived
    refused: Integers  # (3,) round, job and server, once what was chosen is no pair


def new_tally(
    *, rounds: int, every: int, record: bool, dimension: int = 0, keep_contexts: bool = False
) -> Tally:
    """Nothing counted yet; `every` = 0 keeps no column."""
    kept = rounds if record else 0
    return Tally(
        queue_total=np.zeros(1, np.int64),
        arrived=np.zeros(1, np.int64),
        served=np.zeros(1, np.int64),
        waits=np.zeros(WAIT_BUCKETS, np.int64),
        columns=np.zeros(rounds // every + 1 if every else 0, np.int64),
        every=np.array([every], np.int64),
        job=np.full(kept, -1, np.int64),
        server=np.full(kept, -1, np.int64),
        success=np.full(kept, -1, np.int64),
        contexts=np.empty((rounds if keep_contexts else 0, dimension)),
        refused=np.zeros(3, np.int64),
    )


@compiled
def wait_bucket(wait):
    """Where a waiting time is counted."""
    if wait < EXACT_WAITS:
        return wait
    octave = 0
    while (wait >> octave) >= EXACT_WAITS:
        octave += 1
    return EXACT_WAITS + (octave - 1) * OCTAVE + (wait >> octave) - OCTAVE


def bucket_wait(bucket: int) -> int:
    """The shortest waiting time counted in a bucket."""
    if bucket < EXACT_WAITS:
        return bucket
    octave, place = divmod(bucket - EXACT_WAITS, OCTAVE)
    return (place + OCTAVE) << (octave + 1)


@inlined
def play(choose, learn, params, model, clock, queue, key, problem, tally, last):
    """Rounds clock.round..last of the policy with these two functions. In plain Python it is the
    same program, for policies in plain Python.

    It stops in the round in which the policy chooses a row or a server that there is not: compiled
    code checks no index.
    """
    x = np.empty(queue.context.shape[1])
    tries = np.empty(queue.free.shape[0], np.int64)
    for t in range(clock.round[0], last + 1):
        clock.round[0] = t
        if queue.length[0] > 0:
            job, server = choose(params, model, clock, queue, key)
            if not (0 <= job < queue.length[0] and 0 <= server < queue.free.shape[0]):
                tally.refused[0] = t
                tally.refused[1] = job
                tally.refused[2] = server
                break
            copy_row(queue.context, job, x)
            copy_row(queue.attempts, job, tries)
            success = succeeds(problem, key, t, queue.arrival[job], x, server)
            if tally.job.shape[0] > 0:
                tally.job[t - 1] = queue.arrival[job]
                tally.server[t - 1] = server
                tally.success[t - 1] = 1 if success else 0
            if success:
                tally.served[0] += 1
                tally.waits[wait_bucket(t - queue.entered[job])] += 1
                remove_job(queue, job)
            else:
                fail_job(queue, job, server)
                if remembers(problem):
                    know_job(problem, params, queue, key, job)
            learn(params, model, x, tries, server, success)
            refresh_server(params, model, queue, server)
        queue.newest[0] = -1
        if arrives(problem, key, t):
            draw_context(problem, model.inverse, model.radius, key, t, tally.arrived[0], x)
            if tally.contexts.shape[0] > 0:
                copy(x, tally.contexts[tally.arrived[0]])
            queue.newest[0] = add_job(params, model, queue, x, tally.arrived[0], t)
            know_job(problem, params, queue, key, queue.newest[0])
            tally.arrived[0] += 1
        tally.queue_total[0] += queue.length[0]
        if tally.every[0] > 0 and t % tally.every[0] == 0:
            tally.columns[t // tally.every[0]] = queue.length[0]
    clock.round[0] = last + 1


@compiled
def rollout(params, model, clock, queue, key, problem, tally, last):
    """`play` for the built-in policy that params names: one program for all of them."""
    play(
        choose, learn, params, borrowed(model), borrowed(clock), borrowed(queue), key,
        borrowed(problem), borrowed(tally), last,
    )  # fmt: skip
