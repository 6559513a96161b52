"""The functions, classes and methods that the pages of docs/reference name, as Sphinx's autodoc lists them."""

import functools
import importlib
import inspect
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parents[2]
PACKAGES = ("ntkfl", "bounds", "verification", "experiments")
DIRECTIVE = re.compile(r"^\.\. auto(module|class|function):: (\S+)\n((?: +:.*\n)*)", re.MULTILINE)
METHOD_TABLE = "```{method-table}"


def function_of(value: Any) -> Any:
    """Returns the function that a method, property or wrapper runs, and any other value unchanged."""
    if isinstance(value, property):
        value = value.fget
    elif isinstance(value, functools.cached_property):
        value = value.func
    else:
        value = getattr(value, "__func__", value)
    return inspect.unwrap(value) if callable(value) else value


def _of_class(cls: type, inherited: bool) -> Iterator[Any]:
    yield cls
    for base in cls.__mro__ if inherited else (cls,):
        for name, value in vars(base).items():
            if not name.startswith("_") and inspect.isfunction(function_of(value)):
                yield function_of(value)


def _of_value(value: Any, inherited: bool = False) -> Iterator[Any]:
    if inspect.isclass(value):
        yield from _of_class(value, inherited)
    elif inspect.isfunction(function_of(value)):
        yield function_of(value)


def _of_module(module: Any, options: dict[str, str]) -> Iterator[Any]:
    chosen, left_out = (
        [name for name in re.split(r"[,\s]+", options.get(key, "")) if name] for key in ("members", "exclude-members")
    )
    names = chosen or getattr(module, "__all__", None) or [name for name in vars(module) if not name.startswith("_")]
    for name in names:
        value = getattr(module, name)
        own = chosen or "imported-members" in options or getattr(value, "__module__", None) == module.__name__
        if own and name not in left_out:
            yield from _of_value(value)


def named_on(page: str) -> Iterator[Any]:
    """Yields the functions and classes that the text of a page names."""
    for kind, name, lines in DIRECTIVE.findall(page):
        options = {key: value.strip() for key, value in re.findall(r":([\w-]+):(.*)", lines)}
        if kind == "module":
            yield from _of_module(importlib.import_module(name), options)
        else:
            module, _, attribute = name.rpartition(".")
            yield from _of_value(getattr(importlib.import_module(module), attribute), "inherited-members" in options)
    if METHOD_TABLE in page:
        folder = ROOT / "ntkfl" / "training" / "methods"
        for path in folder.glob("[!_]*.py"):
            yield importlib.import_module(f"ntkfl.training.methods.{path.stem}").method


@functools.cache
def named() -> frozenset[tuple[str, str]]:
    """Returns the module and the qualified name of everything that docs/reference names."""
    pages = sorted((ROOT / "docs" / "reference").glob("*.md"))
    return frozenset(
        (value.__module__, value.__qualname__) for page in pages for value in named_on(page.read_text(encoding="utf-8"))
    )
