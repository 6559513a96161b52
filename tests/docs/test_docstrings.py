"""What docs/reference names explains every argument on a line of its own; nothing else has a section of arguments."""

import ast
import re
from collections.abc import Iterator

import pytest
from reference_names import PACKAGES, ROOT, named

BULLET = re.compile(r"^    \**(\w+): ", re.MULTILINE)


def definitions(body: list[ast.stmt], prefix: str = "") -> Iterator[tuple[str, ast.ClassDef | ast.FunctionDef]]:
    """The classes and functions of a module with their qualified names, nested ones too."""
    for node in body:
        if isinstance(node, ast.ClassDef | ast.FunctionDef):
            yield prefix + node.name, node
            inner = "." if isinstance(node, ast.ClassDef) else ".<locals>."
            yield from definitions(node.body, f"{prefix}{node.name}{inner}")


def arguments(node: ast.ClassDef | ast.FunctionDef) -> list[str]:
    """What a caller gives: parameters, or the fields of a class and the parameters of its `__init__`."""
    if isinstance(node, ast.ClassDef):
        fields = [each.target.id for each in node.body if isinstance(each, ast.AnnAssign)]
        return fields + [
            name
            for each in node.body
            if isinstance(each, ast.FunctionDef) and each.name == "__init__"
            for name in arguments(each)
        ]
    given = node.args
    parameters = [*given.posonlyargs, *given.args, *given.kwonlyargs, given.vararg, given.kwarg]
    return [each.arg for each in parameters if each and each.arg not in ("self", "cls")]


def section(text: str | None, name: str) -> str:
    """The lines of a section of a docstring, "" where it has none."""
    return re.split(r"\n\n|\n(?=\S)", f"\n{text or ''}".partition(f"\n{name}:\n")[2])[0]


def documented(package: str) -> Iterator[tuple[str, bool, ast.ClassDef | ast.FunctionDef]]:
    """Every definition of a package that has a docstring: what to call it, whether the reference names it, itself."""
    for path in sorted((ROOT / package).rglob("*.py")):
        module = ".".join(path.relative_to(ROOT).with_suffix("").parts).removesuffix(".__init__")
        for name, node in definitions(ast.parse(path.read_text(encoding="utf-8")).body):
            if ast.get_docstring(node):
                yield f"{path.relative_to(ROOT)}:{node.lineno}: {name}", (module, name) in named(), node


@pytest.mark.parametrize("package", PACKAGES)
def test_only_what_the_reference_names_lists_its_arguments(package):
    with_list = [
        place for place, is_named, node in documented(package) if "Args:" in ast.get_docstring(node) and not is_named
    ]
    assert not with_list


@pytest.mark.parametrize("package", PACKAGES)
def test_a_list_of_arguments_names_those_there_are(package):
    for place, _, node in documented(package):
        unknown = set(BULLET.findall(section(ast.get_docstring(node), "Args"))) - {*arguments(node)}
        assert not unknown, place
