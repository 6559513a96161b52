"""A complex pair that is proved outermost is outermost; nothing is proved without the outermost pair."""

from unittest.mock import Mock

import numpy as np
import pytest
from hypothesis import given, settings, strategies as st
from linear_methods import ragged

from ntkfl import interruption
from ntkfl.exact_dynamics import of_method
from ntkfl.limit import outer_spectrum
from ntkfl.limit.infinite_width import algorithm1_limit
from ntkfl.limit.outer_spectrum import MARGIN, others_within, pair_radius
from ntkfl.problem import Setup

DOUBLE = 1e-7  # a dense solver finds double zeros to the root of rounding


def feddyn(sizes, alpha, share=0.5, steps=3, **options):
    base = algorithm1_limit(ragged(sizes, **options), Setup())
    setup = Setup(eta_local=share / base.blocks.clients.values.max(), local_steps=steps)
    return of_method(base.at(setup), "feddyn", {"alpha": alpha})


def quadratic(regime):
    """D and A of the regime's state map."""
    outer = regime.round.outer
    root = outer.scale**-0.5
    between = regime._clients.turned(regime.gram) / regime.problem.n_clients * root * root[:, None]
    between = (between + between.T) / 2
    return between + np.diag(outer.zero), outer.pole[0] * between


def zeros(damping, stiffness):
    """All zeros and vectors of w^2 + w D + A by a dense solver, outermost first."""
    n = len(damping)
    w, states = np.linalg.eig(np.block([[np.zeros((n, n)), np.eye(n)], [-stiffness, -damping]]))
    order = np.argsort(-np.abs(1 + w))
    return w[order], states[:n, order]


def proved(damping, stiffness, w, vectors, chosen, extra):
    """Whether all other zeros above the real line are proved to be within the outermost of these."""
    radius = np.abs(1 + w[chosen]).max() - MARGIN
    return others_within(radius, damping, stiffness, w[chosen], vectors[:, chosen], extra * (1 - radius**2))


draws = {
    "sizes": st.lists(st.integers(1, 6), min_size=1, max_size=4),
    "alpha": st.floats(-10, 3).map(lambda power: 2.0**power),
    "share": st.floats(0.05, 1.8),
    "steps": st.integers(1, 6),
    "d": st.sampled_from([4, 12, 40]),
    "repeated": st.booleans(),
    "seed": st.integers(0, 2**16),
}


@settings(deadline=None, max_examples=100)
@given(**draws, extra=st.floats(0.01, 1), count=st.integers(1, 12), outermost=st.booleans())
def test_what_is_proved_of_the_others_is_so(sizes, alpha, share, steps, d, repeated, seed, extra, count, outermost):
    regime = feddyn(sizes, alpha, share, steps, d=d, repeated=repeated and sum(sizes) > 1, seed=seed)
    if not regime.round.outer.known:
        return
    damping, stiffness = quadratic(regime)
    w, vectors = zeros(damping, stiffness)
    assert np.abs(1 + w[0]) == pytest.approx(np.abs(np.linalg.eigvals(regime.round_map)).max(), abs=DOUBLE)
    above = np.flatnonzero(w.imag > DOUBLE)
    chosen = above[:count] if outermost else np.random.default_rng(seed).permutation(above)[:count]
    if len(chosen) and proved(damping, stiffness, w, vectors, chosen, extra):
        assert np.abs(1 + w[0]) <= np.abs(1 + w[chosen]).max() + DOUBLE


def test_nothing_is_proved_without_the_outermost_pair_and_all_is_with_it():
    damping, stiffness = quadratic(feddyn((9, 7, 12), 0.01, d=30))
    w, vectors = zeros(damping, stiffness)
    above = np.flatnonzero(w.imag > 0)
    assert proved(damping, stiffness, w, vectors, above[:6], 0.1)
    for first in (1, 2, 3):
        assert not proved(damping, stiffness, w, vectors, above[first : first + 6], 0.1)
    assert not proved(damping, stiffness, w, vectors, above[[0, 0, 1]], 0.1)  # one pair is given twice


def test_a_real_zero_farther_out_is_not_hidden_by_pairs():
    damping, stiffness = quadratic(feddyn((9, 7, 12), 0.5, d=30))
    w, vectors = zeros(damping, stiffness)
    above = np.flatnonzero(w.imag > 0)
    assert w[0].imag == 0 and len(above) and not proved(damping, stiffness, w, vectors, above[:6], 0.1)


def test_the_pair_is_that_of_the_whole_state_map(monkeypatch):
    monkeypatch.setattr(outer_spectrum, "ROWS", 2)
    complex_count = 0
    for seed, alpha in enumerate((0.001, 0.003, 0.01, 0.03, 0.1, 0.3, 1.0)):
        regime = feddyn((20, 17, 23), alpha, d=60, seed=seed)
        radius = regime.round.outer.largest(regime.gram, regime._clients)
        dense = np.linalg.eigvals(regime.round_map)
        if radius is not None:
            assert radius == pytest.approx(np.abs(dense).max(), rel=1e-12)
            complex_count += dense[np.abs(dense).argmax()].imag != 0
    assert complex_count >= 3


def test_few_rows_are_left_to_the_dense_solver_and_so_is_what_is_not_proved(monkeypatch):
    damping, stiffness = quadratic(feddyn((20, 17, 23), 0.01, d=60))
    assert pair_radius(damping, stiffness) is None
    monkeypatch.setattr(outer_spectrum, "ROWS", 2)
    assert pair_radius(damping, stiffness) is not None
    monkeypatch.setattr(outer_spectrum, "RESIDUAL", 0)
    assert pair_radius(damping, stiffness) is None
    monkeypatch.undo()
    monkeypatch.setattr(outer_spectrum, "ROWS", 2)
    monkeypatch.setattr(outer_spectrum, "others_within", lambda *given: False)
    assert pair_radius(damping, stiffness) is None


def test_an_interrupt_is_noticed(monkeypatch):
    monkeypatch.setattr(outer_spectrum, "ROWS", 2)

    monkeypatch.setattr(interruption, "check", Mock(side_effect=KeyboardInterrupt))
    with pytest.raises(KeyboardInterrupt):
        pair_radius(*quadratic(feddyn((20, 17, 23), 0.01, d=60)))


@pytest.mark.parametrize("mixed", [1e-5, 1e-4, 1e-3, 1e-2])
def test_a_zero_found_twice_does_not_hide_its_neighbour(mixed):
    """Both vectors contain a little of a neighbour's vector; the neighbour is farther out and was not found."""
    inner, outer = -0.2 + 0.3j, -0.2 + (0.3 + 1e-9) * 1j
    w = np.array([inner, outer, *(-0.6 + 0.1j * np.arange(1, 7))])
    vectors = np.zeros((len(w), 2), complex)
    vectors[0], vectors[1] = 1, (mixed, -mixed)
    radius = np.abs(1 + inner) - MARGIN
    assert np.abs(1 + outer) > radius + MARGIN
    zeros, damping, stiffness = np.full(2, inner), np.diag(-2 * w.real), np.diag(np.abs(w) ** 2)
    assert not others_within(radius, damping, stiffness, zeros, vectors, 0.01)
    apart = np.delete(np.arange(len(w)), 1)  # without the neighbour the bound is proved
    once = np.ix_(apart, apart)
    assert others_within(radius, damping[once], stiffness[once], zeros[:1], vectors[apart, :1], 0.01)
