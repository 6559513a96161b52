"""Tests of nearly equal samples: every linear method's outputs and predictions are those of its rounds in long
double.
"""

import numpy as np
import pytest
from direct_rounds import Direct
from hypothesis import given, settings, strategies as st
from linear_methods import EACH, METHODS, quietly

from ntkfl import Problem, Setup, kernel_regime
from ntkfl.training.engine.differentiated_round import _reached

ROUNDS = 9


def linear_kernel(a, b=None):
    return a @ (a if b is None else b).T


@pytest.mark.quick_rows(2)
@quietly
@EACH
@settings(deadline=None, max_examples=8)
@given(
    apart=st.floats(-12, -1).map(lambda power: 10**power) | st.just(0.0),
    momentum=st.sampled_from([0.0, 0.5, 0.8]),
    uneven=st.booleans(),
    factors=st.lists(st.floats(0.3, 1.0), max_size=3).map(tuple),
    size=st.sampled_from([1e-3, 1.0, 1e4]),
    seed=st.integers(0, 2**16),
)
def test_every_method_trains_nearly_equal_samples_as_its_formulas_do(
    method, options, apart, momentum, uneven, factors, size, seed
):
    rng = np.random.default_rng(seed)
    half = rng.standard_normal((3, 4))
    x = size * np.concatenate([half, half + apart * rng.standard_normal((3, 4))])
    y, owner = rng.uniform(-1, 1, 6), rng.permutation([0, 0, 0, 1, 1, 2])
    members = [np.flatnonzero(owner == c) for c in range(3)]
    steps = [3, 1, 4] if uneven else [3, 3, 3]
    eta = 0.5 / size**2 / max(np.linalg.eigvalsh(x[own] @ x[own].T / size**2)[-1] for own in members)
    # mu and alpha scale as curvatures do.
    options = {k: v * size**2 if k in ("mu", "alpha") else v for k, v in options.items()}
    direct = Direct(x, y, members, steps, eta, factors, momentum)
    weights = direct.weights(method, options, ROUNDS)
    setup, unlike = Setup(eta_local=eta, local_steps=3), {"client_steps": steps if uneven else None}
    regime = kernel_regime(
        Problem(x, y, owner), setup, linear_kernel, method, options, momentum, **unlike, step_factors=factors or None
    )
    points = size * rng.standard_normal((5, 4))
    for at in (x, points):
        expected = np.array([at @ w for w in weights])
        predicted = regime.predict(at, np.arange(ROUNDS + 1))
        assert np.abs(predicted - expected).max() <= 1e-12 * max(np.abs(expected).max(), 1)
    assert np.abs(regime.outputs(np.arange(ROUNDS + 1)) - [x @ w for w in weights]).max() <= 1e-12 * max(
        np.abs(regime.outputs(ROUNDS)).max(), 1
    )


@quietly
@pytest.mark.parametrize(("method", "options"), METHODS[5:8])
def test_what_once_never_ended_returns_with_a_memory_no_larger_than_the_state(method, options):
    problem = Problem(np.array([[1, 0], [1, 1e-7]]), np.ones(2), np.array([0, 1]))
    regime = kernel_regime(problem, Setup(eta_local=0.3, local_steps=3), linear_kernel, method, options, momentum=0.8)
    assert len(regime.round_map) <= 2 + 2
    assert np.isfinite(regime.rate)


@settings(deadline=None)
@given(
    rank=st.integers(0, 6),
    start=st.integers(1, 3),
    spread=st.floats(0, 20),
    size=st.floats(-100, 100),
    seed=st.integers(0, 2**16),
)
def test_a_basis_of_what_is_reached_is_orthonormal_and_ends(rank, start, spread, size, seed):
    """A basis of the reachable directions is orthonormal, and its construction ends.

    Directions have scales a decade apart, down to 1e-20, where orthogonality was once lost.
    """
    rng = np.random.default_rng(seed)
    basis = np.linalg.qr(rng.standard_normal((8, 8)))[0]
    matrix = basis[:, :rank] @ np.diag(10 ** -np.linspace(0, spread, rank)) @ basis[:, :rank].T
    first = 10**size * basis[:, :rank] @ rng.standard_normal((rank, start))
    span = _reached(matrix, first)
    assert np.abs(span.T @ span - np.eye(span.shape[1])).max(initial=0) <= 1e-13
    assert min(rank, start) <= span.shape[1] <= 8
    assert np.linalg.norm(first - span @ (span.T @ first)) <= 1e-9 * np.linalg.norm(first)
    # Closer scales are excluded, because there rounding sometimes adds a direction.
    if 0.1 * rank <= spread <= 0.5 * rank:
        assert span.shape[1] <= rank
