"""The exact number of neurons that are active on both of two samples, summed over blocks of neurons.

For few samples and neurons, the numbers come from a product of 0/1 matrices. For many, patterns are packed 64 to a
word, and the processor's population count is used. Both ways are exact, so the choice changes only the time.
"""

import math
from collections.abc import Callable, Iterable
from concurrent.futures import FIRST_COMPLETED, Future, ThreadPoolExecutor, wait
from contextlib import nullcontext

import numpy as np
from jaxtyping import Bool, Int, UInt64

from ntkfl.gram import packing
from ntkfl.gram.mirror import mirrored
from ntkfl.gram.threads import worker_threads

# pairs of samples times neurons above which compiled code saves time, although the compiler takes a second to load
LOADING = 2**36
PARALLEL = 2**32  # pairs of samples times neurons above which threads save time

# the activation patterns of a block of neurons on one set of samples, plain or packed
Side = Bool[np.ndarray, "n b"] | UInt64[np.ndarray, "n words"]
# a function that returns the patterns on both sets of samples; the patterns may be packed if the argument is True, and
# the patterns on the second set are None if both sets are the same
Part = Callable[[bool], tuple[Side, Side | None]]


def summed(parts: Iterable[Part], shape: tuple[int, int], width: int, same: bool = False) -> Int[np.ndarray, "n p"]:
    """The number of neurons r active on both samples of each pair, summed over all blocks of neurons.

    If there is much to compute, as many threads as BLAS has share it.

    Each element of `parts` is a function that returns the patterns of one block of neurons; the function may be called
    in another thread.
    """
    work = math.prod(shape) * width
    packed = packing.loaded() or work > LOADING
    count = _packed if packed else _product
    if packed:
        packing.kernels()  # the functions are compiled before threads use them
    with worker_threads() if work > PARALLEL else nullcontext(1) as threads:
        if threads == 1:
            total = np.zeros(shape, np.int64)
            for part in parts:
                count(*part(packed), total)
        else:
            total = _in_threads(parts, count, threads, shape)
    return mirrored(total) if same else total


def _in_threads(parts: Iterable[Part], count: Callable, threads: int, shape: tuple) -> np.ndarray:
    """The sum over all blocks, computed in threads; every thread has its own total, and for each thread one further
    block waits in the queue.
    """
    free = [np.zeros(shape, np.int64) for _ in range(threads)]
    totals = list(free)

    def run(part: Part) -> None:
        own = free.pop()
        try:
            count(*part(count is _packed), own)
        finally:
            free.append(own)

    waiting: set[Future] = set()
    with ThreadPoolExecutor(threads) as pool:
        for part in parts:
            waiting.add(pool.submit(run, part))
            if len(waiting) > 2 * threads:
                done, waiting = wait(waiting, return_when=FIRST_COMPLETED)
                for future in done:
                    future.result()
        for future in waiting:
            future.result()
    return sum(totals[1:], start=totals[0])


def _product(rows: np.ndarray, columns: np.ndarray | None, total: np.ndarray) -> None:
    step = 2**20  # counts within a block are exact in float32 up to 2^24
    for block in (slice(start, start + step) for start in range(0, rows.shape[1], step)):
        left = rows[:, block].astype(np.float32)
        right = left if columns is None else columns[:, block].astype(np.float32)
        total += (left @ right.T).astype(np.int64)


def _packed(rows: np.ndarray, columns: np.ndarray | None, total: np.ndarray) -> None:
    left, right = (side if side is None or side.dtype == np.uint64 else packing.words(side) for side in (rows, columns))
    packing.kernels().count(left, left if right is None else right, right is None, total)
