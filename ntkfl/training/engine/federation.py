"""The round of federated training: draw a cohort, train groups of clients, average their uploads, step the server."""

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np
import torch
from torch import Tensor

from ntkfl import interruption
from ntkfl.messages import require_size
from ntkfl.training.engine.local_plan import LocalPlan, LocalWork, cohort, local_plan
from ntkfl.training.engine.local_training import LocalTraining, Watch, by_products
from ntkfl.training.federated_data import FederatedData
from ntkfl.training.method import Method, Round, Weighting
from ntkfl.training.model import Model
from ntkfl.training.optimizers import SGD, Optimizer, squared_norms
from ntkfl.training.schedules import Schedule
from ntkfl.training.tree import Params, Tree, flatten, one_a_row, row_of, tree_map, unflatten

ON_A_DEVICE = 2**30  # largest number of bytes of a group of clients on a device other than a CPU


class Limits(NamedTuple):
    """Limits within which a CPU trains clients faster together than one after the other."""

    group: int  # largest number of bytes of a group of clients, so that they stay in a processor's last cache
    client: int  # largest number of bytes of one client's step
    weights: int  # largest number of bytes of one client's weights
    fewest: int  # smallest number of clients in a group


MAPPED, BY_PRODUCTS = Limits(2**24, 2**20, 3 * 2**18, 4), Limits(2**26, 2**23, 2**23, 2)


def clients_at_once(
    params: Params, shape: tuple[int, ...], batch: int, device: torch.device, clients: int, products: bool = False
) -> int:
    """The number of clients in a group, which are trained together; 1 if a loop over clients is faster.

    All groups have nearly the same size.

    Training a group by one vmap saves the overhead of each client's step, but the parameters and activations of all its
    clients pass through memory together. On a CPU the clients of a convolutional model are trained one by one, since
    vmap turns their convolutions into grouped ones. `products` says whether batched matrix products over all clients
    replace vmap. Such products cost less than vmap. The limits were measured on one thread (docs/performance.md), not
    on more threads. The limit for devices other than CPUs was not measured.
    """
    convolves = any(value.ndim == 4 for value in params.values())
    on_cpu = device.type == "cpu"
    if convolves and on_cpu:
        return 1
    features = math.prod(shape)
    # A weight (out, in) makes `out` activations of a sample. A convolution makes at most `out` for each pixel of the
    # input.
    pixels = math.prod(shape[1:]) if convolves else 1
    made = sum(value.shape[0] * (pixels if value.ndim == 4 else 1) for value in params.values() if value.ndim)
    size = next(iter(params.values())).element_size()
    weights = sum(value.numel() for value in params.values()) * size
    a_client = weights + batch * (features + made) * size
    limits = BY_PRODUCTS if products else MAPPED
    most = min(max(1, (limits.group if on_cpu else ON_A_DEVICE) // a_client), clients)
    if on_cpu and (a_client > limits.client or weights > limits.weights or most < limits.fewest):
        return 1
    return -(-clients // -(-clients // most))


WHOLE = LocalWork(batch_size=None, steps=1)


@dataclass(frozen=True, eq=False)
class State:
    """The state between two rounds: the number of rounds done, the server's state, and the states of all clients.

    Args:
        clients: trees whose tensors have a row for each client, on the CPU; {} if clients keep no state. The rows of
            clients that have not taken part are zero and are not used.
        has_trained: whether each client has been in a cohort before, (clients,).
    """

    rounds: int
    server: Tree
    clients: Tree
    has_trained: Tensor

    @property
    def model(self) -> Params:
        """The global model, which is broadcast and evaluated."""
        return self.server["model"]


@dataclass(frozen=True, eq=False)
class RoundResult:
    """The state after a round, and what was measured in the round for each client of the cohort."""

    state: State
    cohort: list[int]  # the clients that took part
    steps: np.ndarray  # number of local steps of each client
    # |Delta_i|^2 of each client, where Delta_i is its model after local training less the broadcast model
    squared_drift: np.ndarray
    # the clients' models after local training, a row for each client of the cohort; None unless `keep_ends` was set
    ends: Params | None = None
    records: Sequence[Tree] = ()  # if `Federation.watch` is given: for each client its records, a row for each step
    # if `watch` is given: the server's weighted mean of Delta_i, or the sum of Delta_i if clients train in turn
    move: Params | None = None


@dataclass(frozen=True, eq=False)
class Federation:
    """All parts of a run except its state. A round is a pure function of the state.

    Args:
        model: the model that is trained.
        method: the method, with its objective, gradient rule, local rule and server rule.
        optimizer: the optimizer of the clients' steps.
        schedule: the schedule of the step sizes.
        work: the clients' local steps.
        data: the data, on the device and, except for classes, in the dtype of the training.
        participation: share of the clients in each round.
        seed: the seed of cohorts, of the orders of batches, and of the random numbers that methods draw.
        at_once: the number of clients trained together by one vmap; with 1 they are trained in a loop. Only rounding
            errors depend on this number. None: `clients_at_once` decides.
        keep_optimizer: whether momenta and Adam's moments stay with a client from round to round.
        watch: (parameters, batch) of one client -> a record. `watch` is called after each step, and the records are
            kept in `RoundResult.records`. `watch` must not change its arguments. None: nothing is recorded.

    Raises:
        ValueError: data, model or optimizer lack what the method needs: classes, a model with a head, sgd. Or
            `work.steps` has entries for another number of clients; or the optimizer has factors for its steps together
            with keep_optimizer; or it has factors for parameters while the method computes gradients from
            displacements.
    """

    model: Model
    data: FederatedData
    method: Method
    schedule: Schedule
    optimizer: Optimizer = field(default_factory=SGD)
    work: LocalWork = field(default_factory=LocalWork)
    participation: float = 1.0
    seed: int = 0
    at_once: int | None = None
    keep_optimizer: bool = False
    watch: Watch | None = None

    def __post_init__(self) -> None:
        if "classes" in self.method.needs and self.data.classes is None:
            raise ValueError(f"{self.method.name} needs classes; the labels of {self.data.name} are real numbers")
        if "split" in self.method.needs and not self.model.head_names:
            raise ValueError(f"{self.method.name} needs a model with a head of its own; {self.model.name} has none")
        if "sgd" in self.method.needs and not isinstance(self.optimizer, SGD):
            raise ValueError(
                f"{self.method.name} computes mean gradients from the clients' displacements, which sgd allows and "
                f"{type(self.optimizer).__name__} does not: take sgd, or an option without such gradients"
            )
        if "sgd" in self.method.needs and isinstance(self.optimizer, SGD) and self.optimizer.of:
            raise ValueError(
                f"{self.method.name} computes mean gradients from the clients' displacements, which is not possible if "
                "parameters have steps of their own: leave `of` of sgd out"
            )
        if isinstance(self.work.steps, tuple) and len(self.work.steps) != self.data.clients:
            raise ValueError(f"steps names {len(self.work.steps)} clients; there are {self.data.clients}")
        if self.keep_optimizer and isinstance(self.optimizer, SGD) and self.optimizer.factors:
            raise ValueError("the factors of sgd's steps begin anew in each round; leave keep_optimizer out")
        require_size("at_once", self.at_once, optional=True)

    @cached_property
    def _members(self) -> list[np.ndarray]:
        return self.data.members()

    @cached_property
    def _counts(self) -> np.ndarray:
        return self.data.class_counts()

    def start(self, params: Params | None = None) -> State:
        """The state before the first round.

        Args:
            params: the parameters by name; default: those of the model for `seed`.
        """
        params = self.model.initial(self.seed) if params is None else params
        has_trained = torch.zeros(self.data.clients, dtype=torch.bool)
        server = self.method.server
        return State(0, server.prepared(server.initial(params), self.model, self.data), {}, has_trained)

    def states(self, params: Params | None = None) -> Iterator[State]:
        """The states after 0, 1, 2, ... rounds, without end.

        Args:
            params: the parameters by name; default: those of the model for `seed`.

        Raises:
            FloatingPointError: as `round`.
        """
        state = self.start(params)
        while True:
            interruption.check()
            yield state
            state = self.round(state).state

    def round(self, state: State, keep_ends: bool = False) -> RoundResult:
        """Run one round.

        Args:
            state: the state before the round.
            keep_ends: whether the clients' own models are in the result, default no.

        Raises:
            FloatingPointError: the model is no longer finite; the message names the round.
        """
        number, population = state.rounds, self.data.clients
        clients = cohort(population, self.participation, self.seed, number)
        rate, server = self.schedule(number), state.server
        store, has_trained = tree_map(torch.clone, state.clients), state.has_trained.clone()
        steps, drift, ends, records, move = [], [], [], [], None
        for turn in self._turns(clients):
            at_once = self.together(state.model, len(turn))
            now = Round(number, len(turn), population, rate)
            broadcast, shares = self.method.server.broadcast(server, number), self._shares(turn)
            means: Tree = {}
            for first in range(0, len(turn), at_once):
                group = turn[first : first + at_once]
                plan = self._plan(group, self.work.at(number), number)
                whole = self._plan(group, WHOLE, number) if self.method.local.needs_full_gradient else None
                counts = torch.as_tensor(self._counts[group]).to(next(iter(state.model.values())))
                kept = self._kept(state, group, broadcast)
                training = LocalTraining(self.model, self.method, self.optimizer, self.data, at_once > 1, self.watch)
                result = training.run(plan, whole, counts, broadcast, kept["rule"], kept.get("optimizer"), now)
                for name, upload in result.uploads.items():
                    share = shares[self.method.weighting_of.get(name, self.method.weighting)][first:]
                    means[name] = _accumulated(means.get(name), upload, share)
                keeps = {"rule": result.kept} | ({"optimizer": result.optimizer} if self.keep_optimizer else {})
                store = _scattered(store, keeps, group, population)
                has_trained[group] = True
                taken = plan.active.sum(axis=1).tolist()
                steps += taken
                drift += squared_norms(result.difference).tolist()
                if self.watch is not None:
                    weighting = self.method.weighting_of.get("difference", self.method.weighting)
                    move = _accumulated(move, result.difference, shares[weighting][first:])
                    for row, count in enumerate(taken):
                        records.append(tree_map(lambda rows, row=row, count=count: rows[row, :count], result.records))
                if keep_ends:
                    ends.append(result.end)
            server = self.method.server.step(server, means, now)
            for name, value in server["model"].items():
                # The sum takes one pass and no memory. Since the sum of finite numbers may overflow, the numbers
                # themselves are tested if the sum is not finite.
                if not value.sum().isfinite() and not torch.isfinite(value).all():
                    raise FloatingPointError(
                        f"round {number}: the weights {name!r} are no longer finite; the local rate {rate:g} is too "
                        "large"
                    )
        together = {name: torch.cat([end[name] for end in ends]) for name in state.model} if keep_ends else None
        after = State(number + 1, server, store, has_trained)
        return RoundResult(after, clients, np.array(steps), np.array(drift), together, records, move)

    def _turns(self, clients: list[int]) -> list[list[int]]:
        """Lists of clients that train at the same time: one list, or a list for each client if they train in turn.

        Raises:
            ValueError: no client of the cohort has a sample.
        """
        if not any(len(self._members[client]) for client in clients):
            raise ValueError("no client of the cohort has a sample; a round needs one")
        return [[client] for client in clients] if self.method.in_turn else [clients]

    def together(self, params: Params, clients: int) -> int:
        """The number of clients that are trained together, at most `clients`.

        Args:
            params: parameters by name.
            clients: number of clients that train at the same time.
        """
        if self.at_once is not None:
            return min(self.at_once, clients)
        largest = max(map(len, self._members))
        batch = min(largest, self.work.batch_size or largest)
        shape, products = tuple(self.data.x.shape[1:]), by_products(self.model, self.method.objective)
        return clients_at_once(params, shape, batch, self.data.x.device, clients, products)

    def own_models(self, state: State, clients: list[int]) -> Params:
        """The models of these clients, a row for each.

        A client's model is the model that it keeps or, if the method keeps none, the broadcast model.

        Args:
            state: the state, as `start` or `round` gives it.
            clients: their numbers, from 0.
        """
        broadcast = self.method.server.broadcast(state.server, state.rounds)
        kept = self._kept(state, clients, broadcast)["rule"]
        own = [self.method.local.start(row_of(kept, row), broadcast) for row in range(len(clients))]
        return {name: torch.stack([params[name] for params in own]) for name in broadcast["model"]}

    def _plan(self, group: list[int], work: LocalWork, number: int) -> LocalPlan:
        return local_plan(self._members, group, work, self.seed, number, self.method.draws)

    def _shares(self, clients: list[int]) -> dict[Weighting, np.ndarray]:
        sizes = np.array([len(self._members[c]) for c in clients], float)
        total = sizes.sum() or 1.0  # avoids 0 / 0 if a client without samples trains alone; its Delta_i is 0
        return {"size": sizes / total, "uniform": np.full(len(clients), 1 / len(clients))}

    def _kept(self, state: State, group: list[int], broadcast: Tree) -> Tree:
        """The states of these clients, a row for each.

        A client that is drawn for the first time gets an initial state.
        """
        fresh: Tree = {"rule": tree_map(lambda v: v[None], self.method.local.initial(self.model, broadcast))}
        if self.keep_optimizer:
            fresh["optimizer"] = self.optimizer.initial(tree_map(lambda w: w[None], broadcast["model"]))
        in_a_cohort_before = state.has_trained[group]

        def rows(new: Tensor, old: Tensor | None) -> Tensor:
            new = new.expand(len(group), *new.shape[1:])
            if old is None:
                return new
            return torch.where(one_a_row(in_a_cohort_before.to(new.device), new), old[group].to(new.device), new)

        stored = flatten(state.clients)
        kept = unflatten({path: rows(new, stored.get(path)) for path, new in flatten(fresh).items()})
        return {"rule": {}} | kept


def _accumulated(total: Any, upload: Any, shares: np.ndarray) -> Any:
    """Returns total + the sum of shares times rows of the upload.

    Rows are added one by one, so that the result is the same for every grouping of the clients.
    """
    if isinstance(upload, Tensor):
        result = total
        for row, share in zip(upload, shares.tolist(), strict=False):
            result = row * share if result is None else result.add_(row, alpha=share)
        return result
    return {key: _accumulated(None if total is None else total[key], value, shares) for key, value in upload.items()}


def _scattered(store: Tree, rows: Tree, group: list[int], population: int) -> Tree:
    """The store, changed in place, with the new rows of these clients."""
    flat = flatten(store)
    for path, value in flatten(rows).items():
        if path not in flat:
            flat[path] = torch.zeros(population, *value.shape[1:], dtype=value.dtype)
        flat[path][group] = value.detach().to("cpu")
    return unflatten(flat)
