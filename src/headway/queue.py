"""Jobs enter, leave and wait; the cached columns. What every driver does between two choices."""

import math

import numpy as np

from headway.compiled import inlined
from headway.kernel.ellipsoid import uncertainty
from headway.kernel.linear import dot
from headway.state import NONE, REALISED, TRUTH


@inlined
def refresh_job(params, model, queue, row, x):
    """Compute the cached columns of one job, with context x, afresh."""
    if params.learner == NONE:
        return
    for k in range(model.updates.shape[0]):
        queue.mean[row, k] = dot(model.theta[k], x)
        queue.spread[row, k] = uncertainty(model.inverse[k], x)


@inlined
def add_job(params, model, queue, x, arrival, entered):
    """A job starts waiting (the queue has room). Returns its row."""
    row = queue.length[0]
    queue.length[0] = row + 1
    for i in range(x.shape[0]):
        queue.context[row, i] = x[i]
    queue.arrival[row] = arrival
    queue.entered[row] = entered
    queue.failures[row] = 0
    for k in range(queue.free.shape[0]):
        queue.attempts[row, k] = 0
    refresh_job(params, model, queue, row, x)
    return row


@inlined
def remove_job(queue, row):
    """A job leaves; the last row takes its place."""
    last = queue.length[0] - 1
    queue.length[0] = last
    if queue.newest[0] == row:
        queue.newest[0] = -1
    elif queue.newest[0] == last:
        queue.newest[0] = row
    if row == last:
        return
    for i in range(queue.context.shape[1]):
        queue.context[row, i] = queue.context[last, i]
    queue.arrival[row] = queue.arrival[last]
    queue.entered[row] = queue.entered[last]
    queue.failures[row] = queue.failures[last]
    for k in range(queue.free.shape[0]):
        queue.attempts[row, k] = queue.attempts[last, k]
        queue.mean[row, k] = queue.mean[last, k]
        queue.spread[row, k] = queue.spread[last, k]


@inlined
def fail_job(queue, row, server):
    """A job failed on a server: it waits on, and that is remembered."""
    queue.attempts[row, server] += 1
    queue.failures[row] += 1


@inlined
def refresh_server(params, model, queue, server):
    """After `learn`: bring one server's cached columns up to date in O(length * d).

    The inverse design matrix lost scale * step step', so each job's squared uncertainty lost
    scale * (x . step)^2.
    """
    length = queue.length[0]
    if params.learner in (NONE, TRUTH, REALISED) or length == 0:
        return
    scale = model.step_scale[server]
    if length < 8:
        refresh_few(model, queue, server, scale)
        return
    mean = queue.mean[:, server][:length]
    spread = queue.spread[:, server][:length]
    along = np.zeros(length)
    for j in range(length):
        mean[j] = 0.0
    for i in range(queue.context.shape[1]):
        column = queue.context[:, i][:length]
        theta = model.theta[server, i]
        step = model.step[server, i]
        for j in range(length):
            mean[j] += column[j] * theta
            along[j] += column[j] * step
    for j in range(length):
        squared = spread[j] * spread[j] - scale * along[j] * along[j]
        spread[j] = math.sqrt(squared if squared > 0.0 else 0.0)


@inlined
def refresh_few(model, queue, server, scale):
    """The same sums in the same order, job by job: quicker for a short queue."""
    for j in range(queue.length[0]):
        mean = 0.0
        along = 0.0
        for i in range(queue.context.shape[1]):
            mean += queue.context[j, i] * model.theta[server, i]
            along += queue.context[j, i] * model.step[server, i]
        queue.mean[j, server] = mean
        squared = queue.spread[j, server] * queue.spread[j, server] - scale * along * along
        queue.spread[j, server] = math.sqrt(squared if squared > 0.0 else 0.0)
