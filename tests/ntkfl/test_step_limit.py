"""Tests of the kernel regime at and next to the limit of the client step, against rounds that are written out.

P is the block diagonal matrix of the clients' responses to K local steps, and q an eigenvalue of a client's block of
the Gram matrix. At the limit an even K makes P vanish.
"""

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import example, given, settings, strategies as st

from ntkfl import Problem, Setup
from ntkfl.gram import infinite
from ntkfl.limit.infinite_width import KernelRegime

ROUNDS = 15
DISTANCES = [0.0, *(sign * 10.0**-k for k in (16, 15, 14, 12, 10, 8, 7, 6) for sign in (1, -1))]
QUICK = (0.0, 1e-15, 1e-12, 1e-8, 1e-7)
KINDS = ["independent", "repeated", "opposite", "nearly repeated"]


def plain(h, problem, setup):
    """Returns residuals and coefficients in long double.

    The residuals are those of rounds 0..ROUNDS and of the local steps of the rounds; the coefficients are c_t.
    """
    h, residual = h.astype(np.longdouble), problem.y.astype(np.longdouble)
    own = np.where(problem.owner[:, None] == problem.owner, np.longdouble(setup.eta_local) * h, 0)
    path, local, coefficients = [residual], [], [np.zeros_like(residual)]
    for _ in range(ROUNDS):
        seen = np.array([residual] * (setup.local_steps + 1))
        for k in range(setup.local_steps):
            seen[k + 1] = seen[k] - own @ seen[k]
        change = np.longdouble(setup.eta_local) / problem.n_clients * seen[:-1].sum(axis=0)
        local.append(seen)
        coefficients.append(coefficients[-1] + change)
        residual = residual - h @ change
        path.append(residual)
    return np.array(path), np.array(local), np.array(coefficients)


def regime_at(seed, n, n_clients, kind, steps, distance):
    rng = np.random.default_rng(seed)
    x = rng.normal(size=(n, 3))
    x[1] = {"independent": x[1], "repeated": x[0], "opposite": -x[0], "nearly repeated": x[0] + 1e-6 * x[1]}[kind]
    x /= np.linalg.norm(x, axis=1, keepdims=True)
    owner = np.append(np.arange(n_clients), rng.integers(0, n_clients, n - n_clients))
    problem = Problem(x, rng.choice([-1.0, 1.0], size=n), owner)
    regime = KernelRegime(problem, Setup(eta_local=0.1, local_steps=steps, rounds=ROUNDS), infinite(x))
    return regime.at(replace(regime.setup, eta_local=regime.step_limits.eta_local * (1 + distance)))


def check(regime):
    path, local, coefficients = plain(regime.gram, regime.problem, regime.setup)
    t, y = np.arange(ROUNDS + 1), regime.problem.y
    each_round = 60 * regime.problem.n * np.finfo(float).eps * np.abs(path).max()
    slack = each_round * (1 + t)[:, None]
    assert (np.abs(y - regime.outputs(t) - path) <= slack).all()
    run = regime.trajectory()
    assert (np.abs(y - run.outputs - path) <= slack).all()
    assert (np.abs(y - run.local_outputs - local) <= slack[:-1, None]).all()
    assert (np.abs(y - regime.local_outputs(ROUNDS - 1) - local[-1]) <= slack[-1]).all()
    new = np.array([[0.6, 0.0, -0.8], [0.0, 1.0, 0.0]])
    assert (np.abs(regime.predict(new, t) - coefficients @ infinite(new, regime.problem.x).T) <= slack).all()
    squared = np.maximum(np.einsum("ti,ij,tj->t", coefficients, regime.gram, coefficients), 0.0)
    of_h = 60 * regime.problem.n * np.finfo(float).eps * (coefficients**2).sum(axis=1)  # c may be large here.
    assert (np.abs(regime.movement(t) ** 2 - squared) <= slack[:, 0] * (1 + np.sqrt(squared)) + of_h).all()
    return np.linalg.norm(path.astype(float), axis=1)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize(
    "distance", [pytest.param(d, marks=() if abs(d) in QUICK else pytest.mark.slow) for d in DISTANCES]
)
def test_every_number_of_local_steps_next_to_the_limit(distance, kind):
    for steps in range(1, 17):
        n, n_clients = ((2, 2), (6, 3), (2, 1))[steps // 2 % 3]
        check(regime_at(steps, n, n_clients, kind, steps, distance))


@settings(deadline=None, max_examples=60)
@given(
    seed=st.integers(0, 2**32 - 1),
    n=st.integers(2, 8),
    n_clients=st.integers(1, 8),
    kind=st.sampled_from(KINDS),
    steps=st.integers(1, 16),
    distance=st.sampled_from(DISTANCES) | st.floats(-1e-2, 1e-6),
)
@example(0, 2, 2, "independent", 2, 0.0)
def test_next_to_the_limit_the_regime_is_that_of_plain_rounds(seed, n, n_clients, kind, steps, distance):
    check(regime_at(seed, n, min(n, n_clients), kind, steps, distance))


def test_the_smallest_case():
    """In the smallest case each client has one unit row, and K = 2.

    At eta_local q = 2 both clients return to their start.
    """
    x = np.array([[-0.84, -0.55], [-0.95, 0.32]])
    x /= np.linalg.norm(x, axis=1, keepdims=True)
    regime = KernelRegime(
        Problem(x, np.array([1.0, -1.0]), np.array([0, 1])), Setup(eta_local=4.0, local_steps=2), infinite(x)
    )
    np.testing.assert_allclose(regime.outputs([0, 1, 100, 10**12]), 0.0, atol=1e-12)
    with pytest.raises(
        ValueError, match=r"1\.41421 of it lies where the round changes nothing .* even number of local"
    ):
        regime.rounds_to(0.5)


@settings(deadline=None, max_examples=40)
@given(
    seed=st.integers(0, 2**32 - 1),
    kind=st.sampled_from(KINDS),
    steps=st.sampled_from([2, 4, 16]),
    distance=st.sampled_from([d for d in DISTANCES if d <= 0]),
    place=st.integers(1, ROUNDS),
)
def test_the_first_round_is_the_one_that_plain_rounds_meet(seed, kind, steps, distance, place):
    regime = regime_at(seed, 5, 2, kind, steps, distance)
    norms = check(regime)
    eps = norms[place] / norms[0] * (1 + 1e-9)
    expected = 0 if eps >= 1 else int(np.flatnonzero(norms <= eps * norms[0])[0])
    assert regime.rounds_to(eps) == expected
