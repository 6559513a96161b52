"""Tests that modules of statements share no code: no module of bounds imports a module that defines statements."""

import ast
from collections.abc import Iterator
from pathlib import Path

import bounds

ROOT = Path(bounds.__file__).parent


def _has_statements(tree: ast.Module) -> bool:
    """Says whether a module assigns STATEMENTS."""
    places = (
        target
        for node in tree.body
        if isinstance(node, ast.Assign | ast.AnnAssign)
        for target in (node.targets if isinstance(node, ast.Assign) else [node.target])
    )
    return any(isinstance(place, ast.Name) and place.id == "STATEMENTS" for place in places)


def _imported(tree: ast.Module) -> Iterator[str]:
    """Yields the names of all modules that any line of a module may import.

    `from a import b` may import the module a or the module a.b, so both are returned.
    """
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            yield str(node.module)
            yield from (f"{node.module}.{alias.name}" for alias in node.names)


def forbidden_imports(root: Path) -> list[str]:
    """Looks through all modules in a package's folder, and returns every import of a module that has statements."""
    trees = {
        ".".join((root.name, *path.relative_to(root).with_suffix("").parts)): ast.parse(path.read_text())
        for path in sorted(root.rglob("*.py"))
    }
    lenders = {name for name, tree in trees.items() if _has_statements(tree)}
    return [f"{name} <- {module}" for name, tree in trees.items() for module in _imported(tree) if module in lenders]


def test_no_module_imports_a_module_with_statements():
    assert forbidden_imports(ROOT) == []


def test_a_borrower_is_noticed(tmp_path: Path):
    paper = tmp_path / "bounds" / "paper"
    paper.mkdir(parents=True)
    (paper / "terms.py").write_text("H = 1\n")
    (paper / "x_1.py").write_text("from bounds.paper.terms import H\nSTATEMENTS = (H,)\n")
    assert forbidden_imports(tmp_path / "bounds") == []
    (paper / "x_2.py").write_text("def late():\n    from bounds.paper.x_1 import H\n")
    (paper / "x_3.py").write_text("from bounds.paper import x_1\n")
    (paper / "x_4.py").write_text("import bounds.paper.x_1\n")
    assert forbidden_imports(tmp_path / "bounds") == [f"bounds.paper.x_{k} <- bounds.paper.x_1" for k in (2, 3, 4)]
