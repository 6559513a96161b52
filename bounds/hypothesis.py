"""The requirements of a statement on a case.

Each requirement is a predicate with a margin. A requirement names the options with which a user can meet the
requirement.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from ntkfl.balls import precision
from ntkfl.estimate import Estimate
from ntkfl.messages import refusing

Number = Estimate | float
OLD_NAMES = {"found": "it is value_and_limit"}


@refusing(OLD_NAMES)
@dataclass(frozen=True)
class Limit:
    """The margin between a quantity and its limit: `at_most - value`, or `value - at_least`.

    Args:
        quantity: the limited quantity, in words for a user.
        value: its value on a case.
        at_most: the upper limit, a number or a function of the case; None: there is a lower limit.
        at_least: the lower limit, a number or a function of the case; None: there is an upper limit.
    """

    quantity: str
    value: Callable[[Any], Number]
    at_most: Number | Callable[[Any], Number] | None = None
    at_least: Number | Callable[[Any], Number] | None = None

    def __call__(self, case: Any) -> Number:
        """The margin on a case."""
        value, limit = self.value(case), self._limit(case)
        return limit - value if self.at_least is None else value - limit

    def value_and_limit(self, case: Any) -> str:
        """The value on a case and the limit: "eta_l n K = 2.4, at most 1.2564".

        Args:
            case: a case of the statement's families.
        """
        words = "at most" if self.at_least is None else "at least"
        return f"{self.quantity} = {_short(self.value(case))}, {words} {_short(self._limit(case))}"

    def _limit(self, case: Any) -> Number:
        limit = self.at_most if self.at_least is None else self.at_least
        assert limit is not None
        return limit(case) if callable(limit) else limit


@refusing(OLD_NAMES)
@dataclass(frozen=True)
class Hypothesis:
    """An executable predicate. A case meets it if every entry of its margin is at least 0 with certainty."""

    name: str
    says: str
    margin: Callable[[Any], Estimate | float]
    # whether it depends only on the case's data and setup and needs no ball arithmetic; it is then checked before any
    # simulation
    free: bool = False
    eased_by: tuple[str, ...] = ()  # the `Options` by which a user may meet it

    def met(self, case: Any) -> bool:
        """Whether every entry of the margin is at least as large as its own error.

        Args:
            case: a case of the statement's families.
        """
        return self.least(case) >= 0

    def least(self, case: Any) -> float:
        """The smallest entry of the margin minus that entry's error; NaN if an entry is unknown.

        Args:
            case: a case of the statement's families.

        Raises:
            TypeError: the margin is no number.
        """
        with precision():
            margin = self.margin(case)
        if not isinstance(margin, Estimate) and np.asarray(margin).dtype == bool:
            raise TypeError(
                f"the hypothesis {self.name} gives {margin}; it must give a margin, at least 0 where it is met"
            )
        estimate = margin if isinstance(margin, Estimate) else Estimate.exact(margin)
        return float(np.min(estimate.lo, initial=np.inf)) + 0.0  # + 0.0 turns a negative zero into 0

    def of_every(self, part: str, parts: Callable[[Any], Iterable[Any]]) -> Hypothesis:
        """This hypothesis for every part of a case, for example for every run of a case that has several runs.

        Args:
            part: the name of a part in reports.
            parts: the parts of a case.
        """
        return replace(
            self,
            says=f"in every {part}: {self.says}",
            margin=lambda case: float(np.min([self.least(part) for part in parts(case)])),
            free=False,
        )

    def value_and_limit(self, case: Any, least: float) -> str:
        """The value on a case and the required value; if only the margin is known, the amount by which the case fails.

        Args:
            case: a case of the statement's families.
            least: the smallest entry of the margin.
        """
        if isinstance(self.margin, Limit):
            with precision():
                return self.margin.value_and_limit(case)
        return f"{self.says}: missed by {-least:.4g}"


def _short(number: Number) -> str:
    return f"{float(number.value if isinstance(number, Estimate) else number):.5g}"
