"""Initial networks that are shared by several families of cases.

Families with the same seeds differ in their step sizes, but not in their networks.
"""

from functools import lru_cache

from ntkfl.initialisation import draw
from ntkfl.problem import Weights

SHARED = 2**19  # a network with more hidden weights than this (4 MiB) is not kept
KEPT = 64  # number of networks that are kept, enough for two families of data


def drawn_network(width: int, d: int, seed: int, sigma: float = 1.0) -> Weights:
    """The network of `ntkfl.initialisation.draw`, drawn once for all cases of a seed.

    A network that is kept is read-only.
    """
    return (_shared if width * d <= SHARED else draw)(width, d, seed, sigma)


@lru_cache(maxsize=KEPT)
def _shared(width: int, d: int, seed: int, sigma: float) -> Weights:
    network = draw(width, d, seed, sigma)
    for part in network:
        part.flags.writeable = False
    return network
