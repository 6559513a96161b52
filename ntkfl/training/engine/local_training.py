"""Local training of several clients at once: parameters stacked on a leading axis, one row a client."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
import torch
from torch import Tensor
from torch.func import vmap

from ntkfl.training.engine.local_plan import LocalPlan
from ntkfl.training.federated_data import FederatedData
from ntkfl.training.method import (
    Batch,
    Finish,
    GradientRule,
    LocalRule,
    Method,
    Objective,
    Round,
    Step,
    plain_gradient,
)
from ntkfl.training.model import Model
from ntkfl.training.objectives import HalfSquares
from ntkfl.training.optimizers import Optimizer
from ntkfl.training.tree import Params, Tree, leaves, one_a_row, row_of, tree_map

STEP_AXES = Step(None, 0, 0, 0, 0, None)  # type: ignore[arg-type]  # the parts of a Step with one row for each client


Watch = Callable[[Params, Batch], Tree]  # (parameters after a client's step, its batch) -> a record


class LocalResult(NamedTuple):
    """The result of local training, with a row for each client: uploads, kept states, last models, Delta_i.

    Delta_i is the last model less the broadcast model. `records` has a record of each step, (clients, steps, ...); it
    is {} if nothing is recorded.
    """

    uploads: Tree
    kept: Tree
    optimizer: Tree
    end: Params
    difference: Params
    records: Tree


class Batches:
    """The batches of some clients in a round, a row for each client. Indices of samples are copied to the device once.

    `alone` says that the plan has one client. Then batches are not padded to the length of the longest batch.
    """

    def __init__(self, data: FederatedData, plan: LocalPlan, dtype: torch.dtype, alone: bool) -> None:
        self.data, device = data, data.x.device
        self.index = torch.as_tensor(plan.index, device=device)
        self.real = torch.as_tensor(plan.real, device=device, dtype=dtype)
        _, steps, longest = plan.real.shape
        self.places = plan.real[0].sum(axis=1).tolist() if alone else [longest] * steps

    def at(self, step: int) -> Batch:
        """The batches of all clients in step `step`, from 0."""
        places = slice(self.places[step])
        index = self.index[:, step, places]
        return Batch(self.data.x[index], self.data.y[index], self.real[:, step, places])


@dataclass(frozen=True, eq=False)
class LocalTraining:
    """The local part of a round.

    If `mapped`, vmap runs over the clients. Otherwise there is one client, and functions get tensors without the axis
    of clients.
    """

    model: Model
    method: Method
    optimizer: Optimizer
    data: FederatedData
    mapped: bool
    watch: Watch | None = None

    def run(
        self,
        plan: LocalPlan,
        whole: LocalPlan | None,
        counts: Tensor,
        broadcast: Tree,
        kept: Tree,
        optimizer_state: Tree | None,
        now: Round,
    ) -> LocalResult:
        """Train the clients of the plan from the broadcast model.

        `whole` is the plan of one step on all samples of each client, for local rules that need the full gradient. If
        `optimizer_state` is None, the optimizers begin anew.
        """
        (clients, steps), rate = plan.active.shape, now.rate
        local, device, dtype = self.method.local, self.data.x.device, leaves(broadcast["model"])[0].dtype
        if type(local).start is LocalRule.start:  # for the default `start` a copy is enough; vmap would cost more
            params = tree_map(lambda w: w.expand(clients, *w.shape).clone(), broadcast["model"])
        else:
            params = tree_map(torch.clone, self._each(local.start, (0, None), clients)(kept, broadcast))
        state = self.optimizer.initial(params) if optimizer_state is None else tree_map(torch.clone, optimizer_state)
        draws = torch.as_tensor(plan.draws, device=device, dtype=dtype)
        active_rows, ends = (torch.as_tensor(a, device=device) for a in (plan.active, plan.ends_epoch))

        def gradient(objective: Objective, rule: GradientRule, correct: bool = True) -> Callable[..., Params]:
            def loss(w: Params, data: Batch, step: Step) -> Tensor:
                return objective(self.model, w, data, step)

            def by_rule(w: Params, data: Batch, step: Step) -> Params:
                gradients, _ = rule(lambda w: loss(w, data, step), w)
                return gradients

            if rule is plain_gradient and self.mapped:
                of_rows = _gradient_of(self._losses(objective) or self._each(loss, (0, 0, STEP_AXES), clients))
            # the derivative is taken with respect to the row itself; with respect to the stack, the derivative would
            # take two more passes
            elif rule is plain_gradient:
                of_rows = self._each(_gradient_of(loss), (0, 0, STEP_AXES), clients)
            else:
                of_rows = self._each(by_rule, (0, 0, STEP_AXES), clients)
            if not correct or type(local).correct is LocalRule.correct:
                return of_rows
            corrected = self._each(local.correct, (0, 0, STEP_AXES), clients)
            return lambda params, *given: corrected(of_rows(params, *given), params, given[-1])

        def after_step(before: Params, w: Params, data: Batch, step: Step) -> tuple[Params, Tree]:
            return local.after_step(self.model, before, w, data, step)

        def finish(
            carried: Tree, sent: Tree, end: Params, moved: Params, tau: Tensor, a: Tensor, own: Tensor
        ) -> tuple[Tree, Tree]:
            return local.finish(carried, sent, Finish(sent["model"], end, moved, tau, a, own, rate))

        full: Params = {}
        if whole is not None and not whole.active.any():
            full = tree_map(torch.zeros_like, params)
        elif whole is not None:
            nothing = torch.zeros(clients, 0, device=device)
            step = Step(broadcast, kept, counts, nothing, nothing, rate)
            full = gradient(self.method.objective, self.method.gradient, correct=False)(
                params, Batches(self.data, whole, dtype, not self.mapped).at(0), step
            )
        client = kept
        if type(local).begin is not LocalRule.begin:
            client = self._each(local.begin, (0, None, 0), clients)(kept, broadcast, full)
        further = self.method.further_gradient or self.method.gradient
        directions = [gradient(self.method.objective, self.method.gradient)]
        directions += [gradient(objective, further) for objective in self.method.further_steps(broadcast)]
        follows = type(local).after_step is not LocalRule.after_step
        follow = self._each(after_step, (0, 0, 0, STEP_AXES), clients)
        batches, batch = Batches(self.data, plan, dtype, not self.mapped), None
        everyone = np.all(plan.active, axis=0)
        records: list[Tree] = []
        for s in range(steps):
            if batch is None or not plan.same_batch:
                batch = batches.at(s)
            active = None if everyone[s] else active_rows[:, s]
            step = Step(broadcast, client, counts, draws[:, s], ends[:, s], rate)
            before = tree_map(torch.clone, params) if follows else params
            for direction in directions:
                self.optimizer.step(params, direction(params, batch, step), state, rate, active)
            if follows:
                stepped, carried = follow(before, params, batch, step)
                params, client = _chosen(active, stepped, params), _chosen(active, carried, client)
            if self.watch is not None:
                watched = self._each(self.watch, (0, 0), clients)(params, batch)
                # a copy, since the next step changes parameters in place
                records.append(tree_map(torch.clone, watched))
        if type(local).relocation is not LocalRule.relocation:
            self._relocate(params, state, broadcast, now)
        taken = torch.as_tensor(plan.active.sum(axis=1), device=device, dtype=dtype)
        moved = tree_map(torch.sub, params, broadcast["model"])
        uploads, kept = {"difference": moved}, client
        if type(local).finish is not LocalRule.finish:
            info = moved, taken, self.optimizer.coefficient(taken, rate * local.pull), counts
            uploads, kept = self._each(finish, (0, None, 0, 0, 0, 0, 0), clients)(client, broadcast, params, *info)
        stacked = tree_map(lambda *steps: torch.stack(steps, dim=1), *records) if records else {}
        return LocalResult(uploads, kept, state, params, moved, stacked)

    def _relocate(self, params: Params, optimizer_state: Tree, broadcast: Tree, now: Round) -> None:
        """Apply the local rule's `relocation` in place to each client's model.

        The map is also applied to the parts of the optimizer's state that have the keys of the model.
        """
        alike = [part for part in optimizer_state.values() if isinstance(part, dict) and part.keys() == params.keys()]
        for row in range(len(leaves(params)[0])):
            relocation = self.method.local.relocation(self.model, self.data.x[:1], row_of(params, row), broadcast, now)
            if relocation is None:
                continue
            for rows in (params, *alike):
                for name, value in relocation(row_of(rows, row)).items():
                    rows[name][row] = value

    def _losses(self, objective: Objective) -> Callable[..., Tensor] | None:
        """Every client's loss, by batched products over all clients; None if model or objective do not allow them."""
        if not by_products(self.model, objective):
            return None
        return lambda params, batch, step: objective.of_rows(self.model.outputs, params, batch)  # type: ignore[attr-defined]

    def _each(self, function: Callable, axes: tuple[Any, ...], clients: int) -> Callable:
        """The function of one client, mapped over axis 0 of the arguments marked 0 in `axes`.

        Other arguments are shared.
        """
        if self.mapped:
            # vmap needs at least one argument with rows
            numbers = torch.arange(clients, device=self.data.x.device)
            mapped = vmap(lambda _, *arguments: function(*arguments), in_dims=(0, *axes))
            return lambda *arguments: mapped(numbers, *arguments)

        def alone(*arguments: Any) -> Any:
            return _lifted(function(*map(_first, arguments, axes)))

        return alone


def by_products(model: Model, objective: Objective) -> bool:
    """Whether the clients' losses are computed by batched products over all clients, without vmap."""
    return model.stacks and type(objective) is HalfSquares  # a subclass may define another loss


def _gradient_of(losses: Callable[..., Tensor]) -> Callable[..., Params]:
    """The gradient of every row's loss, as `plain_gradient` gives it for each row, but without torch.func.grad.

    A row's loss does not depend on other rows, so one backward pass of the sum is enough. torch.func.grad costs more
    than the whole step of a small model, and loads torch._dynamo.
    """

    def gradient(params: Params, *given: Any) -> Params:
        with torch.enable_grad():
            own = {name: value.detach().requires_grad_() for name, value in params.items()}
            total = losses(own, *given).sum()
        return dict(zip(own, torch.autograd.grad(total, list(own.values()), materialize_grads=True), strict=True))

    return gradient


def _first(value: Any, axis: Any) -> Any:
    """Row 0 of every tensor for which `axis` has 0, as vmap would take it. Values for which it has None stay whole."""
    if axis is None:
        return value
    if isinstance(value, Tensor):
        return value[0]
    if isinstance(value, dict):
        return {key: _first(part, 0) for key, part in value.items()}
    axes = axis if isinstance(axis, tuple) else (axis,) * len(value)
    return type(value)(*map(_first, value, axes))  # named tuples


def _lifted(value: Any) -> Any:
    """The same dict or tuple, with a leading axis of length 1 for every tensor."""
    if isinstance(value, Tensor):
        return value[None]
    if isinstance(value, dict):
        return {key: _lifted(part) for key, part in value.items()}
    return tuple(map(_lifted, value))


def _chosen(active: Tensor | None, new: Tree, old: Tree) -> Tree:
    """The new rows of clients that took the step, and the old rows of the others."""
    if active is None:
        return new
    return tree_map(lambda n, o: torch.where(one_a_row(active, n), n, o), new, old)
