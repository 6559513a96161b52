"""A method's round in the kernel regime: the linear map that its module brings, or that of the engine's round."""

import math
from collections.abc import Mapping
from typing import Any

import numpy as np
import torch
from torch import Tensor

from ntkfl.limit.linear_round import Blocks, LinearRound, Memory, Vectors
from ntkfl.memory import require
from ntkfl.training.engine.federation import Federation, State
from ntkfl.training.engine.local_plan import LocalWork
from ntkfl.training.federated_data import FederatedData
from ntkfl.training.method import Method
from ntkfl.training.methods import build, catalogue, module_of
from ntkfl.training.model import Model
from ntkfl.training.objectives import HalfSquares
from ntkfl.training.optimizers import SGD
from ntkfl.training.schedules import Exponential
from ntkfl.training.tree import flatten, unflatten

WEIGHTS = "w"
MODEL = f"server/model/{WEIGHTS}"
LINEAR = 1e-10  # relative difference of a round from a linear map, from which on it is none
SCALES = (1.0, 1e3)  # at which that is looked at


def linear_round(name: str, blocks: Blocks, momentum: float, options: Mapping[str, Any]) -> LinearRound:
    """One round of a method on full batches of all clients and the sum of squares, as an exact linear map.

    A method's module may bring it, as `linear(method, blocks) -> LinearRound`, or say in NOT_LINEAR why there is none.
    Of any other the engine's round is differentiated.

    Args:
        name: of the method, or a file of yours. blocks: the data and the local steps.
        momentum: of the clients' steps, begun anew in every round; with it the engine's round is differentiated.
        options: of the method.

    Raises:
        ValueError: as `ntkfl.training.methods.build`; a momentum outside [0, 1); the method has no linear map, and why.
    """
    module = module_of(name)
    if hasattr(module, "NOT_LINEAR"):
        there = ", ".join(known for known, other in catalogue().items() if not hasattr(other, "NOT_LINEAR"))
        raise ValueError(
            f"{module.NAME} has no exact linear limit: {module.NOT_LINEAR}. The methods that have one are {there}"
        )
    method = build(name, HalfSquares("sum"), **options)
    if hasattr(module, "linear") and not momentum:
        return module.linear(method, blocks)
    return differentiated(method, blocks, momentum)


def differentiated(method: Method, blocks: Blocks, momentum: float = 0.0) -> LinearRound:
    """The linear map of the engine's round, found by running it from every unit vector of its state at once.

    The engine trains a linear model whose Gram matrix is H, with one output for each unit vector of the state and of
    the labels: server and clients are linear maps of these, so that one round gives all columns. Two more rounds, from
    random states, tell whether it is linear. Labels matter where H is singular; elsewhere weights of 0 are those that
    fit them.

    Args:
        method: to be run. blocks: the data and the local steps. momentum: of the clients' steps.

    Raises:
        ValueError: a method that draws random numbers, keeps what is no vector of weights, changes what it keeps from
            round to round, or is not linear in these states.
    """
    if method.draws:
        raise ValueError(f"{method.name} has no linear limit with these options: its local steps draw random numbers")
    try:
        run = _Run(method, blocks, momentum)
        n, parts = len(blocks.gram), run.parts
        require("the state map", lambda n: 8 * 8 * (n * (parts + 1)) ** 2, n=n)
        columns = run(np.eye(n * (parts + 1)))
        _check(run, columns)
    except FloatingPointError as error:
        raise ValueError(f"{method.name} has no linear limit with these options: {error}") from None
    inputs = np.concatenate([-run.inverse, np.eye(n) - run.features @ run.inverse])  # weights and labels, of r
    first = columns[:, np.r_[:n, -n:0]] @ inputs  # of r, without memory
    into, out, kept = _least(first[n:], columns[:n, n:-n], columns[n:, n:-n])
    move, felt = run.inverse.T @ (first[:n] + run.inverse), run.inverse.T @ out

    def step(residual: Vectors, memory: Memory) -> tuple[Vectors, Memory]:
        if not memory:
            return move @ residual, ()
        return move @ residual + felt @ memory[0], (into @ residual + kept @ memory[0],)

    return LinearRound(step, int(len(kept) > 0), len(kept) or None, pull=float("nan"))


def _least(into: np.ndarray, out: np.ndarray, kept: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Maps from and to a memory, of which only that is kept which is reached from none and then felt.

    Args:
        into: to memory (s, n). out: from memory (n, s). kept: of memory itself (s, s).
    """
    reached = _reached(kept, into)
    out, into, kept = out @ reached, reached.T @ into, reached.T @ kept @ reached
    felt = _reached(kept.T, out.T)
    return felt.T @ into, out @ felt, felt.T @ kept @ felt


def _reached(matrix: np.ndarray, start: np.ndarray) -> np.ndarray:
    """An orthonormal basis of the span of start, matrix start, matrix^2 start, ..."""
    basis, latest = np.zeros((len(matrix), 0)), start
    size = max(np.linalg.norm(start), np.linalg.norm(matrix) if matrix.size else 0.0)
    while latest.shape[1]:
        latest = latest - basis @ (basis.T @ latest)
        left, values, _ = np.linalg.svd(latest, full_matrices=False)
        latest = left[:, values > LINEAR * size]
        basis = np.concatenate([basis, latest], axis=1)
        latest = matrix @ latest
    return basis


class _Run:
    """A round of the engine: each column is one output of a linear model.

    It takes (n (parts + 1), C), weights first and labels last, to weights and memory after the round, (n parts, C).

    `features`: Phi (n, n), H = Phi Phi^T. `inverse`: the pseudo-inverse of Phi. `places`: path and leading shape of
    each leaf of the state that holds vectors of weights, of which there are `parts`. `still`: the other leaves, which
    are the same after every round.

    Args:
        method, blocks, momentum: as in `differentiated`.
    """

    def __init__(self, method: Method, blocks: Blocks, momentum: float) -> None:
        self.method, self.blocks, self.momentum = method, blocks, momentum
        values, vectors = np.linalg.eigh(blocks.gram)
        kept = values > len(values) * np.finfo(float).eps * values[-1]
        root = np.sqrt(np.where(kept, values, 0))
        self.features = vectors * root
        self.inverse = (vectors * np.where(kept, 1 / np.where(kept, root, 1), 0)).T
        federation = self._federation(np.zeros((len(values), 1)))
        first = federation.round(federation.start()).state
        leaves, later = _leaves(first), _leaves(federation.round(first).state)
        places: dict[str, tuple[int, ...]] = {}
        self.still: dict[str, Tensor] = {}
        for path, leaf in leaves.items():
            if leaf.shape != later[path].shape:
                raise ValueError(
                    f"{method.name} has no linear limit with these options: what it keeps as {path!r} grows from "
                    f"{tuple(leaf.shape)} to {tuple(later[path].shape)} in the first rounds"
                )
            if leaf.is_floating_point() and leaf.shape[-2:] == (len(values), 1):
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

    def __call__(self, states: np.ndarray) -> np.ndarray:
        n, outputs = len(self.features), states.shape[1]
        federation = self._federation(states[-n:])
        tree, at = dict(self.still), 0
        for path, shape in self.places.items():
            size = n * math.prod(shape)
            tree[path] = torch.tensor(states[at : at + size].reshape(*shape, n, outputs))
            at += size
        nested = unflatten(tree)
        seen = torch.ones(federation.data.clients, dtype=torch.bool)
        after = _leaves(federation.round(State(1, nested["server"], nested.get("clients", {}), seen)).state)
        return np.concatenate([after[path].reshape(-1, outputs).numpy() for path in self.places])

    def _federation(self, labels: np.ndarray) -> Federation:
        owner = np.empty(len(self.features), int)
        for client, owned in enumerate(self.blocks.clients.members):
            owner[owned] = client
        clients = len(self.blocks.clients.members)
        zeros = torch.zeros(len(self.features), labels.shape[1], dtype=torch.float64)
        return Federation(
            Model(
                "linear",
                lambda seed: {WEIGHTS: zeros},
                lambda params, x: x,
                lambda params, z: z @ params[WEIGHTS],
            ),
            FederatedData(torch.tensor(self.features), torch.tensor(labels), owner, clients),
            self.method,
            Exponential(self.blocks.eta_local),
            SGD(self.momentum, factors=self.blocks.factors),
            work=LocalWork(batch_size=None, steps=self.blocks.client_steps or self.blocks.steps),
            at_once=clients,
        )


def _check(run: _Run, columns: np.ndarray) -> None:
    """Refuse a round that is no linear map of random states."""
    rng = np.random.default_rng(0)
    for scale in SCALES:
        state = scale * rng.standard_normal((columns.shape[1], 1))
        found, linear = run(state), columns @ state
        size = np.abs(columns) @ np.abs(state)
        if np.abs(found - linear).max() > LINEAR * size.max():
            raise ValueError(
                f"{run.method.name} has no linear limit with these options: from a random state its round differs by "
                f"{np.abs(found - linear).max() / size.max():.2g} of its size from the linear map"
            )


def _leaves(state: State) -> dict[str, Tensor]:
    return flatten({"server": state.server, "clients": state.clients})
