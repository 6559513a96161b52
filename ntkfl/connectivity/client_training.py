"""Clients' networks after separate training from a shared start, for the study of model averaging."""

import numpy as np
from jaxtyping import Float

from ntkfl.problem import Problem, Setup, Weights


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
    moved = [_trained(problem.x[own], y[own], setup, hidden, signs) for own in problem.members]
    return hidden + np.stack(moved)


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
