"""What the second moments of rounds with noise tend to: the fixed point of the map of a cycle of rounds."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from jaxtyping import Float
from scipy.sparse.linalg import LinearOperator, gmres

from ntkfl.limit.mean_square import PRECISE, STATIONARY
from ntkfl.memory import require

RESTART = 20  # vectors that the search keeps


def resting(
    following: Callable[[Float[np.ndarray, "s s"]], Float[np.ndarray, "s s"]], driven: Float[np.ndarray, "s s"]
) -> Float[np.ndarray, "s s"]:
    """The S of S = following(S) + driven, where `following` is linear with a radius below 1.

    Raises:
        ValueError: the equation could not be solved to 1e-10, as happens where the radius is all but 1.
    """
    size = len(driven)
    require("what rests of random rounds", lambda n: 8.0 * (RESTART + 10) * n**2, n=size)

    def remains(vector: np.ndarray) -> np.ndarray:
        second = vector.reshape(size, size)
        return (second - following((second + second.T) / 2)).ravel()

    operator = LinearOperator((size**2, size**2), remains, dtype=float)
    start = driven.ravel()
    vector, failed = gmres(operator, start, x0=start, rtol=PRECISE, atol=0.0, restart=RESTART, maxiter=STATIONARY)
    if failed:
        raise ValueError("the stationary mean square is not found: the rounds are all but unstable")
    second = vector.reshape(size, size)
    return (second + second.T) / 2
