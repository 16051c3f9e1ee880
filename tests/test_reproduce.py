"""Experiments: files checked key by key, cells stored and resumed, tiny versions of every panel."""

import json
import re
import subprocess
import sys
import threading
from pathlib import Path

import numpy as np
import pytest
from test_datasets import tiny  # noqa: F401 - a fixture

import headway
from headway.errors import HeadwayError
from headway.experiments import runner
from headway.experiments.grid import cells_of, pieces, recall, run_cell
from headway.experiments.panel_figures import draw_panel
from headway.experiments.panels import assemble, read_panel, write_panel
from headway.experiments.runner import cell_path, execute, make_plan
from headway.experiments.spec import ORDER, PAPER, load_experiment, parse_experiment
from headway.rules import BURN_IN_CONSTANT

COMMAND = str(Path(sys.executable).with_name("headway"))
MINE = """
title = "mine"
policies = ["cqb-opt", "random"]
rounds = 120
replicas = 3
[world]
servers = 3
dimension = 2
[vary]
slack = [0.05, 0.1]
"""


def mine(text=MINE):
    return parse_experiment(text, Path("mine.toml"))


def call(*words, **given):
    return subprocess.run(
        [COMMAND, "reproduce", *map(str, words)], capture_output=True, text=True, timeout=300,
        check=False, **given,
    )  # fmt: skip


def run_all(experiment, folder, threads=1, **size):
    cells = [cell for _, group in cells_of(experiment, **size) for cell in group]
    plan = make_plan(cells, folder)
    execute(plan, threads=threads)
    return plan


# What a person writes.


def test_the_ten_panels_are_small_files_in_order():
    assert len(ORDER) == 10
    assert {path.stem for path in PAPER.glob("*.toml")} == set(ORDER)
    for name in ORDER:
        assert len((PAPER / f"{name}.toml").read_text().splitlines()) <= 30
        found = load_experiment(name)
        assert (found.id, found.rounds, found.replicas) == (name, 5000, 10)
        assert found.versions == ["literal", "scaled", "likelihood"]


def test_base_ten_is_the_same_formula_with_another_logarithm():
    variants = load_experiment("slack-cqb-eps").variants
    given = variants["base ten"].settings["cqb-eps"]["burn_in_constant"]
    assert given == pytest.approx(BURN_IN_CONSTANT / np.log(10.0), rel=1e-4)
    world = headway.Scenario(slack=0.05)
    taus = [
        headway.simulate("cqb-eps", world, rounds=5000, every="final", **each).settings[
            "burn_in_rounds"
        ]
        for each in ({}, {"burn_in_constant": given})
    ]
    assert taus == [4838, 2102]


@pytest.mark.parametrize(
    ("changed", "says"),
    [
        (("title", "titel"), "'titel': did you mean title"),
        (('"cqb-opt"', '"cqb-op"'), "unknown policy 'cqb-op'"),
        (('"random"]', '"cqb-opt"]'), "'cqb-opt' is listed 2 times"),
        (("policies =", "policies = [] #"), "names no policy"),
        (("rounds = 120", 'rounds = "many"'), "Expected `int`, got `str`"),
        (("[vary]", "[vary]\nservers = [2, 3]"), "vary has 2 keys"),
        (("[0.05, 0.1]", "[0.1, 0.1]"), "must be different values"),
        (("[0.05, 0.1]", "[]"), "must be different values"),
        (("servers = 3", "servers = 3 3"), "not valid TOML"),
        (("rounds = 120", 'versions = ["litral"]'), "did you mean literal"),
        (("rounds = 120", "settings.q-ucb.width = 1"), "'q-ucb'"),
        (("rounds = 120", "[own_versions.a]\nlearner = 'papr'\n[x]"), "did you mean"),
        (("rounds = 120", "[variants.a]\nwrld = {}\n[x]"), "wrld"),
    ],
)
def test_a_file_that_cannot_be_run_is_refused_in_a_sentence(changed, says):
    text = MINE.replace(*changed)
    if "[x]" in text:
        text = text.replace("[x]\nreplicas = 3\n", "")
    with pytest.raises(HeadwayError) as problem:
        mine(text)
    assert says in str(problem.value)
    assert "\n" not in str(problem.value)


@pytest.mark.parametrize(
    ("changed", "says"),
    [
        (("dimension = 2", "dimensio = 2"), "unknown key of the world 'dimensio'"),
        (("dimension = 2", "dimension = -2"), "dimension -2"),
        (("slack = [0.05, 0.1]", "slack = [0.05, 0.4]"), "slack 0.4"),
        (("rounds = 120", "settings.cqb-opt.width = 1"), "width"),
        (("rounds = 120", "rounds = 0"), "rounds 0"),
        (("servers = 3\ndimension = 2", 'data = "mnis"'), "key of the world 'slack'"),
    ],
)
def test_cells_are_checked_before_any_runs(changed, says, tmp_path):
    with pytest.raises(HeadwayError) as problem:
        run_all(mine(MINE.replace(*changed)), tmp_path)
    assert says in str(problem.value)
    assert not (tmp_path / "cells").exists()


# Cells.


def test_a_cell_in_pieces_is_the_whole():
    (_, group), *_ = cells_of(mine(), replicas=25)
    assert [(cell.first, cell.replicas) for cell in group] == [(0, 10), (10, 10), (20, 5)]
    whole = headway.simulate(
        "cqb-opt", headway.Scenario(servers=3, dimension=2, slack=0.05), rounds=120, replicas=25
    )
    third = run_cell(group[2])
    assert np.array_equal(third.queue_length, whole.queue_length[20:])
    assert np.array_equal(third.queue_mean, whole.queue_mean[20:])


def test_every_part_of_a_cell_is_in_its_name(tmp_path, monkeypatch):
    (_, (cell,)), *others = cells_of(mine())
    names = {cell.digest, *(each.digest for _, group in others for each in group)}
    assert len(names) == 6  # two values, two policies and optimal
    assert pieces(cell)[0].digest == cell.digest
    monkeypatch.chdir(tmp_path)
    own = (
        "import headway\nfrom headway.learners import learn\n\n\ndef choose(*_):\n    return 0, 0\n"
    )
    (tmp_path / "own.py").write_text(own + "policy = headway.Policy('own', choose, learn)\n")
    text = MINE.replace('"random"', '"own.py:policy"')
    before = cells_of(mine(text))[1][1][0].digest
    (tmp_path / "own.py").write_text(own + "# changed\npolicy = 1\n")
    from headway.experiments.grid import file_hash

    file_hash.cache_clear()
    assert cells_of(mine(text))[1][1][0].digest != before


def test_finished_cells_are_not_run_again_and_damaged_ones_are(tmp_path, monkeypatch):
    plan = run_all(mine(), tmp_path)
    assert (len(plan.todo), plan.reused) == (6, 0)
    ran = []
    real = runner.run_cell
    monkeypatch.setattr(
        runner, "run_cell", lambda cell, **given: ran.append(cell) or real(cell, **given)
    )
    plan = run_all(mine(), tmp_path)
    assert (plan.todo, plan.reused, ran) == ((), 6, [])
    files = sorted((tmp_path / "cells").iterdir())
    cut, flipped = files[1], files[4]
    whole = [path.read_bytes() for path in (cut, flipped)]
    cut.write_bytes(whole[0][:-7])
    flipped.write_bytes(whole[1][:200] + bytes([whole[1][200] ^ 1]) + whole[1][201:])
    assert recall(cut) is None
    assert recall(flipped) is None
    plan = run_all(mine(), tmp_path)
    assert len(ran) == 2
    assert [path.read_bytes() for path in (cut, flipped)] == whole


def test_more_replicas_reuse_the_full_cells(tmp_path):
    run_all(mine(), tmp_path, replicas=10)
    plan = run_all(mine(), tmp_path, replicas=20)
    assert (len(plan.todo), plan.reused) == (6, 6)


def test_an_error_in_one_cell_stops_the_others_and_keeps_what_is_whole(tmp_path, monkeypatch):
    cells = [cell for _, group in cells_of(mine()) for cell in group]
    plan = make_plan(cells, tmp_path)
    real, done = runner.run_cell, []

    def failing(cell, **given):
        if len(done) == 2:
            raise HeadwayError("the disk is gone")
        done.append(cell)
        return real(cell, **given)

    monkeypatch.setattr(runner, "run_cell", failing)
    with pytest.raises(HeadwayError, match="the disk is gone"):
        execute(plan, threads=1)
    assert len(list((tmp_path / "cells").iterdir())) == 2
    monkeypatch.setattr(runner, "run_cell", real)
    assert run_all(mine(), tmp_path).reused == 2


def test_a_stop_reaches_cells_in_progress(tmp_path):
    experiment = mine(MINE.replace("rounds = 120", "rounds = 400000"))
    plan = make_plan([c for _, group in cells_of(experiment) for c in group], tmp_path)
    told = threading.Event()

    def interrupt(_):
        told.set()
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        execute(plan, threads=2, advance=interrupt)
    assert told.is_set()
    assert list((tmp_path / "cells").iterdir()) == []


def test_an_adaptive_world_is_measured_against_optimal_on_its_own_jobs(tmp_path):
    text = MINE.replace("servers = 3", 'servers = 3\ncontexts = "adaptive"')
    experiment = mine(text)
    run_all(experiment, tmp_path)
    panel = assemble(experiment, tmp_path)
    series = panel.find(policy="cqb-opt", value=0.1)
    world = headway.Scenario(servers=3, dimension=2, contexts="adaptive", slack=0.1)
    found = headway.compare(["cqb-opt"], world, rounds=120, replicas=3, every=1)
    assert np.array_equal(series.optimal_length, found.yardsticks["cqb-opt"].queue_length)
    assert not np.array_equal(
        series.optimal_length, panel.find(policy="optimal", value=0.1).queue_length
    )


# Panels.


def test_a_panel_comes_back_from_its_file(tmp_path):
    experiment = mine()
    run_all(experiment, tmp_path)
    panel = assemble(experiment, tmp_path)
    write_panel(tmp_path / "mine.parquet", panel)
    again = read_panel(tmp_path / "mine.parquet")
    assert again.experiment == experiment
    assert (again.rounds, again.replicas) == (120, 3)
    assert list(again.series) == list(panel.series)
    for place, series in panel.series.items():
        other = again.series[place]
        assert np.array_equal(series.queue_length, other.queue_length)
        assert np.array_equal(series.optimal_length, other.optimal_length)
        assert all(
            np.array_equal(series.measures[name], other.measures[name]) for name in series.measures
        )


@pytest.mark.parametrize("name", ORDER)
def test_a_tiny_version_of_every_panel(name, tmp_path, tiny):  # noqa: F811
    experiment = load_experiment(name)
    size = {"replicas": 2, "rounds": 60}
    cells = [cell for _, group in cells_of(experiment, **size) for cell in group]
    execute(make_plan(cells, tmp_path, data_dir=str(tiny)), threads=2)
    panel = assemble(experiment, tmp_path, **size)
    draw_panel(panel, tmp_path / name)
    picture = (tmp_path / f"{name}.png").read_bytes()
    assert picture.startswith(b"\x89PNG")
    assert len(picture) > 20_000
    text = (tmp_path / f"{name}.svg").read_text()
    assert experiment.title.split()[0] in re.sub("<!-- (.*?) -->", r"\1", text)
    from headway.experiments.claims import claims_of

    claims = claims_of(panel)
    assert claims
    assert {claim.panel for claim in claims} == {name}


def same_folder(one, other):
    names = sorted(path.name for path in one.iterdir() if path.is_file())
    assert names == sorted(path.name for path in other.iterdir() if path.is_file())
    for name in names:
        assert (one / name).read_bytes() == (other / name).read_bytes(), name
    return names


def test_threads_and_an_interruption_change_no_byte(tmp_path):
    size = ["--rounds", 300, "--replicas", 12]
    assert call("baselines", *size, "--threads", 1, "--out", tmp_path / "one").returncode == 0
    assert call("baselines", *size, "--threads", 2, "--out", tmp_path / "two").returncode == 0
    experiment = load_experiment("baselines")
    cells = [c for _, group in cells_of(experiment, replicas=12, rounds=300) for c in group]
    half = make_plan(cells, tmp_path / "three")
    runner.execute(runner.Plan(half.folder, half.todo[: len(half.todo) // 2], 0, None), threads=2)
    (tmp_path / "three" / "cells" / ".left-over-neighbour.npz").write_bytes(b"half")
    found = call("baselines", *size, "--out", tmp_path / "three")
    assert "cells are there already" in found.stderr
    names = same_folder(tmp_path / "one", tmp_path / "two")
    same_folder(tmp_path / "one", tmp_path / "three")
    assert names == [
        "baselines.parquet", "baselines.png", "baselines.svg", "claims.json", "report.html",
    ]  # fmt: skip


# The command.


def test_list_prints_a_panel_a_line_the_id_first():
    lines = call("--list").stdout.splitlines()
    assert [line.split()[0] for line in lines] == list(ORDER)
    rows = json.loads(call("--list", "--json").stdout)["panels"]
    assert [row["id"] for row in rows] == list(ORDER)


def test_a_persons_experiment_is_run_with_json(tmp_path):
    (tmp_path / "mine.toml").write_text(MINE)
    found = call("mine.toml", "--json", "--out", "there", cwd=tmp_path)
    assert found.returncode == 0, found.stderr
    content = json.loads(found.stdout)
    assert content["panels"] == {"mine": {"rounds": 120, "replicas": 3, "seed": 0}}
    assert (content["claims"], content["ran"], content["reused"]) == ([], 6, 0)
    assert (tmp_path / "there" / "report.html").exists()
    text = call("mine.toml", "--out", "there", cwd=tmp_path)
    assert "no claims are attached" in text.stdout


def test_the_page_is_whole_and_loads_nothing(tmp_path):
    call("slack-cqb-opt", "--rounds", 100, "--replicas", 3, "--out", tmp_path)
    page = (tmp_path / "report.html").read_text()
    assert not re.search(r"(src|href)=['\"]?(https?:)?//", page)
    assert page.count("data:image/png;base64,") == 1
    assert "of contexts have the slack" in page
    claims = json.loads((tmp_path / "claims.json").read_text())["claims"]
    assert {each["verdict"] for each in claims} <= {"holds", "does not hold", "undecided"}
    for each in claims:
        assert each["text"].split("'")[0] in page
        assert each["evidence"]


@pytest.mark.parametrize(
    ("words", "says"),
    [
        (["baseline"], "unknown panel 'baseline': did you mean baselines"),
        (["nowhere.toml"], "cannot read experiment 'nowhere.toml'"),
        (["baselines", "baselines"], "'baselines' is asked for 2 times"),
        (["baselines", "--replicas", "0"], "replicas 0 must be at least 1"),
        (["heart", "--data-dir", "nowhere"], "nowhere"),
        (["baselines", "--replicas", "1", "--rounds", "20", "--out", "/dev/null/x"], "/dev/null/x"),
    ],
)
def test_what_cannot_be_is_refused(words, says, tmp_path):
    found = call(*words, cwd=tmp_path)
    assert found.returncode == 2
    assert says in found.stderr
    assert "Traceback" not in found.stderr
    assert found.stdout == ""


def test_paths_of_cells_are_names_by_content(tmp_path):
    (_, (cell,)), *_ = cells_of(mine())
    assert cell_path(tmp_path, cell) == tmp_path / "cells" / f"{cell.digest}.npz"
