"""Bad input from Python, and limits: one sentence; no traceback, no hang, no wrong index."""

import gc
import math
import subprocess
import sys
import tracemalloc

import numba
import numpy as np
import pytest

import headway
from headway.learners import learn
from headway.policies.cqb_opt import choose as choose_optimistic
from headway.settings import resolve

WORLD = headway.Scenario()


def tape_of(scale=1.0, rounds=60, **known):
    rng = np.random.default_rng(0)
    return headway.Tape(
        theta_star=rng.uniform(-1.0, 1.0, (3, 4)), contexts=scale * rng.uniform(-1, 1, (rounds, 4)),
        arrivals=rng.random(rounds) < 0.8, service=rng.random(rounds), **known,
    )  # fmt: skip


def refusal(call, *parts):
    """The sentence with which this is refused."""
    with pytest.raises(headway.HeadwayError) as problem:
        call()
    said = str(problem.value)
    assert "\n" not in said
    for part in parts:
        assert part in said, said


# What once hung.


@pytest.mark.parametrize(("scale", "ridge"), [(1e160, 1.0), (1.0, 1e-30), (1e300, 1e-300)])
def test_a_fit_ends_whatever_it_is_given(scale, ridge):
    program = f"""
import numpy as np
from headway.kernel.logistic import append, pack, refit, ridge_mle
rng = np.random.default_rng(0)
x = {scale} * rng.uniform(-1.0, 1.0, (40, 3))
r = (np.arange(40) % 3 > 0).astype(float)
y = pack(x, r) * 0.0
theta, inverse = np.zeros(3), np.eye(3) / {ridge}
with np.errstate(all="ignore"):
    for i in range(40):
        append(y, i, x[i], r[i] == 1.0)
        refit(y, i + 1, {ridge}, theta, inverse)
    print(np.isfinite(theta).all(), np.isfinite(ridge_mle(x, r, {ridge})).all())
"""
    found = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, timeout=120, check=True
    )
    assert found.stdout.split() == ["True", "True"]


def test_the_smallest_ridge_is_quick_and_its_fit_exact():
    from headway.kernel.logistic import append, pack, refit, ridge_mle, slope_sum

    rng = np.random.default_rng(3)
    x = rng.uniform(-1.0, 1.0, (150, 5))
    r = (rng.random(150) < 1.0 / (1.0 + np.exp(-3.0 * x.sum(axis=1)))).astype(float)
    y = pack(x, r) * 0.0
    theta, inverse = np.zeros(5), np.eye(5) / 1e-12
    gradient = np.empty(5)
    for i in range(150):
        append(y, i, x[i], r[i] == 1.0)
        refit(y, i + 1, 1e-12, theta, inverse)
        cold = ridge_mle(x[: i + 1], r[: i + 1], 1e-12)
        assert np.linalg.norm(theta - cold) <= 1e-3 * np.linalg.norm(cold), i
    slope_sum(y, 150, theta, gradient)
    assert np.abs(gradient + 1e-12 * theta).max() < 1e-6
    run = headway.simulate("cqb-opt", WORLD, rounds=300, learner="paper", ridge=1e-12)
    assert run.queue_final[0] < 300


@pytest.mark.parametrize(
    ("name", "value", "says"),
    [
        ("ridge", 1e-30, "ridge = 1e-30 must be at least 1e-12"),
        ("kappa", 1e-13, "kappa = 1e-13 must be at least 1e-12"),
        ("failure_prob", 1e-301, "failure_prob = 1e-301 must be at least 1e-300"),
        ("norm_bound", 1e-7, "norm_bound = 1e-07 must be between 1e-6 and 1e6"),
        ("norm_bound", 2e6, "norm_bound = 2000000.0 must be between 1e-6 and 1e6"),
        ("ridge", np.float64(0.0), "ridge = np.float64(0.0) must be at least 1e-12"),
        ("ridge", np.bool_(True), "must be a finite number"),
        ("ridge", 1j, "must be a finite number"),
    ],
)
def test_settings_beyond_what_the_kernels_can_carry(name, value, says):
    given = {name: value}
    refusal(lambda: headway.simulate("cqb-opt", WORLD, rounds=9, learner="paper", **given), says)


@pytest.mark.parametrize("learner", ["paper", "likelihood", "laplace"])
@pytest.mark.parametrize("scale", [1e6, 1e-6])
@pytest.mark.parametrize("norm_bound", [1e-6, 1e6])
def test_runs_at_the_limits_end(learner, scale, norm_bound):
    given = {"ridge": 1e-12, "kappa": 1e-12} if learner == "paper" else {}
    run = headway.simulate(
        "cqb-opt", tape_of(scale), rounds=60, learner=learner, norm_bound=norm_bound, **given
    )
    assert 0 <= run.queue_final[0] <= 60


# Sizes, worlds, names, tapes.


@pytest.mark.parametrize(
    ("given", "says"),
    [
        ({"rounds": 10**34}, f"rounds {10**34} must be below 2**44"),
        ({"rounds": 2**44}, "below 2**44"),
        ({"replicas": 2**32}, f"replicas {2**32} must be below 2**32"),
        ({"every": 10**34}, "every"),
        ({"threads": 10**34}, "threads"),
        ({"seed": 2**64}, "below 2**64"),
        ({"learner": ["paper"]}, "['paper']"),
    ],
)
def test_absurd_sizes(given, says):
    whole = {"rounds": 10, **given}
    refusal(lambda: headway.simulate("cqb-opt", WORLD, **whole), says)
    refusal(lambda: headway.compare(["cqb-opt"], WORLD, **whole), says)


def test_what_is_no_world_or_no_policy():
    refusal(lambda: headway.simulate("random", None, rounds=9), "world None", "Scenario")
    refusal(lambda: headway.compare(["random"], "cube", rounds=9), "world 'cube'")
    refusal(lambda: headway.simulate(["random"], WORLD, rounds=9), "policy ['random']")
    refusal(lambda: headway.simulate(None, WORLD, rounds=9), "policy None")
    refusal(lambda: headway.compare([["random"]], WORLD, rounds=9), "policy ['random']")
    assert list(headway.compare("random", WORLD, rounds=9, replicas=1).runs) == [
        "random", "optimal",
    ]  # fmt: skip


@pytest.mark.parametrize(
    ("given", "says"),
    [
        ({"slack": "a"}, "slack 'a'"),
        ({"slack": None}, "slack None"),
        ({"arrival_rate": "a"}, "arrival_rate 'a'"),
        ({"arrival_rate": True}, "arrival_rate True"),
        ({"swing": "a"}, "swing 'a'"),
        ({"servers": "5"}, "servers '5'"),
        ({"contexts": ["cube"]}, "['cube']"),
        ({"period": 2**44}, "below 2**44"),
    ],
)
def test_a_scenario_of_wrong_types(given, says):
    refusal(lambda: headway.Scenario(**given), says)


@pytest.mark.parametrize(
    ("known", "says"),
    [
        ({"arrival_rate": 0, "slack": 0.9}, "arrival_rate 0 must be in (0, 1]"),
        ({"arrival_rate": 1.5}, "arrival_rate 1.5"),
        ({"slack": 1.0}, "slack 1.0 must be at least 0 and below 1"),
        ({"slack": math.inf}, "slack inf"),
        ({"norm_bound": "a"}, "norm_bound 'a'"),
        ({"norm_bound": 0.0}, "norm_bound 0.0"),
        ({"scale": 1e160}, "beyond 1e+06"),
        ({"scale": 1j}, "contexts is not an array of numbers (it holds complex128)"),
    ],
)
def test_a_tape_beyond_its_limits(known, says):
    refusal(lambda: tape_of(**known), "tape: ", says)


def test_theta_star_has_a_limit_and_huge_integers_no_traceback():
    arrays = {"contexts": [[1.0]], "arrivals": [1], "service": [0.5]}
    refusal(lambda: headway.Tape(theta_star=[[2e6]], **arrays), "theta_star[0, 0] is 2e+06")
    refusal(lambda: headway.Tape(theta_star=[[10**400]], **arrays), "theta_star")


@pytest.mark.parametrize(
    ("given", "says"),
    [({"seed": -1}, "seed -1"), ({"rounds": -3}, "rounds -3"), ({"replica": -1}, "replica -1"),
     ({"rounds": 2.5}, "rounds 2.5"), ({"replica": 2**32}, "replica"), ({"seed": 2**64}, "seed")],
)  # fmt: skip
def test_a_tape_of_a_problem_that_there_is_not(given, says):
    refusal(lambda: WORLD.tape(**{"rounds": 9, **given}), says)


@pytest.mark.parametrize("share", [-0.1, 1.1, 99, math.nan, "p99", None])
def test_a_share_of_the_jobs_lies_between_none_and_all(share):
    run = headway.simulate("random", WORLD, rounds=30)
    refusal(lambda: run.wait(share), f"share {share!r} must be in [0, 1]")
    assert run.wait(0) <= run.wait(np.float32(0.5)) <= run.wait(1)


def test_numbers_of_numpy_are_numbers():
    world = headway.Scenario(
        servers=np.int64(3), dimension=np.int32(4), slack=np.float32(0.125),
        arrival_rate=np.int8(1), slack_by="none",
    )  # fmt: skip
    assert type(world.servers) is type(world.dimension) is int
    assert type(world.slack) is float
    given = {"failure_prob": 0.25, "burn_in_rounds": 7, "assumed_slack": 0.5}
    wrapped = {"failure_prob": np.float32(0.25), "burn_in_rounds": np.int64(7),
               "assumed_slack": np.float16(0.5)}  # fmt: skip
    one = headway.simulate("cqb-eps", world, rounds=90, replicas=2, seed=1, **given)
    other = headway.simulate(
        "cqb-eps", world, rounds=np.int32(90), replicas=np.int64(2), seed=np.uint64(1), **wrapped
    )
    assert one.settings == other.settings
    assert [type(each) for each in one.settings.values()] == [
        type(each) for each in other.settings.values()
    ]
    assert np.array_equal(one.queue_length, other.queue_length)
    assert type(other.rounds) is int
    cutoff = resolve("cqb-eta-2", world.situation(90), given={"cutoff": np.int64(40)})
    assert cutoff.params.cutoff_round == 40.0
    compared = headway.compare(["random"], world, rounds=np.int64(1000), replicas=2)
    assert len(compared.any_run.round) == 501


# Pairs that are none.


def pairs(job, server):
    def choose(params, model, clock, queue, key):
        return (job, server) if clock.round[0] >= 20 else (0, 0)

    return choose


@pytest.mark.parametrize("compiled", [False, True])
@pytest.mark.parametrize("pair", [(-1, -1), (10**6, 0), (0, 5), (0, -1), (-1, 0)])
def test_a_pair_that_is_none_stops_the_run_and_is_named(pair, compiled):
    choose = pairs(*pair)
    policy = headway.Policy("astray", numba.njit(choose) if compiled else choose, learn)
    call = lambda: headway.simulate(policy, WORLD, rounds=5000)  # noqa: E731
    parts = [f"policy astray chose job {pair[0]}, server {pair[1]} in round 2", "5 servers"]
    refusal(call, *parts, "correct the policy's choose")


@numba.njit
def learn_nan(params, model, x, tries, server, success):
    learn(params, model, x, tries, server, success)
    model.theta[:] = np.nan


def test_scores_that_are_no_numbers_choose_nobody():
    policy = headway.Policy("nan", choose_optimistic, learn_nan, learners=("likelihood",))
    refusal(
        lambda: headway.simulate(policy, WORLD, rounds=5000, replicas=3),
        "policy nan chose job -1, server -1 in round ",
        "learner likelihood holds NaN or infinity in theta",
    )


@pytest.mark.parametrize(
    ("choose", "says"),
    [
        (lambda *_: None, "TypeError"),
        (lambda *_: ("a", 0), "TypeError"),
        (lambda *_: (0.5, 0), "TypingError"),
        (lambda *_: 1 / 0, "ZeroDivisionError: division by zero"),
    ],
)
def test_what_a_plain_policy_raises_is_a_sentence_and_its_cause_is_kept(choose, says):
    policy = headway.Policy("raising", choose, learn)
    with pytest.raises(headway.HeadwayError, match="policy raising failed in round 2") as problem:
        headway.simulate(policy, headway.Scenario(arrival_rate=1.0, slack_by="none"), rounds=30)
    assert says in str(problem.value)
    assert len(str(problem.value)) < 300
    assert problem.value.__cause__ is not None


# Memory.


def test_waiting_times_take_little_room_and_replicas_leave_nothing():
    headway.simulate("random", WORLD, rounds=200, replicas=2)
    gc.collect()
    tracemalloc.start()
    run = headway.simulate("random", WORLD, rounds=200, replicas=200, every="final", threads=1)
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert peak < 20e6  # a tally alone is half a megabyte
    assert run.waits.shape[0] == 200
    assert run.waits.nbytes < 200 * 201
    counted = [each.sum(dtype=int) for each in run.waits]
    arrived = run.served + run.queue_final
    assert counted == arrived.tolist()


def test_a_run_of_nobody_has_no_waiting_times():
    tape = headway.Tape(theta_star=[[1.0]], contexts=np.zeros((0, 1)), arrivals=[0], service=[0.5])
    run = headway.simulate("random", tape, rounds=1)
    assert run.waits.shape == (1, 0)
    assert run.wait(1.0).tolist() == [0]


# The confidence set that became empty.


def test_an_empty_confidence_set_is_said_in_plain_words():
    run = headway.simulate("cqb-opt", tape_of(1e6, 2000), rounds=2000, norm_bound=1e-6)
    failed = int(run.event_failed.sum())
    assert failed > 0
    (said,) = run.remarks
    assert said.startswith(f"cqb-opt: at {failed} servers (in 1 of 1 replicas) no parameter within")
    assert "norm_bound 1e-06" in said
    from headway.experiments.results import comparison_summary

    found = headway.compare(
        ["cqb-opt"], tape_of(1e6, 2000), rounds=2000, replicas=1, norm_bound=1e-6
    )
    assert said in found.remarks
    rows = comparison_summary(found)["policies"]
    assert {name: row["event_failed"] for name, row in rows.items()} == {
        "cqb-opt": failed, "optimal": 0,
    }  # fmt: skip
    assert headway.simulate("cqb-opt", WORLD, rounds=300).remarks == ()


# What draws depend on.


@pytest.mark.parametrize(
    ("seed", "replica", "redraws", "acceptance"),
    [(0, 3, 2, 0.01565), (0, 5, 6, 0.0113), (2, 1, 0, 0.0108), (2, 5, 6, 0.05705)],
)
def test_redraws_and_acceptance_are_pinned(seed, replica, redraws, acceptance):
    """Both follow from LEAST_ACCEPTANCE and PROBES: another number there is another world."""
    found = headway.Scenario(dimension=2).instance(seed, replica)
    assert (found.redraws, found.acceptance) == (redraws, acceptance)
