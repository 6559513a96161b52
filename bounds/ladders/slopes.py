"""Exponents from ladders of sizes: a log-log slope, its interval, and the powers that the ladder does not refute.

A ladder is a quantity that is measured at several sizes, for example at growing widths.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace

import numpy as np
from scipy.special import ndtri, stdtrit

from ntkfl.estimate import Estimate, Rigour

LEVEL = 0.99
RESAMPLES = 400
NEXT_ORDER_SIZES = 6
REFUTED = 0.999  # level at which a power is refuted
# A ladder may have a second term: value = c size^e (1 + b (smallest/size)^p). These are the values of b and p.
SECOND_TERMS = np.linspace(-0.5, 1, 25)
SECOND_POWERS = (0.25, 0.5, 1)
EPS = np.finfo(float).eps


class NoSlope(ArithmeticError, ValueError):
    """A value is not positive and finite. Such a value has no logarithm, and no power of the size fits it."""


@dataclass(frozen=True, eq=False)
class Slope(Estimate):
    """A slope with its data for pictures: `values` at `sizes`, and `spread`, the standard error of each value.

    Powers that are farther than `refuted_beyond` from the slope are refuted. Equality compares only values and errors.
    """

    refuted_beyond: float = 0.0
    sizes: np.ndarray = field(default_factory=lambda: np.empty(0))
    values: np.ndarray = field(default_factory=lambda: np.empty(0))
    spread: np.ndarray = field(default_factory=lambda: np.empty(0))

    def refutes(self, power: float | np.ndarray) -> bool:
        """Whether the ladder excludes this power, even if noise and second terms are allowed for."""
        return bool(np.all(np.abs(self.value - power) > self.refuted_beyond))

    def widened(self, by: float, reason: str) -> Slope:
        """The slope with both half-widths larger by a systematic error."""
        beyond, method = self.refuted_beyond + by, f"{self.method}, {by:g} {reason}"
        return replace(self, error=self.error + by, refuted_beyond=beyond, method=method)

    def __neg__(self) -> Slope:
        """The slope against log(1/size), which is the negative of the slope against log(size)."""
        return replace(self, value=-self.value, sizes=1 / self.sizes)


def slope(
    sizes: np.ndarray,
    values: np.ndarray | Sequence[np.ndarray],
    *,
    biased: bool = True,
    errors: np.ndarray | None = None,
) -> Slope:
    """Slope of log(value) against log(size), with its interval.

    At least four different sizes are needed. Several samples of a size enter by their root mean square. `biased` says
    that the leading power is only approached in the limit. If it is false, no next-order term is fitted. `errors` has a
    bound of the error of log(value) for each size, which holds for all samples of the size; default no errors.

    The half-width of the interval is the sum of two parts. The first part is the change of the slope when the two
    smallest sizes are dropped. On a biased ladder of six sizes or more the first part is the larger of this change and
    the change of the slope when a next-order term size^(-1/2) is fitted too. The second part is the noise at the 99%
    level. It comes from the t-interval of the line or from the bootstrap over seeds, whichever is wider. Samples of
    different sizes are taken to be independent.

    A power outside the interval of the slope is not refuted if a power law with this power and a second term fits at
    the level `REFUTED`. The second term is of the order size^(-1/4), size^(-1/2) or 1/size relative to the first. At
    the smallest size the second term is no larger than the first term, and no larger than half of the first term if
    their signs are opposite. On six sizes or more, a power is not refuted either if such a law fits the sizes without
    the two smallest.

    With `errors` the interval contains the intervals of all values within these errors, and a power is refuted only if
    it is refuted for all such values. If sizes have several samples, each size has a weight in the fits that decide
    about a power. These weights follow from the noise of the given values alone, also for the other such values.

    Raises:
        ValueError: fewer than four sizes, or errors that are not one finite number of at least 0 for each size.
            NoSlope: a value that is not positive and finite.
    """
    sizes = np.asarray(sizes, float)
    if len(np.unique(sizes)) < 4:
        raise ValueError(f"a slope needs at least 4 different sizes, got {len(np.unique(sizes))}")
    order = np.argsort(sizes)
    samples = [np.atleast_1d(np.asarray(values[i], float)) for i in order]
    single = all(len(sample) == 1 for sample in samples)
    root = np.array([sample[0] if single else np.sqrt((sample**2).mean()) for sample in samples])
    wrong = np.flatnonzero(~((root > 0) & (root < np.inf)))
    if len(wrong):
        size, value = sizes[order][wrong[0]], root[wrong[0]]
        raise NoSlope(f"a slope needs positive finite values; size {size:g} has {value:g}")
    logs, heights = np.log(sizes[order]), np.log(root)
    shifts = np.zeros(len(sizes)) if errors is None else _shifts(errors, sizes)[order]
    line, spread = _least_squares(logs, heights)
    noise = stdtrit(len(logs) - 2, (1 + LEVEL) / 2) * spread
    if not single:
        noise = max(noise, ndtri((1 + LEVEL) / 2) * _resampled(logs, samples, biased))
    tail, _ = _least_squares(logs[2:], heights[2:])
    half = noise + max(abs(line - tail), abs(line - _exponent(logs, heights, biased)))
    # the rounding error of the logarithms
    half += 16 * EPS * (np.abs(heights).max() + np.abs(logs).max()) / np.ptp(logs)
    known_by = f"log-log slope, {LEVEL:.0%} interval with finite-size bias"
    spreads = np.array([(sample**2).std(ddof=1) if len(sample) > 1 else 0.0 for sample in samples])
    counts = np.array([len(sample) for sample in samples])
    spreads /= 2 * root * np.sqrt(counts)  # the standard error of the root mean square, to first order
    if shifts.any():
        wider = _largest_change(logs, shifts, biased, single)
        half += wider
        known_by = f"{known_by}, {wider:g} for errors of the values"
    ends = line - half, line + half, *_admitted(logs, heights, spreads / root, counts, shifts)
    beyond = float(max(line - min(ends), max(ends) - line))
    return Slope(np.array(line), np.array(half), known_by, Rigour.SAMPLED, beyond, sizes[order], root, spreads)


def _shifts(errors: np.ndarray, sizes: np.ndarray) -> np.ndarray:
    """The errors of the logarithms, checked."""
    shifts = np.asarray(errors, float)
    if shifts.shape != sizes.shape:
        raise ValueError(f"errors have shape {shifts.shape}; a slope needs one error for each of {len(sizes)} sizes")
    wrong = np.flatnonzero(~((shifts >= 0) & (shifts < np.inf)))
    if len(wrong):
        size, error = sizes[wrong[0]], shifts[wrong[0]]
        raise ValueError(f"a slope needs finite errors of at least 0; size {size:g} has {error:g}")
    return shifts


def _largest_change(logs: np.ndarray, shifts: np.ndarray, biased: bool, single: bool) -> float:
    """A bound of how far an end of the interval moves if each height changes by at most its shift.

    Let L, S and E be the slopes of the line, of the line without the two smallest sizes and of the biased fit. The ends
    of the interval without noise are the smallest and the largest of S, 2 L - S, E and 2 L - E. Each is linear in the
    heights. The standard error of the line is a norm of its residuals, which change by at most the norm of the shifts.
    The bound on the change of E also bounds the change of every standard deviation over resamples.
    """
    unit = np.eye(len(logs))
    line, next_order = _exponent(logs, unit, False), _exponent(logs, unit, biased)
    tail = np.concatenate([np.zeros(2), _exponent(logs[2:], unit[2:, 2:], False)])
    linear = [np.abs(end) @ shifts for end in (tail, 2 * line - tail, next_order, 2 * line - next_order)]
    x = logs - logs.mean()
    noise = stdtrit(len(logs) - 2, (1 + LEVEL) / 2) * np.sqrt(shifts @ shifts / (len(logs) - 2) / (x @ x))
    if not single:
        noise = max(noise, ndtri((1 + LEVEL) / 2) * np.abs(next_order) @ shifts)
    return float(max(linear) + noise)


def _least_squares(x: np.ndarray, y: np.ndarray) -> tuple[float, float]:
    """The slope of the line of best fit, and the slope's standard error. For two points the standard error is 0."""
    x, y = x - x.mean(), y - y.mean()
    slope = (x @ y) / (x @ x)
    rest = y - slope * x
    return float(slope), float(np.sqrt((rest @ rest) / max(len(x) - 2, 1) / (x @ x)))


def _exponent(logs: np.ndarray, heights: np.ndarray, biased: bool) -> np.ndarray:
    """The exponents e of the fits c + e log(size) + b size^(-1/2) to heights of shape (s,) or (s, fits).

    b is 0 if there are few sizes, or if `biased` is false.
    """
    design = np.stack([np.ones_like(logs), logs, np.exp(-(logs - logs[0]) / 2)], axis=1)
    if not biased or len(logs) < NEXT_ORDER_SIZES:  # three parameters are too many for few sizes
        design = design[:, :2]
    return np.linalg.lstsq(design, heights, rcond=None)[0][1]


def _admitted(
    logs: np.ndarray, heights: np.ndarray, errors: np.ndarray, counts: np.ndarray, shifts: np.ndarray
) -> list[float]:
    """The ends of the intervals of powers that are not refuted.

    The intervals are computed from all sizes and, if there are six or more sizes, once more without the two smallest.
    The noise of a size is the noise of its own samples or the mean noise over the sizes, whichever is larger; the noise
    is scaled up if no curve fits. If no size has two samples, the noise is what remains after the best curve is
    subtracted. Since the noise differs between the sizes, the t-quantile uses Satterthwaite's degrees of freedom of the
    line's slope. If every size has two samples or more, Satterthwaite's degrees of freedom are at most the degrees of
    freedom of all samples together.

    Each interval contains the intervals of all heights that differ from the given heights by at most `shifts`. The
    distance of the heights from a curve, with any power, changes by at most the norm of the shifts. The distance of the
    heights from the best curve also changes by at most this norm. It is the distance of the best curve that limits how
    far from the heights a curve that fits may be.
    """
    freedom = (counts - 1).sum()
    if freedom:
        own = errors**2 * counts
        variance = np.maximum(own, own @ (counts - 1) / freedom) / counts
        weights = 1 / np.maximum(variance, EPS**2)
    ends: list[float] = []
    for first in (0, 2) if len(logs) >= NEXT_ORDER_SIZES else (0,):
        steps, weight = logs[first:] - logs[first], weights[first:] if freedom else np.ones(len(logs) - first)
        second = np.concatenate([np.log1p(np.outer(SECOND_TERMS, np.exp(-p * steps))) for p in SECOND_POWERS])
        x, curves = steps - weight @ steps / weight.sum(), heights[first:] - second
        curves -= (curves @ weight / weight.sum())[:, None]
        powers = curves @ (weight * x) / (weight @ x**2)
        rest = (curves - powers[:, None] * x) ** 2 @ weight
        moved = np.sqrt(weight @ shifts[first:] ** 2)
        least = rest.min() + moved * (2 * np.sqrt(rest.min()) + moved)
        scale = least / (len(x) - 3)
        scale = max(1.0, scale) if freedom else scale
        parts = weight * x**2  # the contribution of each size to the slope's variance
        free = parts.sum() ** 2 / (parts**2 @ (1 / np.maximum(counts[first:] - 1, 1))) if freedom else len(x) - 3
        limit = scale * stdtrit(free, (1 + REFUTED) / 2) ** 2 + least
        room = limit + moved * (2 * np.sqrt(limit) + moved) - rest
        half = np.sqrt(room[room >= 0] / (weight @ x**2))
        ends += [(powers[room >= 0] - half).min(), (powers[room >= 0] + half).max()]
    return ends


def _resampled(logs: np.ndarray, samples: list[np.ndarray], biased: bool) -> float:
    """The standard deviation of the next-order exponent over bootstrap samples of the seeds of every size."""
    rng = np.random.default_rng(0)
    picks = [rng.choice(sample, (RESAMPLES, len(sample))) for sample in samples]
    root = np.sqrt(np.stack([(picked**2).mean(axis=1) for picked in picks], axis=1))
    positive = root[(root > 0).all(axis=1)]
    return float(_exponent(logs, np.log(positive).T, biased).std()) if len(positive) else np.inf
