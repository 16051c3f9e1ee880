"""What a user is told when something cannot be done: one sentence, the value, the remedy."""

import difflib
from collections.abc import Iterable


class HeadwayError(ValueError):
    """Bad input. The message names what is wrong, the offending value and the remedy."""


def unknown(what: str, value: object, known: Iterable[str]) -> HeadwayError:
    """An error for a name nobody has, with the nearest names."""
    names = sorted(known)
    near = difflib.get_close_matches(str(value), names, n=3, cutoff=0.5)
    listed = ", ".join(names) or "none"
    hint = f"did you mean {' or '.join(near)}?" if near else f"known: {listed}"
    return HeadwayError(f"unknown {what} {str(value)!r}: {hint}")
