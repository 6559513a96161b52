"""Exponents from ladders of sizes: a log-log slope with an interval that admits finite-size bias."""

from __future__ import annotations

import numpy as np
from scipy import stats

from ntkfl.estimate import Estimate

LEVEL = 0.99


def slope(sizes: np.ndarray, values: np.ndarray) -> Estimate:
    """Slope of log(value) against log(size), with its interval.

    Args:
        sizes: (s,), at least four different ones. values: (s,) positive, or (s, seeds), whose RMS over seeds is fitted.

    The half-width is the 99% t-interval of the least-squares slope plus the change when the two smallest sizes are
    dropped: the leading power is approached only in the limit, and the fit must not claim to know better.

    Raises:
        ValueError: fewer than four sizes, or a value that is not positive.
    """
    sizes, values = np.asarray(sizes, float), np.asarray(values, float)
    if values.ndim == 2:
        values = np.sqrt((values**2).mean(axis=1))
    if len(np.unique(sizes)) < 4:
        raise ValueError(f"a slope needs at least 4 different sizes, got {len(np.unique(sizes))}")
    if not (values > 0).all():
        raise ValueError(f"a slope needs positive values; size {sizes[np.argmin(values)]:g} has {values.min():g}")
    order = np.argsort(sizes)
    logs, heights = np.log(sizes[order]), np.log(values[order])
    fit, spread = _least_squares(logs, heights)
    tail, _ = _least_squares(logs[2:], heights[2:])
    half = stats.t.ppf((1 + LEVEL) / 2, len(logs) - 2) * spread + abs(fit - tail)
    half += 16 * np.finfo(float).eps * (np.abs(heights).max() + np.abs(logs).max()) / np.ptp(logs)  # logs are rounded
    return Estimate(
        np.array(fit), np.array(half), f"log-log slope, {LEVEL:.0%} interval and drop of the two smallest sizes"
    )


def _least_squares(x: np.ndarray, y: np.ndarray) -> tuple[float, float]:
    """The slope of the line of best fit and its standard error (0 where two points leave none)."""
    x, y = x - x.mean(), y - y.mean()
    slope = (x @ y) / (x @ x)
    rest = y - slope * x
    return float(slope), float(np.sqrt((rest @ rest) / max(len(x) - 2, 1) / (x @ x)))
