"""How many neurons are active on both of two samples, summed over blocks of neurons: exact integers.

Few counts come from a product of 0/1 matrices, many counts from patterns packed 64 to a word and the processor's
population count. Both are exact, so the choice changes only the time.
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

LOADING = 2**36  # sample pairs times neurons above which the compiler saves time; it takes a second to load
PARALLEL = 2**32  # sample pairs times neurons above which threads save time

Side = Bool[np.ndarray, "n b"] | UInt64[np.ndarray, "n words"]  # patterns of a block of neurons, plain or packed
# gives the patterns of both sides, which may be packed if its argument is True; None in place of the second side if
# both sides are equal
Part = Callable[[bool], tuple[Side, Side | None]]


def summed(parts: Iterable[Part], shape: tuple[int, int], width: int, same: bool = False) -> Int[np.ndarray, "n p"]:
    """#{r: both active}, over all blocks of neurons; large work is shared by as many threads as BLAS has.

    A part gives the patterns of one block when it is called, perhaps in a thread.
    """
    work = math.prod(shape) * width
    packed = packing.loaded() or work > LOADING
    count = _packed if packed else _product
    if packed:
        packing.kernels()  # compiled before threads use the functions
    with worker_threads() if work > PARALLEL else nullcontext(1) as threads:
        if threads == 1:
            total = np.zeros(shape, np.int64)
            for part in parts:
                count(*part(packed), total)
        else:
            total = _in_threads(parts, count, threads, shape)
    return mirrored(total) if same else total


def _in_threads(parts: Iterable[Part], count: Callable, threads: int, shape: tuple) -> np.ndarray:
    """The sum over all blocks; every thread has its own total, and one more block waits for each thread."""
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
