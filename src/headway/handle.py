"""All records of a policy at work behind one handle, for calls from Python.

A call from Python takes every array of every record out of its box, one by one: 46 of them, eight
microseconds for a choice that takes half of one. A handle is one argument.
"""

from typing import Any, NamedTuple

import numpy as np
from numba import types
from numba.experimental import structref

from headway.compiled import borrowed, compiled, config
from headway.kernel.optimism import score_block
from headway.learners import learn
from headway.policies import choose
from headway.queue import add_job, refresh_server, remove_job
from headway.state import PAPER

FIELDS = ["params", "model", "clock", "queue", "key"]


class PlainHandle(NamedTuple):
    """A handle where nothing is compiled."""

    params: Any
    model: Any
    clock: Any
    queue: Any
    key: Any


class StructureType(types.StructRef):
    """The type of a handle that compiled code reads by one pointer."""

    def preprocess_fields(self, fields: Any) -> Any:
        """Fields of any value, not of a literal one."""
        return tuple((name, types.unliteral(kind)) for name, kind in fields)


class Structure(structref.StructRefProxy):
    """Params, model, clock, queue and key of a policy at work, for Python to read too."""

    def __init__(self, params: Any, model: Any, clock: Any, queue: Any, key: Any) -> None:
        self.params = params
        self.model = model
        self.clock = clock
        self.queue = queue
        self.key = key


if not config.DISABLE_JIT:
    structref.define_proxy(Structure, structref.register(StructureType), FIELDS)

# Handle(params, model, clock, queue, key). Its arrays are the records' own, not copies.
Handle: Any = PlainHandle if config.DISABLE_JIT else Structure


@compiled
def decide(handle):
    """The pair (job, server) that the built-in policy of the handle's params chooses."""
    return choose(
        handle.params, borrowed(handle.model), borrowed(handle.clock), borrowed(handle.queue),
        handle.key,
    )  # fmt: skip


@compiled
def update(handle, x, tries, server, success):
    """Learn one outcome and bring the cached columns up to date."""
    model = borrowed(handle.model)
    learn(handle.params, model, x, tries, server, success)
    refresh_server(handle.params, model, borrowed(handle.queue), server)


@compiled
def enter(handle, x, arrival, entered):
    """A job starts waiting (the queue has room). Returns its row."""
    return add_job(
        handle.params, borrowed(handle.model), borrowed(handle.queue), x, arrival, entered
    )


@compiled
def leave(handle, row):
    """A job leaves; the last row takes its place."""
    remove_job(borrowed(handle.queue), row)


@compiled
def score(handle, contexts):
    """Optimistic scores (jobs, servers) of any contexts (jobs, d), computed afresh."""
    model = borrowed(handle.model)
    out = np.empty((contexts.shape[0], model.theta.shape[0]))
    on_logit = handle.params.learner != PAPER
    for start in range(0, contexts.shape[0], 64):
        score_block(
            contexts[start : start + 64], model.theta, model.inverse, model.radius, on_logit,
            out[start : start + 64],
        )  # fmt: skip
    return out
