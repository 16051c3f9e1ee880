"""The style rules that a machine can check: sizes, names, opening sentences, light imports."""

import ast
import re
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
FILES = sorted(
    path for folder in ("src", "tests", "bench") for path in (ROOT / folder).rglob("*.py")
)
BANNED = {"eps", "epsilon", "lam", "utils", "helpers", "manager"}
LONGEST_FILE = 500
LONGEST_FUNCTION = 70


def names_in(tree):
    """Every identifier that a file defines or uses."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Name):
            yield node.id
        elif isinstance(node, ast.arg):
            yield node.arg
        elif isinstance(node, ast.Attribute):
            yield node.attr
        elif isinstance(node, ast.FunctionDef | ast.ClassDef):
            yield node.name


@pytest.mark.parametrize("path", FILES, ids=lambda path: str(path.relative_to(ROOT)))
def test_file_is_small_opens_with_a_sentence_and_uses_no_banned_name(path):
    text = path.read_text()
    tree = ast.parse(text)
    assert len(text.splitlines()) <= LONGEST_FILE
    assert ast.get_docstring(tree), "the first line says what lives here"
    assert not BANNED & set(names_in(tree))
    assert path.stem not in BANNED
    for node in ast.walk(tree):
        if isinstance(node, ast.FunctionDef):
            assert node.end_lineno - node.lineno < LONGEST_FUNCTION, node.name


@pytest.mark.parametrize("module", ["numba", "numpy", "scipy", "matplotlib", "pyarrow"])
def test_importing_headway_is_light(module):
    code = f"import headway, sys; sys.exit({module!r} in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0


def test_every_public_name_loads():
    import headway

    for name in headway.HOMES:
        assert getattr(headway, name) is not None
    with pytest.raises(AttributeError, match="no attribute 'nonsense'"):
        _ = headway.nonsense


def test_lock_files_name_no_index_and_pin_every_hash():
    for name in ("requirements.lock", "requirements-dev.lock"):
        text = (ROOT / name).read_text()
        assert "://" not in text
        for entry in re.findall(r"^[a-z0-9].*?(?=^[a-z0-9]|\Z)", text, re.M | re.S):
            assert "--hash=sha256:" in entry, entry.splitlines()[0]


def test_the_glossary_knows_every_setting_and_policy():
    from headway.policies import POLICIES
    from headway.settings import all_setting_names

    text = (ROOT / "GLOSSARY.md").read_text()
    for name in [*POLICIES, *all_setting_names()]:
        assert f"`{name}`" in text, name
