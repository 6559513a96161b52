"""Rigorous bounds of activation counts of a float64 network.

A pattern says on which samples a neuron is active. Where rounding leaves an entry of a pattern undecided, the bounds
allow both values.

Patterns are the signs of the distances s_ri = w_r.x_i / |x_i| of neuron r to the hyperplane of sample i. A neuron that
moves by R changes each of its distances by at most R, whatever the norms of the rows of x. With u = 2^-53 the float64
dot product is off by at most d u |w||x| (any order of summation, fused or not), the computed norm by (d/2 + 4) u |x|
and the division by u|s|, to first order. The bound (2d + 16) u |w| covers these errors and all products of two of them.
Comparisons with s - error and s + error are sound although these sums are rounded. Rounding is monotone, and the
thresholds 0 and R are floats: if a rounded s - error is strictly above R, so is the exact s - error.
"""

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
from jaxtyping import Bool, Float

from ntkfl.estimate import Estimate, Rigour
from ntkfl.problem import Weights

UNIT_ROUNDOFF = 2.0**-53
# added to |w| in error bounds, so that they cover what underflow can lose if norms are in [1e-100, 1e100]
UNDERFLOW = 2.0**-480
LARGEST = 1e100
# largest number of distances in a block of neurons: they stay in cache, and counts of a block are exact in float32
_ENTRIES = 2**18


@dataclass(frozen=True, eq=False)
class InitialCounts:
    """Counts, outputs and distances that one pass over the neurons computes."""

    # at_least, at_most: bounds of #{r: w_r.x_i >= 0 and w_r.x_j >= 0}, (n, n), integers
    at_least: Float[np.ndarray, "n n"]
    at_most: Float[np.ndarray, "n n"]
    doubtful: int  # how many of the n m values 1{w_r.x_i >= 0} are undecided because of rounding
    output_sums: Estimate  # sum_r a_r relu(w_r.x_i), that is sqrt(m) f(x_i), (n,)
    # |s_ri| of the neurons r of the first block; the number of these neurons varies. The distances are computed without
    # an error bound, to choose radii to try.
    distances: Float[np.ndarray, "b n"]


def initial_counts(x: Float[np.ndarray, "n d"], weights: Weights) -> InitialCounts:
    """Count the neurons active on each pair of samples, and sum the outputs, both with rigorous bounds.

    Only one block of neurons is in memory at a time.

    Raises:
        ValueError: a row norm outside [1e-100, 1e100] or a weight above 1e100, since underflow or overflow could then
            change a count.
    """
    n, width = len(x), len(weights.hidden)
    at_least, at_most, doubtful = np.zeros((n, n)), np.zeros((n, n)), 0
    sums, positive_sums, error_sum, sample = np.zeros(n), np.zeros(n), 0.0, np.zeros((0, n))
    norms = _row_norms(x)
    for block, distance, error in _distances(x, norms, weights.hidden):
        surely, possibly = distance - error > 0, distance + error >= 0
        at_least += _pairs(surely)
        at_most += _pairs(possibly)
        doubtful += int((possibly & ~surely).sum())
        positive = np.maximum(distance, 0)
        sums += weights.signs[block] @ positive
        positive_sums += positive.sum(axis=0)
        error_sum += error.sum()
        sample = sample if len(sample) else np.abs(distance)
    # relu is 1-Lipschitz, so the errors of the distances add up. The sum makes m more roundings, and the factor |x_i|
    # makes (d/2 + 5) more roundings. The factor 1.001 covers products of errors and the rounding of this line.
    rounding = (width + x.shape[1] + 5) * UNIT_ROUNDOFF * positive_sums
    outputs = Estimate(sums * norms, 1.001 * norms * (error_sum + rounding), "rounding bound", Rigour.ENCLOSED)
    return InitialCounts(at_least, at_most, doubtful, outputs, sample)


def changes_within(
    x: Float[np.ndarray, "n d"], hidden: Float[np.ndarray, "m d"], radii: Float[np.ndarray, " k"]
) -> tuple[Float[np.ndarray, "k n n"], Float[np.ndarray, "k n n"]]:
    """For each pair of samples, upper bounds of how many neurons can leave its count (D) and join its count (U) while
    every neuron moves by at most R.

    D_ij = #{s_i, s_j >= 0, min(s_i, s_j) < R} and U_ij = #{s_i, s_j >= -R, not both >= 0}, for every radius R. Neurons
    farther than R from the hyperplanes of all samples count neither in D nor in U and are skipped.

    The radii have the unit of the weights. The s_ri = w_r.x_i / |x_i| are the distances of the module's docstring, with
    w = `hidden`.

    Raises:
        ValueError: a radius that is not positive and finite, or numbers as in `initial_counts`.
    """
    radii = np.asarray(radii, float)
    if not (np.isfinite(radii) & (radii > 0)).all():
        raise ValueError(f"the radii are {radii}; every one must be positive and finite")
    n = len(x)
    losses, gains = np.zeros((len(radii), n, n)), np.zeros((len(radii), n, n))
    for _, distance, error in _distances(x, _row_norms(x), hidden):
        nearest = np.abs(distance).min(axis=1) - error[:, 0]
        lower, upper = distance - error, distance + error
        for k in np.argsort(-radii):
            near = nearest <= radii[k]
            nearest, lower, upper = nearest[near], lower[near], upper[near]
            losses[k] += _pairs(upper >= 0) - _pairs(lower > radii[k])
            gains[k] += _pairs(upper >= -radii[k]) - _pairs(lower > 0)
    return losses, gains


def _pairs(active: Bool[np.ndarray, "b n"]) -> Float[np.ndarray, "n n"]:
    active = active.astype(np.float32)
    return (active.T @ active).astype(float)


def _row_norms(x: np.ndarray) -> np.ndarray:
    scale = np.abs(x).max(axis=1)
    norms = scale * np.linalg.norm(x / scale[:, None], axis=1)
    if not (norms.min() >= 1 / LARGEST and norms.max() <= LARGEST):
        raise ValueError(
            f"the row norms of x range from {norms.min():.3g} to {norms.max():.3g}; rigorous counts need them within "
            f"{1 / LARGEST:.0e} to {LARGEST:.0e}: rescale the data"
        )
    return norms


def _distances(x: np.ndarray, norms: np.ndarray, hidden: np.ndarray) -> Iterator[tuple[slice, np.ndarray, np.ndarray]]:
    """For each block of b neurons: the numbers of the neurons, their distances (b, n), and the error of each neuron's
    distances (b, 1).
    """
    n, d = x.shape
    size = max(1, _ENTRIES // max(n, d))
    for start in range(0, len(hidden), size):
        block = slice(start, min(start + size, len(hidden)))
        w = hidden[block]
        largest = np.abs(w).max()
        if not largest <= LARGEST:
            raise ValueError(f"a hidden weight is {largest:.3g}; rigorous counts need them at most {LARGEST:.0e}")
        error = (2 * d + 16) * UNIT_ROUNDOFF * (np.linalg.norm(w, axis=1, keepdims=True) + UNDERFLOW)
        yield block, w @ x.T / norms, error
