"""The rows of C, their Gram matrix and the point W* that they fix, all from inner products of samples."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np
from jaxtyping import Bool, Float, Int

from ntkfl import lapack
from ntkfl.any_order.neuron_pass import Pairs, Pass, add_pairs, preactivations
from ntkfl.any_order.rounding import above, below, gamma, length
from ntkfl.connectivity.paths.long_sums import LONG, LONG_EPS
from ntkfl.estimate import Estimate
from ntkfl.gram.mirror import mirrored
from ntkfl.gram.spectrum import smallest_eigenvalue


class Dependent(ArithmeticError):
    """Rows that could not be shown to be independent; `vector` has coefficients whose sum of rows is nearly 0."""

    def __init__(self, vector: np.ndarray) -> None:
        super().__init__("the rows of C depend on each other, or nearly so")
        self.vector = vector


@dataclass(frozen=True, eq=False)
class ConstraintRows:
    """C for one set A: rows c b_ar s_ri x_i of each sample and output, sample by sample, then x_i (x) e_r of each pair.

    Raises:
        Dependent: from `smallest` and the methods that call it, where C is not shown to have full row rank.
    """

    neuron_pass: Pass  # the pass over the neurons
    # neuron, row: the pairs of A, (q,) each
    neuron: Int[np.ndarray, " q"]
    row: Int[np.ndarray, " q"]

    @property
    def size(self) -> int:
        """Number of rows, n C + |A|."""
        return self.n_samples + len(self.neuron)

    @property
    def n_samples(self) -> int:
        """Number of rows of samples, n C."""
        return self.neuron_pass.network.n * self.neuron_pass.network.n_outputs

    def patterns(self, neurons: Int[np.ndarray, " k"]) -> Bool[np.ndarray, "k n"]:
        """s_ri of these neurons, 0 on A."""
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
        """sum_r b_ar b_br s_ri s_rj with s = 0 on A: only the neurons of A differ from the pass."""
        out, touched = self.neuron_pass.pairs.copy(), np.unique(self.neuron)
        if len(touched):
            readout = self.neuron_pass.network.readout[:, touched]
            add_pairs(out, readout, self.neuron_pass.patterns(touched), -1.0)
            add_pairs(out, readout, self.patterns(touched), 1.0)
        return out

    @cached_property
    def gram(self) -> tuple[Float[np.ndarray, "p p"], float, float]:
        """C C', exactly symmetric in float64; a bound on the norm of its error; and the norm of its absolute value."""
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
        """C (x_i (x) e_r) of these pairs, and bounds on the norms of their errors."""
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
        """The smallest eigenvalue of C C', enclosed; positive."""
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
        _ = self.smallest  # raises where the rows are dependent
        factor = self.gram[0].T.copy(order="F")  # symmetric
        if not lapack.cholesky(factor):  # impossible: the smallest eigenvalue is shown to be positive
            raise Dependent(np.full(self.size, np.nan))
        return factor

    def projections(
        self, columns: Float[np.ndarray, "p k"], error: Float[np.ndarray, " k"]
    ) -> tuple[Float[np.ndarray, " k"], Float[np.ndarray, " k"]]:
        """Lower and upper bounds of |projection on rows(C)| of vectors v, from C v to within `error`.

        It is |M^(-1/2) k|, k = C v and M = C C'. For every h: k'M^-1 k = h'k + h't + t'M^-1 t with t = k - M h.
        """
        h = lapack.solved(self._factor, columns)
        leading, rest, size, long = self._terms(h, columns)
        least, rounding = below(self.smallest.lo), gamma(self.size) * long * size
        shift = above(error / np.sqrt(least))
        upper = above(np.sqrt(np.maximum(leading + above(rounding + long * rest + rest**2 / least), 0.0)))
        lower = below(np.sqrt(np.maximum(leading - above(rounding + long * rest), 0.0)))
        return np.maximum(lower - shift, 0.0), above(upper + shift)

    def _terms(self, h: np.ndarray, columns: np.ndarray) -> tuple[np.ndarray, ...]:
        """h'k, and upper bounds of |k - M h|, |k| and |h|, for every column."""
        middle, radius, absolute = self.gram
        size, long = length(columns, axis=0), length(h, axis=0)
        rest = length(columns - middle @ h, axis=0)
        rest = above(rest + gamma(self.size + 2) * (size + absolute * long) + radius * long)
        return np.einsum("pk,pk->k", h, columns), rest, size, long

    def target(self, scale: float = 1.0) -> tuple[Float[np.ndarray, " p"], float]:
        """The required value of C (W* - W0), and a bound on the norm of its error.

        With a scale s below 1 the labels are f + s (y - f) in place of y, f the outputs at W0: nearer to the outputs.
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
        """W*, the point nearest W0 that fits every label and holds A."""
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
    """W* = W0 + C' a* to within `slack`."""

    # a in float64, (p,); W0 + C' a is at most `slack` from W* (Frobenius), which lies in W0 + rows(C) too
    solution: Float[np.ndarray, " p"]
    slack: float
    distance: Estimate  # D = |W* - W0|, enclosed
