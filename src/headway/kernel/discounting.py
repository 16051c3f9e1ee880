"""The best pair where failed attempts count: optimistic probability times the discount F(m, n).

The score is mu(optimistic logit) F(m, n) - penalty m. Learned memory has no penalty; memory by
penalty has F = 1, which is a posterior with all its weight on s = r = 0. A job without failures
has F = 1 and is ranked on the logit, of which its score is an increasing function; for the others
the sigmoid is computed only where even F = 1 would bring them to the best.
"""

import math

import numpy as np

from headway.compiled import compiled, inlined
from headway.kernel.logistic import loop_sigmoid, sigmoid
from headway.kernel.optimism import TIE, largest, score_column
from headway.kernel.stickiness import DEPTH, discount, exact_discount, exact_discounts, place_of

SHORT = 64  # up to so many jobs columns are not worth their overhead


@compiled
def discounted_column(mean, spread, radius, attempts, failures, penalty, weights, table, score):
    """The scores of one server, every one computed."""
    score_column(mean, spread, radius, True, score)
    for j in range(score.shape[0]):
        score[j] = loop_sigmoid(score[j])
    for j in range(score.shape[0]):
        if failures[j] > 0:
            f = discount(attempts[j], failures[j], weights, table)
            score[j] = score[j] * f - penalty * attempts[j]


@compiled
def reach(best):
    """The least logit whose probability is within the tie tolerance of best, or above."""
    least = best - TIE
    return math.log(least / (1.0 - least)) if least > 0.0 else -np.inf


@compiled
def best_discounted_pair(
    mean, spread, arrival, attempts, failures, jobs, free, radius, penalty, weights, table
):
    """(job, server) with the best score over rows 0..jobs-1 and the free servers.

    Ties as everywhere, on probability. attempts (n, servers) are the m of each pair, failures (n,)
    the n of each job; weights and table are those of `stickiness`.
    """
    if jobs > SHORT:
        return best_discounted_pair_long(
            mean, spread, arrival, attempts, failures, jobs, free, radius, penalty, weights, table
        )
    common = weights.shape[0] == 1
    retried = 0
    top = -np.inf
    for j in range(jobs):
        retried += 1 if failures[j] > 0 else 0
    for k in range(free.shape[0]):
        if free[k]:
            for j in range(jobs):
                z = mean[j, k] + radius[k] * spread[j, k]
                top = z if z > top and failures[j] <= 0 else top
    best = sigmoid(top) if retried < jobs else -np.inf
    cutoff = reach(best)
    if retried > 0:
        for k in range(free.shape[0]):
            if free[k]:
                row = 0 if common else k
                for j in range(jobs):
                    if failures[j] > 0:
                        z = mean[j, k] + radius[k] * spread[j, k]
                        if z >= cutoff:
                            score = retried_score(
                                z, attempts[j, k], failures[j], penalty, best, weights, table, row
                            )
                            best = score if score > best else best
        cutoff = reach(best)
    job = -1
    server = -1
    for k in range(free.shape[0]):
        if free[k]:
            row = 0 if common else k
            for j in range(jobs):
                z = mean[j, k] + radius[k] * spread[j, k]
                if z >= cutoff and (job < 0 or arrival[j] < arrival[job]):
                    if failures[j] > 0:
                        least = best - TIE
                        score = retried_score(
                            z, attempts[j, k], failures[j], penalty, least, weights, table, row
                        )
                        if not score >= least:
                            continue
                    job = j
                    server = k
    return job, server


@inlined
def retried_score(z, m, n, penalty, least, weights, table, row):
    """The score of a job with failures; -inf where it is seen to be below `least`."""
    f = table[row, place_of(m, n)]
    if f - penalty * m < least:
        return -np.inf
    p = sigmoid(z)
    if n > DEPTH and p * f - penalty * m >= least:
        f = exact_discount(m, n, weights[row])
    return p * f - penalty * m


@compiled
def best_discounted_pair_long(
    mean, spread, arrival, attempts, failures, jobs, free, radius, penalty, weights, table
):
    """The same for a long queue: columns in vectorised loops, jobs with failures apart."""
    servers = free.shape[0]
    common = weights.shape[0] == 1
    score = np.empty(jobs)
    rows = np.empty(jobs, np.int64)
    chosen = np.empty((2, jobs), np.int64)
    scratch = np.empty((0, 0))
    retried = 0
    for j in range(jobs):
        rows[retried] = j
        retried += 1 if failures[j] > 0 else 0
    top = np.full(servers, -np.inf)  # of the jobs without failures, on the logit
    top_retried = np.full(servers, -np.inf)  # of the others
    best = -np.inf
    if retried < jobs:
        for k in range(servers):
            if free[k]:
                fresh_column(mean[:, k], spread[:, k], radius[k], rows, retried, score)
                top[k] = largest(score)
        best = sigmoid(largest(top))
    cutoff = reach(best)
    if retried > 0:
        scratch = np.empty((4, retried))
        for k in range(servers):
            if free[k]:
                row = 0 if common else k
                found = rank_retried(
                    mean[:, k], spread[:, k], radius[k], attempts[:, k], failures, rows, retried,
                    penalty, cutoff, best, weights[row], table[row], chosen, score, scratch,
                )  # fmt: skip
                top_retried[k] = largest(score[:found])
                best = max(best, top_retried[k])
        cutoff = reach(best)
    job = -1
    server = -1
    for k in range(servers):
        if free[k] and top[k] >= cutoff and retried < jobs:
            fresh_column(mean[:, k], spread[:, k], radius[k], rows, retried, score)
            for j in range(jobs):
                if score[j] >= cutoff and (job < 0 or arrival[j] < arrival[job]):
                    job = j
                    server = k
        if free[k] and retried > 0 and top_retried[k] >= best - TIE:
            row = 0 if common else k
            found = rank_retried(
                mean[:, k], spread[:, k], radius[k], attempts[:, k], failures, rows, retried,
                penalty, cutoff, best - TIE, weights[row], table[row], chosen, score, scratch,
            )  # fmt: skip
            for i in range(found):
                j = chosen[0, i]
                if score[i] >= best - TIE and (job < 0 or arrival[j] < arrival[job]):
                    job = j
                    server = k
    return job, server


@compiled
def fresh_column(mean, spread, radius, rows, retried, score):
    """The logits of one server, -inf where the job has failures."""
    score_column(mean, spread, radius, True, score)
    for i in range(retried):
        score[rows[i]] = -np.inf


@compiled
def rank_retried(
    mean, spread, radius, attempts, failures, rows, retried, penalty, cutoff, least, weights,
    table, chosen, score, scratch,
):  # fmt: skip
    """Of the jobs with failures, those that one server could serve at `least` or more: their rows
    in chosen[0], their scores (below `least`, at most a bound), and how many.
    """
    rank = chosen[0]
    f = scratch[0]
    found = 0
    for i in range(retried):
        j = rows[i]
        rank[found] = j
        score[found] = mean[j] + radius * spread[j]
        f[found] = table[place_of(attempts[j], failures[j])]
        within = score[found] >= cutoff and f[found] - penalty * attempts[j] >= least
        found += 1 if within else 0
    for i in range(found):
        score[i] = loop_sigmoid(score[i])
    deep = 0
    for i in range(found):
        j = rank[i]
        p = score[i]
        score[i] = p * f[i] - penalty * attempts[j]
        if failures[j] > DEPTH and score[i] >= least:  # with a bound of F: compute F
            chosen[1, deep] = i
            scratch[1, deep] = p
            scratch[2, deep] = max(attempts[j], 0)
            scratch[3, deep] = failures[j]
            deep += 1
    if deep > 0:
        exact_discounts(scratch[2, :deep], scratch[3, :deep], weights, f[:deep])
        for i in range(deep):
            j = rank[chosen[1, i]]
            score[chosen[1, i]] = scratch[1, i] * f[i] - penalty * attempts[j]
    return found
