"""Tests of imports: what `bounds` exports is imported from `bounds` itself.

A statement's module may import from only a few other modules in the folder of its paper.
"""

import ast
from pathlib import Path

import pytest

import bounds

ROOT = Path(__file__).parents[2]
# These modules may import the exported names from where they are defined.
SHARED = ("bounds", "bounds/cases", "bounds/ladders")
FEW = 5  # A statement's module may import from at most so many other modules of its paper.


def detours(source: str) -> list[str]:
    """Returns the names exported by `bounds` that a module imports from elsewhere."""
    if "from bounds." not in source:
        return []
    imports = [node for node in ast.walk(ast.parse(source)) if isinstance(node, ast.ImportFrom) and node.module]
    own = [node for node in imports if node.module.startswith("bounds.")]
    return [f"{node.module}.{alias.name}" for node in own for alias in node.names if alias.name in bounds.__all__]


@pytest.mark.parametrize("folder", ["bounds", "verification", "experiments", "tests", "docs"])
def test_there_is_one_way(folder):
    paths = [path.relative_to(ROOT) for path in (ROOT / folder).rglob("*.py")]
    guests = [path for path in paths if path.parent.as_posix() not in SHARED]
    assert {path.as_posix(): names for path in guests if (names := detours((ROOT / path).read_text()))} == {}


def test_a_detour_is_seen():
    source = "from bounds.statement import Form\nfrom bounds import Kind\nfrom bounds.mutants import scaled"
    assert detours(source) == ["bounds.statement.Form"]


def of_its_paper(source: str, paper: str) -> set[str]:
    """Returns the modules of a paper that a module imports from."""
    imports = [node.module for node in ast.walk(ast.parse(source)) if isinstance(node, ast.ImportFrom) and node.module]
    return {name for name in imports if name.startswith(f"bounds.{paper}.")}


@pytest.mark.parametrize("paper", ["alignment", "averaging", "deep", "fedgucci", "fl_ntk"])
def test_a_statement_is_read_with_few_modules_of_its_paper(paper):
    texts = {path.name: path.read_text() for path in (ROOT / "bounds" / paper).glob("*.py")}
    opened = {name: of_its_paper(text, paper) for name, text in texts.items() if "Statement(" in text}
    assert opened and {name: modules for name, modules in opened.items() if len(modules) > FEW} == {}


def test_modules_of_another_paper_or_of_none_are_not_counted():
    source = "from bounds.deep.widths import a\nfrom bounds.deep.widths import b\nfrom bounds.fl_ntk import c\nimport d"
    assert of_its_paper(source, "deep") == {"bounds.deep.widths"}
