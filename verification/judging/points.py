"""The measurements of a check on every case, as numbers for a picture.

A picture shows how left/right depends on some numbers of the case, such as its width. These numbers are called knobs.
"""

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from fractions import Fraction
from typing import Any

import numpy as np
import sympy as sp

from bounds import Form, Kind, Statement
from bounds.case import case_of
from bounds.federated_run import FederatedRun
from bounds.ladders.slopes import Slope
from ntkfl import Estimate, interruption
from verification.case_points import STORED, CasePoints, Curve, Exponent, rounded
from verification.compare import IDENTITIES, SEVERITY, Comparison, ratios

Measurement = tuple[tuple[Estimate, ...], Mapping[Any, Any]]  # what `Statement.measured` returns

NOT_KNOBS = ("seed", "case", "starts", "pairs", "draws", "networks")
# smallest number of values of a knob; largest number of places of a curve; largest number of families or knobs kept
MANY, LONG, FEW = 4, 24, 3
RELATED = 0.97  # of two knobs with a larger rank correlation only one is kept, since both say the same


@dataclass
class Points:
    """The measurements of one form's check so far, one row for each case. `case_points` returns them as a value."""

    statement: Statement
    form: Form
    rows: list[dict[str, Any]] = field(default_factory=list)
    # the sharpest curve of each family
    curves: dict[tuple[str, int], tuple[float, Curve]] = field(default_factory=dict)
    exponents: list[Exponent] = field(default_factory=list)
    failures: list[float] = field(default_factory=list)
    not_placed: int = 0

    def add(
        self,
        case: Any,
        family: str,
        comparison: Comparison,
        measurement: Measurement,
        right: tuple[Estimate, ...],
        failure: float | None = None,
    ) -> None:
        """Keep the numbers of an admitted case for the picture; no verdict uses them.

        If the numbers of a case cannot be computed, `not_placed` counts the case.
        """
        try:
            row = {"family": family, "outcome": SEVERITY.index(comparison.outcome), "ratio": comparison.tightness}
            row["knobs"] = knob_values(self.statement, self.form, case, measurement[1])
            row |= dict(zip(("x", "x_error", "y", "y_error"), self._place(comparison, measurement, right), strict=True))
            self.rows.append(row)
            if failure is not None and family != STORED:
                self.failures.append(failure)
            self._keep_curves(case, family, comparison, measurement, right)
        except Exception:
            interruption.check()  # the error may be the effect of an interrupt
            self.not_placed += 1

    def _place(
        self, comparison: Comparison, measurement: Measurement, sides: tuple[Estimate, ...]
    ) -> tuple[float, float, float, float]:
        """The place of a case in the picture: x, the error of x, y, and the error of y.

        x and y are the right and the left side; for an identity, the relative error and the difference; for a two-sided
        claim, the upper end and the place between the two ends.
        """
        left, right = comparison.left, comparison.right
        kind, formula = self.statement.kind, self.statement.forms[self.form]
        if kind in IDENTITIES:
            gap = abs(float(left.value) - float(right.value))
            tightness = comparison.tightness
            scale = gap / tightness if tightness > 0 else max(abs(float(left.value)), abs(float(right.value)))
            return (float(left.error) + float(right.error)) / (scale or 1), 0.0, tightness, 0.0
        if kind is Kind.TWO_SIDED:
            (upper,), lower = sides, formula.evaluate_lower(measurement[1])
            ends = np.broadcast_arrays(lower.value, upper.value, measurement[0][0].value, measurement[0][0].error)
            low, high, value, error = (np.ravel(end) for end in ends)
            with np.errstate(all="ignore"):
                place, wide = (value - low) / (high - low), error / (high - low)
            nearest = int(np.nanargmin(np.minimum(place, 1 - place)))
            return float(high[nearest]), 0.0, float(place[nearest]), float(wide[nearest])
        return float(right.value), float(right.error), float(left.value), float(left.error)

    def _keep_curves(
        self, case: Any, family: str, comparison: Comparison, measurement: Measurement, right: tuple[Estimate, ...]
    ) -> None:
        """Keep the curves of a case.

        A curve shows values over sizes with their exponent, or the ratio over the entries of an array.
        """
        left, kind = measurement[0], self.statement.kind
        if kind is Kind.RATE:
            for part, (measured, claimed) in enumerate(zip(left, right, strict=True)):
                self._exponents(family, part, measured, claimed)
                if isinstance(measured, Slope):
                    power = float(np.ravel(claimed.value)[0])
                    off = abs(float(measured.value) - power) / max(float(measured.error), 1e-300)
                    self._keep(family, part, off, slope_curve(family, measured, power, part))
        elif kind is Kind.ORDER:
            self._exponents(family, 0, comparison.left, Estimate.exact(0.0))
            for part, (measured, bound) in enumerate(zip(left, right, strict=True)):
                with np.errstate(all="ignore"):
                    ratio, error = measured.value / bound.value, measured.error / abs(bound.value)
                if ratio.ndim > 1:  # the case has many networks of each size
                    ratio, error = _root_mean_square(ratio)
                self._keep(
                    family, part, comparison.tightness, curve(family, "size", case.sizes, ratio, error, claimed=0.0)
                )
        elif isinstance(left[0], Slope):
            self._keep(family, 0, comparison.tightness, slope_curve(family, left[0], None))
        else:
            self._entries(case, family, comparison, left, right)

    def _exponents(self, family: str, part: int, measured: Estimate, claimed: Estimate) -> None:
        columns = np.broadcast_arrays(measured.value, measured.error, claimed.value, claimed.error)
        for numbers in zip(*map(np.ravel, columns), strict=True):
            self.exponents.append(Exponent(family, part, *(rounded(float(number)) for number in numbers)))

    def _entries(self, case: Any, family: str, comparison: Comparison, left: Any, right: tuple[Estimate, ...]) -> None:
        if comparison.tightness < self.curves.get((family, 0), (-np.inf, None))[0]:
            return
        pairs = [(a.value, b.value) for a, b in zip(left, right, strict=True) if a.value.ndim or b.value.ndim]
        best: tuple[float, np.ndarray] | None = None
        for block, other in pairs:
            ratio = ratios(self.statement.kind, *np.broadcast_arrays(block, other))
            if ratio.shape[0] > MANY and (best is None or ratio.max() > best[0]):
                best = float(ratio.max()), ratio.reshape(len(ratio), -1).max(axis=1)
        if best is None:
            return
        rounds = case.setup.rounds if isinstance(case, FederatedRun) else None
        count = len(best[1])
        along = "round" if rounds is not None and count in (rounds, rounds + 1) else "entry"
        start = 1 if rounds is not None and count == rounds else 0
        self._keep(family, 0, comparison.tightness, curve(family, along, np.arange(count) + start, best[1]))

    def _keep(self, family: str, part: int, sharpness: float, line: Curve) -> None:
        kept = self.curves.get((family, part))
        if kept is None or sharpness > kept[0]:
            self.curves[family, part] = sharpness, line

    def case_points(self, limit: int | None = None) -> CasePoints:
        """All measurements so far, as a value.

        `limit` is the largest number of cases that are kept. Cases that violate the form or are sharpest are kept
        first, and then some of the others.
        """
        rows = _thinned(self.rows, limit)
        families = tuple(dict.fromkeys(row["family"] for row in self.rows))
        knobs = {} if self.exponents else chosen_knobs(self.statement, self.rows)
        drawn = Counter(row["family"] == STORED for row in self.rows)
        failed = sum(row["outcome"] == len(SEVERITY) - 1 for row in self.rows if row["family"] != STORED)
        lines = [line for _, line in self.curves.values()]
        sharpest = sorted(lines, key=lambda line: -max(line.y, default=0.0))
        return CasePoints(
            cases=drawn[False],
            families=families,
            family=tuple(families.index(row["family"]) for row in rows),
            outcome=tuple(row["outcome"] for row in rows),
            **{name: tuple(rounded(row[name]) for row in rows) for name in ("x", "x_error", "y", "y_error", "ratio")},
            knobs={name: tuple(rounded(row["knobs"].get(name, np.nan)) for row in rows) for name in knobs},
            curves=tuple(lines if self.exponents else sharpest[:FEW]),
            exponents=tuple(dict.fromkeys(self.exponents)),
            failed=failed if self.failures else None,
            allowed=(rounded(min(self.failures)), rounded(max(self.failures))) if self.failures else None,
        )


def curve(
    family: str,
    along: str,
    x: Iterable[float],
    y: Iterable[float],
    error: Iterable[float] | None = None,
    *,
    claimed: float | None = None,
    part: int = 0,
) -> Curve:
    """A curve with at most LONG places, whose numbers are rounded."""
    places, values, errors = (np.ravel(np.asarray(column, float)) for column in (x, y, () if error is None else error))
    count = len(places)
    kept = np.unique(np.linspace(0, count - 1, min(count, LONG)).round().astype(int))

    def thin(column: np.ndarray) -> tuple[float, ...]:
        return tuple(rounded(float(value)) for value in column[kept]) if len(column) else ()

    return Curve(family, along, thin(places), thin(values), thin(errors), claimed, part)


def slope_curve(family: str, fitted: Slope, claimed: float | None, part: int = 0) -> Curve:
    """A curve with the data to which a slope was fitted."""
    return curve(family, "size", fitted.sizes, fitted.values, fitted.spread, claimed=claimed, part=part)


def knob_values(statement: Statement, form: Form, case: Any, constants: Mapping[Any, Any]) -> dict[str, float]:
    """The numbers of a case on which a ratio may depend.

    The numbers are taken from the description of the case and from the symbols of the formula.
    """
    used = {symbol for part in statement.forms[form].parts for symbol in sp.sympify(part).free_symbols}
    values = {str(symbol): _number(constants.get(symbol)) for symbol in sorted(used, key=str)}
    given = {name: value for name, value in values.items() if value is not None}
    same = {value for value in given.values() if value not in (0.0, 1.0)}
    for name, description in case_of(case).describe().items():
        value = _number(description)
        if value is not None and value not in same and not any(word in name.split("_") for word in NOT_KNOBS):
            given[name] = value
    return given


def chosen_knobs(statement: Statement, rows: Sequence[Mapping[str, Any]]) -> tuple[str, ...]:
    """The knobs that a statement names.

    If the statement names none, the result has the two varying knobs whose ranks correlate best with the ranks of the
    ratio.
    """
    names = dict.fromkeys(name for row in rows for name in row["knobs"])
    if statement.knobs:
        return tuple(name for name in map(str, statement.knobs) if name in names)
    scored: list[tuple[float, str]] = []
    columns: dict[str, np.ndarray] = {}
    ratio = np.array([row["ratio"] for row in rows], float)
    if len(set(ratio[np.isfinite(ratio)].round(6 if statement.kind not in IDENTITIES else 30))) < MANY:
        return ()  # the ratio varies too little to be correlated with anything
    for name in names:
        values = np.array([row["knobs"].get(name, np.nan) for row in rows], float)
        usable = np.isfinite(values) & np.isfinite(ratio)
        if usable.sum() >= max(2 * MANY, len(rows) / 2) and _varies(values[usable]):
            columns[name] = np.where(usable, values, np.nan)
            scored.append((abs(rank_correlation(values, ratio)), name))
    best: list[str] = []
    for _, name in sorted(scored, key=lambda pair: -pair[0]):
        if all(abs(rank_correlation(columns[name], columns[other])) < RELATED for other in best):
            best.append(name)
    return tuple(best[:2])


def _varies(values: np.ndarray) -> bool:
    """Whether several values differ by more than rounding."""
    return len(np.unique(values)) >= MANY and np.ptp(values) > 1e-6 * np.abs(values).max()


def rank_correlation(first: np.ndarray, other: np.ndarray) -> float:
    """Spearman's rank correlation of two arrays over the places where both arrays are finite.

    The result is 0 if an array does not vary there.
    """
    both = np.isfinite(first) & np.isfinite(other)
    ranks = [np.unique(values[both], return_inverse=True)[1].astype(float) for values in (first, other)]
    spread = [values.std() if len(values) else 0.0 for values in ranks]
    if min(spread) == 0:
        return 0.0
    return float(((ranks[0] - ranks[0].mean()) * (ranks[1] - ranks[1].mean())).mean() / (spread[0] * spread[1]))


def _root_mean_square(values: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """The root mean square of each row, with its standard error to first order."""
    rows = values.reshape(len(values), -1)
    root, count = np.sqrt((rows**2).mean(axis=1)), rows.shape[1]
    return root, (rows**2).std(axis=1, ddof=min(1, count - 1)) / (2 * root * np.sqrt(count))


def _number(value: Any) -> float | None:
    if isinstance(value, Estimate):
        value = value.value
    if isinstance(value, bool) or value is None:
        return None
    try:
        values = np.asarray(float(Fraction(value)) if isinstance(value, str) else value, float)
    except (TypeError, ValueError, ZeroDivisionError):
        return None
    if values.size == 0 or values.ndim > 2 or not (values.size == 1 or np.ptp(values) == 0):
        return None
    return float(values.ravel()[0])


def _thinned(rows: list[dict[str, Any]], limit: int | None) -> list[dict[str, Any]]:
    if limit is None or len(rows) <= limit:
        return rows
    order = sorted(
        range(len(rows)), key=lambda i: (rows[i]["family"] != STORED, -rows[i]["outcome"], -rows[i]["ratio"])
    )
    first, rest = order[: limit // 3], sorted(order[limit // 3 :])
    some = np.linspace(0, len(rest) - 1, limit - len(first)).round().astype(int)
    return [rows[i] for i in sorted({*first, *(rest[i] for i in some)})]
