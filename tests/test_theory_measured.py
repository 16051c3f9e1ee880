"""What is measured beside the theory: against the loop watched step by step, and by hand."""

import json
import math
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

import headway
from headway.learners import new_model
from headway.rng import make_key
from headway.settings import resolve
from headway.sim.rollout import new_tally, play
from headway.state import new_clock, new_queue, roomier_model, roomier_queue
from headway.theory.formulas import Premises, explored_growth
from headway.theory.measured import (
    Watched,
    bad_rounds,
    drift,
    eigenvalue_growth,
    rate_gap,
    summary,
    tail,
    watch,
)
from headway.theory.report import least_moment, theory

HEADWAY = Path(sys.executable).with_name("headway")
WORLD = headway.Scenario(servers=3, dimension=2, arrival_rate=0.5, slack=0.2, unit_norm=True)
ROUNDS = 400


def run_of(policy="cqb-opt", learner="paper", world=WORLD, rounds=ROUNDS, replicas=2, **given):
    return headway.simulate(
        policy, world, rounds=rounds, replicas=replicas, seed=3, learner=learner, record=True,
        **given,
    )  # fmt: skip


def stepped(policy, learner, replica, **given):
    """The loop in plain Python, looked at before each choice: V is kept here, and inverted."""
    resolved = resolve(policy, WORLD.situation(ROUNDS), learner=learner, given=given)
    params = resolved.params
    problem = WORLD.instance(3, replica, ROUNDS).problem
    model = roomier_model(new_model(params, 3, 2), ROUNDS)
    queue = roomier_queue(new_queue(3, 2), ROUNDS)
    clock = new_clock()
    v = np.stack([np.linalg.inv(model.inverse[k]) for k in range(3)])
    seen = {name: np.full(ROUNDS, math.nan) for name in ("rate", "best", "bonus")}

    def choose(params, model, clock, queue, key):
        row, server = resolved.policy.choose(params, model, clock, queue, key)
        i = clock.round[0] - 1
        waiting = queue.context[: queue.length[0]]
        rates = 1 / (1 + np.exp(-waiting @ problem.theta_star.T))
        x = np.array(waiting[row])
        spread = math.sqrt(x @ np.linalg.solve(v[server], x))
        seen["rate"][i] = rates[row, server]
        seen["best"][i] = rates.max()
        seen["bonus"][i] = model.radius[server] * spread * (1 if learner == "paper" else 0.25)
        return row, server

    def learn(params, model, x, tries, server, success):
        resolved.policy.learn(params, model, x, tries, server, success)
        v[server] = np.linalg.inv(model.inverse[server])

    tally = new_tally(rounds=ROUNDS, every=1, record=True, dimension=2)
    key = make_key(3, replica)
    getattr(play, "py_func", play)(
        choose, learn, params, model, clock, queue, key, problem, tally, ROUNDS
    )
    return seen, tally


@pytest.mark.parametrize(
    ("policy", "learner"), [("cqb-opt", "paper"), ("cqb-eps", "paper"), ("cqb-opt", "likelihood")]
)
def test_what_is_watched_is_what_the_loop_does(policy, learner):
    given = {"beta_scale": 0.05} if learner == "paper" else {}
    if policy == "cqb-eps":
        given |= {"burn_in_rounds": 30}
    run = run_of(policy, learner, **given)
    watched = watch(run)
    for replica in range(run.replicas):
        seen, tally = stepped(policy, learner, replica, **given)
        assert (run.queue_length[replica] == tally.columns).all()
        for name, values in seen.items():
            np.testing.assert_allclose(getattr(watched, name)[replica], values, rtol=1e-7)
    assert (watched.best >= watched.rate - 1e-12)[watched.chosen].all()
    assert (watched.chosen == (run.job >= 0)).all()


def test_bad_rounds_are_those_of_section_6():
    """Uncertainty above slack / (4 beta), beta of eq. (1) with the server's own count."""
    run = run_of(kappa=4.0, norm_bound=2.0, beta_scale=1.0)
    watched = watch(run)
    for replica in range(2):
        tape = run.tape(replica)
        v = np.stack([4.0 * np.eye(2)] * 3)
        counts = np.zeros(3)
        for i, (job, server) in enumerate(zip(run.job[replica], run.server[replica], strict=True)):
            if job < 0:
                assert not watched.bad[replica, i]
                continue
            x = tape.contexts[job]
            union = math.log(3 * ROUNDS**2)
            beta = 2.0 * (math.sqrt(4.0 * math.log(1 + counts[server] / 8.0) + union) + 2.0)
            uncertainty = math.sqrt(x @ np.linalg.solve(v[server], x))
            assert watched.bad[replica, i] == (uncertainty > 0.2 / (4.0 * beta))
            v[server] += np.outer(x, x)
            counts[server] += 1


def made_up(bonus, rate, queue_length, best=None, slack=0.2):
    rate = np.array(rate, float)
    return Watched(
        policy="made-up", learner="paper", arrival_rate=0.5, slack=slack,
        queue_length=np.array(queue_length, np.int32), rate=rate,
        best=rate if best is None else np.array(best, float), bonus=np.array(bonus, float),
        widest=np.ones(rate.shape[0]),
    )  # fmt: skip


NAN = math.nan


def test_counts_by_hand():
    watched = made_up(
        bonus=[[0.3, NAN, 0.05, 0.051], [0.01, 0.02, 0.4, NAN]],
        rate=[[0.4, NAN, 0.7, 0.5], [0.61, 0.55, 0.9, NAN]],
        best=[[0.8, NAN, 0.7, 0.8], [0.61, 0.95, 0.9, NAN]],
        queue_length=[[1, 0, 1, 2, 2], [1, 1, 1, 0, 1]],
    )
    assert watched.bad.tolist() == [[True, False, False, True], [False, False, True, False]]
    found = bad_rounds(watched)
    assert (found.count.mean, found.chosen.mean, found.last_share) == (1.5, 3.0, 1.0)
    fall = drift(watched)
    assert fall.promised == -0.1
    assert fall.good == 3
    assert fall.worst == pytest.approx(-0.05)
    assert fall.mean == pytest.approx((-0.2 - 0.11 - 0.05) / 3)
    assert fall.kept == pytest.approx(2 / 3)
    assert fall.mean_bad == pytest.approx((0.1 + 0.0 - 0.4) / 3)
    assert fall.kept_bad == pytest.approx(1 / 3)
    gap = rate_gap(watched)
    assert gap.whole == pytest.approx(math.sqrt((0.16 + 0.0 + 0.09 + 0.0 + 0.16 + 0.0) / 6))
    assert gap.late == pytest.approx(0.3)


def test_the_tail_by_hand():
    """Q(t) is column t-1, B(t-1) counts the bad rounds before t."""
    watched = made_up(
        bonus=[[0.3, 0.3, 0.0, 0.0]],
        rate=[[0.5, 0.5, 0.5, 0.5]],
        queue_length=[[0, 3, 4, 9, 100]],
    )  # 2 B(t-1) = 0, 2, 4, 4: excess 0, 1, 0, 5
    found = tail(watched, beyond=(0.0, 1.0, 2.0, 5.0, 6.0))
    assert [row.share for row in found.rows] == [1.0, 0.5, 0.25, 0.25, 0.0]
    assert found.rows[1].bound == pytest.approx(401.0 * math.exp(-0.1))
    usual = tail(watched)
    assert usual.rows[1].bound == pytest.approx(1.0)
    assert usual.rows[2].bound == pytest.approx(0.05)
    assert usual.speaks_from == usual.rows[1].beyond


def test_nothing_chosen_is_nothing_measured():
    watched = made_up([[NAN] * 3], [[NAN] * 3], [[0, 0, 0, 0]])
    assert bad_rounds(watched).count.mean == 0.0
    assert math.isnan(drift(watched).worst)
    assert math.isnan(rate_gap(watched).whole)
    assert "no good round" in str(drift(watched))


def test_good_rounds_keep_the_promised_drift_and_the_tail_its_bound():
    """Prop. D.1 and Lemma C.6, where there are good rounds: a proven set, an easy world."""
    world = headway.Scenario(
        servers=2, dimension=2, arrival_rate=0.3, slack=0.4, unit_norm=True, contexts="finite",
        vectors=3,
    )  # fmt: skip
    watched = watch(run_of(world=world, learner="likelihood", rounds=20_000, replicas=2))
    fall = drift(watched)
    assert fall.good > 1000
    assert fall.kept == 1.0
    assert fall.worst <= -0.2
    assert all(row.share <= row.bound for row in tail(watched).rows)
    assert (watched.best - watched.rate <= 2 * watched.bonus + 1e-12)[watched.chosen].all()
    assert f"{fall.good:,} good rounds" in str(fall)


def test_growth_is_that_of_the_design_matrices():
    run = run_of("cqb-eps", burn_in_rounds=100, explore_prob=0.2)
    p = Premises(
        servers=3, dimension=2, arrival_rate=0.5, slack=0.2, norm_bound=2.0, least_moment=0.1
    )
    found = eigenvalue_growth(run, p, points=3)
    assert [row.round for row in found.rows] == [200, 300, 400]
    for row in found.rows:
        least = []
        for replica in range(2):
            v = np.zeros((3, 2, 2))
            contexts = run.tape(replica).contexts
            for i in range(row.round):
                if run.job[replica, i] >= 0:
                    x = contexts[run.job[replica, i]]
                    v[run.server[replica, i]] += np.outer(x, x)
            least += [np.linalg.eigvalsh(each)[0] for each in v]
        assert row.least == pytest.approx(min(least), rel=1e-9)
        assert row.median == pytest.approx(np.median(least), rel=1e-9)
        promised = explored_growth(p, row.round - 100.0, 0.2)
        assert row.promised == pytest.approx(promised)
        assert row.below == np.mean(np.array(least) < promised)
        assert row.below <= row.may_fail
    assert "round 400: least eigenvalue" in str(found)


def test_measured_things_are_json():
    run = run_of("cqb-eps", rounds=50)
    watched = watch(run)
    p = Premises(
        servers=3, dimension=2, arrival_rate=0.5, slack=0.2, norm_bound=2.0, least_moment=0.1
    )
    found = [bad_rounds(watched), drift(watched), tail(watched), rate_gap(watched),
             eigenvalue_growth(run, p)]  # fmt: skip
    for each in found:
        assert json.loads(json.dumps(summary(each)))
        assert str(each)
    assert summary(found[2])["rows"][0]["beyond"] == 0.0


# Refusals.


def test_runs_that_cannot_be_looked_at_are_refused():
    for given, words in (
        ({"record": False}, "record=True"),
        ({"record": True, "every": 7}, "every=1"),
        ({"record": True, "learner": "laplace"}, "no confidence set"),
    ):
        run = headway.simulate("cqb-opt", WORLD, rounds=50, **given)
        with pytest.raises(headway.HeadwayError, match=words):
            watch(run)
    loose = headway.Scenario(slack_by="none")
    with pytest.raises(headway.HeadwayError, match="states no slack"):
        watch(headway.simulate("cqb-opt", loose, rounds=50, record=True))
    with pytest.raises(headway.HeadwayError, match="does not explore"):
        eigenvalue_growth(run_of(rounds=50), Premises(
            servers=3, dimension=2, arrival_rate=0.5, slack=0.2, norm_bound=2.0, least_moment=0.1
        ))  # fmt: skip


@pytest.mark.parametrize(
    ("world", "words"),
    [
        ({"contexts": "gaussian"}, "Assumption 1"),
        ({"slack_by": "none"}, "Assumption 4"),
        ({"slack": 0.0}, "slack 0: Assumption 4"),
        ({"arrivals": "periodic"}, "no coin of one rate"),
    ],
)
def test_worlds_in_which_a_lemma_is_void_are_refused(world, words):
    with pytest.raises(headway.HeadwayError, match=words):
        theory(headway.Scenario(**world), rounds=100, replicas=1)


def test_a_tape_and_foreign_settings_are_refused():
    with pytest.raises(headway.HeadwayError, match="world Tape states no law"):
        theory(WORLD.tape(rounds=20), rounds=20, replicas=1)
    with pytest.raises(headway.HeadwayError, match="unknown setting 'kapa': did you mean kappa"):
        theory(WORLD, rounds=20, replicas=1, kapa=3)
    with pytest.raises(headway.HeadwayError, match="learner 'laplace'"):
        theory(WORLD, rounds=20, replicas=1, learner="laplace")
    with pytest.raises(headway.HeadwayError, match="replicas 0"):
        theory(WORLD, rounds=20, replicas=0)


# The report and the command.


def test_the_moment_of_a_world_without_rejection_is_known():
    world = headway.Scenario(dimension=3, arrival_rate=0.001, slack=0.001, unit_norm=True)
    assert least_moment(world, 0, 2) == pytest.approx(1 / 9, rel=0.06)  # a cube's
    fixed = headway.Scenario(dimension=3, contexts="fixed", unit_norm=True)
    assert least_moment(fixed, 0, 1) == 0.0


def test_regret_is_the_papers_and_the_runs_are_the_simulators():
    report = theory(WORLD, rounds=300, replicas=4, seed=5, learner="likelihood", kappa=9.0)
    lengths = {
        name: headway.simulate(
            name, WORLD, rounds=300, replicas=4, seed=5,
            **({"learner": "likelihood"} if name != "optimal" else {}),
        ).queue_length[:, 299].astype(float)
        for name in ("cqb-opt", "cqb-eps", "optimal")
    }  # fmt: skip
    for name in ("cqb-opt", "cqb-eps"):
        expected = (lengths[name] - lengths["optimal"]).mean()
        assert report.measured[name]["regret"]["mean"] == pytest.approx(expected)
    assert report.premises.kappa == 9.0
    assert report.premises.norm_bound == 2.0
    assert any("kappa 9" in each for each in report.remarks) == (2 + 2 * math.cosh(2) > 9)


@pytest.mark.parametrize("contexts", ["rotating", "late-surprise", "adaptive"])
def test_an_adversary_leaves_theorem_1_out(contexts):
    world = headway.Scenario(servers=3, dimension=2, arrival_rate=0.4, contexts=contexts)
    report = theory(world, rounds=120, replicas=2)
    assert {row.theorem for row in report.rows} == {2}
    assert set(report.one_job) == {"theorem_2", "theorem_2_order"}
    assert any("Theorem 1 is left out" in each for each in report.remarks)


def call(*words):
    return subprocess.run(
        [HEADWAY, "theory", *words], capture_output=True, text=True, timeout=300, check=False
    )


def test_the_command_prints_one_json_object():
    found = call("--rounds", "200", "--replicas", "2", "--set", "c_3=2", "--json")
    assert found.returncode == 0, found.stderr
    value = json.loads(found.stdout)
    assert value["premises"]["c_3"] == 2
    assert value["scenario"]["unit_norm"] is True
    assert {row["theorem"] for row in value["rows"]} == {1, 2}
    for row in value["rows"]:
        assert set(row) == {
            "theorem", "quantity", "place", "value", "log10", "measured", "trivial",
            "log10_from", "since",
        }  # fmt: skip
    assert set(value["measured"]) == {"cqb-eps", "cqb-opt"}
    assert value["one_job_log10_from"]["theorem_2"] is None
    assert "Assumption 2" in found.stderr


@pytest.mark.parametrize(
    ("words", "parts"),
    [
        (["--rounds", "1"], ["rounds 1"]),
        (["--set", "kappa=-1"], ["kappa -1"]),
        (["--set", "cqb-opt.kappa=3"], ["'cqb-opt'"]),
        (["--arrivals", "bursty"], ["'bursty'"]),
        (["--learner", "laplace"], ["'laplace'"]),
    ],
)
def test_what_makes_no_sense_is_one_sentence_and_exit_code_2(words, parts):
    found = call("--replicas", "1", *words)
    assert found.returncode == 2
    assert found.stdout == ""
    lines = [each for each in found.stderr.splitlines() if "compiling" not in each]
    assert len(lines) == 1
    for part in parts:
        assert part in lines[0]
