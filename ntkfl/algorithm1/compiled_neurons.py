"""The neurons of `neurons.py` in compiled passes: each pass does all its work on a chunk of neurons in cache.

Arrays are (chunks, N c, LANES): the data of a chunk lie together, and the compiler handles several neurons by one
instruction. Sums over neurons are kept lane by lane until a pass is over. The last chunk is filled up with neurons of
weight and sign 0, which do nothing.
"""

import numpy as np
from jaxtyping import Float

from ntkfl.algorithm1.neurons import Seen, through_gram


class CompiledNeurons:
    """Like `neurons.Neurons`, with the same arguments; results differ in rounding, since sums have other orders."""

    def __init__(self, x: np.ndarray, hidden: np.ndarray, signs: np.ndarray, linearised: bool, movements: bool) -> None:
        from ntkfl.algorithm1 import neuron_passes  # compiled at its first import

        self.passes, lanes = neuron_passes, neuron_passes.LANES
        self.x, self.hidden = x.reshape(-1, x.shape[2]), hidden
        self.linearised, self.movements = linearised, movements
        self.gram, self.local_gram = self.x @ self.x.T, np.ascontiguousarray(x @ x.transpose(0, 2, 1))
        missing = -len(signs) % lanes
        rows = np.pad(self.x @ hidden.T, ((0, 0), (0, missing)))
        self.signs = np.pad(signs, (0, missing)).reshape(-1, lanes)
        self.z0 = np.ascontiguousarray(rows.reshape(len(rows), -1, lanes).transpose(1, 0, 2))
        self.c, self.gc = np.zeros_like(self.z0), np.zeros_like(self.z0)
        self.z, self.summed, self.work = (np.empty_like(self.z0) for _ in range(3))
        self.moved = np.zeros_like(self.signs)

    def begin(self) -> Seen:
        """Begin a round: the global model's outputs, and its distance from the start."""
        given = (self.z0, self.c, self.gc, self.signs, self.linearised, self.movements)
        return Seen(*self.passes.begin(*given, self.z, self.moved))

    def step(self, pull: Float[np.ndarray, " n"], first: bool) -> tuple[Float[np.ndarray, " n"], float]:
        """One local step of every client: their sums sum_r s_r relu(z_ir) after it, and max |w - u(0)|^2."""
        given = (self.z0, self.gc, self.signs, self.linearised, self.movements, self.moved, self.local_gram)
        return self.passes.step(*given, pull, first, self.z, self.summed)

    def end(self, share: float) -> float:
        """Add `share` of the summed changes of the clients; returns the largest squared length of a neuron's sum."""
        through_gram(self.x, self.gram, self.summed, out=self.work)
        return self.passes.end(self.signs, self.movements, share, self.work, self.summed, self.c, self.gc)

    def weights(self) -> Float[np.ndarray, "m d"]:
        """The hidden weights u."""
        c = self.c.transpose(1, 0, 2).reshape(len(self.x), -1)[:, : len(self.hidden)]
        return self.hidden + c.T @ self.x
