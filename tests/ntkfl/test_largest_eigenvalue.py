"""The bound of the largest eigenvalue: the whole matrix is the judge; what it proves is held against literal rounds."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from linear_methods import quietly, ragged
from test_carried_errors import ROUNDS, literal

from ntkfl import data, gram, kernel_regime
from ntkfl.gram.tiles import Tiles
from ntkfl.limit import largest_eigenvalue
from ntkfl.limit.largest_eigenvalue import largest_at_most
from ntkfl.limit.round_modes import ClientModes
from ntkfl.problem import Setup


def exactly(tiles, clients, values):
    root = clients.apply(np.sqrt(values), np.eye(len(tiles)))
    return np.linalg.eigvalsh(root @ np.asarray(tiles) @ root)


@settings(max_examples=30)
@given(
    sizes=st.lists(st.integers(1, 12), min_size=1, max_size=9),
    seed=st.integers(0, 999),
    dtype=st.sampled_from(["float64", "float32"]),
    products=st.integers(1, 60),
    together=st.sampled_from([1, 5, 512]),
    power=st.integers(-30, 30),
)
def test_no_eigenvalue_is_above_the_bound(sizes, seed, dtype, products, together, power):
    """Few products leave vectors that are far from eigenvectors, and the bound holds all the same."""
    problem, rng = ragged(sizes, seed=seed), np.random.default_rng(seed)
    tiles = Tiles.of(gram.infinite, problem.x, dtype)
    clients = ClientModes.of(tiles, problem.members)
    values = 2.0**power * rng.uniform(0, 1, problem.n) ** rng.integers(1, 20)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(largest_eigenvalue, "PRODUCTS", products)
        patch.setattr(largest_eigenvalue, "TOGETHER", together)
        bound = largest_at_most(tiles, clients, values)
        root = np.sqrt(values)
        squared = largest_eigenvalue._squared(tiles, clients, root)
    eigenvalues = exactly(tiles, clients, values)
    assert squared == pytest.approx((eigenvalues**2).sum(), rel=1e-9)
    assert eigenvalues[-1] * (1 - 1e-12) <= bound <= 2 * np.sqrt(squared)


def test_the_bound_is_the_eigenvalue_where_it_stands_out():
    problem = data.digits(300, target="one-hot", clients=12, partition="dirichlet:0.3")
    tiles = Tiles.of(gram.infinite, problem.x, "float32")
    clients = ClientModes.of(tiles, problem.members)
    values = np.linspace(0.1, 2, problem.n)
    exact = exactly(tiles, clients, values)[-1]
    own = sum(float((clients.values * values)[owned].max()) for owned in problem.members)
    assert exact <= largest_at_most(tiles, clients, values) <= exact * (1 + 1e-5) < 0.98 * own


@quietly
@pytest.mark.parametrize("dtype", ["float64", "float32"])
@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize(
    ("method", "options", "most"),
    [
        ("fedavg", {}, 0.1),
        ("fedprox", {"mu": 0.7}, 0.1),
        ("fedavgm", {"momentum": 0.6}, 0.3),
        ("fedavgm", {"momentum": 0.6, "nesterov": True}, 0.3),
    ],
)
def test_errors_are_bounded_up_to_the_limit_of_the_server_rate(method, options, most, seed, dtype):
    """At .97 of the limit the clients' own eigenvalues together are beyond it, so that they prove nothing."""
    problem, setup = ragged([3, 9, 5], d=12, seed=seed), Setup(eta_local=0.3, local_steps=4)
    points = np.random.default_rng(seed).standard_normal((3, 12))
    limit = kernel_regime(problem, setup, None, method, options).step_limits.eta_global
    options = options | {"server_rate": 0.97 * limit}
    regime = kernel_regime(problem, setup, None, method, options, matrix_free=dtype)
    assert regime._measured.largest > regime.round.limit
    exact = literal(problem, method, options, {}, setup, points)
    estimates = regime.residual_estimate(ROUNDS), regime.predict_estimate(points, ROUNDS)
    for known, estimate in zip(exact, estimates, strict=True):
        assert (np.abs(estimate.value - known) <= estimate.error).all()
        assert estimate.error.max() < most * (1 if dtype == "float32" else 1e-7)
    far = 2.0 if regime.round.memory else 1.001  # few rounds of a method that remembers are bounded a little beyond
    beyond = kernel_regime(problem, setup, None, method, options | {"server_rate": far * limit}, matrix_free=dtype)
    with pytest.raises(ValueError, match="no error bound is proved for these steps"):
        beyond.residual_estimate(3)
