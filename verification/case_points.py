"""The cases of one form as numbers, which a verdict keeps and from which a picture is drawn."""

import math
from collections.abc import Mapping
from dataclasses import dataclass, field, fields
from typing import Any, Self

from verification.json_values import read_fields, refused

STORED = "stored case"
DIGITS = 4
COLUMNS, ERRORS = ("x", "x_error", "y", "y_error", "ratio"), ("x_error", "y_error")


@dataclass(frozen=True)
class Curve:
    """Values along one axis.

    `along` names the axis. `along` is "size" for the sizes of a ladder, which is a case with networks of several sizes.
    `along` is "round" or "entry" for the entries of an array; the values are then their ratios left/right. `claimed` is
    the claimed power of the size. `part` is the index of the part of the claim. `error` is empty where no error is
    known.
    """

    family: str
    along: str
    x: tuple[float, ...]
    y: tuple[float, ...]
    error: tuple[float, ...] = ()
    claimed: float | None = None
    part: int = 0


@dataclass(frozen=True)
class Exponent:
    """A measured exponent, its half-width, and the claimed exponent.

    For an O(.) claim, `value` is the exponent of left/right, which is claimed to be at most 0.
    """

    family: str
    part: int
    value: float
    error: float
    claimed: float
    claimed_error: float = 0.0


@dataclass(frozen=True)
class CasePoints:
    """The cases of one form, one row for each case, in numbers of DIGITS digits.

    `cases` counts the admitted cases; there may be fewer rows. `family` is an index into `families`. `x` and `y` are
    the right and the left side of the claim. For an identity they are the relative error and the difference. For a
    two-sided claim `x` is the upper end, and `y` is the place between the two ends, from 0 to 1. `outcome` is an index
    into `compare.SEVERITY`. `ratio` is the tightness of `compare.Comparison`: left/right or, for some kinds of claims,
    its counterpart. `knobs` has, by name, quantities on which the ratio may depend. Some claims may fail with a
    probability in the interval `allowed`; for them `failed` counts the cases that broke the claim.
    """

    cases: int
    families: tuple[str, ...]
    family: tuple[int, ...]
    outcome: tuple[int, ...]
    x: tuple[float, ...]
    x_error: tuple[float, ...]
    y: tuple[float, ...]
    y_error: tuple[float, ...]
    ratio: tuple[float, ...]
    knobs: dict[str, tuple[float, ...]] = field(default_factory=dict)
    curves: tuple[Curve, ...] = ()
    exponents: tuple[Exponent, ...] = ()
    failed: int | None = None
    allowed: tuple[float, float] | None = None

    def to_json(self) -> dict[str, Any]:
        """The content in plain JSON types, each column of numbers as one string. `from_json` restores the value."""
        content: dict[str, Any] = {"cases": self.cases, "families": list(self.families)}
        content |= {name: _joined(getattr(self, name)) for name in ("family", "outcome", *COLUMNS)}
        content |= {name: "" for name in ERRORS if not any(getattr(self, name))}
        content["knobs"] = {name: _joined(values) for name, values in self.knobs.items()}
        content["curves"] = [_packed(curve) for curve in self.curves]
        content["exponents"] = [_packed(exponent) for exponent in self.exponents]
        return content | {"failed": self.failed, "allowed": None if self.allowed is None else _joined(self.allowed)}

    @classmethod
    def from_json(cls, content: Any, name: str = "seen") -> Self:
        """The value that `to_json` wrote.

        Args:
            content: what `to_json` wrote.
            name: its place in the file, for messages; default "seen".

        Raises:
            ValueError: the content is not one that `to_json` writes.
        """
        try:
            plain = _plain(content)
        except (AttributeError, KeyError, TypeError, ValueError):
            raise refused(name, content, "the columns of a picture's cases, as written by this program") from None
        seen = cls(**read_fields(cls, plain, name))
        columns = (seen.family, seen.outcome, seen.x, seen.x_error, seen.y, seen.y_error, seen.ratio)
        lengths = {len(column) for column in (*columns, *seen.knobs.values())}
        if len(lengths) > 1 or max(seen.family, default=-1) >= len(seen.families) or max(seen.outcome, default=0) > 3:
            raise refused(name, content, "columns of one length, with indices of its families and of four outcomes")
        return seen


def rounded(value: float) -> float:
    """A number rounded to DIGITS digits. NaN becomes infinity.

    A picture draws neither. Infinity takes the place of NaN because infinity equals itself, and NaN does not.

    Args:
        value: any number, infinities and NaN too.
    """
    return math.inf if math.isnan(value) else float(f"{value:.{DIGITS}g}")


def _joined(values: tuple[float, ...]) -> str:
    return " ".join(f"{value:g}" for value in values)


def _split(text: str) -> list[float]:
    return [float(number) for number in text.split()]


def _packed(record: Curve | Exponent) -> dict[str, Any]:
    content = {part.name: getattr(record, part.name) for part in fields(record)}
    return {name: _joined(value) if isinstance(value, tuple) else value for name, value in content.items()}


def _plain(content: Mapping[str, Any]) -> dict[str, Any]:
    """The content with a list of numbers in place of each string of numbers."""
    columns = {name: _split(content[name]) for name in COLUMNS}
    columns |= {name: [0.0] * len(columns["x"]) for name in ERRORS if not content[name]}
    curves = [curve | {name: _split(curve[name]) for name in ("x", "y", "error")} for curve in content["curves"]]
    return {
        **content,
        **columns,
        "family": [int(index) for index in content["family"].split()],
        "outcome": [int(index) for index in content["outcome"].split()],
        "knobs": {name: _split(values) for name, values in content["knobs"].items()},
        "curves": curves,
        "allowed": None if content["allowed"] is None else _split(content["allowed"]),
    }
