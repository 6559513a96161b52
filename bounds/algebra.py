"""Steps of proofs that are pure algebra, as data: a machine proves them, nothing is sampled."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import sympy as sp


@dataclass(frozen=True)
class Step:
    """One step. `of`: the id of its statement; `says`: the claim, in one line."""

    of: str
    says: str


@dataclass(frozen=True)
class Vanishes(Step):
    """Every expression, or every entry of a matrix of expressions, is identically 0."""

    expressions: tuple[Any, ...] = ()


@dataclass(frozen=True)
class Nonnegative(Step):
    """Each expression is a polynomial without a negative coefficient, in symbols that are at least 0."""

    expressions: tuple[sp.Expr, ...] = ()
    symbols: tuple[sp.Symbol, ...] = ()


@dataclass(frozen=True)
class OnBox(Step):
    """Each expression is at least 0 on the whole box: symbol -> (lowest, highest), rational, both ends included."""

    expressions: tuple[sp.Expr, ...] = ()
    box: Mapping[sp.Symbol, tuple[Any, Any]] = field(default_factory=dict)
