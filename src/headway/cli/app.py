"""The application: its commands, and what each way to end looks like to a person."""

import os
import sys
from typing import Any

import typer
from rich.console import Console

from headway.cli import research
from headway.cli.regret import regret
from headway.cli.reproduce import reproduce
from headway.cli.theory import theory
from headway.errors import HeadwayError

app = typer.Typer(
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
    help="Learn which server suits which job while the queue stays short.",
)
for command in (
    research.policies, research.simulate, research.compare, research.check, regret, reproduce,
    theory,
):  # fmt: skip
    app.command()(command)

# What typer raises for a wrong option; it exports only this subclass.
USAGE_ERROR: Any = typer.BadParameter.__mro__[1]
READER_LEFT = 141


def run() -> int:
    """Run the command; errors are one sentence. Returns the exit code."""
    try:
        result = typer.main.get_command(app).main(standalone_mode=False)
        sys.stdout.flush()
    except HeadwayError as problem:
        return fail(str(problem))
    except USAGE_ERROR as problem:
        problem.show()
        return int(problem.exit_code)
    except typer.Abort:
        raise KeyboardInterrupt from None
    except BrokenPipeError:
        return reader_left()
    except SystemExit as leaving:
        if isinstance(leaving.__context__, BrokenPipeError):  # typer's own way out
            return reader_left()
        raise
    except MemoryError as problem:
        return fail(f"not enough memory for problems of this size ({problem})")
    except OSError as problem:
        where = f" {problem.filename!r}" if problem.filename else ""
        return fail(f"the system refused{where}: {problem.strerror or problem}")
    return result if isinstance(result, int) else 0


def reader_left() -> int:
    """Nobody reads stdout any more. Returns the exit code that a shell gives for that."""
    settle_stdout()
    return READER_LEFT


def settle_stdout() -> None:
    """Write what stdout still holds, or drop it: Python's own last try would end in a traceback."""
    try:
        sys.stdout.flush()
    except OSError:
        os.dup2(os.open(os.devnull, os.O_WRONLY), 1)


def fail(text: str) -> int:
    """One sentence on stderr. Returns the exit code."""
    settle_stdout()
    Console(stderr=True).print(f"headway: {text}", highlight=False, soft_wrap=True, markup=False)
    return 2
