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
    """Values are not positive and finite, so that they have no logarithm, and no power of the size fits them."""


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
        """The power of 1/size."""
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
    bound of the error of log(value) for each size; default no errors.

    The half-width of the interval is the sum of two parts. The first part is the change of the slope when the two
    smallest sizes are dropped. On a biased ladder of six sizes or more a next-order term size^(-1/2) is fitted too. If
    the slope changes more by this fit, the first part is this larger change. The second part is the noise at the 99%
    level. It comes from the t-interval of the line or from the bootstrap over seeds, whichever is wider. Samples of
    different sizes are taken to be independent. Both
    this interval and that of the powers which are not refuted are wider by the largest change of the slope by `errors`,
    with or without the two smallest sizes.

    A power outside this interval is not refuted if a power law with this power and a second term fits at the level
    `REFUTED`. The second term is of the order size^(-1/4), size^(-1/2) or 1/size relative to the first. At the smallest
    size the second term is no larger than the first term, and no larger than half of the first term if their signs are
    opposite. On six sizes or more, a power is not refuted either if such a law fits the sizes without the two smallest.

    Raises:
        ValueError: fewer than four sizes. NoSlope: a value that is not positive and finite.
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
    ends = line - half, line + half, *_admitted(logs, heights, spreads / root, counts)
    beyond = float(max(line - min(ends), max(ends) - line))
    fitted = Slope(np.array(line), np.array(half), known_by, Rigour.SAMPLED, beyond, sizes[order], root, spreads)
    if errors is None or not np.any(errors):
        return fitted
    return fitted.widened(
        max(_largest_change(logs[first:], errors[order][first:]) for first in (0, 2)), "for errors of the values"
    )


def _largest_change(x: np.ndarray, errors: np.ndarray) -> float:
    """The largest change of the slope of the line of best fit if each height changes by at most its error."""
    x = x - x.mean()
    return float(np.abs(x) @ errors / (x @ x))


def _least_squares(x: np.ndarray, y: np.ndarray) -> tuple[float, float]:
    """The slope of the line of best fit, and its standard error, which is 0 for two points."""
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


def _admitted(logs: np.ndarray, heights: np.ndarray, errors: np.ndarray, counts: np.ndarray) -> list[float]:
    """The ends of the intervals of powers that are not refuted.

    They are computed from all sizes and, if there are six or more, once more without the two smallest. The noise of a
    size is that of its own samples or the mean over the sizes, whichever is larger; it is scaled up if no curve fits.
    If no size has two samples, the noise is what remains after the best curve is subtracted. The sizes differ in their
    noise, so that the degrees of freedom are Satterthwaite's for the line's slope. They are fewer than those of all
    samples together.
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
        scale = rest.min() / (len(x) - 3)
        scale = max(1.0, scale) if freedom else scale
        parts = weight * x**2  # the contribution of each size to the slope's variance
        free = parts.sum() ** 2 / (parts**2 @ (1 / np.maximum(counts[first:] - 1, 1))) if freedom else len(x) - 3
        room = scale * stdtrit(free, (1 + REFUTED) / 2) ** 2 + rest.min() - rest
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
