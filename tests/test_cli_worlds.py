"""The command line beyond the paper's world: kinds of worlds, traces, policies from files."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

import headway

COMMAND = str(Path(sys.executable).with_name("headway"))
SMALL = ["--rounds", "150", "--replicas", "2"]
MINE = """
import headway
from headway.learners import learn


def choose(params, model, clock, queue, key):
    return 0, {server}


policy = headway.Policy("mine", choose, learn, defaults={{"patience": 2.0}})
"""


def call(*words, **given):
    return subprocess.run(
        [COMMAND, *map(str, words)], capture_output=True, text=True, timeout=300, check=False,
        **given,
    )  # fmt: skip


@pytest.mark.parametrize(
    ("options", "fields"),
    [
        (["--contexts", "ball"], {"contexts": "ball"}),
        (["--contexts", "finite", "--vectors", "9"], {"contexts": "finite", "vectors": 9}),
        (["--contexts", "rotating", "--rotate-every", "30"], {"rotate_every": 30}),
        (["--contexts", "late-surprise", "--surprise-round", "90"], {"surprise_round": 90}),
        (["--arrivals", "bursty", "--period", "30", "--swing", "1"], {"swing": 1.0, "period": 30}),
        (["--arrivals", "periodic", "--unit-norm"], {"arrivals": "periodic", "unit_norm": True}),
    ],
)
def test_options_describe_the_world(options, fields):
    found = call("compare", "cqb-opt", *options, *SMALL, "--json")
    assert found.returncode == 0, found.stderr
    summary = json.loads(found.stdout)
    assert {name: summary["scenario"][name] for name in fields} == fields
    word = fields.get("contexts") or fields.get("arrivals")
    if word:
        assert word in call("compare", "cqb-opt", *options, *SMALL).stdout


def test_rows_of_a_world_that_adapts_are_marked():
    found = call("compare", "cqb-opt", "--contexts", "adaptive", *SMALL)
    assert "cqb-opt †" in found.stdout
    assert "† the world answers to each policy" in found.stdout
    rows = json.loads(call("compare", "--contexts", "adaptive", *SMALL, "--json").stdout)
    assert all(row["adaptive"] for row in rows["policies"].values())
    assert "†" not in call("compare", "cqb-opt", *SMALL).stdout


def test_a_tape_is_a_world(tmp_path):
    tape = headway.Scenario(servers=3, dimension=4).tape(rounds=120, seed=5)
    tape.to_file(tmp_path / "day.csv")
    out = tmp_path / "out"
    found = call("compare", "cqb-opt", "random", "--tape", tmp_path / "day.csv", "--out", out)
    assert found.returncode == 0, found.stderr
    assert "a tape of" in found.stdout
    assert "120 rounds x 1 replicas" in found.stdout
    assert (out / "compare.png").stat().st_size > 10_000
    run = headway.simulate("cqb-opt", tape, rounds=120)
    words = ["simulate", "cqb-opt", "--tape", tmp_path / "day.csv", "--json"]
    assert json.loads(call(*words).stdout)["queue_mean"]["mean"] == run.queue_mean[0]


@pytest.mark.parametrize(
    ("words", "says"),
    [
        (["--tape", "nowhere.csv"], "no trace file 'nowhere.csv'"),
        (["--theta-star", "x.csv"], "--theta-star belongs to --tape"),
        (["--tape", "day.csv", "--slack", "0.2"], "leave out --slack 0.2"),
        (["--contexts", "sphere"], "unknown contexts 'sphere'"),
        (["--contexts", "gaussian"], "norm_bound has no default here"),
        (["--swing", "2"], "swing 2.0 must be in [0, 1]"),
    ],
)
def test_worlds_that_cannot_be_are_refused(words, says, tmp_path):
    found = call("compare", "cqb-opt", *SMALL, *words, cwd=tmp_path)
    assert found.returncode == 2
    assert says in found.stderr
    assert len(found.stderr.strip().splitlines()) == 1
    assert found.stdout == ""


def test_a_policy_from_a_file_is_run_compared_and_checked(tmp_path):
    (tmp_path / "mine.py").write_text(MINE.format(server="int(clock.round[0]) % 2"))
    found = call("simulate", "mine.py", *SMALL, "--set", "patience=3", "--json", cwd=tmp_path)
    assert json.loads(found.stdout)["settings"] == {"patience": 3}
    assert "mine is plain Python" in found.stderr
    found = call("compare", "./mine.py:policy", "random", *SMALL, cwd=tmp_path)
    assert "mine" in found.stdout
    found = call("compare", "mine.py", *SMALL, "--set", "mine.patience=nan", cwd=tmp_path)
    assert found.returncode == 2
    found = call("check", "mine.py", "--json", cwd=tmp_path)
    assert found.returncode == 1
    report = json.loads(found.stdout)
    assert not report["passed"]
    broken = {each["rule"] for each in report["findings"] if each["state"] == "broken"}
    assert "choose returns a waiting job and a free server" in broken
    assert "FAIL" in call("check", "mine.py", cwd=tmp_path).stdout


def test_policies_say_what_they_need():
    rows = {row["policy"]: row for row in json.loads(call("policies", "--json").stdout)["policies"]}
    assert rows["cqb-eps"]["needs"] == ["explore_prob", "burn_in_rounds"]
    assert rows["cqb-eta-2"]["needs"] == ["burn_in_rounds", "cutoff"]
    assert rows["cqb-opt"]["needs"] == rows["acqb"]["needs"] == rows["q-ucb"]["needs"] == []
