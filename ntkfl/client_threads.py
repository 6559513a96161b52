"""Algorithm 1 without the record of movements, on the host's cores: each thread trains a group of clients.

The spaces are those of `client_groups`. Arrays are (chunks, rows, LANES), neurons dealt out to chunks, and are gone
through in pieces that stay in cache: products by BLAS, what lies between two of them in one compiled pass. Sums are
taken in the order of pieces and of clients, so that the result does not depend on the number of threads.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from concurrent.futures import Executor, ThreadPoolExecutor
from typing import NamedTuple

import numpy as np
from jaxtyping import Float

from ntkfl.client_groups import Outputs, clients_at_once, in_weight_space
from ntkfl.client_passes import passes
from ntkfl.gram.threads import worker_threads
from ntkfl.problem import Setup, Weights

ROWS = 64  # samples of a group of small clients: enough for products to be fast
LANES = 128  # neurons of a chunk
PIECE = 2**19  # bytes of an array (chunks, samples of a group, LANES) of one piece


def run(
    x: np.ndarray,
    y: np.ndarray,
    weights: Weights,
    keep: np.ndarray,
    setup: Setup,
    *,
    linearised: bool,
    dtype: str = "float64",
    memory: float | None = None,
) -> Outputs:
    """Run Algorithm 1; arguments, result and errors as of `client_groups.run`."""
    (n_clients, samples, d), (hidden, signs), rounds = x.shape, weights, setup.rounds
    by_weights = in_weight_space(samples, d)
    each, item = numbers_held(samples, d, dtype), np.dtype(dtype).itemsize
    fit = clients_at_once(n_clients, each, d, len(signs), item, len(keep), memory)
    size = 1 if by_weights else min(fit, max(1, ROWS // samples))
    padding = ((0, -n_clients % size), (0, 0))  # clients of zero rows do nothing
    x, y = np.pad(x.astype(dtype), (*padding, (0, 0))), np.pad(y.astype(dtype), padding)
    groups = [Group.of(x[i : i + size], y[i : i + size]) for i in range(0, len(x), size)]
    local = np.empty((rounds, setup.local_steps + 1, len(groups), size * samples), dtype)
    last, kept = np.empty((1, *local.shape[2:]), dtype), np.empty((len(keep), *hidden.shape), dtype)
    with worker_threads() as threads, ThreadPoolExecutor(threads) as pool:
        at_once = threads if threads <= len(groups) and threads * size <= fit else 1
        model = Model(groups, hidden.astype(dtype), signs.astype(dtype), linearised, by_weights, pool, at_once)
        for t in range(rounds + 1):
            if t in keep:
                kept[keep == t] = model.hidden()
            if t < rounds:
                model.train(setup.eta_local, local[t])
                model.move(setup.eta_global / n_clients)
        model.train(setup.eta_local, last)
    local, last = (part.reshape(*part.shape[:-2], -1, samples)[..., :n_clients, :] for part in (local, last[0]))
    return Outputs(local, last, kept, "cpu")


def numbers_held(samples: int, d: int, dtype: str) -> float:
    """How many numbers for a neuron the `Room` of a client has; a pattern is a byte."""
    return samples / np.dtype(dtype).itemsize + (d if in_weight_space(samples, d) else 2 * samples)


class Group(NamedTuple):
    """Clients that are trained together: samples (c g, d), labels (c g,), each client's Gram matrix (g, c, c)."""

    rows: np.ndarray
    labels: np.ndarray
    grams: np.ndarray

    @classmethod
    def of(cls, x: np.ndarray, y: np.ndarray) -> Group:
        """The group of clients with samples x (g, c, d) and labels y (g, c)."""
        return cls(x.reshape(-1, x.shape[2]), y.ravel(), x @ x.transpose(0, 2, 1))


class Room(NamedTuple):
    """Arrays of one group at a time, which the next one overwrites.

    on: patterns. change: of the weights, or the coefficients. start: pre-activations of the global network, where they
    are needed: by coefficients.
    """

    on: np.ndarray
    change: np.ndarray
    start: np.ndarray

    @classmethod
    def empty(cls, chunks: int, samples: int, d: int, by_weights: bool, dtype: np.dtype) -> Room:
        """Room for a group of so many samples."""
        rows = (d, 0) if by_weights else (samples, samples)
        return cls(np.empty((chunks, samples, LANES), bool), *(np.empty((chunks, k, LANES), dtype) for k in rows))


class Model:
    """The global network and its training by groups of clients, all of one size.

    Args:
        pool, at_once: threads, and how many groups these train together; if one, they share its neurons.
    """

    def __init__(
        self,
        groups: list[Group],
        hidden: np.ndarray,
        signs: np.ndarray,
        linearised: bool,
        by_weights: bool,
        pool: Executor,
        at_once: int,
    ) -> None:
        self.groups, self.linearised, self.by_weights, self.pool = groups, linearised, by_weights, pool
        self.passes, self.width, self.scale = passes(signs.dtype.name), len(signs), signs.dtype.type(len(signs) ** -0.5)
        self.weights, self.signs = _dealt(hidden.T), _dealt(signs[None])[:, 0]
        self.first = self.weights.copy() if linearised else self.weights
        self.total = np.zeros_like(self.weights)
        (samples, d), chunks = groups[0].rows.shape, len(self.weights)
        step = max(1, PIECE // (samples * LANES * signs.itemsize))
        self.pieces = [slice(begin, min(begin + step, chunks)) for begin in range(0, chunks, step)]
        self.rooms = [Room.empty(chunks, samples, d, by_weights, signs.dtype) for _ in range(at_once)]

    def hidden(self) -> Float[np.ndarray, "m d"]:
        """The hidden weights."""
        return self.weights.transpose(0, 2, 1).reshape(-1, self.weights.shape[1])[: self.width]

    def train(self, eta_local: float, outputs: Float[np.ndarray, "k g c"]) -> None:
        """Fill in the groups' outputs, before and after each local step, and add up the changes."""
        at_once, rate = len(self.rooms), self.scale.dtype.type(eta_local) * self.scale
        each: Callable[..., Iterable] = self.pool.map if at_once > 1 else map
        for first in range(0, len(self.groups), at_once):
            some = range(first, min(first + at_once, len(self.groups)))
            list(each(lambda room, g: self._train(room, self.groups[g], rate, outputs[:, g]), self.rooms, some))
            if len(outputs) > 1:
                list(self.pool.map(lambda piece: self._add(some, piece), self.pieces))  # noqa: B023

    def move(self, share: float) -> None:
        """Move the weights by this share of what was added up since the last time."""
        self.weights += self.scale.dtype.type(share) * self.total
        self.total[:] = 0

    def _train(self, room: Room, group: Group, rate: np.floating, outputs: np.ndarray) -> None:
        each: Callable[..., Iterable] = map if len(self.rooms) > 1 else self.pool.map
        pull = np.zeros_like(group.labels)
        for k in range(len(outputs)):
            sums = each(lambda piece: self._step(room, group, pull, k, piece), self.pieces)  # noqa: B023
            with np.errstate(over="ignore", invalid="ignore"):  # not inherited by threads
                outputs[k] = sum(sums) * self.scale
                pull = rate * (group.labels - outputs[k])

    def _step(self, room: Room, group: Group, pull: np.ndarray, k: int, piece: slice) -> np.ndarray:
        """The k-th local step of some chunks (none at k = 0), and their sums s_r relu(z_ir) after it, (c g,)."""
        u, signs = self.weights[piece], self.signs[piece]
        on, change, start = (array[piece] for array in room)
        with np.errstate(over="ignore", invalid="ignore"):
            if k == 0:
                if self.linearised:
                    on[:] = ~(group.rows @ self.first[piece] < 0)
                z = np.matmul(group.rows, u, out=None if self.by_weights else start)
            elif self.by_weights:
                step = np.empty(on.shape, pull.dtype)
                self.passes.pulled(pull, signs, on, True, step)
                gained = group.rows.T @ step
                change[:] = gained if k == 1 else change + gained
                z = np.matmul(group.rows, u + change, out=step)
            else:
                self.passes.pulled(pull, signs, on, k == 1, change)
                by_client = (len(u), *group.grams.shape[:2], LANES)
                z = (group.grams @ change.reshape(by_client)).reshape(change.shape)
            base = start[: 0 if k == 0 or self.by_weights else None]
            return self.passes.look(z, base, signs, self.linearised, on)

    def _add(self, some: Iterable[int], piece: slice) -> None:
        """Add the changes that the groups of these numbers have left in their rooms."""
        with np.errstate(over="ignore", invalid="ignore"):
            for room, g in zip(self.rooms, some, strict=False):
                change = room.change[piece]
                self.total[piece] += change if self.by_weights else self.groups[g].rows.T @ change


def _dealt(rows: np.ndarray) -> np.ndarray:
    """Rows (k, m) as (chunks, k, LANES), filled up with zeros."""
    padded = np.pad(rows, ((0, 0), (0, -rows.shape[1] % LANES)))
    return np.ascontiguousarray(padded.reshape(len(rows), -1, LANES).transpose(1, 0, 2))
