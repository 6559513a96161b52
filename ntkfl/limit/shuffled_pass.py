"""Passes over shuffled samples: the exact moments of a client's displacement over all orders of its batches.

A pass takes the batches one after the other, in a random order. Let D_j be 1 on the samples of batch j and 0 elsewhere,
u the residual at the start of the pass, and v the amount by which a unit of step lowers this residual. The displacement
since the start of the pass is W_j (u, v) after j steps. A step of size s takes the map W_{j-1} to

    W_j = k W_{j-1} + s D_j ((I, -t_{j-1} I) - Q W_{j-1}),

where Q is the client's block of the Gram matrix, and t is the length walked along v. k is 1 - eta pull if a pull draws
the model back to its start, and 1 otherwise.

Let S be the set of samples in the earlier batches. Given S, the next batch is independent of the order within S. So the
moments given S follow from the moments given S minus the last of the earlier batches: the recursion runs over 2^n sets
instead of n! orders. Passes are composed like steps.

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
from ntkfl.limit.round_modes import ClientModes, geometric_sum

WORK = 1e9  # the largest allowed number of entries for all sets of a client's samples

# mean and covariance of W; None: covariance 0
Moments = tuple[Float[np.ndarray, "k c"], Float[np.ndarray, "k k c c"] | None]


@dataclass(frozen=True, eq=False)
class ShuffledPass:
    """The moments of W over the orders of a client's batches, and of the client's displacement after some passes.

    W is a map of u alone if there is neither a pull nor a correction of the gradients, so that only the client's own
    samples move its model.
    """

    own: Float[np.ndarray, "k k"]  # Q
    eta: float  # the size of a step, which follows the gradient of the sum of the client's losses
    batches: int
    pull: float  # mu, the strength of the pull
    mean: Float[np.ndarray, "k c"]  # E W
    square: Float[np.ndarray, "k k c c"] | None  # covariance of W_ik and W_jl at [i, j, k, l]; None: 0

    @classmethod
    def of(
        cls, own: Float[np.ndarray, "k k"], eta: float, batch: int, pull: float = 0.0, *, sloped: bool = False
    ) -> ShuffledPass:
        """The moments over all orders, by a recursion over the sets of samples that may have come before.

        `sloped` says whether the client's gradients are corrected. Given the set S of earlier samples, only the entries
        of W for S are kept.

        Raises:
            ValueError: there are too many sets.
        """
        size, batch, inputs = len(own), min(batch, len(own)), 2 if sloped or pull else 1
        taken = [*range(batch, size, batch), size]  # number of samples after each batch; the last batch may be smaller
        sizes = np.diff(taken, prepend=0).tolist()
        work = sum(comb(size, k) * comb(k, b) * float(inputs * k**2) ** 2 for k, b in zip(taken, sizes, strict=True))
        if work > WORK and batch < size:
            raise ValueError(
                f"a client has {size} samples in batches of {batch}: the orders of its pass are too many to be counted "
                f"exactly, which would take {work:.1g} numbers ({WORK:.1g} at most); batches that are drawn "
                "independently work with any number of samples"
            )
        kept = 1 - eta * pull
        before: dict[tuple[int, ...], Moments] = {(): (np.zeros((0, 0)), None)}
        for turn, (count, drawn) in enumerate(zip(taken, sizes, strict=True)):
            step = eta * size / drawn
            length = float(geometric_sum(np.array(pull), eta, turn))
            start = np.eye(count, inputs * count) - length * np.eye(count, inputs * count, count)
            following: dict[tuple[int, ...], Moments] = {}
            for now in combinations(range(size), count):
                interruption.check()
                turned = kept * np.eye(count) - step * own[np.ix_(now, now)]
                after = []
                for last in combinations(range(count), drawn):
                    came = [place for place in range(count) if place not in last]
                    mean, square = before[tuple(now[place] for place in came)]
                    rows, moved = list(last), np.zeros((count, inputs * count))
                    columns = [place + part * count for part in range(inputs) for place in came]
                    moved[np.ix_(came, columns)] = mean
                    new = turned[rows] @ moved + step * start[rows]
                    moved *= kept
                    moved[rows] = new
                    after.append((moved, square, came, columns, rows))
                following[now] = _mixed(after, turned, kept)
            before = following
        mean, square = before[tuple(range(size))]
        for part in np.split(mean, inputs, axis=1):  # each part is symmetric up to rounding
            part[:] = (part + part.T) / 2
        return cls(own, eta, len(taken), pull, mean, square)

    @property
    def kept(self) -> float:
        """The share of a displacement that is left after a pass, because the pull draws the model back."""
        return (1 - self.eta * self.pull) ** self.batches

    def length(self, passes: int) -> float:
        """The length that the client moves along a constant slope in these passes."""
        return float(geometric_sum(np.array(self.pull), self.eta, passes * self.batches))

    def after(self, passes: int) -> Float[np.ndarray, "k c"]:
        """The map of residual and slope at the start of a round to the mean displacement after these passes."""
        moved = np.zeros_like(self.mean)
        for done in range(passes):
            moved = self.kept * moved + self.mean @ self._met(moved, done)
        return moved

    def noise_after(self, passes: int, second: Float[np.ndarray, "d d"]) -> Float[np.ndarray, "k k"]:
        """The covariance of the displacement after these passes, averaged over starts with this second moment."""
        (size, columns), noise = self.mean.shape, np.zeros_like(self.own)
        if self.square is None:
            return noise
        second = np.pad(second, (0, columns - len(second)))
        moved, lowered = np.zeros_like(self.mean), np.concatenate([self.own, self.pull * self.own])[:columns]
        kept = self.kept * np.eye(size) - self.mean @ lowered
        for done in range(passes):
            met = self._met(moved, done)
            unfitted = met @ second @ met.T + lowered @ noise @ lowered.T
            noise = kept @ noise @ kept.T + np.tensordot(self.square, unfitted, 2)
            noise = (noise + noise.T) / 2
            moved = self.kept * moved + self.mean @ met
        return noise

    def _met(self, moved: Float[np.ndarray, "k c"], passes: int) -> Float[np.ndarray, "c c"]:
        """The map of residual and slope at the start of a round to residual and slope after these passes.

        Let r and e be residual and slope at the start, and a the displacement. Afterwards the residual is u = r - t e -
        Q a. The slope is v = e - mu (r - u), since the pull works against the change r - u.
        """
        size, columns = moved.shape
        start, slope = np.eye(size, columns), np.eye(size, columns, size)
        left = start - self.length(passes) * slope - self.own @ moved
        return left if columns == size else np.concatenate([left, slope - self.pull * (start - left)])


def _mixed(after: list[tuple], turned: Float[np.ndarray, "k k"], kept: float) -> Moments:
    """Mean and covariance of W over the choices of the last batch.

    For each choice, `after` has the mean after the last batch and the covariance before it.
    """
    mean = sum(moved for moved, *_ in after) / len(after)
    off = np.array([moved - mean for moved, *_ in after])
    if len(after) == 1 and after[0][1] is None:
        return mean, None
    square = np.einsum("mik,mjl->ijkl", off, off, optimize=True)
    for _, before, came, columns, rows in after:
        if before is None:
            continue
        part = np.zeros_like(square)
        part[np.ix_(came, came, columns, columns)] = before
        for _ in range(2):  # each turn maps the first axis and makes it the second
            new = np.tensordot(turned[rows], part, (1, 0))
            part = kept * part
            part[rows] = new
            part = part.transpose(1, 0, 2, 3)
        square += part
    return mean, square / len(after)


@dataclass(frozen=True, eq=False)
class ShuffledBlocks(Blocks):
    """Blocks whose local steps are passes over shuffled samples; made by `shuffled_blocks`.

    `clients.vectors` are eigenvectors of the mean responses. The mean responses do not commute with H_cc, so
    `clients.values`, which would be eigenvalues of H_cc, are NaN. For a response that is not symmetric, singular values
    and vectors take the place of eigenvalues and eigenvectors.
    """

    passes: tuple[ShuffledPass, ...] = ()  # the passes of each client
    responses: Float[np.ndarray, " n"] | None = None  # eigenvalues of the mean responses, or singular values
    right: ClientModes | None = None  # the right singular vectors; None if the responses are symmetric

    def response(self, pull: float = 0.0) -> Float[np.ndarray, " n"]:
        """The eigenvalues, or singular values, of the mean responses.

        The argument `pull` is not used, since the passes already contain the pull.
        """
        assert self.responses is not None
        return self.responses

    def apply(self, values: Float[np.ndarray, " n"], vectors: Vectors) -> Vectors:
        """As `Blocks.apply`, for values at the eigenvectors of the mean responses; a ValueError for other values."""
        if np.isnan(values).any():
            raise ValueError(
                "over shuffled passes a client's block of H and its mean response have no eigenvectors in common; a "
                "linear round may apply blocks.response() alone"
            )
        if self.right is None:
            return super().apply(values, vectors)
        applied = np.empty_like(vectors)
        for owned, left, right in zip(self.clients.members, self.clients.vectors, self.right.vectors, strict=True):
            applied[owned] = (left * values[owned]) @ (right.T @ vectors[owned])
        return applied

    def moved(self, residual: Vectors, slope: Vectors, pull: float = 0.0) -> Vectors:
        """As `Blocks.moved`; the argument `pull` is not used, since the passes already contain the pull."""
        moved = np.empty_like(residual)
        for owned, matrix in zip(self.clients.members, self._moves, strict=True):
            moved[owned] = matrix @ np.concatenate([residual[owned], slope[owned]])
        return moved

    def lengths(self, pull: float = 0.0) -> Float[np.ndarray, " n"]:
        """As `Blocks.lengths`, where a pass has a step for each of its batches.

        The argument `pull` is not used, since the passes already contain the pull.
        """
        lengths = np.empty(len(self.gram))
        for owned, own in zip(self.clients.members, self.passes, strict=True):
            lengths[owned] = own.length(self.steps)
        return lengths

    @cached_property
    def _moves(self) -> list[np.ndarray]:
        """Each client's map of residual and slope to its mean displacement."""
        return [own.after(self.steps) for own in self.passes]


def shuffled_blocks(blocks: Blocks, batch: int, pull: float = 0.0, *, sloped: bool = False) -> ShuffledBlocks:
    """The same blocks, except that each local step is a pass in batches of at most `batch` samples.

    `sloped`: whether clients correct their gradients by a memory. With a pull, the responses to two or more passes are
    not symmetric.

    Raises:
        ValueError: as `ShuffledPass.of`.
    """
    members, unknown = blocks.clients.members, np.full(len(blocks.gram), np.nan)
    passes, lefts, rights, responses = [], [], [], unknown.copy()
    symmetric = not pull or blocks.steps == 1
    for owned in members:
        passes.append(ShuffledPass.of(blocks.gram[np.ix_(owned, owned)], blocks.eta_local, batch, pull, sloped=sloped))
        moved = passes[-1].after(blocks.steps)[:, : len(owned)]
        if symmetric:
            responses[owned], left = np.linalg.eigh(moved)
        else:
            left, responses[owned], right = np.linalg.svd(moved)
            rights.append(right.T)
        lefts.append(left)
    given = {name: getattr(blocks, name) for name in Blocks.__dataclass_fields__}
    given["clients"] = ClientModes(members, tuple(lefts), unknown)
    right_modes = None if symmetric else ClientModes(members, tuple(rights), unknown)
    return ShuffledBlocks(**given, passes=tuple(passes), responses=responses, right=right_modes)
