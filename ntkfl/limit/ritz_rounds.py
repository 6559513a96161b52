"""Rounds in the Krylov space of the labels, for searches over steps: few numbers represent the residual there."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from jaxtyping import Float

from ntkfl.limit.lanczos import Lanczos


@dataclass(frozen=True, eq=False)
class RitzRounds:
    """Rounds of any server that takes linear combinations of mean displacements, in the labels' Krylov space.

    Clients' mean displacement is P r with P = u(H_D). In x = P^(1/2) r rounds are polynomials in A = P^(1/2) H P^(1/2).
    So Lanczos' k products with A, from P^(1/2) y, give the residual of fewer than k rounds for every such server. Later
    rounds are as accurate as the space resolves those eigenvalues of A whose eigenvectors the labels contain.

    Source: docs/proofs/linear_methods.md#steps-from-a-krylov-space.
    """

    values: Float[np.ndarray, "C k"]  # Ritz values of A, a row for each column of labels that is not 0
    starts: Float[np.ndarray, "C k"]  # the labels in their Krylov vectors
    roots: Float[np.ndarray, "C k k"]  # R with |R s| = |P^(-1/2) V s| for combinations s of these vectors V
    largest: float  # largest Ritz value plus its residual's norm: an estimate (no bound) of A's largest eigenvalue

    @classmethod
    def of(
        cls,
        product: Callable[[np.ndarray], np.ndarray],
        root: Callable[[np.ndarray, bool], np.ndarray],
        labels: Float[np.ndarray, "n C"],
        steps: int,
    ) -> RitzRounds:
        """The space of `steps` products with H; `root` multiplies by P^(1/2) or P^(-1/2). Zero columns are left out."""
        if not labels.any():
            raise ValueError("all labels are 0, which the outputs 0 fit before any round: there is nothing to tune")
        starts = root(labels[:, labels.any(axis=0)], False)
        runs = Lanczos.of(lambda v: root(product(root(v, False)), False), starts, steps)
        size = max(len(run.diagonal) for run in runs)
        values, weights = np.zeros((2, len(runs), size))
        roots, largest = np.zeros((len(runs), size, size)), 0.0
        for i, run in enumerate(runs):
            some = slice(len(run.diagonal))  # if the space is exhausted early, the rest is 0
            nodes, vectors = run.pairs
            values[i, some], weights[i, some] = nodes, vectors[0] * np.linalg.norm(starts[:, i])
            roots[i, some, some] = np.linalg.qr(root(run.basis @ vectors, True), mode="r")
            largest = max(largest, float(nodes[-1] + abs(run.last * vectors[-1, -1]) + run.residual))
        return cls(values, weights, roots, largest)

    def start(self, size: int) -> Float[np.ndarray, "m b 1"]:
        """The states of all columns' modes, of `size` numbers each, with an empty memory."""
        state = np.zeros((self.starts.size, size, 1))
        state[:, 0, 0] = self.starts.ravel()
        return state

    def seen(self, states: Float[np.ndarray, "m b t"]) -> Float[np.ndarray, "m t"]:
        """Vectors of the residual's length, one for each of these states side by side."""
        return (self.roots @ states[:, 0].reshape(*self.values.shape, -1)).reshape(len(states), -1)
