"""Local steps without matrix products: only neurons that may switch within the round are followed one by one.

A neuron switches on a sample when its pre-activation changes sign. Let a client have the Gram matrix G, let s_r be the
signs of the neurons, and let p_j(t) = eta_local (y_j - f_j(t)) / sqrt(m). Within a round the client's pre-activations
are

    z_ir(k) = z_ir(0) + s_r sum_j G_ij C_jr(k),   C_jr(k) = sum_(t<k) p_j(t) 1{z_jr(t) >= 0}.

Summed over any set of samples j, G_ij p_j(t) lies between the sum of its negative terms and the sum of its positive
terms. So, whichever neurons switch, |z_ir(k) - z_ir(0)| is at most the reach of sample i,

    sum_(t<k) (sum_j |G_ij p_j(t)| + |sum_j G_ij p_j(t)|) / 2.

A neuron whose |z_ir(0)| is beyond the reach does not switch. The outputs of the neurons that do not switch follow from
N_ij = #{r: z_ir(0) >= 0, z_jr(0) >= 0}, the number of neurons that are active on both samples. Since s_r^2 = 1, the sum
of s_r relu(z_ir) grows by sum_j G_ij N_ij Q_j, where Q_j = sum_(t<k) p_j(t). A pair of a neuron and a sample is called
an entry if |z_ir(0)| is within the reach. The pre-activation of an entry is computed in every step in which the neuron
may have switched.

A round takes two products with all samples, one before and one after its local steps, and holds a bit for each neuron
and sample. Nothing is approximated: the results equal the results of Algorithm 1 up to rounding.
"""

from collections.abc import Callable
from concurrent.futures import Executor
from typing import Any, NamedTuple

import numpy as np
from jaxtyping import Float

from ntkfl import interruption
from ntkfl.algorithm1.group_sizes import in_weight_space
from ntkfl.algorithm1.switch_passes import LANES, near_entry, passes
from ntkfl.gram import packing
from ntkfl.gram.mirror import mirrored
from ntkfl.problem import Weights


class DealtNetwork:
    """A network whose neurons are dealt out to chunks, filled up with zeros.

    It has weights (chunks, d, LANES), signs (chunks, LANES), and a round's change of the weights.
    """

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


ROWS = 512  # samples of a tile; a tile has LANES neurons
# the largest number of pieces of the neurons; it is fixed, so that sums do not depend on the number of threads
PIECES = 64
CHUNKS = 4  # the smallest number of chunks of a piece; with fewer, dealing out the chunks takes as long as the work
# The next round's expected reach is the present round's reach times this number. A round that needs a larger reach is
# computed again.
MARGIN = 1.25


def worthwhile_share(samples: int, d: int, local_steps: int, itemsize: int) -> float:
    """The share of entries up to which tracking is faster than products; 0 or less if products are always faster.

    The share follows from measured times, in nanoseconds for each neuron, sample and round in float64. Products take
    1/15 for each multiplication and 1.2 for each step, and half as much in float32. Counting pairs takes c/200. An
    entry takes 50, and 12 + c/7 for each step, also in float32. Here c is the number of samples of a client.

    `samples` is c, and `itemsize` is the number of bytes of a number.
    """
    by_weights, share = in_weight_space(samples, d), itemsize / 8
    products = share * local_steps * ((2 * d if by_weights else samples) / 15 + 1.2)
    once = samples / 200 + (share * (2 * d / 15 + 1.5) if by_weights else 0)
    return (products - once) / (50 + local_steps * (12 + samples / 7))


def bytes_held(x: np.ndarray, width: int) -> tuple[float, float]:
    """The bytes that tracking holds for samples (N, c, d), and the further bytes that it holds if all pairs are
    entries.
    """
    samples, grams = x[..., 0].size, 6 * x.shape[0] * x.shape[1] ** 2
    sums = (PIECES + 16) * samples  # bytes of the pieces, and of other data of each sample
    growing = 3  # a piece's array takes three times its size while it is copied to an array of twice its size
    return samples * width / 8 + 8 * (grams + sums), growing * samples * width * near_entry(x.dtype.name).itemsize


class Start(NamedTuple):
    """The result of a pass over the neurons at the start of a round.

    sums: sum_r s_r relu(z_ir), (n,).
    entries: the entries of each piece.
    share: the largest share of entries among all pairs of neuron and sample in a piece. If this share is too large for
    tracking to be faster, `entries` is incomplete.
    """

    sums: np.ndarray
    entries: list[np.ndarray]
    share: float


class SwitchTracking:
    """Rounds of Algorithm 1 for clients that all have the same number of samples.

    The weights are read from the network, and the changes of the weights are added to the network's `total`. `most` is
    the largest share of entries, among all pairs of neuron and sample, with which tracking is faster than products.
    """

    def __init__(
        self, network: DealtNetwork, x: np.ndarray, y: np.ndarray, linearised: bool, most: float, pool: Executor
    ) -> None:
        self.network, self.linearised, self.most, self.pool = network, linearised, most, pool
        self.x, self.labels, self.grams = x.reshape(-1, x.shape[2]), y.ravel(), x @ x.transpose(0, 2, 1)
        self.sizes = (1 + 8 * x.shape[1] * np.finfo(x.dtype).eps) * np.abs(self.grams)  # enlarged to cover rounding
        self.counted = np.empty_like(self.grams)  # G_ij N_ij
        self.passes, self.count = passes(x.dtype.name), packing.kernels().count
        chunks = len(network.weights)
        self.pieces = _shared(chunks, least=CHUNKS)
        self._make_room()
        self.words = np.zeros((2 * chunks, len(self.x)), np.uint64)
        self.fixed = False  # whether the patterns are frozen
        self.reach: np.ndarray | None = None  # the reach expected in the next round
        # share of entries divided by the mean reach, from the last round in which the share was too large
        self.crowding = 0.0

    def train(self, eta_local: float, outputs: Float[np.ndarray, "k n"]) -> bool:
        """Fill in the outputs before and after each local step, and add up the changes of the weights.

        Returns False and adds nothing if products are faster or if the run overflows; numpy warns of an overflow.
        """
        still = self.linearised or len(outputs) == 1
        nowhere = np.zeros_like(self.labels)
        if self.reach is None and not still:
            first = self.network.scale * self._start(nowhere).sums
            self.expect(eta_local, np.broadcast_to(first, outputs.shape))
        while True:  # the reach at least doubles, until it suffices or too many neurons are within it
            interruption.check()
            reach = nowhere if still or self.reach is None else self.reach
            if not self.crowding * reach.mean() <= self.most:  # too many entries, or a reach that is not a number
                return False
            start = self._start(reach)
            if start.share > self.most:
                self.crowding = start.share / reach.mean()
                self._make_room()
                return False
            coefficients = self._steps(start, eta_local, outputs)
            if still:
                break
            needed = self.expect(eta_local, outputs)
            if not np.isfinite(needed).all():
                return False
            if (needed <= reach).all():
                break
            # If the reach was too small, the outputs were wrong, and `needed` may be too small. So the reach doubles.
            self.reach = np.maximum(MARGIN * needed, np.where(needed > reach, 2 * reach, reach))
        self.fixed = self.linearised
        if len(outputs) > 1:
            self._each(lambda piece, entries: self._add(piece, entries, coefficients), start.entries)
        return True

    def expect(self, eta_local: float, outputs: Float[np.ndarray, "k n"]) -> Float[np.ndarray, " n"]:
        """Returns the reach of a round with these outputs before and after each local step.

        The next round is expected to have this reach too, with a margin.
        """
        needed = sum(map(self._farthest, self._pulls(eta_local, outputs[:-1])), np.zeros_like(self.labels))
        self.reach = MARGIN * needed
        return needed

    def _farthest(self, pull: np.ndarray) -> np.ndarray:
        """An upper bound of how far a local step moves the pre-activations of each sample."""
        return (self._by_client(self.sizes, np.abs(pull)) + np.abs(self._by_client(self.grams, pull))) / 2

    def _pulls(self, eta_local: float, outputs: np.ndarray) -> np.ndarray:
        return self.labels.dtype.type(eta_local) * self.network.scale * (self.labels - outputs)

    def _by_client(self, grams: np.ndarray, column: np.ndarray) -> np.ndarray:
        return np.matmul(grams, column.reshape(*grams.shape[:2], 1)).ravel()

    def _each(self, work: Callable[..., Any], *of_pieces: list) -> list:
        def quietly(*args: Any) -> Any:
            with np.errstate(over="ignore", invalid="ignore"):  # the threads do not inherit this setting
                return work(*args)

        return list(self.pool.map(quietly, self.pieces, *of_pieces))

    def _start(self, reach: np.ndarray) -> Start:
        numbers = list(range(len(self.pieces)))
        sums, shares, entries = zip(*self._each(lambda piece, p: self._look(piece, p, reach), numbers), strict=True)
        return Start(sum(sums), list(entries), max(shares))

    def _look(self, piece: range, number: int, reach: np.ndarray) -> tuple[np.ndarray, float, np.ndarray]:
        """The sums of the outputs over the neurons of some chunks, the share of entries, and the entries.

        The entries are incomplete if they are too many.
        """
        z, sums = np.empty((min(ROWS, len(self.x)), LANES), self.x.dtype), np.zeros_like(self.labels)
        room, count = self.room[number], 0
        pairs, samples = len(piece) * LANES * len(self.x), self.grams.shape[1]
        for chunk in piece:
            signs, words = self.network.signs[chunk], self.words[2 * chunk : 2 * chunk + 2]
            heads = np.full(LANES, -1, np.int32)
            for first in range(0, len(self.x), ROWS):
                rows = self.x[first : first + ROWS]
                tile = np.matmul(rows, self.network.weights[chunk], out=z[: len(rows)])
                near = self.passes.look(tile, signs, reach, self.fixed, words, first, sums)
                if near and (count + near) / pairs <= self.most:
                    if count + near > len(room):
                        larger = np.empty(count + max(count, 2 * near), room.dtype)
                        larger[:count] = room[:count]
                        room = self.room[number] = larger
                    self.passes.gather(tile, signs, reach, first, chunk * LANES, samples, heads, count, room)
                count += near
        return sums, count / pairs, room[:count]

    def _make_room(self) -> None:
        """Forget all entries and release their memory."""
        self.room = [np.empty(0, near_entry(self.x.dtype.name))] * len(self.pieces)

    def _steps(self, start: Start, eta_local: float, outputs: np.ndarray) -> np.ndarray:
        """Fill in the outputs; returns the coefficients sum_t p_j(t) of neurons that do not switch."""
        signs, coefficients = self.network.signs.ravel(), np.zeros_like(self.labels)
        if not self.fixed and len(outputs) > 1:
            list(self.pool.map(self._count, _shared(len(self.grams))))
        outputs[0] = self.network.scale * start.sums
        reach = np.zeros_like(self.labels)
        by_client = [array.reshape(self.grams.shape[:2]) for array in (coefficients, reach)]
        words = self.words.reshape(len(self.words), *self.grams.shape[:2])
        for k in range(1, len(outputs)):
            (pull,) = self._pulls(eta_local, outputs[k - 1 : k])
            coefficients += pull
            reach += self._farthest(pull)

            def step(_: range, entries: np.ndarray, pull: np.ndarray = pull) -> np.ndarray:
                sums = np.zeros(self.grams.shape[:2], pull.dtype)
                self.passes.step(entries, words, signs, self.grams, pull.reshape(sums.shape), *by_client, sums)
                return sums.ravel()

            changes = sum(self._each(step, start.entries))
            outputs[k] = self.network.scale * (start.sums + self._by_client(self.counted, coefficients) + changes)
        return coefficients

    def _count(self, clients: range) -> None:
        by_client = self.words.reshape(len(self.words), *self.grams.shape[:2])
        for client in clients:
            rows = np.ascontiguousarray(by_client[:, client].T)
            counts = np.zeros(self.grams.shape[1:], np.int64)
            self.count(rows, rows, True, counts)
            self.counted[client] = self.grams[client] * mirrored(counts)

    def _add(self, piece: range, entries: np.ndarray, coefficients: np.ndarray) -> None:
        """Add the change of the weights of some chunks."""
        room, total = np.empty((min(ROWS, len(self.x)), LANES), self.x.dtype), self.network.total
        for chunk in piece:
            signs, words = self.network.signs[chunk], self.words[2 * chunk : 2 * chunk + 2]
            for first in range(0, len(self.x), ROWS):
                rows = self.x[first : first + ROWS]
                self.passes.spread(words, first, coefficients, signs, room[: len(rows)])
                total[chunk] += rows.T @ room[: len(rows)]
        signs, x = self.network.signs.ravel(), self.x.reshape(*self.grams.shape[:2], -1)
        self.passes.correct(entries, signs, piece.start * LANES, x, total[piece.start : piece.stop])


def _shared(count: int, least: int = 1) -> list[range]:
    """At most PIECES ranges that cover `count` things; all ranges but the last have at least `least` things."""
    step = max(least, -(-count // PIECES))
    return [range(begin, min(begin + step, count)) for begin in range(0, count, step)]
