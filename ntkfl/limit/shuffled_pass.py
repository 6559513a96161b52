"""Passes over shuffled samples: the exact moments of a client's displacement over all orders.

A pass takes the batches one after the other, in a random order. Let D_j be 1 on batch j and 0 elsewhere. A step of size
s maps a to a + s D_j (r - Q a). From a = 0 the pass ends at s (I - s Lambda) r, and from any a at a + s (I - s Lambda)
(r
- Q a): a pass has the form of a step, and passes are composed like steps. Lambda is 0 at first and goes to (I - s D_j
Q) Lambda + D_j Q D_S, where S are the samples of the earlier batches. Given S, the next batch is independent of the
order within S. So the moments given S follow from the moments given S less its last batch: 2^n sets in place of n!
orders.
Source: docs/proofs/random_rounds.md#shuffled-passes.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from itertools import combinations
from math import comb

import numpy as np
from jaxtyping import Float

from ntkfl import interruption
from ntkfl.limit.linear_round import Blocks, Vectors
from ntkfl.limit.round_modes import ClientModes

WORK = 1e9  # most numbers that the sets of a client may take


@dataclass(frozen=True, eq=False)
class ShuffledPass:
    """The moments of Lambda over the orders of a client's batches, and of its displacement after some passes."""

    own: Float[np.ndarray, "k k"]  # Q
    step: float  # s
    mean: Float[np.ndarray, "k k"]  # E Lambda, symmetric
    square: Float[np.ndarray, "k k k k"]  # E Lambda_ik Lambda_jl at [i, j, k, l]

    @classmethod
    def of(cls, own: Float[np.ndarray, "k k"], step: float, batch: int) -> ShuffledPass:
        """The moments over all orders, by a recursion over the sets of samples that may have come before.

        Raises:
            ValueError: a batch that does not divide the samples; too many sets.
        """
        size = len(own)
        if batch >= size:
            return cls(own, step, np.zeros((size, size)), np.zeros((size,) * 4))
        if size % batch:
            raise ValueError(
                f"batch_size is {batch} and a client has {size} samples; a shuffled pass takes batches of one size, so "
                "it must divide them: in an order with a smaller last batch the mean displacement is not symmetric"
            )
        work = sum(comb(size, k) * comb(k, batch) for k in range(batch, size + 1, batch)) * float(size) ** 4
        if work > WORK:
            raise ValueError(
                f"a client has {size} samples in batches of {batch}: the orders of its pass are too many to be counted "
                f"exactly ({work:.1g} numbers, at most {WORK:.1g}); independent batches take any number of samples"
            )
        none = np.zeros((size, size))
        before: dict[tuple[int, ...], tuple[np.ndarray, np.ndarray]] = {(): (none, np.zeros((size,) * 4))}
        for taken in range(batch, size + 1, batch):
            following: dict[tuple[int, ...], tuple[np.ndarray, np.ndarray]] = {}
            for now in combinations(range(size), taken):
                interruption.check()
                share, mean, square = 1 / comb(taken, batch), none.copy(), np.zeros((size,) * 4)
                for last in combinations(now, batch):
                    came = tuple(sorted(set(now).difference(last)))
                    of_mean, of_square = _after(own, step, last, came, *before[came])
                    mean += share * of_mean
                    square += share * of_square
                following[now] = mean, square
            before = following
        mean, square = before[tuple(range(size))]
        return cls(own, step, (mean + mean.T) / 2, square)

    @cached_property
    def response(self) -> Float[np.ndarray, "k k"]:
        """The symmetric s (I - s E Lambda), which times r is the mean displacement of a pass."""
        return self.step * (np.eye(len(self.own)) - self.step * self.mean)

    def noise(self, second: Float[np.ndarray, "k k"]) -> Float[np.ndarray, "k k"]:
        """The covariance of a pass's displacement given r, averaged over r with E r r^T = second."""
        spread = np.tensordot(self.square, second, 2) - self.mean @ second @ self.mean
        return self.step**4 * (spread + spread.T) / 2

    def after(self, passes: int) -> Float[np.ndarray, "k k"]:
        """The matrix A of the mean displacement A r after these passes: a symmetric polynomial in response and Q."""
        moved, doubled = np.zeros_like(self.own), self.response
        for power in range(passes.bit_length()):
            if passes >> power & 1:
                moved = moved + doubled @ (np.eye(len(doubled)) - self.own @ moved)
            doubled = 2 * doubled - doubled @ self.own @ doubled  # doubles the number of passes
        return (moved + moved.T) / 2

    def noise_after(self, passes: int, second: Float[np.ndarray, "k k"]) -> Float[np.ndarray, "k k"]:
        """The covariance, as in `noise`, of the displacement after these passes."""
        noise, moved, unit = np.zeros_like(second), np.zeros_like(second), np.eye(len(second))
        kept = unit - self.response @ self.own
        for _ in range(passes):
            left = unit - self.own @ moved
            unfitted = left @ second @ left.T + self.own @ noise @ self.own
            noise = kept @ noise @ kept.T + self.noise(unfitted)
            moved = moved + self.response @ left
        return noise


def _after(
    own: np.ndarray, step: float, last: tuple[int, ...], came: tuple[int, ...], mean: np.ndarray, square: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
    """E Lambda and E Lambda (x) Lambda after a batch, from those before it: only the rows of the batch change.

    The new rows are those of Q D_S - s Q Lambda, with Lambda before the batch; Lambda has rows only in S.
    """
    rows, mean, square = list(last), mean.copy(), square.copy()
    came_before = np.zeros(len(own))
    came_before[list(came)] = 1.0
    coupling, start = -step * own[rows], own[rows] * came_before  # new rows: coupling Lambda + start
    once = np.tensordot(coupling, square, (1, 0))  # E (coupling Lambda)_ik Lambda_jl
    once += np.einsum("ik,jl->ijkl", start, mean)
    twice = np.tensordot(once, coupling, (1, 1)).transpose(0, 3, 1, 2)
    fresh = coupling @ mean + start
    twice += np.einsum("ik,jl->ijkl", fresh, start)
    mean[rows] = fresh
    square[rows] = once
    square[:, rows] = once.transpose(1, 0, 3, 2)
    square[np.ix_(rows, rows)] = twice
    return mean, square


@dataclass(frozen=True, eq=False)
class ShuffledBlocks(Blocks):
    """Blocks whose local steps are passes over shuffled samples; made by `shuffled_blocks`.

    `clients.vectors` are eigenvectors of the mean responses, which do not commute with H_cc; so `clients.values` are
    NaN.
    """

    passes: tuple[ShuffledPass, ...] = ()  # the passes of each client
    responses: Float[np.ndarray, " n"] | None = None  # eigenvalues of the mean responses

    def response(self, pull: float = 0.0) -> Float[np.ndarray, " n"]:
        """The eigenvalues of the mean response; a ValueError if there is a pull."""
        if pull:
            raise ValueError(
                f"clients are drawn back by {pull:g} to where they began, and the mean over shuffled passes is then "
                "not symmetric; independent batches take a pull"
            )
        assert self.responses is not None
        return self.responses

    def apply(self, values: Float[np.ndarray, " n"], vectors: Vectors) -> Vectors:
        """As `Blocks.apply`, for values at the eigenvectors of the mean responses; a ValueError for other values."""
        if np.isnan(values).any():
            raise ValueError(
                "over shuffled passes a client's block of H and its mean response have no eigenvectors in common; a "
                "linear round may apply blocks.response() alone"
            )
        return super().apply(values, vectors)

    def lengths(self, pull: float = 0.0) -> Float[np.ndarray, " n"]:
        """Raise a ValueError: methods that need the lengths have no moments over shuffled passes."""
        raise ValueError("shuffled passes have exact moments for fl-ntk, fedavg and fedavgm alone")


def shuffled_blocks(blocks: Blocks, batch: int) -> ShuffledBlocks:
    """The same blocks, but each local step is a pass in batches of at most `batch` samples.

    Raises:
        ValueError: as `ShuffledPass.of`.
    """
    passes, vectors, responses = [], [], np.empty(len(blocks.gram))
    for owned in blocks.clients.members:
        size = len(owned)
        step = blocks.eta_local * size / min(batch, size)
        passes.append(ShuffledPass.of(blocks.gram[np.ix_(owned, owned)], step, batch))
        responses[owned], basis = np.linalg.eigh(passes[-1].after(blocks.steps))
        vectors.append(basis)
    clients = ClientModes(blocks.clients.members, tuple(vectors), np.full(len(blocks.gram), np.nan))
    given = {name: getattr(blocks, name) for name in Blocks.__dataclass_fields__} | {"clients": clients}
    return ShuffledBlocks(**given, passes=tuple(passes), responses=responses)
