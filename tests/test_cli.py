"""Proves what a person meets at the command line: output, errors, exit codes, interruption."""

import json
import os
import resource
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

import headway

COMMAND = str(Path(sys.executable).with_name("headway"))
SMALL = ["--rounds", "100", "--replicas", "3"]
LEAST = {
    "queue_final", "queue_mean", "wait_p99", "regret_final", "regret_mean", "rounds_per_second",
    "event_failed",
}  # fmt: skip


@pytest.fixture(scope="module", autouse=True)
def compiled():
    """The first process of a version compiles; what is tested here is the later ones."""
    headway.simulate("random", headway.Scenario(), rounds=2)
    assert call("simulate", "random", *SMALL).returncode == 0


def call(*words, **given):
    """Run the command to its end."""
    return subprocess.run(
        [COMMAND, *words], capture_output=True, text=True, timeout=300, check=False, **given
    )


def refused(found, *parts):
    """One sentence on stderr that quotes the value, nothing on stdout, exit code 2."""
    assert found.returncode == 2, found.stderr
    assert found.stdout == ""
    assert "Traceback" not in found.stderr
    for part in parts:
        assert part in found.stderr
    lines = found.stderr.strip().splitlines()
    assert len(lines) == 1, found.stderr
    assert lines[0].startswith("headway: ")


# What is printed.


def test_policies_lists_every_policy():
    found = call("policies", "--json")
    rows = json.loads(found.stdout)["policies"]
    assert [row["policy"] for row in rows] == list(headway.POLICIES)
    for row in rows:
        assert row["about"]
        assert row["source"]
        assert set(row["learners"]) <= {"paper", "likelihood", "laplace"}
    text = call("policies").stdout
    assert all(name in text for name in headway.POLICIES)


def test_compare_prints_one_json_object():
    found = call("compare", *SMALL, "--seed", "4", "--json")
    assert found.returncode == 0
    value = json.loads(found.stdout)
    assert set(value) >= {"policies", "scenario", "seed", "rounds", "replicas"}
    assert (value["seed"], value["rounds"], value["replicas"]) == (4, 100, 3)
    assert value["scenario"]["slack"] == 0.1
    assert value["scenario"]["acceptance"] > 0.01
    assert set(value["policies"]) == set(headway.POLICIES) - {"clairvoyant"}
    for row in value["policies"].values():
        assert set(row) >= LEAST
        assert row["rounds_per_second"] > 0
        assert row["event_failed"] == 0
        for name in LEAST - {"rounds_per_second", "event_failed"}:
            assert set(row[name]) == {"mean", "se", "low", "high"}
    rows = headway.compare(None, headway.Scenario(), rounds=100, replicas=3, seed=4).rows
    for name, row in rows.items():
        assert value["policies"][name]["queue_mean"] == row["queue_mean"]._asdict()


def test_simulate_prints_one_json_object_with_the_same_numbers():
    found = call("simulate", "cqb-eps", *SMALL, "--learner", "paper", "--set", "kappa=4",
                 "--set", "cqb-eps.burn_in_rounds=7", "--unit-norm", "--json")  # fmt: skip
    value = json.loads(found.stdout)
    world = headway.Scenario(unit_norm=True)
    run = headway.simulate("cqb-eps", world, rounds=100, replicas=3, learner="paper", kappa=4,
                           burn_in_rounds=7)  # fmt: skip
    assert value["policy"] == "cqb-eps"
    assert value["learner"] == "paper"
    assert value["settings"] == run.settings
    assert value["queue_final"]["mean"] == run.queue_final.mean()
    assert value["wait_p99"]["mean"] == run.wait(0.99).mean()
    assert set(value) >= {"scenario", "seed", "rounds", "replicas", "rounds_per_second"}
    assert value["event_failed"] == 0


def test_one_replica_has_no_nan_in_json():
    value = json.loads(call("compare", "--rounds", "1", "--replicas", "1", "--json").stdout)
    assert value["policies"]["random"]["queue_mean"]["low"] is None


def test_tables_name_the_policies_and_the_world():
    found = call("compare", "random", *SMALL, "--servers", "4", "--dimension", "6")
    assert found.returncode == 0
    assert "4 servers, dimension 6" in found.stdout
    assert "random" in found.stdout
    assert "cqb-opt" not in found.stdout
    assert "queue at the end" in call("simulate", "random", *SMALL).stdout


def test_out_holds_the_figure_and_the_results(tmp_path):
    found = call("compare", *SMALL, "--json", "--out", str(tmp_path / "new" / "folder"))
    assert found.returncode == 0
    folder = tmp_path / "new" / "folder"
    assert sorted(each.name for each in folder.iterdir()) == ["compare.parquet", "compare.png"]
    assert (folder / "compare.png").read_bytes().startswith(b"\x89PNG")
    from headway.experiments.results import read_results

    assert read_results(folder / "compare.parquet").summary == json.loads(found.stdout)
    assert call("simulate", "random", *SMALL, "--out", str(tmp_path)).returncode == 0
    assert (tmp_path / "simulate.parquet").exists()


# What is refused.


@pytest.mark.parametrize(
    ("words", "parts"),
    [
        ("simulate cqb-op", ["'cqb-op'", "did you mean cqb-opt"]),
        ("compare random zzz", ["'zzz'", "known: acqb, clairvoyant", "q-ucb, random"]),
        ("simulate cqb-opt --learner papr", ["'papr'", "paper"]),
        ("simulate random --learner paper", ["'paper'", "random"]),
        ("compare --set kapa=1", ["'kapa'", "kappa"]),
        ("simulate cqb-opt --set kappa=1", ["'kappa'", "learner paper"]),
        ("simulate cqb-opt --set kappa", ["'kappa'", "KEY=VALUE"]),
        ("compare --set =3", ["'=3'", "KEY=VALUE"]),
        ("compare --set failure_prob=", ["'failure_prob='"]),
        ("compare --set failure_prob=.1 --set failure_prob=.2", ["'failure_prob'", "twice"]),
        ("compare --set failure_prob=abc", ["'abc'"]),
        ("compare --set failure_prob=nan", ["nan"]),
        ("compare --set zzz.failure_prob=0.1", ["'zzz'"]),
        ("simulate random --set cqb-opt.failure_prob=0.1", ["'cqb-opt'", "'random'"]),
        ("compare --rounds 0", ["rounds 0"]),
        ("compare --replicas 0", ["replicas 0"]),
        ("simulate random --seed -1", ["seed -1"]),
        ("simulate random --threads 0", ["threads 0"]),
        ("compare --slack 0.299 --servers 2 --dimension 2", ["slack 0.299", "0.00%"]),
        ("compare --slack 0.3", ["slack 0.3"]),
        ("compare --slack nan", ["slack nan"]),
        ("compare --arrival-rate nan", ["arrival_rate nan"]),
        ("compare --dimension 0", ["dimension 0"]),
        ("compare --slack-by rejct", ["'rejct'", "reject"]),
    ],
)
def test_bad_input_is_one_sentence_and_writes_nothing(words, parts, tmp_path):
    refused(call(*words.split(), "--out", str(tmp_path)), *parts)
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    "words",
    [
        "simulate cqb-ops", "simulate cqb-opt --learner papr", "simulate random --rounds 0",
        "simulate cqb-opt --set failure_prob=2", "compare zzz", "compare --learner papr",
        "compare --set kapa=1", f"simulate random --rounds {10**34}", "compare --replicas 0",
    ],
)  # fmt: skip
def test_what_is_wrong_is_said_before_a_folder_is_made_or_anything_compiled(words, tmp_path):
    cache = tmp_path / "cache"
    given = {**os.environ, "HEADWAY_CACHE_DIR": str(cache)}
    refused(call(*words.split(), "--out", str(tmp_path / "new"), env=given))
    assert not (tmp_path / "new").exists()
    assert not [each for each in cache.rglob("*") if each.is_file()]


@pytest.mark.parametrize("command", [["simulate", "random"], ["compare", "random"]])
def test_a_folder_may_be_named_like_markup(command, tmp_path):
    folder = tmp_path / "x[/y]"
    found = call(*command, *SMALL, "--out", str(folder))
    assert found.returncode == 0, found.stderr
    assert str(folder) in found.stderr
    assert any(folder.iterdir())


def test_a_burn_in_that_covers_the_run_is_marked():
    whole = call("simulate", "cqb-eps", *SMALL, "--set", "burn_in_rounds=100").stdout
    assert "cqb-eps (likelihood) *" in whole
    assert "* burn-in covers the whole run" in whole
    assert "*" not in call("simulate", "cqb-eps", *SMALL, "--set", "burn_in_rounds=99").stdout


def test_the_folder_of_a_process_that_cannot_keep_its_code_goes_with_it(tmp_path):
    taken = tmp_path / "taken"
    taken.write_text("no folder")
    program = "from headway.compiled import cache_folder; print(cache_folder())"
    env = {**os.environ, "HEADWAY_CACHE_DIR": str(taken), "TMPDIR": str(tmp_path)}
    (folder,) = python(program, env=env)
    assert folder.startswith(str(tmp_path / "headway-compiled-"))
    assert [each.name for each in tmp_path.iterdir()] == ["taken"]


def test_another_python_or_processor_has_a_folder_of_its_own(monkeypatch):
    from headway import compiled as here

    mine = here.source_hash()
    monkeypatch.setattr(here.llvm, "get_host_cpu_name", lambda: "another")
    other = here.source_hash()
    monkeypatch.undo()
    monkeypatch.setattr(here.sys, "version_info", (3, 99, 0))
    assert len({mine, other, here.source_hash()}) == 3


@pytest.mark.parametrize(
    "words",
    [
        "simulate random --rounds abc", "simulate random --nope", "nosuch", "simulate",
        "compare --slack x", "compare --out",
    ],
)  # fmt: skip
def test_a_wrong_option_is_a_usage_error_without_a_traceback(words):
    found = call(*words.split())
    assert found.returncode == 2, found.stderr
    assert found.stdout == ""
    assert found.stderr
    assert "Traceback" not in found.stderr


@pytest.mark.parametrize(
    ("words", "key"),
    [
        ("simulate random --set rounds=5", "rounds"),
        ("simulate random --set record=1", "record"),
        ("simulate random --set instances=3", "instances"),
        ("compare --set rounds=5", "rounds"),
        ("compare --set every=3", "every"),
        ("compare --set cqb-opt.rounds=3", "rounds"),
        ("compare --set policies=random", "policies"),
    ],
)
def test_set_takes_settings_and_no_other_argument(words, key):
    refused(call(*words.split(), "--replicas", "2"), key)


@pytest.mark.parametrize(
    "words",
    [
        "simulate cqb-opt --learner paper --set kappa=1" + "0" * 400,
        "simulate cqb-eps --slack 1e-160 --set explore_prob=0",
        "compare --servers 1000000000000000000",
        "compare --dimension 1000000000000000",
    ],
)
def test_numbers_beyond_all_measure_leave_no_traceback(words):
    found = call(*words.split(), *SMALL)
    assert found.returncode in (0, 2), found.stderr
    assert "Traceback" not in found.stderr


@pytest.mark.parametrize("command", [["compare"], ["simulate", "random"]])
def test_a_file_in_the_way_of_the_folder(command, tmp_path):
    taken = tmp_path / "taken"
    taken.write_text("mine")
    for folder in (taken, taken / "below"):
        refused(call(*command, *SMALL, "--out", str(folder)), str(folder))
    assert taken.read_text() == "mine"


def test_a_folder_in_the_way_of_the_file(tmp_path):
    (tmp_path / "compare.parquet").mkdir()
    refused(
        call("compare", "random", *SMALL, "--out", str(tmp_path)),
        str(tmp_path / "compare.parquet"), "Is a directory",
    )  # fmt: skip
    assert [each.name for each in tmp_path.iterdir()] == ["compare.parquet"]


def test_a_full_disk_leaves_nothing_half_written(tmp_path):
    def limit():
        resource.setrlimit(resource.RLIMIT_FSIZE, (2000, 2000))

    found = call("compare", "random", *SMALL, "--out", str(tmp_path), preexec_fn=limit)
    refused(found, str(tmp_path / "compare.parquet"))
    assert list(tmp_path.iterdir()) == []


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="there is no /dev/full here")
@pytest.mark.parametrize("more", [[], ["--json"]])
def test_a_full_disk_behind_stdout_is_an_error(more):
    with Path("/dev/full").open("w") as full:
        found = subprocess.run(
            [COMMAND, "compare", "random", *SMALL, *more],
            stdout=full, stderr=subprocess.PIPE, text=True, timeout=300, check=False,
        )  # fmt: skip
    assert found.returncode == 2
    assert "No space left on device" in found.stderr
    assert "Traceback" not in found.stderr


@pytest.mark.parametrize("more", ["", "--json"])
def test_a_reader_that_leaves_early_sees_no_traceback(more):
    words = ["compare", "random", "--rounds", "100", "--replicas", "2", *more.split()]
    with subprocess.Popen(
        [COMMAND, *words], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    ) as process:
        process.stdout.close()  # before a line is written
        err = process.stderr.read()
    assert process.returncode == 141  # what a shell gives for a broken pipe
    assert err == ""


# Interruption, compiled code, imports.


@pytest.mark.parametrize(
    "words", [["simulate", "random"], ["simulate", "cqb-opt", "--learner", "paper"], ["compare"]]
)
def test_ctrl_c_ends_a_long_run(words, tmp_path):
    size = ["--rounds", "2000000", "--replicas", "50", "--threads", "1"]
    words = [*words, *size, "--out", str(tmp_path)]
    process = subprocess.Popen(
        [COMMAND, *words], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
        # Under nohup or in a shell's background the signal is ignored, and children inherit it.
        preexec_fn=lambda: signal.signal(signal.SIGINT, signal.default_int_handler),  # noqa: PLW1509
    )  # fmt: skip
    try:
        time.sleep(2.0)
        assert process.poll() is None
        process.send_signal(signal.SIGINT)
        out, err = process.communicate(timeout=20)
    finally:
        process.kill()
        process.wait()
    assert process.returncode == 130
    assert out == ""
    assert err == "headway: stopped\n"
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    "module", ["headway.cli.app", "typer", "rich.table", "numba", "headway.kernel.logistic"]
)
def test_ctrl_c_while_importing_is_one_sentence(module):
    program = f"""
import signal, sys
signal.signal(signal.SIGINT, signal.default_int_handler)
class Finder:
    def find_spec(self, name, path=None, target=None):
        if name == {module!r}:
            signal.raise_signal(signal.SIGINT)
sys.meta_path.insert(0, Finder())
sys.argv = ["headway", "simulate", "random", "--rounds", "10"]
from headway.cli import main
main()
"""
    found = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, timeout=300, check=False
    )
    assert (found.returncode, found.stdout, found.stderr) == (130, "", "headway: stopped\n")


def test_ctrl_c_in_a_callback_of_the_compiler_waits_until_it_is_over(tmp_path):
    """What is raised in LLVM's callbacks is swallowed, and the compilation fails by itself."""
    program = """
import os, signal
signal.signal(signal.SIGINT, signal.default_int_handler)
first = []
from numba.core import codegen
heard = codegen.CPUCodeLibrary.__dict__["_object_compiled_hook"].__func__
def hook(*given):
    if not first:
        first.append(1)
        signal.raise_signal(signal.SIGINT)
    return heard(*given)
codegen.CPUCodeLibrary._object_compiled_hook = classmethod(hook)
import sys
sys.argv = ["headway", "simulate", "random", "--rounds", "10"]
from headway.cli import main
main()
"""
    found = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, timeout=300, check=False,
        env={**os.environ, "HEADWAY_CACHE_DIR": str(tmp_path)},
    )  # fmt: skip
    assert found.returncode == 130, found.stderr
    *_, last = found.stderr.splitlines()
    assert last == "headway: stopped"
    assert "Traceback" not in found.stderr


def python(program, **given):
    return subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, timeout=300, check=True,
        **given,
    ).stdout.split()  # fmt: skip


def test_a_second_process_compiles_nothing():
    program = """
import headway
from headway.compiled import compilations
for policy in headway.POLICIES:
    for learner in headway.POLICIES[policy].learners:
        learner = None if learner in ("none", "truth", "realised") else learner
        headway.simulate(policy, headway.Scenario(), rounds=300, replicas=2, learner=learner)
print(compilations())
"""
    assert python(program) == ["0"]


def test_one_dimension_has_code_of_its_own_announced_once():
    words = ["simulate", "cqb-opt", *SMALL, "--dimension", "1", "--slack-by", "none"]
    call(*words)
    again = call(*words)
    assert again.returncode == 0
    assert "compiling" not in again.stderr
    program = """
import headway
from headway.compiled import compilations
world = headway.Scenario(servers=3, dimension=1, slack_by="none")
for learner in ("paper", "likelihood"):
    headway.simulate("cqb-opt", world, rounds=300, replicas=2, learner=learner)
print(compilations())
"""
    assert python(program) == ["0"]


def test_importing_headway_loads_nothing_heavy():
    program = """
import sys, headway
headway.__version__, dir(headway)
print(*sorted({"numba", "numpy", "matplotlib", "scipy", "pyarrow"} & set(sys.modules)))
"""
    assert python(program, env={**os.environ, "PYTHONSAFEPATH": "1"}) == []


def test_public_names_are_there_and_others_are_not():
    for name in dir(headway):
        assert getattr(headway, name) is not None
    with pytest.raises(AttributeError, match="nonsense"):
        _ = headway.nonsense
