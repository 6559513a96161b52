"""Activation patterns packed 64 neurons to a word, and their pairs counted by the processor's population count."""

from collections.abc import Callable
from functools import cache
from typing import Any, NamedTuple

import numpy as np
from jaxtyping import Bool, Float, UInt64

from ntkfl.gram.error_free import scaled_rows
from ntkfl.gram.patterns import CACHED, FEW, SINGLE, activations, decided, doubt, unit_rows

BITS = 64


def words(patterns: Bool[np.ndarray, "n b"]) -> UInt64[np.ndarray, "n words"]:
    """The patterns as bits: neuron r is bit r % 64 of word r // 64; the unused bits of the last word are 0."""
    n, width = patterns.shape
    padded = np.zeros((n, -(-width // BITS) * 8), np.uint8)
    packed = np.packbits(patterns, axis=1, bitorder="little")
    padded[:, : packed.shape[1]] = packed
    return padded.view("<u8").astype(np.uint64, copy=False)


def active_words(x: Float[np.ndarray, "n d"], u: Float[np.ndarray, "m d"]) -> UInt64[np.ndarray, "n words"]:
    """`words(activations(x, u))` of checked x and u, in one pass over float32 products that stay in cache."""
    if x.shape[1] > SINGLE:
        return words(activations(x, u))
    x = scaled_rows(x)
    single, other = unit_rows(x), np.pad(unit_rows(u), ((0, -len(u) % BITS), (0, 0)))
    out = np.empty((len(x), len(other) // BITS), np.uint64)
    step = max(1, CACHED // len(x) // BITS) * BITS
    room, undecided = np.empty(len(x) * step, np.float32), np.empty((max(1, int(FEW * step * len(x))), 2), np.int64)
    pack, left = kernels().pack, [undecided[:0]]
    for start in range(0, len(u), step):
        part = other[start : start + step]
        dot = np.matmul(single, part.T, out=room[: len(x) * len(part)].reshape(len(x), -1))
        dot[:, len(u) - start :] = np.nan  # in columns without a neuron: NaN is neither >= 0 nor small
        first, count = start // BITS, pack(dot, doubt(x.shape[1]), out, start // BITS, undecided)
        if count > len(undecided):
            some = words(activations(x, u[start : start + step]))
            out[:, first : first + some.shape[1]] = some
        else:
            left.append(undecided[:count] + np.array([0, start]))
    i, r = np.concatenate(left).T
    for row, neuron, active in zip(i, r, decided(x[i], scaled_rows(u[r])), strict=True):
        bit = np.uint64(1) << np.uint64(neuron % BITS)
        word = out[row, neuron // BITS]
        out[row, neuron // BITS] = word | bit if active else word & ~bit
    return out


class Kernels(NamedTuple):
    """Compiled functions; they release the interpreter.

    count(rows, columns, triangle, counts): counts[i, j] += popcount(rows[i] & columns[j]); with `triangle` the counts
        of j < i have no meaning.
    pack(dot, doubt, out, first, undecided): writes the bits 1{dot >= 0} of whole words into `out` from word `first` on,
        and the indices with |dot| <= doubt into `undecided`, as far as it has room; returns the number of such indices.
    """

    count: Callable[..., Any]
    pack: Callable[..., int]


def loaded() -> bool:
    """Whether the functions are compiled already."""
    return kernels.cache_info().currsize > 0


@cache
def kernels() -> Kernels:
    """Compile (about a second, once a process)."""
    from numba import njit, types
    from numba.extending import intrinsic

    def population_count(context, word):
        return types.uint64(types.uint64), lambda c, builder, signature, args: builder.ctpop(args[0])

    population: Any = intrinsic(population_count)

    @njit("void(uint64[:,::1], uint64[:,::1], boolean, int64[:,::1])", nogil=True)
    def count(rows, columns, triangle, counts):
        n, length = rows.shape
        whole = n - n % 4
        for i in range(0, whole, 4):  # four rows share each word they are compared with
            for j in range(i if triangle else 0, len(columns)):
                a = b = c = d = np.uint64(0)
                for k in range(length):
                    word = columns[j, k]
                    a += population(rows[i, k] & word)
                    b += population(rows[i + 1, k] & word)
                    c += population(rows[i + 2, k] & word)
                    d += population(rows[i + 3, k] & word)
                counts[i, j] += np.int64(a)
                counts[i + 1, j] += np.int64(b)
                counts[i + 2, j] += np.int64(c)
                counts[i + 3, j] += np.int64(d)
        for i in range(whole, n):
            for j in range(i if triangle else 0, len(columns)):
                a = np.uint64(0)
                for k in range(length):
                    a += population(rows[i, k] & columns[j, k])
                counts[i, j] += np.int64(a)

    @njit("int64(float32[:,::1], float32, uint64[:,::1], int64, int64[:,::1])", nogil=True)
    def pack(dot, doubt, out, first, undecided):
        n, width = dot.shape
        count, signs, small = 0, np.empty(64, np.uint8), np.empty(64, np.uint8)
        of_signs, of_small = signs.view(np.uint64), small.view(np.uint64)  # eight at a time
        for i in range(n):
            for start in range(0, width, 64):
                block = dot[i, start : start + 64]
                for k in range(64):  # two loops of fixed length, which the compiler vectorises
                    signs[k] = block[k] >= 0
                for k in range(64):
                    small[k] = abs(block[k]) <= doubt
                word, few = np.uint64(0), np.uint64(0)
                for k in range(8):
                    eight = of_signs[k] * np.uint64(0x0102040810204080) >> np.uint64(56)  # their lowest bits, together
                    word |= eight << np.uint64(8 * k)
                    few |= of_small[k]
                out[i, first + start // 64] = word
                if few:
                    for k in range(64):
                        if small[k]:
                            if count < len(undecided):
                                undecided[count, 0], undecided[count, 1] = i, start + k
                            count += 1
        return count

    return Kernels(count, pack)
