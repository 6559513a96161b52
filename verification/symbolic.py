"""Proofs by machine of steps that are pure algebra.

The means are simplification, the signs of coefficients, and subdivision of a box, on which an expression is enclosed in
ball arithmetic (numbers with proved errors).
"""

from collections import deque
from collections.abc import Mapping
from dataclasses import dataclass
from functools import singledispatch

import numpy as np
import sympy as sp

from bounds.algebra import Nonnegative, OnBox, Step, Vanishes
from bounds.formula import evaluate
from ntkfl import Estimate, interruption
from ntkfl.balls import NotFinite
from ntkfl.messages import number_of

MOST_BOXES = 1000
# largest order of the derivatives by which an expression is shown to be monotone. If the expression is zero at a corner
# of the box, its derivatives below the order of this zero are zero there too. So the zero may have at most this order.
HIGHEST_DERIVATIVE = 4

Box = Mapping[sp.Symbol, tuple[sp.Rational, sp.Rational]]


@dataclass(frozen=True)
class Proof:
    """Whether a step is proved and how; if it is not proved, the reason."""

    step: Step
    proved: bool
    how: str


@singledispatch
def prove(step: Step) -> Proof:
    """Prove a step of a derivation, or say why this failed.

    A step is refuted only if the answer names a point at which the step is false.

    Args:
        step: a step of a derivation.

    Raises:
        TypeError: a kind of step that no prover is registered for.
    """
    raise TypeError(f"there is no prover for a {type(step).__name__}")


@prove.register
def _(step: Vanishes) -> Proof:
    entries = [
        entry
        for expression in step.expressions
        for entry in (expression if isinstance(expression, sp.MatrixBase) else [expression])
    ]
    left = [entry for entry in entries if not _is_zero(entry)]
    if left:
        return Proof(step, False, f"{len(left)} of {len(entries)} do not simplify to 0; the first is {left[0]}")
    return Proof(step, True, f"{number_of(len(entries), 'expression')} simplified to 0")


@prove.register
def _(step: Nonnegative) -> Proof:
    count = 0
    for expression in step.expressions:
        polynomial = sp.Poly(sp.expand(expression), *step.symbols)
        for powers, coefficient in polynomial.terms():
            if coefficient.free_symbols:
                raise ValueError(
                    f"{sorted(map(str, coefficient.free_symbols))[0]} in {expression} is not among the step's symbols"
                )
            if not _surely_nonnegative(coefficient):
                names = zip(step.symbols, powers, strict=True)
                term = sp.Mul(*(symbol**power for symbol, power in names))
                return Proof(step, False, f"the coefficient of {term} is {coefficient}, which is not surely at least 0")
            count += 1
    return Proof(step, True, f"{number_of(count, 'coefficient')} at least 0")


@prove.register
def _(step: OnBox) -> Proof:
    box = {symbol: (sp.Rational(low), sp.Rational(high)) for symbol, (low, high) in step.box.items()}
    total = 0
    for expression in step.expressions:
        boxes, obstacle = _subdivide(sp.sympify(expression), box)
        if obstacle:
            return Proof(step, False, obstacle)
        total += boxes
    return Proof(step, True, f"{total} {'box' if total == 1 else 'boxes'} in ball arithmetic")


def _subdivide(expression: sp.Expr, box: Box) -> tuple[int, str | None]:
    """The number of boxes that were examined, and the reason why expression >= 0 was not shown.

    The reason is None if the inequality was shown.
    """
    waiting, examined = deque([dict(box)]), 0
    while waiting:
        interruption.check()
        piece = waiting.popleft()
        examined += 1
        middle = {symbol: (low + high) / 2 for symbol, (low, high) in piece.items()}
        at_middle = _enclosed(expression.subs(middle), {})
        if at_middle is not None and at_middle.hi < 0:
            point = ", ".join(f"{symbol} = {float(value):.6g}" for symbol, value in middle.items())
            return examined, f"false: it is {float(at_middle.value):.3g} at {point}"
        if _nonnegative(expression, piece, HIGHEST_DERIVATIVE):
            continue
        if examined + len(waiting) >= MOST_BOXES:
            ends = (f"{symbol} in [{float(low):.6g}, {float(high):.6g}]" for symbol, (low, high) in piece.items())
            return examined, f"{MOST_BOXES} boxes do not settle it; one left is {', '.join(ends)}"
        widest = max(
            piece, key=lambda symbol: (piece[symbol][1] - piece[symbol][0]) / (box[symbol][1] - box[symbol][0])
        )
        low, high = piece[widest]
        waiting += [piece | {widest: (low, middle[widest])}, piece | {widest: (middle[widest], high)}]
    return examined, None


def _nonnegative(expression: sp.Expr, box: Box, order: int) -> bool:
    """Whether expression >= 0 on a box.

    The inequality is shown if the enclosure of the expression on the box is nonnegative. The inequality is also shown
    if the expression is monotone in a symbol and nonnegative on the face of the box where it is smallest.
    """
    bounds = _enclosed(expression, box)
    if bounds is not None and bounds.lo >= 0:
        return True
    if (bounds is not None and bounds.hi < 0) or order == 0:
        return False
    for symbol, (low, high) in box.items():
        slope = sp.diff(expression, symbol)
        for end, signed in ((low, slope), (high, -slope)):
            if _nonnegative(signed, box, order - 1):
                rest = {other: ends for other, ends in box.items() if other is not symbol}
                face = expression.subs(symbol, end)
                return _nonnegative(face, rest, order) if rest else _surely_nonnegative(face)
    return False


def _surely_nonnegative(number: sp.Expr) -> bool:
    if number.is_Rational:
        return bool(number >= 0)
    bounds = _enclosed(number, {})
    return (bounds is not None and bool(bounds.lo >= 0)) or _is_zero(number)


def _enclosed(expression: sp.Expr, box: Box) -> Estimate | None:
    """The enclosure of an expression on a box. None if the expression has no finite enclosure."""
    sides = {symbol: _around(*ends) for symbol, ends in box.items() if symbol in expression.free_symbols}
    try:
        return evaluate(expression, sides)
    except NotFinite:
        return None


def _around(low: sp.Rational, high: sp.Rational) -> Estimate:
    middle = float((low + high) / 2)
    reach = max(high - sp.Rational(middle), sp.Rational(middle) - low)
    return Estimate(middle, float(np.nextafter(float(reach), np.inf)), "exact")


def _is_zero(entry: sp.Expr) -> bool:
    entry = sp.sympify(entry)
    return sp.expand(entry) == 0 or sp.cancel(sp.together(entry)) == 0 or sp.simplify(entry) == 0
