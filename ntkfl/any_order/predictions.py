"""Enclosures of the outputs of all later models on other inputs.

Later models have weights within the distance D of W*, so the outputs of all such weights are enclosed.
"""

from abc import ABC, abstractmethod

import numpy as np
from jaxtyping import Float

from ntkfl.any_order.constraint_rows import ConstraintRows, Nearest, neuron_blocks
from ntkfl.any_order.rounding import above, gamma, length
from ntkfl.estimate import Estimate
from ntkfl.rounding import LONG, LONG_EPS, SMALLEST, row_norms

OPEN = "open"


def settled(outputs: Estimate) -> np.ndarray:
    """For each of k inputs the sign of the only output or the class of several outputs, if it is certain; otherwise
    "open".

    The shape of `outputs` is (k,) or (k, 1) for one output and (k, C) for several. The shape of the answer is (k,).
    """
    answer = np.full(len(outputs.value), OPEN, object)
    if outputs.value.size == len(answer):
        answer[outputs.lo.reshape(-1) > 0], answer[outputs.hi.reshape(-1) < 0] = 1, -1
        return answer
    for k in range(outputs.value.shape[1]):
        answer[(outputs.lo[:, [k]] > np.delete(outputs.hi, k, axis=1)).all(axis=1)] = k
    return answer


class FinalAnswers(ABC):
    """Signs and classes that follow from a certificate's enclosure of the outputs of all later models."""

    certified: bool

    @abstractmethod
    def enclosure(self, x: Float[np.ndarray, "k d"]) -> Estimate:
        """An enclosure of the outputs of this model and of all later models on these inputs, (k,) or (k, C).

        The errors are infinite if the network is not certified.

        Args:
            x: inputs, shape (k, d).

        Raises:
            ValueError: inputs of another number of features, or not finite.
        """

    def final(self, x: Float[np.ndarray, "k d"]) -> np.ndarray:
        """The sign of one output, or the class of several, that this model and all later models share, or "open", (k,).

        Args:
            x: inputs, shape (k, d).

        Raises:
            ValueError: as `enclosure`.
        """
        return settled(self.enclosure(x))

    @property
    def residual_name(self) -> str:
        """The name of `residual` in messages."""
        return "|y - f|"


def future_outputs(rows: ConstraintRows, nearest: Nearest, x: Float[np.ndarray, "k d"]) -> Estimate:
    """An enclosure of f_W(x_i) for every W with |W - W*|_F <= D, (k, C).

    |f_W(x) - f_W*(x)|^2 is at most |W - W*|^2 |x|^2 times the sum of a_r^2 over the neurons that can be active on x.
    """
    net = rows.neuron_pass.network
    radius = above(float(nearest.distance.hi) + nearest.slack)
    factor = float(above(float(net.factor)))
    by_sample = nearest.solution[: rows.n_samples].reshape(net.n, net.n_outputs) * float(net.factor)
    cross, norms = x @ net.x.T, above(row_norms(x))  # x may have any size, so its squares may underflow
    lengths = length(net.x, axis=1)
    d, outputs = x.shape[1], net.n_outputs
    sums, errors, squares = (np.zeros((len(x), outputs)) for _ in range(3))
    for block in neuron_blocks(net):
        w, b = net.hidden[block], net.readout[:, block]
        on = rows.patterns(np.arange(block.start, block.start + len(w)))
        move, size = on * (b.T @ by_sample.T), on * (np.abs(b).T @ np.abs(by_sample).T)
        here = (rows.neuron >= block.start) & (rows.neuron < block.start + len(w))
        place = rows.neuron[here] - block.start, rows.row[here]
        np.add.at(move, place, nearest.solution[rows.n_samples :][here])
        np.add.at(size, place, np.abs(nearest.solution[rows.n_samples :][here]))
        z = w @ x.T + move @ cross.T  # pre-activations of the computed W*, (h, k)
        rounding = gamma(d + 2) * length(w, axis=1) + gamma(net.n + outputs + d + 8) * (size @ lengths)
        doubt = above(rounding[:, None] * norms)
        possible = ~(z + doubt + above(radius * norms) < 0)
        positive = np.maximum(z, 0)
        sums += (b @ positive).T
        errors += (np.abs(b) @ (doubt * possible + 2 * gamma(net.width) * positive)).T
        squares += ((b**2) @ possible).T
    reach = above(np.sqrt(above(squares))) * (above(radius * norms))[:, None]
    value = sums * float(net.factor)
    error = above(factor * above(errors + reach) + 4 * (LONG_EPS + gamma(2)) * np.abs(value))
    error = np.ldexp(error, -net.gain) + SMALLEST  # this error and the value below may underflow
    return Estimate(np.ldexp(value, -net.gain), error, "rounding bound")


def fitted_point(rows: ConstraintRows, nearest: Nearest) -> np.ndarray:
    """The point W0 + C' a in long precision, (m, d).

    The exact W* differs from this point by at most the sum of `slack` and the rounding error of W0 + C' a.
    """
    net = rows.neuron_pass.network
    out = net.hidden.astype(LONG)
    by_sample = nearest.solution[: rows.n_samples].reshape(net.n, net.n_outputs).astype(LONG) * net.factor
    for block in neuron_blocks(net):
        neurons = np.arange(block.start, min(block.stop, net.width))
        move = rows.patterns(neurons) * (net.readout[:, block].T.astype(LONG) @ by_sample.T)
        out[block] += move @ net.x.astype(LONG)
    held = nearest.solution[rows.n_samples :].astype(LONG)
    np.add.at(out, rows.neuron, held[:, None] * net.x[rows.row])
    return out
