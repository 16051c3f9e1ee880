"""Optimistic scores over cached columns, the best pair, and the tie rule.

Learned scores within 1e-10 of the best count as equal; among them the job that arrived first
wins, then the lowest server. Without the tolerance two jobs with equal contexts would be told
apart by the rounding history of their cached columns.
"""

import math

import numpy as np

from headway.compiled import compiled, inlined
from headway.kernel.logistic import loop_sigmoid

TIE = 1e-10
# Up to so many jobs columns are not worth their overhead.
SHORT_ON_LOGIT = 48
SHORT_ON_PROBABILITY = 6


@inlined
def optimistic(mean, spread, radius, on_logit):
    """Logit mean + radius * spread or, as in the paper, probability mu(mean) + radius * spread.

    Logit scores are not clipped to the ball: at the ball all little-tried servers are equal, and
    what is already known to tell them apart would be lost.
    """
    return (mean if on_logit else loop_sigmoid(mean)) + radius * spread


@compiled
def best_pair(mean, spread, arrival, jobs, free, radius, on_logit):
    """(job, server) with the best optimistic score over rows 0..jobs-1 and the free servers."""
    if jobs > (SHORT_ON_LOGIT if on_logit else SHORT_ON_PROBABILITY):
        return best_pair_long(mean, spread, arrival, jobs, free, radius, on_logit)
    best = -np.inf
    for k in range(free.shape[0]):
        if free[k]:
            for j in range(jobs):
                best = max(best, optimistic(mean[j, k], spread[j, k], radius[k], on_logit))
    job = -1
    server = -1
    for k in range(free.shape[0]):
        if free[k]:
            for j in range(jobs):
                score = optimistic(mean[j, k], spread[j, k], radius[k], on_logit)
                if score >= best - TIE and (job < 0 or arrival[j] < arrival[job]):
                    job = j
                    server = k
    return job, server


@compiled
def best_pair_long(mean, spread, arrival, jobs, free, radius, on_logit):
    """The same for a long queue: columns in vectorised loops, ties looked for where they can be."""
    servers = free.shape[0]
    score = np.empty(jobs)
    top = np.empty(servers)
    best = -np.inf
    for k in range(servers):
        top[k] = -np.inf
        if free[k]:
            score_column(mean[:, k], spread[:, k], radius[k], on_logit, score)
            top[k] = largest(score)
            best = max(best, top[k])
    job = -1
    server = -1
    for k in range(servers):
        if free[k] and top[k] >= best - TIE:
            score_column(mean[:, k], spread[:, k], radius[k], on_logit, score)
            for j in range(jobs):
                if score[j] >= best - TIE and (job < 0 or arrival[j] < arrival[job]):
                    job = j
                    server = k
    return job, server


@compiled
def score_column(mean, spread, radius, on_logit, score):
    """The optimistic scores of one server."""
    if on_logit:
        for j in range(score.shape[0]):
            score[j] = optimistic(mean[j], spread[j], radius, True)
    else:
        for j in range(score.shape[0]):
            score[j] = optimistic(mean[j], spread[j], radius, False)


@compiled
def best_of_scores(score, arrival, free):
    """(job, server) with the best of given scores, a server to a row."""
    servers, jobs = score.shape
    best = -np.inf
    for k in range(servers):
        if free[k]:
            best = max(best, largest(score[k]))
    job = -1
    server = -1
    for k in range(servers):
        if free[k]:
            for j in range(jobs):
                if score[k, j] >= best - TIE and (job < 0 or arrival[j] < arrival[job]):
                    job = j
                    server = k
    return job, server


@compiled
def largest(score):
    """Max over an array, in four lanes."""
    n = score.shape[0]
    a = -np.inf
    b = -np.inf
    c = -np.inf
    e = -np.inf
    whole = n - n % 4
    for j in range(0, whole, 4):
        a = score[j] if score[j] > a else a
        b = score[j + 1] if score[j + 1] > b else b
        c = score[j + 2] if score[j + 2] > c else c
        e = score[j + 3] if score[j + 3] > e else e
    for j in range(whole, n):
        a = score[j] if score[j] > a else a
    return max(a, b, c, e)


@compiled
def score_block(contexts, theta, inverse, radius, on_logit, out):
    """Optimistic scores of up to 64 contexts, computed afresh, in loops over the contexts."""
    n, d = contexts.shape
    column = np.empty((d, n))
    for i in range(d):
        for j in range(n):
            column[i, j] = contexts[j, i]
    mean = np.empty(n)
    squared = np.empty(n)
    along = np.empty(n)
    for k in range(theta.shape[0]):
        for j in range(n):
            mean[j] = 0.0
            squared[j] = 0.0
        for i in range(d):
            mine = column[i]
            weight = theta[k, i]
            half = 0.5 * inverse[k, i, i]
            for j in range(n):
                mean[j] += mine[j] * weight
                along[j] = mine[j] * half
            for h in range(i):
                other = column[h]
                entry = inverse[k, i, h]
                for j in range(n):
                    along[j] += other[j] * entry
            for j in range(n):
                squared[j] += 2.0 * mine[j] * along[j]
        for j in range(n):
            mean[j] = optimistic(mean[j], math.sqrt(max(squared[j], 0.0)), radius[k], on_logit)
        for j in range(n):
            out[j, k] = mean[j]
