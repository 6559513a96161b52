"""Draws that depend on the seed and on the statements, not on what else a process has imported."""

import pkgutil
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache
from importlib import import_module
from typing import Any

from hypothesis.internal.conjecture import providers

import bounds

READ, KEPT = "_get_local_constants", "CONSTANTS_CACHE"  # names of Hypothesis, which has no setting for it


@contextmanager
def constants_of_statements() -> Iterator[None]:
    """Let Hypothesis draw the constants in the source of all statements, instead of all modules that are loaded.

    Otherwise the results of a seed would depend on what else the process has imported. Where a version of Hypothesis
    has other names for this, nothing is changed.
    """
    if not (hasattr(providers, READ) and hasattr(providers, KEPT)):
        yield
        return
    before, constants = {name: getattr(providers, name) for name in (READ, KEPT)}, _constants()
    setattr(providers, READ, lambda: constants)
    setattr(providers, KEPT, type(before[KEPT])(1024))
    try:
        yield
    finally:
        for name, value in before.items():
            setattr(providers, name, value)


@cache
def _constants() -> Any:
    constants = providers.Constants()
    for module in pkgutil.walk_packages(bounds.__path__, f"{bounds.__name__}."):
        import_module(module.name)
        constants |= providers.constants_from_module(sys.modules[module.name])
    return constants
