"""Statements that a quantity behaves like a power of the width, with measured exponents and coefficients.

A ladder is one quantity measured at several widths.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import sympy as sp

from bounds.ladders.slopes import slope
from bounds.mutants import shifted
from bounds.statement import Claim, Families, Statement
from bounds.vocabulary import Form, Kind, Source
from ntkfl.estimate import Estimate

HALF, QUARTER, THREE_QUARTERS, ONE = (-sp.Rational(quarters, 4) for quarters in (2, 1, 3, 4))
# Half-width that is added to the interval of an exponent. Maxima over neurons grow when rare patterns appear, and a
# fitted line does not show this growth.
SYSTEMATIC = 0.02
WIDEST = 3  # a coefficient is measured at this number of the largest widths


@dataclass(frozen=True)
class Quantity:
    """A quantity that behaves like coefficient * width^exponent."""

    name: str  # the name of the quantity in the table of exponents
    exponent: sp.Rational  # the claimed power
    # maps a ladder to a value for each width, or to an array of samples for each width, whose root mean square is taken
    values: Callable[[Any], Sequence[np.ndarray] | np.ndarray]
    biased: bool = True  # whether a next-order term is fitted (see `slopes.slope`)
    exact: bool = False  # whether the power holds at every width; otherwise the interval is widened by SYSTEMATIC
    # maps a ladder to the leading coefficient of the theory; None: the theory gives none
    coefficient: Callable[[Any], float] | None = None
    left: str = ""  # the quantity in the paper's symbols; default: its name

    def exponent_on(self, ladder: Any) -> Estimate:
        """The measured exponent, with its interval."""
        fitted = slope(ladder.sizes, self.values(ladder), biased=self.biased)
        return fitted if self.exact else fitted.widened(SYSTEMATIC, "for rare patterns")

    def coefficient_on(self, ladder: Any) -> float:
        """The measured coefficient: the root mean square of value / width^exponent over the widest networks."""
        scale = ladder.sizes ** float(self.exponent)
        scaled = [np.atleast_1d(sample) / unit for sample, unit in zip(self.values(ladder), scale, strict=True)]
        return float(np.sqrt((np.concatenate(scaled[-WIDEST:]) ** 2).mean()))


def statistic(name: str) -> Callable[[Any], Sequence[np.ndarray]]:
    """A function that returns the values of one of `RunStatistics` on a ladder of runs."""
    return lambda ladder: ladder.samples(name)


def mean_part(name: str) -> Callable[[Any], np.ndarray]:
    """A function that returns the norm of the mean over networks of a statistic; see `WidthLadder.split`."""
    return lambda ladder: ladder.split(name)[0]


def spread_part(name: str) -> Callable[[Any], Sequence[np.ndarray]]:
    """A function that returns the distance of each network's statistic from the mean; see `WidthLadder.split`."""
    return lambda ladder: ladder.split(name)[1]


@dataclass(frozen=True, eq=False)
class WidthRate(Statement):
    """A statement of kind rate, with the quantities whose exponents its formula gives."""

    quantities: tuple[Quantity, ...] = ()


def width_rate(
    id: str,
    title: str,
    quantities: tuple[Quantity, ...],
    *,
    source: Source,
    says_left: str,
    families: Families,
    note: str = "",
    form: Form = Form.NEW,
    claim_note: str = "",
    uses: tuple[str, ...] = (),
) -> WidthRate:
    """The statement that each quantity has its exponent. Its mutants shift the exponents by 1/4 or 1/2, up or down."""
    claim: dict[str, Any] = {form: Claim(tuple(quantity.exponent for quantity in quantities), note=claim_note)}
    return WidthRate(
        id=id,
        title=title,
        kind=Kind.RATE,
        source=source,
        note=note,
        **claim,
        measure=lambda ladder: tuple(quantity.exponent_on(ladder) for quantity in quantities),
        left_formula=tuple(f"exponent in m of {quantity.left or quantity.name}" for quantity in quantities),
        says_left=says_left,
        families=families,
        mutants=tuple(shifted(sp.Rational(quarters, 4)) for quarters in (-2, -1, 1, 2)),
        uses=uses,
        quantities=quantities,
    )
