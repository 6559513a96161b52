"""Federated methods, one file each: a module with NAME and a function `method(objective, **options) -> Method`."""

from __future__ import annotations

import inspect
import math
import pkgutil
from functools import cache
from importlib import import_module
from types import ModuleType, UnionType
from typing import Any, Literal, Union, get_args, get_origin, get_type_hints

from ntkfl.nearest_name import did_you_mean
from ntkfl.training.method import Method, Objective

CUTOFF = 0.5  # of similarity; names of methods are short


@cache
def catalogue() -> dict[str, ModuleType]:
    """The methods by name: every module of this package that has a NAME."""
    modules = [import_module(f"{__name__}.{found.name}") for found in pkgutil.iter_modules(__path__)]
    return {module.NAME: module for module in sorted(modules, key=lambda m: m.__name__) if hasattr(module, "NAME")}


def options(name: str) -> dict[str, inspect.Parameter]:
    """The options of a method by name, with their annotations (types) and defaults.

    Raises:
        ValueError: an unknown method.
    """
    known = catalogue()
    if name not in known:
        raise ValueError(
            f"there is no method {name!r}.{did_you_mean(name, known, CUTOFF)} The methods are {', '.join(known)}"
        )
    function = known[name].method
    types = get_type_hints(function)
    return {
        key: parameter.replace(annotation=types[key])
        for key, parameter in inspect.signature(function).parameters.items()
        if parameter.kind is parameter.KEYWORD_ONLY
    }


def build(name: str, objective: Objective | None = None, **given: Any) -> Method:
    """The method of this name, with options; no objective: the method's own, where it has one.

    Raises:
        ValueError: an unknown method or option, a value of another type or outside its range, no objective.
    """
    known = options(name)
    for key, value in given.items():
        if key not in known:
            there = f"Its options are {', '.join(known)}" if known else "It has none"
            raise ValueError(f"{name} has no option {key!r}.{did_you_mean(key, known, CUTOFF)} {there}")
        expected = known[key].annotation
        if not _fits(value, expected):
            raise ValueError(f"{name}'s option {key} is {value!r}; it must be {_described(expected)}")
    function = catalogue()[name].method
    own = inspect.signature(function).parameters["objective"].default
    if objective is None and own is inspect.Parameter.empty:
        raise ValueError(f"{name} has no objective of its own; give one, CrossEntropy() say")
    try:
        return function(objective, **given)
    except ValueError as error:
        raise ValueError(f"{name}: {error}") from error


def _fits(value: Any, expected: Any) -> bool:
    """Whether the value is of that type; whole numbers pass as numbers, truth values only as such."""
    if get_origin(expected) is Literal:
        return any(value == choice and type(value) is type(choice) for choice in get_args(expected))
    if get_origin(expected) in (Union, UnionType):
        return any(_fits(value, one) for one in get_args(expected))
    if expected is float:
        return isinstance(value, int | float) and not isinstance(value, bool) and math.isfinite(value)
    if expected is int:
        return isinstance(value, int) and not isinstance(value, bool)
    return isinstance(value, expected)


def _described(expected: Any) -> str:
    if get_origin(expected) is Literal:
        return " or ".join(repr(choice) for choice in get_args(expected))
    if get_origin(expected) in (Union, UnionType):
        return " or ".join(_described(one) for one in get_args(expected))
    names = {float: "a finite number", int: "a whole number", bool: "true or false", str: "text", type(None): "None"}
    return names.get(expected, str(expected))
