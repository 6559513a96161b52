"""The tail bound for sums of uniform variables, which the proofs use (before Eq (17))."""

import math
from dataclasses import dataclass
from fractions import Fraction
from itertools import product

import numpy as np
import sympy as sp
from hypothesis import strategies as st

from bounds import FEDGUCCI, Case, Change, Claim, Family, Kind, Source, Statement
from bounds.cases.bounded_sum import exact
from bounds.mutants import power, replaced
from bounds.symbols import side
from ntkfl.estimate import Estimate

MOST = 10  # largest number n of terms, since the tail is a sum over all 2^n corners of the cube


@dataclass(frozen=True, eq=False)
class UniformSum(Case):
    """sum_i a_i X_i with X_i independent and uniform on [-d/2, d/2], and a level t > 0.

    Raises:
        ValueError: no weight, a weight of 0, more than MOST weights, or a side or level that is not positive.
    """

    weights: tuple[Fraction, ...]
    side: Fraction
    t: Fraction

    def __post_init__(self) -> None:
        if not 1 <= len(self.weights) <= MOST or 0 in self.weights:
            raise ValueError(f"there are {len(self.weights)} weights {self.weights}; 1 to {MOST}, none of them 0")
        if self.side <= 0 or self.t <= 0:
            raise ValueError(f"the side is {self.side} and the level {self.t}; both must be positive")

    @property
    def square(self) -> Fraction:
        """|a|^2."""
        return sum((a * a for a in self.weights), Fraction(0))

    def probability(self) -> Estimate:
        """Pr[|sum| > t]: twice the volume above t, as a signed sum over the cube's corners beyond t."""
        sizes = [abs(a) for a in self.weights]
        reach = sum(sizes, Fraction(0)) / 2 - self.t / self.side  # distance of the top corner beyond the level
        total = Fraction(0)
        for corner in product((0, 1), repeat=len(sizes)):
            beyond = reach - sum((a for a, down in zip(sizes, corner, strict=True) if down), Fraction(0))
            if beyond > 0:
                total += (-1) ** sum(corner) * beyond ** len(sizes)
        return exact(2 * total / (math.factorial(len(sizes)) * math.prod(sizes)))

    def describe(self) -> dict:
        """What identifies the case in a report."""
        return {"weights": ", ".join(map(str, self.weights)), "side": str(self.side), "t": str(self.t)}


def _sum(seed: int) -> UniformSum:
    """Sums of 1 to 8 variables with weights in 1/4..2, levels up to the largest sum; every fifth level is near 0."""
    rng = np.random.default_rng(seed)
    size = int(rng.integers(1, 9))
    sign = 1 if rng.integers(2) else -1
    weights = tuple(sign * Fraction(int(rng.integers(1, 9)), 4) for _ in range(size))
    side = Fraction(int(rng.integers(1, 9)), 4)
    top = side * sum((abs(a) for a in weights), Fraction(0)) / 2
    share = Fraction(int(rng.integers(1, 33)) if seed % 5 else 1, 32)
    return UniformSum(weights, side, top * share)


def _any_sum(weights: list[Fraction], side: Fraction, share: Fraction) -> UniformSum:
    return UniformSum(tuple(weights), side, side * sum(map(abs, weights), Fraction(0)) / 2 * share)


UNIFORM_SUMS = Family(
    "sums of uniforms",
    _sum,
    st.builds(
        _any_sum,
        st.lists(st.integers(-8, 8).filter(bool).map(lambda a: Fraction(a, 4)), min_size=1, max_size=6),
        st.integers(1, 16).map(lambda part: Fraction(part, 4)),
        st.integers(1, 64).map(lambda part: Fraction(part, 64)),
    ),
    trials=200,
)


level, weight_square = sp.symbols("t a_2", positive=True)
RATE = level**2 / (side**2 * weight_square)


STATEMENTS = (
    Statement(
        id="fedgucci/F4",
        title="Tail of a weighted sum of uniform variables",
        kind=Kind.PROBABILITY,
        source=Source(FEDGUCCI, "display before Eq (17)"),
        note="Hoeffding's inequality, constant 2. Uniform laws are strictly sub-Gaussian, "
        "sinh(s)/s <= exp(s^2/6) because 6^k k! <= (2k+1)!, so the constant 6 holds as well",
        stated=Claim(2 * sp.exp(-2 * RATE)),
        new=Claim(2 * sp.exp(-6 * RATE)),
        constants=lambda case: {level: exact(case.t), side: exact(case.side), weight_square: exact(case.square)},
        measure=lambda case: case.probability(),
        symbols={level: "level t", weight_square: "|a|_2^2, the sum of the squared weights"},
        left_formula="Pr(|sum_i a_i X_i| > t)",
        says_left="P(|sum_i a_i X_i| > t) exactly, as a rational, from the corners of the cube",
        families=(UNIFORM_SUMS,),
        mutants=(
            replaced(level, 2 * level, "the level doubled", Change.CONSTANT),
            power(weight_square, sp.Rational(1, 8)),
            replaced(side, side / 2, "half the side", Change.CONSTANT),
        ),
    ),
)
