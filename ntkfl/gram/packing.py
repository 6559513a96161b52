"""Activation patterns packed 64 neurons to a word, and their pairs counted by the processor's population count."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from typing import Any, NamedTuple

import numpy as np
from jaxtyping import Bool, Float, UInt64

from ntkfl.gram.error_free import scaled_rows
from ntkfl.gram.patterns import CACHED, FEW, SINGLE, activations, decided, doubt, unit_rows

BITS = 64


def words(patterns: Bool[np.ndarray, "n b"]) -> UInt64[np.ndarray, "n words"]:
    """The patterns as bits, neuron r in bit r % 64 of word r // 64; what is left of the last word is 0."""
    n, width = patterns.shape
    padded = np.zeros((n, -(-width // BITS) * 8), np.uint8)
    packed = np.packbits(patterns, axis=1, bitorder="little")
    padded[:, : packed.shape[1]] = packed
    return padded.view("<u8").astype(np.uint64, copy=False)


def active_words(x: Float[np.ndarray, "n d"], u: Float[np.ndarray, "m d"]) -> UInt64[np.ndarray, "n words"]:
    """`words(activations(x, u))` of checked x and u, in one pass over float32 products that stay in cache."""
    if x.shape[1] > SINGLE:
        return words(activations(x, u))
    x, u = scaled_rows(x), scaled_rows(u)
    single, other, out = unit_rows(x), unit_rows(u), np.zeros((len(x), -(-len(u) // BITS)), np.uint64)
    step = max(1, CACHED // len(x) // BITS) * BITS
    room, undecided = np.empty(len(x) * step, np.float32), np.empty((max(1, int(FEW * step * len(x))), 2), np.int64)
    pack, left = kernels().pack, [undecided[:0]]
    for start in range(0, len(u), step):
        part = other[start : start + step]
        dot = np.matmul(single, part.T, out=room[: len(x) * len(part)].reshape(len(x), -1))
        first, found = start // BITS, pack(dot, doubt(x.shape[1]), out, start // BITS, undecided)
        if found > len(undecided):
            some = words(activations(x, u[start : start + step]))
            out[:, first : first + some.shape[1]] = some
        else:
            left.append(undecided[:found] + np.array([0, start]))
    i, r = np.concatenate(left).T
    for row, neuron, active in zip(i, r, decided(x[i], u[r]), strict=True):
        bit = np.uint64(1) << np.uint64(neuron % BITS)
        word = out[row, neuron // BITS]
        out[row, neuron // BITS] = word | bit if active else word & ~bit
    return out


class Kernels(NamedTuple):
    """Compiled functions; they release the interpreter.

    count(rows, columns, triangle, counts): counts[i, j] += popcount(rows[i] & columns[j]), where `triangle` says so
        for j >= i only (and some more, of no meaning).
    pack(dot, doubt, out, first, undecided): bits 1{dot >= 0} into the words of `out` from `first` on; the places with
        |dot| <= doubt into `undecided`, as far as there is room; returns how many there are.
    """

    count: Callable[..., Any]
    pack: Callable[..., int]


def loaded() -> bool:
    """Whether the compiler has been paid for."""
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
        found = 0
        for i in range(n):
            for start in range(0, width, 64):
                word, few = np.uint64(0), 0
                if start + 64 <= width:  # a loop of fixed length, which the compiler vectorises
                    for k in range(64):
                        value = dot[i, start + k]
                        word |= np.uint64(value >= 0) << np.uint64(k)
                        few += abs(value) <= doubt
                else:
                    for k in range(width - start):
                        value = dot[i, start + k]
                        word |= np.uint64(value >= 0) << np.uint64(k)
                        few += abs(value) <= doubt
                out[i, first + start // 64] = word
                if few:
                    for r in range(start, min(start + 64, width)):
                        if abs(dot[i, r]) <= doubt:
                            if found < len(undecided):
                                undecided[found, 0], undecided[found, 1] = i, r
                            found += 1
        return found

    return Kernels(count, pack)
