"""Federated methods. Each module of this package has a NAME and a function `method(objective, **options) -> Method`.

In place of a method's name, the path of a file of yours may be given. Other installed packages may announce further
modules by the entry point `ntkfl.methods`.
"""

import inspect
import math
from collections.abc import Callable, Container, Mapping
from dataclasses import replace
from functools import cache
from types import ModuleType, UnionType
from typing import Any, Literal, Union, get_args, get_origin, get_type_hints

from ntkfl import extensions
from ntkfl.extensions import Extension, ExtensionError
from ntkfl.messages import did_you_mean
from ntkfl.training.method import Method, Objective

# a message suggests a name if its similarity is at least this; the value is low because names of methods are short
CUTOFF = 0.5


GROUP = "ntkfl.methods"


def catalogue() -> dict[str, ModuleType]:
    """The methods by name: every module of this package that has a NAME, then the modules that packages announce."""
    return _own() | {extension.module.NAME: extension.module for extension in _announced()}


def module_of(method: str) -> ModuleType:
    """The module of a method, by its name or by the path of a file of yours.

    Args:
        method: a name, or the path of a file of yours.

    Raises:
        ValueError: the method is unknown. ExtensionError, a ValueError: the file does not exist, fails, or has no
            method.
    """
    if extensions.is_file(method):
        return _checked(extensions.from_file(method), catalogue()).module
    known = catalogue()
    if method not in known:
        raise ValueError(
            f"there is no method {method!r}.{did_you_mean(method, known, CUTOFF)} The methods are {', '.join(known)}, "
            f"or the path of a {extensions.SUFFIX} file with a NAME and a method"
        )
    return known[method]


def brought_by(method: str) -> Mapping[str, str] | None:
    """Where a method comes from: a file with its SHA-256, or another package; None for this project's own methods.

    Args:
        method: a name, or the path of a file of yours.
    """
    if extensions.is_file(method):
        return extensions.from_file(method).provenance
    return next((extension.provenance for extension in _announced() if extension.module.NAME == method), None)


def options(method: str) -> dict[str, inspect.Parameter]:
    """The options of a method by name, with their annotations (types) and defaults.

    Args:
        method: a name, or the path of a file of yours.

    Raises:
        ValueError: as `module_of`.

    Example:
        >>> from ntkfl.training.methods import options
        >>> list(options("fedprox"))
        ['mu', 'server_rate']
    """
    parameters = _parameters(module_of(method).method)
    return {key: parameter for key, parameter in parameters.items() if parameter.kind is parameter.KEYWORD_ONLY}


def with_eta_global(method: str, given: Mapping[str, Any], eta_global: float) -> dict[str, Any]:
    """The options of a method, with `Setup`'s eta_global as its server_rate. Both names mean the same factor.

    Args:
        method: a name, or the path of a file of yours.
        given: the method's options.
        eta_global: the server's step. The value 1, which is `Setup`'s default, leaves the options unchanged.

    Raises:
        ValueError: the method has no server_rate; server_rate and eta_global are both given.
    """
    if eta_global == 1:
        return dict(given)
    if "server_rate" in given:
        raise ValueError(
            f"eta_global is {eta_global:g} and server_rate {given['server_rate']!r}; both are the server's step: "
            "give one"
        )
    if "server_rate" not in options(method):
        raise ValueError(f"eta_global is {eta_global:g}; {module_of(method).NAME} has no server_rate: leave it at 1")
    return {**given, "server_rate": float(eta_global)}


def build(name: str, objective: Objective | None = None, **given: Any) -> Method:
    """The method of this name, or in this file, with options.

    Args:
        name: the name of a method, or the path of a file.
        objective: the loss that clients descend; default the method's own objective, if it has one.
        given: the method's options.

    Raises:
        ValueError: the method or an option is unknown; a value is of another type or outside its range; there is no
            objective.
    """
    known, module = options(name), module_of(name)
    function, name = module.method, module.NAME
    for key, value in given.items():
        if key not in known:
            there = f"Its options are {', '.join(known)}" if known else "It has none"
            raise ValueError(f"{name} has no option {key!r}.{did_you_mean(key, known, CUTOFF)} {there}")
        expected = known[key].annotation
        if not _fits(value, expected):
            raise ValueError(f"{name}'s option {key} is {value!r}; it must be {_described(expected)}")
    if objective is None and _parameters(function)["objective"].default is inspect.Parameter.empty:
        raise ValueError(f"{name} has no objective of its own; give one, CrossEntropy() say")
    try:
        built = function(objective, **given)
    except ValueError as error:
        raise ValueError(f"{name}: {error}") from error
    if not isinstance(built, Method):
        raise ExtensionError(f"{name}'s function method returned a {type(built).__name__}; it must return a Method")
    return replace(built, options={key: option.default for key, option in known.items()} | given)


@cache  # cached because a search over step sizes calls this thousands of times
def _parameters(function: Callable[..., Method]) -> dict[str, inspect.Parameter]:
    """The parameters of a function by name, with their annotations as types."""
    types = get_type_hints(function)
    parameters = inspect.signature(function).parameters
    return {key: parameter.replace(annotation=types.get(key, Any)) for key, parameter in parameters.items()}


@cache
def _own() -> dict[str, ModuleType]:
    return {module.NAME: module for module in extensions.modules_of(__name__) if hasattr(module, "NAME")}


@cache
def _announced() -> tuple[Extension, ...]:
    """The methods among the modules that packages announce. Modules that are no methods are left out with a warning."""
    return extensions.announced(
        GROUP, lambda extension, others: _checked(extension, {*_own(), *(other.module.NAME for other in others)})
    )


def _checked(extension: Extension, taken: Container[str]) -> Extension:
    """The extension, after checks that it has a method and a new name.

    Raises:
        ExtensionError: a check fails.
    """
    where, name = extension.name, getattr(extension.module, "NAME", None)
    function = getattr(extension.module, "method", None)
    if not isinstance(name, str) or not name:
        raise ExtensionError(f"{where} must have NAME, the method's name; it has {name!r}")
    if name in taken:
        raise ExtensionError(f"{where} has the NAME {name!r}, which another method has; choose another")
    if not callable(function) or "objective" not in inspect.signature(function).parameters:
        has = "none" if function is None else f"method{inspect.signature(function)}" if callable(function) else function
        raise ExtensionError(f"{where} must have a function method(objective, *, options) -> Method; it has {has}")
    return extension


def _fits(value: Any, expected: Any) -> bool:
    """Whether the value is of the given type.

    An int is accepted as a float, but a bool is accepted neither as int nor as float.
    """
    if get_origin(expected) is Literal:
        return any(value == choice and type(value) is type(choice) for choice in get_args(expected))
    if get_origin(expected) in (Union, UnionType):
        return any(_fits(value, kind) for kind in get_args(expected))
    if expected is Any:
        return True
    if expected is float:
        return isinstance(value, int | float) and not isinstance(value, bool) and math.isfinite(value)
    if expected is int:
        return isinstance(value, int) and not isinstance(value, bool)
    return isinstance(value, expected)


def _described(expected: Any) -> str:
    if get_origin(expected) is Literal:
        return " or ".join(repr(choice) for choice in get_args(expected))
    if get_origin(expected) in (Union, UnionType):
        return " or ".join(_described(kind) for kind in get_args(expected))
    names = {float: "a finite number", int: "a whole number", bool: "true or false", str: "text", type(None): "None"}
    return names.get(expected, str(expected))
