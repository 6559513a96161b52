"""Constructors of mutants, which are formulas made wrong on purpose. A checker that accepts a mutant is at fault."""

from typing import Any

import sympy as sp

from bounds.statement import Mutant
from bounds.vocabulary import Change


def scaled(factor: Any) -> Mutant:
    """A mutant whose bound is multiplied by a constant.

    Args:
        factor: a sympy number.

    Example:
        >>> from bounds.mutants import scaled
        >>> scaled(2).name
        'times 2'
    """
    factor = sp.Rational(str(factor)) if isinstance(factor, float) else sp.sympify(factor)

    def change(expression: Any) -> Any:
        # for matrices `*` would simplify the whole expression again, which takes seconds
        return sp.MatMul(factor, expression) if isinstance(expression, sp.MatrixExpr) else factor * expression

    return Mutant(f"times {factor}", change, Change.CONSTANT)


def without(symbol: sp.Symbol) -> Mutant:
    """A mutant without one factor: the symbol is replaced by 1.

    Args:
        symbol: a symbol of the formula.
    """
    return replaced(symbol, 1, f"without {symbol}", Change.FACTOR)


def power(symbol: sp.Symbol, exponent: Any) -> Mutant:
    """A mutant with another power of one parameter: the symbol is replaced by symbol**exponent.

    Args:
        symbol: a symbol of the formula.
        exponent: a sympy number.
    """
    exponent = sp.sympify(exponent)
    return replaced(symbol, symbol**exponent, f"{symbol} to the power {exponent}", Change.POWER)


def replaced(old: Any, new: Any, name: str, sort: Change = Change.OTHER) -> Mutant:
    """A mutant in which one subexpression is replaced by another.

    Args:
        old: the sympy expression that is replaced.
        new: the sympy expression in its place.
        name: name of the mutant, in reports.
        sort: how the formula was changed; default other.
    """
    if isinstance(old, sp.Symbol | sp.MatrixSymbol):  # a symbol matches only itself, so `subs` need not search
        return Mutant(name, lambda expression: expression.xreplace({old: sp.sympify(new)}), sort)
    return Mutant(name, lambda expression: expression.subs(old, new), sort)


def index_shifted(symbol: sp.Symbol, amount: int = 1) -> Mutant:
    """A mutant in which a round, a step or a count is wrong by `amount`: for example t is replaced by t+1, or K by K-1.

    Args:
        symbol: a symbol of the formula.
        amount: a whole number, default 1.
    """
    return replaced(symbol, symbol + amount, f"{symbol} read as {symbol}{amount:+d}", Change.INDEX)


def sign_flipped(term: Any, name: str) -> Mutant:
    """A mutant in which one term of a sum has the other sign.

    Args:
        term: a sympy expression.
        name: name of the term, in words.
    """
    return replaced(term, -term, f"sign of {name} flipped", Change.SIGN)


def reversed_comparison() -> Mutant:
    """A mutant that claims the same formula as a bound on the other side: >= for <=, Omega for O."""
    return Mutant("inequality reversed", lambda expression: expression, Change.COMPARISON, reverse=True)


def shifted(amount: Any) -> Mutant:
    """A mutant in which the exponent of a rate is shifted by a constant. The formula of a rate is its exponent.

    Args:
        amount: a sympy number.
    """
    return Mutant(f"plus {amount}", lambda expression: expression + sp.sympify(amount), Change.POWER)


MILLIONTH_MORE = scaled(sp.Rational(1_000_001, 1_000_000))  # the check of an identity must notice this mutant
