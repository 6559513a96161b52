"""The facts of a verdict beside its outcome, as values; `verification.verdict_page` makes sentences of them."""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import StrEnum

from bounds import Outcome


class Standing(StrEnum):
    """How well a violation stands, best first."""

    CONFIRMED = "confirmed"  # redone more precisely or on other networks, or both sides enclosed in the first place
    SEEN = "seen"  # no second computation was possible
    FALLEN = "not confirmed"  # the second computation did not repeat it, or would cost too much


class Needed(StrEnum):
    """Whether a stored case shows that a form needs a hypothesis."""

    YES = "needed"  # without the hypothesis a stored case violates the claim
    NOT_SHOWN = "not shown"  # the stored case does not show the violation
    NO_CASE = "no case"  # no stored case exists


class Where(StrEnum):
    """Where a form fails that holds on the user's data."""

    STORED = "stored case"
    RECORDED = "built-in cases"
    SEARCH = "search"


@dataclass(frozen=True)
class Elsewhere:
    """Where a form fails that holds on the user's data.

    Args:
        where: on which cases.
        ratio: left/right there, or its counterpart for this kind of claim. Default: not known.
    """

    where: Where
    ratio: float | None = None


@dataclass(frozen=True)
class Unmet:
    """The value of a rejected case, beside the value that a hypothesis asks for.

    Args:
        found: the value and the limit, in words.
        options: options that make a case meet the hypothesis, as the command line takes them. Default: none are known.
        passes: whether a case meets every hypothesis of the form with these options, not this one alone.
    """

    found: str
    options: str = ""
    passes: bool = False


@dataclass(frozen=True)
class Vacuous:
    """Why a bound says nothing that can be run.

    Args:
        at_least: by symbol, the required size that no run can have.
        at_most: the same of steps that are too small.
        factor: by which a bound that holds without the theorem is smaller, in every case at least. Default: there is
            none.
    """

    at_least: dict[str, float] = field(default_factory=dict)
    at_most: dict[str, float] = field(default_factory=dict)
    factor: float | None = None


@dataclass(frozen=True)
class Witness:
    """The result of the stored case of a form.

    Args:
        ratio: left/right, or its counterpart for this kind of claim.
        outcome: outcome of the comparison.
        unmet: the hypotheses that the case does not meet.
        fallen: why its violation is not confirmed. Default: it is, or there is none.
    """

    ratio: float
    outcome: Outcome
    unmet: tuple[str, ...] = ()
    fallen: str | None = None

    @property
    def shows(self) -> bool:
        """Whether the case violates the claim and its violation stands."""
        return self.outcome is Outcome.VIOLATED and not self.unmet and self.fallen is None
