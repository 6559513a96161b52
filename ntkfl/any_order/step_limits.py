"""Steps that no order can make too long: bounds of |J_B|^2, J_B the gradients of a batch wherever training may lead."""

from dataclasses import dataclass

import numpy as np
from jaxtyping import Float, Int

from ntkfl.any_order.constraint_rows import ConstraintRows
from ntkfl.any_order.neuron_pass import weighted_pairs
from ntkfl.any_order.rounding import above, gamma
from ntkfl.estimate import Estimate
from ntkfl.gram.spectrum import largest_eigenvalue


@dataclass(frozen=True, eq=False)
class GradientProducts:
    """Entries of J J' for all given samples and outputs, sample by sample, whatever the patterns on A are."""

    entries: Estimate  # (N C, N C)
    # |a|^2 x x^T, (N, N), |a| the spectral norm of the readout: J J' is at most that in norm whatever the patterns are
    universal: Estimate
    n_outputs: int

    def bound(self, members: Int[np.ndarray, " k"]) -> tuple[float, float]:
        """Upper bounds of |J_c|^2 over these samples, hence of |J_B|^2 for every batch of them: sharper, universal."""
        index = self._rows(members)
        any_pattern = _largest(self.universal[np.ix_(members, members)])
        return min(_largest(self.entries[np.ix_(index, index)]), any_pattern), any_pattern

    def batch_bound(self, members: Int[np.ndarray, " k"], size: int) -> float:
        """An upper bound of |J_B|^2 over all batches of at most so many of these samples: largest absolute row sum."""
        index, k = self._rows(members), len(members)
        entries = self.entries[np.ix_(index, index)]
        size = min(size, k)
        sums = (np.abs(entries.value) + entries.error).reshape(k * self.n_outputs, k, self.n_outputs).sum(axis=2)
        own = sums[np.arange(len(sums)), np.repeat(np.arange(k), self.n_outputs)].copy()
        sums[np.arange(len(sums)), np.repeat(np.arange(k), self.n_outputs)] = 0
        others = np.sort(sums, axis=1)[:, k - size + 1 :].sum(axis=1)
        return min(float(above((own + others).max())), self.bound(members)[0])

    def _rows(self, members: np.ndarray) -> np.ndarray:
        return (members[:, None] * self.n_outputs + np.arange(self.n_outputs)).reshape(-1)


def gradient_products(rows: ConstraintRows) -> GradientProducts:
    """J J' at every point that is reached: patterns are s off A, and anything on A.

    Each entry is c^2 x_i.x_j sum_r b_ar b_br s_ri s_rj, so that with s on A free it lies between two sums.
    """
    neurons, net = rows.neuron_pass, rows.neuron_pass.network
    outputs, touched = net.n_outputs, np.unique(rows.neuron)
    off = rows.patterns(touched)
    on = off.copy()
    on[np.searchsorted(touched, rows.neuron), rows.row] = True
    up, down = (
        np.zeros_like(neurons.pairs),
        np.zeros_like(neurons.pairs),
    )  # what the patterns on A may add, and take away
    for first, second in np.ndindex(outputs, outputs):
        weight = net.readout[first, touched] * net.readout[second, touched]
        for part, of in ((up, np.maximum(weight, 0)), (down, np.maximum(-weight, 0))):
            part[first, second] = np.maximum(weighted_pairs(on, of) - weighted_pairs(off, of), 0)
    absolute = np.abs(net.readout[:, touched]) @ np.abs(net.readout[:, touched]).T
    rounding = above(4 * gamma(len(touched) + 4) * absolute) + neurons.pairs_error
    counts = rows.pairs + (up - down) / 2
    spread = (up + down) / 2 + rounding[:, :, None, None] + gamma(4) * np.abs(counts)
    row, power = net.row, net.exponent[:, None] + net.exponent
    gram = np.ldexp(neurons.gram[np.ix_(row, row)], power)
    doubt = np.ldexp(np.full_like(gram, neurons.gram_error), power)
    size, each = len(row) * outputs, np.ones((outputs, outputs))

    def by_sample(pairs: np.ndarray) -> Float[np.ndarray, "NC NC"]:
        return pairs[:, :, row][:, :, :, row].transpose(2, 0, 3, 1).reshape(size, size)

    scale = float(np.ldexp(net.factor_squared, -2 * net.gain))
    inner, inner_error, middle = np.kron(gram, each), np.kron(doubt, each), by_sample(counts)
    error = by_sample(spread) * (np.abs(inner) + inner_error) + np.abs(middle) * inner_error
    error = above(np.maximum(error, error.T) * scale + gamma(8) * np.abs(middle * inner) * scale)
    entries = Estimate(_mirrored(middle * inner * scale), error, "rounding bound")
    readout = net.readout @ net.readout.T
    wide = float((gamma(net.width) * (np.abs(net.readout) @ np.abs(net.readout).T)).sum())
    squared = float(above((float(largest_eigenvalue(_mirrored(readout)).hi) + above(wide)) * scale))
    universal = Estimate(squared * gram, above(squared * (doubt + gamma(4) * np.abs(gram))), "rounding bound")
    return GradientProducts(entries, universal, outputs)


def _largest(matrix: Estimate) -> float:
    return float(largest_eigenvalue(matrix).hi)


def _mirrored(matrix: np.ndarray) -> np.ndarray:
    return np.tril(matrix) + np.tril(matrix, -1).T
