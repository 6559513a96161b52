"""What clients and server see on the way, recorded by rules around those of a method, which is not changed by it."""

from __future__ import annotations

from dataclasses import replace

import torch
from torch import Tensor
from torch.nn.functional import pad

from ntkfl.training.federated_data import FederatedData
from ntkfl.training.method import Batch, Finish, LocalRule, Method, Relocation, Round, ServerRule, Step
from ntkfl.training.model import Model
from ntkfl.training.tree import Params, Tree, one_a_row

WATCHED = "watched"  # the records' place beside what the method's own rule keeps; outputs, longest, taken


def watched(
    method: Method, local_steps: int, widest: int, rows: str | None = None, outputs: tuple[int, ...] = ()
) -> Method:
    """The same method; every client keeps records of its round under WATCHED, the server the clients' mean move.

    A client's records are "outputs" (local_steps, widest[, C]), f on its own samples after each step, and, where `rows`
    names a matrix of parameters, "longest" (local_steps,), the largest norm of its rows then. The server's state has
    under WATCHED the mean of the clients' differences.

    Args:
        method: to watch. local_steps: of a round. rows: name of the matrix, or None.
        widest: samples of the largest client. Steps are full-batch, so that the samples are in their own order.
        outputs: (C,) of a network with several outputs, () of one.

    Raises:
        ValueError: a method whose clients train in turn.
    """
    if method.in_turn:
        raise ValueError(f"{method.name} makes a model for every client in turn; what is watched is one mean a round")
    local = WatchedLocal(method.local, local_steps, widest, rows, outputs)
    return replace(method, local=local, server=WatchedServer(method.server))


class WatchedLocal(LocalRule):
    """A local rule, and a record of each step."""

    def __init__(
        self, rule: LocalRule, local_steps: int, widest: int, rows: str | None, outputs: tuple[int, ...] = ()
    ) -> None:
        self.rule, self.local_steps, self.widest, self.rows, self.outputs = rule, local_steps, widest, rows, outputs
        self.needs_full_gradient, self.pull = rule.needs_full_gradient, rule.pull

    def initial(self, model: Model, broadcast: Tree) -> Tree:
        some = next(iter(broadcast["model"].values()))
        records = {"outputs": some.new_zeros(self.local_steps, self.widest, *self.outputs), "taken": some.new_zeros(())}
        if self.rows is not None:
            records["longest"] = some.new_zeros(self.local_steps)
        return self.rule.initial(model, broadcast) | {WATCHED: records}

    def start(self, kept: Tree, broadcast: Tree) -> Params:
        return self.rule.start(kept, broadcast)

    def begin(self, kept: Tree, broadcast: Tree, full_gradient: Params) -> Tree:
        fresh = kept[WATCHED] | {"taken": torch.zeros_like(kept[WATCHED]["taken"])}
        return self.rule.begin(kept, broadcast, full_gradient) | {WATCHED: fresh}

    def correct(self, gradient: Params, params: Params, step: Step) -> Params:
        return self.rule.correct(gradient, params, step)

    def after_step(self, model: Model, before: Params, params: Params, batch: Batch, step: Step) -> tuple[Params, Tree]:
        params, client = self.rule.after_step(model, before, params, batch, step)
        records = step.client[WATCHED]
        here = torch.arange(self.local_steps, device=batch.real.device) == records["taken"]
        outputs = model.outputs(params, batch.x)
        padded = pad(outputs, (0, 0) * len(self.outputs) + (0, self.widest - len(outputs)))  # the last axis first
        seen = {"outputs": torch.where(one_a_row(here, records["outputs"]), padded, records["outputs"])}
        if self.rows is not None:
            seen["longest"] = torch.where(here, longest_row(params[self.rows]), records["longest"])
        return params, client | {WATCHED: seen | {"taken": records["taken"] + 1}}

    def relocation(self, model: Model, x: Tensor, end: Params, broadcast: Tree, now: Round) -> Relocation | None:
        return self.rule.relocation(model, x, end, broadcast, now)

    def finish(self, client: Tree, broadcast: Tree, end: Finish) -> tuple[Tree, Tree]:
        uploads, kept = self.rule.finish(client, broadcast, end)
        sent = {} if "difference" in uploads else {WATCHED: end.difference}  # FedNova sends a direction instead
        return uploads | sent, kept | {WATCHED: client[WATCHED]}


class WatchedServer(ServerRule):
    """A server rule, and the mean of the last round's differences."""

    def __init__(self, rule: ServerRule) -> None:
        self.rule = rule
        self.moments, self.takes_differences = rule.moments, rule.takes_differences

    def initial(self, params: Params) -> Tree:
        return self.rule.initial(params)

    def prepared(self, state: Tree, model: Model, data: FederatedData) -> Tree:
        return self.rule.prepared(state, model, data)

    def broadcast(self, state: Tree, number: int) -> Tree:
        return self.rule.broadcast(_unwatched(state), number)

    def step(self, state: Tree, means: Tree, now: Round) -> Tree:
        mean = means["difference"] if WATCHED not in means else means[WATCHED]
        return self.rule.step(_unwatched(state), _unwatched(means), now) | {WATCHED: mean}


def _unwatched(tree: Tree) -> Tree:
    return {name: part for name, part in tree.items() if name != WATCHED}


def longest_row(matrix: Tensor) -> Tensor:
    """The largest Euclidean norm of a row."""
    return (matrix * matrix).sum(1).max().sqrt()
