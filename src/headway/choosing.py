"""Ways to choose that policies share, over the records: optimism, exploration, Thompson draws."""

import math

import numpy as np

from headway.compiled import compiled, inlined
from headway.kernel.discounting import best_discounted_pair
from headway.kernel.exploration import count_free, next_free, uniform_free, uniform_job
from headway.kernel.linear import cholesky, dot
from headway.kernel.optimism import best_of_scores, best_pair
from headway.rng import EXPLORE, JOB, SAMPLE, SERVER, normal, normals, uniform
from headway.state import NO_MEMORY, PAPER


@inlined
def optimistic_pair(params, model, queue):
    """(job, server) with the best upper bound: on the paper's scale of probability for its own
    learner, on the logit for the others; with memory on probability, discounted for failures.
    """
    if params.memory != NO_MEMORY:
        return best_discounted_pair(
            queue.mean, queue.spread, queue.arrival, queue.attempts, queue.failures,
            queue.length[0], queue.free, model.radius, params.penalty, model.stickiness,
            model.discounts,
        )  # fmt: skip
    return best_pair(
        queue.mean,
        queue.spread,
        queue.arrival,
        queue.length[0],
        queue.free,
        model.radius,
        params.learner != PAPER,
    )


@inlined
def best_known_pair(queue):
    """The pair with the largest known rate, then the job that arrived first.

    In the paper's world that number is fixed when the job arrives, and it is compared exactly: a
    total order on jobs, which the coupling lemma needs. (With some servers busy, the maximum is
    over the free ones.)
    """
    job = 0
    server = 0
    best = -np.inf
    for j in range(queue.length[0]):
        for k in range(queue.free.shape[0]):
            value = queue.mean[j, k]
            if queue.free[k] and (
                value > best or (value == best and queue.arrival[j] < queue.arrival[job])
            ):
                best = value
                job = j
                server = k
    return job, server


@inlined
def uniform_pair(queue, key, t):
    """A uniform job and a uniform free server: two draws of this round."""
    job = uniform_job(queue.arrival, queue.length[0], uniform(key, JOB, t, 0))
    return job, uniform_free(queue.free, uniform(key, SERVER, t, 0))


@inlined
def burn_in_pair(clock, queue):
    """The job that just arrived and the next server in turn; only here the pointer moves."""
    server = next_free(queue.free, clock.next_server[0])
    clock.next_server[0] = (server + 1) % queue.free.shape[0]
    clock.explored[0] = True
    clock.propensity[0] = 1.0
    return queue.newest[0], server


@inlined
def optimistic_or_new(params, model, clock, queue, key, explore_prob):
    """The optimistic pair; after an arrival, with this probability, the new job anywhere.

    The coin is the previous round's, E(t-1), as the arrival is.
    """
    t = clock.round[0]
    newest = queue.newest[0]
    job, server = optimistic_pair(params, model, queue)
    clock.explored[0] = False
    clock.propensity[0] = 1.0
    if newest < 0 or explore_prob <= 0.0:
        return job, server
    best = (job, server)
    if uniform(key, EXPLORE, t - 1, 0) < explore_prob:
        job = newest
        server = uniform_free(queue.free, uniform(key, SERVER, t, 0))
        clock.explored[0] = True
    clock.propensity[0] = explore_prob / count_free(queue.free) if job == newest else 0.0
    if job == best[0] and server == best[1]:
        clock.propensity[0] += 1.0 - explore_prob
    return job, server


@inlined
def sample_width(params, model, server):
    """Deviations of a Thompson draw, on the logit, to one of uncertainty: the learner's radius,
    which the paper's learner states on probability and its appendix divides by R.
    """
    radius = model.radius[server]
    return radius / params.slope_max if params.learner == PAPER else radius


@inlined
def sampled_pair(params, model, queue, key, t):
    """The best of independent draws, one for each (job, server), around the cached columns.

    A draw belongs to (round, arrival number, server): storage order cannot change it. Servers
    2i and 2i + 1 take the two normals of one draw.
    """
    servers = queue.free.shape[0]
    length = queue.length[0]
    score = np.empty((servers, length))
    for k in range(0, servers, 2):
        other = min(k + 1, servers - 1)
        width = sample_width(params, model, k)
        other_width = sample_width(params, model, other)
        for j in range(length):
            one, two = normals(key, SAMPLE, t, queue.arrival[j] * servers + k)
            score[other, j] = queue.mean[j, other] + other_width * queue.spread[j, other] * two
            score[k, j] = queue.mean[j, k] + width * queue.spread[j, k] * one
    return best_of_scores(score, queue.arrival, queue.free)


@inlined
def sampled_parameters_pair(params, model, queue, key, t):
    """The best score under one drawn parameter for each server."""
    servers, dimension = model.theta.shape
    length = queue.length[0]
    score = np.zeros((servers, length))
    theta = np.empty(dimension)
    for k in range(servers):
        if queue.free[k]:
            draw_parameter(
                model.theta[k], model.inverse[k], sample_width(params, model, k), key, t, k, theta
            )
            for i in range(dimension):
                column = queue.context[:, i]
                weight = theta[i]
                for j in range(length):
                    score[k, j] += column[j] * weight
    return best_of_scores(score, queue.arrival, queue.free)


@compiled
def draw_parameter(mean, covariance, width, key, t, server, theta):
    """Theta = mean + width * L z, L L' = covariance."""
    d = mean.shape[0]
    lower = np.zeros((d, d))
    z = np.empty(d)
    for i in range(d):
        z[i] = normal(key, SAMPLE, t, server * d + i)
        theta[i] = mean[i]
    if cholesky(covariance, 0.0, lower):
        for i in range(d):
            theta[i] += width * dot(lower[i], z)


@inlined
def first_in_or_uniform(clock, queue, key):
    """Q-UCB and Q-ThS: the job that came first, and whether this round explores, which it does
    with probability min(1, 3 K ln(t)^2 / t). Returns the job, the server or -1, the probability.
    """
    t = clock.round[0]
    job = 0
    for j in range(1, queue.length[0]):
        if queue.arrival[j] < queue.arrival[job]:
            job = j
    rate = min(1.0, 3.0 * queue.free.shape[0] * math.log(t) ** 2 / t)
    clock.explored[0] = uniform(key, EXPLORE, t, 0) < rate
    server = -1
    if clock.explored[0]:
        server = uniform_free(queue.free, uniform(key, SERVER, t, 0))
    return job, server, rate
