"""What a person reads: tables, heads, notes."""

import json
import math
import sys
from typing import TYPE_CHECKING, Any

from rich.console import Console
from rich.table import Table
from rich.text import Text

if TYPE_CHECKING:
    from headway.sim.compare import Comparison, Interval
    from headway.sim.run import Run

LABELS = {
    "queue_final": "queue at the end",
    "queue_mean": "time-average queue",
    "wait_p50": "wait p50 (rounds)",
    "wait_p99": "wait p99 (rounds)",
    "regret_final": "regret at the end",
    "regret_mean": "time-average regret",
}
BURNS = "* burn-in covers the whole run"  # under a table with this mark


def show(value: "Interval") -> str:
    """Mean and half-width, with digits that fit the width."""
    mean, half = value.mean, value.high - value.mean
    if math.isnan(half):  # one replica: no interval
        return f"{mean:,.3g}" if abs(mean) < 100 else f"{mean:,.0f}"
    digits = 2 if half < 1 else 1 if half < 10 else 0
    return f"{mean:,.{digits}f} ± {half:,.{digits}f}"


def head_line(summary: dict[str, Any]) -> str:
    """What was run."""
    world = summary["scenario"]
    text = (
        f"{summary['rounds']:,} rounds x {summary['replicas']} replicas (seed {summary['seed']}), "
        f"{world['servers']} servers, dimension {world['dimension']}"
    )
    if world["world"] == "tape":
        return f"{text}, a tape of {world['arrivals']:,} arrivals"
    text += f", arrival rate {world['arrival_rate']:g}"
    if world["arrivals"] != "bernoulli":
        text += f" ({world['arrivals']})"
    if world["contexts"] != "cube":
        text += f", contexts {world['contexts']}"
    if world["slack_by"] == "reject":
        text += f", slack {world['slack']:g} ({world['acceptance']:.0%} of contexts have it"
        redraws = world["redraws"]
        text += f", {redraws} redraws of theta_star)" if redraws else ")"
    return text


def print_comparison(comparison: "Comparison", summary: dict[str, Any]) -> None:
    """The table, shortest time-average queue first, and what a reader should know."""
    from headway.state import LEARN_NOTHING

    console = Console()
    console.print(head_line(summary), style="dim", highlight=False, markup=False)
    table = Table(box=None, pad_edge=False, header_style="bold", padding=(0, 1, 0, 0))
    table.add_column("policy", no_wrap=True)
    table.add_column("learner", no_wrap=True)
    for title in ("mean\nqueue", "queue at\nthe end", "mean\nregret", "wait\np50 / p99",
                  "rounds\nper CPU-s"):  # fmt: skip
        table.add_column(title, justify="right", no_wrap=True)
    order = sorted(comparison.rows, key=lambda name: comparison.rows[name]["queue_mean"].mean)
    for name in order:
        row, run = comparison.rows[name], comparison.runs[name]
        learns = run.learner not in LEARN_NOTHING
        marks = " *" if burns_throughout(run) else ""
        marks += " †" if run.world.adaptive else ""
        table.add_row(
            Text(name + marks),
            run.learner if learns else "-",
            show(row["queue_mean"]),
            show(row["queue_final"]),
            show(row["regret_mean"]) if name != "optimal" else "-",
            f"{row['wait_p50'].mean:,.0f} / {row['wait_p99'].mean:,.0f}",
            f"{run.rounds_per_second / 1000:,.0f}k",
            style="dim" if name == "optimal" else None,
        )
    console.print(table)
    if any(burns_throughout(run) for run in comparison.runs.values()):
        console.print(BURNS, style="dim", highlight=False)
    if comparison.any_run.world.adaptive:
        console.print(
            "† the world answers to each policy: its regret is beyond optimal on its own jobs",
            style="dim",
            highlight=False,
        )
    console.print(
        "means over rounds, ± 95 % over replicas; regret: beyond optimal, same draws",
        style="dim",
        highlight=False,
    )
    remark(comparison.remarks)


def burns_throughout(run: "Run") -> bool:
    """Does the burn-in cover the whole run?"""
    return bool(run.settings.get("burn_in_rounds", 0) >= run.rounds)


def remark(remarks: tuple[str, ...]) -> None:
    """What a default rests on, on stderr."""
    console = Console(stderr=True)
    for text in remarks:
        console.print(
            f"note: {text}", style="yellow", highlight=False, soft_wrap=True, markup=False
        )


def print_json(value: dict[str, Any]) -> None:
    """One object on stdout."""
    sys.stdout.write(json.dumps(value, indent=2, allow_nan=False) + "\n")
