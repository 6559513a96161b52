"""Constructors of mutants: formulas made wrong on purpose, so that a checker that cannot say no is found out."""

from __future__ import annotations

from typing import Any

import sympy as sp

from bounds.statement import Mutant


def scaled(factor: Any) -> Mutant:
    """The bound times a constant."""
    factor = sp.Rational(str(factor)) if isinstance(factor, float) else sp.sympify(factor)
    return Mutant(f"times {factor}", lambda expression: factor * expression)


def without(symbol: sp.Symbol) -> Mutant:
    """A factor dropped: the symbol replaced by 1."""
    return Mutant(f"without {symbol}", lambda expression: expression.subs(symbol, 1))


def power(symbol: sp.Symbol, exponent: Any) -> Mutant:
    """The power of one parameter changed: the symbol replaced by symbol**exponent."""
    return Mutant(f"{symbol} to the power {exponent}", lambda expression: expression.subs(symbol, symbol**exponent))


def replaced(old: Any, new: Any, name: str) -> Mutant:
    """A subexpression replaced by another."""
    return Mutant(name, lambda expression: expression.subs(old, new))


def shifted(amount: Any) -> Mutant:
    """An exponent (the formula of a rate) shifted by a constant."""
    return Mutant(f"plus {amount}", lambda expression: expression + sp.sympify(amount))
