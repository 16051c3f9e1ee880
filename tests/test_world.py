"""Proves that scenarios draw the problems they promise and that tapes replay them exactly."""

import itertools

import numpy as np
import pytest

import headway

LEARNED = [
    ("cqb-opt", "likelihood"),
    ("cqb-opt", "paper"),
    ("cqb-eps", "likelihood"),
    ("cqb-eps", "paper"),
]
CASES = [*LEARNED, ("random", None), ("optimal", None)]
ROUNDS = 400
PAPER_WORLD = headway.Scenario()


def best_logit(theta_star, contexts):
    return (contexts @ theta_star.T).max(axis=1)


def same_tape(one, other):
    names = ("theta_star", "contexts", "arrivals", "service")
    return all(np.array_equal(getattr(one, name), getattr(other, name)) for name in names)


def tape_with(**changed):
    """A small tape of 3 rounds, 2 arrivals, 2 servers in dimension 3, with something changed."""
    arrays = {
        "theta_star": np.full((2, 3), 0.5),
        "contexts": np.full((2, 3), 0.25),
        "arrivals": [True, False, True],
        "service": [0.1, 0.5, 0.9],
    }
    return headway.Tape(**{**arrays, **changed})


# Drawing problems.


def test_a_replica_is_the_same_problem_whatever_was_drawn_before_it():
    alone = PAPER_WORLD.tape(rounds=200, seed=4, replica=3)
    for replica in (9, 0, 5):
        PAPER_WORLD.tape(rounds=50, seed=replica, replica=replica)
    assert same_tape(alone, headway.Scenario().tape(rounds=200, seed=4, replica=3))


def test_a_longer_tape_begins_with_the_shorter_one():
    short, long = (PAPER_WORLD.tape(rounds=rounds, seed=2) for rounds in (100, 300))
    assert np.array_equal(long.arrivals[:100], short.arrivals)
    assert np.array_equal(long.service[:100], short.service)
    assert np.array_equal(long.contexts[: len(short.contexts)], short.contexts)


def test_replicas_and_seeds_are_different_problems():
    tapes = [
        PAPER_WORLD.tape(rounds=50, seed=seed, replica=replica)
        for seed, replica in [(0, 0), (0, 1), (1, 0), (2**32, 0), (2**64 - 1, 0)]
    ]
    for one, other in itertools.combinations(tapes, 2):
        assert not np.array_equal(one.theta_star, other.theta_star)
        assert not np.array_equal(one.contexts[0], other.contexts[0])
        assert not np.array_equal(one.service, other.service)
        assert not np.array_equal(one.arrivals, other.arrivals)


def test_a_replica_is_the_same_whoever_runs_it():
    runs = [headway.simulate(name, PAPER_WORLD, rounds=60, replicas=4) for name, _ in CASES[::2]]
    for run in runs[1:]:
        assert np.array_equal(run.acceptance, runs[0].acceptance)
        assert np.array_equal(run.redraws, runs[0].redraws)


@pytest.mark.parametrize("unit_norm", [False, True])
@pytest.mark.parametrize(("servers", "dimension", "slack"), [(5, 5, 0.1), (3, 2, 0.02), (5, 7, 0)])
def test_every_context_has_slack_and_lies_in_the_cube(servers, dimension, slack, unit_norm):
    world = headway.Scenario(servers=servers, dimension=dimension, slack=slack, unit_norm=unit_norm)
    scale = dimension**-0.5 if unit_norm else 1.0
    for replica in range(3):
        tape = world.tape(rounds=400, seed=1, replica=replica)
        success = 1.0 / (1.0 + np.exp(-best_logit(tape.theta_star, tape.contexts)))
        assert success.min() >= 0.7 + slack - 1e-12
        assert np.abs(tape.contexts).max() < scale
        assert np.abs(tape.theta_star).max() < 1.0 / scale


def test_without_slack_every_context_counts():
    world = headway.Scenario(slack_by="none", slack=0.1)
    tape = world.tape(rounds=3000)
    success = 1.0 / (1.0 + np.exp(-best_logit(tape.theta_star, tape.contexts)))
    assert success.min() < 0.7
    assert world.instance(0, 0).acceptance == 1.0
    assert world.situation().slack is None
    mean = tape.contexts.mean(axis=0)
    assert np.abs(mean).max() < 4.0 / np.sqrt(3.0 * len(tape.contexts))


@pytest.mark.parametrize("seed", [0, 5])
def test_contexts_are_uniform_on_the_accepted_set(seed):
    tape = PAPER_WORLD.tape(rounds=12_000, seed=seed)
    drawn = np.random.default_rng(seed).uniform(-1.0, 1.0, (300_000, 5))
    kept = drawn[best_logit(tape.theta_star, drawn) >= np.log(4.0)]
    found, count = tape.contexts, len(tape.contexts)
    error = np.sqrt(kept.var(axis=0) * (1.0 / count + 1.0 / len(kept)))
    assert (np.abs(found.mean(axis=0) - kept.mean(axis=0)) < 4.0 * error).all()
    # Kolmogorov-Smirnov, 99.99 %: each component, and the best logit that slack cuts.
    bound = 2.23 * np.sqrt(1.0 / count + 1.0 / len(kept))
    pairs = [(found[:, i], kept[:, i]) for i in range(5)]
    pairs.append((best_logit(tape.theta_star, found), best_logit(tape.theta_star, kept)))
    for one, other in pairs:
        grid = np.quantile(other, np.linspace(0.02, 0.98, 49))
        gap = np.searchsorted(np.sort(one), grid) / count
        gap -= np.searchsorted(np.sort(other), grid) / len(other)
        assert np.abs(gap).max() < bound
    gap = np.abs(np.cov(found.T) - np.cov(kept.T)).max()
    assert gap < 5.0 / np.sqrt(count)


@pytest.mark.parametrize("rate", [0.05, 0.7, 0.95])
def test_jobs_arrive_at_the_arrival_rate(rate):
    world = headway.Scenario(arrival_rate=rate, slack_by="none")
    arrivals = world.tape(rounds=20_000).arrivals
    assert abs(arrivals.mean() - rate) < 4.0 * np.sqrt(rate * (1.0 - rate) / 20_000)
    together = (arrivals[1:] & arrivals[:-1]).mean()
    assert abs(together - rate**2) < 6.0 * np.sqrt(rate**2 * (1.0 - rate**2) / 20_000)


def test_an_arrival_rate_of_one_brings_a_job_every_round():
    world = headway.Scenario(arrival_rate=1.0, slack_by="none")
    assert world.tape(rounds=500).arrivals.all()


# Slack and what cannot be had.


def test_theta_star_is_redrawn_until_enough_contexts_have_slack():
    world = headway.Scenario(dimension=3, slack=0.1)
    found = [world.instance(seed, replica) for seed in range(3) for replica in range(4)]
    redrawn = [each for each in found if each.redraws > 0]
    assert redrawn
    assert len(redrawn) < len(found)
    rng = np.random.default_rng(0)
    contexts = rng.uniform(-1.0, 1.0, (40_000, 3))
    for each in found:
        share = (best_logit(each.problem.theta_star, contexts) >= np.log(4.0)).mean()
        assert each.acceptance >= 0.01
        assert abs(each.acceptance - share) < 6.0 * np.sqrt(each.acceptance / 20_000)


def test_redraws_and_acceptance_are_reported():
    world = headway.Scenario(dimension=3, slack=0.1)
    run = headway.simulate("optimal", world, rounds=20, replicas=6)
    found = [world.instance(0, replica) for replica in range(6)]
    assert run.redraws.tolist() == [each.redraws for each in found]
    assert run.acceptance.tolist() == [each.acceptance for each in found]
    assert run.redraws.max() > 0


def test_unreachable_slack_names_what_was_found():
    world = headway.Scenario(servers=1, dimension=1, slack=0.29)
    with pytest.raises(headway.HeadwayError, match=r"slack 0\.29 .*0\.00%.*1% needed"):
        world.instance(0, 0)


@pytest.mark.parametrize(
    ("given", "says"),
    [
        ({"slack": 0.3}, "slack 0.3 at arrival rate 0.7"),
        ({"slack": 0.9}, "slack 0.9 at arrival rate 0.7"),
        ({"arrival_rate": 1.0, "slack": 0.0}, "arrival rate 1"),
        ({"slack": float("nan")}, "slack nan"),
        ({"slack": float("inf")}, "slack inf"),
        ({"slack": -0.1}, "slack -0.1"),
        ({"arrival_rate": float("nan")}, "arrival_rate nan"),
        ({"arrival_rate": 0.0}, "arrival_rate 0.0"),
        ({"arrival_rate": 1.5}, "arrival_rate 1.5"),
        ({"servers": 0}, "servers 0"),
        ({"servers": 2.5}, "servers 2.5"),
        ({"dimension": -3}, "dimension -3"),
        ({"dimension": True}, "dimension True"),
        ({"slack_by": "rejct"}, "'rejct': did you mean reject"),
    ],
)
def test_a_scenario_that_cannot_be_is_refused(given, says):
    with pytest.raises(headway.HeadwayError) as problem:
        headway.Scenario(**given)
    assert says in str(problem.value)


# Contexts in the unit ball.


@pytest.mark.parametrize("dimension", [4, 5])
def test_unit_norm_leaves_every_success_rate_alone(dimension):
    plain = headway.Scenario(dimension=dimension)
    unit = headway.Scenario(dimension=dimension, unit_norm=True)
    for replica in range(3):
        one, other = (world.tape(rounds=1000, replica=replica) for world in (plain, unit))
        assert np.linalg.norm(other.contexts, axis=1).max() <= 1.0
        rates = one.contexts @ one.theta_star.T
        assert np.abs(other.contexts @ other.theta_star.T - rates).max() <= 1e-12
        assert np.linalg.norm(other.theta_star, axis=1).max() <= unit.norm_bound
        assert np.array_equal(one.arrivals, other.arrivals)
    assert plain.norm_bound == pytest.approx(dimension**0.5, rel=1e-15)
    assert unit.norm_bound == dimension
    assert unit.situation().norm_bound == dimension


@pytest.mark.parametrize("policy", ["optimal", "random"])
def test_unit_norm_changes_no_trajectory_that_needs_no_learning(policy):
    one, other = (
        headway.simulate(policy, headway.Scenario(unit_norm=unit), rounds=1500, replicas=3)
        for unit in (False, True)
    )
    assert np.array_equal(one.queue_length, other.queue_length)
    assert np.array_equal(one.waits, other.waits)


# Tapes.


@pytest.mark.parametrize(("policy", "learner"), CASES)
def test_a_tape_replays_its_scenario_bit_by_bit(policy, learner):
    given = {"rounds": ROUNDS, "seed": 6, "learner": learner, "record": True}
    world = headway.Scenario(dimension=6, servers=3, slack=0.1)
    run = headway.simulate(policy, world, replicas=2, **given)
    for replica in range(2):
        tape = world.tape(rounds=ROUNDS, seed=6, replica=replica)
        if replica and policy in ("random", "cqb-eps"):
            continue  # their own coins belong to the replica, and a tape is replica 0
        played = headway.simulate(policy, tape, **given)
        for name in ("queue_length", "job", "server", "success"):
            assert np.array_equal(getattr(played, name)[0], getattr(run, name)[replica]), name
        one, other = (np.trim_zeros(each, "b") for each in (played.waits[0], run.waits[replica]))
        assert np.array_equal(one, other)  # replicas are padded to the longest wait of any


@pytest.mark.parametrize(
    ("changed", "says"),
    [
        ({"theta_star": [0.5, 0.5]}, "theta_star has shape (2,)"),
        ({"theta_star": np.zeros((0, 3))}, "theta_star has shape (0, 3)"),
        ({"theta_star": np.zeros((2, 4))}, "contexts have dimension 3, theta_star has 4"),
        ({"theta_star": [[1, 2, 3], [1, float("nan"), 3]]}, "theta_star[1, 1] is nan"),
        ({"contexts": [0.5, 0.5]}, "contexts has shape (2,)"),
        ({"contexts": np.zeros((2, 2))}, "contexts have dimension 2, theta_star has 3"),
        ({"contexts": [[1, 2, 3], [1, 2, float("inf")]]}, "contexts[1, 2] is inf"),
        ({"contexts": [[1, 2, 3], [1, 2]]}, "contexts is not an array of numbers"),
        ({"contexts": [["a", "b", "c"]] * 2}, "contexts is not an array of numbers"),
        ({"contexts": np.zeros((1, 3))}, "2 arrivals but only 1 contexts"),
        ({"arrivals": [1, 0, 2]}, "arrivals holds 2"),
        ({"arrivals": [1, 0, 0.5]}, "arrivals holds 0.5"),
        ({"arrivals": [1, float("nan"), 0]}, "arrivals[1] is nan"),
        ({"arrivals": [True, True]}, "arrivals cover 2 rounds, service 3"),
        ({"arrivals": [[True, False, True]]}, "arrivals has shape (1, 3)"),
        ({"service": [0.1, 0.5]}, "arrivals cover 3 rounds, service 2"),
        ({"service": 0.5}, "service has shape ()"),
        ({"service": [0.1, 1.25, 0.5]}, "service holds 1.25"),
        ({"service": [0.1, -0.25, 0.5]}, "service holds -0.25"),
        ({"service": [0.1, float("-inf"), 0.5]}, "service[1] is -inf"),
        ({"norm_bound": float("nan")}, "norm_bound nan"),
        ({"slack": -0.5}, "slack -0.5"),
    ],
)
def test_a_tape_that_cannot_be_played_names_the_array_and_the_value(changed, says):
    with pytest.raises(headway.HeadwayError) as problem:
        tape_with(**changed)
    assert says in str(problem.value)
    assert "\n" not in str(problem.value)


def test_a_tape_keeps_its_own_copy():
    contexts = np.full((2, 3), 0.25)
    tape = tape_with(contexts=contexts)
    contexts[:] = 9.0
    assert (tape.contexts == 0.25).all()


def test_a_tape_takes_zeros_and_ones_and_the_ends_of_the_unit_interval():
    tape = tape_with(theta_star=np.zeros((2, 3)), arrivals=[1, 1, 0], service=[0.0, 1.0, 0.5])
    run = headway.simulate("random", tape, rounds=3, record=True)
    assert run.success[0].tolist() == [-1, 0, 1]  # a draw equal to the success rate succeeds
    assert run.queue_length[0].tolist() == [0, 1, 2, 1]


def test_a_tape_bounds_rounds_and_replicas():
    with pytest.raises(headway.HeadwayError, match="rounds 4: the tape covers only 3"):
        headway.simulate("random", tape_with(), rounds=4)
    with pytest.raises(headway.HeadwayError, match="replicas 2"):
        headway.simulate("random", tape_with(), rounds=3, replicas=2)
