"""Feature shift between clients: each client has one domain, with images unchanged, turned, inverted or blurred."""

import numpy as np
import torch
from torch import Tensor
from torch.nn import functional

from ntkfl.partition import assign_owners, generator

STREAM = 3  # stream of the seed that decides the domain of a sample


def _blurred(x: Tensor) -> Tensor:
    return functional.avg_pool2d(functional.pad(x, (1, 1, 1, 1), mode="replicate"), 3, stride=1)


DOMAINS = {
    "plain": lambda x: x,
    "turned": lambda x: x.rot90(1, (-2, -1)),
    "inverted": lambda x: 1 - x,
    "blurred": _blurred,
}


def deal(count: int, seed: int, part: int) -> np.ndarray:
    """The domain of each of `count` samples, at random, with equal numbers as far as possible.

    Part 0, for training, and part 1, for tests, have separate streams of random numbers.
    """
    return generator(seed, STREAM + part).permutation(np.arange(count) % len(DOMAINS))


def shifted(x: Tensor, domain: np.ndarray) -> Tensor:
    """Square images with pixels in [0, 1], (n, c, h, h), each changed as its domain requires.

    Raises:
        ValueError: images that are not square cannot be turned.
    """
    if x.shape[-1] != x.shape[-2]:
        raise ValueError(
            f"domains turn images by a right angle; images of {x.shape[-2]} x {x.shape[-1]} are not square"
        )
    result = torch.empty_like(x)
    for number, change in enumerate(DOMAINS.values()):
        rows = torch.as_tensor(domain == number)
        result[rows] = change(x[rows])
    return result


def owners(kind: str, y: np.ndarray, domain: np.ndarray, clients: int, seed: int) -> np.ndarray:
    """The owner of each sample: clients c, c + D, ... share the samples of domain c of D by the partition `kind`.

    Raises:
        ValueError: fewer clients than domains, or as `ntkfl.partition.assign_owners`.
    """
    if clients < len(DOMAINS):
        raise ValueError(f"{clients} clients cannot have one of {len(DOMAINS)} domains each; at least {len(DOMAINS)}")
    owner = np.empty(len(y), int)
    for number in range(len(DOMAINS)):
        rows, its = np.flatnonzero(domain == number), np.arange(number, clients, len(DOMAINS))
        # a seed for each domain: with the same seed, clients of different domains would get similar classes
        owner[rows] = its[assign_owners(kind, y[rows], len(its), len(DOMAINS) * seed + number)]
    return owner
