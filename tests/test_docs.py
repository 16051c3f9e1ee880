"""What the README shows is what happens: snippets run, shown output is compared, files exist."""

import contextlib
import io
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
README = (ROOT / "README.md").read_text()
HEADWAY = Path(sys.executable).with_name("headway")


def blocks(kind):
    """The fenced blocks of one kind, in order."""
    return re.findall(rf"^```{kind}\n(.*?)^```", README, re.M | re.S)


def test_python_snippets_run_and_print_what_is_shown():
    space = {}
    printed = []
    for code in blocks("python"):
        with contextlib.redirect_stdout(io.StringIO()) as out:
            exec(compile(code, "README.md", "exec"), space)
        printed.append(out.getvalue())
    for shown in blocks("text"):
        assert shown in printed


def test_the_table_shown_is_the_table_printed():
    (shown,) = blocks("console")
    command, *expected = shown.splitlines()
    assert command == "$ headway compare --out out"
    found = subprocess.run(
        [HEADWAY, "compare"],
        capture_output=True,
        text=True,
        check=True,
        env={**os.environ, "COLUMNS": "80"},
    )

    def without_speed(lines):
        return [re.sub(r"\s+[\d,]+k$", "", line).rstrip() for line in lines]

    assert without_speed(found.stdout.splitlines()) == without_speed(expected)


@pytest.mark.parametrize(
    "line",
    [
        line.split("#")[0].split()
        for block in re.findall(r"^```sh\n(.*?)^```", README, re.M | re.S)
        for line in block.splitlines()
        if line.startswith("headway")
    ],
    ids=" ".join,
)
def test_commands_shown_work(line):
    small = ["--rounds", "500", "--replicas", "2"] if line[1] != "policies" else []
    line = (
        line[: line.index("--replicas")] + line[line.index("--replicas") + 2 :]
        if ("--replicas" in line)
        else line
    )
    found = subprocess.run(
        [HEADWAY, *line[1:], *small], capture_output=True, text=True, check=False
    )
    assert found.returncode == 0, found.stderr
    assert found.stdout


@pytest.mark.parametrize("page", ["README.md", "ARCHITECTURE.md", "GLOSSARY.md", "CHANGELOG.md"])
def test_links_lead_somewhere(page):
    text = (ROOT / page).read_text()
    for target in re.findall(r"\]\(([^)#]+)\)", text):
        assert (ROOT / target).exists(), target


def test_make_targets_shown_exist():
    makefile = (ROOT / "Makefile").read_text()
    for target in re.findall(r"^make (\w+)", README, re.M):
        assert re.search(rf"^{target}:", makefile, re.M), target


def test_verdicts_are_those_of_the_committed_reports():
    sys.path.insert(0, str(ROOT / "bench"))
    import publish

    for page in publish.PAGES:
        text = page.read_text()
        assert publish.BEGIN in text
        assert publish.published(text) == text, page.name
