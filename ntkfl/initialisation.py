"""Initial weights, drawn chunk by chunk by a generator that computes each number from a key and a counter.

Chunk i has CHUNK neurons and depends on (seed, i, d) only. So a network can be drawn in blocks of any size without
being held whole, and the first m neurons of a wider network are the network of width m.
"""

from collections.abc import Callable, Iterator
from functools import cache, lru_cache
from typing import Any

import numpy as np
from jaxtyping import Float

from ntkfl.memory import require
from ntkfl.messages import require_number, require_seed, require_size
from ntkfl.problem import Weights

CHUNK = 1024  # number of neurons drawn from one key; with another number every network would change
SIZE = 8192  # number of values that one compiled call draws


def draw(width: int, d: int, seed: int, sigma: float = 1.0) -> Weights:
    """The initial network of a seed: hidden (width, d) ~ N(0, sigma^2), signs (width,) uniform on +-1, in float64.

    Raises:
        ValueError: width or d not a positive integer, sigma not positive, seed outside 0..2^63-1, or a network that
            this machine's memory does not hold.
    """
    pieces = blocks(width, d, seed, sigma)
    require("drawing the network", lambda width: drawing_bytes(width, d), width=width)
    hidden, signs = zip(*pieces, strict=True)
    return Weights(np.concatenate(hidden), np.concatenate(signs))


def drawing_bytes(width: int, d: int) -> int:
    """Bytes that `draw` takes for the network and for its pieces, which are held until they are joined."""
    return 16 * width * (d + 1)


def blocks(width: int, d: int, seed: int, sigma: float = 1.0, block: int = 16) -> Iterator[Weights]:
    """Yields the network of `draw` in consecutive pieces of block * CHUNK neurons; the last piece may be shorter.

    Only one piece is ever held, and the numbers do not depend on `block`.

    Raises:
        ValueError: as `draw`, or block not a positive integer. The error is raised by the call, before the first piece.
    """
    for name, value in (("width", width), ("d", d), ("block", block)):
        require_size(name, value)
    require_seed(seed)
    require_number("sigma", sigma, "be a positive finite number")
    return _blocks(width, d, int(seed), sigma, block)


def _blocks(width: int, d: int, seed: int, sigma: float, block: int) -> Iterator[Weights]:
    key = np.array([[seed >> 32], [seed & 0xFFFFFFFF]], np.uint32)
    places = np.arange(CHUNK, dtype=np.uint32)
    for start in range(0, width, block * CHUNK):
        stop = min(start + block * CHUNK, width)
        of_chunk = _threefry(key, np.arange(start // CHUNK, -(-stop // CHUNK), dtype=np.uint32))
        of_hidden, of_signs = (np.array(_threefry(of_chunk, np.uint32(part))) for part in (0, 1))
        hidden = np.empty((stop - start, d))
        _fill(hidden.reshape(-1), of_hidden, CHUNK * d)
        high, _ = _threefry(of_signs[:, :, None], places)
        hidden *= sigma
        yield Weights(hidden, np.where(high.reshape(-1)[: stop - start] >> 31, -1.0, 1.0))


def _fill(values: Float[np.ndarray, " k"], keys: np.ndarray, per_key: int) -> None:
    """Fill an array with normal values, `per_key` values from each key.

    A value depends only on its key and on its place among the key's values.
    """
    if len(values) <= min(per_key, SIZE):
        values[:] = _first_values(*keys[:, 0].tolist())[: len(values)]
        return
    for first in range(0, len(values), SIZE):
        piece, given = values[first : first + SIZE], np.empty((3, SIZE), np.uint32)
        own, given[2] = np.divmod(np.arange(first, first + SIZE), per_key)
        keys.take(own, axis=1, out=given[:2], mode="clip")  # values beyond the last one are drawn, but not used
        piece[:] = _drawn(given)[: len(piece)]


@lru_cache(maxsize=128)  # 8 MiB are kept, since a search draws the networks of the same few seeds again and again
def _first_values(high: int, low: int) -> np.ndarray:
    return _drawn(np.stack([np.full(SIZE, high), np.full(SIZE, low), np.arange(SIZE)]).astype(np.uint32))


def _drawn(keys_and_places: np.ndarray) -> np.ndarray:
    import jax  # imported here because JAX loads slowly, and most commands draw no network

    # The function is compiled and computes in float64, even if the user's program has switched off compilation or
    # float64. So a seed always gives the same network.
    with jax.disable_jit(False), jax.enable_x64(True):
        return np.asarray(_normal()(keys_and_places))


@cache
def _normal() -> Callable[[np.ndarray], Any]:
    """Returns a function that gives a normal value for each key and place, (3, SIZE), as `jax.random.normal` does."""
    import jax
    from jax import numpy as jnp

    def values(keys_and_places: jax.Array) -> jax.Array:
        *keys, places = keys_and_places
        high, low = (word.astype(np.uint64) for word in _threefry(keys, places))
        of_one_to_two = jax.lax.bitcast_convert_type(high << 20 | low >> 12 | 0x3FF << 52, np.float64)
        least = np.nextafter(-1.0, 0.0)  # erf_inv(-1) is not finite
        return np.sqrt(2) * jax.lax.erf_inv(jnp.maximum(least, 2 * (of_one_to_two - 1) + least))

    # always called with SIZE values, since code compiled for another size may round erf_inv differently
    return jax.jit(values)


def _threefry(key: Any, count: Any) -> tuple[Any, Any]:
    """The two words of Threefry-2x32 with 20 rounds (Salmon, Moraes, Dror, Shaw 2011), for each count below 2^32.

    The function takes arrays of numpy, or of JAX within `_normal`. JAX's own function is not used, since XLA would take
    a second to compile it for every draw.
    """
    keys = (key[0], key[1], key[0] ^ key[1] ^ np.uint32(0x1BD11BDA))
    a, b = 0 * count + keys[0], count + keys[1]
    for group in range(5):
        for turn in ((13, 15, 26, 6), (17, 29, 16, 24))[group % 2]:
            a = a + b
            b = (b << turn | b >> 32 - turn) ^ a
        a, b = a + keys[(group + 1) % 3], b + keys[(group + 2) % 3] + np.uint32(group + 1)
    return a, b
