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
    |difference| relative to the scale; for a rate, the largest distance of the measured from the claimed value, in
    half-widths of the measured interval. `margin_in_errors`: the smallest distance of the two sides, in units of their
    error. `explained`: True if three conditions hold. First, networks of several sizes were measured, with one of two
    results: the claimed power is outside the interval of the measured power, or a ratio grows. Second, noise and a
    second term of the power law could explain this result (see `slopes.slope`). Third, nothing else violates the claim.
    If `explained` is True, the outcome is unresolved.
    """

    outcome: Outcome
    left: Estimate
    right: Estimate
    tightness: float
    margin_in_errors: float
    explained: bool = False

    @property
    def errors_apart(self) -> float:
        """The distance of the two deciding sides, divided by the sum of their errors.

        The result is infinite if neither side has an error.
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
    explained = np.zeros(gap.shape, bool)
    if isinstance(left, Slope):
        explained = (codes == 3) & (np.minimum(np.abs(l_value - r_lo), np.abs(l_value - r_hi)) <= left.refuted_beyond)
        codes = np.where(explained, 2, codes)
    worst = np.lexsort((nearness.ravel(), explained.ravel(), codes.ravel()))[-1]
    return Comparison(
        SEVERITY[int(codes.max())],
        Estimate(l_value.ravel()[worst], l_error.ravel()[worst], left.method, left.rigour),
        Estimate(r_value.ravel()[worst], r_error.ravel()[worst], right.method, right.rigour),
        float(nearness.max()),
        float(margins.min()),
        bool(explained.ravel()[worst]),
    )


def ratios(kind: Kind, left: np.ndarray, right: np.ndarray) -> np.ndarray:
    """How near the two sides are, entry by entry.

    The result has the shape of the two sides. It is left/right, or right/left for a claim that the left side is at
    least the right side. For an identity the result is the difference divided by the largest entry.

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

    A comparison may be unresolved only because of a second term of a power law (`explained` is then True). Such a
    comparison is worse than a comparison that is unresolved because its errors are too large.

    Args:
        comparison: the comparison of a case, or of one part of a claim.

    Returns: the severity of the outcome, whether only a second term leaves the comparison open, and the tightness.
    """
    return SEVERITY.index(comparison.outcome), comparison.explained, comparison.tightness


def _growth(case: Any, left: Estimate, right: Estimate) -> Comparison:
    """Judge an O(.) claim, by which left/right must not grow along a ladder of sizes.

    The exponent of left/right decides; its interval allows for the errors of both sides. If this interval lies above 0
    the claim is violated, unless an exponent of at most 0 fits with a second term (`bounds.ladders.slopes.slope` says
    which second terms). In that case the claim is unresolved. The claim is also unresolved if a side may be 0 at some
    size. The claim holds if the whole interval is at most 0. It also holds if the interval contains 0 and is narrow
    enough to tell a quarter power from no growth. If the right side is 0 and the left side surely is not, no constant
    makes the claim true, so one case decides.
    """
    beyond = np.flatnonzero((np.atleast_1d(right.hi) <= 0) & (np.atleast_1d(left.lo) > 0))
    if len(beyond):
        entry = beyond[0]
        above, zero = (
            Estimate(e.value.ravel()[entry], e.error.ravel()[entry], e.method, e.rigour) for e in (left, right)
        )
        return Comparison(Outcome.VIOLATED, above, zero, np.inf, np.inf)
    errors = (_log_error(left) + _log_error(right)).reshape(len(case.sizes), -1).max(axis=1)
    known = bool(np.isfinite(errors).all())
    exponent = slope(case.sizes, left.value / right.value, errors=errors if known else None)
    explained = known and bool(exponent.lo > 0) and not exponent.refutes(0.0)
    if not known or explained:
        outcome = Outcome.UNRESOLVED
    elif exponent.lo > 0:
        outcome = Outcome.VIOLATED
    else:
        outcome = Outcome.HOLDS if exponent.hi <= 0 or exponent.error <= COARSE else Outcome.UNRESOLVED
    tightness = float((left.value / right.value).max())
    return Comparison(outcome, exponent, Estimate.exact(0.0), tightness, np.inf, explained)


def _log_error(side: Estimate) -> np.ndarray:
    """The error of the logarithm of a side; it is infinite where the side may be 0."""
    with np.errstate(all="ignore"):
        return np.where(side.lo > 0, np.log(side.value / side.lo), np.inf)
