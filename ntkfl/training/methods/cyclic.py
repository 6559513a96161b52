"""Cyclic training (Chang et al. 2018, cyclical weight transfer): the model passes from client to client."""

import numpy as np

from ntkfl.gram.tiles import TILE
from ntkfl.limit.linear_round import Blocks, LinearRound, Memory, Vectors
from ntkfl.training.method import Average, Method, Objective

NAME = "cyclic"


def method(objective: Objective, *, server_rate: float = 1.0) -> Method:
    """For each client of the round, in order: w <- w + server_rate * Delta_i, with Delta_i trained from the current w.

    A round is a pass over its clients, which cannot train at the same time. With one client a round is FedAvg's.

    Args:
        objective: the loss that clients descend.
        server_rate: factor of each client's difference, positive; default 1.

    Raises:
        ValueError: a server rate that is not positive.
    """
    return Method(NAME, objective, server=Average(server_rate), in_turn=True)


def linear(method: Method, blocks: Blocks) -> LinearRound:
    """r' = prod_c (I - g H E_c P E_c) r, the first client's factor rightmost.

    E_c keeps the entries of client c's samples, and P = f_K(H_D).

    Source: docs/proofs/linear_methods.md#state-maps.
    """
    values = method.options["server_rate"] * blocks.response()

    def step(residual: Vectors, memory: Memory) -> tuple[Vectors, Memory]:
        move = np.zeros_like(residual)
        for owned, basis in zip(blocks.clients.members, blocks.clients.vectors, strict=True):
            some = np.array_split(owned, -(-len(owned) // TILE))  # few rows at a time, since numpy copies them
            met = residual[owned] - np.concatenate([blocks.gram[rows] @ move for rows in some])
            move[owned] = (basis * values[owned]) @ (basis.T @ met)
        return move, ()

    return LinearRound(step, in_turn=values)
