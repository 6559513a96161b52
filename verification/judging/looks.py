"""Looks: the cases of a form are drawn in steps, and a further step follows only if the cases so far do not decide.

A ladder is a family with a single case, which has networks of several sizes, such as widths. For a ladder the looks
take a quarter, half and all of the networks of each size. For other families the looks take 1/16, 1/4 and all of the
seeds. The first look draws at least as many seeds as a verdict needs, counted over all families of the form. The second
look draws at least this number of seeds in each family.

A look decides if three conditions hold. First, the form is settled, which means that the cases so far give an outcome
other than untested or unresolved. Second, every mutant (a wrong version of the formula) is caught, so that the cases
tell this formula from wrong formulas. The third condition is about a claimed probability that this look leaves open:
the next look could not confirm this probability either.

A form may have several ladders. If every mutant is caught, and a look settles the form on one of the ladders, then this
ladder is not enlarged further. Other ladders of the form may still be enlarged. docs/verdicts.md, "Cases are drawn
until they decide", bounds the probability of a wrong outcome over all looks together.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from math import ceil
from typing import Any

from hypothesis.strategies import SearchStrategy

from bounds import Case, Options
from bounds.case import FEW, AnyFamily

# shares of the networks of a ladder; for other families, the squares of these numbers are the shares of the seeds
SHARES = (1 / 4, 1 / 2, 1.0)

# the measurements of some networks of a ladder; the key is the ladder, which is a family, and the seed of its case
Ladders = dict[tuple[AnyFamily, int], Any]


def shares(options: Options) -> tuple[float, ...]:
    """The share of the cases that is drawn in each look."""
    return SHARES if options.until_decided and options.trials is None else (1.0,)


@dataclass(frozen=True)
class Part:
    """A part of a ladder: a family with a single case, which has a share of the ladder's networks."""

    whole: AnyFamily
    share: float

    @property
    def name(self) -> str:
        """The name of the family in reports."""
        return self.whole.name

    @property
    def trials(self) -> int:
        """The number of seeds that are run."""
        return self.whole.trials

    @property
    def required(self) -> int:
        """The number of admitted cases that a verdict needs, where each network of a ladder counts as a case."""
        return self.whole.required

    def case(self, seed: int) -> Any:
        """This part of the ladder, with the networks of this seed."""
        return drawn(self, seed, {})

    def strategy(self) -> SearchStrategy:
        """Generic cases of the whole ladder."""
        return self.whole.strategy()


def seeds_of(
    families: Sequence[AnyFamily], share: float, settled: Mapping[AnyFamily, float] | None = None
) -> dict[AnyFamily, int]:
    """The number of seeds of each family that are drawn up to this look.

    If only a part of a ladder is drawn, the key is this part in place of the ladder.

    `settled` has the ladders on which an earlier look settled the form. Each comes with the share of that look, which
    is not increased further.
    """
    known = settled or {}
    return dict(_seeds_of(family, known.get(family, share), len(families)) for family in families)


def _seeds_of(family: AnyFamily, share: float, of: int) -> tuple[AnyFamily, int]:
    if share == 1:
        return family, family.trials
    if family.trials == 1:
        return Part(family, share), 1
    first = max(FEW, ceil(family.required / of))
    least = min(first, family.required) if share == SHARES[0] else family.required
    return family, min(family.trials, max(least, round(share**2 * family.trials)))


def drawn(family: AnyFamily, seed: int, ladders: Ladders) -> Any:
    """The case of a seed. Measurements that an earlier look made of a ladder are used again."""
    if isinstance(family, Part):
        key = family.whole, seed
        if key not in ladders:
            ladders[key] = family.whole.case(seed)
        whole = ladders[key]
        return whole.first_look(family.share) if isinstance(whole, Case) else whole
    return ladders.pop((family, seed), None) or family.case(seed)
