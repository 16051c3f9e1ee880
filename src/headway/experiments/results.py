"""Results on disk: one tidy Parquet file, written whole or not at all."""

import json
import math
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from headway.errors import HeadwayError
from headway.files import write_whole
from headway.sim.compare import Comparison, Interval
from headway.sim.run import Run
from headway.state import Floats, Integers


class Trajectories(NamedTuple):
    """Queue lengths of one policy, a row a replica, and the rounds of the columns."""

    round: Integers
    queue_length: Floats


class Results(NamedTuple):
    """What a results file holds: the summary that --json prints, and the trajectories."""

    summary: dict[str, Any]
    trajectories: dict[str, Trajectories]


def plain(value: Any) -> Any:  # noqa: ANN401 - any JSON value
    """The value as JSON has it: intervals as objects, NaN as null."""
    if isinstance(value, Interval):
        return {name: plain(part) for name, part in value._asdict().items()}
    if isinstance(value, dict):
        return {name: plain(part) for name, part in value.items()}
    if isinstance(value, list | tuple):
        return [plain(part) for part in value]
    if isinstance(value, np.generic):
        value = value.item()
    if isinstance(value, float) and not math.isfinite(value):
        return None
    return value


def run_head(run: Run) -> dict[str, Any]:
    """What all runs of one command share."""
    scenario = dict(run.scenario)
    scenario["acceptance"] = float(run.acceptance.mean())
    scenario["redraws"] = int(run.redraws.sum())
    return {
        "scenario": scenario, "seed": run.seed, "rounds": run.rounds, "replicas": run.replicas,
    }  # fmt: skip


def comparison_summary(comparison: Comparison) -> dict[str, Any]:
    """The object that `headway compare --json` prints."""
    policies = {
        name: {
            **comparison.rows[name],
            "rounds_per_second": run.rounds_per_second,
            "learner": run.learner,
            "settings": run.settings,
            "adaptive": run.world.adaptive,
            "event_failed": int(run.event_failed.sum()),
        }
        for name, run in comparison.runs.items()
    }
    head = run_head(comparison.any_run)
    return dict(plain({"policies": policies, **head, "remarks": comparison.remarks}))


def write_runs(path: Path, runs: dict[str, Run], summary: dict[str, Any]) -> None:
    """Rows (policy, replica, round, queue_length), the summary in the file's metadata."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    parts = []
    for name, run in runs.items():
        replicas, columns = run.queue_length.shape
        parts.append(
            pa.table(
                {
                    "policy": pa.array([name] * (replicas * columns)).dictionary_encode(),
                    "replica": np.repeat(np.arange(replicas, dtype=np.int32), columns),
                    "round": np.tile(run.round.astype(np.int64), replicas),
                    "queue_length": run.queue_length.ravel(),
                }
            )
        )
    table = pa.concat_tables(parts).unify_dictionaries()
    metadata = {b"headway": json.dumps(summary).encode()}
    table = table.replace_schema_metadata({**(table.schema.metadata or {}), **metadata})
    write_whole(path, lambda target: pq.write_table(table, target, compression="zstd"))


def read_results(path: Path) -> Results:
    """Read what `write_runs` wrote."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    try:
        table = pq.read_table(path)
    except (OSError, pa.ArrowInvalid) as problem:
        raise HeadwayError(f"cannot read results {str(path)!r}: {problem}") from None
    content = (table.schema.metadata or {}).get(b"headway")
    if content is None:
        raise HeadwayError(f"{str(path)!r} is a Parquet file, but not one of headway's results")
    policies = np.asarray(table["policy"].to_pylist())
    replica = table["replica"].to_numpy()
    rounds = table["round"].to_numpy()
    lengths = table["queue_length"].to_numpy()
    trajectories = {}
    for name in dict.fromkeys(policies.tolist()):
        mine = policies == name
        count = int(replica[mine].max()) + 1
        grid = lengths[mine].reshape(count, -1).astype(np.float64)
        trajectories[name] = Trajectories(rounds[mine].reshape(count, -1)[0], grid)
    return Results(json.loads(content), trajectories)
