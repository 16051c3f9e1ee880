"""The compiled rollout is the same program as calling choose and learn from Python, bit for bit."""

import numpy as np
import pytest

import headway
from headway import queue as waiting
from headway.learners import learn, new_model
from headway.policies import POLICIES
from headway.rng import make_key
from headway.settings import resolve
from headway.sim.rollout import new_tally, rollout
from headway.sim.run import draw_instances
from headway.state import (
    KNOWING,
    LEARN_NOTHING,
    from_bytes,
    new_clock,
    new_queue,
    roomier_model,
    roomier_queue,
    to_bytes,
)
from headway.world.problem import arrives, draw_context, succeeds

CASES = [
    (name, None if learner in LEARN_NOTHING else learner)
    for name, policy in POLICIES.items()
    for learner in policy.learners
]
LEARNING = [case for case in CASES if case[1]]
GIVEN = {
    "cqb-eps": {"burn_in_rounds": 200, "explore_prob": 0.2},
    "cqb-eta-2": {"burn_in_rounds": 200, "explore_prob": 0.2, "cutoff": 600},
}
WORLD = headway.Scenario()
ROUNDS = 900


def begin(policy, learner, given, rounds=ROUNDS):
    """Records of a fresh run with room for all its rounds."""
    resolved = resolve(policy, WORLD.situation(rounds), learner=learner, given=given)
    problem = draw_instances(WORLD, seed=3, replicas=1, rounds=rounds)[0].problem
    model = roomier_model(new_model(resolved.params, WORLD.servers, WORLD.dimension), rounds)
    if resolved.learner in KNOWING:
        model.theta[:] = problem.theta_star
    queue = roomier_queue(new_queue(WORLD.servers, WORLD.dimension), rounds)
    return resolved, problem, model, queue, new_clock()


def step(resolved, problem, model, queue, clock, key, t, arrived):
    """One round, every call made from Python. Returns the choice and the arrivals so far."""
    params = resolved.params
    clock.round[0] = t
    choice = (-1, -1, -1)
    if queue.length[0] > 0:
        job, server = resolved.policy.choose(params, model, clock, queue, key)
        x, tries = np.ascontiguousarray(queue.context[job]), queue.attempts[job].copy()
        success = bool(succeeds(problem, key, t, queue.arrival[job], x, server))
        choice = (int(queue.arrival[job]), int(server), int(success))
        if success:
            waiting.remove_job(queue, job)
        else:
            waiting.fail_job(queue, job, server)
        resolved.policy.learn(params, model, x, tries, server, success)
        waiting.refresh_server(params, model, queue, server)
    queue.newest[0] = -1
    if arrives(problem, key, t):
        x = np.empty(WORLD.dimension)
        draw_context(problem, model.inverse, model.radius, key, t, arrived, x)
        queue.newest[0] = waiting.add_job(params, model, queue, x, arrived, t)
        arrived += 1
    return choice, arrived


def same(one, other):
    """Records equal to the last bit."""
    return to_bytes(one) == to_bytes(other)


@pytest.mark.parametrize(("policy", "learner"), CASES)
def test_python_calls_and_the_compiled_loop_agree_bit_for_bit(policy, learner):
    given = GIVEN.get(policy, {})
    key = make_key(3, 0)
    resolved, problem, model, queue, clock = begin(policy, learner, given)
    choices, arrived = [], 0
    for t in range(1, ROUNDS + 1):
        choice, arrived = step(resolved, problem, model, queue, clock, key, t, arrived)
        choices.append(choice)
    clock.round[0] = ROUNDS + 1

    _, _, model_2, queue_2, clock_2 = begin(policy, learner, given)
    tally = new_tally(rounds=ROUNDS, every=1, record=True)
    rollout(resolved.params, model_2, clock_2, queue_2, key, problem, tally, ROUNDS)
    recorded = np.stack([tally.job, tally.server, tally.success], axis=1)
    assert np.array_equal(np.array(choices), recorded)
    assert same(model, model_2)
    assert same(queue, queue_2)
    assert same(clock, clock_2)


@pytest.mark.parametrize(("policy", "learner"), LEARNING)
def test_save_load_continue_equals_uninterrupted(policy, learner):
    given = GIVEN.get(policy, {})
    key = make_key(3, 0)
    resolved, problem, model, queue, clock = begin(policy, learner, given)
    tally = new_tally(rounds=ROUNDS, every=1, record=True)
    rollout(resolved.params, model, clock, queue, key, problem, tally, 400)
    saved = [to_bytes(each) for each in (resolved.params, model, queue, clock)]
    rollout(resolved.params, model, clock, queue, key, problem, tally, ROUNDS)

    kinds = (type(resolved.params), type(model), type(queue), type(clock))
    params, model_2, queue_2, clock_2 = map(from_bytes, kinds, saved)
    tally_2 = new_tally(rounds=ROUNDS, every=1, record=True)
    tally_2.arrived[0] = arrived_by(problem, key, 400)
    rollout(params, model_2, clock_2, queue_2, key, problem, tally_2, ROUNDS)
    assert same(model, model_2)
    assert same(queue, queue_2)
    assert np.array_equal(tally.job[400:], tally_2.job[400:])


def arrived_by(problem, key, t):
    """How many jobs came in rounds 1..t."""
    return sum(bool(arrives(problem, key, s)) for s in range(1, t + 1))


@pytest.mark.parametrize(("policy", "learner"), LEARNING)
def test_cached_columns_equal_a_fresh_computation(policy, learner):
    """A cache is a pure function of (queue, model), up to rounding far below the tie width."""
    key = make_key(3, 0)
    given = {"beta_scale": 1.0} if learner == "paper" else {}
    resolved, problem, model, queue, clock = begin(policy, learner, given, rounds=3000)
    tally = new_tally(rounds=3000, every=0, record=False)
    for last in (30, 300, 1500, 3000):
        rollout(resolved.params, model, clock, queue, key, problem, tally, last)
        n = queue.length[0]
        x = queue.context[:n]
        mean = x @ model.theta.T
        squared = np.einsum("ni,kij,nj->nk", x, model.inverse, x)
        assert np.abs(queue.mean[:n] - mean).max(initial=0.0) < 1e-12
        assert np.abs(queue.spread[:n] ** 2 - squared).max(initial=0.0) < 1e-12


@pytest.mark.parametrize(("policy", "learner"), CASES)
def test_choose_writes_only_the_clock_and_learn_only_the_model(policy, learner):
    key = make_key(3, 0)
    resolved, problem, model, queue, clock = begin(policy, learner, {})
    arrived = 0
    for t in range(1, 60):
        _, arrived = step(resolved, problem, model, queue, clock, key, t, arrived)
    while queue.length[0] < 3:
        x = np.full(WORLD.dimension, 0.1 * arrived)
        waiting.add_job(resolved.params, model, queue, x, arrived, 60)
        arrived += 1
    before = [to_bytes(each) for each in (model, queue)]
    job, server = resolved.policy.choose(resolved.params, model, clock, queue, key)
    assert [to_bytes(each) for each in (model, queue)] == before
    assert 0 <= job < queue.length[0]
    assert 0 <= server < WORLD.servers
    assert (job, server) == resolved.policy.choose(resolved.params, model, clock, queue, key) or (
        policy in GIVEN  # the round-robin pointer moved
    )
    before = [to_bytes(each) for each in (clock, queue)]
    x, tries = np.ascontiguousarray(queue.context[job]), queue.attempts[job].copy()
    resolved.policy.learn(resolved.params, model, x, tries, server, True)
    assert [to_bytes(each) for each in (clock, queue)] == before


def test_policy_codes_are_places_in_the_table():
    from headway import policies

    key = make_key(1, 0)
    for place, policy in enumerate(POLICIES.values()):
        resolved, problem, model, queue, clock = begin(policy.name, None, {})
        arrived = 0
        for t in range(1, 200):
            _, arrived = step(resolved, problem, model, queue, clock, key, t, arrived)
        other = new_clock()._replace(next_server=clock.next_server.copy())
        other.round[0] = clock.round[0]
        mine = policy.choose(resolved.params, model, clock, queue, key)
        assert resolved.params.policy == place
        assert policies.choose(resolved.params, model, other, queue, key) == mine
        assert same(clock, other)
        assert policy.learn is learn  # the rollout calls this one


def test_busy_servers_are_not_chosen():
    key = make_key(5, 0)
    for policy, learner in CASES:
        resolved, _problem, model, queue, clock = begin(policy, learner, {})
        queue.free[:] = [False, True, False, True, False]
        for i in range(6):
            x = np.linspace(-0.5, 0.1 * i, WORLD.dimension)
            queue.newest[0] = waiting.add_job(resolved.params, model, queue, x, i, i)
        for t in range(1, 80):
            clock.round[0] = t
            _, server = resolved.policy.choose(resolved.params, model, clock, queue, key)
            assert queue.free[server], policy


def test_propensity_of_cqb_eps_is_the_frequency_of_its_choice():
    """Over many exploration coins, the share of each pair is what the clock reported."""
    resolved, _problem, model, queue, clock = begin(
        "cqb-eps", "likelihood", {"burn_in_rounds": 0, "explore_prob": 0.4}
    )
    for i in range(4):
        x = np.linspace(-0.5, 0.2 * i, WORLD.dimension)
        queue.newest[0] = waiting.add_job(resolved.params, model, queue, x, i, i)
    counts, reported = {}, {}
    draws = 20_000
    for t in range(2, draws + 2):
        clock.round[0] = t
        pair = resolved.policy.choose(resolved.params, model, clock, queue, make_key(8, 0))
        counts[pair] = counts.get(pair, 0) + 1
        reported[pair] = float(clock.propensity[0])
    assert sum(reported.values()) == pytest.approx(1.0)
    for pair, share in reported.items():
        width = 4.0 * (share * (1.0 - share) / draws) ** 0.5
        assert abs(counts[pair] / draws - share) < width
