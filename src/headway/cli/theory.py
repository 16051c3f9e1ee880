"""The command that prints the paper's bounds beside what runs show."""

import math
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.console import Console
from rich.table import Table

from headway.cli.options import (
    AsJson,
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
from headway.cli.tables import print_json, remark
from headway.errors import HeadwayError

if TYPE_CHECKING:
    from headway.theory.report import Row, TheoryReport

TITLES = {
    1: "Theorem 1: cqb-eps",
    2: "Theorem 2: cqb-opt",
}
ONE_JOB = {
    "theorem_1": "Theorem 1, as proved",
    "theorem_1_order": "Theorem 1, as stated",
    "theorem_2": "Theorem 2, as proved",
    "theorem_2_order": "Theorem 2, as stated",
}


@on_world
def theory(
    world: Any,  # stands for the options of a world
    rounds: Rounds = None,
    replicas: Replicas = None,
    seed: Seed = 0,
    learner: Annotated[
        str, typer.Option(help="paper or likelihood: whose confidence set the runs use.")
    ] = "paper",
    threads: Threads = None,
    settings: Settings = None,
    as_json: AsJson = False,
) -> None:
    """The paper's bounds on a world, what runs show, and from which horizon a bound says something.

    --set also takes the constants that the paper does not give: c_1, c_2, c_3, constant.
    """
    from headway.experiments.results import plain
    from headway.theory.report import in_unit_ball
    from headway.theory.report import theory as find_out

    in_unit_ball(world)
    rounds, replicas = size_of(world, rounds, replicas)
    everywhere, single = parse_settings(settings or [], find_out)
    if single:
        raise HeadwayError(f"--set names policy {next(iter(single))!r}: here both run alike")
    compile_first(world)
    with progress(2 * rounds * replicas, "cqb-eps, cqb-opt") as advance:
        report = find_out(
            world, rounds=rounds, replicas=replicas, seed=seed, learner=learner, threads=threads,
            advance=advance, **everywhere,
        )  # fmt: skip
    remark(report.remarks)
    if as_json:
        print_json(plain(report.summary()))
    else:
        print_report(report)


def print_report(report: "TheoryReport") -> None:
    """What is assumed, the table, and from where a theorem promises less than one job."""
    console = Console()
    for line in head_lines(report):
        console.print(line, style="dim", highlight=False)
    console.print()
    console.print(table_of(report), highlight=False)
    console.print()
    for name, log10 in report.one_job.items():
        says = "never" if log10 is None else f"from T = {number(log10)} on"
        console.print(f"{ONE_JOB[name]}: less than one job of regret {says}", highlight=False)
    console.print(
        "says something from: the horizon from which a value is below T, for a rate or a "
        "probability below 1; all horizons are those of these constants",
        style="dim", highlight=False,
    )  # fmt: skip


def head_lines(report: "TheoryReport") -> list[str]:
    """What was run and what is assumed."""
    given, world = report.premises, report.scenario
    explore = "T^-1/2" if given.explore_prob is None else f"{given.explore_prob:g}"
    failure = "T^-2" if given.failure_prob is None else f"{given.failure_prob:g}"
    contexts = "" if world["contexts"] == "cube" else f", contexts {world['contexts']}"
    return [
        f"T = {report.rounds:,} rounds x {report.replicas} replicas (seed {report.seed}), learner "
        f"{report.learner}, {given.servers} servers, dimension {given.dimension}, arrival rate "
        f"{given.arrival_rate:g}, slack {given.slack:g}{contexts}",
        f"assumed: |x| <= 1, norm_bound {given.norm_bound:.4g}, kappa {given.kappa:.4g}, ridge "
        f"{given.ridge:g}, least_moment {given.least_moment:.3g}, explore_prob {explore}, "
        f"failure_prob {failure}; not given by the paper: c_1 {given.c_1:g}, c_2 {given.c_2:g}, "
        f"c_3 {given.c_3:g}, constant {given.constant:g}",
    ]


def table_of(report: "TheoryReport") -> Table:
    """One line a quantity, under its theorem."""
    table = Table(box=None, pad_edge=False, header_style="bold", padding=(0, 2, 0, 0))
    table.add_column("\nquantity", no_wrap=True)
    table.add_column("in the\npaper", no_wrap=True, style="dim")
    table.add_column(f"value at\nT = {number(math.log10(report.rounds))}", justify="right",
                     no_wrap=True)  # fmt: skip
    table.add_column("\nmeasured", justify="right", no_wrap=True)
    table.add_column("says some-\nthing from", justify="right", no_wrap=True)
    for theorem, title in TITLES.items():
        rows = [each for each in report.rows if each.theorem == theorem]
        if rows:
            table.add_row(f"[bold]{title}[/bold]")
        for row in rows:
            since = "never" if row.log10_from is None else number(row.log10_from)
            table.add_row(
                f"  {row.quantity}", row.place, value(row), row.measured or "-",
                since if row.trivial else row.since,
            )  # fmt: skip
    return table


def value(row: "Row") -> str:
    """In few characters."""
    if math.isnan(row.value):
        return "-"
    if row.log10 is None:
        return f"{row.value:+.3f}" if row.value < 0.0 else f"{row.value:.3g}"
    return number(row.log10)


def number(log10: float) -> str:
    """A number from its logarithm: 0.0123, 443, 12,345, 1.2e9 or 10^1234."""
    if math.isinf(log10):
        return "infinite" if log10 > 0 else "0"
    if log10 >= 300.0:
        return f"10^{log10:,.0f}"
    if log10 >= 6.0:
        digits, power = f"{10.0**log10:.1e}".split("e+")
        return f"{digits}e{int(power)}"
    return f"{10.0**log10:,.0f}" if log10 >= 3.0 else f"{10.0**log10:.3g}"
