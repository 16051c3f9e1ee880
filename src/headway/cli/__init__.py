"""The command line: parsing and printing only."""

import sys
from typing import Any

import typer
from rich.console import Console

from headway.cli import research
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
    research.policies, research.simulate, research.compare, research.check, reproduce, theory,
):  # fmt: skip
    app.command()(command)

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
