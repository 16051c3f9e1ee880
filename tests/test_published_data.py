"""Proves that the published files give the documented data sets; needs those files."""

import contextlib
import hashlib
import io
import itertools
import os
import re
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from headway.world.data_files import DATA_FILES
from headway.world.datasets import load

OFFERED = os.environ.get("HEADWAY_DATA_DIR")
FULL = Path(OFFERED) if OFFERED else Path(__file__).parents[2] / "shared" / "data"
PAGE = (Path(__file__).parents[1] / "docs" / "datasets.md").read_text()


def needs_full(name):
    return pytest.mark.skipif(
        not (FULL / name).is_dir(), reason=f"no folder {FULL / name}; set HEADWAY_DATA_DIR"
    )


@pytest.mark.parametrize(
    ("name", "shape", "counts"),
    [
        pytest.param(
            "mnist",
            (60000, 49),
            [5923, 6742, 5958, 6131, 5842, 5421, 5918, 6265, 5851, 5949],
            marks=needs_full("mnist"),
        ),
        pytest.param("heart", (4000, 25), [813, 777, 806, 784, 820], marks=needs_full("heart")),
        pytest.param("coupon", (4000, 120), [1712, 2288], marks=needs_full("coupon")),
    ],
)
def test_the_published_files_give_the_documented_readings(name, shape, counts):
    found = load(name, data_dir=FULL)
    assert found.contexts.shape == shape
    assert found.contexts.dtype == np.float64
    assert found.contexts.flags.c_contiguous
    assert np.isfinite(found.contexts).all()
    assert found.labels.dtype == np.int64
    assert np.bincount(found.labels, minlength=found.servers).tolist() == counts
    assert name == "mnist" or np.linalg.norm(found.contexts, axis=1).max() < 7.0


@needs_full("heart")
def test_heart_is_balanced_exactly_before_it_is_sampled():
    found = load("heart", data_dir=FULL)
    assert "the 297 complete rows of 303" in found.about
    assert "SMOTE with 5 neighbours to 800 rows" in found.about
    assert len(np.unique(found.contexts, axis=0)) > 780


@needs_full("heart")
def test_the_page_shows_what_happens(monkeypatch):
    monkeypatch.setenv("HEADWAY_DATA_DIR", str(FULL))
    with contextlib.redirect_stdout(io.StringIO()) as out:
        for code in re.findall(r"^```python\n(.*?)^```", PAGE, re.M | re.S):
            exec(compile(code, "docs/datasets.md", "exec"), {})
    assert out.getvalue() == "".join(re.findall(r"^```text\n(.*?)^```", PAGE, re.M | re.S))


def test_the_page_lists_every_file_with_its_digest():
    for file in itertools.chain.from_iterable(DATA_FILES.values()):
        assert f"{file.dataset}/{file.name}" in PAGE
        assert f"| {file.name} | {file.sha256} |" in PAGE


@needs_full("coupon")
def test_coupon_keeps_the_rows_that_miss_only_their_car():
    assert "the 12079 rows of 12684" in load("coupon", data_dir=FULL).about


@pytest.mark.parametrize(
    "name", [pytest.param(name, marks=needs_full(name)) for name in ("mnist", "heart", "coupon")]
)
def test_another_process_reads_the_same_bits(name):
    code = (
        "import sys, hashlib; from headway.world.datasets import load; "
        "d = load(sys.argv[1], data_dir=sys.argv[2], seed=3); "
        "print(hashlib.sha256(d.contexts.tobytes() + d.labels.tobytes()).hexdigest())"
    )
    printed = subprocess.run(
        [sys.executable, "-c", code, name, FULL],
        env={**os.environ, "OMP_NUM_THREADS": "1", "PYTHONHASHSEED": "99"},
        capture_output=True,
        text=True,
        check=True,
    )
    found = load(name, data_dir=FULL, seed=3)
    content = found.contexts.tobytes() + found.labels.tobytes()
    assert printed.stdout.strip() == hashlib.sha256(content).hexdigest()
