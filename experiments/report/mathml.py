"""Claims as MathML Core, which browsers draw and screen readers read without any script."""

from __future__ import annotations

from collections.abc import Sequence
from xml.etree import ElementTree

import sympy as sp
from markupsafe import Markup

from bounds.formula import Formula
from bounds.statement import Form, Kind, Statement
from experiments.report.abbreviations import abbreviated
from experiments.report.mathml_element import element, row, width
from experiments.report.mathml_printer import expression, parenthesised, terms
from experiments.report.slashes import slashed
from verification.plain_text import RELATION, claim_lines

NAMESPACE = "http://www.w3.org/1998/Math/MathML"
NO_BREAK = "\u00a0"
WIDEST = 44  # characters, roughly, beyond which a sum is broken before its terms

Element = ElementTree.Element


def claims(statement: Statement, form: Form) -> list[Markup]:
    """What one form claims, a formula a part: left side, relation, right side."""
    formula = statement.forms[form]
    shown = [_claim(statement.kind, formula, number) for number in range(len(formula.parts))]
    return [_math(rows, alt) for rows, alt in zip(shown, claim_lines(statement, form), strict=False)]


def failure(formula: Formula) -> Markup | None:
    """The probability with which a form may fail; None where it may not."""
    return None if formula.failure is None else inline(formula.failure)


def premise(formula: Formula) -> list[tuple[Markup, Markup]]:
    """What a form asks for before it applies: the symbol, and the order it must be of."""
    return [(inline(symbol), inline(value)) for symbol, value in (formula.premise or {}).items()]


def inline(value: sp.Basic) -> Markup:
    """An expression, or a symbol, in a line of text."""
    return _serialised(element("math", expression(sp.sympify(value)), xmlns=NAMESPACE))


def _claim(kind: Kind, formula: Formula, number: int) -> list[list[Element]]:
    """The rows of one part, no wider than a page if that can be; the last may say what a name stands for."""
    lower = () if formula.lower is None else (formula.lower,)
    whole = sp.Tuple(*lower, formula.parts[number])
    left = _left(kind, number + 1 if len(formula.parts) > 1 else None)
    one_row = [*_before(kind, left, whole), *_last(kind, whole)]
    if _width(one_row) <= WIDEST:
        return [one_row]
    whole, symbol, meaning = abbreviated(whole)
    before, rows = _before(kind, left, whole), [_last(kind, whole)]
    if lower:
        return [before[:1], [*before[1:], *rows[0]], *_where(symbol, meaning)]
    if kind is not Kind.ORDER:
        rows = _filled(terms(whole[-1]))
    return [[*before, *rows[0]], *rows[1:], *_where(symbol, meaning)]


def _before(kind: Kind, left: Element, whole: sp.Tuple) -> list[Element]:
    """What stands before the right side; the lower end of a two-sided claim is one element."""
    lower = [expression(whole[0]), element("mo", text="≤")] if len(whole) > 1 else []
    constant = [element("mtext", text="constant"), element("mo", text="·")] if kind is Kind.ORDER else []
    return [*lower, left, element("mo", text=RELATION[kind].split()[0]), *constant]


def _last(kind: Kind, whole: sp.Tuple) -> list[Element]:
    product = kind is Kind.ORDER and isinstance(whole[-1], sp.Add)
    return [parenthesised(whole[-1]) if product else expression(whole[-1])]


def _filled(found: list[list[Element]]) -> list[list[Element]]:
    """Terms side by side as long as a row has room."""
    rows = [list(found[0])]
    for term in found[1:]:
        if _width([*rows[-1], *term]) <= WIDEST:
            rows[-1] += term
        else:
            rows.append(list(term))
    return rows


def _where(symbol: sp.Basic | None, meaning: sp.Basic | None) -> list[list[Element]]:
    if symbol is None:
        return []
    return [
        [element("mtext", text="where" + NO_BREAK), expression(symbol), element("mo", text="="), expression(meaning)]
    ]


def _width(parts: Sequence[Element]) -> float:
    return sum(map(width, parts))


def _left(kind: Kind, number: int | None) -> Element:
    said = element("mtext", text="exponent" if kind is Kind.RATE else "left")
    return said if number is None else element("msub", said, element("mn", text=str(number)))


def _math(rows: Sequence[Sequence[Element]], alt: str) -> Markup:
    """Several rows become a table aligned on the left, since browsers do not break formulas."""
    if len(rows) == 1:
        body = row(*rows[0])
    else:
        lines = [element("mtr", element("mtd", row(*_indented(i, parts)))) for i, parts in enumerate(rows)]
        body = element("mtable", *lines, displaystyle="true")
    return _serialised(element("math", body, xmlns=NAMESPACE, display="block", alttext=alt))


def _indented(number: int, parts: Sequence[Element]) -> list[Element]:
    return [*([element("mspace", width="2em")] if number else []), *parts]


def _serialised(math: Element) -> Markup:
    return Markup(ElementTree.tostring(slashed(math), encoding="unicode"))
