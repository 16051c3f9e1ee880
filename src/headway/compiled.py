"""The one decorator for compiled code, and the folder in which its machine code is kept.

Numba's own on-disk cache goes stale silently when a *called* function changes in another file.
So the folder is named by a hash of the package's sources: edit anything, and a new folder starts.
Another Python or processor needs machine code of its own, and gets a folder of its own.
"""

import atexit
import functools
import hashlib
import os
import shutil
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any, Literal, TypeVar, cast

import llvmlite.binding as llvm
import numba
from numba import config as numba_config
from numba import types
from numba.extending import intrinsic
from platformdirs import user_cache_path

config: Any = numba_config  # its attributes are made at run time

F = TypeVar("F", bound=Callable[..., Any])

PACKAGE = Path(__file__).parent
# Top layers and readers of files: no compiled code depends on them, so they are not hashed.
NOT_COMPILED = (
    "cli", "experiments", "service", "check.py", "theory/",
    "world/datasets.py", "world/data_files.py", "world/trace.py", "world/outcomes.py",
)  # fmt: skip
DISPATCHERS: list[Any] = []


def source_hash() -> str:
    """Hash all on which compiled code can depend: every source file, Numba, Python, processor."""
    machine = (numba.__version__, *sys.version_info[:2], llvm.get_host_cpu_name())
    digest = hashlib.blake2b(repr(machine).encode(), digest_size=8)
    for path in sorted(PACKAGE.rglob("*.py")):
        relative = path.relative_to(PACKAGE)
        if not relative.as_posix().startswith(NOT_COMPILED):
            digest.update(relative.as_posix().encode())
            digest.update(path.read_bytes())
    return digest.hexdigest()


@functools.cache
def cache_folder() -> Path:
    """The folder of this version's machine code: under HEADWAY_CACHE_DIR or the user's cache."""
    chosen = os.environ.get("HEADWAY_CACHE_DIR")
    base = Path(chosen) if chosen else user_cache_path("headway")
    folder = base / "compiled" / source_hash()
    try:
        folder.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryFile(dir=folder):
            pass
    except OSError:  # a read-only home: compile again in every process rather than fail
        folder = Path(tempfile.mkdtemp(prefix="headway-compiled-"))
        atexit.register(shutil.rmtree, folder, ignore_errors=True)
    return folder


def compiled(function: F) -> F:
    """Compile a module-level function: no fastmath, no interpreter lock, kept on disk.

    error_model="numpy": a division that could raise would keep its loop from being vectorised.
    """
    return _compile(function, inline="never")


def inlined(function: F) -> F:
    """`compiled`, and made part of its compiled callers.

    For functions over whole records: a call would copy some three hundred words of them, and
    machine code for calls from Python is made only for those that Python calls.
    """
    return _compile(function, inline="always")


def _compile(function: F, *, inline: Literal["never", "always"]) -> F:
    before = config.CACHE_DIR
    config.CACHE_DIR = str(cache_folder())
    try:
        dispatcher: Any = numba.njit(nogil=True, cache=True, error_model="numpy", inline=inline)(
            function
        )
    finally:
        config.CACHE_DIR = before
    DISPATCHERS.append(dispatcher)
    return cast(F, dispatcher)


def compilations() -> int:
    """How many specialisations this process compiled itself instead of loading them."""
    if config.DISABLE_JIT:
        return 0
    return sum(sum(each.stats.cache_misses.values()) for each in DISPATCHERS)


def _borrowed(typing: Any, record: Any) -> Any:  # noqa: ANN401, ARG001 - Numba's own protocol
    """See `borrowed`: take the owner out of each array of a tuple."""

    def generate(context: Any, builder: Any, signature: Any, values: Any) -> Any:  # noqa: ANN401
        kind = signature.args[0]
        value = values[0]
        for place, each in enumerate(kind):
            if isinstance(each, types.Array):
                field = builder.extract_value(value, place)
                array = context.make_array(each)(context, builder, value=field)
                array.meminfo = array.meminfo.type(None)
                value = builder.insert_value(value, array._getvalue(), place)
        return value

    return record(record), generate


def _itself(record: F) -> F:
    """`borrowed` in plain Python."""
    return record


# borrowed(record): the same record, its arrays without their owners. A compiled loop that only
# reads and writes what its caller holds then counts no references, which is half of its time
# otherwise (atomic increments, some hundred a round).
borrowed: Any = _itself if config.DISABLE_JIT else intrinsic(_borrowed)


def is_warm(kind: str) -> bool:
    """Has a process of this version compiled what this kind of problem needs already?"""
    return bool(config.DISABLE_JIT) or (cache_folder() / f"warm-{kind}").exists()


def mark_warm(kind: str) -> None:
    """Everything is compiled: later processes need not announce it."""
    folder = cache_folder()
    (folder / f"warm-{kind}").touch()
    if folder.parent.name == "compiled":
        sweep(folder)


def sweep(current: Path) -> None:
    """Remove the folders of other versions that were made warm over a month ago."""
    for mark in current.parent.glob("*/warm-*"):
        if mark.parent != current and mark.stat().st_mtime < time.time() - 30 * 86_400:
            shutil.rmtree(mark.parent, ignore_errors=True)
