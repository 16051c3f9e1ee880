"""The paper's three real data sets as contexts and labels, in one documented reading each.

A job is a row and has one label. There is one server for each label, and a job succeeds at the
server of its own label and nowhere else. The paper does not say so: see docs/datasets.md for what
it leaves open.
"""

import csv
import gzip
import math
import os
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from headway.errors import HeadwayError, unknown
from headway.state import Floats
from headway.world.data_files import DATA_FILES, FileRead, needed, read_file

SAMPLED_ROWS = 4000  # heart and coupon
BLOCK = 4  # MNIST: pixels along a side of one block
SMOTE_NEIGHBOURS = 5

HEART_COLUMNS = (
    "age", "sex", "cp", "trestbps", "chol", "fbs", "restecg", "thalach", "exang", "oldpeak",
    "slope", "ca", "thal",
)  # fmt: skip
HEART_NUMERIC = {"age", "trestbps", "chol", "thalach", "oldpeak", "ca"}
COUPON_NUMERIC = {"temperature"}
COUPON_MAY_MISS = {"car"}

Labels = NDArray[np.int64]


@dataclass(frozen=True, kw_only=True, eq=False)
class Dataset:
    """Rows to draw jobs from: a job with `contexts[i]` succeeds at server `labels[i]` only.

    `arrival_rate` is the paper's for this data set; `source` says which files were read; `about`
    says how the contexts were made.
    """

    name: str
    contexts: Floats
    labels: Labels
    servers: int
    arrival_rate: float
    source: tuple[FileRead, ...]
    about: str


class Rows(NamedTuple):
    """What a reading makes of the files."""

    contexts: Floats
    labels: Labels
    about: str


class Reading(NamedTuple):
    """How a data set is read, and the paper's numbers for it."""

    read: Callable[[list[bytes], int], Rows]
    servers: int
    arrival_rate: float


def load(name: str, *, data_dir: str | os.PathLike[str] | None = None, seed: int = 0) -> Dataset:
    """Load "mnist", "heart" or "coupon".

    Files come from `data_dir`, else from the folder in HEADWAY_DATA_DIR; those are only read, and
    nothing is downloaded. Without either, they come from the user's cache or a public address.
    Every file is checked by its digest. `seed` decides all that is sampled: which rows of heart and
    coupon are kept, and the rows that SMOTE makes for heart. With the same versions of numpy,
    scikit-learn and imbalanced-learn the result is the same, bit for bit.
    """
    if name not in list(READINGS):
        raise unknown("data set", name, READINGS)
    whole = isinstance(seed, int | np.integer) and not isinstance(seed, bool)
    if not whole or int(seed) < 0:
        raise HeadwayError(f"seed {seed!r} must be a whole number of at least 0")
    reading = READINGS[name]
    contents, source = zip(*(read_file(file, data_dir) for file in DATA_FILES[name]), strict=True)
    rows = reading.read(list(contents), int(seed))
    return Dataset(
        name=name,
        contexts=rows.contexts,
        labels=rows.labels,
        servers=reading.servers,
        arrival_rate=reading.arrival_rate,
        source=source,
        about=rows.about,
    )


def idx_array(content: bytes) -> NDArray[np.uint8]:
    """The bytes of a gzipped idx file in its shape: four bytes of kind, then the axes."""
    raw = gzip.decompress(content)
    axes = raw[3]
    shape = np.frombuffer(raw, ">i4", count=axes, offset=4)
    return np.frombuffer(raw, np.uint8, offset=4 + 4 * axes).reshape(shape)


def read_mnist(contents: list[bytes], seed: int) -> Rows:  # noqa: ARG001 - nothing is sampled
    """Means over blocks of 4x4 pixels; sums of bytes are exact, so one division rounds, once."""
    images, digits = (idx_array(content) for content in contents)
    count, side, _ = images.shape
    blocks = images.reshape(count, side // BLOCK, BLOCK, side // BLOCK, BLOCK)
    sums = blocks.sum(axis=(2, 4), dtype=np.uint16).reshape(count, -1)
    contexts = sums.astype(np.float64) / (255.0 * BLOCK**2)
    about = (
        f"all {count} training images, pixels / 255, means over {BLOCK}x{BLOCK} blocks: "
        f"{contexts.shape[1]} features in [0, 1]"
    )
    return Rows(contexts, digits.astype(np.int64), about)


def standardised(column: Sequence[str]) -> Floats:
    """Mean 0 and variance 1 (divided by n). The sums are exact: no order of rows changes a bit."""
    values = np.array([float(value) for value in column])
    if values.min() == values.max():
        return np.zeros_like(values)
    centred = values - math.fsum(values) / len(values)
    return np.asarray(centred / math.sqrt(math.fsum(centred**2) / len(values)))


def features(table: dict[str, Sequence[str]], numeric: set[str]) -> Floats:
    """Numeric columns standardised, of any other a 0/1 column for each level, sorted, in order."""
    parts = []
    for name, column in table.items():
        if name in numeric:
            parts.append(standardised(column)[:, None])
        else:
            levels, codes = np.unique(np.array(column), return_inverse=True)
            parts.append(np.eye(len(levels))[codes])
    return np.ascontiguousarray(np.hstack(parts))


def read_heart(contents: list[bytes], seed: int) -> Rows:
    """Complete rows, features, SMOTE in feature space, then a sample with replacement."""
    purpose = "heart: balancing its classes"
    smote = needed("imblearn.over_sampling", "imbalanced-learn", purpose).SMOTE
    neighbors = needed("sklearn.neighbors", "scikit-learn", purpose)
    lines = list(csv.reader(contents[0].decode().splitlines()))
    rows = [line for line in lines if "?" not in line]
    *columns, classes = zip(*rows, strict=True)
    contexts = features(dict(zip(HEART_COLUMNS, columns, strict=True)), HEART_NUMERIC)
    labels = np.array(classes, np.int64)
    rng = np.random.default_rng(seed)
    balance = smote(
        random_state=int(rng.integers(2**32)),
        # The point itself is the first neighbour. A k-d tree compares plain sums; by default a
        # matrix product decides between near ties, and its bits differ from machine to machine.
        k_neighbors=neighbors.NearestNeighbors(
            n_neighbors=SMOTE_NEIGHBOURS + 1, algorithm="kd_tree"
        ),
    )
    contexts, labels = balance.fit_resample(contexts, labels)
    balanced = len(labels)
    kept = rng.choice(balanced, SAMPLED_ROWS, replace=True)
    about = (
        f"the {len(rows)} complete rows of {len(lines)}, categories one-hot, "
        f"{len(HEART_NUMERIC)} numeric columns (ca among them) standardised: "
        f"{contexts.shape[1]} features; SMOTE with {SMOTE_NEIGHBOURS} neighbours to {balanced} "
        f"rows, {len(kept)} sampled with replacement"
    )
    return Rows(np.ascontiguousarray(contexts[kept]), labels[kept].astype(np.int64), about)


def read_coupon(contents: list[bytes], seed: int) -> Rows:
    """Rows complete but for `car`, features, then a sample without replacement."""
    header, *lines = csv.reader(contents[0].decode().splitlines())
    must = [place for place, name in enumerate(header) if name not in COUPON_MAY_MISS]
    rows = [line for line in lines if all(line[place] for place in must)]
    table: dict[str, Sequence[str]] = dict(zip(header, zip(*rows, strict=True), strict=True))
    labels = np.array(table.pop("Y"), np.int64)
    contexts = features(table, COUPON_NUMERIC)
    kept = np.random.default_rng(seed).choice(
        len(rows), min(SAMPLED_ROWS, len(rows)), replace=False
    )
    about = (
        f"the {len(rows)} rows of {len(lines)} that miss nothing but car (missing is a level of "
        f"its own), temperature standardised, every other column one-hot: {contexts.shape[1]} "
        f"features; {len(kept)} rows sampled without replacement"
    )
    return Rows(np.ascontiguousarray(contexts[kept]), labels[kept], about)


READINGS = {
    "mnist": Reading(read_mnist, 10, 0.15),
    "heart": Reading(read_heart, 5, 0.2),
    "coupon": Reading(read_coupon, 2, 0.5),
}
