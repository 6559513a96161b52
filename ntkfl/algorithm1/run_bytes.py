"""The memory of a run of Algorithm 1, in bytes."""

import numpy as np

from ntkfl.problem import Problem


def padded_samples(problem: Problem) -> int:
    """N c: samples when each client has as many as the largest."""
    return problem.n_clients * int(np.bincount(problem.owner).max())


def neurons_bytes(samples: int, d: int, width: int, kept: int = 0) -> int:
    """All neurons at once, with the record of movements: nine arrays (N c, m), the weights at the start and kept."""
    return 8 * width * (9 * samples + (2 + kept) * d)


def grouped_bytes(largest: int, d: int, width: int) -> float:
    """The least that a run without movements takes, client by client: four networks and one client."""
    return 8 * width * (4 * d + largest / 8 + min(d, 2 * largest))


def record_bytes(samples: int, rounds: int, local_steps: int) -> int:
    """Three copies of the outputs of every round and local step: padded, in the order of the data, and in between."""
    return 24 * samples * (rounds + 1) * (local_steps + 2)
