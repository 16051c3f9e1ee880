"""Commands of a researcher: list, simulate, compare and check policies."""

from typing import Annotated, Any

import typer
from rich.console import Console
from rich.table import Table
from rich.text import Text

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
from headway.cli.tables import (
    BURNS,
    LABELS,
    burns_throughout,
    head_line,
    print_comparison,
    print_json,
    remark,
    show,
)
from headway.errors import HeadwayError

PolicyName = Annotated[
    str, typer.Argument(help="A policy id (see `headway policies`) or FILE.py:NAME.")
]


def policies(as_json: AsJson = False) -> None:
    """List the policies: what each is, its learners and settings, its source."""
    from headway.policies import POLICIES
    from headway.settings import horizon_settings
    from headway.state import LEARN_NOTHING

    rows: list[dict[str, Any]] = [
        {
            "policy": policy.name,
            "about": policy.about,
            "learners": [name for name in policy.learners if name not in LEARN_NOTHING],
            "settings": list(policy.defaults),
            "needs": horizon_settings(policy),
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
        if row["needs"]:
            console.print(f"    needs:    rounds, or {', '.join(row['needs'])}", highlight=False)
        console.print(f"    source:   {row['source']}", style="dim", highlight=False)


@on_world
def simulate(
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
    """Run one policy and print its queue length and waiting times."""
    from headway.experiments.results import plain, run_head, write_runs
    from headway.files import check_folder
    from headway.settings import find_policy, resolve
    from headway.sim.compare import COLUMNS, interval
    from headway.sim.run import check_size
    from headway.sim.run import simulate as run_policy

    rounds, replicas = size_of(world, rounds, replicas)
    found = find_policy(policy)
    everywhere, single = parse_settings(settings or [], run_policy)
    given = {**everywhere, **single.pop(found.name, {})}
    if single:
        raise HeadwayError(f"--set names policy {next(iter(single))!r}, but {policy!r} is run")
    check_size(world, rounds=rounds, replicas=replicas, seed=seed, every=1, threads=threads)
    resolve(found, world.situation(rounds), learner=learner, given=given)
    if out:
        check_folder(out)
    compile_first(world)
    with progress(rounds * replicas, found.name) as advance:
        run = run_policy(
            found, world, rounds=rounds, replicas=replicas, seed=seed, learner=learner,
            every=max(1, rounds // COLUMNS), threads=threads, advance=advance, **given,
        )  # fmt: skip
    measures = {
        "queue_final": interval(run.queue_final),
        "queue_mean": interval(run.queue_mean),
        "wait_p50": interval(run.wait(0.50)),
        "wait_p99": interval(run.wait(0.99)),
    }
    head = {"policy": run.policy, "learner": run.learner, "settings": run.settings}
    summary = plain({**head, **measures, "event_failed": run.event_failed.sum(),
                     "rounds_per_second": run.rounds_per_second, **run_head(run),
                     "remarks": run.remarks})  # fmt: skip
    if out:
        write_runs(out / "simulate.parquet", {run.policy: run}, summary)
    remark(run.remarks)
    if as_json:
        print_json(summary)
        return
    console = Console()
    console.print(head_line(summary), style="dim", highlight=False, markup=False)
    table = Table(box=None, pad_edge=False, header_style="bold")
    table.add_column(
        Text(f"{run.policy} ({run.learner})" + (" *" if burns_throughout(run) else ""))
    )
    table.add_column("mean ± 95 %", justify="right")
    for name, label in LABELS.items():
        if name in measures:
            table.add_row(label, show(measures[name]))
    table.add_row("rounds per CPU-second", f"{run.rounds_per_second:,.0f}")
    console.print(table)
    if burns_throughout(run):
        console.print(BURNS, style="dim", highlight=False)
    if out:
        wrote = f"wrote {out / 'simulate.parquet'}"
        Console(stderr=True).print(wrote, highlight=False, soft_wrap=True, markup=False)


@on_world
def compare(
    world: Any,  # stands for the options of a world
    names: Annotated[
        list[str] | None,
        typer.Argument(
            metavar="[POLICY ...]", help="Policy ids or FILE.py:NAME; default: all built-in ones."
        ),
    ] = None,
    rounds: Rounds = None,
    replicas: Replicas = None,
    seed: Seed = 0,
    learner: Learner = None,
    threads: Threads = None,
    out: Out = None,
    settings: Settings = None,
    as_json: AsJson = False,
) -> None:
    """Compare policies on the same draws; the optimal policy always runs."""
    from headway.experiments.results import comparison_summary, write_runs
    from headway.files import check_folder
    from headway.sim.compare import compare as compare_policies
    from headway.sim.compare import pick, plan
    from headway.sim.run import check_size

    rounds, replicas = size_of(world, rounds, replicas)
    everywhere, single = parse_settings(settings or [], compare_policies)
    chosen = pick(names or None, world)
    check_size(world, rounds=rounds, replicas=replicas, seed=seed, every=1, threads=threads)
    plan(chosen, world.situation(rounds), learner, everywhere, single)
    if out:
        check_folder(out)
    compile_first(world)
    total = len(chosen) * rounds * replicas
    with progress(total, f"{len(chosen)} policies") as advance:
        comparison = compare_policies(
            chosen, world, rounds=rounds, replicas=replicas, seed=seed, learner=learner,
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
        Console(stderr=True).print(wrote, highlight=False, soft_wrap=True, markup=False)


def check(policy: PolicyName, learner: Learner = None, as_json: AsJson = False) -> None:
    """Check that a policy keeps the rules; exit code 1 where it breaks one."""
    from headway.check import check_policy
    from headway.sim.run import ensure_compiled

    ensure_compiled(5, 5)
    report = check_policy(policy, learner=learner)
    if as_json:
        print_json(report.summary())
    else:
        console = Console()
        for finding in report.findings:
            mark, style = {"kept": ("ok  ", "green"), "warning": ("note", "yellow")}.get(
                finding.state, ("FAIL", "bold red")
            )
            console.print(f"[{style}]{mark}[/{style}]  {finding.rule}", highlight=False)
            if finding.detail:
                console.print(f"      {finding.detail}", highlight=False, markup=False)
        console.print(f"{report.policy}: {report.verdict}", highlight=False, markup=False)
    if not report.passed:
        raise typer.Exit(1)
