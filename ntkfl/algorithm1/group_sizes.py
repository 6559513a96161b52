"""How many clients train together and in which space of `client_groups` they train, and the outputs of a run without
movements.
"""

from typing import NamedTuple

import numpy as np

from ntkfl.memory import require
from ntkfl.problem import Problem


def padded_samples(problem: Problem) -> int:
    """N c, the number of samples if every client had as many as the largest client."""
    return problem.n_clients * int(np.bincount(problem.owner).max())


def neurons_bytes(samples: int, d: int, width: int, kept: int = 0) -> int:
    """Bytes of all neurons at once, with the record of movements.

    There are nine arrays (N c, m), and the weights at the start and at the rounds to keep.
    """
    return 8 * width * (9 * samples + (2 + kept) * d)


def grouped_bytes(largest: int, d: int, width: int) -> float:
    """The smallest number of bytes that a run without movements takes.

    Such a run computes client by client, and takes the memory of four networks and one client.
    """
    return 8 * width * (4 * d + largest / 8 + min(d, 2 * largest))


def record_bytes(samples: int, rounds: int, local_steps: int) -> int:
    """Bytes of three copies of the outputs of every round and local step.

    One copy is in the padded order, one in the order of the data, and one is intermediate.
    """
    return 24 * samples * (rounds + 1) * (local_steps + 2)


class Outputs(NamedTuple):
    """The outputs of a run of N clients with c samples each.

    local: every sample's output by its own client's model, before and after each local step, (T, K+1, N, c).
    last: every sample's output by the global model at the end, (N, c).
    kept: the hidden weights at the rounds to keep, (rounds, m, d).
    device: the device on which the run was made.
    """

    local: np.ndarray
    last: np.ndarray
    kept: np.ndarray
    device: str


def in_weight_space(samples: int, d: int) -> bool:
    """Whether a client trains faster in weight space than in pre-activation space.

    Weight space takes fewer operations from 2 d samples on, and less time from 4 d samples on.
    """
    return samples >= 4 * d


def clients_at_once(
    n_clients: int, per_client: float, d: int, width: int, itemsize: int, kept: int = 0, memory: float | None = None
) -> int:
    """The number of clients whose arrays fit in memory, besides four numbers for each weight of the global network.

    Raises:
        ValueError: one client alone does not fit.
    """
    if memory is None:
        return n_clients
    hint = "smaller clients, fewer kept rounds, dtype='float32' or several devices need less"
    require("the run", lambda width: width * itemsize * ((4 + kept) * d + per_client), memory, hint, width=width)
    always, client_bytes = width * itemsize * (4 + kept) * d, width * itemsize * per_client
    return min(n_clients, int((memory - always) // client_bytes))


def numbers_held(samples: int, d: int) -> int:
    """The largest number of numbers that XLA holds for a neuron and a client, as measured.

    XLA holds four numbers for each sample and, in weight space, d numbers for the change of the weights.
    """
    return 4 * samples + (d if in_weight_space(samples, d) else 0)


def in_groups(x: np.ndarray, y: np.ndarray, size: int) -> tuple[np.ndarray, np.ndarray]:
    """The clients in groups, (groups, size, c, d) and (groups, size, c).

    The last group is filled up with clients of zero rows, which change nothing.
    """
    missing = ((0, -len(x) % size), (0, 0))
    x, y = np.pad(x, (*missing, (0, 0))), np.pad(y, missing)
    return x.reshape(-1, size, *x.shape[1:]), y.reshape(-1, size, y.shape[1])
