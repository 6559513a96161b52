"""Algorithm 1 without the record of movements, on the host's cores.

A round is run by `switch_tracking` if few neurons may switch. Otherwise it is run by matrix products: each thread
trains a group of clients. A client keeps either the change of its weights (weight space) or coefficients that determine
this change (pre-activation space); `client_groups` explains both.

The neurons are dealt out to chunks of LANES neurons, and arrays have the shape (chunks, rows, LANES). The work goes
through the chunks in pieces that stay in cache. BLAS forms the products, and one compiled pass does the work between
two products. Sums are taken in the order of pieces and of clients, so that the result does not depend on the number of
threads.
"""

from collections.abc import Callable, Iterable
from concurrent.futures import Executor, ThreadPoolExecutor
from functools import cached_property
from typing import NamedTuple

import numpy as np
from jaxtyping import Float

from ntkfl import interruption
from ntkfl.algorithm1.group_sizes import Outputs, clients_at_once, in_groups, in_weight_space
from ntkfl.algorithm1.switch_passes import LANES
from ntkfl.algorithm1.switch_tracking import DealtNetwork, SwitchTracking, bytes_held, worthwhile_share
from ntkfl.compiled_once import compiled_once, machine_code
from ntkfl.gram.threads import worker_threads
from ntkfl.problem import Setup, Weights


class Passes(NamedTuple):
    """Compiled functions, which release the interpreter's lock.

    Arrays are (chunks, samples, lanes), and signs are (chunks, lanes).

    - pulled(pull, signs, on, anew, out): sets `out` to 0 if `anew`; then adds pull_i s_r to it where neuron r is active
      on sample i.
    - look(z, start, signs, frozen, on): adds `start` to z if `start` has chunks, and returns the sums over r of s_r
      relu(z_ir), (samples,). Unless `frozen`, sets the patterns `on` to z >= 0. A NaN counts as active, so that it
      shows in the outputs.
    """

    pulled: Callable[..., None]
    look: Callable[..., np.ndarray]


@compiled_once
def passes(dtype: str) -> Passes:
    """Compile the passes, which takes about two seconds for each dtype, or read machine code that was kept."""
    zero = np.dtype(dtype).type(0)
    row, table, cube, patterns = f"{dtype}[::1]", f"{dtype}[:,::1]", f"{dtype}[:,:,::1]", "boolean[:,:,::1]"

    # Both values are computed before one is chosen. Without a jump the compiler handles several neurons at once.
    @machine_code(f"void({row}, {table}, {patterns}, boolean, {cube})", fastmath={"contract"})
    def pulled(pull, signs, on, anew, out):
        for q in range(len(signs)):
            sign = signs[q]
            for i in range(len(pull)):
                p, active, to = pull[i], on[q, i], out[q, i]
                for r in range(len(sign)):
                    value, before = p * sign[r], zero if anew else to[r]
                    to[r] = before + (value if active[r] else zero)

    @machine_code(f"{row}({cube}, {cube}, {table}, boolean, {patterns})", fastmath={"contract", "reassoc"})
    def look(z, start, signs, frozen, on):
        sums = np.zeros(z.shape[1], z.dtype)
        for q in range(len(signs)):
            sign = signs[q]
            for i in range(len(sums)):
                at, active, total = z[q, i], on[q, i], zero
                if len(start):
                    base = start[q, i]
                    for r in range(len(sign)):
                        at[r] += base[r]
                for r in range(len(sign)):
                    now = active[r] if frozen else not (at[r] < zero)
                    active[r] = now
                    signed = at[r] * sign[r]
                    total += signed if now else zero
                sums[i] += total
        return sums

    return Passes(pulled, look)


ROWS = 64  # samples of a group of small clients: enough for products to be fast
PIECE = 2**19  # bytes of one piece of an array (chunks, samples of a group, LANES)


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
    tracked: bool = True,
) -> Outputs:
    """Run Algorithm 1; arguments, result and errors are those of `client_groups.run`.

    `tracked` allows `switch_tracking` in rounds in which it is faster. Compiling it takes three seconds, once in a
    process.
    """
    n_clients, rounds = len(x), setup.rounds
    x, y = x.astype(dtype), y.astype(dtype)
    share, fit = _fitting(x, setup, len(keep), memory, tracked)
    local = np.empty((rounds, setup.local_steps + 1, y.size), dtype)
    last, kept = np.empty((1, y.size), dtype), np.empty((len(keep), *weights.hidden.shape), dtype)
    with worker_threads() as threads, ThreadPoolExecutor(threads) as pool:
        network = DealtNetwork(weights, dtype)
        products = ClientProducts(network, x, y, linearised, fit, pool, threads)
        tracking = SwitchTracking(network, x, y, linearised, share, pool) if share > 0 else None
        for t in range(rounds + 1):
            interruption.check()
            if t in keep:
                kept[keep == t] = network.hidden()
            outputs = local[t] if t < rounds else last
            if not (tracking and tracking.train(setup.eta_local, outputs)):
                products.train(setup.eta_local, outputs)
                if tracking:
                    tracking.expect(setup.eta_local, outputs)
            if t < rounds:
                network.move(setup.eta_global / n_clients)
    return Outputs(local.reshape(*local.shape[:2], *y.shape), last.reshape(y.shape), kept, "cpu")


def numbers_held(samples: int, d: int, dtype: str) -> float:
    """The number of numbers of `dtype` that a client's `Room` holds for each neuron; a pattern counts as one byte."""
    return samples / np.dtype(dtype).itemsize + (d if in_weight_space(samples, d) else 2 * samples)


def _fitting(x: np.ndarray, setup: Setup, kept: int, memory: float | None, tracked: bool) -> tuple[float, int]:
    """The largest share of entries (see `switch_tracking`) with which rounds use `SwitchTracking`, and the number of
    clients that are trained together.
    """
    n_clients, samples, d = x.shape
    space = (n_clients, numbers_held(samples, d, x.dtype.name), d, setup.width, x.itemsize, kept)
    tracked = tracked and samples <= setup.width  # so that Gram matrices take little of the memory
    share = worthwhile_share(samples, d, setup.local_steps, x.itemsize) if tracked else 0.0
    if memory is None or share <= 0:
        return share, clients_at_once(*space, memory)
    always, client_bytes = bytes_held(x, setup.width)
    entries = (memory - always) / 4
    try:
        return min(share, entries / client_bytes), clients_at_once(*space, memory - always - entries)
    except ValueError:
        return 0.0, clients_at_once(*space, memory)


class Group(NamedTuple):
    """Clients that are trained together: their samples (c g, d), labels (c g,) and, if needed, their Gram matrices."""

    rows: np.ndarray
    labels: np.ndarray
    grams: np.ndarray


class Room(NamedTuple):
    """Arrays for the training of one group; the next group overwrites them.

    on: activation patterns.
    change: the change D of the weights, or coefficients C with D = C^T X, where X holds the client's samples.
    start: pre-activations of the global network, used only if the run keeps such coefficients in place of D.
    """

    on: np.ndarray
    change: np.ndarray
    start: np.ndarray


class ClientProducts:
    """Training by groups of clients that all have the same number of samples.

    The weights are read from the network, and the changes of the weights are added to the network's `total`. At most
    `fit` clients are trained together. If there is a group for each thread and all these groups fit, each thread trains
    a group; otherwise the threads share the neurons of one group.
    """

    def __init__(
        self,
        network: DealtNetwork,
        x: np.ndarray,
        y: np.ndarray,
        linearised: bool,
        fit: int,
        pool: Executor,
        threads: int,
    ) -> None:
        self.network, self.linearised, self.pool, self.clients = network, linearised, pool, (x, y)
        self.by_weights = in_weight_space(*x.shape[1:])
        self.first = network.weights.copy() if linearised else network.weights
        self.size = 1 if self.by_weights else min(fit, max(1, ROWS // x.shape[1]))
        self.at_once = threads if threads <= -(-len(x) // self.size) and threads * self.size <= fit else 1
        chunks, step = len(network.weights), max(1, PIECE // (self.size * x.shape[1] * LANES * x.itemsize))
        self.pieces = [slice(begin, min(begin + step, chunks)) for begin in range(0, chunks, step)]

    # Large arrays and compiled functions are made in the first round that is run by products.

    @cached_property
    def groups(self) -> list[Group]:
        """The clients in groups, with Gram matrices if changes are kept as coefficients."""
        x, y = in_groups(*self.clients, self.size)
        grams = np.empty((len(x), 0, 0, 0), x.dtype) if self.by_weights else x @ x.swapaxes(2, 3)
        return [Group(x[g].reshape(-1, x.shape[3]), y[g].ravel(), grams[g]) for g in range(len(x))]

    @cached_property
    def rooms(self) -> list[Room]:
        """One `Room` for each of the groups that are trained together."""
        (samples, d), dtype = self.groups[0].rows.shape, self.clients[0].dtype
        change, start = (d, 0) if self.by_weights else (samples, samples)
        held, chunks = ((samples, np.dtype(bool)), (change, dtype), (start, dtype)), len(self.network.weights)
        return [Room(*(np.empty((chunks, rows, LANES), kind) for rows, kind in held)) for _ in range(self.at_once)]

    @cached_property
    def passes(self) -> Passes:
        """The compiled functions."""
        return passes(self.clients[0].dtype.name)

    def train(self, eta_local: float, outputs: Float[np.ndarray, "k n"]) -> None:
        """Fill in the outputs, before and after each local step, and add up the changes of the weights."""
        prepared = np.empty((len(outputs), len(self.groups), len(self.groups[0].labels)), outputs.dtype)
        rate = self.network.scale.dtype.type(eta_local) * self.network.scale
        mapped: Callable[..., Iterable] = self.pool.map if self.at_once > 1 else map
        for first in range(0, len(self.groups), self.at_once):
            some = range(first, min(first + self.at_once, len(self.groups)))
            list(mapped(lambda room, g: self._train(room, self.groups[g], rate, prepared[:, g]), self.rooms, some))
            if len(outputs) > 1:
                list(self.pool.map(lambda piece: self._add(some, piece), self.pieces))  # noqa: B023
        outputs[:] = prepared.reshape(len(outputs), -1)[:, : outputs.shape[1]]

    def _train(self, room: Room, group: Group, rate: np.floating, outputs: np.ndarray) -> None:
        mapped: Callable[..., Iterable] = map if len(self.rooms) > 1 else self.pool.map
        pull = np.zeros_like(group.labels)
        for k in range(len(outputs)):
            sums = mapped(lambda piece: self._step(room, group, pull, k, piece), self.pieces)  # noqa: B023
            with np.errstate(over="ignore", invalid="ignore"):  # the threads do not inherit this setting
                outputs[k] = sum(sums) * self.network.scale
                pull = rate * (group.labels - outputs[k])

    def _step(self, room: Room, group: Group, pull: np.ndarray, k: int, piece: slice) -> np.ndarray:
        """Make the k-th local step for some chunks (no step if k = 0), and return the sums s_r relu(z_ir) after it, (c
        g,).
        """
        u, signs = self.network.weights[piece], self.network.signs[piece]
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
        """Add the changes that the groups with these numbers have left in their rooms."""
        with np.errstate(over="ignore", invalid="ignore"):
            for room, g in zip(self.rooms, some, strict=False):
                change = room.change[piece]
                self.network.total[piece] += change if self.by_weights else self.groups[g].rows.T @ change
