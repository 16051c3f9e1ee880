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
    PAIR,
    PICK,
    SERVICE,
    VECTOR,
    fill_cube,
    fill_cubes,
    fill_normal,
    normal,
    uniform,
)
from headway.state import REALISED, TRUTH, Flags, Floats
from headway.world.coins import (
    expected_sticky,
    expected_with_effect,
    job_logit,
    pair_rate,
    remembers,
    sticky_coin,
    sticky_rate,
)

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
    stickiness: float = 0.0  # of the coins of a pair
    concentration: float = math.inf  # of a pair's rate around the model's
    job_effect: float = 0.0  # deviation of a job's own effect on its logits
    solvable: float = 0.0  # pair rates are redrawn until one is so large
    service_given: bool = False
    contexts: Floats = np.empty((0, 1))  # (n, d) GIVEN: row i is the i-th arriving job; ROWS: any
    rates: Floats = np.empty((0, 1))  # (n, K) ROWS: success rates; none = by theta_star
    known: Floats = np.empty((0, 1))  # (n, K) ROWS: what is known of them; none = themselves
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
def model_rates(problem, key, number, x, known, out):
    """The success rate of a job at every server as the model has it, or as it is known."""
    row = row_of(problem, key, number) if problem.rates.shape[0] > 0 else 0
    for k in range(out.shape[0]):
        if problem.rates.shape[0] == 0:
            out[k] = sigmoid(dot(problem.theta_star[k], x))
        elif known and problem.known.shape[0] > 0:
            out[k] = problem.known[row, k]
        else:
            out[k] = problem.rates[row, k]


@inlined
def know_job(problem, params, queue, key, row):
    """For one who knows the success rates: the chance of the job's next attempt at every server,
    given its failures; for one who knows what became of them, the realised rate. In the paper's
    world the logit of both is the job's cached mean already.
    """
    if params.learner in (TRUTH, REALISED) and (remembers(problem) or problem.rates.shape[0] > 0):
        servers = queue.free.shape[0]
        x = np.empty(queue.context.shape[1])
        rates = np.empty(servers)
        copy_row(queue.context, row, x)
        number = queue.arrival[row]
        knows_all = params.learner == REALISED
        model_rates(problem, key, number, x, not knows_all, rates)
        for k in range(servers):
            if knows_all:
                queue.mean[row, k] = realised_rate(problem, key, number, rates, k)
            else:
                queue.mean[row, k] = expected_rate(problem, rates, queue.attempts[row], k)


@inlined
def realised_rate(problem, key, number, rates, server):
    """How often this job really succeeds at this server."""
    rate = rates[server]
    if problem.rates.shape[0] > 0:
        return rate
    if problem.concentration < np.inf:
        return pair_rate(key, number, server, rates, problem.concentration, problem.solvable)
    if problem.job_effect > 0.0:
        return sigmoid(job_logit(key, number, rate, problem.job_effect))
    if problem.stickiness > 0.0:
        return sticky_rate(normal(key, PAIR, number, server), rate, problem.stickiness)
    return rate


@inlined
def expected_rate(problem, rates, attempts, server):
    """The chance of an attempt after these failures, to one who knows all but the draws."""
    rate = rates[server]
    failures = attempts[server]
    if problem.concentration < np.inf:
        if failures == 0:
            return rate
        return rate * problem.concentration / (problem.concentration + failures)
    if problem.job_effect > 0.0:
        return expected_with_effect(rates, server, attempts, problem.job_effect)
    if problem.stickiness > 0.0:
        return expected_sticky(rate, failures, problem.stickiness)
    return rate


@inlined
def succeeds(problem, key, t, number, x, server):
    """Does the server succeed with the number-th job in round t (U[t,2] <= mu)?"""
    if problem.rates.shape[0] > 0:  # 0 never succeeds, 1 always does
        return uniform(key, SERVICE, t, 0) < problem.rates[row_of(problem, key, number), server]
    if problem.service_given:
        return problem.service[t - 1] <= sigmoid(dot(problem.theta_star[server], x))
    if remembers(problem):
        return succeeds_again(problem, key, t, number, x, server)
    return uniform(key, SERVICE, t, 0) <= sigmoid(dot(problem.theta_star[server], x))


@compiled
def succeeds_again(problem, key, t, number, x, server):
    """`succeeds` where attempts remember."""
    rates = np.empty(problem.theta_star.shape[0])
    model_rates(problem, key, number, x, False, rates)
    coin = uniform(key, SERVICE, t, 0)
    if problem.stickiness > 0.0:
        return sticky_coin(key, number, server, coin, problem.stickiness) <= rates[server]
    return coin <= realised_rate(problem, key, number, rates, server)
