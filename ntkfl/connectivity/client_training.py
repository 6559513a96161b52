"""Clients' networks after separate training from a shared start, for the study of model averaging.

For inputs on the unit circle, d = 2, means over the circle of the outputs of two-layer ReLU networks are computed.

At x = (cos t, sin t) the output of a network is A cos t + B sin t between two neighbouring angles at which the
pre-activation of a neuron changes its sign. These angles of several networks together cut the circle into pieces.
Polynomials of the outputs and of smooth functions are integrated piece by piece. No x are sampled, so there is no
sampling error.
"""

from dataclasses import dataclass

import numpy as np
from jaxtyping import Float

from ntkfl.problem import Problem, Setup, Weights

# nodes and weights of the Gauss rule of two points on [-1, 1], which is scaled to each piece
NODES, SHARES = np.polynomial.legendre.leggauss(2)
# largest length of a piece; the error of a mean over the circle is then below 1e-12 times the fourth derivative
LONGEST = 2 * np.pi / 1024


@dataclass(frozen=True, eq=False)
class CircleOutputs:
    """Outputs of networks at the Gauss points of the pieces of the circle that the module's docstring describes."""

    angles: Float[np.ndarray, " q"]  # the angles t of the points, (q,)
    shares: Float[np.ndarray, " q"]  # the share of the circle for which each point counts, (q,), with sum 1
    outputs: Float[np.ndarray, "networks q"]  # (networks, q)

    def mean(self, values: Float[np.ndarray, "... q"]) -> np.ndarray:
        """The mean over the circle of a function, from its values at the points."""
        return values @ self.shares


def circle_outputs(models: Float[np.ndarray, "networks m 2"], signs: Float[np.ndarray, " m"]) -> CircleOutputs:
    """The outputs f(x) = signs . relu(W x) / sqrt(m) of each model at the Gauss points of the models' common pieces.

    Raises:
        ValueError: the models do not have the shape (networks, m, 2), or there are not m signs.
    """
    models, signs = np.asarray(models, float), np.asarray(signs, float)
    if models.ndim != 3 or models.shape[2] != 2 or signs.shape != (models.shape[1],):
        raise ValueError(
            f"the models have shape {models.shape} and the signs {signs.shape}; the circle needs (networks, m, 2), (m,)"
        )
    towards = np.arctan2(models[..., 1], models[..., 0])
    begins, ends = np.mod(towards - np.pi / 2, 2 * np.pi), np.mod(towards + np.pi / 2, 2 * np.pi)
    unsorted = np.concatenate([begins.ravel(), ends.ravel(), np.arange(0, 2 * np.pi, LONGEST)])
    order = np.argsort(unsorted)
    place = np.empty_like(order)
    place[order] = np.arange(len(order))
    opens, closes = place[: begins.size].reshape(begins.shape), place[begins.size : 2 * begins.size].reshape(ends.shape)
    edges = np.append(unsorted[order], 2 * np.pi)
    half = np.diff(edges)[:, None] / 2
    angles = edges[:-1, None] + half * (1 + NODES)
    cosine, sine = np.cos(angles), np.sin(angles)
    outputs = np.empty((len(models), angles.size))
    for number, rows in enumerate(models):
        terms = signs[:, None] * rows / np.sqrt(len(signs))
        at_zero = terms[begins[number] > ends[number]].sum(axis=0)  # sum over the neurons that are active at t = 0
        a, b = (
            _running_sum(terms[:, axis], opens[number], closes[number], at_zero[axis], len(edges) - 1)
            for axis in (0, 1)
        )
        outputs[number] = (a[:, None] * cosine + b[:, None] * sine).ravel()
    return CircleOutputs(angles.ravel(), (half * SHARES / (2 * np.pi)).ravel(), outputs)


def _running_sum(terms: np.ndarray, opens: np.ndarray, closes: np.ndarray, first: float, pieces: int) -> np.ndarray:
    """The sum of the active terms on each piece.

    Term r is active from piece opens[r] up to the piece before closes[r].
    """
    changes = np.bincount(opens, terms, pieces) - np.bincount(closes, terms, pieces)
    changes[0] += first
    return np.cumsum(changes)


def trained_clients(
    problem: Problem, setup: Setup, weights: Weights, labels: Float[np.ndarray, " n"] | None = None
) -> Float[np.ndarray, "N m d"]:
    """The hidden weights of every client after `setup.local_steps` steps on its own samples, (N, m, d).

    The results are the clients' models in the first round of Algorithm 1 of FL-NTK, before the server averages them:
    steps of size `setup.eta_local` on half the sum of squares, with fixed signs. Weights change by coefficients times
    the client's inputs X_c, so pre-activations change by X_c X_c^T times the coefficients.

    Raises:
        ValueError: labels or weights have a wrong shape. FloatingPointError: the step is too large.
    """
    hidden, signs = weights
    y = np.asarray(problem.y if labels is None else labels, float)
    if y.shape != (problem.n,):
        raise ValueError(f"the labels have shape {y.shape}; {problem.n} samples and one output need ({problem.n},)")
    if hidden.shape != (len(signs), problem.d):
        raise ValueError(f"the hidden weights have shape {hidden.shape}; they must be ({len(signs)}, {problem.d})")
    return hidden + np.stack([_trained(problem.x[own], y[own], setup, hidden, signs) for own in problem.members])


def _trained(x: np.ndarray, y: np.ndarray, setup: Setup, hidden: np.ndarray, signs: np.ndarray) -> np.ndarray:
    """The change of one client's hidden weights, (m, d)."""
    root, gram, z0 = np.sqrt(len(signs)), x @ x.T, x @ hidden.T
    coefficients, z = np.zeros_like(z0), z0
    for _ in range(setup.local_steps):
        active = z >= 0
        pull = (setup.eta_local / root) * (y - (z * active) @ signs / root)
        coefficients += active * (pull[:, None] * signs)
        z = z0 + gram @ coefficients
    if not np.isfinite(z).all():
        raise FloatingPointError(
            f"a client overflowed in {setup.local_steps} steps: eta_local = {setup.eta_local:g} is too large; below "
            "2 / |H_cc| it is stable"
        )
    return coefficients.T @ x
