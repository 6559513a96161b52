"""How many clients are trained together, in which space, and what a run without movements leaves behind."""

from typing import NamedTuple

import numpy as np

from ntkfl.memory import require


class Outputs(NamedTuple):
    """What a run of N clients with c samples each leaves behind.

    local: every sample's output by its own client's model, before and after each local step, (T, K+1, N, c). last: by
    the global model at the end, (N, c). kept: hidden weights at the rounds asked for, (rounds, m, d). device: where.
    """

    local: np.ndarray
    last: np.ndarray
    kept: np.ndarray
    device: str


def in_weight_space(samples: int, d: int) -> bool:
    """Whether a client of so many samples is faster in weight space: by operations from 2 d on, by the clock later."""
    return samples >= 4 * d


def clients_at_once(
    n_clients: int, per_client: float, d: int, width: int, itemsize: int, kept: int = 0, memory: float | None = None
) -> int:
    """The number of clients whose arrays fit, beside four numbers for each weight of the global network.

    Raises:
        ValueError: one client alone does not fit.
    """
    if memory is None:
        return n_clients
    hint = "smaller clients, fewer kept rounds, dtype='float32' or several devices need less"
    require("the run", lambda width: width * itemsize * ((4 + kept) * d + per_client), memory, hint, width=width)
    always, one = width * itemsize * (4 + kept) * d, width * itemsize * per_client
    return min(n_clients, int((memory - always) // one))


def numbers_held(samples: int, d: int) -> int:
    """How many numbers for a neuron XLA was measured to hold at most for a client: four a sample, and its change."""
    return 4 * samples + (d if in_weight_space(samples, d) else 0)


def in_groups(x: np.ndarray, y: np.ndarray, size: int) -> tuple[np.ndarray, np.ndarray]:
    """The clients by groups, (groups, size, c, d) and (groups, size, c).

    The last group is filled up with clients of zero rows, which do nothing.
    """
    missing = ((0, -len(x) % size), (0, 0))
    x, y = np.pad(x, (*missing, (0, 0))), np.pad(y, missing)
    return x.reshape(-1, size, *x.shape[1:]), y.reshape(-1, size, y.shape[1])
