"""The smallest eigenvalue of H_inf with a certified error, against all eigenvalues without certified errors."""

import numpy as np

from experiments.benchmarks.workload import Call, Candidate, Sizes, Workload, unit_rows


def _given(sizes: Sizes):
    from ntkfl import gram

    return gram.infinite(unit_rows(sizes["n"], sizes["d"]))


def _ours(sizes: Sizes) -> Call:
    from ntkfl import gram

    h = _given(sizes)
    return lambda: gram.smallest_eigenvalue(h).value


def _all(sizes: Sizes) -> Call:
    h = _given(sizes)
    return lambda: np.linalg.eigvalsh(h)[0]


def _cholesky(sizes: Sizes) -> Call:
    """One Cholesky factorisation, which is the least work that a certified error needs."""
    h = _given(sizes)
    return lambda: np.linalg.cholesky(h)[0, 0]


WORKLOAD = Workload(
    name="smallest-eigenvalue",
    says="lambda_min of H_inf, n samples of d features",
    sizes=({"n": 2500, "d": 32}, {"n": 5000, "d": 32}, {"n": 10000, "d": 32}),
    candidates=(
        Candidate("ntkfl", _ours, "ours"),
        Candidate("eigvalsh", _all),
        Candidate("one Cholesky", _cholesky, "limit"),
    ),
    along="n",
    tolerance=1e-6,
)
