"""Cyclic training (Chang et al. 2018, cyclical weight transfer): the model passes from client to client."""

import numpy as np

from ntkfl.gram.tiles import TILE
from ntkfl.limit.linear_round import Blocks, LinearRound, Memory, Vectors
from ntkfl.training.method import Average, Method, Objective

NAME = "cyclic"


def method(objective: Objective, *, server_rate: float = 1.0) -> Method:
    """For each client of the round, in order: w <- w + server_rate * Delta_i, where the client has trained from this w.

    The clients of a round cannot train at the same time. A round with one client equals a round of FedAvg.

    Args:
        objective: the loss that clients descend.
        server_rate: factor of each client's difference, positive; default 1.

    Raises:
        ValueError: a server rate that is not positive.
    """
    return Method(NAME, objective, server=Average(server_rate), in_turn=True)


def linear(method: Method, blocks: Blocks) -> LinearRound:
    """The residuals r' = prod_c (I - g H E_c P E_c) r after a round, with the first client's factor rightmost.

    H is the Gram matrix of all samples, and H_D its blocks of samples of the same client. P = f_K(H_D) maps residuals
    to displacements of the clients after K local steps. If all these steps have the size eta_l, f_K(q) = eta_l
    sum_{k<K} (1 - eta_l q)^k. g is the server_rate. E_c sets the entries of samples of other clients than c to 0.

    Source: docs/proofs/linear_methods.md#state-maps.
    """
    values = method.options["server_rate"] * blocks.response()

    def step(residual: Vectors, memory: Memory) -> tuple[Vectors, Memory]:
        move = np.zeros_like(residual)
        for owned, basis in zip(blocks.clients.members, blocks.clients.vectors, strict=True):
            some = np.array_split(owned, -(-len(owned) // TILE))  # a few rows at a time, since numpy copies the rows
            met = residual[owned] - np.concatenate([blocks.gram[rows] @ move for rows in some])
            move[owned] = (basis * values[owned]) @ (basis.T @ met)
        return move, ()

    return LinearRound(step, in_turn=values)
