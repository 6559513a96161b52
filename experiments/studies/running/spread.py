"""Cells of one place as a point of a chart: their root mean square, or their mean, with its interval."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from scipy import stats

from bounds.ladders.slopes import LEVEL, RESAMPLES

BARS = f"bars: {LEVEL:.0%} bootstrap intervals over seeds"


def root_mean_square(samples: Sequence[np.ndarray]) -> tuple[list[float], list[float], list[float]]:
    """RMS of the cells of each place, and the ends of its bootstrap interval; NaN where there is no cell."""
    return _columns([_resampled(found) for found in samples])


def _resampled(found: np.ndarray) -> tuple[float, float, float]:
    if not len(found):
        return np.nan, np.nan, np.nan
    value = float(np.sqrt((found**2).mean()))
    picks = np.random.default_rng(0).choice(found, (RESAMPLES, len(found)))
    low, high = np.quantile(np.sqrt((picks**2).mean(axis=1)), [(1 - LEVEL) / 2, (1 + LEVEL) / 2])
    return value, min(value, float(low)), max(value, float(high))


def mean(samples: Sequence[np.ndarray]) -> tuple[list[float], list[float], list[float]]:
    """Mean of the cells of each place, and the ends of Student's interval; one cell has the interval of no width."""
    return _columns([_student(found) for found in samples])


def _student(found: np.ndarray) -> tuple[float, float, float]:
    if not len(found):
        return np.nan, np.nan, np.nan
    value = float(found.mean())
    half = 0.0
    if len(found) > 1:
        half = float(stats.t.ppf((1 + LEVEL) / 2, len(found) - 1) * found.std(ddof=1) / np.sqrt(len(found)))
    return value, value - half, value + half


def _columns(points: list[tuple[float, float, float]]) -> tuple[list[float], list[float], list[float]]:
    value, low, high = ([point[place] for point in points] for place in range(3))
    return value, low, high
