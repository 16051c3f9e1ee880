"""Proves what a simulated round is, what a run counts, and that results depend on nothing else."""

import hashlib
import itertools
import math
import subprocess
import sys
from fractions import Fraction

import numpy as np
import pytest

import headway
from headway.rng import EXPLORE, SERVER, make_key, uniform
from headway.settings import resolve
from headway.sim.rollout import EXACT_WAITS, OCTAVE, WAIT_BUCKETS, bucket_wait, wait_bucket

WORLD = headway.Scenario()
ROUNDS = 500
CASES = [
    ("cqb-opt", "likelihood"),
    ("cqb-opt", "paper"),
    ("cqb-eps", "likelihood"),
    ("cqb-eps", "paper"),
    ("random", None),
    ("optimal", None),
]
ARRAYS = ("queue_length", "queue_final", "queue_mean", "waits", "served", "job", "server")


def recorded(policy, learner=None, *, rounds=ROUNDS, seed=0, **given):
    """A run with its record, and the tape of its one problem."""
    run = headway.simulate(
        policy, WORLD, rounds=rounds, seed=seed, learner=learner, record=True, **given
    )
    return run, WORLD.tape(rounds=rounds, seed=seed)


def play(tape, decide):
    """The rounds of the paper in plain Python: choose, serve, then arrive. decide(t, waiting)
    names an (arrival number, server); `waiting` maps arrival number to the round of entering.
    """
    waiting, arrived = {}, 0
    lengths, waits, made = [0], [], []
    for t in range(1, len(tape.arrivals) + 1):
        choice = (-1, -1, -1)
        if waiting:
            job, server = decide(t, waiting)
            assert job in waiting
            logit = float(tape.contexts[job] @ tape.theta_star[server])
            success = tape.service[t - 1] <= 1.0 / (1.0 + math.exp(-logit))
            if success:
                waits.append(t - waiting.pop(job))
            choice = (job, server, int(success))
        made.append(choice)
        if tape.arrivals[t - 1]:
            waiting[arrived] = t
            arrived += 1
        lengths.append(len(waiting))
    ages = [len(tape.arrivals) - entered for entered in waiting.values()]
    return np.array(lengths), np.array(made), waits, ages


def replay(run, tape):
    """The same rounds with the recorded choices."""
    return play(tape, lambda t, _: (int(run.job[0, t - 1]), int(run.server[0, t - 1])))


# Rounds.


@pytest.mark.parametrize(("policy", "learner"), CASES)
def test_rounds_are_choose_serve_arrive(policy, learner):
    run, tape = recorded(policy, learner, seed=2)
    lengths, made, waits, _ = replay(run, tape)
    assert np.array_equal(run.queue_length[0], lengths)
    assert np.array_equal(np.stack([run.job[0], run.server[0], run.success[0]], axis=1), made)
    assert run.served[0] == len(waits)
    assert min(waits) >= 1
    assert lengths[0] == 0
    assert made[0].tolist() == [-1, -1, -1]


@pytest.mark.parametrize(("policy", "learner"), CASES)
def test_the_queue_loses_successes_and_gains_arrivals(policy, learner):
    run, tape = recorded(policy, learner, seed=3)
    length = run.queue_length[0].astype(np.int64)
    assert np.array_equal(np.diff(length), tape.arrivals * 1 - (run.success[0] == 1))
    empty = length[:-1] == 0
    assert np.array_equal(run.job[0] == -1, empty)
    assert np.array_equal(run.success[0] == -1, empty)
    assert run.queue_final[0] == length[-1]
    assert run.queue_mean[0] == length[1:].mean()
    assert run.job[0].max() < tape.arrivals.sum()


def test_a_job_that_arrives_to_an_empty_queue_stays_for_the_round():
    tape = headway.Tape(
        theta_star=[[50.0]], contexts=[[1.0]] * 3, arrivals=[1, 0, 1, 1, 0], service=[0.5] * 5
    )
    run = headway.simulate("cqb-opt", tape, rounds=5, record=True)
    assert run.queue_length[0].tolist() == [0, 1, 0, 1, 1, 0]
    assert run.job[0].tolist() == [-1, 0, -1, 1, 2]


def test_optimal_takes_the_job_with_the_best_success_rate():
    run, tape = recorded("optimal", rounds=3000)
    logits = tape.contexts @ tape.theta_star.T

    def decide(_, waiting):
        job = max(waiting, key=lambda number: (logits[number].max(), -number))
        return job, int(logits[job].argmax())

    lengths, made, *_ = play(tape, decide)
    assert np.array_equal(run.job[0], made[:, 0])
    assert np.array_equal(run.server[0], made[:, 1])
    assert np.array_equal(run.queue_length[0], lengths)


def test_optimal_serves_equal_jobs_in_order_of_arrival():
    rng = np.random.default_rng(1)
    kinds = rng.uniform(-1.0, 1.0, (4, 3))
    tape = headway.Tape(
        theta_star=rng.uniform(-1.0, 1.0, (3, 3)),
        contexts=kinds[rng.integers(0, 4, 900)],
        arrivals=rng.random(900) < 0.75,
        service=rng.random(900),
    )
    run = headway.simulate("optimal", tape, rounds=900, record=True)
    best = [max(float(x @ theta) for theta in tape.theta_star) for x in tape.contexts]
    value = {kind.tobytes(): number for kind, number in zip(tape.contexts, best, strict=True)}
    fixed = [value[x.tobytes()] for x in tape.contexts]
    _, made, *_ = play(tape, lambda t, waiting: (
        max(waiting, key=lambda job: (fixed[job], -job)), int(run.server[0, t - 1])
    ))  # fmt: skip
    assert np.array_equal(run.job[0], made[:, 0])
    assert run.queue_length.max() > 20


def test_random_takes_every_waiting_job_and_server_equally_often():
    run, tape = recorded("random", rounds=4000, seed=1)
    ranks = []

    def decide(t, waiting):
        job = int(run.job[0, t - 1])
        if len(waiting) >= 50:
            ranks.append(sorted(waiting).index(job) / len(waiting))
        return job, int(run.server[0, t - 1])

    play(tape, decide)
    assert len(ranks) > 2000
    assert abs(np.mean(ranks) - 0.49) < 0.03
    assert abs(np.var(ranks) - 1.0 / 12.0) < 0.01
    counts = np.bincount(run.server[0][run.server[0] >= 0], minlength=5)
    assert np.abs(counts / counts.sum() - 0.2).max() < 0.03


# What is kept.


@pytest.mark.parametrize("rounds", [1, 6, 49, 500])
def test_thinned_columns_agree_with_all_of_them(rounds):
    whole, sevenths, last = (
        headway.simulate("cqb-opt", WORLD, rounds=rounds, replicas=2, every=every)
        for every in (1, 7, "final")
    )
    assert whole.round.tolist() == list(range(rounds + 1))
    assert sevenths.round.tolist() == sorted({*range(0, rounds + 1, 7), rounds})
    assert last.round.tolist() == [rounds]
    for thin in (sevenths, last):
        assert np.array_equal(thin.queue_length, whole.queue_length[:, thin.round])
        assert np.array_equal(thin.queue_final, whole.queue_length[:, -1])
        assert np.array_equal(thin.queue_mean, whole.queue_mean)
    assert np.array_equal(whole.queue_mean, whole.queue_length[:, 1:].mean(axis=1))


@pytest.mark.parametrize("policy", ["random", "cqb-opt", "optimal"])
def test_wait_percentiles_count_who_still_waits_at_its_age(policy):
    run, tape = recorded(policy, rounds=1500, seed=5)
    *_, waits, ages = replay(run, tape)
    everyone = sorted(waits + ages)
    assert len(everyone) == tape.arrivals.sum()
    for text in ("0.01", "0.1", "0.25", "0.5", "0.75", "0.9", "0.95", "0.99", "0.999", "1"):
        rank = math.ceil(Fraction(text) * len(everyone))
        assert run.wait(float(text))[0] == everyone[max(rank, 1) - 1], text


def test_nobody_came_nobody_waited():
    tape = headway.Tape(theta_star=[[1.0]], contexts=np.zeros((0, 1)), arrivals=[0], service=[0.5])
    run = headway.simulate("cqb-eps", tape, rounds=1)
    assert run.wait(0.99).tolist() == [0]
    assert run.queue_length.tolist() == [[0, 0]]


def test_wait_buckets_are_exact_then_within_a_2048th():
    for wait in range(EXACT_WAITS):
        assert wait_bucket(wait) == wait == bucket_wait(wait)
    rng = np.random.default_rng(0)
    tried = {2**power + shift for power in range(12, 37) for shift in (-1, 0, 1)}
    tried |= {int(2**power) for power in rng.uniform(12.0, 37.0, 2000)}
    before = -1
    for wait in sorted(tried):
        bucket = int(wait_bucket(wait))
        assert before <= bucket < WAIT_BUCKETS
        shortest = bucket_wait(bucket)
        assert shortest <= wait < shortest * (1.0 + 1.0 / OCTAVE) + 1
        before = bucket


def test_wait_buckets_follow_each_other_without_a_gap():
    shortest = [bucket_wait(bucket) for bucket in range(EXACT_WAITS + 28 * OCTAVE)]
    assert all(one < other for one, other in itertools.pairwise(shortest))
    assert shortest[-1] <= 2**40
    for bucket in range(0, len(shortest) - 1, 97):
        assert wait_bucket(shortest[bucket]) == bucket
        assert wait_bucket(shortest[bucket + 1] - 1) == bucket
    assert wait_bucket(2**40) < WAIT_BUCKETS
    assert bucket_wait(int(wait_bucket(2**40))) == 2**40


# What results depend on.


def fingerprint(run):
    """All arrays of a run in 32 letters."""
    whole = b"".join(np.ascontiguousarray(getattr(run, name)).tobytes() for name in ARRAYS)
    return hashlib.blake2b(whole, digest_size=16).hexdigest()


@pytest.mark.parametrize(("policy", "learner"), CASES[1:])
def test_threads_and_replicas_change_nothing(policy, learner):
    given = {"rounds": 300, "learner": learner, "record": True}
    ten = headway.simulate(policy, WORLD, replicas=10, threads=1, **given)
    for threads in (2, 4):
        again = headway.simulate(policy, WORLD, replicas=10, threads=threads, **given)
        assert fingerprint(again) == fingerprint(ten)
    five = headway.simulate(policy, WORLD, replicas=5, **given)
    for name in ARRAYS:
        mine = getattr(five, name)
        theirs = getattr(ten, name)[:5]
        if name == "waits":  # as many buckets as the longest wait of any replica
            assert not theirs[:, mine.shape[1] :].any()
            theirs = theirs[:, : mine.shape[1]]
        assert np.array_equal(mine, theirs), name
    other = headway.simulate(policy, WORLD, replicas=10, seed=1, **given)
    assert fingerprint(other) != fingerprint(ten)
    assert len({row.tobytes() for row in ten.queue_length}) == 10


def test_a_run_longer_than_a_stretch_begins_as_a_shorter_one():
    short, long = (
        headway.simulate("cqb-opt", WORLD, rounds=rounds, failure_prob=0.01, record=True)
        for rounds in (1000, 5000)
    )
    assert np.array_equal(long.queue_length[:, :1001], short.queue_length)
    assert np.array_equal(long.job[:, :1000], short.job)


def test_another_process_gives_the_same_bits():
    program = (
        "import sys, headway; sys.path.insert(0, sys.argv[1]); import test_simulate as here\n"
        "for policy, learner in here.CASES:\n"
        "    print(here.fingerprint(headway.simulate(policy, here.WORLD, rounds=400, replicas=2,"
        " learner=learner, record=True)))"
    )
    folder = __file__.rpartition("/")[0]
    found = subprocess.run(
        [sys.executable, "-c", program, folder], capture_output=True, text=True, check=True
    )
    mine = [
        headway.simulate(policy, WORLD, rounds=400, replicas=2, learner=learner, record=True)
        for policy, learner in CASES
    ]
    assert found.stdout.split() == [fingerprint(run) for run in mine]


@pytest.mark.parametrize(
    ("given", "says"),
    [
        ({"rounds": 0}, "rounds 0"),
        ({"rounds": 2.5}, "rounds 2.5"),
        ({"replicas": 0}, "replicas 0"),
        ({"replicas": True}, "replicas True"),
        ({"seed": -1}, "seed -1"),
        ({"seed": 2**64}, "seed 18446744073709551616"),
        ({"every": 0}, "every 0"),
        ({"every": "last"}, "every 'last'"),
        ({"threads": 0}, "threads 0"),
        ({"learner": "papr"}, "'papr': did you mean paper?"),
        ({"kappa": 3.0}, "belongs to learner paper"),
        ({"failure_prob": 1.0}, "failure_prob = 1.0"),
        ({"norm_bound": math.nan}, "norm_bound = nan"),
        ({"explore_prob": 1.5}, "explore_prob = 1.5"),
        ({"burn_in_rounds": 2.5}, "burn_in_rounds = 2.5"),
        ({"assumed_slack": -0.1}, "assumed_slack = -0.1"),
        ({"explore_prb": 0.5}, "'explore_prb': did you mean explore_prob"),
    ],
)
def test_a_run_that_cannot_be_is_refused(given, says):
    with pytest.raises(headway.HeadwayError) as problem:
        headway.simulate("cqb-eps", WORLD, **{"rounds": 10, **given})
    assert says in str(problem.value)


# The burn-in and the coin of cqb-eps.


@pytest.mark.parametrize("learner", ["likelihood", "paper"])
def test_cqb_eps_explores_in_its_burn_in_and_by_coin_after_it(learner):
    burn_in, explore_prob = 250, 0.3
    run, tape = recorded(
        "cqb-eps", learner, seed=7, burn_in_rounds=burn_in, explore_prob=explore_prob
    )
    key = make_key(7)
    turn, explored, optimistic, seen = 0, 0, 0, set()
    arrived = np.cumsum(tape.arrivals)
    for t in range(2, ROUNDS + 1):
        newest = arrived[t - 2] - 1
        chosen = (run.job[0, t - 1], run.server[0, t - 1])
        fresh = tape.arrivals[t - 2]
        coin = uniform(key, EXPLORE, t - 1, 0) < explore_prob
        if fresh and t <= burn_in:
            assert chosen == (newest, turn % 5)
            turn += 1
        elif fresh and coin:
            assert chosen == (newest, int(5 * uniform(key, SERVER, t, 0)))
            explored += 1
            seen.add(chosen[1])
        else:
            optimistic += chosen[0] != newest
    assert turn > 150
    assert explored > 30
    assert seen == set(range(5))
    assert optimistic > 50


def test_cqb_eps_without_exploration_is_cqb_opt():
    for learner in ("likelihood", "paper"):
        exploring, opt = (
            recorded(policy, learner, seed=1, rounds=900, **given)[0]
            for policy, given in (
                ("cqb-eps", {"burn_in_rounds": 0, "explore_prob": 0}),
                ("cqb-opt", {}),
            )
        )
        assert fingerprint(exploring) == fingerprint(opt)


def test_rounds_of_the_burn_in_count_whether_or_not_a_job_waits():
    arrivals = [False] * 20 + [True] * 20
    rng = np.random.default_rng(0)
    tape = headway.Tape(
        theta_star=np.zeros((4, 2)), contexts=rng.random((20, 2)), arrivals=arrivals,
        service=[1.0] * 40,
    )  # fmt: skip
    run = headway.simulate(
        "cqb-eps", tape, rounds=40, burn_in_rounds=25, explore_prob=0, record=True
    )
    assert run.job[0, 21:25].tolist() == [0, 1, 2, 3]
    assert run.server[0, 21:25].tolist() == [0, 1, 2, 3]
    opt = run.job[0, 25:].tolist()
    assert opt != list(range(4, 19))


def burn_in(world=WORLD, rounds=5000, **given):
    """The burn-in that cqb-eps settles on, and what it remarks."""
    resolved = resolve("cqb-eps", world.situation(rounds), given=given)
    return resolved.settings["burn_in_rounds"], " ".join(resolved.remarks)


def test_the_default_burn_in_follows_the_formula():
    assert burn_in(headway.Scenario(slack=0.05)) == (4838, "")
    for servers, dimension, rate, slack, rounds in [
        (5, 5, 0.7, 0.1, 5000), (3, 4, 0.5, 0.2, 2000), (7, 6, 0.6, 0.3, 9000),
    ]:  # fmt: skip
        world = headway.Scenario(
            servers=servers, dimension=dimension, arrival_rate=rate, slack=slack
        )
        size = 3e-4 * dimension**3 * math.log(rounds) * servers / rate
        wanted = math.ceil(size / (slack - 2.0 * rounds**-0.5) ** 2)
        assert burn_in(world, rounds) == (wanted, "")


def test_a_burn_in_that_covers_the_run_is_remarked():
    rounds, remark = burn_in(headway.Scenario(slack=0.04))
    size = 3e-4 * 125 * math.log(5000) * 5 / 0.7 / (0.04 - 2.0 * 5000**-0.5) ** 2
    assert rounds == 5000 < size
    assert "covers all 5000 rounds" in remark
    assert str(math.ceil(size)) in remark


@pytest.mark.parametrize("rounds", [1, 9, 100, 400])
def test_a_short_run_burns_in_for_a_tenth(rounds):
    found, remark = burn_in(rounds=rounds)
    assert found == rounds // 10
    assert "T/10" in remark
    assert "assumed_slack 0.1" in remark


def test_a_world_without_slack_burns_in_for_a_tenth():
    found, remark = burn_in(headway.Scenario(slack_by="none"))
    assert found == 500
    assert "no slack" in remark
    tape = WORLD.tape(rounds=50)
    silent = headway.Tape(
        theta_star=tape.theta_star, contexts=tape.contexts, arrivals=tape.arrivals,
        service=tape.service, slack=0.5,
    )  # fmt: skip
    found, remark = burn_in(silent, 50)
    assert found == 5
    assert "no arrival rate" in remark


def test_explicit_settings_win():
    assert burn_in(burn_in_rounds=17) == (17, "")
    assert burn_in(headway.Scenario(slack_by="none"), burn_in_rounds=0) == (0, "")
    assert burn_in(assumed_slack=0.05) == (4838, "")
    size = 3e-4 * 125 * math.log(5000) * 5 / 0.7
    assert burn_in(explore_prob=0.0) == (math.ceil(size / 0.1**2), "")
    run, _ = recorded("cqb-eps", rounds=100, burn_in_rounds=3, explore_prob=0.25)
    assert run.settings["burn_in_rounds"] == 3
    assert run.settings["explore_prob"] == 0.25
    assert run.remarks == ()
