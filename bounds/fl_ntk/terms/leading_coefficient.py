"""The coefficient of a leading power of the width.

The coefficient is extrapolated from several widths by a fit that includes the next order.
"""

from collections.abc import Sequence

import numpy as np
from scipy.special import stdtrit

from ntkfl.estimate import Estimate, Rigour

LEVEL = 0.99


def leading_coefficient(sizes: np.ndarray, samples: Sequence[np.ndarray], power: float) -> Estimate:
    """The number c in E[sample] = c size^power (1 + O(size^(-1/2))), entry by entry.

    `samples` has the samples of each of `sizes`. At least three different sizes are needed, and two seeds of each.

    The mean over seeds, divided by size^power, is fitted by c + b size^(-1/2). The weights of the fit come from the
    variance over seeds, which is taken to follow a power of the size. The half-width is the 99% t-interval (for all
    entries together, by Bonferroni) plus the change of c when the two smallest sizes are dropped, if at least three are
    left.

    Raises:
        ValueError: fewer than three sizes or two seeds.
    """
    sizes, counts = np.asarray(sizes, float), np.array([len(sample) for sample in samples])
    if len(np.unique(sizes)) < 3 or counts.shape != sizes.shape or counts.min() < 2:
        raise ValueError(
            f"there are {len(np.unique(sizes))} different sizes with {counts.tolist()} samples; "
            "at least 3 sizes with 2 samples each are needed"
        )
    order, shape = np.argsort(sizes), np.shape(samples[0])[1:]
    sizes, counts = sizes[order], counts[order]
    scaled = [np.reshape(samples[i], (len(samples[i]), -1)) / size**power for i, size in zip(order, sizes, strict=True)]
    mean = np.stack([sample.mean(axis=0) for sample in scaled])
    spread = (
        _spread(sizes, np.stack([sample.var(axis=0, ddof=1) for sample in scaled]), mean) / np.sqrt(counts)[:, None]
    )
    coefficient, error = _intercept(sizes, mean, spread)
    half = stdtrit((counts - 1).sum(), 1 - (1 - LEVEL) / 2 / mean.shape[1]) * error
    if len(sizes) >= 5:
        half = half + np.abs(coefficient - _intercept(sizes[2:], mean[2:], spread[2:])[0])
    return Estimate(
        coefficient.reshape(shape), half.reshape(shape), f"leading coefficient, {LEVEL:.0%} interval", Rigour.SAMPLED
    )


def _spread(sizes: np.ndarray, variance: np.ndarray, mean: np.ndarray) -> np.ndarray:
    """The standard deviations over seeds, smoothed over the sizes, (s, entries).

    Before the smoothing, a variance below the square of the rounding error is replaced by this square.
    """
    floor = np.maximum((1e-12 * np.abs(mean)) ** 2, 1e-300)
    design = np.stack([np.ones_like(sizes), np.log(sizes)], axis=1)
    fit = np.linalg.lstsq(design, np.log(np.maximum(variance, floor)), rcond=None)[0]
    return np.exp(design @ fit / 2)


def _intercept(sizes: np.ndarray, mean: np.ndarray, spread: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """The constant of the weighted fit c + b size^(-1/2) and its standard error, for each column."""
    weight, x = 1 / spread**2, (1 / np.sqrt(sizes))[:, None]
    total, centre = weight.sum(axis=0), (weight * x).sum(axis=0) / weight.sum(axis=0)
    scatter = (weight * (x - centre) ** 2).sum(axis=0)
    slope = (weight * (x - centre) * mean).sum(axis=0) / scatter
    height = (weight * mean).sum(axis=0) / total
    return height - slope * centre, np.sqrt(1 / total + centre**2 / scatter)
