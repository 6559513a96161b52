"""Whether the cases of a family fit into memory: one at a time, and several prepared ahead."""

from collections.abc import Iterable
from typing import Protocol, runtime_checkable

from bounds.case import AnyFamily
from ntkfl.memory import left_for, require
from ntkfl.problem import Problem, Setup


@runtime_checkable
class Sized(Protocol):
    """A family that knows how much memory a case takes."""

    def case_bytes(self, problem: Problem, width: int, rounds: int) -> float:
        """Bytes of a case on these data."""


def require_case(family: AnyFamily, seed: int) -> None:
    """Refuse a family whose cases are too large; a family that does not know the size of its cases passes.

    Raises:
        TooLittleMemory: with the largest width and number of rounds that would fit.
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
    """Whether `cases` cases of each family (or all cases of a smaller family) surely fit into memory together."""
    needed = 0.0
    for family in families:
        if isinstance(family, Sized):
            problem, setup = _sizes(family, seed)
            needed = max(needed, min(cases, family.trials) * family.case_bytes(problem, setup.width, setup.rounds))
    return needed <= left_for(needed)


def _sizes(family, seed: int) -> tuple[Problem, Setup]:
    base = getattr(family, "base", family)
    return base.problem(seed), base.setup
