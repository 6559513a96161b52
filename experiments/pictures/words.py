"""The texts in the picture of a statement.

A form is one version of the statement's claim, such as the version that a paper prints. A knob is a setting that varies
from case to case, such as the width.
"""

import math
from collections.abc import Mapping, Sequence
from typing import Any

import sympy as sp

from bounds import Form, Kind, Statement
from bounds.symbols import GLOSSARY
from experiments.formulas.latex import latex, typed
from verification.case_points import STORED, CasePoints, Curve
from verification.compare import IDENTITIES
from verification.verdict_page import ratio_text

# the largest number of letters in the meaning of a knob; a longer meaning is replaced by the knob's symbol
WORDS_LETTERS = 48
LEFT_LETTERS = 34  # the left side of a claim is written beside an axis if it has at most this many letters
SYMBOLS = {"eta_local": "eta_l", "eta_global": "eta_g", "local_steps": "K", "rounds": "T", "width": "m"}


def ratio_word(statement: Statement) -> str:
    """The name of the ratio of the claim's two sides, in words."""
    if statement.kind in IDENTITIES:
        return "|left $-$ right| / scale"
    if statement.kind is Kind.TWO_SIDED:
        return "how near to an end (1: at it)"
    return "right/left" if statement.kind is Kind.LOWER else "left/right"


def sharpest(statement: Statement, seen: CasePoints) -> str:
    """The largest ratio of one form as text, which is empty if no ratio is finite."""
    finite = [ratio for ratio in seen.ratio if math.isfinite(ratio)]
    if not finite:
        return ""
    if statement.kind is Kind.RATE:
        return f"at most {ratio_text(max(finite), 3)} half-widths off"
    word = {Kind.TWO_SIDED: "ratio"}.get(statement.kind, ratio_word(statement))
    return f"largest {'difference' if statement.kind in IDENTITIES else word} {ratio_text(max(finite), 3)}"


def caption_of(statement: Statement, seen: Mapping[Form, CasePoints], seed: int) -> str:
    """The caption, which says what is drawn."""
    total = max(form_seen.cases for form_seen in seen.values())
    rows = max(
        len(form_seen.family) - sum(form_seen.families[at] == STORED for at in form_seen.family)
        for form_seen in seen.values()
    )
    parts = [f"{total} {'case' if total == 1 else 'cases'}" + (f", {rows} of them drawn" if rows < total else "")]
    parts[0] += f", from seed {seed}"
    if not any(form_seen.exponents for form_seen in seen.values()):
        places = [pair for form_seen in seen.values() for pair in zip(form_seen.x, form_seen.y, strict=True)]
        lost = sum(not all(map(math.isfinite, pair)) for pair in places)
        if lost:
            parts.append(f"{lost} with an infinite side are not drawn")
        if any(0 in (*form_seen.x, *form_seen.y) for form_seen in seen.values()):
            parts.append("a tick 0 on a logarithmic axis stands for exactly 0")
        if any(line.along != "size" for form_seen in seen.values() for line in form_seen.curves):
            parts.append("of a left side with many entries the sharpest is drawn")
        elif any(len(statement.forms[form].parts) > 1 for form in seen):
            parts.append("of several parts the sharpest is drawn")
    else:
        parts.append("bars: intervals and standard errors")
    return "; ".join(parts) + "."


def knob_words(statement: Statement, name: str) -> str:
    """The name of a knob in words, with the paper's symbol."""
    symbol = SYMBOLS.get(name, name)
    own = {str(s): (s, meaning) for s, meaning in statement.symbols.items()}
    known = {str(s): (s, meaning) for s, (_, meaning) in GLOSSARY.items()} | own
    if symbol not in known:
        return name.replace("_", " ")
    named, meaning = known[symbol]
    words = meaning.partition(",")[0].partition(";")[0]
    drawn_symbol = _math(named)
    return f"{words}, {drawn_symbol}" if len(words) <= WORDS_LETTERS else drawn_symbol


def short(name: str) -> str:
    """The symbol of a knob, or its name if it has no symbol."""
    symbol = SYMBOLS.get(name, name)
    glossary_symbol = next((s for s in GLOSSARY if str(s) == symbol), None)
    if glossary_symbol is not None:
        return _math(glossary_symbol)
    return _math(sp.Symbol(name)) if len(name) <= 6 else name.replace("_", " ")


def left_words(statement: Statement, form: Form) -> str:
    """The claim's left side as a formula, if it is a single formula and short enough for an axis; otherwise words."""
    formulas = statement.left_formulas(form)
    drawn_formula = _drawable(typed(formulas[0])) if len(formulas) == 1 and len(formulas[0]) <= LEFT_LETTERS else None
    return drawn_formula or "left side (measured)"


def _math(symbol: Any) -> str:
    """A symbol in matplotlib's mathematics, or its name if matplotlib cannot draw it."""
    return _drawable(latex(symbol)) or str(symbol)


def _drawable(text: str) -> str | None:
    """LaTeX in matplotlib's form; None if matplotlib cannot draw it."""
    from matplotlib.mathtext import MathTextParser

    # this letter is in the font itself, while \mathbb takes one from the font STIX
    text = text.replace(r"\mathbb{E}", r"\mathrm{𝔼}")
    try:
        MathTextParser("path").parse(f"${text}$")
    except ValueError:
        return None
    return f"${text}$"


def size_words(lines: Sequence[Curve]) -> str:
    """The smallest and the largest size of these curves, in words."""
    low, high = min(min(line.x) for line in lines), max(max(line.x) for line in lines)
    return f"{low:.3g} to {high:.3g}"
