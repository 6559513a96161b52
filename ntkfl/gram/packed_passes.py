"""The compiled functions of `packing`.

Importing this module compiles them, which takes about a second, or reads their machine code from disk.

The functions and their intrinsic are defined at the top level of this module, since Numba keeps no machine code of a
function that calls an intrinsic defined within another function. `packing.Kernels` explains the arguments.
"""

from typing import Any

import numpy as np
from numba import types
from numba.extending import intrinsic

from ntkfl.compiled_once import machine_code


def population_count(context, word):
    return types.uint64(types.uint64), lambda c, builder, signature, args: builder.ctpop(args[0])


population: Any = intrinsic(population_count)


@machine_code("void(uint64[:,::1], uint64[:,::1], boolean, int64[:,::1])")
def count(rows, columns, triangle, counts):
    """Adds popcount(rows[i] & columns[j]) to counts[i, j]."""
    n, length = rows.shape
    whole = n - n % 4
    for i in range(0, whole, 4):  # four rows at a time, so that each word of `columns` is read once for four rows
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


@machine_code("int64(float32[:,::1], float32, uint64[:,::1], int64, int64[:,::1])")
def pack(dot, error, out, first, undecided):
    """Writes signs as bits into `out`; returns the number of undecided entries."""
    n, width = dot.shape
    count, signs, small = 0, np.empty(64, np.uint8), np.empty(64, np.uint8)
    of_signs, of_small = signs.view(np.uint64), small.view(np.uint64)  # eight bytes as one word
    for i in range(n):
        for start in range(0, width, 64):
            block = dot[i, start : start + 64]
            for k in range(64):  # the compiler vectorises these two loops since their length is fixed
                signs[k] = block[k] >= 0
            for k in range(64):
                small[k] = abs(block[k]) <= error
            word, few = np.uint64(0), np.uint64(0)
            for k in range(8):
                eight = of_signs[k] * np.uint64(0x0102040810204080) >> np.uint64(56)  # the lowest bits of eight bytes
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
