"""The standard mutants of a form, made from its formula alone: near misses of each of six kinds."""

from collections.abc import Iterator
from dataclasses import replace

import sympy as sp

from bounds.mutants import index_shifted, power, reversed_comparison, scaled, shifted, without
from bounds.statement import Change, Form, Kind, Mutant, Statement
from verification.compare import IDENTITIES

HALF, QUARTER = sp.Rational(1, 2), sp.Rational(1, 4)
FACTORS = {Kind.LOWER: (2,), Kind.TWO_SIDED: (HALF, 2), Kind.ORDER: ()}  # O() has no constant that could be wrong
INDICES = ("t", "k", "K", "T")


def standard_mutants(statement: Statement, form: Form) -> tuple[Mutant, ...]:
    """A constant halved (or doubled), powers changed by half, factors dropped, indices shifted, signs, the comparison.

    Both directions of a change are made where only one of them claims more; formulas that come out alike are made once.
    """
    formula, mutants, seen = statement.forms[form], [], [statement.forms[form].mutated(lambda part: part)]
    for mutant in _candidates(statement, form):
        changed = formula.mutated(mutant.change)
        if mutant.reverse or changed not in seen:
            mutants.append(mutant)
            seen.append(changed)
    return tuple(mutants)


def _candidates(statement: Statement, form: Form) -> Iterator[Mutant]:
    formula, kind = statement.forms[form], statement.kind
    ends = [sp.sympify(end) for end in (*formula.parts, *(() if formula.lower is None else (formula.lower,)))]
    symbols = {s for end in ends for s in end.free_symbols}
    matrices = {s for s in symbols if isinstance(s, sp.MatrixSymbol)}
    sizes = {s for matrix in matrices for size in matrix.shape for s in sp.sympify(size).free_symbols}
    scalars = sorted(symbols - matrices - sizes, key=str)
    exponents = {s for end in ends for node in end.atoms(sp.MatPow) for s in node.exp.free_symbols}  # whole numbers
    yield from map(scaled, FACTORS.get(kind, (HALF,)))
    if kind is Kind.RATE:
        yield from (shifted(QUARTER), shifted(-QUARTER))
    for symbol in scalars:
        if symbol not in exponents:
            changes = (HALF, 3 * HALF) if symbol.is_positive else (sp.Integer(2),)
            yield from (power(symbol, change) for change in (changes[:1] if kind in IDENTITIES else changes))
        yield without(symbol)
        if _is_index(statement, symbol):
            yield from (index_shifted(symbol, 1), index_shifted(symbol, -1))
    yield from _signs(ends)
    if kind not in (*IDENTITIES, Kind.RATE):
        yield reversed_comparison()


def _is_index(statement: Statement, symbol: sp.Symbol) -> bool:
    """Whether a symbol counts rounds or steps; a statement may mean something else by the name, and then says so."""
    meaning = statement.symbols.get(symbol, "round")
    return str(symbol) in INDICES and any(word in meaning for word in ("round", "step"))


def _signs(ends: list) -> Iterator[Mutant]:
    """Every term of every sum with the other sign."""
    sums = {node for end in ends for node in sp.preorder_traversal(end) if isinstance(node, sp.Add | sp.MatAdd)}
    for node in sorted(sums, key=str):
        for place, term in enumerate(node.args):
            flipped = node.func(*node.args[:place], -term, *node.args[place + 1 :])
            yield _sign(node, term, flipped)
    for end in ends:
        if not end.free_symbols and end != 0 and not sums:
            yield replace(scaled(-1), sort=Change.SIGN)
            return


def _sign(node, term, flipped) -> Mutant:
    name = f"sign of {term} flipped in {node}"
    return Mutant(name, lambda end: sp.sympify(end).xreplace({node: flipped}), Change.SIGN)
