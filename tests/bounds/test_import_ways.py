"""What `bounds` exports is imported from `bounds`; only the modules that statements share know where it is defined."""

import ast
from pathlib import Path

import pytest

import bounds

ROOT = Path(__file__).parents[2]
SHARED = ("bounds", "bounds/cases", "bounds/ladders")


def detours(source: str) -> list[str]:
    """The exported names that a module imports from where they are defined."""
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
