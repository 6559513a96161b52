"""A product in parts for printing: a number, the factors above and below the line, and one root for each."""

from collections.abc import Iterable
from dataclasses import dataclass

import sympy as sp
from sympy.printing.pretty.pretty_symbology import greek_unicode

HALF = sp.Rational(1, 2)
LONG = 100  # a larger denominator gives a decimal, if that is finite
ZEROS = 5  # this many zeros or more become a power of ten


@dataclass(frozen=True)
class Fraction:
    """number · above · sqrt(root) / (below_number · below · sqrt(below_root)), negated if `negative`; 1: absent."""

    negative: bool
    number: sp.Rational
    above: tuple[sp.Basic, ...]
    root: sp.Basic
    below_number: sp.Rational
    below: tuple[sp.Basic, ...]
    below_root: sp.Basic


def fraction(value: sp.Basic) -> Fraction:
    """A product, or a power, as a fraction: sqrt(2) sqrt(x)/2 is sqrt(x/2), and 4 + 8 x in a product is 4 (1 + 2 x)."""
    above: list[sp.Basic] = []
    below: list[sp.Basic] = []
    root: list[sp.Basic] = []
    below_root: list[sp.Basic] = []
    number: sp.Rational = sp.Integer(1)
    for factor in sp.Mul.make_args(value):
        base, exponent = (factor, sp.Integer(1)) if isinstance(factor, sp.exp) else factor.as_base_exp()
        inverse = bool(exponent.could_extract_minus_sign())
        power = -exponent if inverse else exponent
        if isinstance(base, sp.Add) and power == 1:
            content, rest = base.primitive()
            if content.is_Integer and content > 1:
                number, base = number * content**exponent, rest
        if factor.is_Rational:
            number *= factor
        elif power == HALF:
            (below_root if inverse else root).append(base)
        else:
            (below if inverse else above).append(base if power == 1 else sp.Pow(base, power, evaluate=False))
    size = abs(number)
    upper, lower = (size, sp.Integer(1)) if decimal(size) else (sp.Integer(size.p), sp.Integer(size.q))
    drawn = sp.Mul(*root)
    under = sp.Mul(*(part for part in root if part.is_Rational))
    if under != 1 and lower % under == 0:  # the number under the root cancels the number below the line
        lower /= under
        rest = [part for part in root if not part.is_Rational]
        drawn = sp.Mul(sp.Mul(*rest), 1 / under, evaluate=False) if rest else sp.Integer(1)
        below_root += [] if rest else [under]
    return Fraction(bool(number < 0), upper, tuple(above), drawn, lower, tuple(below), sp.Mul(*below_root))


def in_order(factors: Iterable[sp.Basic]) -> list[sp.Basic]:
    """Greek letters first, then Latin letters, as in the papers; then other factors in their order."""
    return sorted(factors, key=_rank)


def decimal(value: sp.Rational) -> str:
    """The digits of a whole number, or of a finite decimal with a long denominator; else nothing."""
    if value.is_Integer:
        return str(value.p)
    places = next((k for k in range(1, 19) if 10**k % value.q == 0), None)
    if value.q <= LONG or value.p == 1 or places is None:
        return ""
    digits = str(value.p * 10**places // value.q).rjust(places + 1, "0")
    return f"{digits[:-places]}.{digits[-places:]}"


def powers_of_ten(value: sp.Rational) -> tuple[sp.Rational, int]:
    """A number as (rest, exponent) of 10 if it has many zeros; otherwise with the exponent 0."""
    digits = str(value.p if value.is_Integer else value.q)
    zeros = len(digits) - len(digits.rstrip("0"))
    if zeros < ZEROS or not (value.is_Integer or value.q == 10**zeros):
        return value, 0
    exponent = zeros if value.is_Integer else -zeros
    return value / sp.Integer(10) ** exponent, exponent


def _rank(factor: sp.Basic) -> tuple[int, str]:
    name = str(getattr(factor.as_base_exp()[0], "name", ""))
    base = name.partition("_")[0]
    return (2, "") if not name else (int(base not in greek_unicode), name.lower())
