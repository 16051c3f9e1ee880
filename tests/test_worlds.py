"""Every kind of contexts and arrivals, adversaries with their slack, and worlds that adapt."""

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import headway
from headway.kernel.ellipsoid import uncertainty
from headway.rng import CONTEXT, make_key
from headway.world.problem import CANDIDATES, next_with_slack

KINDS = ["cube", "ball", "gaussian", "finite", "fixed", "rotating", "late-surprise"]


def tape_of(rounds=3000, **given):
    return headway.Scenario(**given).tape(rounds=rounds, seed=3, replica=1)


def success_rates(tape):
    logits = tape.contexts @ tape.theta_star.T
    return 1.0 / (1.0 + np.exp(-logits.max(axis=1)))


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("unit_norm", [False, True])
def test_every_context_has_slack_and_keeps_the_bound(kind, unit_norm):
    if kind == "gaussian" and unit_norm:
        with pytest.raises(headway.HeadwayError, match="unit_norm needs contexts with a bound"):
            headway.Scenario(contexts=kind, unit_norm=True)
        return
    world = headway.Scenario(contexts=kind, unit_norm=unit_norm, slack=0.1)
    tape = world.tape(rounds=3000, seed=3, replica=1)
    assert success_rates(tape).min() >= 0.8 - 1e-12
    size = np.linalg.norm(tape.contexts, axis=1)
    if kind == "gaussian":
        assert world.norm_bound is None
        assert size.max() > math.sqrt(5.0)
    else:
        bound = 1.0 if unit_norm else math.sqrt(5.0)
        assert size.max() <= bound + 1e-12
        assert np.linalg.norm(tape.theta_star, axis=1).max() <= world.norm_bound


@pytest.mark.parametrize("kind", [*KINDS, "adaptive"])
def test_unit_norm_changes_no_success_rate(kind):
    if kind == "gaussian":
        return
    one, other = (
        headway.simulate("random", headway.Scenario(contexts=kind, unit_norm=unit), rounds=800)
        for unit in (False, True)
    )
    assert np.array_equal(one.queue_length, other.queue_length)


def test_the_ball_is_filled_uniformly():
    tape = tape_of(contexts="ball", slack_by="none", rounds=9000)
    share = (np.linalg.norm(tape.contexts, axis=1) / math.sqrt(5.0)) ** 5
    count = len(share)
    gap = np.abs(np.sort(share) - np.arange(1, count + 1) / count).max()
    assert gap < 2.23 / math.sqrt(count)  # Kolmogorov-Smirnov, 99.99 %
    assert np.abs(tape.contexts.mean(axis=0)).max() < 4.0 * math.sqrt(5.0 / 7.0 / count)


def test_gaussian_contexts_are_standard_normal():
    contexts = tape_of(contexts="gaussian", slack_by="none", rounds=9000).contexts
    count = len(contexts)
    assert np.abs(contexts.mean(axis=0)).max() < 4.0 / math.sqrt(count)
    assert np.abs(np.cov(contexts.T) - np.eye(5)).max() < 6.0 / math.sqrt(count)
    assert abs((contexts**4).mean() - 3.0) < 6.0 * math.sqrt(96.0 / contexts.size)


def test_gaussian_contexts_have_no_default_norm_bound():
    world = headway.Scenario(contexts="gaussian")
    with pytest.raises(headway.HeadwayError, match="norm_bound has no default here, give it"):
        headway.simulate("cqb-opt", world, rounds=10)
    assert headway.simulate("cqb-opt", world, rounds=10, norm_bound=2.5).rounds == 10


def test_a_finite_set_comes_again_and_again():
    contexts = tape_of(contexts="finite", vectors=7).contexts
    distinct, counts = np.unique(contexts, axis=0, return_counts=True)
    assert len(distinct) == 7
    expected = len(contexts) / 7
    assert ((counts - expected) ** 2 / expected).sum() < 27.9  # chi-square, 6 degrees, 99.99 %


@settings(max_examples=15, deadline=None)
@given(
    seed=st.integers(0, 2**32),
    servers=st.integers(2, 4),
    dimension=st.integers(2, 4),
    policy=st.sampled_from(["random", "q-ucb", "q-ths", "cqb-opt", "acqb", "cqb-eps"]),
)
def test_with_one_fixed_vector_queue_states_coincide(seed, servers, dimension, policy):
    """All jobs are alike, so a queue's state is its length: `optimal` is never the longer one."""
    world = headway.Scenario(
        servers=servers, dimension=dimension, contexts="fixed", slack=0.05, arrival_rate=0.5
    )
    assert len(np.unique(world.tape(rounds=60, seed=seed).contexts, axis=0)) == 1
    given = {"burn_in_rounds": 50} if policy == "cqb-eps" else {}
    mine, best = (
        headway.simulate(name, world, rounds=300, seed=seed, record=True, **own).queue_length[0]
        for name, own in ((policy, given), ("optimal", {}))
    )
    assert (mine >= best).all()
    once_equal = np.flatnonzero(mine == best)
    assert 0 in once_equal


def test_a_rotating_window_moves_on_and_keeps_slack():
    world = headway.Scenario(contexts="rotating", rotate_every=100, dimension=4)
    tape = world.tape(rounds=800, seed=2)
    rounds = np.flatnonzero(tape.arrivals) + 1
    for phase in range(8):
        inside = (rounds - 1) // 100 == phase
        active = {phase % 4, (phase + 1) % 4}
        used = np.abs(tape.contexts[inside]).max(axis=0) > 0.0
        assert set(np.flatnonzero(used)) == active
    found = world.instance(2, 0, 800)
    assert found.acceptance >= 0.01


def test_a_late_surprise_uses_directions_that_were_zero():
    world = headway.Scenario(contexts="late-surprise", surprise_round=500)
    tape = world.tape(rounds=800, seed=2)
    early = np.flatnonzero(tape.arrivals) + 1 < 500
    assert (tape.contexts[early][:, 3:] == 0.0).all()
    assert (tape.contexts[~early][:, :3] == 0.0).all()
    assert (~early).sum() > 100
    late = headway.Scenario(contexts="late-surprise").tape(rounds=1000)
    first = np.flatnonzero(tape_column(late, 4) != 0.0)[0]
    assert np.flatnonzero(late.arrivals)[first] + 1 >= 801
    with pytest.raises(headway.HeadwayError, match="rounds or surprise_round"):
        headway.Scenario(contexts="late-surprise").instance(0, 0)


def tape_column(tape, component):
    return tape.contexts[: tape.arrivals.sum(), component]


@pytest.mark.parametrize("kind", ["rotating", "late-surprise"])
def test_the_worst_phase_decides_over_theta_star(kind):
    """Acceptance is checked in each phase by brute force over contexts of that phase alone."""
    world = headway.Scenario(contexts=kind, dimension=4, servers=3, slack=0.15, rotate_every=50)
    redrawn = 0
    for replica in range(6):
        found = world.instance(1, replica, 1000)
        redrawn += found.redraws
        theta = found.problem.theta_star
        rng = np.random.default_rng(replica)
        drawn = rng.uniform(-1.0, 1.0, (40_000, 4)) * math.sqrt(2.0)
        windows = [(0, 1), (1, 2), (2, 3), (3, 0)] if kind == "rotating" else [(0, 1), (2, 3)]
        shares = []
        for window in windows:
            x = np.zeros_like(drawn)
            x[:, list(window)] = drawn[:, list(window)]
            shares.append(((x @ theta.T).max(axis=1) >= math.log(0.85 / 0.15)).mean())
        assert abs(min(shares) - found.acceptance) < 0.02
    assert redrawn > 0


# Worlds that adapt.


@pytest.mark.parametrize(
    ("policy", "learner"),
    [("cqb-opt", "likelihood"), ("cqb-opt", "paper"), ("acqb", "laplace"), ("cqb-eps", "laplace")],
)
def test_an_adaptive_run_is_its_tape(policy, learner):
    world = headway.Scenario(contexts="adaptive")
    given = {"burn_in_rounds": 100} if policy == "cqb-eps" else {}
    run = headway.simulate(policy, world, rounds=700, seed=5, learner=learner, record=True, **given)
    tape = run.tape()
    assert success_rates(tape).min() >= 0.8 - 1e-12
    played = headway.simulate(
        policy, tape, rounds=700, seed=5, learner=learner, record=True, **given
    )
    for name in ("queue_length", "job", "server", "success", "waits"):
        assert np.array_equal(getattr(played, name), getattr(run, name)), name
    with pytest.raises(headway.HeadwayError, match="no tape before a policy ran"):
        world.tape(rounds=10)
    with pytest.raises(headway.HeadwayError, match=r"replica 1 must be one of 0\.\.0"):
        run.tape(1)


def test_the_tape_of_any_run_is_its_world():
    world = headway.Scenario()
    run = headway.simulate("random", world, rounds=300, replicas=2, seed=4)
    expected = world.tape(rounds=300, seed=4, replica=1)
    found = run.tape(1)
    for name in ("theta_star", "contexts", "arrivals", "service"):
        assert np.array_equal(getattr(found, name), getattr(expected, name))
    again = headway.simulate("random", found, rounds=300)
    assert again.tape() is found


def test_adaptive_contexts_are_the_widest_of_the_candidates():
    """Round by round: the chosen context is the candidate that the model knows least."""
    world = headway.Scenario(contexts="adaptive")
    run = headway.simulate("cqb-opt", world, rounds=400, seed=1, learner="laplace", record=True)
    problem = run.instances[0].problem
    key = make_key(1, 0)
    tape = run.tape()
    model = replayed_model(run, tape)
    arrived = np.flatnonzero(tape.arrivals)
    for number in (0, 5, 40, 150):
        t = int(arrived[number]) + 1
        inverse = model(t)
        candidates, attempt = [], 0
        for _ in range(CANDIDATES):
            x = np.empty(5)
            attempt = next_with_slack(problem, key, CONTEXT, t, number, attempt, x) + 1
            candidates.append(x)
        widths = [max(uncertainty(inverse[k], x) for k in range(5)) for x in candidates]
        assert np.array_equal(tape.contexts[number], candidates[int(np.argmax(widths))])


def replayed_model(run, tape):
    """What the learner's inverse matrices were after the service of round t."""
    from headway.learners import learn, new_model
    from headway.settings import resolve

    params = resolve("cqb-opt", run.world.situation(run.rounds), learner="laplace", given={}).params

    def at(t):
        model = new_model(params, 5, 5)
        for s in range(t):
            if run.job[0, s] >= 0:
                x = tape.contexts[run.job[0, s]].copy()
                none = np.zeros(5, np.int64)
                learn(params, model, x, none, int(run.server[0, s]), bool(run.success[0, s]))
        return model.inverse

    return at


def test_an_adaptive_comparison_measures_against_optimal_on_the_same_jobs():
    world = headway.Scenario(contexts="adaptive")
    found = headway.compare(["cqb-opt", "random"], world, rounds=500, replicas=3, seed=2)
    for name in ("cqb-opt", "random"):
        run, yardstick = found.runs[name], found.yardsticks[name]
        for replica in range(3):
            tape = run.tape(replica)
            again = headway.simulate("optimal", tape, rounds=500)
            assert again.queue_mean[0] == yardstick.queue_mean[replica]
        regret = (run.queue_final - yardstick.queue_final).mean()
        assert found.rows[name]["regret_final"].mean == regret
    one, other = (found.runs[name].tape(0).contexts for name in ("cqb-opt", "random"))
    assert not np.array_equal(one, other[: len(one)])
    assert np.array_equal(
        found.runs["cqb-opt"].tape(0).arrivals, found.runs["random"].tape(0).arrivals
    )


def test_in_other_worlds_the_yardstick_is_the_one_optimal_run():
    found = headway.compare(["random"], headway.Scenario(), rounds=50, replicas=2)
    assert all(each is found.runs["optimal"] for each in found.yardsticks.values())


# Arrivals.


@pytest.mark.parametrize("kind", ["bursty", "periodic"])
@pytest.mark.parametrize("rate", [0.3, 0.7])
def test_bursts_and_periods_keep_the_mean(kind, rate):
    world = headway.Scenario(arrivals=kind, arrival_rate=rate, slack_by="none", period=20)
    shares = [world.tape(rounds=8000, seed=seed).arrivals.mean() for seed in range(6)]
    error = np.std(shares, ddof=1) / math.sqrt(6.0) + 1e-3
    assert abs(np.mean(shares) - rate) < 5.0 * error


def test_bursts_have_two_rates_and_periods_a_sine():
    world = headway.Scenario(arrivals="bursty", arrival_rate=0.5, slack_by="none", period=1000)
    stretches = world.tape(rounds=40_000).arrivals.reshape(-1, 1000).mean(axis=1)
    low, high = stretches[stretches < 0.5], stretches[stretches >= 0.5]
    assert abs(low.mean() - 0.25) < 0.02
    assert abs(high.mean() - 0.75) < 0.02
    assert low.size > 5
    assert high.size > 5
    world = headway.Scenario(arrivals="periodic", arrival_rate=0.5, slack_by="none", period=40)
    phase = world.tape(rounds=40_000).arrivals.reshape(-1, 40).mean(axis=0)
    expected = 0.5 + 0.25 * np.sin(2.0 * np.pi * np.arange(1, 41) / 40)
    assert np.abs(phase - expected).max() < 5.0 * math.sqrt(0.25 / 1000)


def test_no_swing_is_bernoulli():
    one, other = (
        headway.Scenario(arrivals=kind, swing=0.0).tape(rounds=400).arrivals
        for kind in ("bernoulli", "bursty")
    )
    assert np.array_equal(one, other)


@pytest.mark.parametrize(
    ("given", "says"),
    [
        ({"contexts": "cubes"}, "unknown contexts 'cubes': did you mean cube"),
        ({"arrivals": "burst"}, "unknown arrivals 'burst': did you mean bursty"),
        ({"vectors": 0}, "vectors 0"),
        ({"rotate_every": 1.5}, "rotate_every 1.5"),
        ({"surprise_round": 0}, "surprise_round 0"),
        ({"period": True}, "period True"),
        ({"swing": 1.5}, "swing 1.5"),
        ({"swing": float("nan")}, "swing nan"),
        ({"contexts": "late-surprise", "dimension": 1}, "dimension of at least 2"),
    ],
)
def test_a_world_that_cannot_be_is_refused(given, says):
    with pytest.raises(headway.HeadwayError) as problem:
        headway.Scenario(**given)
    assert says in str(problem.value)
