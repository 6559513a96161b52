"""A statement as LaTeX for a paper: a theorem for each of its forms, with the recorded outcome.

A form of a statement is one version of its claim, such as the version that a paper prints.
"""

import re
from collections.abc import Iterator
from itertools import groupby

import sympy as sp
from sympy.printing.pretty.pretty_symbology import greek_unicode

from bounds import Form, Outcome, Statement
from bounds.evidence import evidence_text
from bounds.formula import PREMISES
from experiments.formulas.breaking import pieces
from experiments.formulas.latex import GREEK, latex, name
from experiments.formulas.mathml import claim_rows, filled, width
from experiments.formulas.prose import SCRIPTS, power, prose
from verification.findings.findings_page import sentence
from verification.verdict_page import FORM_MEANING, nature_text, symbols

PACKAGES = r"""\usepackage{amsmath,amssymb,amsthm}
\newtheorem{theorem}{Theorem}
\theoremstyle{remark}\newtheorem*{remark}{Remark}
"""
PREAMBLE = "".join(
    f"{line}\n" for line in ("% The document needs before its beginning:", *(f"% {x}" for x in PACKAGES.splitlines()))
)
ROOM = 52  # the rough width in characters of a row of a formula
SIGNS = {"≤": r"\le", "≥": r"\ge", "→": r"\to", "±": r"\pm", "∞": r"\infty", "√": r"\surd", "∈": r"\in"}
SIGNS |= {"<": "<", ">": ">", "|": r"\vert"} | {sign: GREEK[word] for word, sign in greek_unicode.items()}
MARKS = {"\\": r"\textbackslash{}", "^": r"\^{}", "~": r"\~{}", '"': "''"} | {sign: rf"\{sign}" for sign in "#$%&_{}"}
MARKS |= {sign: MARKS.get(sign, sign) + r"\allowbreak{}" for sign in "/#_"}  # a path may be broken after these signs
TEN = r"(?<![\w.])(?P<digits>\d+(?:\.\d+)?)e(?P<ten>[+-]?\d+)(?!\w)"
EXTREME = r"\b(?P<extreme>max|min|sup|sum|lim)_(?P<under>\{[^}]*\}|[^\W_]+)"
ACCENT = r"(?<![\w])(?P<letter>[A-Za-z])~"
MINUS = "(?<= )(?P<minus>-)(?= )"
FUNCTION = re.compile(r"\\text\{(log|exp|erf|max|min|tr|Pr|Var|rank|range)\}")
MATHS = re.compile("|".join((TEN, EXTREME, ACCENT, MINUS, SCRIPTS.pattern)))


def as_tex(statement: Statement) -> str:
    """A theorem for each form with its hypotheses, and below it a remark with the recorded outcome and the evidence."""
    return "\n\n".join([PREAMBLE, *("\n".join(_theorem(statement, form)) for form in statement.forms)])


def text(plain: str) -> str:
    """Plain text as LaTeX.

    Letters with indices, Greek letters and mathematical signs become formulas, and other signs are escaped.
    """
    parts = (list(part) for _, part in groupby(_parts(prose(plain)), key=lambda part: part[0]))
    return "".join(f"${' '.join(t for _, t in part)}$" if part[0][0] else "".join(t for _, t in part) for part in parts)


def _parts(plain: str) -> Iterator[tuple[bool, str]]:
    """The parts of a text in order: for each, whether it is a formula, and its LaTeX."""
    at = 0
    for match in MATHS.finditer(plain):
        if formula := _formula(match):
            yield from map(_sign, plain[at : match.start()])
            yield True, formula
            at = match.end()
    yield from map(_sign, plain[at:])


def _formula(match: re.Match[str]) -> str:
    """The LaTeX of a power of ten, an extremum with index, a minus, an accent or a letter with indices; or empty."""
    *_, letter, closing, below, above = match.groups()
    if match["digits"]:
        return ("" if match["digits"] == "1" else rf"{match['digits']} \cdot ") + f"10^{{{int(match['ten'])}}}"
    if match["extreme"]:
        return rf"\{match['extreme']}_{{{_signs(match['under'].strip('{}'))}}}"
    if match["letter"]:
        return rf"\tilde{{{match['letter']}}}"
    if match["minus"]:
        return "-"
    if not (below or above):
        return ""
    below = (below or "").strip("{}")
    word = rf"\mathrm{{{below}}}" if below.isalpha() and below.isascii() and len(below) > 1 else _signs(below)
    index = r"\infty" if below == "inf" else word
    raised = r"\top" if above == "T" else _signs(power(above or ""))
    return _signs(letter or closing) + (f"_{{{index}}}" if below else "") + (f"^{{{raised}}}" if above else "")


def _signs(formula: str) -> str:
    return "".join(f"{SIGNS[sign]} " if sign in SIGNS else sign for sign in formula).strip()


def _sign(sign: str) -> tuple[bool, str]:
    if command := SIGNS.get(sign):
        return True, command
    if sign.isascii():
        return False, MARKS.get(sign, sign)
    return False, sign if re.match(r"[\wÀ-ž]", sign) else "?"


def _theorem(statement: Statement, form: Form) -> list[str]:
    claim = statement.forms[form]
    lines = [rf"\begin{{theorem}}[{{{text(statement.title)}; {text(statement.id)}, {FORM_MEANING[form]}}}]\sloppy"]
    if hypotheses := statement.required(form):
        items = [rf"\item {text(hypothesis.says)}" for hypothesis in hypotheses]
        lines += ["Suppose that", r"\begin{itemize}", *items, r"\end{itemize}"]
    for symbol, order in (claim.premise or {}).items():
        extreme = "least" if PREMISES[str(symbol)][1] > 0 else "most"
        lines.append(f"Let ${latex(symbol)}$ be at {extreme} of the order ${_inline(order)}$.")
    may_fail = "" if claim.failure is None else f", except with probability at most ${_inline(claim.failure)}$,"
    lines.append(f"{'Then' if hypotheses else 'We have'}{may_fail}")
    lines += [*_display(claim_rows(statement, form, whole=True)), r"\end{theorem}"]
    outcome = "nobody has settled it" if claim.recorded is Outcome.OPEN else claim.recorded.value
    facts = [f"recorded: {outcome}", nature_text(claim), f"evidence: {evidence_text(statement, form)}"]
    facts += [f"left side: {statement.says_left}", claim.note]
    facts += [f"consequence: {claim.consequence}"] if claim.consequence else []
    remarks = [text(sentence(fact if fact == claim.note else fact[0].upper() + fact[1:])) for fact in facts if fact]
    remarks += [*_symbols(statement, form), rf"Check: \texttt{{ntkfl verify {text(statement.id)}}}."]
    return [*lines, r"\begin{remark}\sloppy", *remarks, r"\end{remark}"]


def _symbols(statement: Statement, form: Form) -> list[str]:
    """A sentence with the meanings of a form's symbols, if there are any."""
    known = [f"${', '.join(map(name, group))}$: {text(meaning)}" for group, meaning in symbols(statement, form)]
    return [f"Symbols: {'; '.join(known)}."] if known else []


def _inline(value: sp.Basic) -> str:
    return _upright(latex(sp.sympify(value)))


def _upright(formula: str) -> str:
    """The formula with functions as operators, and with upright words although the text of a theorem is slanted."""
    return FUNCTION.sub(r"\\operatorname{\1}", formula).replace(r"\text{", r"\textup{")


def _display(parts: list[list[str]]) -> list[str]:
    """The parts of a claim as a displayed formula.

    Rows that are too wide are broken, and a page may end between rows.
    """
    rows = [[_upright(row) for long in part for row in filled(pieces(long, width, ROOM), ROOM)] for part in parts]
    if len(rows) == len(rows[0]) == 1:
        return [r"\[", *rows[0], r"\]"]
    lines = [" \\\\\n& \\qquad {} ".join([f"& {first}", *others]) for first, *others in rows]
    return [r"{\allowdisplaybreaks", r"\begin{align*}", " \\\\[1ex]\n".join(lines), r"\end{align*}}"]
