"""The statements: hypotheses, formulas in every form, left sides, sources. `bounds.get("fl-ntk/B.12")` finds one.

`bounds.load("my_theorem.py")` adds those of a file of yours.
"""

from bounds.brought import load
from bounds.family import Family
from bounds.formula import Formula
from bounds.listing import catalogue, find, get
from bounds.options import Options
from bounds.statement import Claim, Form, Hypothesis, Kind, Nature, Outcome, Source, Statement

__all__ = [
    "Claim",
    "Family",
    "Form",
    "Formula",
    "Hypothesis",
    "Kind",
    "Nature",
    "Options",
    "Outcome",
    "Source",
    "Statement",
    "catalogue",
    "find",
    "get",
    "load",
]
