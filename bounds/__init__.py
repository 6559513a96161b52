"""The statements: hypotheses, formulas in every form, left sides, sources. `bounds.get("fl-ntk/B.12")` finds one."""

from bounds.formula import Formula
from bounds.listing import catalogue, get
from bounds.options import Options
from bounds.statement import Form, Hypothesis, Kind, Outcome, Statement

__all__ = ["Form", "Formula", "Hypothesis", "Kind", "Options", "Outcome", "Statement", "catalogue", "get"]
