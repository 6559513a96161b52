"""Formulas in plain text, such as notes, written with mathematical signs."""

import re

from sympy.printing.pretty.pretty_symbology import greek_unicode

GREEK = "alpha beta gamma delta epsilon eta kappa lambda mu nu xi pi rho sigma tau theta phi psi zeta".split()
GREEK += "Delta Gamma Lambda Theta".split()
LETTERS = {name: greek_unicode[name] for name in GREEK} | {"eps": "ε", "infinity": "∞"}
SIGNS = {"<=": "≤", ">=": "≥", "->": "→", "+-": "±"}
WORDS = re.compile(
    rf"(?<![A-Za-z\\])({'|'.join(LETTERS)})(?![A-Za-z])|sqrt(?=\(|\d)|" + "|".join(map(re.escape, SIGNS))
)
SCRIPTS = re.compile(
    r"(?:(?<![\w$^])([^\W\d_])|([)|]))(?:_(\{[^}]*\}|[^\W_]+))?(?:\^(\([^()]*\)|\{[^}]*\}|-?(?:\d+(?:[./]\d+)*|\.\d+)|T))?(?!\w)"
)


def prose(text: str) -> str:
    """The text with signs for Greek letters, comparisons and roots: "lambda <= sqrt(n)" becomes "λ ≤ √(n)"."""
    return WORDS.sub(lambda match: LETTERS.get(match[0]) or SIGNS.get(match[0], "√"), text)


def mathtext(text: str) -> str:
    """Plain text with its indices and powers in matplotlib's mathematics: "η_l q" is "$η_{l}$ q"."""
    return SCRIPTS.sub(_scripts, text.replace("$", r"\$"))


def _scripts(match: re.Match[str]) -> str:
    letter, closing, below, above = match.groups()
    base = letter or closing
    if not (below or above):
        return base
    below = (below or "").strip("{}").replace("inf", r"\infty")
    words = rf"\mathrm{{{below}}}" if below.isalpha() and below.isascii() and len(below) > 1 else below
    raised = power(above or "")
    return f"${base}" + (f"_{{{words}}}" if words else "") + (f"^{{{raised}}}" if raised else "") + "$"


def power(above: str) -> str:
    """An upper index without its outer brackets: (k+1) becomes k+1, and {(k)} becomes (k)."""
    return above[1:-1] if above[:1] in ("(", "{") else above
