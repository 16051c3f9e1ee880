"""`headway reproduce`: the paper's panels, or a person's own experiments."""

import os
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.console import Console
from rich.table import Table

from headway.cli.options import AsJson, Threads, progress
from headway.cli.tables import print_json
from headway.errors import HeadwayError

if TYPE_CHECKING:
    from headway.experiments.claims import Claim
    from headway.experiments.spec import Experiment

STYLES = {"holds": "green", "does not hold": "red", "undecided": "yellow"}
SHORT = {"holds": "holds", "does not hold": "no", "undecided": "?"}


def reproduce(
    panels: Annotated[
        list[str] | None,
        typer.Argument(
            metavar="[PANEL ...]", help="Panel ids or FILE.toml; default: the paper's ten."
        ),
    ] = None,
    replicas: Annotated[
        int | None, typer.Option(help="Instances; default: the experiment's own (10).")
    ] = None,
    rounds: Annotated[
        int | None, typer.Option(help="Rounds; default: the experiment's own (5000).")
    ] = None,
    out: Annotated[Path, typer.Option(help="Folder for everything.")] = Path("out/reproduce"),
    data_dir: Annotated[
        Path | None, typer.Option(help="Folder with the real data; default HEADWAY_DATA_DIR.")
    ] = None,
    threads: Threads = None,
    listed: Annotated[bool, typer.Option("--list", help="List the panels and stop.")] = False,
    as_json: AsJson = False,
) -> None:
    """Run experiments, draw them, and judge each of the paper's claims. What is finished is kept:
    the same command goes on where it was stopped.
    """
    from headway.experiments.spec import load_experiment, panel_ids

    if listed:
        list_panels(as_json)
        return
    from headway.experiments.grid import cells_of
    from headway.experiments.runner import execute, make_plan
    from headway.files import check_folder
    from headway.sim.run import ensure_compiled

    experiments = [load_experiment(name) for name in (panels or panel_ids())]
    names = [each.id for each in experiments]
    for name in names:
        if names.count(name) > 1:
            raise HeadwayError(f"panel {name!r} is asked for {names.count(name)} times")
    folder = None if data_dir is None else str(data_dir)
    size: dict[str, Any] = {"replicas": replicas, "rounds": rounds}
    cells = [cell for each in experiments for _, group in cells_of(each, **size) for cell in group]
    ensure_compiled()
    plan = make_plan(cells, out, data_dir=folder)
    check_folder(out)
    if plan.reused and not as_json:
        kept = f"{plan.reused} of {plan.reused + len(plan.todo)} cells are there already"
        Console(stderr=True).print(kept, style="dim", highlight=False)
    with progress(plan.weight, f"{len(experiments)} panels") as advance:
        execute(plan, threads=threads or os.cpu_count() or 1, advance=advance)
    content, claims = finish(experiments, out, size)
    if as_json:
        print_json({**content, "out": str(out), "ran": len(plan.todo), "reused": plan.reused})
        return
    print_verdicts(claims)
    Console(stderr=True).print(
        f"wrote {out / 'report.html'}, claims.json and figures of {', '.join(names)}",
        highlight=False, soft_wrap=True, markup=False,
    )  # fmt: skip


def finish(
    experiments: "list[Experiment]", out: Path, size: dict[str, Any]
) -> "tuple[dict[str, Any], list[Claim]]":
    """Results, figures, verdicts and the page, from stored cells alone."""
    from headway.experiments.claims import claims_of
    from headway.experiments.panel_figures import draw_panel
    from headway.experiments.panels import assemble, read_panel, write_panel
    from headway.experiments.report import write_claims, write_report

    panels = []
    for each in experiments:
        path = out / f"{each.id}.parquet"
        write_panel(path, assemble(each, out, **size))
        panels.append(read_panel(path))
        draw_panel(panels[-1], out / each.id)
    claims = [claim for panel in panels for claim in claims_of(panel)]
    content = write_claims(out / "claims.json", claims, panels)
    write_report(out / "report.html", panels, claims)
    return content, claims


def list_panels(as_json: bool) -> None:
    """One panel a line, its id first."""
    from headway.experiments.spec import load_experiment, panel_ids

    found = [load_experiment(name) for name in panel_ids()]
    if as_json:
        rows = [{"id": each.id, "title": each.title, "figure": each.figure} for each in found]
        print_json({"panels": rows})
        return
    console = Console()
    for each in found:
        console.print(f"{each.id:18} {each.title} ({each.figure})", highlight=False, soft_wrap=True)


def print_verdicts(claims: "list[Claim]") -> None:
    """A line for each claim, a column for each version."""
    from headway.experiments.claims import verdict_rows

    console = Console()
    if not claims:
        console.print("no claims are attached to these experiments", style="dim")
        return
    versions, rows = verdict_rows(claims)
    table = Table(box=None, pad_edge=False, header_style="bold", padding=(0, 1, 0, 0))
    for title in ("panel", "claim", *versions):
        table.add_column(title, no_wrap=title in versions)
    for where, words, verdicts in rows:
        marks = [f"[{STYLES[each]}]{SHORT[each]}[/]" if each else "" for each in verdicts]
        table.add_row(where, words, *marks)
    console.print(table)
    console.print("no = does not hold, ? = undecided at this sample size", style="dim")
