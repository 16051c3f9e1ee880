"""A handle does what the records do, to the last bit; fresh scores are the cached ones."""

import numpy as np
import pytest

import headway
from headway.handle import Handle, decide, enter, leave, score, update
from headway.kernel.logistic import sigmoid
from headway.learners import learn, new_model
from headway.policies import POLICIES
from headway.queue import add_job, refresh_server, remove_job
from headway.rng import make_key
from headway.settings import resolve
from headway.state import KNOWING, LEARN_NOTHING, new_clock, new_queue, roomier_model, to_bytes

CASES = [
    (policy.name, None if learner in LEARN_NOTHING else learner)
    for policy in POLICIES.values()
    for learner in policy.learners
    if learner not in KNOWING
]


def records(policy, learner, dimension=5, servers=3):
    world = headway.Scenario(servers=servers, dimension=dimension, slack_by="none")
    given = {"burn_in_rounds": 20} if "burn_in_rounds" in POLICIES[policy].defaults else {}
    params = resolve(policy, world.situation(400), learner=learner, given=given).params
    model = roomier_model(new_model(params, servers, dimension), 400)
    return params, model, new_clock(), new_queue(servers, dimension), make_key(2)


@pytest.mark.parametrize(("policy", "learner"), CASES)
def test_a_handle_does_what_the_records_do(policy, learner):
    params, model, clock, queue, key = records(policy, learner)
    handle = Handle(*records(policy, learner))
    rng = np.random.default_rng(0)
    for t in range(1, 150):
        x = rng.uniform(-1.0, 1.0, 5)
        if rng.random() < 0.6:
            queue.newest[0] = add_job(params, model, queue, x, t, t)
            handle.queue.newest[0] = enter(handle, x, t, t)
        if queue.length[0] == 0:
            continue
        clock.round[0] = handle.clock.round[0] = t
        pair = POLICIES[policy].choose(params, model, clock, queue, key)
        assert decide(handle) == pair
        job, server = pair
        x, tries = np.ascontiguousarray(queue.context[job]), queue.attempts[job].copy()
        success = bool(rng.random() < 0.7)
        learn(params, model, x, tries, server, success)
        refresh_server(params, model, queue, server)
        update(handle, x, tries, server, success)
        if success:
            remove_job(queue, job)
            leave(handle, job)
        queue.newest[0] = handle.queue.newest[0] = -1
    for mine, theirs in ((model, handle.model), (clock, handle.clock), (queue, handle.queue)):
        assert to_bytes(mine) == to_bytes(theirs)


@pytest.mark.parametrize("learner", ["likelihood", "laplace", "paper"])
@pytest.mark.parametrize("count", [1, 64, 201])
def test_fresh_scores_are_the_formula(learner, count):
    handle = Handle(*records("cqb-opt", learner, dimension=7))
    rng = np.random.default_rng(1)
    for i in range(60):
        update(handle, rng.uniform(-1.0, 1.0, 7), np.zeros(3, np.int64), i % 3, i % 4 > 0)
    contexts = rng.uniform(-1.0, 1.0, (count, 7))
    model = handle.model
    mean = contexts @ model.theta.T
    if learner == "paper":
        mean = np.vectorize(sigmoid)(mean)
    spread = np.sqrt(np.einsum("nd,kde,ne->nk", contexts, model.inverse, contexts))
    expected = mean + model.radius * spread
    assert np.abs(score(handle, contexts) - expected).max() < 1e-11 * np.abs(expected).max()


def test_a_handle_shares_the_arrays_of_its_records():
    given = records("cqb-opt", "laplace")
    handle = Handle(*given)
    given[3].free[1] = False
    assert not handle.queue.free[1]
    enter(handle, np.ones(5), 0, 0)
    assert given[3].length[0] == 1
