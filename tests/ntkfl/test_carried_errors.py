"""The error bounds of rounds by tiles: literal local steps in extended precision are the judge."""

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from linear_methods import quietly, ragged

from ntkfl import gram, kernel_regime
from ntkfl.estimate import Rigour
from ntkfl.gram import tiles
from ntkfl.limit.carried_errors import bounded_rounds
from ntkfl.limit.skipped_rounds import Series, bounded_powers
from ntkfl.problem import Setup

AVERAGING = (
    ("fl-ntk", {"server_rate": 1.3}, {}),
    ("fedavg", {}, {"step_factors": [1, 0.5]}),
    ("fedprox", {"mu": 0.7}, {}),
    ("fednova", {}, {"client_steps": [1, 4, 2]}),
)
ROUNDS = [0, 1, 5, 40]


def kernel(x, z):
    """The two-layer kernel in extended precision, with Kahan's angle, exact to it near 0 and pi too."""
    x, z = x.astype(np.longdouble), z.astype(np.longdouble)
    left, right = (rows / np.sqrt((rows**2).sum(axis=1, keepdims=True)) for rows in (x, z))
    apart, together = (np.sqrt(((left[:, None] + sign * right) ** 2).sum(axis=2)) for sign in (-1, 1))
    return x @ z.T * (2 * np.arctan2(together, apart) / (4 * np.arctan2(*np.ones(2, np.longdouble)) * 2))


def literal(problem, method, options, how, setup, points):
    """Residuals and predictions of ROUNDS, every local step taken."""
    h, owned = kernel(problem.x, problem.x), problem.clients()
    counts = how.get("client_steps", [setup.local_steps] * len(owned))
    factors, pull = how.get("step_factors", [1.0]), np.longdouble(options.get("mu", 0.0))
    weights = (
        [1 / np.longdouble(len(owned))] * len(owned)
        if method == "fl-ntk"
        else [np.longdouble(len(rows)) / problem.n for rows in owned]
    )
    if method == "fednova":
        mean = sum(p * k for p, k in zip(weights, counts, strict=True))
        weights = [p * mean / k for p, k in zip(weights, counts, strict=True)]
    c, residual, found = np.zeros(problem.n, np.longdouble), problem.y.astype(np.longdouble), []
    for t in range(max(ROUNDS) + 1):
        if t in ROUNDS:
            found.append((residual, kernel(points, problem.x) @ c))
        for rows, steps, weight in zip(owned, counts, weights, strict=True):
            a = np.zeros(len(rows), np.longdouble)
            for k in range(steps):
                step = np.longdouble(setup.eta_local) * factors[min(k, len(factors) - 1)]
                a = a + step * (residual[rows] - h[np.ix_(rows, rows)] @ a - pull * a)
            c[rows] += options.get("server_rate", 1.0) * weight * a
        residual = problem.y - h @ c
        c = c.copy()
    return tuple(np.array(part) for part in zip(*found, strict=True))


@quietly
@settings(max_examples=4)
@given(eta=st.floats(0.05, 0.5), seed=st.integers(0, 999), repeated=st.booleans())
@pytest.mark.parametrize(("method", "options", "how"), AVERAGING, ids=[one[0] for one in AVERAGING])
@pytest.mark.parametrize("dtype", ["float64", "float32"])
def test_every_entry_is_within_its_bound(method, options, how, dtype, eta, seed, repeated):
    problem, setup = ragged([3, 9, 5], seed=seed, repeated=repeated), Setup(eta_local=eta, local_steps=4)
    points = np.random.default_rng(seed).standard_normal((3, 4))
    residual, predicted = literal(problem, method, options, how, setup, points)
    found = kernel_regime(problem, setup, None, method, options, **how, matrix_free=dtype)
    for exact, estimate in (
        (residual, found.residual_estimate(ROUNDS)),
        (predicted, found.predict_estimate(points, ROUNDS)),
    ):
        assert (np.abs(estimate.value - exact) <= estimate.error).all()
        assert estimate.error.max() < (1e-9 if dtype == "float64" else 1e-2)
        assert estimate.rigour == Rigour.ENCLOSED
    margins = found._margins
    series = Series.of(np.array(ROUNDS), 1 - margins.largest)
    for exact, each in zip(
        residual, bounded_powers(found.tiles, found.round, series, problem.y[:, None], margins), strict=True
    ):
        assert (np.abs(each.residual[:, 0] - exact) <= each.norm_error).all()
        assert each.norm_error < (1e-9 if dtype == "float64" else 1e-2)


def test_the_bound_follows_the_errors_it_is_told_of():
    """Tiles that are off by a hundred times what they say are caught outside their bound."""
    problem, setup = ragged([3, 9, 5]), Setup(eta_local=0.3, local_steps=4)
    found = kernel_regime(problem, setup, None, "fedavg", matrix_free="float32")
    worse = replace(found.tiles, slabs=tuple((slab * (1 + 1e-4)).astype(np.float32) for slab in found.tiles.slabs))
    run = list(zip(range(6), bounded_rounds(worse, found.round, found._margins, problem.y[:, None]), strict=False))
    exact, _ = literal(problem, "fedavg", {}, {}, setup, problem.x[:1])
    off = np.abs(run[5][1].residual[:, 0] - exact[2])
    assert off.max() > run[5][1].entry_error


def test_several_outputs_and_another_kernel_are_bounded_too():
    problem = ragged([8, 3])
    two = replace(problem, y=np.stack([problem.y, -2 * problem.y], axis=1))
    setup = Setup(eta_local=0.05, local_steps=3)
    found = kernel_regime(two, setup, gram.deep, "fedavg", matrix_free="float32")
    whole = kernel_regime(two, setup, gram.deep, "fedavg")
    estimate = found.residual_estimate(7)
    assert estimate.value.shape == (11, 2) and estimate.rigour == Rigour.MEASURED
    assert (np.abs(estimate.value - whole.residual(7)) <= estimate.error).all()


@quietly
@pytest.mark.parametrize(
    ("method", "options", "eta", "said"),
    [
        ("scaffold", {}, 0.3, "for plain averaging of the clients"),
        ("fedavgm", {}, 0.3, "for plain averaging of the clients"),
        ("fedavg", {"server_rate": 9.0}, 0.3, "must be at most 2"),
        ("fedavg", {}, 5.0, "where every local step contracts"),
    ],
)
def test_no_bound_is_claimed_that_is_not_proved(method, options, eta, said):
    found = kernel_regime(ragged([3, 9]), Setup(eta_local=eta, local_steps=2), None, method, options, matrix_free=True)
    with pytest.raises(ValueError, match=said):
        found.residual_estimate(3)


def test_parts_of_the_tiles_error_are_at_most_the_whole():
    problem = ragged([9, 14])
    found = tiles.Tiles.of(gram.infinite, problem.x, "float32")
    owned = problem.clients()[0]
    assert 0 < found.block_error(owned, found[np.ix_(owned, owned)]) < found.error
