"""What switching found, on disk: a tidy Parquet file with the summary that --json prints."""

import json
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from headway.errors import HeadwayError
from headway.experiments.results import plain, run_head
from headway.files import write_whole
from headway.sim.compare import interval
from headway.sim.decomposition import (
    Decomposition,
    decompose,
    mistakes,
    parts,
    reach,
    visits,
    whole_bound,
)
from headway.sim.switching import Switching
from headway.state import Flags, Floats, Integers

SHARES = (0.5, 0.9)


class SwitchResults(NamedTuple):
    """What a results file holds; arrays have a row a replica and a column a round."""

    summary: dict[str, Any]  # all but its rows
    gap: Integers
    life: Integers
    lost: Flags  # did fork t begin with a departure lost?
    swapped: Flags  # or with another job served?
    misaligned: Flags
    bound: Floats  # (rounds,)


def switching_summary(found: Switching) -> dict[str, Any]:
    """The object that `headway regret --json` prints."""
    run = found.run
    by_round = decompose(found)
    return dict(
        plain(
            {
                "policy": run.policy, "rounds": run.rounds, "replicas": run.replicas,
                "seed": run.seed, "gap_min": int(found.gap.min()), "gap_max": int(found.gap.max()),
                "telescopes": True, "regret_final": interval(found.regret),
                "rows": rows_of(by_round), "bound": whole_bound(found),
                "parts": [each._asdict() for each in parts(found)],
                "mistakes": [each._asdict() for each in mistakes(found)],
                "states": [each._asdict() for each in visits(found)],
                "reach": {f"{share:.0%}": reach(found, share) for share in SHARES},
                "misaligned": interval(found.misaligned.mean(axis=1)),
                "learner": run.learner, "settings": run.settings,
                "scenario": run_head(run)["scenario"], "remarks": found.remarks,
            }
        )
    )  # fmt: skip


def rows_of(by_round: Decomposition) -> list[dict[str, Any]]:
    """One object a round."""
    columns = zip(
        by_round.gap, by_round.rate_gap, by_round.long_term, by_round.bound, by_round.misaligned,
        strict=True,
    )  # fmt: skip
    return [
        {"round": t + 1, "gap": float(gap), "rate_gap": float(rate_gap),
         "long_term": float(long_term), "bound": float(bound), "misaligned": float(misaligned)}
        for t, (gap, rate_gap, long_term, bound, misaligned) in enumerate(columns)
    ]  # fmt: skip


def write_switching(path: Path, found: Switching, summary: dict[str, Any]) -> None:
    """A row for each replica and round, the summary in the file's metadata."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    replicas, rounds = found.gap.shape
    names = ("gap", "life", "case", "end", "rate_gap", "forced", "misaligned")
    table = pa.table(
        {
            "replica": np.repeat(np.arange(replicas, dtype=np.int32), rounds),
            "round": np.tile(np.arange(1, rounds + 1), replicas),
            **{name: getattr(found, name).ravel() for name in names},
        }
    )
    head = {name: value for name, value in summary.items() if name != "rows"}
    bound = [row["bound"] for row in summary["rows"]]
    metadata = {b"headway-regret": json.dumps({"summary": head, "bound": bound}).encode()}
    table = table.replace_schema_metadata(metadata)
    write_whole(path, lambda target: pq.write_table(table, target, compression="zstd"))


def read_switching(path: Path) -> SwitchResults:
    """Read what `write_switching` wrote."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    from headway.sim.forks import LOST, OTHER

    try:
        table = pq.read_table(path)
    except (OSError, pa.ArrowInvalid) as problem:
        raise HeadwayError(f"cannot read results {str(path)!r}: {problem}") from None
    content = (table.schema.metadata or {}).get(b"headway-regret")
    if content is None:
        raise HeadwayError(f"{str(path)!r} is a Parquet file, but not one of `headway regret`")
    stored = json.loads(content)
    replicas = stored["summary"]["replicas"]

    def grid(name: str) -> Any:  # noqa: ANN401 - an array of the column's type
        return table[name].to_numpy().reshape(replicas, -1)

    return SwitchResults(
        summary=stored["summary"],
        gap=grid("gap").astype(np.int64),
        life=grid("life").astype(np.int64),
        lost=grid("case") == LOST,
        swapped=grid("case") == OTHER,
        misaligned=grid("misaligned"),
        bound=np.array(stored["bound"]),
    )
