"""A statement as LaTeX for a paper: a theorem for each form, and its recorded outcome."""

import re

import sympy as sp
from sympy.printing.pretty.pretty_symbology import greek_unicode

from bounds import Form, Outcome, Statement
from bounds.evidence import evidence_text
from experiments.formulas.latex import GREEK, latex
from experiments.formulas.mathml import claim_rows
from experiments.formulas.prose import prose
from verification.findings.findings_page import sentence
from verification.verdict_page import FORM_MEANING, nature_text

PREAMBLE = (
    r"% needs \usepackage{amsmath,amssymb,amsthm}, \newtheorem{theorem}{Theorem} and \newtheorem*{remark}{Remark}"
)
SIGNS = {"≤": r"\le", "≥": r"\ge", "→": r"\to", "±": r"\pm", "∞": r"\infty", "√": r"\surd"}
SIGNS |= {sign: GREEK[name] for name, sign in greek_unicode.items()}
MARKS = {"\\": r"\textbackslash{}", "^": r"\^{}", "~": r"\~{}", "|": r"\textbar{}", "<": r"\textless{}"}
MARKS |= {">": r"\textgreater{}", '"': "''"} | {sign: rf"\{sign}" for sign in "#$%&_{}"}
MARKS |= {sign: MARKS.get(sign, sign) + r"\allowbreak{}" for sign in "/#"}  # places where a path may break


def as_tex(statement: Statement) -> str:
    """A theorem for each form, with its hypotheses, and below it a remark with its recorded outcome and evidence."""
    return "\n\n".join([PREAMBLE, *("\n".join(_theorem(statement, form)) for form in statement.forms)])


def text(plain: str) -> str:
    """Plain text for LaTeX: Greek letters and signs become formulas, special characters are escaped."""
    return "".join(map(_sign, prose(plain)))


def _sign(sign: str) -> str:
    if sign.isascii():
        return MARKS.get(sign, sign)
    if command := SIGNS.get(sign):
        return f"${command}$"
    return sign if re.match(r"[\wÀ-ž]", sign) else "?"


def _theorem(statement: Statement, form: Form) -> list[str]:
    claim = statement.forms[form]
    lines = [rf"\begin{{theorem}}[{{{text(statement.title)}; {text(statement.id)}, {FORM_MEANING[form]}}}]"]
    if hypotheses := statement.required(form):
        items = [rf"\item {text(hypothesis.says)}" for hypothesis in hypotheses]
        lines += ["Suppose that", r"\begin{itemize}", *items, r"\end{itemize}"]
    may_fail = (
        "" if claim.failure is None else f", except with probability at most ${latex(sp.sympify(claim.failure))}$"
    )
    lines.append(f"{'Then' if hypotheses else 'We have'}{may_fail}{',' if may_fail else ''}")
    for rows in claim_rows(statement, form, whole=True):
        first, *others = rows
        broken = [r"\begin{aligned}", rf"& {first}", *(rf"\\ & \qquad {row}" for row in others), r"\end{aligned}"]
        lines += [r"\[", *(broken if others else [first]), r"\]"]
    lines.append(r"\end{theorem}")
    outcome = "nobody has settled it" if claim.recorded is Outcome.OPEN else claim.recorded.value
    facts = [f"Recorded: {outcome}", nature_text(claim), f"evidence: {evidence_text(statement, form)}"]
    notes = ["; ".join(filter(None, facts)), f"left: {statement.says_left}", claim.note, claim.consequence]
    remarks = [text(sentence(note)) for note in (*notes, f"check: ntkfl verify {statement.id}") if note]
    return [*lines, r"\begin{remark}", *remarks, r"\end{remark}"]
