"""The neurons of `neurons.py` in compiled passes: each pass does all work on a chunk of neurons while it is in cache.

Arrays are (chunks, N c, LANES): the data of a chunk lie together, and the compiler handles several neurons by one
instruction. Sums over neurons are kept lane by lane until a pass is over. The last chunk is filled up with neurons of
weight and sign 0, which do nothing.
"""

from collections.abc import Callable
from typing import NamedTuple

import numpy as np
from jaxtyping import Float

from ntkfl.algorithm1.compiled_once import compiled_once
from ntkfl.algorithm1.neurons import Seen, through_gram

LANES = 64


class CompiledNeurons:
    """Like `neurons.Neurons`, with the same arguments; results differ in rounding, since sums have other orders."""

    def __init__(self, x: np.ndarray, hidden: np.ndarray, signs: np.ndarray, linearised: bool, movements: bool) -> None:
        self.passes = passes()
        self.x, self.hidden = x.reshape(-1, x.shape[2]), hidden
        self.linearised, self.movements = linearised, movements
        self.gram, self.local_gram = self.x @ self.x.T, np.ascontiguousarray(x @ x.transpose(0, 2, 1))
        missing = -len(signs) % LANES
        rows = np.pad(self.x @ hidden.T, ((0, 0), (0, missing)))
        self.signs = np.pad(signs, (0, missing)).reshape(-1, LANES)
        self.z0 = np.ascontiguousarray(rows.reshape(len(rows), -1, LANES).transpose(1, 0, 2))
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
        """End a round: add this share of the clients' summed changes; returns the largest squared length of these."""
        through_gram(self.x, self.gram, self.summed, out=self.work)
        return self.passes.end(self.signs, self.movements, share, self.work, self.summed, self.c, self.gc)

    def weights(self) -> Float[np.ndarray, "m d"]:
        """The hidden weights u."""
        c = self.c.transpose(1, 0, 2).reshape(len(self.x), -1)[:, : len(self.hidden)]
        return self.hidden + c.T @ self.x


class Passes(NamedTuple):
    """Compiled functions; they release the interpreter. Arguments are the fields of `CompiledNeurons`.

    begin: z = z0 + gc; fills `moved`; returns the fields of `Seen`.
    step: sets z and `summed`; returns the sums (N c,) and the largest squared distance.
    end: moves c and gc; returns the largest squared length.
    """

    begin: Callable[..., tuple]
    step: Callable[..., tuple]
    end: Callable[..., float]


@compiled_once
def passes() -> Passes:
    """Compile (some three seconds, once a process)."""
    from numba import njit

    lanes = LANES
    chunks, chunk, row = "float64[:,:,::1]", "float64[:,::1]", "float64[::1]"

    @njit(f"{row}({chunk})", nogil=True)
    def summed_up(rows):
        sums = np.zeros(len(rows))
        for i in range(len(rows)):
            for r in range(lanes):
                sums[i] += rows[i, r]
        return sums

    @njit(f"float64({row})", nogil=True)
    def largest(values):
        most = values[0]
        for r in range(1, lanes):
            most = values[r] if (values[r] > most) | (values[r] != values[r]) else most  # NaN stays
        return most

    @njit(
        f"Tuple(({row}, float64, float64, int64))({chunks}, {chunks}, {chunks}, {chunk}, boolean, boolean, {chunks}, "
        f"{chunk})",
        nogil=True,
    )
    def begin(z0, c, gc, signs, frozen, lengths, z, moved):
        flips, sums, farthest, total = 0, np.zeros((z0.shape[1], lanes)), np.zeros(lanes), np.zeros((1, lanes))
        for q in range(z0.shape[0]):
            for r in range(lanes):
                moved[q, r] = 0.0
            for i in range(z0.shape[1]):
                for r in range(lanes):
                    value = z0[q, i, r] + gc[q, i, r]
                    z[q, i, r] = value
                    off = z0[q, i, r] < 0.0 if frozen else value < 0.0  # not so of NaN, which must not go unseen
                    sums[i, r] += (0.0 if off else value) * signs[q, r]
                if lengths:
                    for r in range(lanes):
                        moved[q, r] += c[q, i, r] * gc[q, i, r]
                if lengths and not frozen:
                    for r in range(lanes):
                        flips += (z[q, i, r] >= 0.0) != (z0[q, i, r] >= 0.0)
            for r in range(lanes):
                far = moved[q, r]
                total[0, r] += far
                farthest[r] = far if (far > farthest[r]) | (far != far) else farthest[r]
        return summed_up(sums), largest(farthest), summed_up(total)[0], flips

    @njit(
        f"Tuple(({row}, float64))({chunks}, {chunks}, {chunk}, boolean, boolean, {chunk}, {chunks}, {row}, boolean, "
        f"{chunks}, {chunks})",
        nogil=True,
    )
    def step(z0, gc, signs, frozen, lengths, moved, gram, pull, first, z, summed):
        work, gained = np.empty(lanes), np.empty(lanes)
        sums, farthest = np.zeros((z0.shape[1], lanes)), np.zeros(lanes)
        clients, samples = gram.shape[0], gram.shape[1]
        for q in range(z0.shape[0]):
            for i in range(z0.shape[1]):
                p = pull[i]
                for r in range(lanes):
                    on = z0[q, i, r] >= 0.0 if frozen else z[q, i, r] >= 0.0
                    summed[q, i, r] = (0.0 if first else summed[q, i, r]) + (p if on else 0.0)
            for client in range(clients):
                for r in range(lanes):
                    gained[r] = 0.0
                for a in range(samples):
                    i = client * samples + a
                    for r in range(lanes):
                        work[r] = 0.0
                    for b in range(samples):
                        g, j = gram[client, a, b], client * samples + b
                        for r in range(lanes):
                            work[r] += g * summed[q, j, r]
                    for r in range(lanes):
                        value = z0[q, i, r] + gc[q, i, r] + work[r] * signs[q, r]
                        z[q, i, r] = value
                        off = z0[q, i, r] < 0.0 if frozen else value < 0.0
                        sums[i, r] += (0.0 if off else value) * signs[q, r]
                    if lengths:  # |u + v|^2 = |u|^2 + v.(2u + v)
                        for r in range(lanes):
                            gained[r] += summed[q, i, r] * (2.0 * gc[q, i, r] + work[r] * signs[q, r])
                if lengths:
                    for r in range(lanes):
                        far = moved[q, r] + gained[r] * signs[q, r]
                        farthest[r] = far if (far > farthest[r]) | (far != far) else farthest[r]
        return summed_up(sums), largest(farthest)

    @njit(f"float64({chunk}, boolean, float64, {chunks}, {chunks}, {chunks}, {chunks})", nogil=True)
    def end(signs, lengths, share, work, summed, c, gc):
        length, longest = np.empty(lanes), np.zeros(lanes)
        for q in range(c.shape[0]):
            for r in range(lanes):
                length[r] = 0.0
            for i in range(c.shape[1]):
                for r in range(lanes):
                    c[q, i, r] += share * signs[q, r] * summed[q, i, r]
                    gc[q, i, r] += share * signs[q, r] * work[q, i, r]
                if lengths:
                    for r in range(lanes):
                        length[r] += summed[q, i, r] * work[q, i, r]
            for r in range(lanes):
                squared = length[r] * abs(signs[q, r])  # 0 of a neuron that only fills up
                longest[r] = squared if (squared > longest[r]) | (squared != squared) else longest[r]
        return largest(longest)

    return Passes(begin, step, end)
