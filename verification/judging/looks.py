"""A first look at a share of the cases, and a second one at all of them where the first does not decide.

The first look draws an eighth of the seeds of every family, at least as many as a verdict needs, and of some ladders
half of the networks. It decides where the form is settled and every mutant is caught: the cases have shown that they
tell this formula from wrong ones. Why no outcome is less sure for it: docs/verdicts.md, "Drawn until they decide".
"""

from dataclasses import fields, is_dataclass, replace
from typing import Any

from hypothesis.strategies import SearchStrategy

from bounds import Family, Options
from bounds.case import Case
from bounds.family import AnyFamily

SHARES = (1 / 8, 1.0)


def shares(options: Options) -> tuple[float, ...]:
    """The shares of the cases that are looked at in turn."""
    return SHARES if options.until_decided and options.trials is None else (1.0,)


def part(family: AnyFamily, share: float) -> AnyFamily:
    """The first cases of a family; all of one that is no dataclass with a field `trials`."""
    given: Any = family
    if share < 1 and family.trials == 1:
        return Family(family.name, _first_look, _generic, (family,), 1, family.required, fixed=True)
    known: set[str] = {field.name for field in fields(given)} if is_dataclass(family) else set()
    if share == 1 or "trials" not in known:
        return family
    return replace(given, trials=min(family.trials, max(family.required, round(share * family.trials))))


def _first_look(family: AnyFamily, seed: int) -> Any:
    case = family.case(seed)
    return case.first_look() if isinstance(case, Case) else case


def _generic(family: AnyFamily) -> SearchStrategy:
    return family.strategy()
