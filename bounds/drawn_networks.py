"""Initial networks that many cases share: families on the same seeds differ in their steps, not in their networks."""

from functools import lru_cache

from ntkfl.initialisation import draw
from ntkfl.problem import Weights

SHARED = 2**19  # most hidden weights of a network that is kept, 4 MiB
KEPT = 64  # number of networks that are kept, enough for two families of data


def drawn_network(width: int, d: int, seed: int, sigma: float = 1.0) -> Weights:
    """The network of `ntkfl.initialisation.draw`, drawn once for all cases of a seed; a shared network is read-only."""
    return (_shared if width * d <= SHARED else draw)(width, d, seed, sigma)


@lru_cache(maxsize=KEPT)
def _shared(width: int, d: int, seed: int, sigma: float) -> Weights:
    network = draw(width, d, seed, sigma)
    for part in network:
        part.flags.writeable = False
    return network
