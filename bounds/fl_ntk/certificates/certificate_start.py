"""The network at the start of a certificate, in balls: data, residual and activation counts of the given weights."""

from dataclasses import dataclass
from functools import cached_property

import numpy as np
from flint import arb, arb_mat

from ntkfl.balls import ball, ball_matrix, enclosure
from ntkfl.estimate import Estimate
from ntkfl.gram.counts import InitialCounts, initial_counts
from ntkfl.gram.spectrum import largest_eigenvalue
from ntkfl.memory import require
from ntkfl.problem import Problem, Setup, Weights

LOUD = 0.05  # rounding of the residual, as a share of it, above which the outputs are summed in balls
IN_BALLS_UP_TO = 10**8  # most products for a sum in balls, which then takes some ten seconds
SMALLEST_WEIGHTS = 1e-130  # least size of the largest weight, so that its rounding is far above counts.UNDERFLOW
BYTES_OF_A_PAIR = 3000  # measured: bytes for each pair of samples in the balls of all matrices held at the same time
_BLOCK = 4096  # neurons


@dataclass(frozen=True, eq=False)
class Start:
    """A network at the start of a certificate."""

    gram: arb_mat  # x x^T, (n, n)
    residual: list[arb]  # y - y(0), (n,)
    x_norm: arb  # |X|, upper end
    counts: InitialCounts  # active pairs, with bounds
    width: arb  # m, exact

    @cached_property
    def gram_abs(self) -> list[list[arb]]:
        """|G| entrywise, upper ends."""
        return [[abs(g).upper() for g in row] for row in self.gram.tolist()]

    @cached_property
    def residual_norm(self) -> arb:
        """|y - y(0)|, upper end."""
        return length(self.residual)


def start(problem: Problem, setup: Setup, weights: Weights) -> Start:
    """The start of a network whose weights `checked` has passed; call it within `precision()`."""
    counts = initial_counts(problem.x, weights)
    x, width = ball_matrix(problem.x), arb(setup.width)
    gram = x * x.transpose()
    residual = _residual(problem.y, counts.output_sums, width)
    small = problem.n * problem.d * setup.width <= IN_BALLS_UP_TO
    if small and sum((r.rad() for r in residual), arb(0)) > LOUD * sum((abs(r) for r in residual), arb(0)).lower():
        residual = _residual(problem.y, _sums_in_balls(x, weights), width)
    return Start(gram, residual, high(largest_eigenvalue(enclosure(gram))).sqrt().upper(), counts, width)


def require_memory(problem: Problem) -> None:
    """Refuse data whose matrices in balls do not fit into memory (`TooLittleMemory`), before any work."""
    require("the certificate", lambda samples: BYTES_OF_A_PAIR * samples**2, samples=problem.n)


def checked(problem: Problem, setup: Setup, weights: Weights) -> Weights:
    """The weights as float64.

    Raises:
        TooLittleMemory: too many samples. ValueError: several outputs, another shape, weights not finite or all below
            1e-130, signs other than +-1.
    """
    require_memory(problem)
    hidden, signs = np.asarray(weights[0], float), np.asarray(weights[1], float)
    if problem.y.ndim != 1:
        raise ValueError(f"y has shape {problem.y.shape}; the certificate is for one output, y of shape ({problem.n},)")
    shape = (setup.width, problem.d)
    if hidden.shape != shape:
        raise ValueError(f"the hidden weights have shape {hidden.shape}; setup and data need (width, d) = {shape}")
    if signs.shape != (setup.width,):
        raise ValueError(f"the signs have shape {signs.shape}; they must be ({setup.width},), one per neuron")
    if not np.isfinite(hidden).all():
        raise ValueError(f"the hidden weights of neuron {np.argwhere(~np.isfinite(hidden))[0][0]} are not finite")
    largest = float(np.abs(hidden).max())
    if 0 < largest < SMALLEST_WEIGHTS:
        raise ValueError(
            f"the largest hidden weight is {largest:.3g}, below {SMALLEST_WEIGHTS:g}: underflow would decide patterns; "
            "multiply the weights and the labels by one power of two"
        )
    wrong = np.flatnonzero(np.abs(signs) != 1)
    if len(wrong):
        raise ValueError(f"the sign of neuron {wrong[0]} is {signs[wrong[0]]}; every sign must be +1 or -1")
    return Weights(hidden, signs)


def weighted(gram: arb_mat | list[list[arb]], counts: arb_mat | np.ndarray, width: arb) -> arb_mat:
    """G_ij counts_ij / m."""
    rows = gram if isinstance(gram, list) else gram.tolist()
    pairs = zip(rows, counts.tolist(), strict=True)
    return arb_mat([[g * c / width for g, c in zip(*row, strict=True)] for row in pairs])


def length(vector: list[arb]) -> arb:
    """Upper bound of the Euclidean norm, by the squares of upper ends: the square of a ball about 0 may go below 0."""
    return sum((abs(v).upper() ** 2 for v in vector), arb(0)).sqrt().upper()


def low(estimate: Estimate) -> arb:
    """The ball's lower end, as a ball."""
    return ball(float(estimate.lo))


def high(estimate: Estimate) -> arb:
    """The ball's upper end, as a ball."""
    return ball(float(estimate.hi))


def down(x: arb) -> float:
    """A float not above x."""
    return float(enclosure(x).lo)


def up(x: arb) -> float:
    """A float not below x."""
    return float(enclosure(x).hi)


def _residual(y: np.ndarray, sums: Estimate | list[arb], width: arb) -> list[arb]:
    if isinstance(sums, Estimate):
        sums = [ball(v, e) for v, e in zip(sums.value.tolist(), sums.error.tolist(), strict=True)]
    root = width.sqrt()
    return [ball(label) - total / root for label, total in zip(y.tolist(), sums, strict=True)]


def _sums_in_balls(x: arb_mat, weights: Weights) -> list[arb]:
    """sum_r a_r relu(w_r.x_i), (n,)."""
    totals = arb_mat(x.nrows(), 1)
    for first in range(0, len(weights.hidden), _BLOCK):
        block = slice(first, first + _BLOCK)
        z = x * ball_matrix(weights.hidden[block].T)
        positive = arb_mat([[b.max(arb(0)) for b in row] for row in z.tolist()])
        totals += positive * ball_matrix(weights.signs[block])
    return [row[0] for row in totals.tolist()]
