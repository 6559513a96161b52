"""Names say what a variable holds: no `found` in the packages, and no `one` that a loop runs over, in tests neither."""

import ast
import re
from collections.abc import Iterator

import pytest
from reference_names import PACKAGES, ROOT

USED = re.compile(r"\bfound\b *([:=,)]|in )|\b(for|lambda)\b[^:=]*\bone\b[^:=]*( in |:)")  # the few files to be parsed


def empty_names(tree: ast.AST) -> Iterator[str]:
    """The lines of a module that call a variable or an argument `found`, or let a loop or a lambda run over `one`.

    The fields of a class are left out: some are words of the JSON that users read.
    """
    fields = {
        each.target
        for node in ast.walk(tree)
        if isinstance(node, ast.ClassDef)
        for each in node.body
        if isinstance(each, ast.AnnAssign)
    }
    for node in ast.walk(tree):
        if isinstance(node, ast.Name | ast.arg):
            name = node.id if isinstance(node, ast.Name) else node.arg
            if name == "found" and node not in fields and not isinstance(getattr(node, "ctx", None), ast.Load):
                yield f"{node.lineno}: found"
        if isinstance(node, ast.For | ast.comprehension):
            yield from (f"{each.lineno}: one" for each in ast.walk(node.target) if ast.unparse(each) == "one")
        if isinstance(node, ast.Lambda):
            yield from (f"{each.lineno}: one" for each in node.args.args if each.arg == "one")


@pytest.mark.parametrize("folder", [*PACKAGES, "tests"])
def test_a_variable_is_named_by_what_it_holds(folder):
    texts = {path: path.read_text(encoding="utf-8") for path in (ROOT / folder).rglob("*.py")}
    suspects = {path: ast.parse(text) for path, text in texts.items() if USED.search(text)}
    names = [f"{path.relative_to(ROOT)}:{line}" for path, tree in suspects.items() for line in empty_names(tree)]
    assert not [name for name in names if folder in PACKAGES or name.endswith(": one")]


@pytest.mark.parametrize(
    "line",
    [
        "found = 1",
        "found: int = 1",
        "def f(found): pass",
        "for a, found in b: pass",
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
