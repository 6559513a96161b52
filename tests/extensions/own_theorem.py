"""Statements such as a user writes, for tests: they bound the sum of n numbers by norms.

The file has a case and a family of cases of its own.
"""

from dataclasses import dataclass

import numpy as np
import sympy as sp
from hypothesis import strategies as st

from bounds import Claim, Hypothesis, Kind, Outcome, Source, Statement
from bounds.algebra import Vanishes
from bounds.mutants import scaled, without
from bounds.symbols import n
from ntkfl.estimate import Estimate

norm = sp.Symbol("q", positive=True)


@dataclass(frozen=True)
class Numbers:
    """Numbers of one sign, mostly of similar size."""

    values: tuple[float, ...]

    def describe(self):
        return {"n": len(self.values), "largest": max(self.values)}


@dataclass(frozen=True)
class Drawn:
    """The family whose cases have five numbers between 1 and 2."""

    trials: int = 25
    required: int = 20
    name: str = "five numbers"

    def case(self, seed):
        return Numbers(tuple(np.random.default_rng(seed).uniform(1, 2, 5).tolist()))

    def strategy(self):
        return SOME


SOME = st.lists(st.floats(0, 10), min_size=1, max_size=5).map(lambda values: Numbers(tuple(values)))
NOT_NEGATIVE = Hypothesis("not-negative", "no number is negative", lambda case: min(case.values))


def constants(case):
    value = float(np.linalg.norm(case.values))
    return {n: len(case.values), norm: Estimate(value, 1e-14 * value, "rounding bound")}


def total(case):
    value = float(sum(case.values))
    return Estimate(value, 1e-14 * value, "rounding bound")


def statement(label, title, formula, outcome, family):
    return Statement(
        id=f"mine/{label}",
        title=title,
        kind=Kind.UPPER,
        source=Source("a test of this project", label),
        stated=Claim(formula, recorded=outcome),
        constants=constants,
        measure=total,
        families=lambda options: (family,),
        hypotheses=(NOT_NEGATIVE,),
        mutants=(scaled(sp.Rational(1, 2)), without(norm)),
        symbols={norm: "Euclidean norm"},
        says_left="the sum, added up",
    )


STATEMENTS = (
    statement("T1", "A sum is at most sqrt(n) times the norm", sp.sqrt(n) * norm, Outcome.HOLDS, Drawn()),
    statement("T2", "A sum is at most the norm", norm, Outcome.VIOLATED, Drawn(name="five others")),
)
a, b = sp.symbols("a b")
STEPS = (
    Vanishes("mine/T1", "2 (a^2 + b^2) = (a + b)^2 + (a - b)^2", (2 * a**2 + 2 * b**2 - (a + b) ** 2 - (a - b) ** 2,)),
)
