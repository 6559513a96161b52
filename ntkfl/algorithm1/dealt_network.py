"""The global network with its neurons dealt out to chunks, in the order in which the host processes them."""

import numpy as np
from jaxtyping import Float

from ntkfl.algorithm1.switch_passes import LANES
from ntkfl.problem import Weights


class DealtNetwork:
    """Weights (chunks, d, LANES), signs (chunks, LANES), and a round's change of the weights; filled up with zeros."""

    def __init__(self, weights: Weights, dtype: str) -> None:
        self.weights, self.signs = _dealt(weights.hidden.T, dtype), _dealt(weights.signs[None], dtype)[:, 0]
        self.width, self.scale = len(weights.signs), np.dtype(dtype).type(len(weights.signs) ** -0.5)
        self.total = np.zeros_like(self.weights)

    def hidden(self) -> Float[np.ndarray, "m d"]:
        """The hidden weights."""
        return self.weights.transpose(0, 2, 1).reshape(-1, self.weights.shape[1])[: self.width]

    def move(self, share: float) -> None:
        """Move the weights by this share of the change that was added up since the last move."""
        self.weights += self.scale.dtype.type(share) * self.total
        self.total[:] = 0


def _dealt(rows: np.ndarray, dtype: str) -> np.ndarray:
    """Rows (k, m) as (chunks, k, LANES), filled up with zeros."""
    padded = np.pad(rows.astype(dtype), ((0, 0), (0, -rows.shape[1] % LANES)))
    return np.ascontiguousarray(padded.reshape(len(rows), -1, LANES).transpose(1, 0, 2))
