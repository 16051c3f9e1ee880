"""An independent numpy and scipy implementation takes the same actions, round by round."""

import sys
from pathlib import Path

import numpy as np
import pytest

import headway
from headway.rng import EXPLORE, SERVER, make_key, uniform

sys.path.insert(0, str(Path(__file__).parents[1] / "bench"))
import reference

ROUNDS = 700


def forty_vectors(seed):
    """A tape of which the contexts are 40 distinct vectors: exact ties all the time."""
    tape = headway.Scenario().tape(rounds=ROUNDS, seed=seed)
    rng = np.random.default_rng(seed)
    contexts = tape.contexts[:40][rng.integers(0, 40, len(tape.contexts))]
    return headway.Tape(
        theta_star=tape.theta_star,
        contexts=contexts,
        arrivals=tape.arrivals,
        service=tape.service,
    )


def agree(run, found):
    """The same jobs, servers, outcomes and queue lengths."""
    assert np.array_equal(run.job[0], found["job"])
    assert np.array_equal(run.server[0], found["server"])
    assert np.array_equal(run.success[0], found["success"])
    assert np.array_equal(run.queue_length[0], found["queue_length"])


def reference_run(tape, **given):
    return reference.run(tape.theta_star, tape.contexts, tape.arrivals, tape.service, **given)


@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize("scale", [1.0, 0.05])
def test_cqb_opt_acts_as_the_reference(seed, scale):
    tape = headway.Scenario().tape(rounds=ROUNDS, seed=seed)
    run = headway.simulate(
        "cqb-opt", tape, rounds=ROUNDS, learner="paper", record=True, beta_scale=scale
    )
    agree(run, reference_run(tape, beta_scale=scale))


@pytest.mark.parametrize("seed", range(2))
def test_equal_contexts_do_not_make_them_differ(seed):
    tape = forty_vectors(seed)
    run = headway.simulate("cqb-opt", tape, rounds=ROUNDS, learner="paper", record=True)
    agree(run, reference_run(tape))


@pytest.mark.parametrize("projection", ["paper", "with_ridge"])
def test_the_projection_is_the_references(projection):
    """A norm bound that is too small makes the MLE leave the ball in most rounds."""
    tape = headway.Scenario().tape(rounds=150, seed=4)
    run = headway.simulate(
        "cqb-opt", tape, rounds=150, learner="paper", record=True,
        norm_bound=0.8, beta_scale=0.05, projection=projection, ridge=0.1,
    )  # fmt: skip
    found = reference_run(tape, norm_bound=0.8, beta_scale=0.05, projection=projection, ridge=0.1)
    agree(run, found)


def test_cqb_eps_acts_as_the_reference():
    seed, rate = 6, 0.15
    tape = headway.Scenario().tape(rounds=ROUNDS, seed=seed)
    key = make_key(seed, 0)
    coins = np.array([uniform(key, EXPLORE, t, 0) < rate for t in range(ROUNDS + 1)])
    servers = np.array([int(uniform(key, SERVER, t, 0) * 5) for t in range(ROUNDS + 1)])
    run = headway.simulate(
        "cqb-eps", tape, rounds=ROUNDS, learner="paper", record=True, seed=seed,
        burn_in_rounds=120, explore_prob=rate,
    )  # fmt: skip
    found = reference_run(
        tape, policy="cqb-eps", burn_in_rounds=120, explore=coins, explore_server=servers
    )
    agree(run, found)
