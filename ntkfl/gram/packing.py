"""Activation patterns packed into words of 64 neurons; the processor's population count instruction counts the neurons
that are active on both samples of a pair.
"""

from collections.abc import Callable
from functools import cache
from typing import Any, NamedTuple

import numpy as np
from jaxtyping import Bool, Float, UInt64

from ntkfl.gram.patterns import CACHED, FEW, SINGLE, activations, decided, unit_product_error, unit_rows
from ntkfl.rounding import scaled_rows

BITS = 64


def words(patterns: Bool[np.ndarray, "n b"]) -> UInt64[np.ndarray, "n words"]:
    """The patterns as bits: neuron r is bit r % 64 of word r // 64; the unused bits of the last word are 0."""
    n, width = patterns.shape
    padded = np.zeros((n, -(-width // BITS) * 8), np.uint8)
    packed = np.packbits(patterns, axis=1, bitorder="little")
    padded[:, : packed.shape[1]] = packed
    return padded.view("<u8").astype(np.uint64, copy=False)


def active_words(x: Float[np.ndarray, "n d"], u: Float[np.ndarray, "m d"]) -> UInt64[np.ndarray, "n words"]:
    """`words(activations(x, u))` of checked x and u, computed in one pass over float32 products that stay in cache."""
    if x.shape[1] > SINGLE:
        return words(activations(x, u))
    single, other = unit_rows(scaled_rows(x)), np.pad(unit_rows(u), ((0, -len(u) % BITS), (0, 0)))
    out = np.empty((len(x), len(other) // BITS), np.uint64)
    step = max(1, CACHED // len(x) // BITS) * BITS
    room, undecided = np.empty(len(x) * step, np.float32), np.empty((max(1, int(FEW * step * len(x))), 2), np.int64)
    pack, left = kernels().pack, [undecided[:0]]
    for start in range(0, len(u), step):
        part = other[start : start + step]
        dot = np.matmul(single, part.T, out=room[: len(x) * len(part)].reshape(len(x), -1))
        # columns without a neuron are filled with NaN, which is neither >= 0 nor small
        dot[:, len(u) - start :] = np.nan
        first, count = start // BITS, pack(dot, unit_product_error(x.shape[1]), out, start // BITS, undecided)
        if count > len(undecided):
            some = words(activations(x, u[start : start + step]))
            out[:, first : first + some.shape[1]] = some
        else:
            left.append(undecided[:count] + np.array([0, start]))
    i, r = np.concatenate(left).T
    for row, neuron, active in zip(i, r, decided(x[i], u[r]), strict=True):
        bit = np.uint64(1) << np.uint64(neuron % BITS)
        word = out[row, neuron // BITS]
        out[row, neuron // BITS] = word | bit if active else word & ~bit
    return out


class Kernels(NamedTuple):
    """Compiled functions; they release the interpreter's lock.

    count(rows, columns, triangle, counts): counts[i, j] += popcount(rows[i] & columns[j]); with `triangle` the counts
        of j < i have no meaning.
    pack(dot, error, out, first, undecided): writes the bits 1{dot >= 0} of whole words into `out` from word `first` on,
        and the indices with |dot| <= error into `undecided`, as far as it has room; returns the number of such indices.
    """

    count: Callable[..., Any]
    pack: Callable[..., int]


def loaded() -> bool:
    """Whether the functions are compiled already."""
    return kernels.cache_info().currsize > 0


@cache
def kernels() -> Kernels:
    """Compile (about a second, once a process), or read kept machine code."""
    from ntkfl.gram.packed_passes import count, pack

    return Kernels(count, pack)
