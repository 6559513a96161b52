"""Looks at growing shares of the cases, each further one where the last does not decide.

The first look draws an eighth of the seeds of every family, at least as many as a verdict needs, and of a ladder a
quarter of the networks of each width; the second all seeds, and of a ladder half. A look decides where the form is
settled and every mutant is caught: the cases have shown that they tell this formula from wrong ones. Why no outcome is
less sure for it: docs/verdicts.md, "Drawn until they decide".
"""

from dataclasses import dataclass, fields, is_dataclass, replace
from typing import Any

from hypothesis.strategies import SearchStrategy

from bounds import Options
from bounds.case import Case
from bounds.family import AnyFamily

SHARES = (1 / 8, 1 / 2, 1.0)  # of seeds the first alone: the second look has all
LEAST = 1 / 4  # of the networks of a ladder

Ladders = dict[tuple[AnyFamily, int], Any]  # ladders of which some networks have been looked at


def shares(options: Options) -> tuple[float, ...]:
    """The shares of the cases that are looked at in turn."""
    return SHARES if options.until_decided and options.trials is None else (1.0,)


@dataclass(frozen=True)
class Part:
    """A family of a single ladder, whose case has a share of the ladder's networks."""

    whole: AnyFamily
    share: float

    @property
    def name(self) -> str:
        """What reports call the family."""
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
        """Generic cases, whole ones."""
        return self.whole.strategy()


def part(family: AnyFamily, share: float) -> AnyFamily:
    """The first cases of a family; all of one that is no dataclass with a field `trials`."""
    given: Any = family
    if share < 1 and family.trials == 1:
        return Part(family, max(share, LEAST))
    known: set[str] = {field.name for field in fields(given)} if is_dataclass(family) else set()
    if share > SHARES[0] or "trials" not in known:
        return family
    return replace(given, trials=min(family.trials, max(family.required, round(share * family.trials))))


def drawn(family: AnyFamily, seed: int, ladders: Ladders) -> Any:
    """The case of a seed; what an earlier look has seen of the ladder is not done again."""
    if isinstance(family, Part):
        key = family.whole, seed
        if key not in ladders:
            ladders[key] = family.whole.case(seed)
        whole = ladders[key]
        return whole.first_look(family.share) if isinstance(whole, Case) else whole
    return ladders.pop((family, seed), None) or family.case(seed)
