"""A product of the Gram matrix, in float32 tiles, with ten columns, against reading the tiles from memory.

The lower triangle of the matrix is stored in slabs, which are groups of consecutive rows.
"""

from concurrent.futures import ThreadPoolExecutor

import numpy as np

from experiments.benchmarks.workload import Call, Candidate, Sizes, Workload, unit_rows

OUTPUTS = 10
REPEATED = 10  # repeated, so that the clock measures more than a few milliseconds


def _given(sizes: Sizes):
    from ntkfl import gram
    from ntkfl.gram.tiles import Tiles

    columns = np.random.default_rng(1).standard_normal((sizes["n"], OUTPUTS))
    return Tiles.of(gram.infinite, unit_rows(sizes["n"], 32), "float32"), columns


def _ours(sizes: Sizes) -> Call:
    tiles, columns = _given(sizes)
    return lambda: [tiles @ columns for _ in range(REPEATED)][-1]


def _reading(sizes: Sizes) -> Call:
    """The inner product of every slab of rows with itself, which takes as long as reading the memory."""
    from ntkfl.gram.threads import worker_threads

    slabs = [slab.ravel() for slab in _given(sizes)[0].slabs]

    def work():
        with worker_threads() as count, ThreadPoolExecutor(count) as pool:
            return [list(pool.map(lambda slab: float(slab @ slab), slabs)) for _ in range(REPEATED)][-1]

    return work


def _float32(sizes: Sizes) -> Call:
    """The whole matrix in float32, multiplied and summed in float32 by BLAS."""
    tiles, columns = _given(sizes)
    whole, columns = np.asarray(tiles).astype(np.float32), columns.astype(np.float32)
    return lambda: [whole @ columns for _ in range(REPEATED)][-1]


WORKLOAD = Workload(
    name="tiles-product",
    says="ten products with H_inf in float32 tiles, n samples, ten columns; the limit is to read the tiles ten times",
    sizes=({"n": 4000}, {"n": 8000}),
    candidates=(
        Candidate("ntkfl", _ours, "ours"),
        Candidate("reading the tiles", _reading, "limit"),
        Candidate("whole, in float32", _float32, "peer", tolerance=1e-4),
    ),
    along="n",
    tolerance=1e-12,
)
