"""SCAFFOLD (Karimireddy et al. 2020): control variates correct the drift of local steps."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

import torch

from ntkfl.training.method import Average, Finish, LocalRule, Method, Objective, Round, Step, moved
from ntkfl.training.model import Model
from ntkfl.training.tree import Params, Tree, tree_map

NAME = "scaffold"


def method(objective: Objective, *, option: Literal["I", "II"] = "II", server_rate: float = 1.0) -> Method:
    """Clients descend with g_i - c_i + c; the server keeps c, the mean of c_i over all clients.

    Option I: c_i <- grad F_i at the model received, one more pass over the client's samples.
    Option II: c_i <- c_i - c - Delta_i / (a_i rate), a_i the number of steps taken; with momentum the displacement
    that a constant unit gradient would have caused, without which c_i were no mean of gradients. Hence it needs sgd;
    momenta kept from round to round are outside its reach.

    Raises:
        ValueError: a server rate that is not positive.
    """
    needs = frozenset() if option == "I" else frozenset({"sgd"})
    local = ControlVariates(needs_full_gradient=option == "I")
    return Method(NAME, objective, local=local, server=Controlled(server_rate), weighting="uniform", needs=needs)


@dataclass(frozen=True)
class ControlVariates(LocalRule):
    """Keeps c_i, "control"; without a full gradient it follows option II."""

    needs_full_gradient: bool = False

    def initial(self, model: Model, broadcast: Tree) -> Tree:
        return {"control": tree_map(torch.zeros_like, broadcast["model"])}

    def begin(self, kept: Tree, broadcast: Tree, full_gradient: Params) -> Tree:
        return kept | {"full": full_gradient}

    def correct(self, gradient: Params, params: Params, step: Step) -> Params:
        return tree_map(lambda g, own, c: g - own + c, gradient, step.client["control"], step.broadcast["control"])

    def finish(self, client: Tree, broadcast: Tree, end: Finish) -> tuple[Tree, Tree]:
        control = client["full"] if self.needs_full_gradient else _mean_gradient(client["control"], broadcast, end)
        change = tree_map(torch.sub, control, client["control"])
        return {"difference": end.difference, "control": change}, {"control": control}


@dataclass(frozen=True)
class Controlled(Average):
    """FedAvg's step; c <- c + |S|/M times the mean change of the c_i."""

    def initial(self, params: Params) -> Tree:
        return {"model": params, "control": tree_map(torch.zeros_like, params)}

    def step(self, state: Tree, means: Tree, now: Round) -> Tree:
        control = moved(state["control"], means["control"], now.cohort / now.population)
        return super().step(state, means, now) | {"control": control}


def _mean_gradient(own: Params, broadcast: Tree, end: Finish) -> Params:
    """c_i - c - Delta_i / (a_i rate), the mean of the gradients met; c_i where no step was taken."""
    length = end.coefficient * end.rate
    taken = length > 0
    share = 1 / torch.where(taken, length, 1)
    return tree_map(
        lambda c_i, c, d: torch.where(taken, c_i - c - share * d, c_i), own, broadcast["control"], end.difference
    )
