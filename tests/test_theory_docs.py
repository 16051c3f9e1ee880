"""The page on theory is true: its examples run, and the table shown is the table printed."""

import contextlib
import io
import os
import re
import subprocess
import sys
from pathlib import Path

PAGE = (Path(__file__).parents[1] / "docs" / "theory.md").read_text()
HEADWAY = Path(sys.executable).with_name("headway")


def blocks(kind):
    """The fenced blocks of one kind, in order."""
    return re.findall(rf"^```{kind}\n(.*?)^```", PAGE, re.M | re.S)


def test_every_example_prints_what_is_shown():
    examples, shown = blocks("python"), blocks("text")
    assert len(examples) == len(shown) == 3
    for code, text in zip(examples, shown, strict=True):
        with contextlib.redirect_stdout(io.StringIO()) as out:
            exec(compile(code, "theory.md", "exec"), {})
        assert out.getvalue() == text


def test_the_table_shown_is_the_table_printed():
    (shown,) = blocks("console")
    command, *expected = shown.splitlines()
    assert command == "$ headway theory"
    found = subprocess.run(
        [HEADWAY, "theory"],
        capture_output=True,
        text=True,
        check=True,
        env={**os.environ, "COLUMNS": "80"},
    )
    assert [line.rstrip() for line in found.stdout.splitlines()] == expected


def test_every_row_of_slips_has_its_four_columns():
    rows = [line for line in PAGE.splitlines() if line.startswith("|")]
    slips = rows[rows.index("| where | what stands there | what holds | headway |") + 2 :]
    assert len(slips) > 25
    for row in slips:
        assert len(row.split("|")) == 6, row


def test_with_service_first_the_two_queues_differ_all_the_same():
    """What the page says of the order within a slot."""
    minus, plus = (1, 2), (2, 1)
    for t in range(2, 101):
        arrival = 0 if t == 2 else 1
        queues = []
        for first, second in (minus, plus):
            one = 1 if first <= second else 0
            queues.append((max(0, first - one) + arrival, max(0, second - 1 + one) + arrival))
        minus, plus = queues
        assert plus[0] - minus[0] == (2 if t == 2 else t - 1)
        assert sum(plus) == sum(minus)
