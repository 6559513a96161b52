"""Formulas in the plain text of notes, with the mathematical signs that a page can show."""

import re

from sympy.printing.pretty.pretty_symbology import greek_unicode

GREEK = "alpha beta gamma delta epsilon eta kappa lambda mu nu xi pi rho sigma Delta Gamma".split()
LETTERS = {name: greek_unicode[name] for name in GREEK} | {"eps": "ε", "infinity": "∞"}
SIGNS = {"<=": "≤", ">=": "≥", "->": "→", "+-": "±"}
WORDS = re.compile(
    rf"(?<![A-Za-z\\])({'|'.join(LETTERS)})(?![A-Za-z])|sqrt(?=\(|\d)|" + "|".join(map(re.escape, SIGNS))
)
SCRIPTS = re.compile(
    r"(?:(?<![\w$^])([^\W\d_])|([)|]))(?:_(\{[^}]*\}|[^\W_]+))?(?:\^(\([^()]*\)|\{[^}]*\}|-?[\d./]+|T))?(?!\w)"
)


def prose(text: str) -> str:
    """Greek letters, comparisons and roots by their signs: "lambda <= sqrt(n)" is "λ ≤ √(n)"."""
    return WORDS.sub(lambda match: LETTERS.get(match[0]) or SIGNS.get(match[0], "√"), text)


def mathtext(text: str) -> str:
    """Plain text as matplotlib sets it, with its indices and powers: "η_l q" is "$η_{l}$ q"."""
    return SCRIPTS.sub(_scripts, text.replace("$", r"\$"))


def _scripts(match: re.Match[str]) -> str:
    letter, closing, below, above = match.groups()
    base = letter or closing
    if not (below or above):
        return base
    below = (below or "").strip("{}").replace("inf", r"\infty")
    words = rf"\mathrm{{{below}}}" if below.isalpha() and below.isascii() and len(below) > 1 else below
    power = (above or "").strip("{}()")
    return f"${base}" + (f"_{{{words}}}" if words else "") + (f"^{{{power}}}" if power else "") + "$"
