"""Running a grid of cells: what is left to do, on threads, stopped and resumed at any moment."""

import threading
from collections.abc import Callable, Iterable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path

from headway.experiments.grid import Cell, recall, run_cell, store
from headway.experiments.worlds import make_world
from headway.settings import find_policy, resolve

Advance = Callable[[float], None]  # told how much work was done


class Stopped(Exception):
    """Somebody asked for an end; what is stored stays."""


@dataclass(frozen=True)
class Plan:
    """Cells by what is stored already and what is left to run."""

    folder: Path
    todo: tuple[Cell, ...]
    reused: int
    data_dir: str | None

    @property
    def weight(self) -> float:
        """How much work is left."""
        return sum(cell.weight for cell in self.todo)


def cell_path(folder: Path, cell: Cell) -> Path:
    """Where a cell's result is kept."""
    return folder / "cells" / f"{cell.digest}.npz"


def make_plan(cells: Iterable[Cell], folder: Path, *, data_dir: str | None = None) -> Plan:
    """Check every cell before any runs, and find those that are left.

    A cell that many places share runs once. A result that was cut short or damaged is redone.
    """
    unique = {cell.digest: cell for cell in cells}
    checked: set[str] = set()
    for cell in unique.values():
        key = repr((cell.policy, sorted(cell.world.items()), cell.learner, cell.settings))
        if key not in checked:
            checked.add(key)
            check(cell, data_dir)
    left = [cell for cell in unique.values() if recall(cell_path(folder, cell)) is None]
    return Plan(folder, tuple(left), len(unique) - len(left), data_dir)


def check(cell: Cell, data_dir: str | None) -> None:
    """Refuse what cannot be run, before anything is."""
    world = make_world(cell.world, data_dir)
    resolve(
        find_policy(cell.policy), world.situation(cell.rounds), learner=cell.learner,
        given=cell.settings,
    )  # fmt: skip


def execute(plan: Plan, *, threads: int, advance: Advance | None = None) -> None:
    """Run what is left. Ctrl-C, or an error in one cell, stops the others soon; all that is stored
    is whole and is found again.
    """
    (plan.folder / "cells").mkdir(parents=True, exist_ok=True)
    stop = threading.Event()

    def one(cell: Cell) -> None:
        share = cell.weight / (cell.rounds * cell.replicas)

        def told(rounds: int) -> None:
            if stop.is_set():
                raise Stopped
            if advance:
                advance(rounds * share)

        if not stop.is_set():
            result = run_cell(cell, data_dir=plan.data_dir, advance=told)
            store(cell_path(plan.folder, cell), result)

    # The longest first, so that no thread is left with a long one at the end.
    ordered = sorted(plan.todo, key=lambda cell: -cell.weight)
    with ThreadPoolExecutor(max(1, threads)) as pool:
        waiting = [pool.submit(one, cell) for cell in ordered]
        try:
            for each in waiting:
                each.result()
        except BaseException:
            stop.set()
            pool.shutdown(cancel_futures=True)
            raise
