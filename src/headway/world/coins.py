"""Worlds in which attempts remember: how often a job really succeeds at a server, the coin of an
attempt, and what one who knows all but the coins expects after failures.

Three kinds, each the paper's world at its neutral value: coins that repeat (`stickiness` 0),
rates of a pair drawn once around the model's (`concentration` infinite), a job's own effect on all
its logits (`job_effect` 0).
"""

import math

import numpy as np

from headway.compiled import compiled, inlined
from headway.kernel.logistic import sigmoid
from headway.kernel.normal import NODES, WEIGHTS, normal_cdf, normal_quantile
from headway.rng import EFFECT, PAIR, RATE, log_gamma, normal, uniform


@inlined
def remembers(problem):
    """Is an attempt more than a fresh coin of the model's rate?"""
    return problem.stickiness > 0.0 or problem.concentration < np.inf or problem.job_effect > 0.0


@compiled
def beta_rate(key, number, index, rate, concentration):
    """One Beta(rate c, (1 - rate) c), for parameters of any size; 0 or 1 where c is 0."""
    if concentration <= 0.0:
        return 1.0 if uniform(key, RATE, number, index) < rate else 0.0
    up = log_gamma(key, RATE, number, 2 * index, rate * concentration)
    down = log_gamma(key, RATE, number, 2 * index + 1, (1.0 - rate) * concentration)
    return sigmoid(up - down)


@compiled
def pair_rate(key, number, server, rates, concentration, solvable):
    """The rate of a pair, drawn once: all servers' rates are drawn again until one is `solvable`
    or more, the attempt counted by job.
    """
    servers = rates.shape[0]
    for attempt in range(1000):
        best = 0.0
        mine = 0.0
        for k in range(servers):
            rate = beta_rate(key, number, attempt * servers + k, rates[k], concentration)
            best = max(best, rate)
            if k == server:
                mine = rate
        if best >= solvable:
            return mine
    return rates[server]


@compiled
def job_logit(key, number, rate, job_effect):
    """The logit of a rate with the job's own effect."""
    return math.log(rate / (1.0 - rate)) + job_effect * normal(key, EFFECT, number, 0)


@compiled
def sticky_coin(key, number, server, coin, stickiness):
    """Phi(sqrt(s) Z[job, server] + sqrt(1 - s) Phi^-1(coin)): uniform again, and repeating."""
    kept = math.sqrt(stickiness) * normal(key, PAIR, number, server)
    if stickiness >= 1.0:
        return normal_cdf(kept)
    return normal_cdf(kept + math.sqrt(1.0 - stickiness) * normal_quantile(coin))


@compiled
def sticky_rate(z, rate, stickiness):
    """How often a pair with this Z succeeds."""
    edge = normal_quantile(rate) - math.sqrt(stickiness) * z
    if stickiness >= 1.0:
        return 1.0 if edge >= 0.0 else 0.0
    return normal_cdf(edge / math.sqrt(1.0 - stickiness))


@compiled
def expected_sticky(rate, failures, stickiness):
    """The chance of success after so many failures of this pair, Z unknown."""
    weight = 0.0
    total = 0.0
    for i in range(NODES.shape[0]):
        chance = sticky_rate(NODES[i], rate, stickiness)
        share = WEIGHTS[i] * (1.0 - chance) ** failures
        weight += share
        total += share * chance
    return total / weight if weight > 0.0 else 0.0


@compiled
def expected_with_effect(rates, server, attempts, job_effect):
    """The chance of success after failures at all servers, the job's effect unknown."""
    weight = 0.0
    total = 0.0
    for i in range(NODES.shape[0]):
        log_share = 0.0
        chance = 0.0
        for k in range(rates.shape[0]):
            z = math.log(rates[k] / (1.0 - rates[k])) + job_effect * NODES[i]
            if attempts[k] > 0:
                log_share += attempts[k] * math.log(sigmoid(-z))
            if k == server:
                chance = sigmoid(z)
        share = WEIGHTS[i] * math.exp(max(log_share, -700.0))
        weight += share
        total += share * chance
    return total / weight if weight > 0.0 else 0.0
