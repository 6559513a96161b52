"""Exponents of the width, as claimed and as measured.

For each quantity of the rate statements, networks of several widths are run and the power of the width is fitted. The
widths and the networks of each width together are called a ladder.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

import sympy as sp

from bounds import Options, catalogue
from bounds.ladders.rungs import WidthFamily as Ladder
from bounds.ladders.slopes import NoSlope
from bounds.ladders.width_rate import WidthRate
from ntkfl.estimate import Estimate
from ntkfl.messages import refusing

FEWEST_WIDTHS, FEWEST_NETWORKS = 4, 2


@refusing({"found": "it is measured_coefficient"})
@dataclass(frozen=True)
class Exponent:
    """The power of the width by which a quantity changes, and the coefficient of this power.

    Args:
        statement: the id of the statement that claims the power.
        title: the title of that statement.
        theory: the power as claimed.
        coefficient: the claimed leading coefficient; None where none is claimed.
        measured: the log-log slope with its 99% interval.
        measured_coefficient: the coefficient as measured at the three largest widths. This field and `measured` are
            None if noise hides the slope.
    """

    quantity: str
    statement: str
    title: str
    theory: sp.Rational
    coefficient: float | None
    measured: Estimate | None
    measured_coefficient: float | None


def ladders(
    options: Options | None = None, largest: int | None = None, networks: int | None = None
) -> Mapping[Ladder, Sequence[WidthRate]]:
    """The statements about exponents, grouped by the ladder of widths on which they are measured.

    Args:
        options: data, steps and seed of the ladders; default `Options()`.
        largest: leave out larger widths; default no limit.
        networks: the largest number of networks of each width; default no limit.

    Raises:
        ValueError: fewer than four widths, or fewer than two networks, are left.
    """
    if networks is not None and networks < FEWEST_NETWORKS:
        raise ValueError(f"networks is {networks}; a spread needs at least {FEWEST_NETWORKS} at each width")
    statements = [statement for statement in catalogue().values() if isinstance(statement, WidthRate)]
    drawn = ((draw, s) for s in statements for form in s.forms for draw in s.families_of(form, options or Options()))
    families = [(draw, s) for draw, s in drawn if isinstance(draw, Ladder)]
    needed = max(sorted(draw.widths)[FEWEST_WIDTHS - 1] for draw, _ in families)
    if largest is not None and largest < needed:
        raise ValueError(f"largest is {largest}; a slope needs {FEWEST_WIDTHS} widths, so it must be at least {needed}")
    by_ladder: dict[Ladder, list[WidthRate]] = {}
    for draw, statement in families:
        by_ladder.setdefault(_shortened(draw, largest, networks), []).append(statement)
    return by_ladder


def exponents(wanted: Mapping[Ladder, Sequence[WidthRate]], seed: int = 0) -> Iterator[Exponent]:
    """The exponents of every quantity of these statements, measured on networks of this seed.

    Args:
        wanted: the statements, grouped by their ladder, as `ladders` returns them.
        seed: the seed of the first network, default 0.

    Raises:
        FloatingPointError: a run overflowed.
    """
    for draw, statements in wanted.items():
        ladder = draw.case(seed)
        for statement in statements:
            for quantity in statement.quantities:
                claimed = None if quantity.coefficient is None else float(quantity.coefficient(ladder))
                try:
                    measured, coefficient = quantity.exponent_on(ladder), quantity.coefficient_on(ladder)
                except NoSlope:
                    measured, coefficient = None, None
                theory = statement.id, statement.title, quantity.exponent, claimed
                yield Exponent(quantity.name, *theory, measured, coefficient)


def _shortened(draw: Ladder, largest: int | None, networks: int | None) -> Ladder:
    rungs = [
        (width, count if networks is None else min(count, networks))
        for width, count in zip(draw.widths, draw.counts, strict=True)
        if largest is None or width <= largest
    ]
    widths, counts = zip(*rungs, strict=True)
    return replace(draw, widths=widths, counts=counts)
