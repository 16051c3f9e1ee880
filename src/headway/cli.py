"""The command line: parsing and printing only."""

import inspect
import json
import math
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.console import Console
from rich.progress import BarColumn, Progress, TaskProgressColumn, TextColumn, TimeRemainingColumn
from rich.table import Table

from headway.errors import HeadwayError, unknown

if TYPE_CHECKING:
    from headway.sim.compare import Comparison, Interval
    from headway.sim.run import Advance
    from headway.world.scenario import Scenario

app = typer.Typer(
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
    help="Learn which server suits which job while the queue stays short.",
)

Servers = Annotated[int, typer.Option(help="How many servers (K).")]
Dimension = Annotated[int, typer.Option(help="Length of a context vector (d).")]
ArrivalRate = Annotated[float, typer.Option(help="Probability that a job arrives in a round.")]
Slack = Annotated[
    float, typer.Option(help="Some server succeeds with arrival rate + slack or more.")
]
SlackBy = Annotated[
    str, typer.Option(help="reject: redraw contexts without slack; none: keep them.")
]
UnitNorm = Annotated[
    bool, typer.Option("--unit-norm", help="Contexts in the unit ball, success rates unchanged.")
]
Rounds = Annotated[int, typer.Option(help="Rounds of each run (T).")]
Replicas = Annotated[int, typer.Option(help="Independent problems; intervals are over them.")]
Seed = Annotated[int, typer.Option(help="Replica r of seed s is always the same problem.")]
Learner = Annotated[
    str | None, typer.Option(help="likelihood, paper or laplace; default: the policy's own.")
]
Threads = Annotated[
    int | None, typer.Option(help="Default: all cores. Results do not depend on it.")
]
Out = Annotated[Path | None, typer.Option(help="Folder for the results.")]
Settings = Annotated[
    list[str] | None,
    typer.Option("--set", metavar="KEY=VALUE", help="A setting; POLICY.KEY=VALUE for one policy."),
]
AsJson = Annotated[bool, typer.Option("--json", help="Print one JSON object and nothing else.")]


@app.command()
def policies(as_json: AsJson = False) -> None:
    """List the policies: what each is, its learners and settings, its source."""
    from headway.policies import POLICIES

    rows: list[dict[str, Any]] = [
        {
            "policy": policy.name,
            "about": policy.about,
            "learners": [name for name in policy.learners if name not in ("none", "truth")],
            "settings": list(policy.defaults),
            "source": policy.source,
        }
        for policy in POLICIES.values()
    ]
    if as_json:
        print_json({"policies": rows})
        return
    console = Console()
    for row in rows:
        console.print(f"[bold]{row['policy']}[/bold]  {row['about']}", highlight=False)
        learners = ", ".join(row["learners"]) or "none"
        console.print(f"    learners: {learners}", highlight=False)
        if row["settings"]:
            console.print(f"    settings: {', '.join(row['settings'])}", highlight=False)
        console.print(f"    source:   {row['source']}", style="dim", highlight=False)


@app.command()
def simulate(
    policy: Annotated[str, typer.Argument(help="A policy id; see `headway policies`.")],
    servers: Servers = 5,
    dimension: Dimension = 5,
    arrival_rate: ArrivalRate = 0.7,
    slack: Slack = 0.1,
    slack_by: SlackBy = "reject",
    unit_norm: UnitNorm = False,
    rounds: Rounds = 5000,
    replicas: Replicas = 20,
    seed: Seed = 0,
    learner: Learner = None,
    threads: Threads = None,
    out: Out = None,
    settings: Settings = None,
    as_json: AsJson = False,
) -> None:
    """Run one policy and print its queue length and waiting times."""
    from headway.experiments.results import check_folder, plain, run_head, write_runs
    from headway.sim.compare import COLUMNS, interval
    from headway.sim.run import simulate as run_policy

    world = make_world(servers, dimension, arrival_rate, slack, slack_by, unit_norm)
    everywhere, single = parse_settings(settings or [], run_policy)
    given = {**everywhere, **single.pop(policy, {})}
    if single:
        raise HeadwayError(f"--set names policy {next(iter(single))!r}, but {policy!r} is run")
    if out:
        check_folder(out)
    compile_first(world)
    with progress(rounds * replicas, policy) as advance:
        run = run_policy(
            policy, world, rounds=rounds, replicas=replicas, seed=seed, learner=learner,
            every=max(1, rounds // COLUMNS), threads=threads, advance=advance, **given,
        )  # fmt: skip
    measures = {
        "queue_final": interval(run.queue_final),
        "queue_mean": interval(run.queue_mean),
        "wait_p50": interval(run.wait(0.50)),
        "wait_p99": interval(run.wait(0.99)),
    }
    head = {"policy": run.policy, "learner": run.learner, "settings": run.settings}
    summary = plain({**head, **measures, "rounds_per_second": run.rounds_per_second,
                     **run_head(run), "remarks": run.remarks})  # fmt: skip
    if out:
        write_runs(out / "simulate.parquet", {run.policy: run}, summary)
    remark(run.remarks)
    if as_json:
        print_json(summary)
        return
    console = Console()
    console.print(head_line(summary), style="dim", highlight=False)
    table = Table(box=None, pad_edge=False, header_style="bold")
    table.add_column(f"{run.policy} ({run.learner})")
    table.add_column("mean ± 95 %", justify="right")
    for name, label in LABELS.items():
        if name in measures:
            table.add_row(label, show(measures[name]))
    table.add_row("rounds per CPU-second", f"{run.rounds_per_second:,.0f}")
    console.print(table)
    if out:
        Console(stderr=True).print(f"wrote {out / 'simulate.parquet'}", highlight=False)


@app.command()
def compare(
    names: Annotated[
        list[str] | None,
        typer.Argument(metavar="[POLICY ...]", help="Policy ids; default: all."),
    ] = None,
    servers: Servers = 5,
    dimension: Dimension = 5,
    arrival_rate: ArrivalRate = 0.7,
    slack: Slack = 0.1,
    slack_by: SlackBy = "reject",
    unit_norm: UnitNorm = False,
    rounds: Rounds = 5000,
    replicas: Replicas = 20,
    seed: Seed = 0,
    learner: Learner = None,
    threads: Threads = None,
    out: Out = None,
    settings: Settings = None,
    as_json: AsJson = False,
) -> None:
    """Compare policies on the same draws; the optimal policy always runs."""
    from headway.experiments.results import check_folder, comparison_summary, write_runs
    from headway.sim.compare import compare as compare_policies
    from headway.sim.compare import pick

    world = make_world(servers, dimension, arrival_rate, slack, slack_by, unit_norm)
    everywhere, single = parse_settings(settings or [], compare_policies)
    count = len(pick(names or None))
    if out:
        check_folder(out)
    compile_first(world)
    with progress(count * rounds * replicas, f"{count} policies") as advance:
        comparison = compare_policies(
            names or None, world, rounds=rounds, replicas=replicas, seed=seed, learner=learner,
            threads=threads, advance=advance, settings=single, **everywhere,
        )  # fmt: skip
    summary = comparison_summary(comparison)
    if out:
        from headway.experiments.figures import draw_comparison
        from headway.experiments.results import read_results

        write_runs(out / "compare.parquet", comparison.runs, summary)
        draw_comparison(read_results(out / "compare.parquet"), out / "compare.png")
    if as_json:
        remark(comparison.remarks)
        print_json(summary)
    else:
        print_comparison(comparison, summary)
    if out:
        wrote = f"wrote {out / 'compare.png'} and {out / 'compare.parquet'}"
        Console(stderr=True).print(wrote, highlight=False, soft_wrap=True)


LABELS = {
    "queue_final": "queue at the end",
    "queue_mean": "time-average queue",
    "wait_p50": "wait p50 (rounds)",
    "wait_p99": "wait p99 (rounds)",
    "regret_final": "regret at the end",
    "regret_mean": "time-average regret",
}


def make_world(
    servers: int,
    dimension: int,
    arrival_rate: float,
    slack: float,
    slack_by: str,
    unit_norm: bool,
) -> "Scenario":
    """The scenario that the options describe."""
    from headway.world.scenario import Scenario

    return Scenario(
        servers=servers,
        dimension=dimension,
        arrival_rate=arrival_rate,
        slack=slack,
        slack_by=slack_by,
        unit_norm=unit_norm,
    )


def parse_settings(
    given: list[str], function: Callable[..., Any]
) -> tuple[dict[str, Any], dict[str, dict[str, Any]]]:
    """--set values: those for every policy, and those for one by its id. What the function that
    takes them has as an argument of its own is no setting.
    """
    from headway.settings import all_setting_names

    own = inspect.signature(function).parameters
    everywhere: dict[str, Any] = {}
    single: dict[str, dict[str, Any]] = {}
    for text in given:
        name, equals, value = text.partition("=")
        if not equals or not name or not value:
            raise HeadwayError(f"--set {text!r}: write KEY=VALUE or POLICY.KEY=VALUE")
        policy, dot, key = name.rpartition(".")
        target = single.setdefault(policy, {}) if dot else everywhere
        if key in target:
            raise HeadwayError(f"--set {name!r} is given twice")
        if key in own:
            raise unknown("setting", key, all_setting_names())
        target[key] = parse_value(value)
    return everywhere, single


def parse_value(text: str) -> int | float | str:
    """A whole number, a number or a word."""
    for kind in (int, float):
        try:
            return kind(text)
        except ValueError:
            continue
    return text


def compile_first(world: "Scenario") -> None:
    """Compile the kernels if this version never was, and say so: no silent pause."""
    from headway.compiled import is_warm
    from headway.sim.run import COMPILING, compiled_kind, ensure_compiled

    size = world.servers, world.dimension
    console = Console(stderr=True)
    if console.is_terminal and not is_warm(compiled_kind(*size)):
        with console.status(COMPILING):
            ensure_compiled(*size, announce=False)
    else:
        ensure_compiled(*size)


@contextmanager
def progress(total: int, what: str) -> Iterator["Advance"]:
    """A bar on stderr that counts rounds; nothing where stderr is not a terminal."""
    console = Console(stderr=True)
    columns = (TextColumn("{task.description}"), BarColumn(), TaskProgressColumn(),
               TimeRemainingColumn())  # fmt: skip
    with Progress(
        *columns, console=console, transient=True, disable=not console.is_terminal
    ) as bar:
        task = bar.add_task(what, total=total)
        yield lambda rounds: bar.advance(task, rounds)


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
        f"{world['servers']} servers, dimension {world['dimension']}, "
        f"arrival rate {world['arrival_rate']:g}"
    )
    if world["slack_by"] == "reject":
        text += f", slack {world['slack']:g} ({world['acceptance']:.0%} of contexts have it"
        redraws = world["redraws"]
        text += f", {redraws} redraws of theta_star)" if redraws else ")"
    return text


def print_comparison(comparison: "Comparison", summary: dict[str, Any]) -> None:
    """The table, shortest time-average queue first, and what a reader should know."""
    console = Console()
    console.print(head_line(summary), style="dim", highlight=False)
    table = Table(box=None, pad_edge=False, header_style="bold", padding=(0, 1, 0, 0))
    table.add_column("policy", no_wrap=True)
    table.add_column("learner", no_wrap=True)
    for title in ("mean\nqueue", "queue at\nthe end", "mean\nregret", "wait\np50 / p99",
                  "rounds\nper CPU-s"):  # fmt: skip
        table.add_column(title, justify="right", no_wrap=True)
    order = sorted(comparison.rows, key=lambda name: comparison.rows[name]["queue_mean"].mean)
    for name in order:
        row, run = comparison.rows[name], comparison.runs[name]
        learns = run.learner not in ("none", "truth")
        all_burn_in = run.settings.get("burn_in_rounds", 0) >= run.rounds
        table.add_row(
            f"{name} *" if all_burn_in else name,
            run.learner if learns else "-",
            show(row["queue_mean"]),
            show(row["queue_final"]),
            show(row["regret_mean"]) if name != "optimal" else "-",
            f"{row['wait_p50'].mean:,.0f} / {row['wait_p99'].mean:,.0f}",
            f"{run.rounds_per_second / 1000:,.0f}k",
            style="dim" if name == "optimal" else None,
        )
    console.print(table)
    if any(run.settings.get("burn_in_rounds", 0) >= run.rounds for run in comparison.runs.values()):
        console.print("* burn-in covers the whole run", style="dim", highlight=False)
    console.print(
        "means over rounds, ± 95 % over replicas; regret: beyond optimal, same draws",
        style="dim",
        highlight=False,
    )
    remark(comparison.remarks)


def remark(remarks: tuple[str, ...]) -> None:
    """What a default rests on, on stderr."""
    console = Console(stderr=True)
    for text in remarks:
        console.print(f"note: {text}", style="yellow", highlight=False, soft_wrap=True)


def print_json(value: dict[str, Any]) -> None:
    """One object on stdout."""
    sys.stdout.write(json.dumps(value, indent=2, allow_nan=False) + "\n")


# What typer raises for a wrong option; it exports only this subclass.
USAGE_ERROR: Any = typer.BadParameter.__mro__[1]


def main() -> None:
    """Run the command; errors are one sentence and exit code 2, Ctrl-C is 130."""
    try:
        result = typer.main.get_command(app).main(standalone_mode=False)
        sys.exit(result if isinstance(result, int) else 0)
    except HeadwayError as problem:
        fail(str(problem), 2)
    except USAGE_ERROR as problem:
        problem.show()
        sys.exit(problem.exit_code)
    except (KeyboardInterrupt, typer.Abort):
        fail("stopped", 130)
    except BrokenPipeError:
        sys.exit(141)
    except MemoryError as problem:
        fail(f"not enough memory for problems of this size ({problem})", 2)
    except OSError as problem:
        where = f" {problem.filename!r}" if problem.filename else ""
        fail(f"the system refused{where}: {problem.strerror or problem}", 2)


def fail(text: str, code: int) -> None:
    """One sentence on stderr, and out."""
    Console(stderr=True).print(f"headway: {text}", highlight=False, soft_wrap=True, markup=False)
    sys.exit(code)
