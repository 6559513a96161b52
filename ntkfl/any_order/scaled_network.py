"""Problem and network in the form that the certificate uses: only distinct samples, each divided by a power of two near
its norm.
"""

from dataclasses import dataclass

import numpy as np
from jaxtyping import Float, Int

from ntkfl.any_order.rounding import above
from ntkfl.connectivity.network import TwoLayer
from ntkfl.problem import Problem, Weights, checked_inputs, finite_array
from ntkfl.rounding import LONG

LARGEST = 1e50  # numbers and inverse norms must be at most this, so that underflow and overflow cannot change a result


class Unreachable(ValueError):
    """Raised for labels that no weights fit, since one input has two labels."""


@dataclass(frozen=True, eq=False)
class ScaledNetwork:
    """The network 2^g f(x) = c sum_r b_r relu(w_r.x), with c |b| about 1, and the samples that are distinct up to
    powers of two.

    Since f is homogeneous, fitting the label 2^g y_i / 2^e_i at x_i / 2^e_i is the same condition as fitting y_i at
    x_i. The division by a power of two is exact.
    """

    x: Float[np.ndarray, "n d"]  # (n, d), rows of norm about 1
    y: Float[np.ndarray, "n C"]  # scaled labels, (n, C), each to within y_error
    y_error: Float[np.ndarray, "n C"]
    hidden: Float[np.ndarray, "m d"]  # (m, d)
    readout: Float[np.ndarray, "C m"]  # b, (C, m)
    # c, and c^2 to within one unit in the last place; c is 1/sqrt(m) for a readout of signs, otherwise a power of two
    factor: np.floating
    factor_squared: float
    gain: int  # g
    row: Int[np.ndarray, " N"]  # for each given sample, its row in x
    exponent: Int[np.ndarray, " N"]  # the exponent e_i of each given sample
    sample: Int[np.ndarray, " n"]  # for each row of x, the first given sample with this input

    @property
    def n(self) -> int:
        """Number of distinct samples."""
        return len(self.x)

    @property
    def width(self) -> int:
        """Number m of neurons."""
        return len(self.hidden)

    @property
    def n_outputs(self) -> int:
        """C."""
        return len(self.readout)

    @property
    def signs(self) -> bool:
        """Whether every entry of b is +-1, so that sums of products of entries are exact."""
        return bool((np.abs(self.readout) == 1).all())


def scaled(
    problem: Problem, weights: Weights | TwoLayer, label_error: Float[np.ndarray, "N C"] | float = 0.0
) -> ScaledNetwork:
    """The network of the given weights on the given data, whose labels are known to within `label_error`.

    Raises:
        ValueError: weights that do not fit the data, are not finite or are too large; norms outside [1e-50, 1e50].
        Unreachable: samples that are equal up to a power of two, with labels that no weights fit; or with labels that
            were rounded, so that it is unknown whether weights can fit them.
    """
    hidden, readout, factor, squared, gain = _checked(problem, weights)
    checked_inputs("x", problem.x)
    norms = np.abs(problem.x).max(axis=1) * np.linalg.norm(problem.x / np.abs(problem.x).max(axis=1)[:, None], axis=1)
    largest = max(np.abs(hidden).max(), np.abs(problem.y).max(), np.abs(readout).max(), norms.max())
    if not (norms.min() >= 1 / LARGEST and largest <= LARGEST):
        raise ValueError(
            f"the row norms of x range from {norms.min():.3g} to {norms.max():.3g}, and the largest number given is "
            f"{largest:.3g}; certificates take norms of {1 / LARGEST:.0e} to {LARGEST:.0e}: rescale the data"
        )
    exponent = np.rint(np.log2(norms)).astype(int)
    x = np.ldexp(problem.x, -exponent[:, None])
    y = np.ldexp(problem.y.reshape(problem.n, -1), gain - exponent[:, None])
    inexact = (np.ldexp(x, exponent[:, None]) != problem.x).any(axis=1)
    inexact |= (np.ldexp(y, exponent[:, None] - gain) != problem.y.reshape(problem.n, -1)).any(axis=1)
    if inexact.any():
        raise ValueError(
            f"sample {np.argmax(inexact)} has a number below 1e-250 that underflows: make it 0, or rescale"
        )
    _, sample, row = np.unique(x + 0.0, axis=0, return_index=True, return_inverse=True)
    order = np.argsort(sample)  # distinct samples in the order of the data
    sample, row = sample[order], np.argsort(order)[row.reshape(-1)]
    doubt = np.ldexp(np.broadcast_to(label_error, y.shape), gain - exponent[:, None])
    doubt = np.where(doubt > 0, above(doubt), 0.0)
    # after rounding it is unknown whether two labels were equal, unless both samples have the same scale and so the
    # same rounding
    unsure = ((doubt > 0) & (exponent != exponent[sample[row]])[:, None]).any(axis=1)
    differ = np.flatnonzero((y != y[sample[row]]).any(axis=1) | unsure)
    if len(differ):
        one, other = sample[row[differ[0]]], differ[0]
        ratio = 2.0 ** (exponent[other] - exponent[one])
        raise Unreachable(
            f"samples {one} and {other} have the same input, up to a factor {ratio:g}, and labels"
            f" {problem.y[one].tolist()} and {problem.y[other].tolist()}: "
            + ("subtracting the output's bias rounds them: leave one out" if unsure[other] else "no network has both")
        )
    return ScaledNetwork(
        x[sample], y[sample], doubt[sample], hidden, readout, factor, squared, gain, row, exponent, sample
    )


def _checked(problem: Problem, weights: Weights | TwoLayer) -> tuple[np.ndarray, np.ndarray, np.floating, float, int]:
    """Checked hidden weights and readout (C, m), with c, c^2 and g."""
    signs = not isinstance(weights, TwoLayer)
    given = (weights.hidden, weights.readout) if isinstance(weights, TwoLayer) else weights
    named = "signs" if signs else "readout"
    hidden, readout = finite_array("hidden", given[0]), finite_array(named, given[1])
    outputs = 1 if problem.y.ndim == 1 else problem.y.shape[1]
    if hidden.ndim != 2 or hidden.shape[1] != problem.d or not len(hidden):
        raise ValueError(f"the hidden weights have shape {hidden.shape}; the data need (width, {problem.d})")
    if signs and outputs > 1:
        raise ValueError(
            f"labels of shape {problem.y.shape} need a readout for each of {outputs} outputs, and signs are for one: "
            "give the network as a TwoLayer, whose readout has the factor in it"
        )
    wanted = (len(hidden),) if outputs == 1 else (outputs, len(hidden))
    if readout.shape not in (wanted, (outputs, len(hidden))):
        raise ValueError(
            f"the {named} have shape {readout.shape}; width {len(hidden)} and labels of shape {problem.y.shape} need "
            f"{wanted}"
        )
    if signs:
        wrong = np.flatnonzero(np.abs(readout.reshape(-1)) != 1)
        if len(wrong):
            raise ValueError(
                f"the sign of neuron {wrong[0]} is {readout.reshape(-1)[wrong[0]]}; every sign must be +1 or -1 (a "
                "readout of other numbers is given as a TwoLayer)"
            )
        return hidden, readout.reshape(1, -1), 1 / np.sqrt(LONG(len(hidden))), 1 / len(hidden), 0
    if not readout.any():
        raise ValueError("the readout is 0: the output is 0 whatever the hidden weights are")
    largest = int(np.frexp(np.abs(readout).max())[1])
    small = np.ldexp(readout, -largest)
    if not (np.ldexp(small, largest) == readout).all():
        raise ValueError("the readout has a number below 1e-250 that underflows beside its largest: make it 0")
    small = small.reshape(outputs, -1)
    size = int(np.rint(np.log2(np.linalg.norm(small, axis=1).max())))
    return hidden, small, LONG(2.0) ** -size, 2.0 ** (-2 * size), -(largest + size)
