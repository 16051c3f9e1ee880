"""The results of an experiment: assembled from its cells, kept as one tidy Parquet file.

Rows are (version, variant, value, policy, replica, round, queue_length); what there is one of for
each replica, and the experiment itself, are in the file's metadata.
"""

import json
from pathlib import Path
from typing import Any, NamedTuple

import msgspec
import numpy as np

import headway
from headway.errors import HeadwayError
from headway.experiments.grid import Cell, Place, Result, cells_of, joined, recall
from headway.experiments.runner import cell_path
from headway.experiments.spec import Experiment
from headway.files import write_whole
from headway.state import Floats

MEASURES = ("queue_mean", "queue_final", "wait_p50", "wait_p99", "acceptance", "redraws", "burn_in")
COLUMNS = ("version", "variant", "value", "policy")


class Series(NamedTuple):
    """One trajectory of all replicas, and what there is one of for each of them."""

    round: Floats
    queue_length: Floats
    optimal_length: Floats  # of `optimal` on the same jobs
    measures: dict[str, Floats]


class Panel(NamedTuple):
    """An experiment with its results."""

    experiment: Experiment
    rounds: int
    replicas: int
    series: dict[Place, Series]
    remarks: tuple[str, ...]
    version: str  # of headway

    def names(self, column: str) -> list[Any]:
        """The versions, variants, values or policies that there are, in order."""
        return list(dict.fromkeys(getattr(place, column) for place in self.series))

    def find(self, **wanted: Any) -> Series:  # noqa: ANN401 - fields of a place
        """The one series of this place."""
        return next(
            series
            for place, series in self.series.items()
            if all(getattr(place, name) == value for name, value in wanted.items())
        )


def assemble(
    experiment: Experiment, folder: Path, *, replicas: int | None = None, rounds: int | None = None
) -> Panel:
    """An experiment's results from the cells in a folder."""
    found: dict[Place, Result] = {}
    size: tuple[int, int] = (0, 0)
    for place, cells in cells_of(experiment, replicas=replicas, rounds=rounds):
        found[place] = joined([stored(folder, cell) for cell in cells])
        size = cells[0].rounds, sum(cell.replicas for cell in cells)
    series = {place: series_of(place, found) for place in found}
    remarks = dict.fromkeys(remark for result in found.values() for remark in result.remarks)
    return Panel(experiment, *size, series, tuple(remarks), headway.__version__)


def stored(folder: Path, cell: Cell) -> Result:
    """A result that must be there by now."""
    result = recall(cell_path(folder, cell))
    if result is None:
        raise HeadwayError(
            f"the result {cell.digest} of {cell.policy} is gone from {str(folder)!r}: run again"
        )
    return result


def series_of(place: Place, found: dict[Place, Result]) -> Series:
    """A result with the yardstick that its regret is measured against."""
    result = found[place]
    yardstick = result.optimal_length
    if yardstick.size == 0:
        yardstick = found[place._replace(policy="optimal")].queue_length
    measures = {name: getattr(result, name) for name in MEASURES}
    return Series(result.round, result.queue_length, yardstick, measures)


def write_panel(path: Path, panel: Panel) -> None:
    """The panel as one Parquet file."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    parts = []
    for place, series in panel.series.items():
        replicas, columns = series.queue_length.shape
        count = replicas * columns
        named = {
            name: pa.array([label(getattr(place, name))] * count).dictionary_encode()
            for name in COLUMNS
        }
        parts.append(
            pa.table(
                {
                    **named,
                    "replica": np.repeat(np.arange(replicas, dtype=np.int32), columns),
                    "round": np.tile(series.round.astype(np.int32), replicas),
                    "queue_length": series.queue_length.astype(np.int32).ravel(),
                    "optimal_length": series.optimal_length.astype(np.int32).ravel(),
                }
            )
        )
    table = pa.concat_tables(parts).unify_dictionaries()
    head = {
        "experiment": msgspec.to_builtins(panel.experiment),
        "rounds": panel.rounds,
        "replicas": panel.replicas,
        "remarks": panel.remarks,
        "headway": panel.version,
        "series": [
            [list(place), {name: values.tolist() for name, values in series.measures.items()}]
            for place, series in panel.series.items()
        ],
    }
    metadata = {b"headway panel": json.dumps(head).encode()}
    table = table.replace_schema_metadata(metadata)
    write_whole(path, lambda target: pq.write_table(table, target, compression="zstd"))


def label(value: Any) -> str:  # noqa: ANN401 - a value of the axis
    """A value in words: numbers as short as they are."""
    if value is None:
        return ""
    return f"{value:g}" if isinstance(value, float) else str(value)


def read_panel(path: Path) -> Panel:
    """Read what `write_panel` wrote."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    try:
        table = pq.read_table(path)
    except (OSError, pa.ArrowInvalid) as problem:
        raise HeadwayError(f"cannot read results {str(path)!r}: {problem}") from None
    content = (table.schema.metadata or {}).get(b"headway panel")
    if content is None:
        raise HeadwayError(f"{str(path)!r} is a Parquet file, but not one of headway's panels")
    head = json.loads(content)
    experiment = msgspec.convert(head["experiment"], Experiment)
    replicas = head["replicas"]
    lengths = table["queue_length"].to_numpy().astype(np.float64)
    optimal = table["optimal_length"].to_numpy().astype(np.float64)
    rounds = table["round"].to_numpy().astype(np.float64)
    size = len(lengths) // len(head["series"])
    series: dict[Place, Series] = {}
    for i, (place, measures) in enumerate(head["series"]):
        mine = slice(i * size, (i + 1) * size)
        series[Place(*place)] = Series(
            rounds[mine].reshape(replicas, -1)[0],
            lengths[mine].reshape(replicas, -1),
            optimal[mine].reshape(replicas, -1),
            {name: np.array(values) for name, values in measures.items()},
        )
    return Panel(
        experiment, head["rounds"], replicas, series, tuple(head["remarks"]), head["headway"]
    )
