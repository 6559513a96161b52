"""Steps of proofs that are pure algebra, written as data.

A computer algebra system proves them; no cases are sampled.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import sympy as sp


@dataclass(frozen=True)
class Step:
    """One step of a proof.

    `of` is the id of the statement to whose proof the step belongs; `says` is the claim of the step in one line.
    """

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
    """Each expression is at least 0 on the whole box.

    `box` maps each symbol to its lowest and highest value. Both are rational, and both belong to the box.
    """

    expressions: tuple[sp.Expr, ...] = ()
    box: Mapping[sp.Symbol, tuple[Any, Any]] = field(default_factory=dict)
