"""Computes the linear map of the engine's round in the kernel regime, for methods whose map has no formula.

Notation: H is the Gram matrix of all n samples. The features of the samples are the rows of Phi, so H = Phi Phi^T. A
model that is linear in its weights has weights Phi^T w and outputs H w, where w has a coefficient for each sample. The
residual is r = y - H w with labels y. The state of a round is the weights and the memory, which is every other vector
of weights that the server or a client keeps (a momentum, a control variate). A state is stored as coefficients.
"""

import math
from itertools import product

import numpy as np
import torch
from torch import Tensor

from ntkfl import interruption
from ntkfl.limit.linear_round import Blocks, LinearRound, Memory, Vectors
from ntkfl.memory import require
from ntkfl.training.engine.federation import Federation, State
from ntkfl.training.engine.local_plan import LocalWork
from ntkfl.training.federated_data import FederatedData
from ntkfl.training.method import Method
from ntkfl.training.model import Model
from ntkfl.training.optimizers import SGD
from ntkfl.training.schedules import Exponential
from ntkfl.training.tree import flatten, unflatten

WEIGHTS = "w"
MODEL = f"server/model/{WEIGHTS}"
LINEAR = 1e-10  # largest difference that is allowed between a round and its linear map, relative to the round's size
# the error of each vector is compared with the larger of two sizes: the vector's own size, and LEAST times the size of
# the largest vector, since the rounding of the largest vector enters all others
LEAST = 1e-4
SCALES = (1.0, 1e3)  # sizes of the random states at which a round is compared with its linear map


def differentiated(method: Method, blocks: Blocks, momentum: float = 0.0) -> LinearRound:
    """The linear map of the engine's round, found by one run from all unit vectors of the state at once.

    The engine trains a model whose weights are the coefficients w: its outputs are H w, and the gradient of an output
    is defined as the unit vector of its sample. The model has an output for each unit vector of the state and of the
    labels, so that one round gives all columns of the map. The columns are accurate even if H is nearly singular, since
    H is neither decomposed nor inverted.

    Four more runs test whether the method is linear and depends on the weights only through outputs and gradients. They
    start from random states of an ordinary linear model with the Gram matrix H. Each of them has as many rounds as the
    state has leaves (tensors of weights, of the server or of the clients).

    Raises:
        ValueError: the method draws random numbers, keeps a changing state that is no vector of weights, changes the
            shape of its state from round to round, or is not linear in its state.
    """
    if method.draws:
        raise ValueError(f"{method.name} has no linear limit with these options: its local steps draw random numbers")
    try:
        run = EngineRound(method, blocks, momentum)
        n, parts = len(blocks.gram), run.parts
        require_map(method.name, n, parts)
        states = np.eye(n * (parts + 1))
        # For a unit vector of the weights w the labels are H w, so that the residual is exactly 0 and steps have no
        # rounding errors.
        states[-n:, :n] = blocks.gram
        columns = run(states)
        _check(run, columns)
    except FloatingPointError as error:
        raise ValueError(f"{method.name} has no linear limit with these options: {error}") from None
    by_residual, kept = columns[:, -n:], columns[:, :-n].copy()
    weights = kept[:, :n]  # derivative of the result by w at a fixed residual r; the labels r + H w change with w
    size = np.abs(weights) + np.abs(by_residual) @ np.abs(blocks.gram)
    weights[:n] -= np.eye(n)
    weights[np.abs(weights) <= LINEAR * size] = 0
    first = 0 if weights.any() else n
    into, out = by_residual[first:], kept[:n, first:].copy()
    weights[:n] += np.eye(n)
    into, out, kept = _least(*_in_units(into, out, kept[first:, first:], n))
    move = by_residual[:n]

    def step(residual: Vectors, memory: Memory) -> tuple[Vectors, Memory]:
        if not memory:
            return move @ residual, ()
        return move @ residual + out @ memory[0], (into @ residual + kept @ memory[0],)

    return LinearRound(step, int(len(kept) > 0), len(kept) or None, pull=float("nan"))


def require_map(name: str, n: int, vectors: int) -> None:
    """Refuse to differentiate a round if the columns of its map do not fit into the machine's memory.

    Raises:
        TooLittleMemory: as `ntkfl.memory.require`.
    """
    what = f"the matrix of {name}'s round, for which there is no formula,"
    require(what, lambda n: 8 * 8 * (n * (vectors + 1)) ** 2, n=n)


def _in_units(into: np.ndarray, out: np.ndarray, kept: np.ndarray, n: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """The maps `into`, `out` and `kept`, with each vector of the state's memory divided by its size in `_units`."""
    sizes = _units(into, n)
    return into / sizes[:, None], out * sizes, kept / sizes[:, None] * sizes


def _units(into: np.ndarray, n: int) -> np.ndarray:
    """The size of each memory vector after a round from a residual of size 1. Each size is repeated n times."""
    return np.repeat([np.linalg.norm(part) or 1.0 for part in into.reshape(-1, n, n)], n)


def _least(into: np.ndarray, out: np.ndarray, kept: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """The maps `into`, `out` and `kept`, restricted to some directions of the memory.

    These are the directions that a round can change and that affect a later round.
    """
    reached = _reached(kept, into)
    out, into, kept = out @ reached, reached.T @ into, reached.T @ kept @ reached
    felt = _reached(kept.T, out.T)
    return felt.T @ into, out @ felt, felt.T @ kept @ felt


def _reached(matrix: np.ndarray, start: np.ndarray) -> np.ndarray:
    """An orthonormal basis of the span of start, matrix start, matrix^2 start, ...

    Parts of a relative size of at most LINEAR are dropped. Every pass of the loop but the last adds a vector. So the
    loop has at most as many passes as the matrix has rows.
    """
    basis, latest, size = np.zeros((len(matrix), 0)), start, np.linalg.norm(start)
    while latest.shape[1] and (room := len(matrix) - basis.shape[1]):
        interruption.check()
        left, values, _ = np.linalg.svd(latest - basis @ (basis.T @ latest), full_matrices=False)
        latest = left[:, :room][:, values[:room] > LINEAR * size]
        # a small remainder must be made orthogonal once more
        latest, _ = np.linalg.qr(latest - basis @ (basis.T @ latest))
        basis = np.concatenate([basis, latest], axis=1)
        latest, size = matrix @ latest, np.linalg.norm(matrix)
    return basis


class EngineRound:
    """A round of the engine on a linear model with C outputs, which are trained side by side.

    A call maps an array (n (parts + 1), C), with the weights, the memory and the labels in this order, to an array (n
    parts, C), with the weights and the memory after the round.

    `places` has the path of each leaf of the state that holds vectors of weights, and the leaf's leading shape. `parts`
    is the number of these vectors. `still` has the other leaves, which no round changes.
    """

    def __init__(self, method: Method, blocks: Blocks, momentum: float) -> None:
        self.method, self.blocks, self.momentum = method, blocks, momentum
        n = len(blocks.gram)
        federation = self._federation(np.zeros((n, 1)), None)
        first = federation.round(federation.start()).state
        leaves, later = _leaves(first), _leaves(federation.round(first).state)
        places: dict[str, tuple[int, ...]] = {}
        self.still: dict[str, Tensor] = {}
        for path, leaf in leaves.items():
            if leaf.shape != later[path].shape:
                raise ValueError(
                    f"{method.name} has no linear limit with these options: what it keeps as {path!r} grows from "
                    f"{leaf.numel() / n:g} to {later[path].numel() / n:g} numbers a sample in the first rounds"
                )
            if leaf.is_floating_point() and leaf.shape[-2:] == (n, 1):
                places[path] = tuple(leaf.shape[:-2])
            elif torch.equal(leaf, later[path]):
                self.still[path] = leaf
            else:
                raise ValueError(
                    f"{method.name} has no linear limit with these options: it keeps {path!r}, of shape "
                    f"{tuple(leaf.shape)}, which is no vector of weights"
                )
        self.places = {MODEL: places.pop(MODEL)} | places
        self.parts = sum(map(math.prod, self.places.values()))

    def __call__(self, states: np.ndarray, features: np.ndarray | None = None) -> np.ndarray:
        """The weights and the memory after a round.

        Vectors of weights are coefficients of the samples or, if `features` are given, weights of the linear model with
        these features.
        """
        n, outputs = len(self.blocks.gram), states.shape[1]
        federation = self._federation(states[-n:], features)
        tree, at = dict(self.still), 0
        for path, shape in self.places.items():
            size = n * math.prod(shape)
            tree[path] = torch.tensor(states[at : at + size].reshape(*shape, n, outputs))
            at += size
        nested = unflatten(tree)
        has_trained = torch.ones(federation.data.clients, dtype=torch.bool)
        after = _leaves(federation.round(State(1, nested["server"], nested.get("clients", {}), has_trained)).state)
        return np.concatenate([after[path].reshape(-1, outputs).numpy() for path in self.places])

    def _federation(self, labels: np.ndarray, features: np.ndarray | None) -> Federation:
        n = len(labels)
        owner = np.empty(n, int)
        for client, owned in enumerate(self.blocks.clients.members):
            owner[owned] = client
        clients = len(self.blocks.clients.members)
        zeros = torch.zeros(n, labels.shape[1], dtype=torch.float64)
        inputs = np.concatenate([self.blocks.gram, np.eye(n)], axis=1) if features is None else features
        return Federation(
            Model(
                "linear",
                lambda seed: {WEIGHTS: zeros},
                lambda params, x: x,
                lambda params, z: _of_coefficients(params[WEIGHTS], z) if features is None else z @ params[WEIGHTS],
            ),
            FederatedData(torch.tensor(inputs), torch.tensor(labels), owner, clients),
            self.method,
            Exponential(self.blocks.eta_local),
            SGD(self.momentum, factors=self.blocks.factors),
            work=LocalWork(batch_size=None, steps=self.blocks.client_steps or self.blocks.steps),
            at_once=clients,
        )


def _of_coefficients(weights: Tensor, z: Tensor) -> Tensor:
    """H w as a function whose gradient, for the output of a sample, is the sample's unit vector.

    Each row of `z` is for one sample. The row of `z` has the sample's row of H and, after that, the sample's unit
    vector.
    """
    row, unit = z.chunk(2, dim=-1)
    return (row @ weights).detach() + unit @ (weights - weights.detach())


def _check(run: EngineRound, columns: np.ndarray) -> None:
    """Refuse a round if it differs from its linear map on random states.

    A round differs from its linear map if the round is not linear, or depends on the weights in other ways than through
    outputs and gradients.
    """
    rng, n, gram = np.random.default_rng(0), len(run.blocks.gram), run.blocks.gram
    values, vectors = np.linalg.eigh(gram)
    features, units = vectors * np.sqrt(np.maximum(values, 0)), _units(columns[n:, -n:], n)

    def weights(coefficients: np.ndarray) -> np.ndarray:
        return np.tensordot(features, coefficients.reshape(-1, n), axes=(0, 1)).T.reshape(-1, 1)

    for scale, fitted in product(SCALES, (False, True)):
        state = scale * rng.standard_normal((columns.shape[1], 1))
        state[n:-n] *= units[:, None]  # the vectors of the memory are scaled
        if fitted:
            state[n:] = 0  # large weights with residual 0, at which steps have no rounding errors
        else:
            # the weights get the size of a step, since a proximal term would add rounding errors of the size of the
            # weights
            state[:n] *= run.blocks.eta_local
        labels, moved, size = state[-n:] + gram @ state[:n], weights(state[:-n]), np.abs(state)
        size[-n:] += np.abs(gram) @ size[:n]
        for _ in run.places:  # if a round is not linear in a small vector, this may show only in later rounds
            moved = run(np.concatenate([moved, labels]), features)
            state, size = columns @ state, np.abs(columns) @ size
            off = np.abs(moved - weights(state)).reshape(-1, n).max(axis=1)  # error of each vector
            sizes = size.reshape(-1, n).max(axis=1) * np.abs(features).max()
            allowed = np.maximum(sizes, LEAST * sizes.max())
            if (off > LINEAR * allowed).any():
                raise ValueError(
                    f"{run.method.name} has no linear limit with these options: from a random state its rounds differ "
                    f"by {np.max(off / allowed):.2g} of their size from the linear map"
                )
            state = np.concatenate([state, labels - gram @ state[:n]])
            size = np.concatenate([size, np.abs(labels) + np.abs(gram) @ size[:n]])


def _leaves(state: State) -> dict[str, Tensor]:
    return flatten({"server": state.server, "clients": state.clients})
