"""Formulas in the plain text of notes, with the mathematical signs that a page can show."""

import re

from sympy.printing.pretty.pretty_symbology import greek_unicode

GREEK = "alpha beta gamma delta epsilon eta kappa lambda mu nu xi pi rho sigma Delta Gamma".split()
LETTERS = {name: greek_unicode[name] for name in GREEK} | {"eps": "ε", "infinity": "∞"}
SIGNS = {"<=": "≤", ">=": "≥", "->": "→", "+-": "±"}
WORDS = re.compile(
    rf"(?<![A-Za-z\\])({'|'.join(LETTERS)})(?![A-Za-z])|sqrt(?=\(|\d)|" + "|".join(map(re.escape, SIGNS))
)


def prose(text: str) -> str:
    """Greek letters, comparisons and roots by their signs: "lambda <= sqrt(n)" is "λ ≤ √(n)"."""
    return WORDS.sub(lambda match: LETTERS.get(match[0]) or SIGNS.get(match[0], "√"), text)
