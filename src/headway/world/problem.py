"""One problem: theta_star and every draw of its world, as compiled loops read it."""

from typing import NamedTuple

import numpy as np

from headway.compiled import compiled, inlined
from headway.kernel.linear import dot
from headway.kernel.logistic import sigmoid
from headway.rng import ARRIVAL, CONTEXT, SERVICE, fill_cube, fill_cubes, uniform
from headway.state import Flags, Floats

CUBE, TAPE = 0, 1
TRIED_AT_ONCE = 4


class Problem(NamedTuple):
    """A drawn problem (kind CUBE) or explicit arrays (kind TAPE)."""

    kind: int
    theta_star: Floats  # (K, d)
    arrival_rate: float
    least_logit: float  # contexts are redrawn until max_k x . theta_star_k is at least this
    scale: float  # multiplies a drawn context
    contexts: Floats  # (n, d) TAPE: row i is the i-th arriving job
    arrivals: Flags  # (T,) TAPE
    service: Floats  # (T,) TAPE


@inlined
def arrives(problem, key, t):
    """Does a job arrive at the end of round t (U[t,1] <= arrival rate)?"""
    if problem.kind == TAPE:
        return problem.arrivals[t - 1]
    return uniform(key, ARRIVAL, t, 0) < problem.arrival_rate


@inlined
def draw_context(problem, key, number, x):
    """The context of the number-th job. Attempts are counted by job: no policy can shift them."""
    if problem.kind == TAPE:
        for i in range(x.shape[0]):
            x[i] = problem.contexts[number, i]
        return
    attempt = 0
    if problem.least_logit > -np.inf:
        attempt = first_with_slack(problem, key, number)
    fill_cube(key, CONTEXT, number, attempt, x)
    for i in range(x.shape[0]):
        x[i] *= problem.scale


@compiled
def first_with_slack(problem, key, number):
    """The first attempt whose context satisfies the slack; a few are tried at once."""
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


@inlined
def succeeds(problem, key, t, x, server):
    """Does the server succeed in round t (U[t,2] <= mu)?"""
    rate = sigmoid(dot(problem.theta_star[server], x))
    if problem.kind == TAPE:
        return problem.service[t - 1] <= rate
    return uniform(key, SERVICE, t, 0) <= rate
