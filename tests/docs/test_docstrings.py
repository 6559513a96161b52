"""A public function with three parameters or more says what each is: shapes, units, what a default means."""

import ast
import importlib
import inspect
import re
import sys
import types
from operator import attrgetter
from pathlib import Path

import pytest
import typer

ROOT = Path(__file__).parents[2]
PACKAGES = ("ntkfl", "bounds", "verification", "experiments")
MANY = 3


def public(body, prefix=""):
    """The functions and methods of a module that users may call, with their names' path; overloads are left out."""
    for node in body:
        if isinstance(node, ast.ClassDef) and not node.name.startswith("_"):
            yield from public(node.body, f"{prefix}{node.name}.")
        elif isinstance(node, ast.FunctionDef) and not node.name.startswith("_"):
            if not any(isinstance(mark, ast.Name) and mark.id == "overload" for mark in node.decorator_list):
                yield prefix + node.name, node


def has_help(parameter, module):
    """Whether it is an option of a command whose words are in what a name of the module stands for."""
    named = [getattr(module, node.id, None) for node in ast.walk(parameter.annotation) if isinstance(node, ast.Name)]
    known = [part for value in named for part in (value, *getattr(value, "__metadata__", ()))]
    return any(isinstance(part, typer.models.ParameterInfo) and part.help for part in known)


def parameters(function):
    """Those that may need a word: not the options of a command that have theirs in `help=`."""
    arguments = function.args
    found = [*arguments.posonlyargs, *arguments.args, *arguments.kwonlyargs, arguments.vararg, arguments.kwarg]
    return [
        each
        for each in found
        if each
        and each.arg not in ("self", "cls")
        and not (each.annotation and "help=" in ast.unparse(each.annotation))
    ]


def explained(names, text):
    """Whether the Args of a docstring name them all: "x: ...", or several at once, "x, y: ..."."""
    section = re.split(r"\n\n|\n(?=\S)", (text or "").partition("Args:\n")[2])[0]
    return all(re.search(rf"(^|[\s,]){name}(, \w+)*:\s", section) for name in names)


def unexplained(source, module):
    """Names of the functions of which an argument is not in the Args, their own or those of what they override."""
    for name, function in public(ast.parse(source).body):
        names = [each.arg for each in parameters(function)]
        if len(names) >= MANY and not explained(names, ast.get_docstring(function)):
            names = [each.arg for each in parameters(function) if not (each.annotation and has_help(each, module()))]
            if len(names) >= MANY and not explained(names, inspect.getdoc(attrgetter(name)(module()))):
                yield name


def files(package):
    """Modules of the package; adapters of other frameworks, which run in environments of their own, are none."""
    found = [path for path in sorted((ROOT / package).rglob("*.py")) if (path.parent / "__init__.py").exists()]
    return [path for path in found if path.name == "__init__.py" or not path.name.startswith("_")]


def imported(path):
    parts = path.relative_to(ROOT).with_suffix("").parts
    return importlib.import_module(".".join(parts).removesuffix(".__init__"))


@pytest.mark.parametrize("package", PACKAGES)
def test_arguments_are_explained(package):
    missing = []
    for path in files(package):
        names = unexplained(path.read_text(encoding="utf-8"), lambda path=path: imported(path))
        missing += [f"{path.relative_to(ROOT)}: {name}" for name in names]
    assert not missing


EXAMPLE = '''
class Rule:
    def step(self, a, b, c):
        """One.

        Args:
            a: a number.
                It goes on. b, c: numbers.
        """

    def _own(self, a, b, c): ...

class Other(Rule):
    def step(self, a, b, c): ...

class Apart:
    def step(self, a, b, c): ...

def half(a, b, c):
    """One.

    Args:
        a: a number. c: another one, unlike b.
    """

def short(a, b): ...

def long(a, *b, **c):
    """No word of Args."""
'''


def test_the_search_names_what_has_no_args_and_passes_over_what_inherits_them(monkeypatch):
    module = types.ModuleType("example")
    monkeypatch.setitem(sys.modules, "example", module)  # where `getdoc` looks for the class
    exec(EXAMPLE, vars(module))
    assert list(unexplained(EXAMPLE, lambda: module)) == ["Apart.step", "half", "long"]
