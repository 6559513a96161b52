"""The cases of one form as numbers: a picture is drawn from them, and a verdict keeps them."""

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
    """Values along one axis: `along` is "size" (of a ladder), or "round" or "entry" (for the ratios of an array).

    claimed: the claimed power of the size. part: part of the claim. error: empty where none is known.
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
    """A measured exponent, its half-width, and the claimed one (for an O(.) the exponent of left/right, at most 0)."""

    family: str
    part: int
    value: float
    error: float
    claimed: float
    claimed_error: float = 0.0


@dataclass(frozen=True)
class CasePoints:
    """The cases of one form, a row each, to DIGITS digits.

    `cases` counts the admitted cases; the rows may be fewer. `family` is an index into `families`. `x` and `y` are the
    right and left side; for an identity the relative error and the difference; for a two-sided claim the upper end and
    the place between the ends, 0 to 1. `outcome` is an index into `compare.SEVERITY`. `ratio` is left/right or its
    substitute. `knobs` has, by name, quantities on which the ratio may depend. `failed` counts the cases that broke a
    claim which may fail with a probability in the interval `allowed`.
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
        """Plain JSON types, a column of numbers as one string; `from_json` gives it back."""
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
            ValueError: it is not such a value.
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
    """A number to DIGITS digits; NaN becomes infinity, which is not drawn and, unlike NaN, equals itself.

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
