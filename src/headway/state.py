"""The records that policies read and write, as NamedTuples of arrays, and their bytes.

`Params` never changes during a run, `Model` is what was learned, `Clock` is what choosing
remembers, `Queue` is who waits. Compiled code reads all of them; their fields never depend on the
policy, so no setting ever recompiles anything.
"""

import hashlib
import json
import math
import struct
from typing import Literal, NamedTuple, TypeVar

import numpy as np
from numpy.typing import NDArray

from headway.errors import HeadwayError
from headway.kernel.logistic import BLOCK
from headway.kernel.memory import LINE, on_a_line

Floats = NDArray[np.float64]
Integers = NDArray[np.int64]
Flags = NDArray[np.bool_]
Record = TypeVar("Record", bound=tuple[object, ...])

# Learners, as compiled code knows them.
NONE, PAPER, LIKELIHOOD, TRUTH, LAPLACE, REALISED = 0, 1, 2, 3, 4, 5
# Memory of failed attempts, likewise.
NO_MEMORY, LEARNED, PENALTY = 0, 1, 2
MEMORIES = {"none": NO_MEMORY, "learned": LEARNED, "penalty": PENALTY}
LEARNERS = {
    "none": NONE,
    "paper": PAPER,
    "likelihood": LIKELIHOOD,
    "truth": TRUTH,
    "laplace": LAPLACE,
    "realised": REALISED,
}
KNOWING = ("truth", "realised")  # no learners: who knows the rates, or what became of them
LEARN_NOTHING = ("none", *KNOWING)


class Params(NamedTuple):
    """Settings of every policy and learner; NaN = not used by this one."""

    learner: int = NONE
    policy: int = -1  # its place in the table of policies, -1 = a person's own
    norm_bound: float = np.nan  # S: no server's theta_star is longer
    failure_prob: float = np.nan  # delta: the confidence sets may fail together this often
    kappa: float = np.nan  # 1/kappa is a lower bound of mu' (learner `paper`)
    ridge: float = np.nan  # lambda and lambda_0, one number (learner `paper`)
    projection_ridge: float = np.nan  # 0, or the ridge kept in the projection's sum
    beta_scale: float = np.nan  # multiplies eq. (beta); 1 is the theorem
    width: float = np.nan  # multiplies the posterior's deviation (learner `laplace`)
    explore_prob: float = np.nan  # the exploration coin
    burn_in_rounds: float = np.nan  # tau: rounds of pure exploration
    cutoff_round: float = np.nan  # the last round that may explore (CQB-eta-2)
    forced_rate: float = np.nan  # c: round t is forced with probability c / sqrt(t) (ACQB)
    slope_max: float = np.nan  # R: the largest slope of mu, by which CQB-TS widens its draws
    memory: int = 0  # of failed attempts: none, learned or penalty
    fresh_prior: float = np.nan  # prior weight of attempts that are fresh coins (learned memory)
    penalty: float = 0.0  # taken off the score for each failure on this server; never NaN
    keep: float = 1.0  # of the evidence on stickiness, at each repeat; 1 = all
    own_1: float = np.nan  # settings that only a person's own policy knows, in its order
    own_2: float = np.nan
    own_3: float = np.nan
    own_4: float = np.nan


class Model(NamedTuple):
    """What was learned, by server. What a learner does not use has a zero-length axis."""

    updates: Integers  # (K,) outcomes learned
    successes: Integers  # (K,) successes among them
    theta: Floats  # (K, d) the estimate that scores use
    inverse: Floats  # (K, d, d) inverse design matrix: uncertainty^2 = x' inverse x
    radius: Floats  # (K,) multiplies the uncertainty
    step: Floats  # (K, d) the last change: inverse lost step_scale * step step'
    step_scale: Floats  # (K,)
    squared_radius: Floats  # (K,) likelihood: rho^2 of the chain
    event_failed: Flags  # (K,) likelihood: no parameter can explain the outcomes
    mean: Floats  # (K, d) likelihood: the forecaster's mean
    covariance: Floats  # (K, d, d) and covariance
    design: Floats  # (K, d, d) paper: V
    mle: Floats  # (K, d) paper: the ridge MLE before projection
    curvature: Floats  # (K, d, d) paper: inverse Hessian, about, at the MLE
    stickiness: Floats  # (1, 36) learned memory: posterior of how failures repeat
    discounts: Floats  # (1, 36) and its table of F(m, n)
    repeats: Floats  # (1, 3) attempts of jobs that had failed, successes, successes expected
    history: Floats  # (K, blocks, d, 64) paper: every context served, negated on success


class Clock(NamedTuple):
    """What choosing may write."""

    round: Integers  # (1,) from 1
    next_server: Integers  # (1,) the round-robin pointer
    explored: Flags  # (1,) was the last choice an exploration?
    propensity: Floats  # (1,) its probability given the past; NaN where it cannot be computed


class Queue(NamedTuple):
    """Who waits: rows 0..length-1, in no particular order. Only drivers write it."""

    context: Floats  # (n, d), column-major: loops over jobs are vectorised
    arrival: Integers  # (n,) arrival number: unique, increasing
    entered: Integers  # (n,) the round at whose end the job entered
    attempts: Integers  # (n, K) failed tries of this job on this server
    failures: Integers  # (n,) and on all servers
    mean: Floats  # (n, K), column-major: cached x . theta
    spread: Floats  # (n, K), column-major: cached uncertainty
    length: Integers  # (1,) rows in use
    newest: Integers  # (1,) row of the job that came in the previous round and waits, else -1
    free: Flags  # (K,) servers that may be used now


def line_zeros(shape: tuple[int, ...], order: Literal["C", "F"] = "C") -> Floats:
    """Zeros of this shape, the first on a cache line."""
    array = np.reshape(on_a_line(math.prod(shape)), shape, order=order)
    array[:] = 0.0
    return array


def new_clock() -> Clock:
    """Before the first round."""
    return Clock(
        round=np.ones(1, np.int64),
        next_server=np.zeros(1, np.int64),
        explored=np.zeros(1, np.bool_),
        propensity=np.full(1, np.nan),
    )


def new_queue(servers: int, dimension: int, capacity: int = 64) -> Queue:
    """Nobody waits; room for `capacity` jobs or a few more: each column starts on a cache line."""
    capacity += -capacity % LINE
    return Queue(
        context=line_zeros((capacity, dimension), order="F"),
        arrival=np.zeros(capacity, np.int64),
        entered=np.zeros(capacity, np.int64),
        attempts=np.zeros((capacity, servers), np.int64),
        failures=np.zeros(capacity, np.int64),
        mean=line_zeros((capacity, servers), order="F"),
        spread=line_zeros((capacity, servers), order="F"),
        length=np.zeros(1, np.int64),
        newest=np.full(1, -1, np.int64),
        free=np.ones(servers, np.bool_),
    )


def roomier_queue(queue: Queue, capacity: int) -> Queue:
    """The same queue with room for at least `capacity` jobs."""
    have, dimension = queue.context.shape
    if have >= capacity:
        return queue
    larger = new_queue(queue.free.shape[0], dimension, max(capacity, 2 * have))
    for name in ("context", "arrival", "entered", "attempts", "failures", "mean", "spread"):
        getattr(larger, name)[:have] = getattr(queue, name)
    return larger._replace(length=queue.length, newest=queue.newest, free=queue.free)


def roomier_model(model: Model, outcomes: int) -> Model:
    """The same model with room for at least `outcomes` outcomes in each server's history."""
    servers, have, dimension, _ = model.history.shape
    wanted = -(-outcomes // BLOCK)
    if dimension == 0 or have >= wanted:
        return model
    history = line_zeros((servers, max(wanted, 2 * have), dimension, BLOCK))
    history[:, :have] = model.history
    return model._replace(history=history)


MAGIC = b"headway\x00"
VERSION = 2


def to_bytes(record: Record) -> bytes:
    """A record as bytes: magic, version, JSON head, raw arrays, checksum. It holds no code."""
    head = []
    body = []
    for name, value in zip(record._fields, record, strict=True):  # type: ignore[attr-defined]
        array = np.asarray(value)
        order = "C" if array.flags.c_contiguous else "F"
        head.append([name, array.dtype.str, list(array.shape), order])
        body.append(array.tobytes(order="A"))
    text = json.dumps([type(record).__name__, head]).encode()
    content = MAGIC + struct.pack("<II", VERSION, len(text)) + text + b"".join(body)
    return content + hashlib.blake2b(content, digest_size=16).digest()


def from_bytes(kind: type[Record], content: bytes) -> Record:
    """The record that `to_bytes` wrote; a clear error for anything else."""
    body, checksum = content[:-16], content[-16:]
    if not body.startswith(MAGIC):
        raise HeadwayError(f"these {len(content)} bytes are not a headway record")
    if hashlib.blake2b(body, digest_size=16).digest() != checksum:
        raise HeadwayError("the checksum does not match: the record is damaged or cut short")
    version, size = struct.unpack_from("<II", body, len(MAGIC))
    if version != VERSION:
        raise HeadwayError(
            f"record version {version} is not {VERSION}: use the headway version that wrote it"
        )
    start = len(MAGIC) + 8
    name, head = json.loads(body[start : start + size])
    fields = [each[0] for each in head]
    if name != kind.__name__ or fields != list(kind._fields):  # type: ignore[attr-defined]
        raise HeadwayError(f"the record is a {name} with fields {fields}, not a {kind.__name__}")
    start += size
    values: list[object] = []
    for _, dtype, shape, order in head:
        count = int(np.prod(shape, dtype=np.int64))
        flat = np.frombuffer(body, np.dtype(dtype), count, start)
        start += flat.nbytes
        array = flat.reshape(shape, order=order).copy(order=order)
        values.append(array if shape else array[()].item())
    return kind(*values)  # type: ignore[arg-type]
