"""One problem: theta_star and every draw of its world, as compiled loops read it."""

import math
from typing import NamedTuple

import numpy as np

from headway.compiled import compiled, inlined
from headway.kernel.ellipsoid import uncertainty
from headway.kernel.linear import copy_row, dot
from headway.kernel.logistic import sigmoid
from headway.rng import (
    ARRIVAL,
    BURST,
    CONTEXT,
    PICK,
    SERVICE,
    VECTOR,
    fill_cube,
    fill_cubes,
    fill_normal,
    uniform,
)
from headway.state import TRUTH, Flags, Floats

# How contexts are made, and how jobs arrive; GIVEN = from arrays.
GIVEN, CUBE, BALL, GAUSSIAN, FINITE, ROTATING, SURPRISE, ADAPTIVE, ROWS = 0, 1, 2, 3, 4, 5, 6, 7, 8
BERNOULLI, BURSTY, PERIODIC = 1, 2, 3
TRIED_AT_ONCE = 4
CANDIDATES = 8  # of an adaptive world, for each job
RADIUS = 2**40  # indices of a stream that no component reaches


class Problem(NamedTuple):
    """A drawn problem; where a kind is GIVEN, explicit arrays (a tape)."""

    theta_star: Floats  # (K, d)
    contexts_by: int = GIVEN
    least_logit: float = -math.inf  # contexts are redrawn until max_k x . theta_star_k is so much
    scale: float = 1.0  # multiplies a drawn context
    active: int = 0  # ROTATING, SURPRISE: so many components are not zero
    turn: int = 1  # ROTATING: rounds until they move on; SURPRISE: the round of it
    vectors: int = 1  # FINITE: how many
    arrivals_by: int = GIVEN
    arrival_rate: float = math.nan
    swing: float = 0.0  # BURSTY, PERIODIC: how far the rate leaves its mean
    period: int = 1  # BURSTY, PERIODIC: rounds
    service_given: bool = False
    contexts: Floats = np.empty((0, 1))  # (n, d) GIVEN: row i is the i-th arriving job; ROWS: any
    rates: Floats = np.empty((0, 1))  # (n, K) ROWS: success rates; none = by theta_star
    arrivals: Flags = np.empty(0, np.bool_)  # (T,) GIVEN
    service: Floats = np.empty(0)  # (T,) GIVEN


class Instance(NamedTuple):
    """A problem and how it was found."""

    problem: Problem
    redraws: int = 0  # of theta_star
    acceptance: float = 1.0  # share of contexts that satisfy the slack, in the worst phase


@inlined
def arrives(problem, key, t):
    """Does a job arrive at the end of round t (U[t,1] <= arrival rate)?"""
    if problem.arrivals_by == GIVEN:
        return problem.arrivals[t - 1]
    rate = problem.arrival_rate
    if problem.arrivals_by == BURSTY:
        busy = uniform(key, BURST, (t - 1) // problem.period, 0) < 0.5
        rate += problem.swing if busy else -problem.swing
    elif problem.arrivals_by == PERIODIC:
        rate += problem.swing * math.sin(2.0 * math.pi * t / problem.period)
    return uniform(key, ARRIVAL, t, 0) < rate


@inlined
def draw_context(problem, inverse, radius, key, t, number, x):
    """The context of the number-th job, which arrives in round t.

    Attempts are counted by job: no policy can shift them. Only an adaptive world looks at what
    was learned, the model's `inverse` and `radius`.
    """
    if problem.contexts_by == GIVEN:
        copy_row(problem.contexts, number, x)
    elif problem.contexts_by == CUBE:
        attempt = 0
        if problem.least_logit > -np.inf:
            attempt = first_with_slack(problem, key, number)
        fill_cube(key, CONTEXT, number, attempt, x)
        for i in range(x.shape[0]):
            x[i] *= problem.scale
    elif problem.contexts_by == ROWS:
        copy_row(problem.contexts, row_of(problem, key, number), x)
    elif problem.contexts_by == FINITE:
        vector = min(int(uniform(key, PICK, number, 0) * problem.vectors), problem.vectors - 1)
        next_with_slack(problem, key, VECTOR, t, vector, 0, x)
    elif problem.contexts_by == ADAPTIVE:
        most_uncertain(problem, inverse, radius, key, t, number, x)
    else:
        next_with_slack(problem, key, CONTEXT, t, number, 0, x)


@compiled
def first_with_slack(problem, key, number):
    """CUBE: the first attempt whose context satisfies the slack; a few are tried at once."""
    servers, dimension = problem.theta_star.shape
    trial = np.empty((4 * ((dimension + 3) // 4), TRIED_AT_ONCE))
    first = 0
    while True:
        fill_cubes(key, CONTEXT, number, first, trial)
        for a in range(TRIED_AT_ONCE):
            for k in range(servers):
                value = 0.0
                for i in range(dimension):
                    value += trial[i, a] * problem.theta_star[k, i]
                if value * problem.scale >= problem.least_logit:
                    return first + a
        first += TRIED_AT_ONCE


@compiled
def propose(problem, key, stream, t, number, attempt, x):
    """One context of the world's kind for round t, slack or not."""
    d = x.shape[0]
    if problem.contexts_by == GAUSSIAN:
        fill_normal(key, stream, number, attempt, x)
    elif problem.contexts_by == BALL:
        fill_normal(key, stream, number, attempt, x)
        share = uniform(key, stream, number, RADIUS + attempt) ** (1.0 / d)
        size = math.sqrt(d) * share / math.sqrt(dot(x, x))
        for i in range(d):
            x[i] *= size
    else:
        fill_cube(key, stream, number, attempt, x)
    if problem.contexts_by in (ROTATING, SURPRISE):
        keep_active(problem, t, x)
    for i in range(d):
        x[i] *= problem.scale


@compiled
def keep_active(problem, t, x):
    """Zero outside the components that are active in round t; the norm's bound stays sqrt(d)."""
    d = x.shape[0]
    start = 0
    count = problem.active
    if problem.contexts_by == ROTATING:
        start = ((t - 1) // problem.turn) % d
    elif t >= problem.turn:
        start = count
        count = d - count
    for i in range(d):
        inside = (i - start + d) % d < count
        x[i] *= math.sqrt(d / count) if inside else 0.0


@compiled
def has_slack(problem, x):
    """Does some server succeed on x with arrival rate + slack or more?"""
    for k in range(problem.theta_star.shape[0]):
        if dot(problem.theta_star[k], x) >= problem.least_logit:
            return True
    return False


@compiled
def next_with_slack(problem, key, stream, t, number, attempt, x):
    """The first attempt from this one on with slack; returns its number."""
    while True:
        propose(problem, key, stream, t, number, attempt, x)
        if has_slack(problem, x):
            return attempt
        attempt += 1


@compiled
def most_uncertain(problem, inverse, radius, key, t, number, x):
    """ADAPTIVE: of a few contexts with slack the one with the widest bound at any server."""
    trial = np.empty(x.shape[0])
    widest = -1.0
    attempt = 0
    for _ in range(CANDIDATES):
        attempt = next_with_slack(problem, key, CONTEXT, t, number, attempt, trial) + 1
        width = 0.0
        for k in range(inverse.shape[0]):
            width = max(width, radius[k] * uncertainty(inverse[k], trial))
        if width > widest:
            widest = width
            for i in range(x.shape[0]):
                x[i] = trial[i]


@compiled
def row_of(problem, key, number):
    """ROWS: which row the number-th job is."""
    count = problem.contexts.shape[0]
    return min(int(uniform(key, PICK, number, 0) * count), count - 1)


@inlined
def know_job(problem, params, queue, key, row):
    """For one who knows the success rates: where they are given, they are the job's means."""
    if params.learner == TRUTH and problem.rates.shape[0] > 0:
        true_row = row_of(problem, key, queue.arrival[row])
        for k in range(queue.free.shape[0]):
            queue.mean[row, k] = problem.rates[true_row, k]


@inlined
def succeeds(problem, key, t, number, x, server):
    """Does the server succeed with the number-th job in round t (U[t,2] <= mu)?"""
    if problem.rates.shape[0] > 0:  # 0 never succeeds, 1 always does
        return uniform(key, SERVICE, t, 0) < problem.rates[row_of(problem, key, number), server]
    rate = sigmoid(dot(problem.theta_star[server], x))
    if problem.service_given:
        return problem.service[t - 1] <= rate
    return uniform(key, SERVICE, t, 0) <= rate
