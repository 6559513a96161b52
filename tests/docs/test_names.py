"""Tests that names say what a variable holds: no variable is called `found` or `each`, and no loop runs over `one`."""

import ast
import re
from collections.abc import Iterator

import pytest
from reference_names import PACKAGES, ROOT

REFUSED = ("found", "each")
USED = re.compile(r"\b(found|each)\b *([:=,)]|in )|\b(for|lambda)\b[^:=]*\b(found|each|one)\b[^:=]*( in |:)")


def empty_names(tree: ast.AST) -> Iterator[str]:
    """Yields the lines of a module that call a variable `found` or `each`, or let a loop or a lambda run over `one`.

    Fields of classes are exempt, because some of them are keys of the JSON that users read.
    """
    nodes = list(ast.walk(tree))
    bodies = [node.body for node in nodes if isinstance(node, ast.ClassDef)]
    fields = {line.target for body in bodies for line in body if isinstance(line, ast.AnnAssign)}
    for node in nodes:
        if isinstance(node, ast.Name | ast.arg):
            name = node.id if isinstance(node, ast.Name) else node.arg
            if name in REFUSED and node not in fields and not isinstance(getattr(node, "ctx", None), ast.Load):
                yield f"{node.lineno}: {name}"
        if isinstance(node, ast.For | ast.comprehension):
            yield from (f"{part.lineno}: one" for part in ast.walk(node.target) if getattr(part, "id", "") == "one")
        if isinstance(node, ast.Lambda):
            yield from (f"{argument.lineno}: one" for argument in node.args.args if argument.arg == "one")


@pytest.mark.parametrize("folder", [*PACKAGES, "tests", "proofs", "docs/checks", "docs/extensions", "docs/pages"])
def test_a_variable_is_named_by_what_it_holds(folder):
    texts = {path: path.read_text(encoding="utf-8") for path in (ROOT / folder).rglob("*.py")}
    suspects = {path: ast.parse(text) for path, text in texts.items() if USED.search(text)}
    assert not [f"{path.relative_to(ROOT)}:{line}" for path, tree in suspects.items() for line in empty_names(tree)]


@pytest.mark.parametrize(
    "line",
    [
        "found = 1",
        "found: int = 1",
        "def f(found): pass",
        "for a, found in b: pass",
        "each = 1",
        "[each for each in b]",
        "def f(a, *, each): pass",
        "(each := 1)",
        "[one for one in b]",
        "for one, two in b: pass",
        "sorted(b, key=lambda one: one.c)",
    ],
)
def test_an_empty_name_is_seen(line):
    assert list(empty_names(ast.parse(line)))


def test_other_uses_of_the_words_are_free():
    assert not list(
        empty_names(ast.parse("one = 1\na.found = b.found\nfor two in one: pass\nclass C:\n    found: int"))
    )
