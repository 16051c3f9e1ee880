"""`headway regret`: what it prints and writes, what it refuses, and that its page is true."""

import contextlib
import io
import json
import os
import re
import signal
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pytest

import headway
from headway.errors import HeadwayError
from headway.experiments.switching_figure import draw_switching
from headway.experiments.switching_results import (
    read_switching,
    switching_summary,
    write_switching,
)
from headway.sim.switching import switching_queues

COMMAND = str(Path(sys.executable).with_name("headway"))
PAGE = (Path(__file__).parents[1] / "docs" / "regret.md").read_text()
SMALL = ["--rounds", "120", "--replicas", "3"]
FIRST = [
    "policy", "rounds", "replicas", "seed", "gap_min", "gap_max", "telescopes", "regret_final",
    "rows",
]  # fmt: skip


def call(*words, **given):
    return subprocess.run(
        [COMMAND, "regret", *words], capture_output=True, text=True, timeout=300, check=False,
        **given,
    )  # fmt: skip


@pytest.fixture(scope="module", autouse=True)
def compiled():
    """The first process of a version compiles; what is tested here is the later ones."""
    switching_queues("random", headway.Scenario(), rounds=2)


def test_json_is_one_object_whose_gaps_sum_up_to_the_regret():
    found = call("cqb-eps", *SMALL, "--seed", "4", "--json", "--set", "explore_prob=0.2")
    assert found.returncode == 0, found.stderr
    value = json.loads(found.stdout)
    assert list(value)[: len(FIRST)] == FIRST
    assert (value["policy"], value["rounds"], value["replicas"], value["seed"]) == (
        "cqb-eps", 120, 3, 4,
    )  # fmt: skip
    assert value["telescopes"] is True
    assert -1 <= value["gap_min"] <= 0 <= value["gap_max"] <= 1
    assert [row["round"] for row in value["rows"]] == list(range(1, 121))
    assert set(value["rows"][0]) >= {"round", "gap", "rate_gap", "long_term", "bound"}
    total = sum(row["gap"] for row in value["rows"])
    assert total == pytest.approx(value["regret_final"]["mean"])
    assert set(value["regret_final"]) == {"mean", "se", "low", "high"}
    assert value["rows"][0]["long_term"] is None  # nobody waits in round 1
    assert value["settings"]["explore_prob"] == 0.2
    rows = headway.compare(
        ["cqb-eps"], rounds=120, replicas=3, seed=4, explore_prob=0.2
    ).rows  # fmt: skip
    assert value["regret_final"] == pytest.approx(rows["cqb-eps"]["regret_final"]._asdict())


def test_the_same_options_as_simulate(tmp_path):
    shown = call("--help", env={**os.environ, "COLUMNS": "200"}).stdout
    theirs = subprocess.run(
        [COMMAND, "simulate", "--help"], capture_output=True, text=True, check=True,
        env={**os.environ, "COLUMNS": "200"},
    ).stdout  # fmt: skip
    options = set(re.findall(r"--[a-z][a-z-]+", theirs))
    assert options - set(re.findall(r"--[a-z][a-z-]+", shown)) == set()
    world = ["--contexts", "rotating", "--servers", "2", "--dimension", "2", "--slack-by", "none"]
    found = call("random", *SMALL, *world, "--threads", "1", "--out", str(tmp_path))
    assert found.returncode == 0, found.stderr
    assert {path.name for path in tmp_path.iterdir()} == {"regret.parquet", "regret.png"}
    assert "contexts rotating" in found.stdout
    assert "sum up to its regret" in found.stdout


@pytest.mark.parametrize(
    ("words", "parts"),
    [
        (["nonsense"], ["nonsense"]),
        (["cqb-opt", "--rounds", "0"], ["rounds 0"]),
        (["cqb-opt", "--learner", "none"], ["none"]),
        (["cqb-opt", "--set", "cqb-eps.explore_prob=0.1"], ["cqb-eps"]),
        (["cqb-opt", "--set", "rounds=7"], ["rounds"]),
        (["cqb-opt", "--out", "/proc/nowhere"], ["/proc/nowhere"]),
    ],
)
def test_what_cannot_be_done_is_one_sentence(words, parts):
    found = call(*words)
    assert found.returncode == 2
    assert found.stdout == ""
    assert "Traceback" not in found.stderr
    for part in parts:
        assert part in found.stderr


def test_an_adaptive_world_is_noted():
    found = call("cqb-opt", *SMALL, "--contexts", "adaptive", "--json")
    assert found.returncode == 0
    assert "note: the world answers to the policy" in found.stderr
    assert json.loads(found.stdout)["remarks"]


def test_one_replica_of_a_tape_has_no_interval(tmp_path):
    path = tmp_path / "day.csv"
    headway.Scenario().tape(rounds=80, seed=3).to_file(path)
    found = call("cqb-opt", "--tape", str(path), "--set", "failure_prob=0.05", "--json")
    assert found.returncode == 0, found.stderr
    value = json.loads(found.stdout)
    assert (value["rounds"], value["replicas"]) == (80, 1)
    assert value["regret_final"]["low"] is None
    assert call("cqb-opt", "--tape", str(path)).returncode == 0


def test_ctrl_c_ends_a_long_run(tmp_path):
    size = ["--rounds", "2000000", "--replicas", "50", "--threads", "1"]
    process = subprocess.Popen(
        [COMMAND, "regret", "random", *size, "--out", str(tmp_path)],
        stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
        # Under nohup or in a shell's background the signal is ignored, and children inherit it.
        preexec_fn=lambda: signal.signal(signal.SIGINT, signal.default_int_handler),  # noqa: PLW1509
    )  # fmt: skip
    time.sleep(3.0)
    assert process.poll() is None
    process.send_signal(signal.SIGINT)
    try:
        out, err = process.communicate(timeout=20)
    finally:
        process.kill()
    assert process.returncode == 130
    assert out == ""
    assert "Traceback" not in err
    assert list(tmp_path.iterdir()) == []


def test_a_later_process_compiles_nothing():
    code = (
        "import headway\n"
        "from headway.compiled import compilations\n"
        "from headway.sim.switching import switching_queues\n"
        "for servers, dimension in ((5, 5), (2, 3)):\n"
        "    world = headway.Scenario(servers=servers, dimension=dimension, slack_by='none')\n"
        "    switching_queues('random', world, rounds=50).switched_length(3, 9)\n"
        "print(compilations())\n"
    )
    found = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert found.stdout == "0\n"
    assert "compiling" not in found.stderr


@pytest.mark.parametrize(
    ("policy", "rounds", "replicas"),
    [("random", 300, 4), ("optimal", 40, 2), ("cqb-opt", 1, 1), ("cqb-opt", 7, 2)],
)
def test_results_are_read_as_written_and_drawn(tmp_path, policy, rounds, replicas):
    found = switching_queues(policy, headway.Scenario(), rounds=rounds, replicas=replicas)
    summary = switching_summary(found)
    path = tmp_path / "regret.parquet"
    write_switching(path, found, summary)
    read = read_switching(path)
    assert {**read.summary, "rows": summary["rows"]} == summary
    for name in ("gap", "life", "misaligned"):
        assert np.array_equal(getattr(read, name), getattr(found, name))
    assert read.lost.sum() == summary["states"][0]["begun"]
    assert read.bound.sum() == pytest.approx(summary["bound"]["mean"])
    draw_switching(read, tmp_path / "regret.png")
    assert (tmp_path / "regret.png").read_bytes()[:4] == b"\x89PNG"


def test_other_files_are_no_results(tmp_path):
    (tmp_path / "none.parquet").write_bytes(b"nothing")
    with pytest.raises(HeadwayError, match="cannot read results"):
        read_switching(tmp_path / "none.parquet")
    assert subprocess.run(
        [COMMAND, "simulate", "random", *SMALL, "--out", str(tmp_path)], capture_output=True,
        check=False,
    ).returncode == 0  # fmt: skip
    with pytest.raises(HeadwayError, match="not one of `headway regret`"):
        read_switching(tmp_path / "simulate.parquet")


# The page.


def blocks(kind):
    """The fenced blocks of one kind, in order."""
    return re.findall(rf"^```{kind}\n(.*?)^```", PAGE, re.M | re.S)


def test_the_example_of_the_page_prints_what_is_shown():
    (code,), (shown,) = blocks("python"), blocks("text")
    with contextlib.redirect_stdout(io.StringIO()) as out:
        exec(compile(code, "regret.md", "exec"), {})
    assert out.getvalue() == shown


def test_the_table_of_the_page_is_the_table_printed():
    (shown,) = blocks("console")
    command, *expected = shown.splitlines()
    assert command == "$ headway regret cqb-opt --replicas 200 --out docs"
    found = call("cqb-opt", "--replicas", "200", env={**os.environ, "COLUMNS": "80"})
    assert [line.rstrip() for line in found.stdout.splitlines()] == expected


@pytest.mark.parametrize("line", blocks("sh")[0].splitlines())
def test_the_commands_of_the_page_work(line):
    words = line.split("#")[0].split()
    assert words[:2] == ["headway", "regret"]
    found = call(*words[2:], *SMALL)
    assert found.returncode == 0, found.stderr
    assert found.stdout
