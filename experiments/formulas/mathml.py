"""Claims of statements as MathML, which browsers draw and screen readers read without any script.

A form of a statement is one version of its claim, such as the version that a paper prints.
"""

import math
import re
from collections import Counter
from collections.abc import Iterator, Sequence
from functools import cache
from html import unescape
from xml.etree import ElementTree

import sympy as sp
from latex2mathml.converter import convert_to_element
from markupsafe import Markup

from bounds import Form, Formula, Kind, Statement
from experiments.formulas.breaking import pieces
from experiments.formulas.latex import in_parentheses, latex, terms, typed
from verification.plain_text import RELATION, claim_lines, left_out, plain

LONG = 20  # a matrix that is repeated gets a name if its text has more than this many characters
REPEATED = 14  # in a long formula, a repeated part gets a name if it is at least about this many characters wide
NAME = "M"


def abbreviated(formula: sp.Basic) -> tuple[sp.Basic, list[tuple[sp.Basic, sp.Basic]]]:
    """The formula with a symbol in place of a long matrix, and a list of this symbol and the matrix.

    The matrix is repeated, or raised to a power. The list is empty if no matrix is replaced.
    """
    product = _worth_a_name(formula)
    if product is None or any(symbol.name == NAME for symbol in formula.free_symbols):
        return formula, []
    symbol = sp.MatrixSymbol(NAME, *product.shape)
    return formula.xreplace({product: symbol, _transposed(product): symbol.T}), [(symbol, product)]


Names = list[tuple[sp.Basic, sp.Basic]]  # symbols, and what each stands for


def named(formula: sp.Tuple, others: Sequence[sp.Basic] = (), earlier: Names | None = None) -> tuple[sp.Tuple, Names]:
    """The formulas with symbols in place of long parts, and a list of these symbols with what each stands for.

    A long part gets a symbol if it is repeated, is the base of a matrix power, or stands in a denominator.

    `others` are formulas that are shown beside these, and `earlier` are the symbols that were introduced in them. No
    symbol gets a second meaning.
    """
    earlier = earlier or []
    seen: Counter[sp.Basic] = Counter()
    below: set[sp.Basic] = set()  # the bases of negative powers, which stand in denominators
    inner_first: dict[sp.Basic, None] = {}

    def visit(node: sp.Basic) -> None:
        seen[node] += 1
        if isinstance(node, sp.MatPow):
            seen[node.base] += 1
        elif isinstance(node, sp.Pow) and node.exp.is_negative:
            below.add(node.base)
        if node not in inner_first and node.args:
            for part in node.args:
                visit(part)
            inner_first[node] = None

    visit(formula)
    taken = {symbol.name.partition("_")[0] for shown in (formula, *others) for symbol in shown.free_symbols}
    small, large = (next(x for x in letters if x not in taken) for letters in ("abcdefghpquv", "MABCEFGPQSTUVW"))
    written: dict[sp.Basic, sp.Basic] = {}
    known, names = {meaning: symbol for symbol, meaning in earlier}, Names()
    for node in inner_first:
        meaning = node.xreplace(written)
        if width(latex(meaning)) >= (REPEATED if seen[node] > 1 else NARROWEST if node in below else math.inf):
            matrix = isinstance(node, sp.MatrixExpr)
            number = sum(isinstance(other, sp.MatrixSymbol) == matrix for other in known.values()) + 1
            new = sp.MatrixSymbol(f"{large}_{number}", *node.shape) if matrix else sp.Symbol(f"{small}_{number}")
            written[node] = symbol = known.setdefault(meaning, new)
            names.append((symbol, meaning))
    return formula.xreplace(written), names


def _worth_a_name(formula: sp.Basic) -> sp.Basic | None:
    nodes = list(sp.preorder_traversal(formula))
    powers = [node.base for node in nodes if isinstance(node, sp.MatPow) and node.exp.is_Symbol]
    seen = Counter(node for node in nodes if isinstance(node, sp.MatAdd))
    twice = _twice(seen)
    for candidates in (powers, twice):
        long = [node for node in candidates if isinstance(node, sp.MatAdd) and len(plain(node)) > LONG]
        if long:
            return min(long, key=_transposes)
    return None


def _twice(seen: Counter[sp.Basic]) -> list[sp.Basic]:
    """The matrices that occur twice, if transposes are counted too.

    Only matrices with equal symbols are transposed to compare them, since transposing is slow.
    """
    alike = Counter(map(_symbols, seen))
    return [
        node
        for node, times in seen.items()
        if times > 1 or (alike[_symbols(node)] > 1 and times + seen[_transposed(node)] > 1)
    ]


def _symbols(matrix: sp.Basic) -> frozenset[tuple[sp.Basic, int]]:
    """The number of occurrences of each symbol in a matrix, which is the same for the transpose."""
    return frozenset(Counter(node for node in sp.preorder_traversal(matrix) if node.is_symbol).items())


@cache
def _transposed(matrix: sp.Basic) -> sp.Basic:
    return sp.Transpose(matrix).doit()


def _transposes(matrix: sp.Basic) -> int:
    """The number of transposes in the text of a matrix.

    Of a matrix and its transpose, the one with fewer transposes gets the name.
    """
    return sum(isinstance(node, sp.Transpose) for node in sp.preorder_traversal(matrix))


# A formula that is wider than about this many characters may get names for its long parts. The formula gets such names
# if it must be shown whole, or if a piece of the formula is too wide for a phone.
BULKY = 100
WIDEST = 44  # a sum that is wider than about this many characters is broken before its terms
NARROWEST = 30  # the width of a row on a phone, in characters, roughly; a wider row may continue in the next line
# a piece wider than about this many characters does not fit a phone, unless its letters are too small to read
SCROLLS = 60
# if a piece of the rows is wider than this many characters, the rows get this class
SIZES = ((48, "widest"), (42, "wide"))
SIGNS = {"≤": r"\le", "≥": r"\ge", "=": "="}

# latex2mathml does not know these commands, and would print their names
SIZED_BAR = re.compile(r"(?P<size>\\(?:[bB]igg?[lr]|left|right))\s*\\[lr](?P<bar>[vV]ert)")
BARS = re.compile(
    # brackets whose size fits their content, braces that are shown, and braces that group
    r"\\(?:left|right)\s*\\?\S|\\[{}|]|[{}]"
    r"|\\(?:[bB]igg?(?P<sized>[lr])\s*\\?\||(?P<named>[lr])[vV]ert)|(?P<typed>\|)"
)

Element = ElementTree.Element


def mathml(text: str, display: str = "inline") -> Markup:
    """LaTeX as MathML, in which all characters of the LaTeX are text and never markup.

    `display` is "inline", or "block" for a formula of its own.
    """
    return _markup(_element(text, display))


def _markup(math: Element) -> Markup:
    return Markup(ElementTree.tostring(math, encoding="unicode"))


def claims(statement: Statement, form: Form) -> list[Markup]:
    """The claim of a form, with one formula for each part of the claim: left side, relation and right side."""
    shown = zip(claim_rows(statement, form), claim_lines(statement, form), strict=False)
    return [flowing(rows, alt) for rows, alt in shown]


def flowing(rows: Sequence[str], alt: str = "") -> Markup:
    """Rows of LaTeX as MathML, each as several formulas, since browsers break lines only between formulas.

    If a piece stays wider than a phone, the rows get a class by which pages draw them smaller. A style attribute would
    do that too, but the reports allow no style attributes.
    """
    label = Markup(' role="math" aria-label="{}"').format(alt) if alt else ""
    cut = [pieces(row, width, NARROWEST) for row in rows]
    lines = [
        Markup("<wbr>").join(_piece(text, bool(i or j)) for j, text in enumerate(row)) for i, row in enumerate(cut)
    ]
    inside = Markup("").join(Markup("<div>{}</div>").format(line) for line in lines)
    widest = max((width(text) for row in cut for text in row), default=0)
    size = next((f" {name}" for most, name in SIZES if widest > most), "")
    return Markup('<div class="rows{}"{}>{}</div>').format(size, label, inside)


def _piece(text: str, goes_on: bool) -> Markup:
    """A piece of a formula.

    If the piece continues a line, the space after its first sign is the same as in the whole formula.
    """
    math = _element(text)
    math.set("displaystyle", "true")
    first = next(node for node in math.iter() if not len(node))
    if goes_on and first.tag == "mo" and first.text in ("+", "−", "=", "≤", "≥"):
        first.set("form", "infix")
    return _markup(math)


def claim_rows(statement: Statement, form: Form, whole: bool = False) -> list[list[str]]:
    """The claim of a form as LaTeX, with a list of rows for each part.

    Right sides that are too long are left out unless `whole`.
    """
    formula, lefts = statement.forms[form], statement.left_formulas(form)
    names = Names()
    return [_claim(statement.kind, formula, lefts, number, whole, names) for number in range(len(formula.parts))]


def failure(formula: Formula) -> Markup | None:
    """The probability with which a form may fail, or None."""
    return None if formula.failure is None else inline(formula.failure)


def premise(formula: Formula) -> list[tuple[Markup, Markup]]:
    """What a form requires before it applies: a symbol, and the order of magnitude that it must have."""
    return [(inline(symbol), inline(value)) for symbol, value in (formula.premise or {}).items()]


def inline(value: sp.Basic) -> Markup:
    """An expression or a symbol as MathML within a line of text."""
    return mathml(latex(sp.sympify(value)))


@cache
def width(text: str) -> float:
    """The rough width of LaTeX in characters."""
    return _width(_element(text))


def _claim(
    kind: Kind, formula: Formula, lefts: Sequence[str], number: int, everything: bool, earlier: Names
) -> list[str]:
    """The rows of one part of a claim, if possible no wider than a page.

    The last rows may explain new symbols, which are also added to `earlier`.
    """
    lower = () if formula.lower is None else (formula.lower,)
    whole = sp.Tuple(*lower, formula.parts[number])
    left = f"{{{typed(lefts[number])}}}" if lefts else _named(kind, number if len(formula.parts) > 1 else None)
    relation = " " + SIGNS[RELATION[kind][0]] + (r" \text{constant} \cdot " if kind is Kind.ORDER else " ")
    if (text := left_out(whole[-1])) and not everything:
        return [*_lower(whole), left + relation + rf"\text{{ {text}}}"]
    one_row = " ".join([*_lower(whole), left + relation + _last(kind, whole)])
    if width(one_row) <= WIDEST:
        return [one_row]
    bulky = width(one_row) > BULKY and (everything or max(map(width, pieces(one_row, width, NARROWEST))) > SCROLLS)
    whole, names = named(whole, formula.parts, earlier) if bulky else abbreviated(whole)
    earlier += names if bulky else []
    words = [r"\text{where }", *[""] * len(names)]
    where = [f"{word} {latex(name)} = {latex(meaning)}" for word, (name, meaning) in zip(words, names, strict=False)]
    if lower:
        below, sign = _lower(whole)
        return [below, sign + left + relation + _last(kind, whole), *where]
    rows = [_last(kind, whole)] if kind is Kind.ORDER else filled(terms(whole[-1]), WIDEST)
    if width(left + relation + rows[0]) > WIDEST and lefts:
        return [left, relation + rows[0], *rows[1:], *where]
    return [left + relation + rows[0], *rows[1:], *where]


def _named(kind: Kind, number: int | None) -> str:
    """The word for a left side that has no formula."""
    name = rf"\text{{{'exponent' if kind is Kind.RATE else 'left'}}}"
    return name if number is None else f"{name}_{{{number + 1}}}"


def _lower(whole: sp.Tuple) -> list[str]:
    """The lower end of a two-sided claim, and the sign after it."""
    return [latex(whole[0]), r"\le "] if len(whole) > 1 else []


def _last(kind: Kind, whole: sp.Tuple) -> str:
    text = latex(whole[-1])
    return in_parentheses(text) if kind is Kind.ORDER and isinstance(whole[-1], sp.Add) else text


def filled(parts: Sequence[str], room: float) -> list[str]:
    """Rows of a formula, each with as many of the parts as fit."""
    rows = [parts[0]]
    for part in parts[1:]:
        if width(f"{rows[-1]} {part}") > room:
            rows.append(part)
        else:
            rows[-1] += f" {part}"
    return rows


def _element(text: str, display: str = "inline") -> Element:
    """The MathML element of LaTeX.

    latex2mathml writes character references, which would be escaped again; they are replaced by their characters.
    """
    text = SIZED_BAR.sub(lambda bar: bar["size"] + ("|" if bar["bar"] == "vert" else r"\|"), text)
    math = convert_to_element(text, display=display)
    for node in math.iter():
        node.text = unescape(node.text) if node.text else None
        if node.tag == "mtable":
            node.set("displaystyle", "true")
    _pair_bars(math, text)
    return math


def _pair_bars(math: Element, text: str) -> None:
    """Mark bars of norms as opening or closing.

    Around a bar that is not marked, browsers set space, as they do around a relation.
    """
    bars = [node for node in math.iter("mo") if node.text in ("|", "‖") and "form" not in node.attrib]
    forms = list(_bar_forms(text))
    if len(bars) == len(forms):
        for bar, form in zip(bars, forms, strict=True):
            bar.attrib |= {"form": form, "fence": "true", "stretchy": bar.get("stretchy") or "false"}


def _bar_forms(text: str) -> Iterator[str]:
    """Whether each bar of LaTeX opens or closes, according to its command.

    A typed bar is the character | without a command. Of the typed bars within the same braces, the first one opens, the
    second one closes, and so on in turn.
    """
    depth, opened = 0, set[int]()
    for token in BARS.finditer(text):
        side = token["sized"] or token["named"]
        if token[0] in ("{", "}"):
            depth += 1 if token[0] == "{" else -1
        elif token["typed"]:
            side = "r" if depth in opened else "l"
            opened ^= {depth}
        if side:
            yield "prefix" if side == "l" else "postfix"


def _width(node: Element) -> float:
    parts = [_width(child) for child in node]
    if node.tag in ("mfrac", "mtable"):
        return max(parts)
    if node.tag in ("msub", "msup", "msubsup"):
        return parts[0] + 0.7 * max(parts[1:])
    relation = 2 if node.tag == "mo" and node.text in ("+", "−", "=", "≤", "≥") else 0
    return sum(parts) + len(node.text or "") + relation + (node.tag == "msqrt")
