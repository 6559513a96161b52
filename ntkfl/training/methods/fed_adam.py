"""FedAdam (Reddi et al. 2021): the mean difference is a gradient for Adam on the server."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import torch
from torch import Tensor

from ntkfl.training.method import Method, Objective, Round, ServerRule
from ntkfl.training.tree import Params, Tree, tree_map

NAME = "fedadam"
NOT_LINEAR = "its server divides by roots of mean squares, coordinate by coordinate"


def method(
    objective: Objective, *, server_rate: float = 0.01, first: float = 0.9, second: float = 0.99, tau: float = 1e-3
) -> Method:
    """w <- w + server_rate m / (sqrt v + tau), m and v running means of D and D^2, D = sum_i p_i Delta_i.

    No bias correction, m = v = 0 at first. The defaults are those of the IMA paper.

    Args:
        objective: what clients descend. server_rate: of the step on the server. first, second: decays of m and of v.
        tau: added to sqrt v.

    Raises:
        ValueError: a decay `first` or `second` outside [0, 1], a rate or tau that is not positive.
    """
    return Method(NAME, objective, server=Adaptive(mean_of_squares, server_rate, first, second, tau))


def mean_of_squares(v: Tensor, squares: Tensor, share: float) -> Tensor:
    """(1 - share) v + share D^2.

    Args:
        v: the second moment. squares: D^2, of the same shape. share: 1 - second.
    """
    return (1 - share) * v + share * squares


@dataclass(frozen=True)
class Adaptive(ServerRule):
    """Keeps the moments m, "first", and v, "second"; `following` gives the next v from v, D^2 and 1 - second."""

    following: Callable[[Tensor, Tensor, float], Tensor]
    server_rate: float
    first: float
    second: float
    tau: float

    moments = ("first", "second")

    def __post_init__(self) -> None:
        for name in ("first", "second"):
            if not 0 <= getattr(self, name) <= 1:
                raise ValueError(f"{name}, a decay of the server's, is {getattr(self, name):g}; it must lie in [0, 1]")
        for name in ("server_rate", "tau"):
            if not getattr(self, name) > 0:
                raise ValueError(f"{name} is {getattr(self, name):g}; it must be positive")

    def initial(self, params: Params) -> Tree:
        return {
            "model": params,
            "first": tree_map(torch.zeros_like, params),
            "second": tree_map(torch.zeros_like, params),
        }

    def broadcast(self, state: Tree, number: int) -> Tree:
        return {"model": state["model"]}

    def step(self, state: Tree, means: Tree, now: Round) -> Tree:
        difference = means["difference"]
        first = tree_map(lambda m, d: self.first * m + (1 - self.first) * d, state["first"], difference)
        second = tree_map(lambda v, d: self.following(v, d * d, 1 - self.second), state["second"], difference)
        model = tree_map(
            lambda w, m, v: w + self.server_rate * m / (v.sqrt() + self.tau), state["model"], first, second
        )
        return {"model": model, "first": first, "second": second}
