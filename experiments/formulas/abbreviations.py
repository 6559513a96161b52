"""A long matrix that a formula raises to a power, or has twice, gets a name, so that the formula fits a page."""

from collections import Counter

import sympy as sp

from verification.plain_text import plain

LONG = 20  # characters on one line of a matrix that is worth a name
NAME = "M"


def abbreviated(formula: sp.Basic) -> tuple[sp.Basic, sp.MatrixSymbol | None, sp.Basic | None]:
    """The formula with its longest such matrix replaced by a symbol, that symbol, and what it stands for.

    Without such a matrix, or where the name is taken: the formula, None, None.
    """
    product = _worth_a_name(formula)
    if product is None or any(symbol.name == NAME for symbol in formula.free_symbols):
        return formula, None, None
    symbol = sp.MatrixSymbol(NAME, *product.shape)
    return formula.xreplace({product: symbol, _transposed(product): symbol.T}), symbol, product


def _worth_a_name(formula: sp.Basic) -> sp.Basic | None:
    nodes = list(sp.preorder_traversal(formula))
    powers = [node.base for node in nodes if isinstance(node, sp.MatPow) and node.exp.is_Symbol]
    seen = Counter(node for node in nodes if isinstance(node, sp.MatAdd))
    twice = _twice(seen)
    for candidates in (powers, twice):
        long = [node for node in candidates if isinstance(node, sp.MatAdd) and len(plain(node)) > LONG]
        if long:
            return min(long, key=lambda node: _transposes(node))
    return None


def _twice(seen: Counter[sp.Basic]) -> list[sp.Basic]:
    """The matrices that are there twice, as they are or transposed; transposing is slow, so that few are tried."""
    alike = Counter(map(_symbols, seen))
    return [
        node
        for node, times in seen.items()
        if times > 1 or (alike[_symbols(node)] > 1 and times + seen[_transposed(node)] > 1)
    ]


def _symbols(matrix: sp.Basic) -> frozenset[tuple[sp.Basic, int]]:
    """How often a matrix has each symbol: what it shares with its transpose."""
    return frozenset(Counter(node for node in sp.preorder_traversal(matrix) if node.is_symbol).items())


def _transposed(matrix: sp.Basic) -> sp.Basic:
    return sp.Transpose(matrix).doit()


def _transposes(matrix: sp.Basic) -> int:
    """Of a matrix and its transpose, the one written with fewer transposes is the one to name."""
    return sum(isinstance(node, sp.Transpose) for node in sp.preorder_traversal(matrix))
