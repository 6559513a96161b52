"""FedAvgM (Hsu et al. 2019): FedAvg with momentum at the server."""

from __future__ import annotations

from dataclasses import dataclass

import torch

from ntkfl.limit.linear_round import Blocks, LinearRound, heavy_ball
from ntkfl.training.method import Average, Method, Objective, Round, moved
from ntkfl.training.tree import Params, Tree, tree_map

NAME = "fedavgm"


def method(objective: Objective, *, momentum: float = 0.9, nesterov: bool = False, server_rate: float = 1.0) -> Method:
    """v <- momentum v + sum_i p_i Delta_i, then w <- w + server_rate v, p_i proportional to the sample counts.

    Args:
        objective: of the clients. momentum: of the server, in [0, 1); 0 is FedAvg. server_rate: of its step.
        nesterov: w <- w + server_rate (sum_i p_i Delta_i + momentum v) instead; the clients get that w, the point that
            the step extrapolates to.

    Raises:
        ValueError: a momentum outside [0, 1), a server rate that is not positive.

    Source: Hsu, Qi, Brown 2019, "Measuring the effects of non-identical data distribution".
    """
    return Method(NAME, objective, server=Momentum(server_rate, momentum, nesterov))


@dataclass(frozen=True)
class Momentum(Average):
    """Keeps v, "momentum", a sum of differences in which older ones fade."""

    momentum: float = 0.9
    nesterov: bool = False
    moments = ("momentum",)

    def __post_init__(self) -> None:
        super().__post_init__()
        if not 0 <= self.momentum < 1:
            raise ValueError(f"momentum is {self.momentum:g}; it must lie in [0, 1)")

    def initial(self, params: Params) -> Tree:
        return {"model": params, "momentum": tree_map(torch.zeros_like, params)}

    def step(self, state: Tree, means: Tree, now: Round) -> Tree:
        mean = means["difference"]
        velocity = moved(mean, state["momentum"], self.momentum)
        direction = moved(mean, velocity, self.momentum) if self.nesterov else velocity
        return super().step(state, {"difference": direction}, now) | {"momentum": velocity}


def linear(method: Method, blocks: Blocks) -> LinearRound:
    """FedAvg's map followed by the server's recursion. Source: the note on further methods, A."""
    server, response = method.server, blocks.shares(method.weighting) * blocks.response()
    assert isinstance(server, Momentum)
    return heavy_ball(blocks, response, server.server_rate, server.momentum, server.nesterov)
