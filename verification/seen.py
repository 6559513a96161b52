"""The cases of one form as numbers: a picture is drawn from them, and a verdict keeps them."""

import math
from collections.abc import Mapping
from dataclasses import dataclass, field, fields
from typing import Any, Self

STORED = "stored case"
DIGITS = 4
COLUMNS, ERRORS = ("x", "x_error", "y", "y_error", "ratio"), ("x_error", "y_error")


@dataclass(frozen=True)
class Curve:
    """Values along one axis: `along` is "size" (of a ladder), "round" or "entry" (of an array, with the ratio there).

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
    """A measured exponent, its half-width, and the claimed exponent (for an O(.), that of left/right: at most 0)."""

    family: str
    part: int
    value: float
    error: float
    claimed: float
    claimed_error: float = 0.0


@dataclass(frozen=True)
class Seen:
    """The cases of one form, a row each, to DIGITS digits.

    `cases` counts the admitted cases; the rows may be fewer. `family` is an index into `families`. `x` and `y` are the
    right and left side; for an identity the relative error and the difference; for a two-sided claim the upper end and
    the place between the ends, 0 to 1. `outcome` is an index into `compare.SEVERITY`. `ratio` is left/right or its
    substitute. `knobs` has, by name, the quantities that the ratio may depend on. `failed` counts the cases that broke
    a claim which may fail with a probability between the two of `allowed`.
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
    knobs: Mapping[str, tuple[float, ...]] = field(default_factory=dict)
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
    def from_json(cls, content: Mapping[str, Any]) -> Self:
        """The value that `to_json` wrote.

        Args:
            content: what `to_json` wrote.
        """
        columns = {name: _split(content[name]) for name in COLUMNS}
        columns |= {name: (0.0,) * len(columns["x"]) for name in ERRORS if not content[name]}
        family, outcome = (tuple(map(int, content[name].split())) for name in ("family", "outcome"))
        allowed = content["allowed"]
        return cls(
            cases=content["cases"],
            families=tuple(content["families"]),
            family=family,
            outcome=outcome,
            **columns,
            knobs={name: _split(values) for name, values in content["knobs"].items()},
            curves=tuple(_unpacked(Curve, packed) for packed in content["curves"]),
            exponents=tuple(_unpacked(Exponent, packed) for packed in content["exponents"]),
            failed=content["failed"],
            allowed=None if allowed is None else _split(allowed),  # type: ignore[arg-type]
        )


def rounded(value: float) -> float:
    """A number to DIGITS digits; NaN becomes infinite, which is not drawn and equals itself.

    Args:
        value: any number, infinities and NaN too.
    """
    return math.inf if math.isnan(value) else float(f"{value:.{DIGITS}g}")


def _joined(values: tuple[float, ...]) -> str:
    return " ".join(f"{value:g}" for value in values)


def _split(text: str) -> tuple[float, ...]:
    return tuple(map(float, text.split()))


def _packed(record: Curve | Exponent) -> dict[str, Any]:
    content = {part.name: getattr(record, part.name) for part in fields(record)}
    return {name: _joined(value) if isinstance(value, tuple) else value for name, value in content.items()}


def _unpacked(kind: type, content: Mapping[str, Any]) -> Any:
    columns = ("x", "y", "error") if kind is Curve else ()
    return kind(**{name: _split(value) if name in columns else value for name, value in content.items()})
