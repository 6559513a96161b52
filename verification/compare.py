"""The outcome of a trial, found by comparing enclosures of the two sides of a claim.

An enclosure is a value with its error. The outcome follows from the places of the two enclosures relative to each
other, never from a tolerance.
"""

from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from bounds import Form, Formula, Kind, Outcome, Statement
from bounds.formula import Constants
from bounds.ladders.slopes import Slope, slope
from ntkfl.estimate import Estimate

# overlapping enclosures with a relative error below this number touch; with a larger error they leave the question open
FINE = 1e-6

# a claim on an exponent is unresolved if the error is larger: so large an error cannot tell -1/2 from -1/4 or -3/4
COARSE = 0.2

IDENTITIES = (Kind.EQUALITY, Kind.DEFINITION, Kind.EXISTENCE)

SEVERITY = (Outcome.HOLDS, Outcome.TOUCHES, Outcome.UNRESOLVED, Outcome.VIOLATED)


@dataclass(frozen=True)
class Comparison:
    """The outcome of one trial, the two sides where they decide, and how tight the comparison was.

    `left`, `right`: the two sides at the entry that decided, which is the worst one. `tightness`: the largest
    left/right, or right/left for a claim that the left side is at least the right side; for an equality, the largest
    |difference| relative to the scale; for a power of the width, the largest distance from the claimed power, in
    half-widths of the measured one. `margin_in_errors`: the smallest distance of the two sides, in units of their
    error. `refuted`: whether a violation refutes the claim. It is False for a claim about networks of several sizes if
    noise and a second term of the power law could explain the measured power or growth (see `slopes.slope`).
    """

    outcome: Outcome
    left: Estimate
    right: Estimate
    tightness: float
    margin_in_errors: float
    refuted: bool = True

    @property
    def errors_apart(self) -> float:
        """The distance of the two deciding sides over the sum of their errors.

        It is infinite if neither side has an error.
        """
        apart, error = abs(float(self.left.value) - float(self.right.value)), float(self.left.error + self.right.error)
        return apart / error if error > 0 else np.inf


def compare(
    kind: Kind, left: Estimate, right: Estimate, lower: Estimate | None = None, reverse: bool = False
) -> Comparison:
    """Compare a measured left side with a right side, entry by entry; the worst entry decides.

    Args:
        kind: the kind of the claim, which says which side may be the larger.
        left: values of the left side, a number or an array.
        right: values of the right side.
        lower: the right side of the inequality from below, for two-sided claims; default none.
        reverse: compare with the opposite inequality, in which the sides change places. A mutant, which is a wrong
            version of a formula, may claim it.

    Raises:
        ValueError: neither side has the shape to which both sides broadcast (as with a column and a row), or a side has
            no entry.

    Example:
        >>> from bounds import Kind
        >>> from ntkfl import Estimate
        >>> from verification.compare import compare
        >>> compare(Kind.UPPER, Estimate.exact(1.0), Estimate.exact(2.0)).outcome
        <Outcome.HOLDS: 'holds'>
    """
    if kind is Kind.TWO_SIDED:
        assert lower is not None, "a two-sided statement has a lower formula"
        above, below = compare(Kind.UPPER, left, right, None, reverse), compare(Kind.LOWER, left, lower, None, reverse)
        return _worst([above, below])
    if reverse:
        left, right = right, left
    shape = np.broadcast_shapes(left.value.shape, right.value.shape)
    if shape not in (left.value.shape, right.value.shape):
        raise ValueError(
            f"the sides have shapes {left.value.shape} and {right.value.shape}; both broadcast to {shape}, and one of "
            "them must have this shape"
        )
    l_value, l_error, l_lo, l_hi = (_entries(v, shape) for v in (left.value, left.error, left.lo, left.hi))
    r_value, r_error, r_lo, r_hi = (_entries(v, shape) for v in (right.value, right.error, right.lo, right.hi))
    with np.errstate(all="ignore"):  # an infinite end or a quotient beyond float64 is a result, not an error
        error, size, gap = l_error + r_error, np.maximum(np.abs(l_value), np.abs(r_value)), r_value - l_value
        margins = np.full(gap.shape, np.inf)
        if kind in IDENTITIES:
            size = np.broadcast_to(size.max(initial=0), size.shape)
            codes = np.where((l_lo > r_hi) | (l_hi < r_lo), 3, np.where(_fine(error, size), 0, 2))
            nearness = ratios(kind, l_value, r_value)
        elif kind is Kind.RATE:
            codes = np.where(error > COARSE, 2, np.where((l_lo > r_hi) | (l_hi < r_lo), 3, 0))
            nearness = np.where(l_value == r_value, 0.0, np.abs(gap) / l_error)
        else:
            holds, violated = (l_hi <= r_lo, l_lo > r_hi) if kind is not Kind.LOWER else (l_lo >= r_hi, l_hi < r_lo)
            codes = np.where(holds, 0, np.where(violated, 3, np.where(_fine(error, size), 1, 2)))
            # two infinite values cannot be ordered
            codes = np.where((l_value == r_value) & np.isinf(l_value), 2, codes)
            nearness = ratios(kind, l_value, r_value)
            margins = np.where(error > 0, np.abs(gap) / error, np.inf)
    if not gap.size:
        raise ValueError("neither side has an entry: there is nothing to compare")
    nearness, margins = np.where(np.isnan(nearness), np.inf, nearness), np.where(np.isnan(margins), 0.0, margins)
    worst = np.lexsort((nearness.ravel(), codes.ravel()))[-1]
    return Comparison(
        SEVERITY[int(codes.max())],
        Estimate(l_value.ravel()[worst], l_error.ravel()[worst], left.method, left.rigour),
        Estimate(r_value.ravel()[worst], r_error.ravel()[worst], right.method, right.rigour),
        float(nearness.max()),
        float(margins.min()),
        not isinstance(left, Slope) or left.refutes(np.stack([right.lo, right.hi])),
    )


def ratios(kind: Kind, left: np.ndarray, right: np.ndarray) -> np.ndarray:
    """How near the two sides are, in their shape.

    This is left/right, or right/left for a claim that the left side is at least the right side. For an identity it is
    the difference over the largest entry.

    Args:
        kind: the kind of the claim.
        left: values of the left side, a number or an array.
        right: values of the right side.
    """
    with np.errstate(all="ignore"):
        if kind in IDENTITIES:
            size = np.maximum(np.abs(left), np.abs(right)).max(initial=0)
            return np.where(left == right, 0.0, np.abs(right - left) / (size if size > 0 else 1))
        low, high = (left, right) if kind is not Kind.LOWER else (right, left)
        ratio = np.where(low == high, 1.0, np.where(high > 0, low / high, np.where(low < high, 0.0, np.inf)))
        return np.where(np.isnan(ratio), np.inf, ratio)


def _entries(part: np.ndarray, shape: tuple[int, ...]) -> np.ndarray:
    part = part if part.shape == shape else np.broadcast_to(part, shape)
    return part if shape else part.reshape(1)


def _fine(error: np.ndarray, size: np.ndarray) -> np.ndarray:
    return (error <= FINE * size) & np.isfinite(size)


def judge(
    statement: Statement,
    form: Form,
    case: Any,
    *,
    formula: Formula | None = None,
    known: tuple[tuple[Estimate, ...], Constants] | None = None,
    right: tuple[Estimate, ...] | None = None,
    reverse: bool = False,
) -> Comparison:
    """Evaluate both sides of one form on one case and compare them, for each part of the claim; the worst part decides.

    Args:
        statement: the claim.
        form: one of the statement's forms.
        case: the case; it is assumed to meet the hypotheses.
        formula: a formula in place of the form's own, such as a mutant's; default the form's own.
        known: the result of `statement.measured` on this case, if it is known; default measured here.
        right: the values of the formula for each part of the claim, if they are known; default evaluated here.
        reverse: compare with the opposite inequality, which a mutant may claim.

    Raises:
        ValueError: the formula has another number of parts than the left side.
    """
    formula = statement.forms[form] if formula is None else formula
    left, constants = statement.measured(form, case) if known is None else known
    right = formula.evaluate(constants) if right is None else right
    if len(left) != len(right):
        raise ValueError(f"{statement.id} measures {len(left)} parts, its {form.value} formula has {len(right)}")
    if statement.kind is Kind.ORDER:
        pairs = zip(right, left, strict=True) if reverse else zip(left, right, strict=True)
        return _worst([_growth(case, *sides) for sides in pairs])
    lower = formula.evaluate_lower(constants) if formula.lower is not None else None
    kind = Kind.UPPER if statement.kind is Kind.PROBABILITY else statement.kind
    return _worst([compare(kind, *sides, lower, reverse) for sides in zip(left, right, strict=True)])


def _worst(parts: list[Comparison]) -> Comparison:
    """The comparison of the part that decides, with the smallest margin of all parts."""
    worst = max(parts, key=rank)
    nearest = min(part.margin_in_errors for part in parts)
    return worst if worst.margin_in_errors == nearest else replace(worst, margin_in_errors=nearest)


def rank(comparison: Comparison) -> tuple[int, bool, float]:
    """How bad a comparison is, as a key for sorting.

    Of two violations, one that refutes the claim is worse than one that a second term of the power law could explain.

    Args:
        comparison: the comparison of a case, or of one part of a claim.

    Returns: the severity of the outcome, whether it is a violation that refutes the claim, and the tightness.
    """
    violated = comparison.outcome is Outcome.VIOLATED
    return SEVERITY.index(comparison.outcome), violated and comparison.refuted, comparison.tightness


def _growth(case: Any, left: Estimate, right: Estimate) -> Comparison:
    """Judge an O(.) claim, by which left/right must not grow along a ladder of sizes.

    The exponent of left/right decides. If its interval lies above 0 the claim is violated, unless the left side may be
    0; in that case perhaps only the error of the left side grows. The violation refutes the claim only if no exponent
    of at most 0 fits the values even with a second term of the power law (`bounds.ladders.slopes.slope` says which
    second terms). The claim holds if the whole interval is at most 0. It also holds if the interval contains 0 and is
    narrow enough to tell a quarter power from no growth. If the right side is 0 and the left side surely is not, no
    constant makes the claim true, so one case decides.
    """
    beyond = np.flatnonzero((np.atleast_1d(right.hi) <= 0) & (np.atleast_1d(left.lo) > 0))
    if len(beyond):
        entry = beyond[0]
        above, zero = (
            Estimate(e.value.ravel()[entry], e.error.ravel()[entry], e.method, e.rigour) for e in (left, right)
        )
        return Comparison(Outcome.VIOLATED, above, zero, np.inf, np.inf)
    exponent = slope(case.sizes, left.value / right.value)
    if exponent.lo > 0:
        outcome = Outcome.VIOLATED if (left.lo > 0).all() else Outcome.UNRESOLVED
    else:
        outcome = Outcome.HOLDS if exponent.hi <= 0 or exponent.error <= COARSE else Outcome.UNRESOLVED
    return Comparison(
        outcome,
        exponent,
        Estimate.exact(0.0),
        float((left.value / right.value).max()),
        np.inf,
        exponent.refutes(0.0),
    )
