"""Exponents from ladders of sizes: a log-log slope with an interval that admits finite-size bias."""

from __future__ import annotations

import numpy as np
from scipy import stats

from ntkfl.estimate import Estimate

LEVEL = 0.99
RESAMPLES = 400
NEXT_ORDER_SIZES = 6
EPS = np.finfo(float).eps


def slope(sizes: np.ndarray, values: np.ndarray, *, biased: bool = True) -> Estimate:
    """Slope of log(value) against log(size), with its interval.

    Args:
        sizes: (s,), at least four different. values: (s,) positive, or (s, seeds), whose RMS is fitted.
        biased: whether the leading power is only approached in the limit; a ladder whose expectation follows the power
            at every size needs no next-order term.

    The half-width is the larger change of the slope when the two smallest sizes are dropped and, on a biased ladder of
    six sizes or more, when a next-order term size^(-1/2) is fitted beside it, plus the noise at the 99% level: the
    t-interval of the line, or the bootstrap over seeds, whichever is wider.

    Raises:
        ValueError: fewer than four sizes, or a value that is not positive.
    """
    sizes, values = np.asarray(sizes, float), np.asarray(values, float)
    samples = values[:, None] if values.ndim == 1 else values
    if len(np.unique(sizes)) < 4:
        raise ValueError(f"a slope needs at least 4 different sizes, got {len(np.unique(sizes))}")
    root = values if values.ndim == 1 else np.sqrt((samples**2).mean(axis=1))
    if not (root > 0).all():
        raise ValueError(f"a slope needs positive values; size {sizes[np.argmin(root)]:g} has {root.min():g}")
    order = np.argsort(sizes)
    logs, samples, heights = np.log(sizes[order]), samples[order], np.log(root[order])
    line, spread = _least_squares(logs, heights)
    noise = stats.t.ppf((1 + LEVEL) / 2, len(logs) - 2) * spread
    if samples.shape[1] > 1:
        noise = max(noise, stats.norm.ppf((1 + LEVEL) / 2) * _resampled(logs, samples, biased))
    tail, _ = _least_squares(logs[2:], heights[2:])
    half = noise + max(abs(line - tail), abs(line - _exponent(logs, heights, biased)))
    half += 16 * EPS * (np.abs(heights).max() + np.abs(logs).max()) / np.ptp(logs)  # logs are rounded
    return Estimate(line, half, f"log-log slope, {LEVEL:.0%} interval with finite-size bias")


def _least_squares(x: np.ndarray, y: np.ndarray) -> tuple[float, float]:
    """The slope of the line of best fit and its standard error (0 where two points leave none)."""
    x, y = x - x.mean(), y - y.mean()
    slope = (x @ y) / (x @ x)
    rest = y - slope * x
    return float(slope), float(np.sqrt((rest @ rest) / max(len(x) - 2, 1) / (x @ x)))


def _exponent(logs: np.ndarray, heights: np.ndarray, biased: bool) -> np.ndarray:
    """The exponents e of the fits c + e log(size) + b size^(-1/2), b = 0 on few sizes; heights (s,) or (s, fits)."""
    design = np.stack([np.ones_like(logs), logs, np.exp(-(logs - logs[0]) / 2)], axis=1)
    if not biased or len(logs) < NEXT_ORDER_SIZES:  # three parameters would leave too few sizes to judge them by
        design = design[:, :2]
    return np.linalg.lstsq(design, heights, rcond=None)[0][1]


def _resampled(logs: np.ndarray, samples: np.ndarray, biased: bool) -> float:
    """Standard deviation of the next-order exponent when every size draws its seeds anew from those it has."""
    sizes, seeds = samples.shape
    picks = np.random.default_rng(0).integers(0, seeds, (RESAMPLES, sizes, seeds))
    root = np.sqrt((np.take_along_axis(np.broadcast_to(samples, picks.shape), picks, axis=2) ** 2).mean(axis=2))
    positive = root[(root > 0).all(axis=1)]
    return float(_exponent(logs, np.log(positive).T, biased).std()) if len(positive) else np.inf
