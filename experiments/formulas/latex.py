"""Formulas as LaTeX, as the papers write them: a product is one fraction, and all its roots are one root."""

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import sympy as sp
from sympy.printing.latex import LatexPrinter
from sympy.printing.pretty.pretty_symbology import greek_unicode

from verification.plain_text import signed_terms

HALF = sp.Rational(1, 2)
LONG = 100  # a fraction with a larger denominator is written as a decimal, if the decimal is finite
ZEROS = 5  # at least this many zeros in a number are written as a power of ten


@dataclass(frozen=True)
class Fraction:
    """A product as number · above · sqrt(root) / (below_number · below · sqrt(below_root)), negated if `negative`.

    A part that is absent is 1.
    """

    negative: bool
    number: sp.Rational
    above: tuple[sp.Basic, ...]
    root: sp.Basic
    below_number: sp.Rational
    below: tuple[sp.Basic, ...]
    below_root: sp.Basic


def fraction(value: sp.Basic) -> Fraction:
    """A product or a power as a fraction.

    For example, sqrt(2) sqrt(x)/2 becomes sqrt(x/2), and a factor 4 + 8 x becomes 4 (1 + 2 x).
    """
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
    # a number under the root, here `under`, cancels a factor of the number in the denominator
    if under != 1 and lower % under == 0:
        lower /= under
        rest = [part for part in root if not part.is_Rational]
        drawn = sp.Mul(sp.Mul(*rest), 1 / under, evaluate=False) if rest else sp.Integer(1)
        below_root += [] if rest else [under]
    return Fraction(bool(number < 0), upper, tuple(above), drawn, lower, tuple(below), sp.Mul(*below_root))


def in_order(factors: Iterable[sp.Basic]) -> list[sp.Basic]:
    """The factors in the papers' order: Greek letters, then Latin letters, then other factors as they are."""
    return sorted(factors, key=_rank)


def decimal(value: sp.Rational) -> str:
    """The digits of a whole number, or of a finite decimal whose denominator is large; otherwise an empty text."""
    if value.is_Integer:
        return str(value.p)
    places = next((k for k in range(1, 19) if 10**k % value.q == 0), None)
    if value.q <= LONG or value.p == 1 or places is None:
        return ""
    digits = str(value.p * 10**places // value.q).rjust(places + 1, "0")
    return f"{digits[:-places]}.{digits[-places:]}"


def powers_of_ten(value: sp.Rational) -> tuple[sp.Rational, int]:
    """Mantissa and exponent of 10 of a number with many zeros; for any other number, the number itself and 0."""
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


SUBSCRIPTS = {"inf": r"\infty", "perp": r"\bot", "eps": r"\varepsilon"}
INDICES = ("ij",)  # these subscripts are two indices; other subscripts of several letters are words
GREEK = {name: rf"\{name}" for name in (*greek_unicode, "varphi")} | {"epsilon": r"\varepsilon", "lamda": r"\lambda"}
SPECIAL = {"\\": r"\backslash", "~": r"\sim", "^": r"\wedge"}
TOKEN = re.compile(r"[A-Za-z]+|\d+|.")
OPERATORS = {name: rf"\{name}" for name in ("max", "min", "sup", "sum", "log", "lim", "otimes")} | {
    "->": r"\to",
    "inf": r"\infty",
    "<=": r"\leq",
    ">=": r"\geq",
    "E": r"\mathbb{E}",
    "grad": r"\nabla",
    "eps": r"\varepsilon",
}
TYPED = re.compile(r"[a-z]{2,}(?:-[a-z0-9]+)+|[A-Za-z](?:~|\^(?=[,)]))|[A-Za-z]+|\d+|<=|>=|->|\S")
ACCENTS = {"~": "tilde", "^": "hat"}
WORDS = re.compile(r"\\text\{([^}]*)\} (?=\\text\{)\\text\{")
FUNCTIONS = (sp.log, sp.exp, sp.erf, sp.Max, sp.Min)


def latex(value: sp.Basic) -> str:
    """The LaTeX of a sympy expression, which may be a matrix expression."""
    return _Latex().doprint(value)


def terms(value: sp.Basic) -> list[str]:
    """The LaTeX of the terms of a sum with their signs (no plus before the first); any other formula is one term."""
    return _Latex().terms(value)


def typed(text: str) -> str:
    """The LaTeX of a formula in plain text, such as a statement's left side "max_r |u_r(t) - u_r(0)|".

    Words stay words, and the names of functions and sums become functions and sums. w~ and w^ are letters with an
    accent.
    """
    made = _typed(TYPED.findall(text))
    while (joined := WORDS.sub(r"\\text{\1 ", made)) != made:
        made = joined
    return re.sub(r"\\text\{([^}]* [^}]*|of|all|at|or|in)\}", r"\\text{ \1 }", made)


def _typed(parts: list[str], ends: str = "") -> str:
    """Remove all parts before the part that ends the group, and return the LaTeX of the removed parts."""
    made: list[str] = []
    while parts and parts[0] not in ends.split():
        part = parts.pop(0)
        if part in ("_", "^"):
            made.append(part + "{" + _script(parts) + "}")
        elif part == "sqrt" and parts[:1] == ["("]:
            made.append(rf"\sqrt{{{_group(parts, ')')}}}")
        elif part == "(" and ends == ")":
            parts.insert(0, part)
            made.append(f"({_group(parts, ends)})")
        elif part == "{":
            parts.insert(0, part)
            made.append(rf"\{{ {_group(parts, '}')} \}}")
        else:
            made.append(_typed_atom(part))
    return " ".join(made).replace(" _", "_").replace(" ^", "^").replace(" '", "'")


def _group(parts: list[str], end: str) -> str:
    """Remove the first bracket, its content and its closing bracket, and return the LaTeX of the content."""
    parts.pop(0)
    inside = _typed(parts, end)
    parts[:1] = []
    return inside


def _script(parts: list[str]) -> str:
    """Remove the index after _ or ^, which is one part or the parts in braces, and return its LaTeX."""
    if parts[0] == "{":
        return _group(parts, "}")
    part = parts.pop(0)
    return SUBSCRIPTS.get(part) or (r"\top" if part == "T" else _typed_atom(part))


def _typed_atom(part: str) -> str:
    if part in OPERATORS:
        return OPERATORS[part]
    if len(part) == 2 and part[1] in ACCENTS:
        return rf"\{ACCENTS[part[1]]}{{{part[0]}}}"
    if "-" in part[1:]:
        return rf"\text{{{part}}}"
    return _tokens(part) if part.isalnum() else part


def in_parentheses(text: str) -> str:
    """LaTeX in parentheses that are as high as it is."""
    return rf"\left({text}\right)"


def name(symbol: sp.Basic) -> str:
    """The LaTeX of a symbol, by its name.

    Greek letters, subscripts, primes and upper indices are set as such; several letters together stand upright.
    """
    text = str(symbol.name)
    if text.startswith("|"):
        return "{" + _tokens(text) + "}"
    text, _, upper = text.partition("^")
    base, _, lower = text.partition("_")
    below = SUBSCRIPTS.get(lower) or (lower if lower in INDICES else _tokens(lower.strip("{}")))
    above = "'" * base.count("'") or (f"^{{{_tokens(upper.strip('{}'))}}}" if upper else "")
    return _tokens(base.rstrip("'")) + (f"_{{{below}}}" if lower else "") + above


def _tokens(text: str) -> str:
    """The LaTeX of the words, numbers and signs of a text, in order."""
    return " ".join(
        GREEK.get(part) or (part if (len(part) == 1 and part.isalnum()) or part.isdigit() else _sign(part))
        for part in TOKEN.findall(text)
    )


def _sign(part: str) -> str:
    if part.isalpha():
        return rf"\text{{{part}}}"
    return SPECIAL.get(part) or (rf"\{part}" if part in "#$%&_{}" else part)


class _Latex(LatexPrinter):
    def __init__(self) -> None:
        super().__init__({"root_notation": False, "fold_frac_powers": True})

    def terms(self, total: sp.Basic) -> list[str]:
        if not isinstance(total, sp.Add | sp.MatAdd):
            return [self._print(total)]
        signed = [("-" if minus else "+", self._factor(term)) for minus, term in signed_terms(total)]
        return [text if not i and sign == "+" else f"{sign} {text}" for i, (sign, text) in enumerate(signed)]

    def _print_Add(self, expr: sp.Basic, order: object = None) -> str:
        return " ".join(self.terms(expr))

    _print_MatAdd = _print_Add

    def _print_Symbol(self, expr: sp.Basic, style: str = "plain") -> str:
        return name(expr)

    _print_MatrixSymbol = _print_Symbol

    def _print_Identity(self, expr: sp.Basic) -> str:
        return "I"

    def _print_Mul(self, expr: sp.Basic) -> str:
        parts = fraction(expr)
        above = self._row(parts.number, parts.above, parts.root)
        below = self._row(parts.below_number, parts.below, parts.below_root)
        size = above if below == "1" else rf"\frac{{{above}}}{{{below}}}"
        return f"- {size}" if parts.negative else size

    def _row(self, number: sp.Rational, factors: Sequence[sp.Basic], root: sp.Basic) -> str:
        """The LaTeX of a product: the number, the symbols, one root, then sums and functions; 1 for no factors."""
        pieces = [] if number == 1 else [self._print(number)]
        others = in_order(factors)
        if not pieces and root == 1 and len(others) == 1:
            return self._print(others[0])
        pieces += [self._factor(f) for f in others if not _comes_last(f)]
        pieces += [] if root == 1 else [rf"\sqrt{{{self._print(root)}}}"]
        pieces += [(r"\, " if pieces and _is_function(f) else "") + self._factor(f) for f in others if _comes_last(f)]
        return " ".join(pieces) or "1"

    def _factor(self, expr: sp.Basic) -> str:
        text = self._print(expr)
        return in_parentheses(text) if isinstance(expr, sp.Add | sp.MatAdd) else text

    def _print_MatMul(self, expr: sp.Basic) -> str:
        number, matrix = expr.as_coeff_mmul()
        product = matrix.args if isinstance(matrix, sp.MatMul) else (matrix,)
        lead = "" if number == 1 else "- " if number == -1 else self._factor(number) + " "
        return lead + " ".join(map(self._factor, product))

    def _print_Pow(self, expr: sp.Basic) -> str:
        base, exponent = expr.args
        if exponent == sp.Rational(1, 2):
            return rf"\sqrt{{{self._print(base)}}}"
        if exponent.could_extract_minus_sign() and not isinstance(expr, sp.MatPow):
            return self._print_Mul(expr)
        above, below = exponent.as_numer_denom()
        raised = self._print(above) + ("" if below == 1 else f"/{self._factor(below)}")
        if isinstance(base, FUNCTIONS):
            return self._function(base, f"^{{{raised}}}")
        return f"{self._base(base)}^{{{raised}}}"

    _print_MatPow = _print_Pow

    def _base(self, expr: sp.Basic) -> str:
        text = self._print(expr)
        simple = isinstance(expr, sp.Symbol | sp.MatrixSymbol | sp.Identity) or (expr.is_Integer and expr >= 0)
        return text if simple and "^" not in text and "'" not in text else in_parentheses(text)

    def _print_Transpose(self, expr: sp.Basic) -> str:
        if isinstance(expr.arg, sp.Inverse):
            return rf"{self._base(expr.arg.arg)}^{{-\top}}"
        return rf"{self._base(expr.arg)}^{{\top}}"

    def _print_Inverse(self, expr: sp.Basic) -> str:
        if isinstance(expr.arg, sp.Transpose):
            return rf"{self._base(expr.arg.arg)}^{{-\top}}"
        return rf"{self._base(expr.arg)}^{{-1}}"

    def _function(self, expr: sp.Basic, raised: str = "") -> str:
        inside = in_parentheses(", ".join(map(self._print, expr.args)))
        return rf"\text{{{type(expr).__name__.lower()}}}{raised}{inside}"

    _print_log = _print_exp = _print_erf = _print_Max = _print_Min = _function

    def _print_Trace(self, expr: sp.Basic) -> str:
        """The trace of a matrix; for a matrix of one entry, that entry."""
        inside = self._print(expr.arg)
        return inside if expr.arg.shape == (1, 1) else r"\text{tr}" + in_parentheses(inside)

    def _print_Abs(self, expr: sp.Basic, exp: object = None) -> str:
        return rf"\left|{self._print(expr.args[0])}\right|"

    def _print_Rational(self, expr: sp.Rational) -> str:
        """The LaTeX of a number: with a power of ten, as a decimal, or as a fraction.

        A number with many zeros has a power of ten. Whole numbers, and finite decimals whose denominator is large, are
        decimals.
        """
        if expr < 0:
            return f"- {self._print(-expr)}"
        ten, exponent = powers_of_ten(expr)
        if exponent:
            return ("" if ten == 1 else rf"{self._print(ten)} \cdot ") + f"10^{{{exponent}}}"
        return decimal(expr) or rf"\frac{{{expr.p}}}{{{expr.q}}}"

    _print_Integer = _print_Rational


def _is_function(factor: sp.Basic) -> bool:
    return isinstance(_base(factor), (*FUNCTIONS, sp.Abs, sp.Trace))


def _comes_last(factor: sp.Basic) -> bool:
    """Whether a factor is a sum or a function, or a power of a sum or a function."""
    return _is_function(factor) or isinstance(_base(factor), sp.Add)


def _base(factor: sp.Basic) -> sp.Basic:
    return factor.base if isinstance(factor, sp.Pow) else factor
