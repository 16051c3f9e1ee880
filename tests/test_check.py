"""The conformance kit: built-in policies pass, and each rule catches a policy made to break it."""

import itertools

import numpy as np
import pytest

import headway
from headway.check import RULES
from headway.learners import learn
from headway.policies import POLICIES

COUNTER = itertools.count()
MEMORY = {"last": 0}


def first_in(queue):
    """The row of the job that came first, and the first free server."""
    row = int(np.argmin(queue.arrival[: queue.length[0]]))
    return row, int(np.flatnonzero(queue.free)[0])


def choose_well(params, model, clock, queue, key):
    clock.explored[0] = False
    clock.propensity[0] = 1.0
    return first_in(queue)


def out_of_range(params, model, clock, queue, key):
    return int(queue.length[0]), 0


def busy_server(params, model, clock, queue, key):
    return first_in(queue)[0], 0


def counting(params, model, clock, queue, key):
    return first_in(queue)[0], int(np.flatnonzero(queue.free)[next(COUNTER) % queue.free.sum()])


def by_hash(params, model, clock, queue, key):
    free = np.flatnonzero(queue.free)
    return first_in(queue)[0], int(free[hash(f"{clock.round[0]}") % len(free)])


def writes_queue(params, model, clock, queue, key):
    queue.mean[0, 0] = 1.0
    return first_in(queue)


def writes_round(params, model, clock, queue, key):
    clock.round[0] += 1
    return first_in(queue)


def writes_model(params, model, clock, queue, key):
    model.theta[0, 0] += 1.0
    return first_in(queue)


def by_row(params, model, clock, queue, key):
    return 0, first_in(queue)[1]


def remembers(params, model, clock, queue, key):
    """Remembers the last round in a place of its own; nothing looks at it within a round."""
    before = MEMORY["last"]
    MEMORY["last"] = int(clock.round[0])
    free = np.flatnonzero(queue.free)
    return first_in(queue)[0], int(
        free[0 if before in (clock.round[0] - 1, clock.round[0]) else -1]
    )


def claims(params, model, clock, queue, key):
    clock.propensity[0] = 0.5
    return first_in(queue)


def raises(params, model, clock, queue, key):
    raise ZeroDivisionError("no server is good enough")


def worst_pair(params, model, clock, queue, key):
    clock.propensity[0] = 1.0
    return first_in(queue)[0], int(np.flatnonzero(queue.free)[-1])


def learn_writes_queue(params, model, x, tries, server, success):
    learn(params, model, x, tries, server, success)
    tries[server] += 1


def learn_nothing(params, model, x, tries, server, success):
    pass


def learn_in_a_hurry(params, model, x, tries, server, success):
    """Cannot stand outcomes of more than one job at once."""
    learn(params, model, x, tries, server, success)
    model.theta[server] += 1.0 / (x - model.step[server] * 0.0 - x[::-1])


def named(name, choose, learn=learn, **given):
    return headway.Policy(name, choose, learn, **given)


well_behaved = named("well-behaved", choose_well)
hashing = named("hashing", by_hash)

BREAKERS = {
    "choose returns a waiting job and a free server": [
        named("out-of-range", out_of_range),
        named("busy-server", busy_server),
        named("raises", raises),
    ],
    "the same inputs give the same pair": [named("counting", counting)],
    "the same inputs give the same pairs in another process": [hashing],
    "choose writes nothing but the clock, and never its round": [
        named("writes-queue", writes_queue),
        named("writes-round", writes_round),
        named("writes-model", writes_model),
    ],
    "learn writes nothing but the model, and counts its outcome": [
        named("learn-writes-tries", choose_well, learn_writes_queue),
        named("learn-nothing", choose_well, learn_nothing),
    ],
    "the order in which rows are stored does not matter": [named("by-row", by_row)],
    "a run saved, loaded and continued equals an uninterrupted one": [
        named("remembers", remembers)
    ],
    "100 outcomes may be outstanding": [named("hurried", choose_well, learn_in_a_hurry)],
    "the reported propensity is how often the pair is chosen, or NaN": [named("claims", claims)],
    "its queue is no longer than random's on 20 fixed problems": [named("worst", worst_pair)],
}


@pytest.mark.parametrize("name", POLICIES)
def test_built_in_policies_keep_every_rule(name):
    report = headway.check_policy(name)
    assert report.passed, str(report)
    assert all(each.state == "kept" for each in report.findings)
    assert [each.rule for each in report.findings] == list(RULES)


def test_a_plain_policy_passes_with_a_warning_at_most():
    report = headway.check_policy(well_behaved)
    assert report.passed, str(report)
    assert "rules kept" in report.verdict


@pytest.mark.parametrize(
    ("rule", "policy"),
    [(rule, policy) for rule, policies in BREAKERS.items() for policy in policies],
    ids=lambda each: each.name if isinstance(each, headway.Policy) else "",
)
@pytest.mark.filterwarnings("ignore::RuntimeWarning")
def test_each_rule_catches_the_policy_made_to_break_it(rule, policy):
    report = headway.check_policy(policy)
    states = {each.rule: each for each in report.findings}
    lenient = policy.name == "worst"
    assert states[rule].state == ("warning" if lenient else "broken"), str(report)
    assert states[rule].detail
    assert report.passed == lenient


def test_a_compiled_loop_that_differs_from_calls_is_caught(monkeypatch):
    """No policy of one source can differ: so the loop itself is broken here."""
    from headway import check

    def slow(policy):
        right = player(policy)

        def late(params, model, clock, queue, key, problem, tally, last):
            right(params, model, clock, queue, key, problem, tally, last)
            tally.server[20] += 1

        return late

    player = check.player
    monkeypatch.setattr(check, "player", slow)
    report = headway.check_policy("cqb-opt", learner="laplace")
    broken = [each.rule for each in report.findings if each.state == "broken"]
    assert broken == ["the compiled loop does what calls from Python do"]


def test_every_rule_has_a_breaker():
    assert set(BREAKERS) | {"the compiled loop does what calls from Python do"} == set(RULES)


def test_a_learner_the_policy_cannot_use_is_refused():
    with pytest.raises(headway.HeadwayError, match="cannot use learner 'likelihood'"):
        headway.check_policy("cqb-ts", learner="likelihood")
