"""A person's own trace as a file: CSV or Parquet, a row a round or a row a job.

Columns: `x1..xd`, a job's context; and either `arrival` (0 or 1; then each row is a round, and the
context of a round without an arrival is ignored) or `round` (then each row is a job, which arrives
at the end of that round; at most one a round, in order). `service`, a uniform for each round, is
optional in the first layout and drawn where it is absent.
"""

import csv
import json
import math
import re
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import numpy as np

from headway.errors import HeadwayError, unknown
from headway.files import write_whole
from headway.rng import SERVICE, make_key, uniform
from headway.state import Floats

CONTEXT_COLUMN = re.compile(r"x([1-9]\d*)")
FORMATS = ("csv", "parquet")
THETA = b"headway theta_star"  # in a Parquet file's metadata
BESIDE = ".theta.csv"  # instead of .csv: theta_star beside a CSV file

Columns = dict[str, Floats]


def read_trace(
    path: Path,
    form: str,
    *,
    theta_star: Any,  # noqa: ANN401 - an array, a path or None
    rounds: int | None,
    seed: int,
) -> dict[str, Any]:
    """The arrays of a tape from a file."""
    check_form(path, form)
    if not path.is_file():
        raise HeadwayError(f"no trace file {str(path)!r}: give the path of a .csv or .parquet file")
    stored: Any = None
    if form == "csv":
        columns = read_csv(path)
        beside = path.with_suffix(BESIDE)
        stored = beside if beside.is_file() else None
    else:
        columns, stored = read_parquet(path)
    theta_star = stored if theta_star is None else theta_star
    if isinstance(theta_star, str | Path):
        theta_star = read_matrix(Path(theta_star))
    if theta_star is None:
        raise HeadwayError(
            f"trace {str(path)!r} holds no theta_star: give one, (servers, dimension), as an array "
            "or as a CSV file with a row a server"
        )
    return {"theta_star": theta_star, **arrange(path, columns, rounds, seed)}


def check_form(path: Path, form: str) -> None:
    """Refuse a kind of file that nobody reads."""
    if form not in FORMATS:
        raise HeadwayError(f"trace {str(path)!r}: the file's name must end in .csv or .parquet")


def read_csv(path: Path) -> Columns:
    """Columns of numbers by name; an empty cell is NaN."""
    try:
        with path.open(newline="", encoding="utf-8-sig") as file:
            reader = csv.reader(file)
            names = [name.strip() for name in next(reader, [])]
            rows = list(reader)
    except (OSError, UnicodeDecodeError, csv.Error) as problem:
        raise HeadwayError(f"cannot read trace {str(path)!r}: {problem}") from None
    if not rows:
        raise HeadwayError(f"trace {str(path)!r} has no rows under its head")
    values = np.empty((len(rows), len(names)))
    for i, row in enumerate(rows):
        if len(row) != len(names):
            raise HeadwayError(
                f"trace {str(path)!r}, line {i + 2}: {len(row)} cells, the head has {len(names)}"
            )
        for j, cell in enumerate(row):
            try:
                values[i, j] = float(cell) if cell.strip() else math.nan
            except ValueError:
                raise HeadwayError(
                    f"trace {str(path)!r}, line {i + 2}, column {names[j]!r}: "
                    f"{cell!r} is not a number"
                ) from None
    return unique(path, names, list(values.T))


def read_parquet(path: Path) -> tuple[Columns, Any]:
    """Columns of numbers by name, null = NaN, and theta_star where the file's metadata has it."""
    try:
        import pyarrow as pa
        import pyarrow.parquet as pq
    except ImportError:
        raise HeadwayError("Parquet files need pyarrow: pip install 'headway[results]'") from None
    try:
        table = pq.read_table(path)
    except (OSError, pa.ArrowInvalid) as problem:
        raise HeadwayError(f"cannot read trace {str(path)!r}: {problem}") from None
    values = []
    for name in table.column_names:
        try:
            values.append(np.array(table[name].cast(pa.float64()).to_numpy(), np.float64))
        except pa.ArrowInvalid:
            kind = table.schema.field(name).type
            raise HeadwayError(
                f"trace {str(path)!r}, column {name!r} holds {kind}, not numbers"
            ) from None
    stored = (table.schema.metadata or {}).get(THETA)
    return unique(path, table.column_names, values), json.loads(stored) if stored else None


def unique(path: Path, names: list[str], values: list[Floats]) -> Columns:
    """Columns by name; none twice, none that nobody reads."""
    for name in names:
        if names.count(name) > 1:
            raise HeadwayError(f"trace {str(path)!r} has {names.count(name)} columns {name!r}")
        if name not in ("arrival", "round", "service") and not CONTEXT_COLUMN.fullmatch(name):
            known = ("arrival", "round", "service", "x1")
            raise unknown(f"column in trace {str(path)!r}", name, known)
    return dict(zip(names, values, strict=True))


def read_matrix(path: Path) -> Floats:
    """A CSV file of numbers without a head, a row a server."""
    try:
        with path.open(newline="", encoding="utf-8-sig") as file:
            return np.array([[float(cell) for cell in row] for row in csv.reader(file) if row])
    except (OSError, ValueError) as problem:
        raise HeadwayError(f"cannot read theta_star from {str(path)!r}: {problem}") from None


def arrange(path: Path, columns: Columns, rounds: int | None, seed: int) -> Columns:
    """Contexts, arrivals and service from the columns of either layout."""
    numbers = sorted(int(name[1:]) for name in columns if CONTEXT_COLUMN.fullmatch(name))
    if not numbers or numbers != list(range(1, len(numbers) + 1)):
        found = ", ".join(f"x{i}" for i in numbers) or "none"
        raise HeadwayError(f"trace {str(path)!r} needs context columns x1, x2, ...; it has {found}")
    contexts = np.column_stack([columns[f"x{i}"] for i in numbers])
    if "arrival" in columns:
        arrivals = columns["arrival"][:rounds]
        if "round" in columns and not np.array_equal(
            columns["round"], np.arange(1, len(columns["round"]) + 1)
        ):
            raise HeadwayError(
                f"trace {str(path)!r}: with a column 'arrival' each row is a round, so 'round' "
                "must count 1, 2, 3, ..."
            )
        contexts = contexts[:rounds][arrivals == 1.0]
    elif "round" in columns:
        when = columns["round"]
        wrong = np.flatnonzero(
            ~((when == np.floor(when)) & (np.diff(when, prepend=0.0) >= 1.0) & (when < 1e15))
        )
        if wrong.size:
            raise HeadwayError(
                f"trace {str(path)!r}, job {wrong[0] + 1}: round {when[wrong[0]]:g} must be a "
                "whole number above the round of the job before it (at most one job a round)"
            )
        arrivals = np.zeros(int(when[-1]) if rounds is None else rounds)
        kept = when <= arrivals.shape[0]
        arrivals[when[kept].astype(np.int64) - 1] = 1.0
        contexts = contexts[kept]
    else:
        raise HeadwayError(
            f"trace {str(path)!r} needs a column 'arrival' (a row a round) or 'round' (a row a job)"
        )
    service = columns.get("service") if "arrival" in columns else None
    if service is None:
        key = make_key(seed)
        count = arrivals.shape[0]
        service = np.array([uniform(key, SERVICE, t, 0) for t in range(1, count + 1)])
    return {"contexts": contexts, "arrivals": arrivals, "service": service[:rounds]}


def write_trace(path: Path, theta_star: Floats, columns: Columns) -> None:
    """Columns as CSV, theta_star beside them in FILE.theta.csv, or all in one Parquet file."""
    form = path.suffix.removeprefix(".")
    check_form(path, form)
    if form == "parquet":
        import pyarrow as pa
        import pyarrow.parquet as pq

        metadata = {THETA: json.dumps(theta_star.tolist()).encode()}
        table = pa.table(columns).replace_schema_metadata(metadata)
        write_whole(path, lambda target: pq.write_table(table, target, compression="zstd"))
        return
    cells = [["" if math.isnan(each) else repr(float(each)) for each in column]
             for column in columns.values()]  # fmt: skip
    write_whole(path, lambda target: write_rows(target, [[*columns], *zip(*cells, strict=True)]))
    write_whole(path.with_suffix(BESIDE), lambda target: write_rows(target, theta_star.tolist()))


def write_rows(path: Path, rows: Iterable[Iterable[object]]) -> None:
    """Rows as CSV."""
    with path.open("w", newline="", encoding="utf-8") as file:
        csv.writer(file).writerows(rows)
