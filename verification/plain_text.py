"""Formulas and claims as plain text on one line, for terminals and reports. `Formula.latex` gives LaTeX instead."""

import re
from functools import cache, lru_cache
from typing import Any

import sympy as sp
from sympy.printing.precedence import PRECEDENCE, precedence
from sympy.printing.pretty.pretty_symbology import greek_unicode
from sympy.printing.str import StrPrinter

from bounds import Form, Kind, Statement

LONGEST = 600  # largest number of characters of a formula that is shown
RELATION = {
    Kind.EQUALITY: "=",
    Kind.TWO_SIDED: "≤",
    Kind.UPPER: "≤",
    Kind.LOWER: "≥",
    Kind.PROBABILITY: "≤",
    Kind.RATE: "=",
    Kind.ORDER: "≤ constant ·",
    Kind.DEFINITION: "=",
    Kind.EXISTENCE: "=",
}

GREEK = greek_unicode | {"varphi": "φ"}
SIGNS = {"*": "⋆", "<=": "≤", ">=": "≥", "->": "→", "inf": "∞", "perp": "⊥", "otimes": "⊗"}
SIGNS |= {"sum": "Σ", "grad": "∇", "eps": "ε"}
SIGN = re.compile(r"<=|>=|->|(?<=\^)\*|(?<![A-Za-z])[A-Za-z]+")


@cache
def _precedence(item: Any) -> int:
    """The precedence that sympy gives an item, found for a product of matrices without multiplying it out.

    To find the sign of such a product, sympy would multiply it out.
    """
    if isinstance(item, sp.MatMul):
        factor = item.args[0]
        return PRECEDENCE["Add" if factor.is_Number and factor.is_negative else "Mul"]
    return precedence(item)


class _Plain(StrPrinter):
    """sympy's one-line printer with Greek letters, and sums that begin with a positive term."""

    def parenthesize(self, item, level, strict=False):
        own, text = _precedence(item), self._print(item)
        return f"({text})" if own < level or (own == level and not strict) else text

    def _print_Pi(self, expr):
        return "π"

    def _print_Add(self, expr, order=None):
        text = ""
        for minus, term in signed_terms(expr):
            text += (" - " if minus else " + " if text else "") + self.parenthesize(term, PRECEDENCE["Add"])
        return text

    _print_MatAdd = _print_Add

    def _print_MatMul(self, expr):
        factor, matrix = expr.as_coeff_mmul()
        product = matrix.args if isinstance(matrix, sp.MatMul) else (matrix,)
        parts = product if factor == 1 else (factor, *product)
        return "*".join(self.parenthesize(part, PRECEDENCE["Mul"]) for part in parts)

    def _print_Transpose(self, expr):
        return self.parenthesize(expr.arg, PRECEDENCE["Pow"]) + "ᵀ"

    def _print_Symbol(self, expr):
        return symbol_text(expr)

    _print_MatrixSymbol = _print_Symbol


@cache
def signed_terms(total: Any) -> tuple[tuple[bool, Any], ...]:
    """The terms of a sum in the order in which they are written, positive terms first.

    Each term is paired with whether it is subtracted.
    """
    first, *others = sorted(total.args, key=lambda term: (_negative(term), not isinstance(term, sp.Identity)))
    return (False, first), *((minus := _negative(term), -term if minus else term) for term in others)


def symbol_text(symbol: Any) -> str:
    """A symbol's name with its Greek letters; for example eta_l is η_l, and r^{(k)} is r^(k)."""
    name, mark, rest = str(symbol.name).partition("_")
    return (GREEK.get(name, name) + mark + rest).replace("^{(", "^(").replace(")}", ")")


# without `typed`, 1 and 1.0 would share an entry of the cache, although the two numbers are written differently
@lru_cache(maxsize=None, typed=True)
def plain(expression: Any) -> str:
    """A sympy expression as text on one line, such as 8·sqrt(n)·r_0/(λ·sqrt(m))."""
    text = _Plain({"order": "none"}).doprint(sp.sympify(expression))
    return text.replace("**", "^").replace("*", "·")


def typed(text: str) -> str:
    """A formula of plain text, with mathematical symbols: "lambda_min(H_inf) <= eta" becomes λ_min(H_∞) ≤ η."""
    return SIGN.sub(lambda match: SIGNS.get(match[0]) or GREEK.get(match[0], match[0]), text)


def left_out(expression: Any) -> str:
    """The text that is shown in place of a formula that is too long to read; empty if the formula is short enough."""
    length = len(plain(expression))
    return f"a formula of {length} characters, which ntkfl show --tex prints" if length > LONGEST else ""


def case_text(case: dict) -> str:
    """A case in one line: its family and seed, followed by its numbers."""
    rest = dict(case)
    where = [str(rest.pop("cases"))] if "cases" in rest else []
    where += [f"seed {rest.pop('case_seed')}"] if "case_seed" in rest else []
    facts = ", ".join(
        f"{name} {value:.6g}" if isinstance(value, float) else f"{name} {value}" for name, value in rest.items()
    )
    return ": ".join(part for part in (", ".join(where), facts) if part)


def claim_lines(statement: Statement, form: Form) -> list[str]:
    """The claim of one form, one line for each part, then its failure probability and its premise if it has them."""
    formula, relation, lefts = statement.forms[form], RELATION[statement.kind], statement.left_formulas(form)
    parts, measured = formula.parts, "exponent" if statement.kind is Kind.RATE else "left"
    lines = []
    for number, part in enumerate(parts, 1):
        left = typed(lefts[number - 1]) if lefts else measured + (f" {number}" if len(parts) > 1 else "")
        below = f"{plain(formula.lower)} ≤ " if formula.lower is not None else ""
        lines.append(f"{below}{left} {relation} {left_out(part) or plain(part)}")
    if formula.failure is not None:
        lines.append(f"except with probability at most {plain(formula.failure)}")
    premise = (formula.premise or {}).items()
    return lines + [f"asks for {plain(symbol)} of the order {plain(value)}" for symbol, value in premise]


def _negative(term: Any) -> bool:
    factor = term.as_coeff_mmul()[0] if isinstance(term, sp.MatrixExpr) else term
    return bool(factor.could_extract_minus_sign())
