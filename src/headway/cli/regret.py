"""The command that shows when regret is made, how long mistakes live and what the bound says."""

import math
from typing import TYPE_CHECKING, Any

from rich.console import Console
from rich.table import Table

from headway.cli.options import (
    AsJson,
    Learner,
    Out,
    Replicas,
    Rounds,
    Seed,
    Settings,
    Threads,
    compile_first,
    on_world,
    parse_settings,
    progress,
    size_of,
)
from headway.cli.research import PolicyName
from headway.cli.tables import head_line, print_json, remark, show
from headway.errors import HeadwayError

if TYPE_CHECKING:
    from headway.sim.compare import Interval
    from headway.sim.switching import Switching

MEANINGS = {
    "S1+": "one job more",
    "S1-": "one job less",
    "S2+": "each lacks a job",
    "S2-": "the other way round",
}


@on_world
def regret(
    policy: PolicyName,
    world: Any,  # stands for the options of a world
    rounds: Rounds = None,
    replicas: Replicas = None,
    seed: Seed = 0,
    learner: Learner = None,
    threads: Threads = None,
    out: Out = None,
    settings: Settings = None,
    as_json: AsJson = False,
) -> None:
    """Where in time a policy's regret is made: switch to optimal after every round in turn."""
    from headway.experiments.switching_results import switching_summary, write_switching
    from headway.files import check_folder
    from headway.settings import find_policy
    from headway.sim.switching import ensure_compiled, switching_queues

    rounds, replicas = size_of(world, rounds, replicas)
    found_policy = find_policy(policy)
    everywhere, single = parse_settings(settings or [], switching_queues)
    given = {**everywhere, **single.pop(found_policy.name, {})}
    if single:
        raise HeadwayError(f"--set names policy {next(iter(single))!r}, but {policy!r} is run")
    if out:
        check_folder(out)
    compile_first(world)
    ensure_compiled()
    with progress(3 * rounds * replicas, found_policy.name) as advance:
        found = switching_queues(
            found_policy, world, rounds=rounds, replicas=replicas, seed=seed, learner=learner,
            threads=threads, advance=advance, **given,
        )  # fmt: skip
    summary = switching_summary(found)
    if out:
        from headway.experiments.switching_figure import draw_switching
        from headway.experiments.switching_results import read_switching

        write_switching(out / "regret.parquet", found, summary)
        draw_switching(read_switching(out / "regret.parquet"), out / "regret.png")
    remark(found.remarks)
    if as_json:
        print_json(summary)
    else:
        print_regret(found, summary)
    if out:
        wrote = f"wrote {out / 'regret.png'} and {out / 'regret.parquet'}"
        Console(stderr=True).print(wrote, highlight=False, soft_wrap=True)


def print_regret(found: "Switching", summary: dict[str, Any]) -> None:
    """When regret is made, what mistakes become, what the five states are for."""
    from headway.sim.compare import interval
    from headway.sim.decomposition import whole_bound

    console = Console()
    run = found.run
    console.print(head_line(summary), style="dim", highlight=False)
    console.print(
        f"[bold]{run.policy}[/bold] ({run.learner}): regret {show(interval(found.regret))} jobs, "
        f"bound of Lemma 4.2: {show(whole_bound(found))}",
        highlight=False,
    )
    console.print()
    console.print(when_table(found), highlight=False)
    console.print()
    console.print(mistake_table(found), highlight=False)
    console.print()
    console.print(state_table(found), highlight=False)
    half, most = summary["reach"].values()
    if most:
        console.print(
            f"\nof the choices that matter in the end, half are of the last {half:,} rounds,\n"
            f"nine tenths of the last {most:,}", highlight=False,
        )  # fmt: skip
    for text in (
        f"the {run.rounds:,} gaps of each replica, -1, 0 or 1, sum up to its regret: exactly",
        "m: success rate lacked; delta²: chance that a departure lost is still missing",
        "means over replicas, ± 95 % (bound: jackknife); lives in rounds",
    ):
        console.print(text, style="dim", highlight=False)


def columns(table: Table, first: str, *others: str) -> Table:
    """A column of words, then columns of numbers."""
    table.add_column(first, no_wrap=True)
    for title in others:
        table.add_column(title, justify="right", no_wrap=True)
    return table


def plain_table() -> Table:
    """Lines and numbers."""
    return Table(box=None, pad_edge=False, header_style="bold", padding=(0, 2, 0, 0))


def when_table(found: "Switching") -> Table:
    """A line for each tenth of the run."""
    from headway.sim.decomposition import parts

    table = columns(
        plain_table(), "\nrounds", "regret\nmade", "\nm", "\ndelta", "bound:\nsum m delta",
        "queues\ndiffer",
    )  # fmt: skip
    for part in parts(found):
        long_term = "-" if math.isnan(part.long_term) else f"{part.long_term:.3f}"
        table.add_row(
            f"{part.first:,}-{part.last:,}", show_or_none(part.gap), f"{part.rate_gap:.3f}",
            long_term, show_or_none(part.bound), f"{part.misaligned.mean:.0%}",
        )  # fmt: skip
    return table


def show_or_none(value: "Interval") -> str:
    """Nothing at all is a plain 0."""
    return "0" if value.mean == 0.0 and not value.se > 0.0 else show(value)


def mistake_table(found: "Switching") -> Table:
    """A line for each kind of mistake."""
    from headway.sim.decomposition import mistakes

    table = columns(
        plain_table(), "\nmistakes", "in\na run", "of\nrounds", "they live\np50 / p99",
        "left in\nthe end",
    )  # fmt: skip
    for kind in mistakes(found):
        table.add_row(
            kind.kind, f"{kind.made.mean:,.0f}", f"{kind.share:.1%}",
            f"{kind.life_p50:,} / {kind.life_p99:,}", show(kind.gap),
        )  # fmt: skip
    return table


def state_table(found: "Switching") -> Table:
    """A line for each state in which two queues differ: where it comes from, where it goes."""
    from headway.sim.decomposition import visits

    table = columns(
        plain_table(), "\nstate", "forks\nbegin", "\nstays", "to\nS0", "to\nS1-", "in the\nend",
    )  # fmt: skip
    for each in visits(found):
        others = {name: f"{count:,}" for name, count in each.to.items()}
        table.add_row(
            f"{each.state}  {MEANINGS[each.state]}", f"{each.begun:,}", f"{each.stayed:,}",
            others["S0"], others.get("S1-", "-"), f"{each.left:,}",
        )  # fmt: skip
    return table
