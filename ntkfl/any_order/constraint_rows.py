"""The rows of the matrix C, their Gram matrix and the point W* that they determine, computed in passes over the
neurons.

The docstring of `ntkfl.any_order` defines C, W*, the patterns s_ri and the set A of held pairs. The readout is c b,
where c is a number and b has a row for each output (as in `ScaledNetwork`).
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np
from jaxtyping import Bool, Float, Int, UInt8

from ntkfl import lapack
from ntkfl.any_order.rounding import TINY, above, below, gamma, length
from ntkfl.any_order.scaled_network import ScaledNetwork
from ntkfl.estimate import Estimate
from ntkfl.gram.mirror import mirrored
from ntkfl.gram.spectrum import smallest_eigenvalue
from ntkfl.rounding import LONG, LONG_EPS, long_product, long_product_error

_ENTRIES = 2**20  # number of entries of a block of pre-activations


@dataclass(frozen=True, eq=False)
class Pass:
    """The sums that one pass over the neurons computes."""

    network: ScaledNetwork
    gram: Float[np.ndarray, "n n"]  # x x^T, (n, n), exactly symmetric, each entry to within gram_error
    gram_error: float
    # the patterns s_ri for which the certificate tries the theorem: the signs of w_r.x_i, packed as bits along the
    # samples, (m, n/8)
    bits: UInt8[np.ndarray, "m bytes"]
    # sum_r b_ar b_br s_ri s_rj, (C, C, n, n), to within pairs_error (C, C); exact integers if every b_ar is +-1
    pairs: Float[np.ndarray, "C C n n"]
    pairs_error: Float[np.ndarray, "C C"]
    sums: np.ndarray  # sum_r b_ar s_ri w_r.x_i in long precision, (n, C), to within sums_error
    sums_error: Float[np.ndarray, "n C"]

    def patterns(self, neurons: Int[np.ndarray, " q"]) -> Bool[np.ndarray, "q n"]:
        """The patterns s_ri of these neurons on all samples."""
        return np.unpackbits(self.bits[neurons], axis=1, count=self.network.n).astype(bool)


def passed(network: ScaledNetwork) -> Pass:
    """Compute the sums over all neurons, in blocks."""
    x, b, n = network.x, network.readout, network.n
    outputs = network.n_outputs
    bits = np.empty((network.width, -(-n // 8)), np.uint8)
    pairs = np.zeros((outputs, outputs, n, n))
    sums, sizes, errors = np.zeros((n, outputs), LONG), np.zeros((n, outputs)), np.zeros((n, outputs))
    for block in neuron_blocks(network):
        rows, readout = network.hidden[block], b[:, block]
        z, error = long_product(x, rows), long_product_error(x, rows)
        active = z >= 0
        bits[block] = np.packbits(active.T, axis=1)
        add_pairs(pairs, readout, active.T, 1.0)
        positive = np.where(active, z, LONG(0))
        sums += positive @ readout.T.astype(LONG)
        sizes += positive.astype(float) @ np.abs(readout).T
        errors += (error * active) @ np.abs(readout).T
    products = long_product(x, x).astype(float)
    gram_error = float(above((long_product_error(x, x) + gamma(0) * np.abs(products)).max()))
    # A sum of m products, block by block, and later corrections for held pairs together make fewer than 4m roundings.
    absolute = np.abs(b) @ np.abs(b).T
    pairs_error = np.zeros((outputs, outputs)) if network.signs else above(gamma(4 * network.width) * absolute)
    return Pass(
        network,
        mirrored(products.T),
        gram_error,
        bits,
        pairs,
        pairs_error,
        sums,
        above(errors + (2 * network.width + 8) * LONG_EPS * sizes),
    )


def add_pairs(
    pairs: Float[np.ndarray, "C C n n"], readout: Float[np.ndarray, "C q"], active: Bool[np.ndarray, "q n"], sign: float
) -> None:
    """Add sign sum_r b_ar b_br s_ri s_rj to `pairs`; this is exact if b is +-1, since the terms are then integers.

    The sum is added in place; `sign` is 1.0 to add it and -1.0 to subtract it.
    """
    for first, output_weight in enumerate(readout):
        for second in range(first, len(readout)):
            pairs[first, second] += sign * weighted_pairs(active, output_weight * readout[second])
            if second > first:
                pairs[second, first] = pairs[first, second].T


def weighted_pairs(active: Bool[np.ndarray, "q n"], weight: Float[np.ndarray, " q"]) -> Float[np.ndarray, "n n"]:
    """The matrix sum_r weight_r s_ri s_rj of all pairs of samples i, j."""
    on = active.astype(float)
    return on.T @ (on * weight[:, None])


def neuron_blocks(network: ScaledNetwork) -> list[slice]:
    """Consecutive slices of the neurons, each with some 16 MB of pre-activations in long precision."""
    step = max(1, _ENTRIES // max(network.x.shape))
    return [slice(start, start + step) for start in range(0, network.width, step)]


@dataclass(frozen=True, eq=False)
class Pairs:
    """Pairs of a neuron and a row of x, as two arrays (q,)."""

    neuron: Int[np.ndarray, " q"]
    row: Int[np.ndarray, " q"]

    def __len__(self) -> int:
        return len(self.neuron)

    def __getitem__(self, index) -> Pairs:
        return Pairs(self.neuron[index], self.row[index])


NO_PAIRS = Pairs(np.zeros(0, int), np.zeros(0, int))


def near_pairs(neurons: Pass, reach: float, most: int) -> Pairs | None:
    """Every pair with |w_r.x_i| <= reach |x_i|, and perhaps others, nearest first; None if there are more than `most`.

    All pairs that are left out have |w_r.x_i| > reach |x_i|, and the pass has found the right sign of w_r.x_i.
    """
    network = neurons.network
    x, norms = network.x, np.linalg.norm(network.x, axis=1)
    parts, values = [], []
    for block in neuron_blocks(network):
        w = network.hidden[block]
        z = w @ x.T
        error = above(gamma(x.shape[1]) * length(w, axis=1)[:, None] * norms)
        bit = np.unpackbits(neurons.bits[block], axis=1, count=network.n).astype(bool)
        surely = (np.abs(z) > above(reach * norms) + error) & ((z >= 0) == bit)
        neuron, row = np.nonzero(~surely)
        parts.append(np.stack([neuron + block.start, row]))
        values.append(np.abs(z[neuron, row]))
        if sum(map(len, values)) > most:
            return None
    return Pairs(*np.concatenate(parts, axis=1))[np.argsort(np.concatenate(values), kind="stable")]


def preactivations(network: ScaledNetwork, pairs: Pairs) -> tuple[Float[np.ndarray, " q"], Float[np.ndarray, " q"]]:
    """The products w_r.x_i of these pairs, summed in long precision, and bounds on their errors."""
    value, error = np.empty(len(pairs)), np.empty(len(pairs))
    step = max(1, _ENTRIES // network.x.shape[1])
    for start in range(0, len(pairs), step):
        part = slice(start, start + step)
        w, x = network.hidden[pairs.neuron[part]], network.x[pairs.row[part]]
        value[part] = np.einsum("qd,qd->q", w.astype(LONG), x.astype(LONG)).astype(float)
        sizes = np.einsum("qd,qd->q", np.abs(w), np.abs(x))
        rounding = (x.shape[1] + 4) * LONG_EPS * sizes + gamma(0) * np.abs(value[part])
        error[part] = above(rounding) + x.shape[1] * TINY
    return value, error


class Dependent(ArithmeticError):
    """Raised if the rows of C could not be shown to be independent; with the coefficients `vector` they sum to nearly
    0.
    """

    def __init__(self, vector: np.ndarray) -> None:
        super().__init__("the rows of C depend on each other, or nearly so")
        self.vector = vector


@dataclass(frozen=True, eq=False)
class ConstraintRows:
    """The matrix C for one set A.

    First come the rows c b_ar s_ri x_i of each sample and output, ordered by sample, then the rows x_i (x) e_r of each
    pair of A.

    Raises:
        Dependent: C is not shown to have full row rank; raised by `smallest` and by the methods that call it.
    """

    neuron_pass: Pass  # the pass over the neurons
    # neuron and row: the pairs of A as two arrays (q,)
    neuron: Int[np.ndarray, " q"]
    row: Int[np.ndarray, " q"]

    @property
    def size(self) -> int:
        """The number of rows, n C + |A|."""
        return self.n_samples + len(self.neuron)

    @property
    def n_samples(self) -> int:
        """The number of rows that belong to samples, n C."""
        return self.neuron_pass.network.n * self.neuron_pass.network.n_outputs

    def patterns(self, neurons: Int[np.ndarray, " k"]) -> Bool[np.ndarray, "k n"]:
        """The patterns s_ri of these neurons, which are 0 on A."""
        on = self.neuron_pass.patterns(neurons)
        if len(self.neuron) and len(neurons):
            ordered, place = np.unique(neurons, return_inverse=True)
            at = np.minimum(np.searchsorted(ordered, self.neuron), len(ordered) - 1)
            here = ordered[at] == self.neuron
            own = self.neuron_pass.patterns(ordered)
            own[at[here], self.row[here]] = False
            on = own[place.reshape(-1)]
        return on

    @cached_property
    def pairs(self) -> Float[np.ndarray, "C C n n"]:
        """The sums sum_r b_ar b_br s_ri s_rj with s = 0 on A; only the contributions of neurons of A differ from the
        contributions in the pass.
        """
        out, touched = self.neuron_pass.pairs.copy(), np.unique(self.neuron)
        if len(touched):
            readout = self.neuron_pass.network.readout[:, touched]
            add_pairs(out, readout, self.neuron_pass.patterns(touched), -1.0)
            add_pairs(out, readout, self.patterns(touched), 1.0)
        return out

    @cached_property
    def gram(self) -> tuple[Float[np.ndarray, "p p"], float, float]:
        """C C', exactly symmetric in float64, with a bound on the norm of its error and the norm of its entrywise
        absolute value.
        """
        net, p, k = self.neuron_pass.network, self.size, self.n_samples
        x_gram, x_error = self.neuron_pass.gram, self.neuron_pass.gram_error
        middle, error = np.zeros((p, p)), np.zeros((p, p))
        weight = self.pairs.transpose(2, 0, 3, 1).reshape(k, k) * net.factor_squared
        doubt = np.kron(np.ones((net.n, net.n)), self.neuron_pass.pairs_error) * net.factor_squared
        inner = np.kron(x_gram, np.ones((net.n_outputs, net.n_outputs)))
        middle[:k, :k] = inner * weight
        error[:k, :k] = np.abs(weight) * x_error + doubt * (np.abs(inner) + x_error)
        columns, column_error = self._columns(self.neuron, self.row)
        middle[:, k:], error[:, k:] = columns, column_error
        middle[k:, :k], error[k:, :k] = columns[:k].T, column_error[:k].T
        mirrored(middle.T)
        size = np.abs(middle)
        radius = above((np.maximum(error, error.T) + gamma(6) * size).sum(axis=1).max())
        return middle, float(radius), float(above(size.sum(axis=1).max()))

    def columns(
        self, neuron: Int[np.ndarray, " k"], row: Int[np.ndarray, " k"]
    ) -> tuple[Float[np.ndarray, "p k"], Float[np.ndarray, " k"]]:
        """The vectors C (x_i (x) e_r) of these pairs, and bounds on the norms of their errors."""
        columns, error = self._columns(neuron, row)
        return columns, length(error + gamma(6) * np.abs(columns), axis=0)

    def _columns(self, neuron: np.ndarray, row: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        net, inner = self.neuron_pass.network, self.neuron_pass.gram[:, row]
        readout = net.readout[:, neuron] * float(net.factor)  # (C, k)
        sample = self.patterns(neuron).T[:, None, :] * readout  # (n, C, k)
        same = self.neuron[:, None] == neuron
        held = same * inner[self.row]
        columns = np.concatenate([(sample * inner[:, None, :]).reshape(self.n_samples, len(neuron)), held])
        error = np.concatenate([np.abs(sample).reshape(self.n_samples, -1), same]) * self.neuron_pass.gram_error
        return columns, error

    @cached_property
    def smallest(self) -> Estimate:
        """An enclosure of the smallest eigenvalue of C C'; its lower end is positive."""
        middle, radius, _ = self.gram
        if not np.isfinite(middle).all() or not np.isfinite(radius):
            raise Dependent(np.full(self.size, np.nan))
        inner = smallest_eigenvalue(middle)
        smallest = Estimate(inner.value, np.nextafter(inner.error + radius, np.inf), inner.method)
        if not below(smallest.lo) > 0:
            raise Dependent(lapack.lowest_vector(middle.T.copy(order="F")))
        return smallest

    @cached_property
    def _factor(self) -> np.ndarray:
        _ = self.smallest  # this raises if the rows are dependent
        factor = self.gram[0].T.copy(order="F")  # symmetric
        if not lapack.cholesky(factor):  # this cannot happen, since the smallest eigenvalue is shown to be positive
            raise Dependent(np.full(self.size, np.nan))
        return factor

    def projections(
        self, columns: Float[np.ndarray, "p k"], error: Float[np.ndarray, " k"]
    ) -> tuple[Float[np.ndarray, " k"], Float[np.ndarray, " k"]]:
        """Lower and upper bounds of the norms of the projections of vectors v on the span of the rows; C v is known to
        within `error`.

        The norm is |M^(-1/2) k| with k = C v and M = C C'. For every h, k'M^-1 k = h'k + h't + t'M^-1 t with t = k - M
        h.
        """
        h = lapack.solved(self._factor, columns)
        leading, rest, size, long = self._terms(h, columns)
        least, rounding = below(self.smallest.lo), gamma(self.size) * long * size
        shift = above(error / np.sqrt(least))
        upper = above(np.sqrt(np.maximum(leading + above(rounding + long * rest + rest**2 / least), 0.0)))
        lower = below(np.sqrt(np.maximum(leading - above(rounding + long * rest), 0.0)))
        return np.maximum(lower - shift, 0.0), above(upper + shift)

    def _terms(self, h: np.ndarray, columns: np.ndarray) -> tuple[np.ndarray, ...]:
        """For every column, h'k and upper bounds of |k - M h|, |k| and |h|."""
        middle, radius, absolute = self.gram
        size, long = length(columns, axis=0), length(h, axis=0)
        rest = length(columns - middle @ h, axis=0)
        rest = above(rest + gamma(self.size + 2) * (size + absolute * long) + radius * long)
        return np.einsum("pk,pk->k", h, columns), rest, size, long

    def target(self, scale: float = 1.0) -> tuple[Float[np.ndarray, " p"], float]:
        """The required value of C (W* - W0), and a bound on the norm of its error.

        With a `scale` below 1, the labels are f + scale (y - f) in place of y, where f has the outputs at W0. The new
        labels are nearer to f.
        """
        net, neurons = self.neuron_pass.network, self.neuron_pass
        held, held_error = preactivations(net, Pairs(self.neuron, self.row))
        on = neurons.patterns(self.neuron)[np.arange(len(self.neuron)), self.row]
        sums, errors = neurons.sums.copy(), neurons.sums_error.copy()
        moved, sizes = (on * held) * net.readout[:, self.neuron], np.abs(sums).astype(float)
        for output in range(net.n_outputs):
            np.subtract.at(sums[:, output], self.row, moved[output].astype(LONG))
            doubt = np.abs(net.readout[output, self.neuron]) * (held_error + 4 * gamma(0) * np.abs(held))
            np.add.at(errors[:, output], self.row, doubt)
            np.add.at(sizes[:, output], self.row, np.abs(moved[output]))
        rest = net.y.astype(LONG) - net.factor * sums
        if scale != 1:
            rest = scale * (net.y - net.factor * neurons.sums) + net.factor * (neurons.sums - sums)
        value = np.concatenate([rest.astype(float).reshape(-1), -held])
        rounding = 2 * (len(held) + 8) * LONG_EPS * float(net.factor) * sizes
        error = float(net.factor) * errors + rounding + net.y_error + 4 * LONG_EPS * np.abs(net.y)
        error = np.concatenate([error.reshape(-1) + gamma(0) * np.abs(value[: self.n_samples]), held_error])
        return value, float(length(error))

    def nearest(self, scale: float = 1.0) -> Nearest:
        """W*, the point nearest to W0 that fits every label and has w*_r.x_i = 0 for all pairs of A."""
        target, error = self.target(scale)
        column = target[:, None]
        solution = lapack.solved(self._factor, column)
        solution = solution + lapack.solved(self._factor, column - self.gram[0] @ solution)
        lower, upper = self.projections(column, np.array([error]))
        _, rest, _, _ = self._terms(solution, column)
        slack = above((above(rest[0]) + error) / np.sqrt(below(self.smallest.lo)))
        return Nearest(solution[:, 0], float(slack), Estimate.between(lower[0], upper[0], "rounding bound"))


@dataclass(frozen=True, eq=False)
class Nearest:
    """The point W* as W0 + C' a, to within `slack`, and its distance from W0."""

    # a in float64, (p,). The distance of W0 + C' a from W* is at most `slack` in the Frobenius norm; W* - W0 is in the
    # span of the rows of C, too.
    solution: Float[np.ndarray, " p"]
    slack: float
    distance: Estimate  # an enclosure of D = |W* - W0|
