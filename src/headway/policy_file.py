"""A person's policy from a file of theirs: FILE.py:NAME."""

import importlib.util
import re
import sys
import traceback
from pathlib import Path
from types import ModuleType

from headway.errors import HeadwayError, unknown
from headway.policy import Policy

REFERENCE = re.compile(r"(?P<file>.+\.py)(:(?P<name>\w+))?")


def is_file_reference(text: object) -> bool:
    """Does it look like FILE.py or FILE.py:NAME?"""
    return isinstance(text, str) and REFERENCE.fullmatch(text) is not None


def load_policy(reference: str) -> Policy:
    """The policy that a file exports, as `policy` unless another name is given."""
    parts = REFERENCE.fullmatch(reference)
    assert parts is not None
    path = Path(parts["file"])
    name = parts["name"] or "policy"
    module = load_module(path)
    if not hasattr(module, name):
        raise unknown(f"name in {str(path)!r}", name, policies_of(module))
    found = getattr(module, name)
    if not isinstance(found, Policy):
        raise HeadwayError(f"{str(path)!r}: {name} is {type(found).__name__}, not a headway.Policy")
    return found


def policies_of(module: ModuleType) -> list[str]:
    """The names under which a module has policies."""
    return [name for name, value in vars(module).items() if isinstance(value, Policy)]


def load_module(path: Path) -> ModuleType:
    """Import a file by its path, once a process: two references are the same policy."""
    if not path.is_file():
        raise HeadwayError(f"no policy file {str(path)!r}: give the path of a Python file")
    full = path.resolve()
    key = f"headway policy file {full}"
    if key in sys.modules:
        return sys.modules[key]
    spec = importlib.util.spec_from_file_location(key, full)
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[key] = module
    try:
        spec.loader.exec_module(module)
    except Exception as problem:  # whatever a person's file does: one sentence
        del sys.modules[key]
        lines = [each for each in traceback.extract_tb(problem.__traceback__)
                 if each.filename == str(full)]  # fmt: skip
        line = lines[-1].lineno if lines else getattr(problem, "lineno", None)
        where = f" (line {line})" if line else ""
        raise HeadwayError(
            f"cannot import {str(path)!r}: {type(problem).__name__}: {problem}{where}"
        ) from None
    return module
