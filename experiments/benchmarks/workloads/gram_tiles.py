"""The Gram matrix computed in float32 tiles, against matrix products of the same shape.

The lower triangle of the matrix is stored in slabs, which are groups of consecutive rows.
"""

from functools import partial

from experiments.benchmarks.workload import Call, Candidate, Sizes, Workload, unit_rows


def _ours(sizes: Sizes, dtype: str = "float32") -> Call:
    from ntkfl import gram
    from ntkfl.gram.limit import entries
    from ntkfl.gram.tiles import Tiles

    entries()
    x = unit_rows(sizes["n"], sizes["d"])
    return lambda: Tiles.of(gram.infinite, x, dtype).slabs[-1][-1]


def _product(sizes: Sizes, dtype: str, whole: bool = False) -> Call:
    """The product x x^T in slabs of rows, as the tiles compute it.

    The slabs end at the diagonal, or have whole rows if `whole` is true.
    """
    from ntkfl.gram.tiles import SLAB

    x = unit_rows(sizes["n"], sizes["d"]).astype(dtype)

    def work():
        for start in range(0, len(x), SLAB):
            last = x[start : start + SLAB] @ x[: len(x) if whole else start + SLAB].T
        return last[-1]

    return work


WORKLOAD = Workload(
    name="gram-tiles",
    says="lower triangle of H_inf in float32, n samples of d features; the limit is a float32 product of that shape",
    sizes=({"n": 4000, "d": 784}, {"n": 8000, "d": 784}),
    candidates=(
        Candidate("ntkfl", _ours, "ours"),
        Candidate("ntkfl, float64", partial(_ours, dtype="float64"), "also ours"),
        Candidate("float32 product, lower triangle", partial(_product, dtype="float32"), "limit"),
        Candidate("float32 product, whole", partial(_product, dtype="float32", whole=True), "limit"),
        Candidate("float64 product, lower triangle", partial(_product, dtype="float64"), "limit"),
    ),
    along="n",
    tolerance=1e-6,
)
