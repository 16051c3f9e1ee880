"""Policies that remember what failed: settings, records, and nothing changed without memory."""

import numpy as np
import pytest

import headway
from headway.learners import learn, new_model
from headway.queue import add_job, fail_job, remove_job
from headway.rng import make_key
from headway.settings import resolve
from headway.state import LEARNED, PENALTY, new_clock, new_queue, to_bytes

WORLD = headway.Scenario(servers=3, dimension=4, slack_by="none")


def records(policy="headway", **given):
    learner = given.pop("learner", None)
    resolved = resolve(policy, WORLD.situation(500), learner=learner, given=given)
    model = new_model(resolved.params, 3, 4)
    return resolved, model, new_queue(3, 4), new_clock()


def test_headway_is_the_optimistic_pair_with_learned_memory_and_needs_no_horizon():
    resolved = resolve("headway", WORLD.situation(), given={})
    assert resolved.params.memory == LEARNED
    assert resolved.params.fresh_prior == 0.9
    wide = resolve("headway", WORLD.situation(), learner="likelihood", given={})
    assert wide.params.fresh_prior == 0.97
    assert wide.params.failure_prob == 0.05
    penalty = resolve("cqb-opt", WORLD.situation(9), given={"memory": "penalty"}).params
    assert (penalty.memory, penalty.penalty) == (PENALTY, 0.3)
    assert resolve("cqb-opt", WORLD.situation(9), given={}).params.penalty == 0.0
    faded = resolve("headway", WORLD.situation(), given={"half_life": 10.0}).params
    assert faded.keep**10 == pytest.approx(0.5)


@pytest.mark.parametrize(
    ("policy", "learner", "given", "says"),
    [
        ("cqb-opt", None, {"memory": "lerned"}, "'lerned': did you mean learned"),
        ("cqb-opt", "paper", {"memory": "learned"}, "needs learner likelihood or laplace"),
        ("headway", None, {"fresh_prior": 1.0}, "fresh_prior = 1.0 must be between 0 and 1"),
        ("headway", None, {"half_life": 0.0}, "half_life = 0.0"),
        ("headway", None, {"penalty": -1.0}, "penalty = -1.0"),
        ("cqb-ts", None, {"memory": "learned"}, "cqb-ts has no setting 'memory'"),
        ("headway", None, {"failure_prob": 0.1}, "failure_prob"),
    ],
)
def test_memories_that_cannot_be_are_refused(policy, learner, given, says):
    with pytest.raises(headway.HeadwayError) as problem:
        resolve(policy, WORLD.situation(100), learner=learner, given=given)
    assert says in str(problem.value)


@pytest.mark.parametrize("policy", ["cqb-opt", "cqb-eps", "cqb-eps-opt", "cqb-eta-2"])
@pytest.mark.parametrize("learner", ["likelihood", "laplace"])
def test_memory_without_failures_to_remember_changes_only_the_scale_of_the_score(policy, learner):
    """A prior of almost only fresh coins: F is 1 up to 1e-12, so the run is the plain one's."""
    given = (
        {"burn_in_rounds": 100}
        if "burn_in_rounds" in resolve(policy, WORLD.situation(100), given={}).settings
        else {}
    )
    runs = [
        headway.simulate(
            policy, headway.Scenario(), rounds=1500, replicas=3, learner=learner, **given, **each
        )
        for each in ({}, {"memory": "learned", "fresh_prior": 1.0 - 1e-15})
    ]
    assert np.abs(runs[0].queue_mean - runs[1].queue_mean).max() < 0.25


def test_first_attempts_learn_as_without_memory():
    for learner in ("laplace", "likelihood"):
        given = {"failure_prob": 0.05} if learner == "likelihood" else {}
        one, plain, *_ = records("cqb-opt", learner=learner, **given)
        other, remembering, *_ = records("cqb-opt", learner=learner, memory="learned", **given)
        rng = np.random.default_rng(0)
        for i in range(60):
            x, none = rng.uniform(-1.0, 1.0, 4), np.zeros(3, np.int64)
            learn(one.params, plain, x, none, i % 3, i % 2 == 0)
            learn(other.params, remembering, x, none, i % 3, i % 2 == 0)
        for name in ("theta", "inverse", "radius", "updates", "successes"):
            assert np.array_equal(getattr(plain, name), getattr(remembering, name)), name
        assert remembering.repeats.sum() == 0.0


@pytest.mark.parametrize("learner", ["laplace", "likelihood"])
def test_failed_repeats_make_the_policy_try_another_server(learner):
    resolved, model, queue, clock = records(learner=learner)
    x = np.array([0.9, 0.1, -0.2, 0.4])
    add_job(resolved.params, model, queue, x, 0, 0)
    key, seen = make_key(0), []
    for t in range(1, 40):
        clock.round[0] = t
        job, server = resolved.policy.choose(resolved.params, model, clock, queue, key)
        tries = queue.attempts[job].copy()
        learn(resolved.params, model, x, tries, server, False)
        fail_job(queue, job, server)
        seen.append(server)
    assert set(seen) == {0, 1, 2}
    assert (queue.failures[0], queue.attempts[0].sum()) == (39, 39)
    assert model.repeats[0, 0] == 38.0
    assert np.bincount(seen).min() >= 5


def test_failures_are_the_sum_of_attempts_through_moves():
    resolved, model, queue, _ = records()
    rng = np.random.default_rng(3)
    for i in range(200):
        if queue.length[0] < 5 or rng.random() < 0.3:
            add_job(resolved.params, model, queue, rng.normal(size=4), i, i)
        elif rng.random() < 0.3:
            remove_job(queue, int(rng.integers(queue.length[0])))
        else:
            fail_job(queue, int(rng.integers(queue.length[0])), int(rng.integers(3)))
        if queue.length[0] > 40:
            break
        n = queue.length[0]
        assert np.array_equal(queue.failures[:n], queue.attempts[:n].sum(axis=1))


def test_the_set_learns_repeats_only_where_they_are_believed_fresh():
    resolved, model, _, _ = records(learner="likelihood")
    rng = np.random.default_rng(0)
    x = rng.uniform(-1.0, 1.0, 4)
    tries = np.array([2, 1, 0])
    for _ in range(30):  # repeats fail far more often than first attempts would
        learn(resolved.params, model, x, tries, 0, False)
    before = to_bytes(model._replace(mean=model.mean * 0.0, covariance=model.covariance * 0.0))
    centre, inverse, mean = model.theta.copy(), model.inverse.copy(), model.mean.copy()
    learn(resolved.params, model, x, tries, 0, True)
    assert np.array_equal(model.theta, centre)
    assert np.array_equal(model.inverse, inverse)
    assert not np.array_equal(model.mean, mean)
    assert model.step_scale[0] == 0.0
    assert before


def test_no_memory_leaves_the_paper_alone():
    """The records of memory are there and stay at their start."""
    run = headway.simulate("cqb-opt", headway.Scenario(stickiness=0.9), rounds=500)
    assert run.settings["memory"] == "none"
    resolved, model, *_ = records("cqb-opt", failure_prob=0.05)
    start = model.stickiness.copy(), model.discounts.copy()
    rng = np.random.default_rng(1)
    for i in range(50):
        learn(resolved.params, model, rng.normal(size=4), np.array([3, 0, 1]), i % 3, i % 2 == 0)
    assert np.array_equal(model.stickiness, start[0])
    assert np.array_equal(model.discounts, start[1])
    assert (model.discounts == 1.0).all()
