"""Long matrix expressions in sympy's canonical form, built from parts that have this form already."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

import sympy as sp
from sympy.strategies import chain, flatten, rm_id, sort

_SORTED = chain(rm_id(lambda term: isinstance(term, sp.ZeroMatrix)), flatten, sort(sp.default_sort_key))


@dataclass(frozen=True)
class Canonical:
    """A matrix expression of canonical parts. sympy's operators would simplify the parts again, which takes seconds.

    No term occurs twice in a sum.
    """

    expression: sp.MatrixExpr

    def __mul__(self, other: Any) -> Canonical:
        return _product(self.expression, _plain(other))

    def __rmul__(self, other: Any) -> Canonical:
        return _product(_plain(other), self.expression)

    def __truediv__(self, number: sp.Expr) -> Canonical:
        return self * (1 / number)

    def __add__(self, other: Any) -> Canonical:
        return _sum(self.expression, _plain(other))

    def __sub__(self, other: Any) -> Canonical:
        return self + _product(-1, _plain(other))

    @property
    def T(self) -> Canonical:
        return Canonical(sp.Transpose(self.expression).doit(deep=False))


def blocks(symbols: Iterable[sp.MatrixSymbol], matrix: Canonical) -> Canonical:
    """The sum of E matrix E over these symbols E."""
    return _sum(*((e * matrix * e).expression for e in symbols))


def _product(*factors: Any) -> Canonical:
    return Canonical(sp.MatMul(*factors).doit(deep=False))


def _sum(*terms: Any) -> Canonical:
    return Canonical(_SORTED(sp.MatAdd(*terms)))


def _plain(part: Any) -> Any:
    return part.expression if isinstance(part, Canonical) else part
