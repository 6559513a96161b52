"""Rounds of any linear method in the Krylov space of its first state, where powers of the whole map cost too much."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
from jaxtyping import Float

from ntkfl import interruption

if TYPE_CHECKING:
    from ntkfl.limit.linear_regime import LinearRegime

EXHAUSTED = 1e-13  # share of the image: less than this is rounding, and the space then holds every later state


@dataclass(frozen=True, eq=False)
class KrylovRounds:
    """Arnoldi's orthonormal basis V of v, M v, ..., M^(k-1) v for a round map M and the first state v of each output.

    The compressed map H = V^T M V gives M^t v = V H^t V^T v without error for t < k, and later ones as closely as the
    space resolves those eigenvalues of M that matter for v.
    """

    maps: Float[np.ndarray, "C k k"]  # H
    state: Float[np.ndarray, "C k 1"]  # V^T v
    roots: Float[np.ndarray, "C k k"]  # R with |R a| the size of the residual in V a

    @classmethod
    def of(cls, regime: LinearRegime, state: Float[np.ndarray, "s C"], steps: int) -> KrylovRounds:
        """From so many rounds; columns of zeros are left out."""
        starts = state[:, state.any(axis=0)].T
        rows, n = len(state), regime.problem.n
        steps = min(steps, rows)
        maps, first = np.zeros((len(starts), steps, steps)), np.zeros((len(starts), steps, 1))
        roots = np.zeros((len(starts), steps, steps))
        for column, start in enumerate(starts):
            basis, projected = np.zeros((rows, steps + 1), order="F"), np.zeros((steps + 1, steps))
            first[column, 0] = np.linalg.norm(start)
            basis[:, 0] = start / first[column, 0]
            for k in range(steps):
                interruption.check()
                image = regime.mapped(basis[:, k : k + 1])[:, 0]
                size = float(np.linalg.norm(image))
                for _ in range(2):  # one pass leaves rounding's share of the other vectors
                    parts = basis[:, : k + 1].T @ image
                    projected[: k + 1, k] += parts
                    image = image - basis[:, : k + 1] @ parts
                left = float(np.linalg.norm(image))
                if not left > EXHAUSTED * size:
                    break
                projected[k + 1, k] = left
                basis[:, k + 1] = image / left
            maps[column] = projected[:steps]
            small = np.linalg.qr(basis[:n, :steps], mode="r")
            roots[column, : len(small)] = small
        return cls(maps, first, roots)

    def seen(self, states: Float[np.ndarray, "C k t"]) -> Float[np.ndarray, "m t"]:
        """Vectors as long as the residual, one for each of these states side by side."""
        return (self.roots @ states).reshape(-1, states.shape[2])
