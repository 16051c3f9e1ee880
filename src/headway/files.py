"""Files are written whole or not at all, and a folder is tried before any work is done."""

import os
import tempfile
from collections.abc import Callable
from pathlib import Path

from headway.errors import HeadwayError


def check_folder(folder: Path) -> None:
    """Make the folder and try to write there, before any work is done."""
    try:
        folder.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryFile(dir=folder):
            pass
    except OSError as problem:
        raise HeadwayError(
            f"cannot write to {str(folder)!r} ({problem.strerror or problem}): choose another --out"
        ) from None


def write_whole(path: Path, write: Callable[[Path], object]) -> None:
    """Write to a neighbour and rename: a reader sees the old file or the new one."""
    try:
        handle, name = tempfile.mkstemp(
            dir=path.parent, prefix=f".{path.stem}-", suffix=path.suffix
        )
        os.close(handle)
        neighbour = Path(name)
        try:
            write(neighbour)
            neighbour.chmod(0o644)
            neighbour.replace(path)
        finally:
            neighbour.unlink(missing_ok=True)
    except OSError as problem:
        raise HeadwayError(f"cannot write {str(path)!r} ({problem.strerror or problem})") from None
