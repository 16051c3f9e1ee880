"""Proves that a comparison is coupled and honest, and that its files hold what it found."""

import json
import math

import numpy as np
import pytest
from scipy import stats

import headway
from headway.experiments.figures import draw_comparison
from headway.experiments.results import comparison_summary, plain, read_results, write_runs
from headway.sim.compare import interval, measures

WORLD = headway.Scenario()
ALL = ["cqb-opt", "cqb-eps", "random", "optimal"]
PNG = b"\x89PNG\r\n\x1a\n"


def compared(names=None, **given):
    return headway.compare(names, WORLD, **{"rounds": 200, "replicas": 4, **given})


@pytest.fixture(scope="module")
def comparison():
    return compared(ALL, rounds=600, replicas=6)


# Measures.


def test_intervals_are_students():
    values = np.random.default_rng(0).normal(3.0, 2.0, 11)
    found = interval(values)
    low, high = stats.t.interval(0.95, 10, values.mean(), stats.sem(values))
    assert found == pytest.approx((values.mean(), stats.sem(values), low, high), rel=1e-12)


def test_one_replica_has_a_mean_and_no_interval():
    found = interval([5])
    assert found.mean == 5.0
    assert all(math.isnan(value) for value in found[1:])


def test_measures_are_those_of_the_replicas(comparison):
    optimal = comparison.runs["optimal"]
    assert comparison.any_run is optimal
    for name, run in comparison.runs.items():
        by_hand = {
            "queue_final": run.queue_final,
            "queue_mean": run.queue_mean,
            "wait_p50": run.wait(0.5),
            "wait_p99": run.wait(0.99),
            "regret_final": run.queue_final - optimal.queue_final,
            "regret_mean": run.queue_mean - optimal.queue_mean,
        }
        assert list(comparison.rows[name]) == list(by_hand)
        assert comparison.rows[name] == measures(run, optimal)
        for measure, values in by_hand.items():
            found = comparison.rows[name][measure]
            assert found.mean == pytest.approx(np.mean(values), rel=1e-12, abs=1e-12)
            assert found.se == pytest.approx(np.std(values, ddof=1) / 6**0.5, abs=1e-12)
            assert found.high - found.mean == pytest.approx(2.570581835636314 * found.se)


def test_regret_is_coupled_and_optimal_has_none(comparison):
    rows = comparison.rows
    assert rows["optimal"]["regret_final"] == (0.0, 0.0, 0.0, 0.0)
    assert rows["optimal"]["regret_mean"] == (0.0, 0.0, 0.0, 0.0)
    assert all(rows[name]["regret_mean"].mean > 0.0 for name in ALL[:3])
    for name in ALL:
        alone = headway.simulate(name, WORLD, rounds=600, replicas=6)
        assert np.array_equal(alone.queue_final, comparison.runs[name].queue_final), name
        assert np.array_equal(alone.waits, comparison.runs[name].waits), name


# Which policies run, and with what.


@pytest.mark.parametrize(
    ("names", "run"),
    [
        (None, [name for name in headway.POLICIES if name != "clairvoyant"]),
        (["random"], ["random", "optimal"]),
        (["optimal", "random"], ["optimal", "random"]),
        (["optimal"], ["optimal"]),
        ((name for name in ["cqb-opt"]), ["cqb-opt", "optimal"]),
    ],
)
def test_optimal_always_runs_once(names, run):
    assert list(compared(names, rounds=20).runs) == run


def test_a_setting_goes_to_every_policy_that_has_it():
    runs = compared(learner="paper", kappa=3.5, explore_prob=0.25).runs
    assert runs["cqb-opt"].settings["kappa"] == runs["cqb-eps"].settings["kappa"] == 3.5
    assert runs["cqb-eps"].settings["explore_prob"] == 0.25
    assert "explore_prob" not in runs["cqb-opt"].settings
    assert runs["random"].settings == {}


def test_a_setting_for_one_policy_wins_there_alone():
    runs = compared(failure_prob=0.25, settings={"cqb-opt": {"failure_prob": 0.5}}).runs
    assert runs["cqb-opt"].settings["failure_prob"] == 0.5
    assert runs["cqb-eps"].settings["failure_prob"] == 0.25
    alone = headway.simulate("cqb-opt", WORLD, rounds=200, replicas=4, failure_prob=0.5)
    assert np.array_equal(alone.queue_length, runs["cqb-opt"].queue_length)


def test_a_learner_goes_where_it_can_and_a_remark_names_the_others():
    found = compared(ALL, learner="paper", explore_prob=0.0)
    learners = {name: run.learner for name, run in found.runs.items()}
    paper = ("cqb-opt", "cqb-eps")
    assert learners == {**dict.fromkeys(paper, "paper"), "random": "none", "optimal": "truth"}
    assert not any("ignored" in text for text in found.remarks)  # who learns nothing misses nothing
    mixed = compared(["cqb-ts", "cqb-opt", "q-ucb", "random"], rounds=50, learner="likelihood")
    assert "learner likelihood ignored by cqb-ts" in mixed.remarks
    for name in ("random", "optimal"):
        with pytest.raises(headway.HeadwayError, match=f"{name} cannot use learner 'paper'"):
            headway.simulate(name, WORLD, rounds=20, learner="paper")


@pytest.mark.parametrize(
    ("names", "given", "says"),
    [
        (["cqb-op"], {}, "'cqb-op': did you mean cqb-opt"),
        (["zzz"], {}, "known: acqb, clairvoyant"),
        (["random", "random"], {}, "'random' is listed 2 times"),
        (None, {"kapa": 1.0}, "'kapa': did you mean kappa"),
        (["random"], {"explore_prob": 0.5}, "'explore_prob'"),
        (None, {"settings": {"cqb-op": {}}}, "'cqb-op': did you mean cqb-opt"),
        (["random"], {"settings": {"cqb-opt": {}}}, "'cqb-opt'"),
        (None, {"settings": {"cqb-opt": {"burn_in_rounds": 3}}}, "no setting 'burn_in_rounds'"),
        (None, {"settings": {"cqb-opt": {"kappa": 3.0}}}, "belongs to learner paper"),
        (None, {"learner": "papr"}, "'papr': did you mean paper"),
        (["random"], {"learner": "paper"}, "'paper'"),
        (None, {"explore_prob": math.nan}, "explore_prob = nan"),
        (None, {"rounds": 0}, "rounds 0"),
        (None, {"rounds": "5"}, "rounds '5'"),
        (None, {"replicas": -2}, "replicas -2"),
        (None, {"seed": -1}, "seed -1"),
        (None, {"every": "x"}, "every 'x'"),
    ],
)
def test_a_comparison_that_cannot_be_is_refused(names, given, says):
    with pytest.raises(headway.HeadwayError) as problem:
        compared(names, **{"rounds": 20, "replicas": 2, **given})
    assert says in str(problem.value)


@pytest.mark.parametrize("learner", [None, "likelihood"])
def test_kappa_without_the_learner_paper_is_refused_by_name(learner):
    for run in (
        lambda **given: compared(["cqb-opt", "cqb-eps"], **given),
        lambda **given: headway.simulate("cqb-opt", WORLD, rounds=9, **given),
    ):
        with pytest.raises(headway.HeadwayError, match="'kappa' belongs to learner paper"):
            run(kappa=3.0, learner=learner)


# Files.


def test_results_come_back_as_they_were_written(comparison, tmp_path):
    path = tmp_path / "compare.parquet"
    summary = comparison_summary(comparison)
    write_runs(path, comparison.runs, summary)
    found = read_results(path)
    assert found.summary == summary
    assert list(found.trajectories) == list(comparison.runs)
    for name, run in comparison.runs.items():
        assert np.array_equal(found.trajectories[name].queue_length, run.queue_length)
        assert np.array_equal(found.trajectories[name].round, run.round)
    assert [each.name for each in tmp_path.iterdir()] == ["compare.parquet"]


@pytest.mark.parametrize("damage", ["half", "empty", "tail", "text", "missing", "foreign"])
def test_a_damaged_or_foreign_file_is_one_clear_error(comparison, tmp_path, damage):
    import pyarrow as pa
    import pyarrow.parquet as pq

    path = tmp_path / "compare.parquet"
    write_runs(path, comparison.runs, comparison_summary(comparison))
    whole = path.read_bytes()
    if damage == "foreign":
        pq.write_table(pa.table({"policy": ["a"], "round": [1]}), path)
    elif damage == "missing":
        path.unlink()
    else:
        contents = {
            "half": whole[: len(whole) // 2],
            "empty": b"",
            "tail": whole[:-1],
            "text": b"policy,round\n" * 100,
        }
        path.write_bytes(contents[damage])
    with pytest.raises(headway.HeadwayError) as problem:
        read_results(path)
    assert str(path) in str(problem.value)


def test_a_failed_write_leaves_the_old_file_and_nothing_else(comparison, tmp_path, monkeypatch):
    import pyarrow.parquet as pq

    path = tmp_path / "compare.parquet"
    path.write_bytes(b"old")

    def fill_the_disk(table, target, **_):
        target.write_bytes(b"PAR1 and then no more room")
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(pq, "write_table", fill_the_disk)
    with pytest.raises(headway.HeadwayError, match="No space left on device"):
        write_runs(path, comparison.runs, comparison_summary(comparison))
    assert path.read_bytes() == b"old"
    assert [each.name for each in tmp_path.iterdir()] == ["compare.parquet"]


@pytest.mark.parametrize(
    ("names", "given"),
    [
        (None, {"rounds": 300, "replicas": 3}),
        (None, {"replicas": 1}),
        (["cqb-opt"], {}),
        (["optimal"], {}),
        (None, {"rounds": 1, "replicas": 2}),
        (["random"], {"rounds": 1, "replicas": 1}),
    ],
)
def test_a_figure_is_a_whole_picture(names, given, tmp_path):
    from matplotlib import image

    found = compared(names, **given)
    write_runs(tmp_path / "a.parquet", found.runs, comparison_summary(found))
    draw_comparison(read_results(tmp_path / "a.parquet"), tmp_path / "a.png")
    assert (tmp_path / "a.png").read_bytes().startswith(PNG)
    picture = image.imread(tmp_path / "a.png")
    assert picture.shape[0] > 400
    assert picture.shape[1] > 800
    assert picture[..., :3].std() > 0.02


def test_a_summary_has_no_nan():
    for found in (compared(rounds=1, replicas=1), compared(rounds=30, replicas=1)):
        text = json.dumps(comparison_summary(found), allow_nan=False)
        assert json.loads(text)["policies"]["random"]["queue_final"]["low"] is None
    assert plain({"a": [math.nan, math.inf, np.float64(2.0), np.int64(3)], "b": (np.nan, "x")}) == {
        "a": [None, None, 2.0, 3],
        "b": [None, "x"],
    }


def test_a_tape_can_be_compared_and_drawn(tmp_path):
    found = headway.compare(None, WORLD.tape(rounds=50), rounds=50, replicas=1)
    write_runs(tmp_path / "a.parquet", found.runs, comparison_summary(found))
    draw_comparison(read_results(tmp_path / "a.parquet"), tmp_path / "a.png")
    assert (tmp_path / "a.png").read_bytes().startswith(PNG)
