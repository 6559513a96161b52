"""Tests of lower and upper bounds of the spectral radius of a matrix and of a map of second moments.

The bounds are compared with the known spectral radii of Jordan chains.
"""

import numpy as np
import pytest
from mpmath import mp

import ntkfl
from ntkfl import Setup, random_rounds
from ntkfl.limit.mean_square import StateMoments
from ntkfl.limit.radius import radius_bounds, side_of_one

CHAINS = [(0.8, 0.02), (0.8, 0.2), (0.99, 0.02), (0.9, 1.0), (0.99, 1.0), (1.0, 0.01), (1.005, 0.02), (1.02, 0.02)]


def chain(value, beside, turned=True):
    """Returns a matrix with 14 equal eigenvalues and one eigenvector, in Jordan's form or rotated."""
    matrix = value * np.eye(14) + np.diag(np.full(13, beside), 1)
    turn = np.linalg.qr(np.random.default_rng(0).standard_normal((14, 14)))[0] if turned else np.eye(14)
    return turn @ matrix @ turn.T


@pytest.mark.parametrize(("value", "beside"), CHAINS)
@pytest.mark.parametrize("share", [0.0, 0.005, 0.3])
def test_no_chain_is_taken_for_what_it_is_not(value, beside, share):
    """The bounds are right for Jordan chains, whatever eigenvalues a computer finds.

    S -> M S M' + share S has the radius value^2 + share.
    """
    state = StateMoments(chain(value, beside), (lambda second: share * second) if share else None, rests=False)
    rate = (value**2 + share) ** 0.5
    low, high = state.rate_bounds
    assert low <= rate * (1 + 1e-12) and rate <= high * (1 + 1e-12)
    assert low <= state.rate <= high
    assert not (state.stable and rate >= 1) and not (state.grows and rate < 1)
    assert state.undecided == (not state.stable and not state.grows)


def test_chains_are_decided_that_eigenvalues_would_call_otherwise():
    falls, grows = chain(0.99, 0.02), chain(1.005, 0.02)
    assert side_of_one(falls) == -1 and side_of_one(grows) == 1
    assert np.abs(np.linalg.eigvals(chain(0.99, 1.0))).max() > 1
    # An error of the size of rounding takes the radius beyond 1, so nothing is decided.
    assert side_of_one(chain(0.99, 1.0)) == 0
    assert StateMoments(falls, None, rests=False).stable and StateMoments(grows, None, rests=False).grows
    assert StateMoments(chain(0.99, 0.001), lambda second: 0.005 * second, rests=False).stable
    assert StateMoments(chain(0.99, 0.001), lambda second: 0.3 * second, rests=False).grows


@pytest.mark.parametrize("seed", range(6))
def test_sides_enclose_the_radius_in_forty_digits(seed):
    rng = np.random.default_rng(seed)
    matrix = rng.standard_normal((7, 7)) / 3
    with mp.workdps(40):
        radius = max(abs(value) for value in mp.eig(mp.matrix(matrix.tolist()), left=False, right=False))
        low, high = radius_bounds(matrix)
        assert mp.mpf(float(low)) <= radius <= mp.mpf(float(high))
    assert high / low < 1.02
    radius = float(radius)
    for factor, side in ((1 - 1e-6, -1), (1 + 1e-6, 1)):
        assert side_of_one(factor * matrix / radius) == side
        assert side_of_one(np.stack([factor * matrix / radius] * 2)[:, :1, :1]).shape == (2,)


def test_one_matrix_of_many_spoils_no_other():
    stack = np.array(
        [[[0.5, 1], [0, 0.5]], [[1.0, 1], [0, 1]], [[1.1, 0], [0, 0.2]], [[0, 1], [-1, 0.0]], [[0, 0], [0, 0]]]
    )
    assert side_of_one(stack).tolist() == [-1, 0, 1, 0, -1]
    assert side_of_one(stack, np.full(5, 10.0)).tolist() == [0] * 5
    low, high = radius_bounds(stack)
    assert (low <= [0.5, 1, 1.1, 1, 0]).all() and ([0.5, 1, 1.1, 1, 0] <= high).all()


@pytest.mark.filterwarnings("ignore::ntkfl.exact_dynamics.UnstableSteps")
@pytest.mark.parametrize("method", ["fedavg", "fedavgm", "scaffold"])
def test_the_rate_of_random_rounds_has_an_error_and_decides_at_the_limit(method):
    """The rate of random rounds has an error, and it decides whether rounds fall or grow.

    Just below the largest server step, rounds are known to fall, and just above it they are known to grow. At the
    largest step neither is stated.
    """
    problem, options = ntkfl.data.sphere(n=12, d=6, clients=4), {"momentum": 0.5} if method == "fedavgm" else {}
    regime = random_rounds(problem, Setup(eta_local=0.3), None, method, options, participation=0.5)
    estimate = regime.rate_estimate
    assert estimate.lo <= regime.rate <= estimate.hi and regime.stable
    assert regime.rate_estimate.error <= (1e-8 if method != "scaffold" else 0.05)
    if method == "scaffold":
        return
    limit = regime.step_limits.eta_global
    for factor, stable, grows in ((1 - 1e-6, True, False), (1.0, False, False), (1 + 1e-6, False, True)):
        at = {**options, "server_rate": factor * limit}
        other = random_rounds(problem, Setup(eta_local=0.3), None, method, at, participation=0.5, noise=0.1)
        assert (other.stable, other.mean_square.grows) == (stable, grows)
        assert other.mean_square.undecided == (factor == 1)
        if factor == 1:
            with pytest.raises(ValueError, match="the rounds are nearly unstable"):
                other.stationary_mean_square()
