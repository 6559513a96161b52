"""Replaces a function of the library by a faulty one, in every module that imported it, and restores it afterwards."""

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import cached_property
from importlib import import_module
from types import ModuleType
from typing import Any

OURS = ("ntkfl", "bounds", "verification", "experiments")
REMEMBERING = "bounds"  # the package whose caches keep measurements

Fault = Callable[[Callable[..., Any]], Callable[..., Any]]


@contextmanager
def planted(function: str, fault: Fault) -> Iterator[None]:
    """A context in which `fault(original)` takes the place of a function, method or property, in this process only.

    The statements' cached measurements are dropped before and after.

    Args:
        function: "module:name", or "module:Class.name".
        fault: a function that takes the right function and returns the wrong one.

    Raises:
        ModuleNotFoundError, AttributeError: there is no such function. TypeError: the name names no function.
    """
    module_name, _, path = function.partition(":")
    *classes, name = path.split(".")
    owner: Any = import_module(module_name)
    for part in classes:
        owner = getattr(owner, part)
    if name not in vars(owner):
        raise AttributeError(f"{module_name} has no {path} of its own; a fault goes where the function is defined")
    right = vars(owner)[name]
    wrong = _wrapped(right, fault, function)
    if isinstance(wrong, cached_property):
        wrong.__set_name__(owner, name)
    _forget()
    try:
        _exchange(right, wrong)
        yield
    finally:
        _exchange(wrong, right)  # also restores modules that were first imported in this context
        _forget()


def _wrapped(right: Any, fault: Fault, function: str) -> Any:
    """The faulty function, wrapped as the original is (as a property or a method, for example)."""
    if isinstance(right, property):
        assert right.fget is not None
        return property(fault(right.fget))
    if isinstance(right, cached_property):
        return cached_property(fault(right.func))
    if isinstance(right, classmethod | staticmethod):
        return type(right)(fault(right.__func__))
    if not callable(right):
        raise TypeError(f"{function} is {right!r}; a fault replaces a function, a method or a property")
    return fault(right)


def _exchange(old: Any, new: Any) -> None:
    """Replace `old` by `new` in all modules of this project, and in their classes and tables."""
    for module in _modules():
        classes = [v for v in vars(module).values() if isinstance(v, type) and v.__module__ == module.__name__]
        for holder in (module, *classes):
            for name, value in list(vars(holder).items()):
                if value is old:
                    setattr(holder, name, new)
                elif type(value) is dict:
                    value.update({key: new for key, entry in value.items() if entry is old})


def _modules() -> list[ModuleType]:
    return [
        module for name, module in list(sys.modules.items()) if module is not None and name.partition(".")[0] in OURS
    ]


def _forget() -> None:
    """Empty the caches of statements' measurements.

    Caches of compiled and loaded parts of the library are kept, since they contain no measurement.
    """
    for module in _modules():
        if module.__name__.partition(".")[0] == REMEMBERING:
            for value in list(vars(module).values()):
                if callable(getattr(value, "cache_clear", None)):
                    value.cache_clear()
