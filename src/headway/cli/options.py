"""Options that commands share: a world, a run's size, settings; what comes before a run."""

import functools
import inspect
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.console import Console
from rich.progress import BarColumn, Progress, TaskProgressColumn, TextColumn, TimeRemainingColumn

from headway.errors import HeadwayError, unknown

if TYPE_CHECKING:
    from headway.sim.run import World

Rounds = Annotated[
    int | None, typer.Option(help="Rounds of each run (T); default 5000, or all of a tape.")
]
Replicas = Annotated[
    int | None,
    typer.Option(help="Independent problems, over which intervals are; default 20, for a tape 1."),
]
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

# What a world has: the fields of a Scenario with their defaults, or a tape.
WORLD: dict[str, tuple[Any, Any]] = {
    "servers": (Annotated[int, typer.Option(help="How many servers (K).")], 5),
    "dimension": (Annotated[int, typer.Option(help="Length of a context vector (d).")], 5),
    "arrival_rate": (
        Annotated[float, typer.Option(help="Probability that a job arrives in a round.")],
        0.7,
    ),
    "slack": (
        Annotated[
            float, typer.Option(help="Some server succeeds with arrival rate + slack or more.")
        ],
        0.1,
    ),
    "slack_by": (
        Annotated[str, typer.Option(help="reject: redraw contexts without slack; none: keep.")],
        "reject",
    ),
    "unit_norm": (
        Annotated[
            bool,
            typer.Option("--unit-norm", help="Contexts in the unit ball, success rates unchanged."),
        ],
        False,
    ),
    "contexts": (
        Annotated[
            str,
            typer.Option(
                help="cube, ball, gaussian, finite, fixed; adversaries: rotating, late-surprise, "
                "adaptive."
            ),
        ],
        "cube",
    ),
    "vectors": (Annotated[int, typer.Option(help="How many contexts a finite set has.")], 40),
    "rotate_every": (
        Annotated[int, typer.Option(help="Rounds until a rotating world moves on.")],
        200,
    ),
    "surprise_round": (
        Annotated[
            int | None, typer.Option(help="Round of the late surprise; default after 4/5 of a run.")
        ],
        None,
    ),
    "arrivals": (
        Annotated[str, typer.Option(help="bernoulli, bursty or periodic, of one mean.")],
        "bernoulli",
    ),
    "period": (Annotated[int, typer.Option(help="Rounds of a burst or of a period.")], 200),
    "swing": (
        Annotated[
            float, typer.Option(help="How far bursts and periods leave the mean, of what they can.")
        ],
        0.5,
    ),
    "stickiness": (
        Annotated[float, typer.Option(help="How much a pair's coins repeat: 0 fresh, 1 always.")],
        0.0,
    ),
    "pair_concentration": (
        Annotated[
            float | None, typer.Option(help="c: pair rates drawn once from Beta(p c, (1-p) c).")
        ],
        None,
    ),
    "job_effect": (
        Annotated[float, typer.Option(help="Deviation of a job's own effect on its logits.")],
        0.0,
    ),
    "solvable": (
        Annotated[float, typer.Option(help="Pair rates are redrawn until one is so large.")],
        0.2,
    ),
    "tape": (
        Annotated[
            Path | None,
            typer.Option(help="A trace of your own (.csv or .parquet) instead of a scenario."),
        ],
        None,
    ),
    "theta_star": (
        Annotated[Path | None, typer.Option(help="Its parameters: CSV, a row a server.")],
        None,
    ),
}


def on_world(command: Callable[..., None]) -> Callable[..., None]:
    """The command, its parameter `world` replaced by the options that describe a world."""
    own = inspect.signature(command, eval_str=True)
    kind = inspect.Parameter.KEYWORD_ONLY
    options = [
        inspect.Parameter(name, kind, default=default, annotation=annotation)
        for name, (annotation, default) in WORLD.items()
    ]
    kept: list[inspect.Parameter] = []
    for parameter in own.parameters.values():
        if parameter.name == "world":
            kept.extend(options)
        else:
            kept.append(parameter.replace(kind=kind))

    @functools.wraps(command)
    def described(**given: Any) -> None:
        options = {name: given.pop(name) for name in WORLD}
        command(world=make_world(options), **given)

    described.__signature__ = own.replace(parameters=kept)  # type: ignore[attr-defined]
    described.__annotations__ = {each.name: each.annotation for each in kept}
    return described


def make_world(options: dict[str, Any]) -> "World":
    """The scenario that the options describe, or the tape that they name."""
    tape, theta_star = options.pop("tape"), options.pop("theta_star")
    if tape is None:
        if theta_star is not None:
            raise HeadwayError("--theta-star belongs to --tape: give both or neither")
        from headway.world.scenario import Scenario

        return Scenario(**options)
    for name, value in options.items():
        if value != WORLD[name][1]:
            flag = "--" + name.replace("_", "-")
            raise HeadwayError(f"--tape is a world of its own: leave out {flag} {value}")
    from headway.world.tape import Tape

    return Tape.from_file(tape, theta_star=theta_star)


def size_of(world: "World", rounds: int | None, replicas: int | None) -> tuple[int, int]:
    """Rounds and replicas, given or default."""
    most = world.most_rounds
    return (
        rounds if rounds is not None else most or 5000,
        replicas if replicas is not None else 1 if most else 20,
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


def compile_first(world: "World") -> None:
    """Compile the kernels if this version never was, and say so: no silent pause."""
    from headway.compiled import is_warm
    from headway.sim.run import COMPILING, compiled_kind, ensure_compiled

    size = world.situation().servers, world.situation().dimension
    console = Console(stderr=True)
    if console.is_terminal and not is_warm(compiled_kind(*size)):
        with console.status(COMPILING):
            ensure_compiled(*size, announce=False)
    else:
        ensure_compiled(*size)


@contextmanager
def progress(total: float, what: str) -> Iterator[Callable[[float], None]]:
    """A bar on stderr that counts rounds; nothing where stderr is not a terminal."""
    console = Console(stderr=True)
    columns = (TextColumn("{task.description}"), BarColumn(), TaskProgressColumn(),
               TimeRemainingColumn())  # fmt: skip
    with Progress(
        *columns, console=console, transient=True, disable=not console.is_terminal
    ) as bar:
        task = bar.add_task(what, total=total)
        yield lambda rounds: bar.advance(task, rounds)
