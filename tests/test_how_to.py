"""Every how-to is done as written: files saved, commands run, shown output compared."""

import os
import re
import shlex
import subprocess
import sys
from pathlib import Path

import pytest

import headway

PAGES = Path(__file__).parents[1] / "docs" / "how-to"
BIN = Path(sys.executable).parent


def blocks(page, kind):
    """The fenced blocks of one kind with the rest of their opening line."""
    text = (PAGES / page).read_text()
    return re.findall(rf"^```{kind}([^\n]*)\n(.*?)^```", text, re.M | re.S)


def save_files(page, folder):
    for head, code in blocks(page, "python"):
        name = re.search(r'title="(.*?)"', head)
        if name:
            (folder / name[1]).write_text(code)


def run(line, folder):
    environment = {**os.environ, "PATH": f"{BIN}:{os.environ['PATH']}", "COLUMNS": "100"}
    return subprocess.run(
        shlex.split(line, comments=True), cwd=folder, env=environment, capture_output=True,
        text=True, check=False,
    )  # fmt: skip


@pytest.mark.parametrize("page", sorted(path.name for path in PAGES.glob("*.md")))
def test_a_how_to_is_done_as_written(page, tmp_path):
    save_files(page, tmp_path)
    printed = []
    for _, code in blocks(page, "sh"):
        for line in code.splitlines():
            found = run(line, tmp_path)
            assert found.returncode == 0, f"{line}: {found.stderr}"
            printed.append(found.stdout)
    shown = [text for _, text in blocks(page, "text")]
    for text in shown:
        assert text in printed
    assert printed


def test_a_learn_of_ones_own_keeps_the_rules(tmp_path, monkeypatch):
    save_files("add-a-policy.md", tmp_path)
    monkeypatch.syspath_prepend(tmp_path)
    import own_learn

    from headway.settings import find_policy

    usual = find_policy(f"{tmp_path}/mine.py:policy")
    policy = headway.Policy(
        "first-attempts", usual.choose, own_learn.learn, learners=("laplace",),
        defaults=usual.defaults,
    )  # fmt: skip
    report = headway.check_policy(policy)
    assert report.passed, str(report)
