"""Stickiness: what failed attempts of a job say about its next one.

A job that failed m times on this server and n times on all of them (this one included) succeeds
here with 1/(1 + s m + r n) times the chance of a first attempt: s is stickiness of the pair, r
hardness of the job, s = r = 0 fresh coins. Both are unknown and common to all jobs. The belief is
a posterior over a grid of 6 x 6 points, and F(m, n) = E[1/(1 + s m + r n)] the discount.

State: `weights` (rows, 36) the posterior, `table` (rows, 36) F for n <= 7, `evidence` (rows, 3);
one row for all servers, or one for each. Weights are kept as such, not as logarithms: an outcome
multiplies 36 numbers, and none falls below 1e-300, so a point can always come back.
"""

import math

import numpy as np

from headway.compiled import compiled
from headway.kernel.laplace import filter_step
from headway.kernel.linear import add_outer, dot
from headway.kernel.logistic import sigmoid
from headway.kernel.optimism import largest

SIDE = 6
# 0 and five geometric points from 0.05 to 50, for s and for r.
GRID = np.array([0.0, 0.05, 0.2811706625951745, 1.5811388300841898, 8.891397050194614, 50.0])
POINTS = SIDE * SIDE
STICKY = np.repeat(GRID, SIDE)  # s of each point
HARD = np.tile(GRID, SIDE)  # r of each point
DEPTH = 7  # the table reaches to n = 7; (m, n) has place n (n + 1) / 2 + m in it
PLACES = (DEPTH + 1) * (DEPTH + 2) // 2
DEEPEST = DEPTH * (DEPTH + 1) // 2
TABLE_N = np.repeat(np.arange(DEPTH + 1), np.arange(1, DEPTH + 2))
TABLE_M = np.arange(PLACES) - TABLE_N * (TABLE_N + 1) // 2
SHRINKAGE = 1.0 / (1.0 + np.outer(STICKY, TABLE_M) + np.outer(HARD, TABLE_N))

LEAST = 1e-300  # no weight is smaller
NEGLIGIBLE = 1e-20  # weights below it change no F
SUREST = 1.0 - 1e-12  # a failure is never taken for impossible
GATE = 0.98  # repeats discounted by less may teach a guaranteed set
REPEATS, SUCCESSES, EXPECTED = 0, 1, 2  # columns of `evidence`


# F and the posterior.


@compiled
def prior_weight(value, fresh_prior):
    """Of one value of s or r: fresh_prior on 0, the rest in equal parts."""
    return fresh_prior if value == 0 else (1.0 - fresh_prior) / (SIDE - 1)


@compiled
def begin(fresh_prior, weights, table):
    """The prior: before any repeat. 0.9, or 0.97 where optimism is wide."""
    for i in range(POINTS):
        s = prior_weight(i // SIDE, fresh_prior)
        weights[i] = max(s * prior_weight(i % SIDE, fresh_prior), LEAST)
    tabulate(weights, table)


@compiled
def tabulate(weights, table):
    """F at every (m, n) of the table, six points at a time in a loop over the places."""
    for place in range(PLACES):
        table[place] = 0.0
    for i in range(0, POINTS, SIDE):
        a, b, c = weights[i], weights[i + 1], weights[i + 2]
        e, f, g = weights[i + 3], weights[i + 4], weights[i + 5]
        if max(a, b, c, e, f, g) > NEGLIGIBLE:
            of_a, of_b, of_c = SHRINKAGE[i], SHRINKAGE[i + 1], SHRINKAGE[i + 2]
            of_e, of_f, of_g = SHRINKAGE[i + 3], SHRINKAGE[i + 4], SHRINKAGE[i + 5]
            for place in range(PLACES):
                first = a * of_a[place] + b * of_b[place] + c * of_c[place]
                table[place] += first + e * of_e[place] + f * of_f[place] + g * of_g[place]
    for place in range(1, PLACES):
        table[place] = min(table[place], 1.0)
    table[0] = 1.0


@compiled
def place_of(m, n):
    """Where (m, n) stands in the table; beyond it, a place whose F is no smaller."""
    n = n if n < DEPTH else DEPTH
    m = m if m < n else n
    return (n * (n + 1) >> 1) + (m if m > 0 else 0)


@compiled
def exact_discount(m, n, weights):
    """F(m, n) by its formula."""
    if n <= 0:
        return 1.0
    m = min(max(m, 0), n)
    total = 0.0
    for i in range(POINTS):
        if weights[i] > NEGLIGIBLE:
            total += weights[i] / (1.0 + STICKY[i] * m + HARD[i] * n)
    return min(total, 1.0)


@compiled
def exact_discounts(m, n, weights, out):
    """F for many (m, n) with 0 <= m, 0 < n, in loops over them."""
    for j in range(out.shape[0]):
        out[j] = 0.0
    for i in range(POINTS):
        weight = weights[i]
        if weight > NEGLIGIBLE:
            s = STICKY[i]
            r = HARD[i]
            for j in range(out.shape[0]):
                out[j] += weight / (1.0 + s * m[j] + r * n[j])
    for j in range(out.shape[0]):
        out[j] = min(out[j], 1.0)


@compiled
def discount(m, n, weights, table):
    """F(m, n), from the table where it reaches."""
    if n <= 0:
        return 1.0
    return table[place_of(m, n)] if n <= DEPTH else exact_discount(m, n, weights)


@compiled
def keep_of(half_life):
    """What an outcome leaves of the evidence before it; NaN or infinity = all."""
    return 2.0 ** (-1.0 / half_life) if 0.0 < half_life < np.inf else 1.0


@compiled
def fold(m, n, chance, success, values):
    """Multiply values by the likelihood of one outcome at each point, and scale them to sum 1."""
    if not chance > 0.0:  # NaN too: such a failure teaches nothing
        chance = 0.0
    base = 0.0 if success else 1.0
    slope = 1.0 if success else -min(chance, SUREST)
    m = min(max(m, 0), n)
    for i in range(POINTS):
        values[i] *= base + slope / (1.0 + STICKY[i] * m + HARD[i] * n)
    scale_to_one(values)


@compiled
def scale_to_one(values):
    """Values / their sum, in four lanes, none below LEAST."""
    a = 0.0
    b = 0.0
    c = 0.0
    e = 0.0
    for i in range(0, POINTS, 4):
        a += values[i]
        b += values[i + 1]
        c += values[i + 2]
        e += values[i + 3]
    scale = 1.0 / ((a + b) + (c + e))
    for i in range(POINTS):
        value = values[i] * scale
        values[i] = value if value > LEAST else LEAST


@compiled
def count_repeat(chance, success, evidence):
    """Repeats, successes among them, and how many there were to be with fresh coins."""
    evidence[REPEATS] += 1.0
    evidence[SUCCESSES] += 1.0 if success else 0.0
    evidence[EXPECTED] += min(chance, 1.0) if chance > 0.0 else 0.0


@compiled
def learn_repeat(m, n, chance, success, keep, fresh_prior, weights, table, evidence):
    """Learn one outcome of a job that had failed (m, n) times when it was chosen; a first attempt
    (n = 0) teaches nothing here. chance = `mean_chance` of a first attempt, before this outcome.
    """
    if n <= 0:
        return
    if keep < 1.0:  # the evidence fades, not the prior
        for i in range(POINTS):
            s = prior_weight(i // SIDE, fresh_prior)
            prior = max(s * prior_weight(i % SIDE, fresh_prior), LEAST)
            weights[i] = max(prior * math.exp(keep * math.log(weights[i] / prior)), LEAST)
    fold(m, n, chance, success, weights)
    tabulate(weights, table)
    count_repeat(chance, success, evidence)


# An s for each server (option).


@compiled
def begin_servers(fresh_prior, likelihood, weights, table):
    """The prior of every server; likelihood (servers, 36) knows nothing."""
    for k in range(weights.shape[0]):
        begin(fresh_prior, weights[k], table[k])
        for i in range(POINTS):
            likelihood[k, i] = 1.0 / POINTS


@compiled
def learn_server_repeat(
    server, m, n, chance, success, keep, fresh_prior, likelihood, weights, table, evidence
):
    """`learn_repeat` with an s for each server: rows of all arrays are servers."""
    if n <= 0:
        return
    mine = likelihood[server]
    if keep < 1.0:
        for i in range(POINTS):
            mine[i] = math.exp(keep * math.log(mine[i]))
    fold(m, n, chance, success, mine)
    pool(fresh_prior, likelihood, weights)
    for k in range(weights.shape[0]):
        tabulate(weights[k], table[k])
    count_repeat(chance, success, evidence[server])


@compiled
def pool(fresh_prior, likelihood, weights):
    """All posteriors. Server k's prior of s is the mean of the common prior and the other servers'
    present marginals; r is common, so the servers' likelihoods of r are multiplied.
    """
    servers = weights.shape[0]
    prior = np.zeros((servers, SIDE))  # first: the present marginals
    for s in range(SIDE):
        everyone = prior_weight(s, fresh_prior)
        for k in range(servers):
            for r in range(SIDE):
                prior[k, s] += weights[k, SIDE * s + r]
            everyone += prior[k, s]
        for k in range(servers):
            prior[k, s] = max((everyone - prior[k, s]) / servers, LEAST)
    of_r = np.zeros((servers, SIDE))
    common = np.zeros(SIDE)
    for r in range(SIDE):
        for k in range(servers):
            for s in range(SIDE):
                of_r[k, r] += prior[k, s] * likelihood[k, SIDE * s + r]
            of_r[k, r] = math.log(max(of_r[k, r], LEAST))
            common[r] += of_r[k, r]
    top = largest(common)
    for k in range(servers):
        for r in range(SIDE):
            others = math.exp(common[r] - of_r[k, r] - top) * prior_weight(r, fresh_prior)
            for s in range(SIDE):
                weights[k, SIDE * s + r] = others * prior[k, s] * likelihood[k, SIDE * s + r]
        scale_to_one(weights[k])


# What theta learns from a repeat.


@compiled
def mean_chance(mean, variance):
    """E[mu(z)] for z ~ N(mean, variance), nearly: the plain expectation, without optimism."""
    return sigmoid(mean / math.sqrt(1.0 + 0.125 * math.pi * max(variance, 0.0)))


@compiled
def set_may_learn(n, discount):
    """May a guaranteed set learn from this attempt? A rule known before the outcome."""
    return n <= 0 or discount >= GATE


@compiled
def failure_slope(z, discount):
    """Of the loss -log(1 - F mu(z)), F < 1: slope, curvature (which can be negative), and Fisher's
    information F mu (1 - mu)^2 / (1 - F mu).
    """
    e = math.exp(-abs(z))
    p = (1.0 if z >= 0.0 else e) / (1.0 + e)
    rest = (e if z >= 0.0 else 1.0) / (1.0 + e)
    slope = discount * p * rest / (rest + (1.0 - discount) * p)
    return slope, slope * (rest - p + slope), slope * rest


@compiled
def conditional_logit(mean, variance, discount):
    """A mode of N(mean, variance) x (1 - F mu(z)), F < 1: a failure that was half expected.

    Newton's method from the mean, inside a bracket that is halved where steps do not halve. Where
    the curvature would make a step long, Fisher's information takes its place.
    """
    low = mean - variance
    high = mean
    z = mean
    last = 2.0 * variance
    for _ in range(100):
        slope, curvature, information = failure_slope(z, discount)
        excess = z - mean + variance * slope
        if excess > 0.0:
            high = z
        else:
            low = z
        newton = 1.0 + variance * curvature
        fisher = 1.0 + variance * information
        step = excess / (newton if newton > 0.25 * fisher else fisher)
        if not low <= z - step <= high or abs(step) > 0.5 * last:
            step = z - 0.5 * (low + high)
        z -= step
        last = abs(step)
        if last <= 1e-12 * (1.0 + abs(z)):
            break
    return z


@compiled
def conditional_step(x, outcome, discount, mean, covariance, push):
    """`filter_step` for P(success) = F mu(z); push = covariance x on entry. A success teaches as
    ever, a failure the less the smaller F. Returns the filtered logit and the scale.
    """
    if outcome or discount >= 1.0:
        return filter_step(x, outcome, mean, covariance, push)
    variance = dot(x, push)
    z = conditional_logit(dot(x, mean), variance, discount)
    slope, _, information = failure_slope(z, discount)
    for i in range(x.shape[0]):
        mean[i] -= push[i] * slope
    scale = information / (1.0 + information * variance)
    add_outer(covariance, -scale, push)
    return z, scale
