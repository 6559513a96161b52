"""sympy expressions as elements of MathML Core: fractions, roots drawn together, subscripts, transposes."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from xml.etree.ElementTree import Element

import sympy as sp
from sympy.printing.pretty.pretty_symbology import greek_unicode

from experiments.report.factors import decimal, fraction, in_order, powers_of_ten
from experiments.report.mathml_element import COEFFICIENT, element, mark, row, width
from verification.plain_text import signed_terms

SUBSCRIPTS = {"inf": "∞", "perp": "⊥", "eps": "ε", "epsilon": "ε", "+": "+", "-": "−"}
INDICES = ("ij",)  # two letters; other subscripts of several letters are words
NAMES = {sp.log: "log", sp.exp: "exp", sp.erf: "erf", sp.Max: "max", sp.Min: "min", sp.Trace: "tr"}
SHORT = 12  # characters, roughly, above a line whose number below it stays there
TOKEN = re.compile(r"[A-Za-z]+|\d+|.")


def expression(value: sp.Basic) -> Element:
    """A sympy (matrix) expression as one element.

    Raises:
        TypeError: it has a node that no formula may contain.
    """
    if isinstance(value, sp.Symbol | sp.MatrixSymbol):
        return name(value)
    if isinstance(value, sp.Identity):
        return element("mi", text="I")
    if value is sp.pi:
        return element("mi", text="π")
    if value.is_Rational:
        return _number(value)
    for kind, printed in PRINTERS.items():
        if isinstance(value, kind):
            return printed(value)
    if type(value) in NAMES:
        return row(_operator(value), _applied(value.args))
    raise TypeError(f"no MathML is known for {type(value).__name__}: {value}")


def terms(value: sp.Basic) -> list[list[Element]]:
    """The terms of a sum, each with its sign; of anything else, that alone."""
    if not isinstance(value, sp.Add | sp.MatAdd):
        return [[expression(value)]]
    found: list[list[Element]] = []
    for minus, term in signed_terms(value):
        sign = [element("mo", text="−" if minus else "+")] if found else []
        found.append([*sign, parenthesised(term) if isinstance(term, sp.Add | sp.MatAdd) else expression(term)])
    return found


def parenthesised(value: sp.Basic) -> Element:
    """An expression between parentheses that grow with it."""
    return row(mark("("), expression(value), mark(")"))


def name(symbol: sp.Basic) -> Element:
    """A symbol by its name: Greek letters, subscripts, primes, upper indices; several letters stand upright."""
    text = str(symbol.name)
    if text.startswith("|"):
        return row(*_tokens(text))
    text, _, upper = text.partition("^")
    base, _, lower = text.partition("_")
    primes = base.count("'")
    marks = [element("mo", text="′" * primes)] if primes else _tokens(upper.strip("{}"))
    shown = _letters(base.rstrip("'"))
    below = [_subscript(lower.strip("{}"))] if lower else []
    above = [row(*marks)] if marks else []
    tag = {(0, 0): "", (1, 0): "msub", (0, 1): "msup", (1, 1): "msubsup"}[len(below), len(above)]
    return element(tag, shown, *below, *above) if tag else shown


def _sum(value: sp.Basic) -> Element:
    return row(*(part for term in terms(value) for part in term))


def _product(value: sp.Basic) -> Element:
    """A fraction; where only a number stands below the line and much above it, that number goes in front."""
    parts = fraction(value)
    above, below = list(parts.above), list(parts.below)
    sign = [element("mo", text="−")] if parts.negative else []
    if parts.below_number != 1 and not below and parts.below_root == 1:
        whole = row(*_row([_coefficient(parts.number / parts.below_number)], above, parts.root))
        if width(whole) > SHORT:
            return row(*sign, *whole)
    upper = _row(_lead(parts.number), above, parts.root)
    lower = _row(_lead(parts.below_number), below, parts.below_root)
    if not lower:
        return row(*sign, *upper)
    whole = element("mfrac", row(*(upper or [element("mn", text="1")])), row(*lower))
    return row(*sign, whole) if sign else whole


def _row(lead: list[Element], factors: Sequence[sp.Basic], root: sp.Basic) -> list[Element]:
    """Factors side by side: what comes first, symbols, roots drawn as one, sums and functions."""
    others = in_order(factors)
    if not lead and root == 1 and len(others) == 1:
        return [expression(others[0])]
    found = lead + [_factor(f) for f in others if not _last(f)]
    found += [] if root == 1 else [element("msqrt", expression(root))]
    for factor in filter(_last, others):
        found += [_thin_space()] if found and _function(factor) else []
        found.append(_factor(factor))
    return found


def _lead(number: sp.Rational) -> list[Element]:
    return [] if number == 1 else [_number(number)]


def _coefficient(value: sp.Basic) -> Element:
    """A number, or a scalar fraction, in front of factors."""
    found = _factor(value)
    return element("mfrac", *found, **COEFFICIENT) if found.tag == "mfrac" else found


def _last(value: sp.Basic) -> bool:
    """Whether a factor is a sum or a function, or a power of one: these come last."""
    return _function(value) or isinstance(_base(value), sp.Add)


def _function(value: sp.Basic) -> bool:
    return type(_base(value)) in NAMES or isinstance(_base(value), sp.Abs)


def _base(value: sp.Basic) -> sp.Basic:
    return value.base if isinstance(value, sp.Pow) else value


def _factor(value: sp.Basic) -> Element:
    return parenthesised(value) if isinstance(value, sp.Add | sp.MatAdd) else expression(value)


def _thin_space() -> Element:
    return element("mspace", width="0.17em")


def _matrix_product(value: sp.MatMul) -> Element:
    factor, matrix = value.as_coeff_mmul()
    product = matrix.args if isinstance(matrix, sp.MatMul) else (matrix,)
    lead = [] if factor == 1 else [element("mo", text="−")] if factor == -1 else [_coefficient(factor)]
    return row(*lead, *(_factor(part) for part in product))


def _power(value: sp.Basic) -> Element:
    base, exponent = value.args
    if exponent == sp.Rational(1, 2):
        return element("msqrt", expression(base))
    if exponent.could_extract_minus_sign() and not isinstance(value, sp.MatPow):
        return _product(value)
    raised = _exponent(exponent)
    if type(base) in NAMES:
        return row(element("msup", _operator(base), raised), _applied(base.args))
    return _raised(base, raised)


def _exponent(value: sp.Basic) -> Element:
    """Fractions of exponents are written on one line, where they stay legible."""
    above, below = value.as_numer_denom()
    if below == 1:
        return expression(value)
    return row(expression(above), element("mo", text="/", lspace="0", rspace="0"), expression(below))


def _raised(base: sp.Basic, upper: Element) -> Element:
    """A base with an exponent; over its subscript where it has one, and between parentheses where that is needed."""
    simple = isinstance(base, sp.Symbol | sp.MatrixSymbol | sp.Identity) or (base.is_Integer and base >= 0)
    below = expression(base) if simple else parenthesised(base)
    if below.tag == "msub":
        return element("msubsup", *below, upper)
    return element("msup", parenthesised(base) if below.tag in ("msup", "msubsup") else below, upper)


def _transpose(value: sp.Transpose) -> Element:
    if isinstance(value.arg, sp.Inverse):
        return _raised(value.arg.arg, row(element("mo", text="−"), element("mo", text="⊤")))
    return _raised(value.arg, element("mo", text="⊤"))


def _inverse(value: sp.Inverse) -> Element:
    if isinstance(value.arg, sp.Transpose):
        return _transpose(sp.Transpose(sp.Inverse(value.arg.arg)))
    return _raised(value.arg, _minus_one())


def _minus_one() -> Element:
    return row(element("mo", text="−"), element("mn", text="1"))


def _trace(value: sp.Trace) -> Element:
    """Of a number, the number."""
    if value.arg.shape == (1, 1):
        return expression(value.arg)
    return row(_operator(value), _applied(value.args))


def _absolute(value: sp.Abs) -> Element:
    return row(mark("|"), expression(value.args[0]), mark("|"))


def _operator(function: sp.Basic) -> Element:
    return element("mi", text=NAMES[type(function)])


def _applied(arguments: Sequence[sp.Basic]) -> Element:
    shown: list[Element] = []
    for argument in arguments:
        shown += ([element("mo", text=",", separator="true")] if shown else []) + [expression(argument)]
    return row(mark("("), *shown, mark(")"))


def _number(value: sp.Rational) -> Element:
    """Finite decimals of many digits as such, powers of ten as such, other numbers as fractions."""
    if value < 0:
        return row(element("mo", text="−"), _number(-value))
    ten, exponent = powers_of_ten(value)
    if exponent:
        power = element("msup", element("mn", text="10"), expression(sp.Integer(exponent)))
        return power if ten == 1 else row(_number(ten), element("mo", text="·"), power)
    if value.is_Integer or decimal(value):
        return element("mn", text=decimal(value))
    return element("mfrac", element("mn", text=str(value.p)), element("mn", text=str(value.q)))


def _letters(text: str) -> Element:
    return element("mi", text=greek_unicode.get(text, text))


def _subscript(text: str) -> Element:
    if text in SUBSCRIPTS:
        return element("mo" if text in "+-" else "mi", text=SUBSCRIPTS[text])
    if text in INDICES:
        return row(*map(_letters, text))
    return row(*_tokens(text))


def _tokens(text: str) -> list[Element]:
    """Words, numbers and signs, as they come."""
    return [
        _letters(part) if part.isalpha() else element("mn" if part.isdigit() else "mo", text=part)
        for part in TOKEN.findall(text)
    ]


PRINTERS: dict[type | tuple, Callable[..., Element]] = {  # sympy's matrix products are products too: they come first
    sp.MatMul: _matrix_product,
    (sp.Add, sp.MatAdd): _sum,
    sp.Mul: _product,
    sp.Transpose: _transpose,
    sp.Inverse: _inverse,
    (sp.Pow, sp.MatPow): _power,
    sp.exp: lambda value: row(_operator(value), _applied(value.args)),
    sp.Trace: _trace,
    sp.Abs: _absolute,
}
