"""Initial weights, drawn chunk by chunk from a counter-based key.

Chunk i of CHUNK neurons depends on (seed, i, d) only. So a network can be drawn in blocks of any size and never be
held, and the first m neurons of a wider network are the network of width m.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial

import jax
import numpy as np

from ntkfl.problem import Weights

CHUNK = 1024  # neurons drawn from one key; changing it changes every network
COMPILED = (4, 16, 64)  # values a neuron for which the draw is compiled; a d between them takes the first of the next


def draw(width: int, d: int, seed: int, sigma: float = 1.0) -> Weights:
    """The initial network of a seed: hidden (width, d) ~ N(0, sigma^2), signs (width,) uniform on +-1, float64.

    Raises:
        ValueError: width or d not a positive integer, sigma not positive, seed outside 0..2^63-1.
    """
    hidden, signs = zip(*blocks(width, d, seed, sigma), strict=True)
    return Weights(np.concatenate(hidden), np.concatenate(signs))


def blocks(width: int, d: int, seed: int, sigma: float = 1.0, block: int = 16) -> Iterator[Weights]:
    """The network of `draw` in consecutive pieces of block * CHUNK neurons (the last may be shorter).

    Only one piece is ever held; the numbers do not depend on `block`.

    Raises:
        ValueError: as `draw`, or block not a positive integer. Raised by the call, before the first piece.
    """
    for name, value in (("width", width), ("d", d), ("block", block)):
        if not isinstance(value, int | np.integer) or isinstance(value, bool) or value < 1:
            raise ValueError(f"{name} is {value!r}; it must be a positive integer")
    if not isinstance(seed, int | np.integer) or isinstance(seed, bool) or not 0 <= seed < 2**63:
        raise ValueError(f"seed is {seed!r}; it must be an integer from 0 to 2^63 - 1")
    if not (np.isfinite(sigma) and sigma > 0):
        raise ValueError(f"sigma is {sigma!r}; it must be a positive finite number")
    return _blocks(width, d, int(seed), sigma, block)


def _blocks(width: int, d: int, seed: int, sigma: float, block: int) -> Iterator[Weights]:
    key = jax.random.key(seed, impl="threefry2x32")
    for start in range(0, width, block * CHUNK):
        stop = min(start + block * CHUNK, width)
        hidden, signs = np.empty((stop - start, d)), np.empty(stop - start)
        # One chunk a call, not a vmap over chunks: another compiled shape may round erfinv differently, and the
        # numbers must not depend on the block size.
        for first in range(start, stop, CHUNK):
            here = slice(first - start, min(first - start + CHUNK, stop - start))
            values, drawn = _chunk(key, first // CHUNK, next((size for size in COMPILED if size >= d), d))
            rows = here.stop - here.start
            hidden[here], signs[here] = np.asarray(values)[: rows * d].reshape(rows, d), np.asarray(drawn)[:rows]
        hidden *= sigma
        yield Weights(hidden, signs)


@partial(jax.jit, static_argnums=2)
def _chunk(key: jax.Array, index: int, size: int) -> tuple[jax.Array, jax.Array]:
    """CHUNK * size normal values and CHUNK signs; a value depends on its place only, not on how many there are."""
    of_hidden, of_signs = jax.random.split(jax.random.fold_in(key, index))
    hidden = jax.random.normal(of_hidden, (CHUNK * size,), dtype=np.float64)
    return hidden, jax.random.rademacher(of_signs, (CHUNK,), dtype=np.float64)
