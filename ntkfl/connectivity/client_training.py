"""Clients' networks after separate training from a shared start, for the study of model averaging.

Two-layer ReLU networks on the unit circle, d = 2: outputs between the kinks, and exact means over the circle.

At x = (cos t, sin t) a network is A cos t + B sin t between two angles at which a neuron's pre-activation changes its
sign. With the angles of several networks in one list, any polynomial of their outputs and of smooth functions is
integrated piece by piece: without samples of x, so without a sampling error.
"""

from dataclasses import dataclass

import numpy as np
from jaxtyping import Float

from ntkfl.problem import Problem, Setup, Weights

NODES, SHARES = np.polynomial.legendre.leggauss(2)  # the Gauss rule on [-1, 1], scaled to each piece
LONGEST = 2 * np.pi / 1024  # longest piece: two Gauss points then have an error of 1e-12 times the fourth derivative


@dataclass(frozen=True, eq=False)
class CircleOutputs:
    """Outputs of networks at the Gauss points of their common pieces."""

    angles: Float[np.ndarray, " q"]  # t of the points, (q,)
    shares: Float[np.ndarray, " q"]  # shares of the circle, (q,), with sum 1
    outputs: Float[np.ndarray, "networks q"]  # (networks, q)

    def mean(self, values: Float[np.ndarray, "... q"]) -> np.ndarray:
        """The mean over the circle of a function given at the points."""
        return values @ self.shares


def circle_outputs(models: Float[np.ndarray, "networks m 2"], signs: Float[np.ndarray, " m"]) -> CircleOutputs:
    """f(x) = signs . relu(W x) / sqrt(m) of each model at the Gauss points of their common pieces.

    Raises:
        ValueError: models that are not (networks, m, 2), or a number of signs that is not m.
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
        at_zero = terms[begins[number] > ends[number]].sum(axis=0)  # neurons that are active at t = 0 already
        a, b = (
            _running_sum(terms[:, axis], opens[number], closes[number], at_zero[axis], len(edges) - 1)
            for axis in (0, 1)
        )
        outputs[number] = (a[:, None] * cosine + b[:, None] * sine).ravel()
    return CircleOutputs(angles.ravel(), (half * SHARES / (2 * np.pi)).ravel(), outputs)


def _running_sum(terms: np.ndarray, opens: np.ndarray, closes: np.ndarray, first: float, pieces: int) -> np.ndarray:
    """The sum of the active terms on each piece; term r is active from piece opens[r] on, before piece closes[r]."""
    changes = np.bincount(opens, terms, pieces) - np.bincount(closes, terms, pieces)
    changes[0] += first
    return np.cumsum(changes)


def trained_clients(
    problem: Problem, setup: Setup, weights: Weights, labels: Float[np.ndarray, " n"] | None = None
) -> Float[np.ndarray, "N m d"]:
    """The hidden weights of every client after `setup.local_steps` steps on its own samples, (N, m, d).

    These are the models of Algorithm 1 in its first round before the server averages: steps `setup.eta_local` on half
    the sum of squares, signs fixed. The pre-activations of a client move by X_c X_c^T times its coefficients.

    Raises:
        ValueError: labels or weights of the wrong shape. FloatingPointError: the step is too large.
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
