"""A kernel compared with networks of finite width.

The check measures how fast the networks' kernels approach the given kernel, and whether that kernel is the limit of the
networks' mean.
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from itertools import combinations
from typing import Any

import numpy as np
from scipy.special import stdtrit

from bounds.ladders.slopes import slope
from verification.kernels.properties import Judgement, Kernel, Unusable, output

Finite = Callable[[np.ndarray, int, int], Any]

CONCENTRATES, LIMIT = "concentrates", "limit of networks"
RATE = -0.5
WIDEST = 0.2  # half-width of an interval that can still tell one rate from another
LEVEL = 0.999  # level at which the intervals of all entries together cover the limits of the entries' means
AGAIN = 10**6  # added to the seeds, for a repetition on other networks
ROWS = np.array([[1, 0, 0], [0.6, 0.8, 0], [0, -0.6, 0.8], [-1 / 3, 2 / 3, 2 / 3], [0.96, 0.28, 0], [-1, 0, 0]])


@dataclass(frozen=True)
class Networks:
    """Gram matrices of networks. Each network has a seed of its own: seed, seed + 1, ..."""

    finite: Finite  # maps (x, width, seed) to the (n, n) array of a drawn network
    widths: tuple[int, ...]  # ascending, at least four numbers
    count: int  # number of networks of each width
    biased: bool  # whether the mean over networks differs from the limit at finite width

    def on(self, x: np.ndarray, seed: int) -> np.ndarray:
        """The Gram matrices on the rows x, an array (widths, count, n, n).

        Raises:
            Unusable: a matrix that is not finite, not real or not (n, n).
        """
        kernels = np.empty((len(self.widths), self.count, len(x), len(x)))
        for a, width in enumerate(self.widths):
            for b in range(self.count):
                try:
                    kernels[a, b] = output(lambda x, w=width, s=seed + a * self.count + b: self.finite(x, w, s), x)
                except Unusable as error:
                    raise Unusable(f"the finite-width counterpart at width {width}: {error}") from error
        return kernels


def beside(kernel: Kernel, networks: Networks, rounding: float, seed: int) -> Iterator[tuple[str, str, Judgement]]:
    """The rows of a report on a kernel and its networks, each as a name, a requirement, and what was found."""
    requirement = f"slope of log(RMS error) in log(width): {RATE} within its interval, no wider than ± {WIDEST}"
    try:
        limit, kernels = output(kernel, ROWS), networks.on(ROWS, seed)
    except Unusable as error:
        yield CONCENTRATES, requirement, Judgement(np.nan, (RATE, RATE), str(error), ROWS)
        return
    yield CONCENTRATES, requirement, _concentration(kernel, networks, limit, kernels, seed)
    requirement = (
        f"mean of the networks' entry, extrapolated to infinite width, less k(x)'s (over the largest entry of k(x)): "
        f"0 within its interval, {LEVEL:.1%} for all entries together"
    )
    yield LIMIT, requirement, _limit(kernel, networks, limit, kernels, rounding, seed)


def _concentration(kernel: Kernel, networks: Networks, limit: np.ndarray, kernels: np.ndarray, seed: int) -> Judgement:
    """The judgement on all rows. If this judgement fails, the judgement on one or two rows that fail as well takes its
    place.
    """
    judgement = _slope(networks, limit, kernels, ROWS)
    if judgement.unresolved or judgement.margin >= 0:
        return judgement
    for size in (1, 2):
        for rows in combinations(ROWS, size):
            x = np.array(rows)
            try:
                smaller = _slope(networks, output(kernel, x), networks.on(x, seed), x)
            except Unusable as error:
                return Judgement(np.nan, (RATE, RATE), str(error), x)
            if not (smaller.unresolved or smaller.margin >= 0):
                return smaller
    return judgement


def _slope(networks: Networks, limit: np.ndarray, kernels: np.ndarray, x: np.ndarray) -> Judgement:
    """Whether the slope of the RMS error is -1/2 to within the slope's error."""
    errors = np.sqrt(((kernels - limit) ** 2).mean(axis=(2, 3)))
    rms = np.sqrt((errors**2).mean(axis=1))
    widths = networks.widths
    numbers = f"RMS error {rms[0]:.3g} at width {widths[0]}, {rms[-1]:.3g} at width {widths[-1]}"
    if not rms.all():
        return Judgement(0.0, (RATE, RATE), f"{numbers}: there is no error that could fall with the width", x)
    fit = slope(np.asarray(widths), errors, biased=networks.biased)
    value, error = float(fit.value), float(fit.error)
    explanation = f"{numbers}: slope {value:.3f} ± {error:.3f}; required: {RATE} inside"
    unresolved = ""
    if abs(value - RATE) <= error:
        if error > WIDEST:
            unresolved = f"{explanation}, and at most ± {WIDEST}: take more widths or more networks"
    elif not fit.refutes(RATE):
        unresolved = f"{explanation}; noise or a second term may explain it: take more widths or more networks"
    return Judgement(value, (RATE - error, RATE + error), explanation, x, unresolved=unresolved)


def _limit(
    kernel: Kernel, networks: Networks, limit: np.ndarray, kernels: np.ndarray, rounding: float, seed: int
) -> Judgement:
    """The comparison of each entry of k(x) with the limit of the networks' mean.

    A difference counts only if fresh networks show it too.
    """
    first = _worst_entry(networks, limit, kernels, rounding, ROWS)
    if first.margin >= 0:
        return first
    x = ROWS[sorted(set(first.entry))]
    try:
        second = _worst_entry(
            networks, output(kernel, x), networks.on(x, seed + AGAIN), rounding, x, comparisons=_entries(ROWS)
        )
    except Unusable as error:
        return Judgement(np.nan, (0.0, 0.0), str(error), x)
    if second.margin >= 0:
        return first._replace(unresolved=f"{first.explanation}; other networks do not agree: {second.explanation}")
    return second


def _worst_entry(
    networks: Networks, limit: np.ndarray, kernels: np.ndarray, rounding: float, x: np.ndarray, comparisons: int = 0
) -> Judgement:
    """The entry whose difference, in units of its error, is the largest.

    The entry's limit is the constant c of the fit c + b/width to the means over networks, where b = 0 if the means have
    no bias. Each width has its number of neurons as weight. The interval follows from the spread over networks at each
    width, by Welch's t, with Bonferroni's correction for all entries.
    """
    count, weight = kernels.shape[1], np.asarray(networks.widths, float)
    share = weight / weight.sum()  # weight of each width's mean in the constant
    if networks.biased:
        inverse = 1 / weight
        centre = share @ inverse
        share = share * (1 - centre * (inverse - centre) / (share @ (inverse - centre) ** 2))
    entry = np.triu_indices(len(x))
    samples = kernels[(slice(None), slice(None), *entry)]
    value = np.tensordot(share, samples.mean(axis=1), 1)
    parts = share[:, None] ** 2 * samples.var(axis=1, ddof=1) / count
    variance = parts.sum(axis=0)
    freedom = variance**2 / np.maximum((parts**2).sum(axis=0) / (count - 1), np.finfo(float).tiny)
    tail = (1 - LEVEL) / 2 / (comparisons or _entries(x))
    scale = np.abs(limit).max() or 1.0
    half = (-stdtrit(np.maximum(freedom, count - 1), tail) * np.sqrt(variance) + rounding * scale) / scale
    gap = (value - limit[entry]) / scale
    at = int(np.argmax(np.abs(gap) / half))
    i, j = (int(part[at]) for part in entry)
    explanation = (
        f"k(x)[{i}, {j}] = {limit[i, j]:.6g}, and the mean of networks tends to {value[at]:.6g} "
        f"± {half[at] * scale:.2g}: they differ by {abs(gap[at]):.2g} of the largest entry of k(x)"
    )
    detectable = f"an entry that is off by {2 * half.max():.2g} of the largest one, or by more, would have been seen"
    return Judgement(float(gap[at]), (-float(half[at]), float(half[at])), explanation, x, entry=(i, j), note=detectable)


def _entries(x: np.ndarray) -> int:
    return len(x) * (len(x) + 1) // 2
