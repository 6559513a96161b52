"""Tests of networks at initialisation.

The bound on all perturbations is compared with brute force, and counts are compared with loops.
"""

import itertools

import numpy as np
import pytest
from hypothesis import given, settings, strategies as st

from bounds import Options
from bounds.initial_network import InitialNetwork, _longest, initial_network_families
from ntkfl.initialisation import draw
from ntkfl.problem import Problem, Weights


def network(seed, n=3, d=2, width=2, radius=0.3, sigma=1.0):
    rng = np.random.default_rng(seed)
    problem = Problem(rng.standard_normal((n, d)), np.ones(n)).unit()
    hidden = sigma * rng.standard_normal((width, d))
    return InitialNetwork(problem, Weights(hidden, np.ones(width)), sigma, radius * sigma)


def gram(x, u, w):
    """Returns H(u, w)_ij = x_i.x_j #{r: u_r.x_i >= 0 and w_r.x_j >= 0} / m, which may be asymmetric."""
    return (x @ x.T) * ((x @ u.T >= 0).astype(float) @ (x @ w.T >= 0).astype(float).T) / len(u)


@settings(deadline=None, max_examples=40)
@given(seed=st.integers(0, 2**20), width=st.integers(1, 8), radius=st.floats(0.01, 2))
def test_random_perturbations_stay_below_the_bound(seed, width, radius):
    case = network(seed, n=4, d=3, width=width, radius=radius)
    x, start, rng = case.problem.x, case.weights.hidden, np.random.default_rng(seed)
    at_start = gram(x, start, start)
    for _ in range(30):
        two = rng.standard_normal((2, width, 3))
        two *= rng.choice([1.0, rng.uniform()]) * radius / np.linalg.norm(two, axis=-1, keepdims=True)
        away = np.linalg.norm(gram(x, start + two[0], start + two[1]) - at_start)
        assert away <= case.reachable_deviation.hi


def reachable_patterns(case, neuron):
    """Returns the activation patterns that a neuron with two inputs has after moves within the radius.

    The moves go in 721 directions and along each +-x.
    """
    x, w = case.problem.x, case.weights.hidden[neuron]
    angles = np.linspace(0, 2 * np.pi, 721)
    directions = np.vstack([np.stack([np.cos(angles), np.sin(angles)], axis=1), x, -x, np.zeros((1, 2))])
    shorter = np.concatenate([directions * length for length in (0.25, 0.5, 0.75, 0.999999)])
    return sorted({tuple(row) for row in ((w + case.radius * shorter) @ x.T >= 0).tolist()})


@settings(deadline=None, max_examples=25)
@given(seed=st.integers(0, 2**20), radius=st.floats(0.02, 1.5))
def test_the_largest_of_all_perturbations_lies_in_the_enclosure(seed, radius):
    case = network(seed, n=3, d=2, width=2, radius=radius)
    x, start = case.problem.x, case.weights.hidden
    at_start = gram(x, start, start)
    choices = [np.array(reachable_patterns(case, r), float) for r in range(2)]
    largest = 0.0
    for first, second in itertools.product(*[list(itertools.product(c, c)) for c in choices]):
        away = (x @ x.T) * (np.outer(*first) + np.outer(*second)) / 2 - at_start
        largest = max(largest, np.linalg.norm(away))
    assert case.reachable_deviation.lo <= largest + 1e-12
    assert largest <= case.reachable_deviation.hi


def test_a_tiny_radius_reaches_nothing_and_a_huge_one_everything():
    still = network(1, n=4, width=50, radius=1e-9)
    assert (still.reachable_deviation.lo, still.reachable_deviation.hi) == (0, 0)
    free = network(1, n=4, width=50, radius=1e3)
    x, start = free.problem.x, free.weights.hidden
    inner, counts = np.abs(x @ x.T), gram(x, start, start) / (x @ x.T)
    assert abs(float(free.reachable_deviation.hi) - np.linalg.norm(inner * np.maximum(counts, 1 - counts))) < 1e-11


@settings(deadline=None, max_examples=20)
@given(seed=st.integers(0, 2**20), small=st.floats(0.01, 0.5), more=st.floats(0, 0.5))
def test_the_bound_grows_with_the_radius(seed, small, more):
    lesser, larger = (network(seed, width=40, radius=r).reachable_deviation for r in (small, small + more))
    assert lesser.hi <= larger.hi


@settings(deadline=None, max_examples=40)
@given(seed=st.integers(0, 2**20), width=st.integers(1, 30), sigma=st.sampled_from([0.1, 1.0, 4.0]))
def test_most_crowded_against_every_radius(seed, width, sigma):
    case = network(seed, n=3, d=3, width=width, sigma=sigma)
    radius, share = case.most_crowded
    slope = np.sqrt(2 / np.pi) / sigma
    distances = np.abs(case.problem.x @ case.weights.hidden.T)
    excess = []
    for own in distances:
        for r in [*own * (1 + 1e-12), *np.linspace(0, 4 * sigma, 200)[1:]]:
            excess.append((own < r).mean() - slope * r)
    excess_at, largest = share - slope * radius, max(excess)
    # If no excess is positive, the largest excess is 0. It belongs to radius 0, within which no neuron can cross a
    # kink.
    if largest > 0:
        assert abs(excess_at - largest) < 1e-9
    assert any(abs((own <= radius * (1 + 1e-12)).mean() - share) < 1e-12 for own in distances)


def test_deviation_from_the_limit_against_the_formulas():
    case = network(3, n=5, d=3, width=400)
    x, w = case.problem.x, case.weights.hidden
    inner = np.clip(x @ x.T, -1, 1)
    limit = inner * (np.pi - np.arccos(inner)) / (2 * np.pi)
    deviation = case.gram_deviation
    assert abs(deviation.value - np.linalg.norm(gram(x, w, w) - limit)) < 1e-7
    assert deviation.error < 1e-12


def test_draws_give_their_networks_and_radii_apart_from_the_weights():
    digits, sphere = initial_network_families(Options(trials=30, width=64, sigma=0.5))
    assert (digits.trials, digits.required, sphere.trials) == (30, 20, 30)
    cases = [sphere.case(seed) for seed in range(30)]
    radii = np.array([case.radius for case in cases]) / 0.5
    assert radii.min() >= 0.02
    assert radii.max() <= 0.5
    assert len(np.unique(radii)) == 30
    assert np.array_equal(cases[3].weights.hidden, draw(64, 8, 3, 0.5).hidden)
    assert cases[3].sigma == 0.5
    wider = initial_network_families(Options(trials=30, width=128, sigma=0.5))[1].case(3)
    assert wider.radius == cases[3].radius


@pytest.mark.parametrize("seed", range(3))
def test_the_found_perturbation_is_one_that_can_be_carried_out(seed):
    """The lower end of the reachable deviation is attained by a move of all neurons along one direction."""
    case = network(seed, n=3, d=2, width=200, radius=0.2)
    x, start = case.problem.x, case.weights.hidden
    at_start = gram(x, start, start)
    angles = np.linspace(0, 2 * np.pi, 2000)
    directions = [*np.stack([np.cos(angles), np.sin(angles)], axis=1), *x, *-x]
    best = max(np.linalg.norm(gram(x, start + 0.2 * v, start + 0.2 * v) - at_start) for v in directions)
    assert 0 < case.reachable_deviation.lo <= best + 1e-12 <= case.reachable_deviation.hi + 1e-12


@pytest.mark.parametrize("shape", [(3, 7), (7, 3), (4, 4)])
def test_the_longest_direction_is_that_of_the_matrix_of_features(shape):
    x = np.random.default_rng(0).standard_normal(shape)
    mine, whole = _longest(x), np.linalg.eigh(x.T @ x)[1][:, -1]
    assert abs(mine @ whole) >= (1 - 1e-12) * np.linalg.norm(mine) > 0
