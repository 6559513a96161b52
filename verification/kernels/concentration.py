"""Whether a finite network's Gram matrix approaches the kernel at the rate width^(-1/2)."""

from collections.abc import Callable, Sequence
from itertools import combinations
from typing import Any

import numpy as np

from bounds.ladders.slopes import slope
from verification.kernels.properties import Judgement, Kernel, Unusable, output

Finite = Callable[[np.ndarray, int, int], Any]

NAME = "concentrates"
REQUIREMENT = "slope of log(RMS error) in log(width): -1/2 within the slope's interval, no wider than ± 0.2"
ROWS = np.array([[1, 0, 0], [0.6, 0.8, 0], [0, -0.6, 0.8], [-1 / 3, 2 / 3, 2 / 3]])
SEEDS = 32
RATE = -0.5
WIDEST = 0.2  # half-width of an interval that still tells one rate from another


def judge(kernel: Kernel, finite: Finite, widths: Sequence[int], seed: int) -> Judgement:
    """The slope on four rows in three dimensions; on the smallest subset of them that shows a failure, if there is one.

    Every width and repetition has a seed of its own, seed, seed + 1, ..., so that all errors are independent.

    Args:
        kernel: of the infinite width, k(x) or k(x, z). finite: (x, width, seed) -> the (n, n) array of a network that
            is drawn.
        widths: of the ladder. seed: of the first network.
    """
    try:
        judgement = _judge(_errors(kernel, finite, ROWS, widths, seed), widths, ROWS)
        if judgement.margin >= 0:
            return judgement
        for size in range(1, len(ROWS)):
            for rows in combinations(ROWS, size):
                x = np.array(rows)
                smaller = _judge(_errors(kernel, finite, x, widths, seed), widths, x)
                if not smaller.margin >= 0:
                    return smaller
    except Unusable as error:
        return Judgement(np.nan, (RATE, RATE), str(error), ROWS)
    return judgement


def _errors(kernel: Kernel, finite: Finite, x: np.ndarray, widths: Sequence[int], seed: int) -> np.ndarray:
    """RMS over the entries of finite - kernel, shape (widths, SEEDS)."""
    limit = output(kernel, x)
    errors = np.empty((len(widths), SEEDS))
    for a, width in enumerate(widths):
        for b in range(SEEDS):
            try:
                sample = output(lambda x, w=width, s=seed + a * SEEDS + b: finite(x, w, s), x)
            except Unusable as error:
                raise Unusable(f"the finite-width counterpart at width {width}: {error}") from error
            errors[a, b] = np.sqrt(((sample - limit) ** 2).mean())
    return errors


def _judge(errors: np.ndarray, widths: Sequence[int], x: np.ndarray) -> Judgement:
    """Holds the slope to within its own error of -1/2."""
    rms = np.sqrt((errors**2).mean(axis=1))
    numbers = f"RMS error {rms[0]:.3g} at width {widths[0]}, {rms[-1]:.3g} at width {widths[-1]}"
    if not rms.all():
        return Judgement(0.0, (RATE, RATE), f"{numbers}: there is no error that could fall with the width", x)
    fit = slope(np.asarray(widths), errors, biased=False)  # E H(0) is the kernel at every width
    value, error = float(fit.value), float(fit.error)
    allowed = (RATE - error, RATE + error)
    explanation = f"{numbers}: slope {value:.3f} ± {error:.3f}; required: {RATE} inside"
    if error > WIDEST:
        allowed, explanation = (np.nan, np.nan), f"{explanation}, and at most ± {WIDEST}: take more widths"
    return Judgement(value, allowed, explanation, x)
