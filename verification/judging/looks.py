"""Looks at growing shares of the cases; a further look follows if the last one does not decide.

For a ladder the looks take a quarter, half and all of the networks of each width; for other families they take the
squares of these shares of the seeds. The first look draws at least as many seeds as a verdict needs, in all families of
the form together; the second look draws as many in each family. A look decides if three things hold: the form is
settled; every mutant is caught, so that the cases tell this formula from wrong ones; and the next look cannot confirm a
probability that this look leaves open. A ladder on which a look settles the form is not enlarged further, unless a
mutant is left, even if other ladders of the form are enlarged. docs/verdicts.md, "Cases are drawn until they decide",
proves that a wrong outcome is no likelier.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from math import ceil
from typing import Any

from hypothesis.strategies import SearchStrategy

from bounds import Case, Options
from bounds.case import FEW, AnyFamily

SHARES = (1 / 4, 1 / 2, 1.0)  # of the networks of a ladder; the shares of seeds are the squares of these

Ladders = dict[tuple[AnyFamily, int], Any]  # the measurements of some networks of a ladder, by its family and seed


def shares(options: Options) -> tuple[float, ...]:
    """The shares of the cases in the successive looks."""
    return SHARES if options.until_decided and options.trials is None else (1.0,)


@dataclass(frozen=True)
class Part:
    """A family of a single ladder, whose case has a share of the ladder's networks."""

    whole: AnyFamily
    share: float

    @property
    def name(self) -> str:
        """The name of the family in reports."""
        return self.whole.name

    @property
    def trials(self) -> int:
        """How many seeds are run."""
        return self.whole.trials

    @property
    def required(self) -> int:
        """How many admitted cases, the networks of a ladder, a verdict needs."""
        return self.whole.required

    def case(self, seed: int) -> Any:
        """The part of the ladder of a seed."""
        return drawn(self, seed, {})

    def strategy(self) -> SearchStrategy:
        """Generic cases of the whole ladder."""
        return self.whole.strategy()


def seeds_of(
    families: Sequence[AnyFamily], share: float, settled: Mapping[AnyFamily, float] | None = None
) -> dict[AnyFamily, int]:
    """The number of seeds that are drawn of each family up to this look; a part of a ladder replaces the ladder.

    `settled`: ladders that stay at the share at which an earlier look settled the form on them; default none.
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
    """The case of a seed; measurements of an earlier look at the ladder are used again."""
    if isinstance(family, Part):
        key = family.whole, seed
        if key not in ladders:
            ladders[key] = family.whole.case(seed)
        whole = ladders[key]
        return whole.first_look(family.share) if isinstance(whole, Case) else whole
    return ladders.pop((family, seed), None) or family.case(seed)
