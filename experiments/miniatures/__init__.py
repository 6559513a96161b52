"""Miniatures: small runs that answer a question which a table or a figure of the papers raises, one file each."""

from __future__ import annotations

from functools import cache
from importlib import import_module
from pkgutil import iter_modules

from experiments.miniatures.miniature import Miniature


@cache
def catalogue() -> dict[str, Miniature]:
    """The miniatures by name: every module of this package that has a MINIATURE."""
    modules = (import_module(f"{__name__}.{found.name}") for found in iter_modules(__path__))
    found = [module.MINIATURE for module in modules if hasattr(module, "MINIATURE")]
    return {miniature.name: miniature for miniature in found}
