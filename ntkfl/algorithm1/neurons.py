"""The neurons of a run of Algorithm 1, with all clients at once.

The arrays have the shape (N c, m) and are written in place, since passes over them take most of the time.

A change of the hidden weights of neuron r is sum_i c_ir x_i over the samples x_i, with coefficients c_ir. Within a
round a client's coefficients are c_ir = s_r sum_k p_i(k) [z_ir(k) >= 0], with the sum over local steps k. Here p_i(k)
is the client's residual at sample i times the size of a local step, divided by sqrt(m); s_r is the sign of neuron r;
and z_ir(k) is the pre-activation of neuron r at sample i before step k. `summed` and the products with the Gram
matrices leave out the signs, which are multiplied in afterwards. While `on` holds no pattern, it is used as scratch
memory.

`CompiledNeurons` has the same neurons in compiled passes. A pass takes chunk after chunk of the neurons, and does all
its work on a chunk while the chunk is in cache. The arrays of `CompiledNeurons` are (chunks, N c, LANES). So the data
of a chunk lie together, and the compiler handles several neurons by one instruction. Sums over neurons are kept
separately for each lane until a pass is over. The last chunk is filled up with neurons of weight and sign 0, which do
nothing.
"""

from typing import NamedTuple

import numpy as np
from jaxtyping import Float


class Seen(NamedTuple):
    """What is seen of the global model at the start of a round.

    `sums` has sum_r s_r relu(z_ir) for every sample i, (N c,). `movement` is the largest value of |u_r - u_r(0)|^2 over
    the neurons r, and `total_movement` is the sum of |u_r - u_r(0)|^2 over r. `flips` is the number of flipped
    patterns.
    """

    sums: Float[np.ndarray, " n"]
    movement: float
    total_movement: float
    flips: int


class Neurons:
    """The pre-activations Z = Z(0) + G C and the coefficients C of all neurons; both change in every round.

    `x` has the samples by client, (N, c, d), with zero rows for clients of fewer than c samples. The squared
    lengths of changes of weights that the methods return are 0 unless `movements` is True.
    """

    def __init__(self, x: np.ndarray, hidden: np.ndarray, signs: np.ndarray, linearised: bool, movements: bool) -> None:
        self.x, self.hidden, self.signs = x.reshape(-1, x.shape[2]), hidden, signs
        self.linearised, self.movements = linearised, movements
        self.gram, self.local_gram = self.x @ self.x.T, x @ x.transpose(0, 2, 1)
        self.z0 = self.x @ hidden.T
        self.start = self.z0 >= 0
        self.c, self.gc = np.zeros_like(self.z0), np.zeros_like(self.z0)  # C and G C
        self.z_global, self.z_local, self.on, self.summed, self.work = (np.empty_like(self.z0) for _ in range(5))
        self.moved = np.zeros(len(signs))

    def begin(self) -> Seen:
        """Begin a round; returns the sums, squared distances from the start and flips of the global model."""
        np.add(self.z0, self.gc, out=self.z_global)
        sums = self._sums(self.z_global)
        if not self.movements:
            return Seen(sums, 0.0, 0.0, 0)
        self.moved = np.multiply(self.c, self.gc, out=self.on).sum(axis=0)
        flips = 0 if self.linearised else int(np.count_nonzero((self.z_global >= 0) != self.start))
        return Seen(sums, self.moved.max(), self.moved.sum(), flips)

    def step(self, pull: Float[np.ndarray, " n"], first: bool) -> tuple[Float[np.ndarray, " n"], float]:
        """Make one local step of every client; returns the sums sum_r s_r relu(z_ir) after it, and max |w - u(0)|^2."""
        on, summed, work = self.on, self.summed, self.work
        z = self.z_global if first else self.z_local
        np.copyto(on, self.start) if self.linearised else np.greater_equal(z, 0.0, out=on, casting="unsafe")
        if first:
            np.multiply(on, pull[:, None], out=summed)
        else:
            summed += np.multiply(on, pull[:, None], out=on)
        np.matmul(self.local_gram, self._by_client(summed), out=self._by_client(work))
        work *= self.signs
        sums = self._sums(np.add(self.z_global, work, out=self.z_local))
        if not self.movements:
            return sums, 0.0
        np.multiply(self.gc, 2.0, out=on)  # |u + v|^2 = |u|^2 + v.(2u + v)
        on += work
        on *= summed
        return sums, (self.moved + self._by_client(on).sum(axis=1) * self.signs).max()

    def end(self, share: float) -> float:
        """Add `share` of the clients' summed changes; returns the largest squared length of a neuron's summed
        change.
        """
        summed, work = self.summed, self.work
        through_gram(self.x, self.gram, summed, out=work)
        longest = np.multiply(summed, work, out=self.on).sum(axis=0).max() if self.movements else 0.0
        signed = share * self.signs
        summed *= signed
        work *= signed
        self.c += summed
        self.gc += work
        return longest

    def weights(self) -> Float[np.ndarray, "m d"]:
        """The hidden weights u."""
        return self.hidden + self.c.T @ self.x

    def _by_client(self, array: np.ndarray) -> np.ndarray:
        return array.reshape(*self.local_gram.shape[:2], -1)

    def _sums(self, z: np.ndarray) -> np.ndarray:
        np.multiply(z, self.start, out=self.on) if self.linearised else np.maximum(z, 0.0, out=self.on)
        return self.on @ self.signs


def through_gram(x: np.ndarray, gram: np.ndarray, array: np.ndarray, out: np.ndarray) -> None:
    """Write the product of X X^T and `array`, (..., n, m), to `out`, in the order that takes fewer operations."""
    if len(x) >= 2 * x.shape[1]:
        np.matmul(x, x.T @ array, out=out)
    else:
        np.matmul(gram, array, out=out)


class CompiledNeurons:
    """The neurons of `Neurons` in compiled passes, with the same arguments.

    The results differ by rounding, since the sums have other orders.
    """

    def __init__(self, x: np.ndarray, hidden: np.ndarray, signs: np.ndarray, linearised: bool, movements: bool) -> None:
        from ntkfl.algorithm1 import neuron_passes  # importing this module compiles it

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
        """Begin a round; returns the sums, squared distances from the start and flips of the global model."""
        given = (self.z0, self.c, self.gc, self.signs, self.linearised, self.movements)
        return Seen(*self.passes.begin(*given, self.z, self.moved))

    def step(self, pull: Float[np.ndarray, " n"], first: bool) -> tuple[Float[np.ndarray, " n"], float]:
        """Make one local step of every client; returns the sums sum_r s_r relu(z_ir) after it, and max |w - u(0)|^2."""
        given = (self.z0, self.gc, self.signs, self.linearised, self.movements, self.moved, self.local_gram)
        return self.passes.step(*given, pull, first, self.z, self.summed)

    def end(self, share: float) -> float:
        """Add `share` of the clients' summed changes; returns the largest squared length of a neuron's summed
        change.
        """
        through_gram(self.x, self.gram, self.summed, out=self.work)
        return self.passes.end(self.signs, self.movements, share, self.work, self.summed, self.c, self.gc)

    def weights(self) -> Float[np.ndarray, "m d"]:
        """The hidden weights u."""
        c = self.c.transpose(1, 0, 2).reshape(len(self.x), -1)[:, : len(self.hidden)]
        return self.hidden + c.T @ self.x
