"""Learners over the records: a fresh model, and one outcome learned."""

import numpy as np

from headway.compiled import compiled, inlined
from headway.kernel.ellipsoid import confidence_radius, shrink
from headway.kernel.laplace import filter_step, prior_variance
from headway.kernel.likelihood import (
    initial_squared_radius,
    prior_precision,
    queried_radius,
    set_step,
)
from headway.kernel.linear import add_outer, copy, dot, multiply, norm
from headway.kernel.logistic import BLOCK, append, project_packed, refit
from headway.kernel.stickiness import (
    PLACES,
    POINTS,
    begin,
    conditional_step,
    discount,
    learn_repeat,
    mean_chance,
    set_may_learn,
    tabulate,
)
from headway.state import LAPLACE, LEARNED, LIKELIHOOD, PAPER, Model, Params, line_zeros

LEARNER_SETTINGS: dict[str, tuple[str, ...]] = {
    "none": (),
    "truth": (),
    "realised": (),
    "paper": ("norm_bound", "failure_prob", "kappa", "ridge", "beta_scale", "projection"),
    "likelihood": ("norm_bound", "failure_prob"),
    "laplace": ("norm_bound", "width"),
}
LEARNER_ABOUT = {
    "paper": "exact ridge MLE, projection and radius of the paper (eq. beta)",
    "likelihood": "likelihood-ratio confidence set: guaranteed, no tuning constant",
    "laplace": "posterior by an extended Kalman filter: short queues, no proof",
}


def new_model(params: Params, servers: int, dimension: int) -> Model:
    """Nothing learned yet."""
    paper = params.learner == PAPER
    sequential = params.learner == LIKELIHOOD
    d_paper = dimension if paper else 0
    d_sequential = dimension if sequential else 0
    model = Model(
        updates=np.zeros(servers, np.int64),
        successes=np.zeros(servers, np.int64),
        theta=np.zeros((servers, dimension)),
        inverse=np.zeros((servers, dimension, dimension)),
        radius=np.zeros(servers),
        step=np.zeros((servers, dimension)),
        step_scale=np.zeros(servers),
        squared_radius=np.zeros(servers if sequential else 0),
        event_failed=np.zeros(servers if sequential else 0, np.bool_),
        mean=np.zeros((servers, d_sequential)),
        covariance=np.zeros((servers, d_sequential, d_sequential)),
        design=np.zeros((servers, d_paper, d_paper)),
        mle=np.zeros((servers, d_paper)),
        curvature=np.zeros((servers, d_paper, d_paper)),
        stickiness=np.zeros((1, POINTS)),
        discounts=np.zeros((1, PLACES)),
        repeats=np.zeros((1, 3)),
        history=line_zeros((servers, 1 if paper else 0, d_paper, BLOCK)),
    )
    begin_memory(params, model)
    identity = np.eye(dimension)
    if paper:
        model.design[:] = params.kappa * params.ridge * identity
        model.inverse[:] = identity / (params.kappa * params.ridge)
        model.curvature[:] = identity / params.ridge
        model.radius[:] = params.beta_scale * confidence_radius(
            0, dimension, params.kappa, params.ridge, servers, params.failure_prob,
            params.norm_bound,
        )  # fmt: skip
    if params.learner == LAPLACE:
        model.inverse[:] = identity * prior_variance(dimension, params.norm_bound)
        model.radius[:] = params.width
    if sequential:
        model.inverse[:] = identity / prior_precision(dimension, params.norm_bound)
        model.covariance[:] = model.inverse
        model.squared_radius[:] = initial_squared_radius(
            dimension, servers, params.failure_prob, params.norm_bound
        )
        model.radius[:] = queried_radius(model.squared_radius[0], servers, params.failure_prob)
    return model


def begin_memory(params: Params, model: Model) -> None:
    """What is believed of repeats at first: with a penalty, that they are fresh coins."""
    if params.memory == LEARNED:
        begin(params.fresh_prior, model.stickiness[0], model.discounts[0])
    else:
        model.stickiness[0, 0] = 1.0
        tabulate(model.stickiness[0], model.discounts[0])


@inlined
def learn(params, model, x, tries, server, success):
    """Learn one outcome of one server with the learner that params names (without one: count)."""
    model.updates[server] += 1
    if success:
        model.successes[server] += 1
    failures = 0
    if params.memory == LEARNED:
        failures = total(tries)
    if failures > 0 and params.learner == LIKELIHOOD:
        learn_likelihood_repeat(params, model, x, tries[server], failures, server, success)
    elif failures > 0 and params.learner == LAPLACE:
        learn_laplace_repeat(params, model, x, tries[server], failures, server, success)
    elif params.learner == LIKELIHOOD:
        learn_likelihood(params, model, x, server, success)
    elif params.learner == PAPER:
        learn_paper(params, model, x, server, success)
    elif params.learner == LAPLACE:
        learn_laplace(params, model, x, server, success)


@inlined
def learn_likelihood(params, model, x, server, success):
    """The likelihood-ratio set, queried at failure_prob / servers."""
    servers = model.updates.shape[0]
    squared, failed, scale = set_step(
        x,
        success,
        params.norm_bound,
        model.theta[server],
        model.inverse[server],
        model.mean[server],
        model.covariance[server],
        model.squared_radius[server],
        model.event_failed[server],
        model.step[server],
    )
    model.squared_radius[server] = squared
    model.event_failed[server] = failed
    model.step_scale[server] = scale
    model.radius[server] = queried_radius(squared, servers, params.failure_prob)


@inlined
def learn_laplace_repeat(params, model, x, mine, failures, server, success):
    """An attempt of a job that failed before, `mine` times here and `failures` times in all: the
    posterior learns it given that, the stickiness from it.
    """
    step = model.step[server]
    multiply(model.inverse[server], x, step)
    chance = mean_chance(dot(x, model.theta[server]), dot(x, step))
    share = discount(mine, failures, model.stickiness[0], model.discounts[0])
    _, scale = conditional_step(x, success, share, model.theta[server], model.inverse[server], step)
    model.step_scale[server] = scale
    learn_stickiness(params, model, mine, failures, chance, success)


@inlined
def learn_likelihood_repeat(params, model, x, mine, failures, server, success):
    """The same with the likelihood-ratio set. Its guarantee is for fresh coins: the set learns
    a repeat only where it is believed to be one; the forecaster's mean learns all of them.
    """
    step = model.step[server]
    multiply(model.covariance[server], x, step)
    chance = mean_chance(dot(x, model.mean[server]), dot(x, step))
    share = discount(mine, failures, model.stickiness[0], model.discounts[0])
    if set_may_learn(failures, share):
        learn_likelihood(params, model, x, server, success)
    else:
        conditional_step(x, success, share, model.mean[server], model.covariance[server], step)
        for i in range(step.shape[0]):
            step[i] = 0.0
        model.step_scale[server] = 0.0
    learn_stickiness(params, model, mine, failures, chance, success)


@inlined
def learn_stickiness(params, model, mine, failures, chance, success):
    """How repeatable failures are, from one repeat that had this chance as a first attempt."""
    learn_repeat(
        mine, failures, chance, success, params.keep, params.fresh_prior, model.stickiness[0],
        model.discounts[0], model.repeats[0],
    )  # fmt: skip


@compiled
def total(tries):
    """Failed attempts of a job on all servers."""
    count = 0
    for k in range(tries.shape[0]):
        count += tries[k]
    return count


@inlined
def learn_paper(params, model, x, server, success):
    """Exact ridge MLE, V, projection onto the ball, eq. (beta) with this server's count."""
    servers, dimension = model.theta.shape
    count = model.updates[server]
    history = model.history[server]
    mle = model.mle[server]
    append(history, count - 1, x, success)
    refit(history, count, params.ridge, mle, model.curvature[server])
    add_outer(model.design[server], 1.0, x)
    model.step_scale[server] = shrink(model.inverse[server], 1.0, x, model.step[server])
    model.radius[server] = params.beta_scale * confidence_radius(
        count, dimension, params.kappa, params.ridge, servers, params.failure_prob,
        params.norm_bound,
    )  # fmt: skip
    if norm(mle) <= params.norm_bound:
        copy(mle, model.theta[server])
    else:
        projected = project_packed(
            history, count, mle, model.design[server], params.norm_bound, params.projection_ridge
        )
        copy(projected, model.theta[server])


@inlined
def learn_laplace(params, model, x, server, success):
    """The extended Kalman filter's posterior: its mean and `width` deviations around it."""
    step = model.step[server]
    multiply(model.inverse[server], x, step)
    _, scale = filter_step(x, success, model.theta[server], model.inverse[server], step)
    model.step_scale[server] = scale
