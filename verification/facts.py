"""What a verdict says beside its outcome, as values. `verification.verdict_page` makes sentences of these values.

A form is one version of a statement, such as the printed version. A case is admitted if it meets every hypothesis of
the form. A stored case is kept with a form: it breaks the form, or shows that a hypothesis is needed. A violation
stands if a second computation repeats it, or if none is possible.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any

from bounds import Outcome
from verification.json_values import NOT_FINITE, read_as, refused, strict_json
from verification.sentences import What


class Standing(StrEnum):
    """How well a violation stands, the best case first."""

    # the violation was redone more precisely or on other networks, or both sides were enclosed in the first place
    CONFIRMED = "confirmed"
    SEEN = "seen"  # no second computation was possible
    # a second computation did not repeat the violation or would cost too much
    FALLEN = "not confirmed"


class Data(StrEnum):
    """Whose data the cases of a form are made of."""

    BUILT_IN = "built-in"
    OWN = "own"  # the user's data, which the outcome is about
    UNUSED = "unused"  # the user gave data, and the form is not about data


class Needed(StrEnum):
    """Whether a stored case shows that a form needs a hypothesis."""

    YES = "needed"  # without the hypothesis a stored case violates the claim
    NOT_SHOWN = "not shown"  # the stored case does not show the violation
    NO_CASE = "no case"  # no stored case exists


class Where(StrEnum):
    """The cases on which a form fails although it holds on the user's data."""

    STORED = "stored case"
    RECORDED = "built-in cases"
    SEARCH = "search"


@dataclass(frozen=True)
class Fact:
    """A fact about a check: a word that says what the fact is about, and values. `str` makes a sentence of them.

    Args:
        what: the word.
        values: its values by name: numbers, texts, lists of them, and other facts.
    """

    what: What
    values: dict[str, Any] = field(default_factory=dict)

    def __str__(self) -> str:
        return self.what.sentence(**self.values)

    def __hash__(self) -> int:
        return hash((self.what, str(self)))

    def to_json(self) -> dict[str, Any]:
        """The fact in plain JSON types, and its sentence for people who read the file."""
        return {"what": self.what.value, "values": strict_json(self.values), "text": str(self)}

    @classmethod
    def from_json(cls, content: Any, name: str = "fact") -> Fact:
        """The fact that `to_json` wrote. A file of an older version has only a sentence, which is kept as the fact.

        Args:
            content: the fact, or a text.
            name: its place in the file, for messages; default "fact".

        Raises:
            ValueError: an unknown fact, or values from which its sentence cannot be made.
        """
        if isinstance(content, str):
            return cls(What.TEXT, {"text": content})
        if not isinstance(content, dict):
            raise refused(name, content, "a fact with its values, or a text")
        what = read_as(What, content.get("what"), f"{name}.what")
        values = {key: _value(part, name) for key, part in read_as(dict[str, Any], content.get("values"), name).items()}
        try:
            fact = cls(what, values)
            str(fact)
        except (TypeError, ValueError, KeyError, AttributeError, ArithmeticError):
            raise refused(f"{name}.values", content["values"], f"the values of {what.value!r}") from None
        return fact


def _value(content: Any, name: str) -> Any:
    if isinstance(content, dict) and "what" in content:
        return Fact.from_json(content, name)
    if isinstance(content, dict):
        return {key: _value(part, name) for key, part in content.items()}
    if isinstance(content, list):
        return [_value(part, name) for part in content]
    return NOT_FINITE.get(content, content) if isinstance(content, str) else content


@dataclass(frozen=True)
class Confirmation:
    """How well a violation stands, and by which computation.

    Args:
        standing: how well the violation stands.
        how: the computation and its result.
    """

    standing: Standing
    how: Fact

    @property
    def stands(self) -> bool:
        """Whether the violation was confirmed, or was seen where no second computation was possible."""
        return self.standing is not Standing.FALLEN


@dataclass(frozen=True)
class Counts:
    """The number of drawn cases of a form, by what became of the cases.

    Args:
        holds: number of admitted cases that hold.
        touches: number of admitted cases that meet the bound to within their error.
        unresolved: number of admitted cases whose errors are too large.
        violated: number of admitted cases that violate the claim.
        rejected: for each hypothesis, the number of cases that do not meet it. Default: none.
        unmet: for each hypothesis that rejected cases, a value that does not meet it. Default: none.
        not_computed: the admitted cases that could not be computed, with the error. These cases are also counted in
            `unresolved`. Default: none.
        margins: for each hypothesis, its smallest margin over the admitted cases. Default: none are known.
        would_exclude: the smallest failure probability that the trials would have excluded (at 95%). This number is
            given for a claim that may fail with a small probability, if there were too few trials to test that
            probability. Default: the trials are enough, or the claim allows no failure.
    """

    holds: int
    touches: int
    unresolved: int
    violated: int
    rejected: dict[str, int] = field(default_factory=dict)
    unmet: dict[str, Unmet] = field(default_factory=dict)
    not_computed: dict[str, str] = field(default_factory=dict)
    margins: dict[str, float] = field(default_factory=dict)
    would_exclude: float | None = None

    @property
    def trials(self) -> int:
        """The number of admitted cases."""
        return self.holds + self.touches + self.unresolved + self.violated


@dataclass(frozen=True)
class Elsewhere:
    """The cases on which a form fails although it holds on the user's data.

    Args:
        where: the kind of the cases on which the form fails.
        ratio: left/right on these cases, or its counterpart for this kind of claim. Default: not known.
    """

    where: Where
    ratio: float | None = None


@dataclass(frozen=True)
class Unmet:
    """The value of a rejected case, beside the value that a hypothesis asks for.

    Args:
        found: the value and the limit, in words.
        options: options that make a case meet the hypothesis, as the command line takes them. Default: none are known.
        passes: whether with these options a case meets every hypothesis of the form, and not only this hypothesis.
    """

    found: str
    options: str = ""
    passes: bool = False


@dataclass(frozen=True)
class Vacuous:
    """Why a bound says nothing about any run that is possible.

    Args:
        at_least: by symbol, the required size that no run can have.
        at_most: by symbol, the required step that is too small for any run.
        factor: in every case, a bound that holds without the theorem is smaller by at least this factor. Default: no
            such bound is smaller.
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
        fallen: why its violation is not confirmed. Default: the violation is confirmed, or there is none.
    """

    ratio: float
    outcome: Outcome
    unmet: tuple[str, ...] = ()
    fallen: Fact | None = None

    @property
    def shows(self) -> bool:
        """Whether the case violates the claim and its violation stands."""
        return self.outcome is Outcome.VIOLATED and not self.unmet and self.fallen is None
