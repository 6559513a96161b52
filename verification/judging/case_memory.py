"""Whether the cases of a family fit into memory, one at a time or several that are prepared in advance."""

from collections.abc import Iterable
from typing import Protocol, runtime_checkable

from bounds.case import AnyFamily
from ntkfl.memory import left_for, require
from ntkfl.problem import Problem, Setup


@runtime_checkable
class Sized(Protocol):
    """A family that knows how much memory a case takes."""

    def case_bytes(self, problem: Problem, width: int, rounds: int) -> float:
        """The number of bytes that a case on these data takes."""


def require_case(family: AnyFamily, seed: int) -> None:
    """Refuse a family of cases that are too large. A family that does not know the size of its cases is not refused.

    Raises:
        TooLittleMemory: a case does not fit into memory. The message names the largest width and number of rounds that
            would fit.
    """
    if isinstance(family, Sized):
        problem, setup = _sizes(family, seed)
        require(
            f"a case of {family.name}",
            lambda width, rounds: family.case_bytes(problem, width, rounds),
            width=setup.width,
            rounds=setup.rounds,
        )


def fit_together(families: Iterable[AnyFamily], seed: int, cases: int) -> bool:
    """Whether, for each family, `cases` of its cases surely fit into memory together.

    If a family has fewer than `cases` cases, the memory is counted for all cases of the family.
    """
    needed = 0.0
    for family in families:
        if isinstance(family, Sized):
            problem, setup = _sizes(family, seed)
            needed = max(needed, min(cases, family.trials) * family.case_bytes(problem, setup.width, setup.rounds))
    return needed <= left_for(needed)


def _sizes(family, seed: int) -> tuple[Problem, Setup]:
    base = getattr(family, "base", family)
    return base.problem(seed), base.setup
