"""Tests of the outermost eigenvalue, or complex pair, of a round.

An eigenvalue that is proved to be outermost is compared with all eigenvalues of a dense solver. If the outermost
eigenvalue was not found, nothing is proved. The notation is that of `ntkfl.limit.outer_spectrum`.
"""

from unittest.mock import Mock

import numpy as np
import pytest
from hypothesis import given, settings, strategies as st
from linear_methods import ragged

from ntkfl import interruption
from ntkfl.exact_dynamics import of_method
from ntkfl.limit import outer_spectrum
from ntkfl.limit.infinite_width import algorithm1_limit
from ntkfl.limit.outer_spectrum import MARGIN, OuterSpectrum, others_within, pair_radius
from ntkfl.problem import Problem, Setup

DOUBLE = 1e-7  # A dense solver finds double zeros and eigenvalues only to the root of the rounding error.


def regime(problem, method, options, share, steps):
    """Returns the kernel regime at a local step of `share` divided by the largest client eigenvalue."""
    base = algorithm1_limit(problem, Setup())
    setup = Setup(eta_local=share / base.blocks.clients.values.max(), local_steps=steps)
    return of_method(base.at(setup), method, options)


def agrees(regime):
    """Says whether the regime has an outermost real eigenvalue, and asserts that it is the largest eigenvalue that a
    dense solver finds.
    """
    dense = np.linalg.eigvals(regime.round_map)
    outer, turned = regime.round.outer, regime._clients.turned(regime.gram) / regime.problem.n_clients
    if outer is None or not outer.known:
        return False
    beyond = dense[np.abs(dense) > outer.radius(turned) + DOUBLE]
    assert np.abs(beyond.imag).max(initial=0) <= DOUBLE
    largest = outer.largest(regime.gram, regime._clients)
    if largest is None:
        assert len(beyond) == 0
        return False
    assert largest == pytest.approx(np.abs(dense).max(), rel=DOUBLE, abs=0)
    return True


def problems(sizes, seed, kind):
    problem = ragged(sizes, seed=seed, repeated=kind == "repeated", d=12 if kind == "wide" else 4)
    if kind != "identical":
        return problem
    return Problem(np.tile(problem.x, (2, 1)), np.tile(problem.y, 2), np.repeat([0, 1], problem.n))


data = st.builds(
    problems,
    st.lists(st.integers(1, 6), min_size=1, max_size=4),
    st.integers(0, 2**16),
    st.sampled_from(["plain", "repeated", "wide", "identical"]),
)


@settings(deadline=None, max_examples=50)
@given(problem=data, share=st.floats(0.01, 2.5), steps=st.integers(1, 6), rate=st.floats(-6, 6))
def test_of_scaffold(problem, share, steps, rate):
    agrees(regime(problem, "scaffold", {"server_rate": 2.0**rate}, share, steps))


@settings(deadline=None, max_examples=50)
@given(problem=data, share=st.floats(0.01, 2.5), steps=st.integers(1, 6), alpha=st.floats(-8, 4))
def test_of_feddyn(problem, share, steps, alpha):
    agrees(regime(problem, "feddyn", {"alpha": 2.0**alpha}, share, steps))


def test_it_is_found_where_training_is_slow_or_diverges_and_left_to_others_where_complex_pairs_may_lead():
    problem = ragged((9, 4, 12), d=30)
    for method, options in (
        ("scaffold", {"server_rate": 0.1}),
        ("scaffold", {"server_rate": 30.0}),
        ("feddyn", {"alpha": 5.0}),
    ):
        assert agrees(regime(problem, method, options, 0.5, 3)), options
    turning = regime(problem, "feddyn", {"alpha": 0.01}, 0.5, 3)
    assert not agrees(turning) and abs(turning.spectrum[-1].imag) > 0.01
    assert turning.rate == pytest.approx(np.abs(turning.spectrum[-1]), rel=1e-12)
    assert regime(problem, "scaffold", {"option": "I"}, 0.5, 3).round.outer is None


def test_clients_who_take_unlike_numbers_of_steps_are_left_to_others_by_scaffold_and_not_by_feddyn():
    base = algorithm1_limit(ragged((5, 5), d=12), Setup())
    setup = Setup(eta_local=0.3 / base.blocks.clients.values.max(), local_steps=2)
    assert of_method(base.at(setup), "scaffold", {}, client_steps=(1, 4)).round.outer is None
    assert agrees(of_method(base.at(setup), "feddyn", {"alpha": 3.0}, client_steps=(1, 4)))
    assert agrees(of_method(base.at(setup), "scaffold", {"server_rate": 0.2}, step_factors=(1.0, 0.5)))


def test_the_server_rate_at_which_scaffold_turns_unstable_is_that_of_the_whole_map():
    problem = ragged((9, 4, 12), d=30)
    limit = regime(problem, "scaffold", {}, 0.5, 3).step_limits.eta_global
    for change, stable in ((1 - 1e-6, True), (1 + 1e-6, False)):
        near = regime(problem, "scaffold", {"server_rate": limit * change}, 0.5, 3)
        assert near.stable == (np.abs(np.linalg.eigvals(near.round_map)).max() < 1) == stable


@pytest.mark.parametrize("method", ["scaffold", "feddyn"])
def test_the_side_of_a_large_map_is_that_of_the_whole_map_and_not_decided_at_the_limit(method, monkeypatch):
    problem, sides = ragged((9, 4, 12), d=30), {}
    if method == "scaffold":
        last = regime(problem, "scaffold", {}, 0.5, 3).step_limits.eta_global
        at = [{"server_rate": last * factor} for factor in (0.5, 1 - 1e-8, 1 + 1e-8, 3)]
    else:
        at = [{"alpha": alpha} for alpha in (0.3, 1.0, 5.0, 100.0)]
    monkeypatch.setattr("ntkfl.limit.linear_regime.DENSE", 0)
    for options in at:
        large = regime(problem, method, options, 0.5, 3)
        radius = np.abs(np.linalg.eigvals(large.round_map)).max()
        side = large.round.outer.side_of_one(large.gram, large._clients)
        if side is not None:
            assert side == large._side and (side == 0 or (radius < 1) == (side < 0))
            assert large.stable == (side < 0) and large.undecided == (side == 0)
            sides[next(iter(options.values()))] = side
    if method == "scaffold":
        assert list(sides.values()) == [-1, -1, 1, 1]
        low, high = last * (1 - 1e-8), last * (1 + 1e-8)
        while high - low > 1e-16 * last:
            middle = (low + high) / 2
            side = regime(problem, method, {"server_rate": middle}, 0.5, 3)._side
            if side == 0:
                return
            low, high = (middle, high) if side < 0 else (low, middle)
        pytest.fail("everything was decided")
    assert -1 in sides.values()


def test_many_slow_modes_close_together_are_told_apart():
    """Slow modes that are close together are distinguished.

    Eigenvalues of H lie 1e-9 apart, and the largest one is found up to rounding.
    """
    rng = np.random.default_rng(0)
    basis = np.linalg.qr(rng.standard_normal((12, 12)))[0]
    gram = basis * (1e-3 + 1e-9 * np.arange(12)) @ basis.T
    problem = Problem(np.eye(12), np.ones(12), None)
    regime = of_method(
        algorithm1_limit(problem, Setup(eta_local=1.0, local_steps=1), (gram + gram.T) / 2), "scaffold", {}
    )
    assert regime.round.outer.largest(regime.gram, regime._clients) == pytest.approx(1 - 1e-3, abs=2e-15)


def test_the_pace_is_known_where_the_rate_is_nearly_one():
    """The speed of training is known even if the rate is nearly one.

    With one local step, 1 minus the eigenvalue is g eta / N times the least eigenvalue of H, here 1e-10.
    """
    problem, gram = Problem(np.eye(3), np.ones(3), np.array([0, 0, 1])), np.array([[2, 1, 0], [1, 2, 0], [0, 0, 3.0]])
    base = algorithm1_limit(problem, Setup(eta_local=1e-9, local_steps=1), gram)
    regime = of_method(base, "scaffold", {"server_rate": 0.2})
    assert 1 - regime.round.outer.largest(regime.gram, regime._clients) == pytest.approx(1e-10, abs=2e-15)


def test_the_radius_holds_what_rounding_may_hide():
    """The radius includes what rounding may hide.

    If p and b, which are `zero` and `pole`, differ by a rounding error only, no computed difference shows this error.
    But the radius has a term (b (b - p))^(1/2), so the square root of such an error, about 1e-8, is part of the radius.
    """
    pole = np.array([0.3, 0.7])
    for hidden in (0, 1e-15, -1e-15):
        outer = OuterSpectrum(np.ones(2), pole * (1 + hidden), pole)
        assert outer.radius(np.eye(2)) >= (1 - pole + pole * np.sqrt(2e-15)).max()


def test_signs_that_the_argument_does_not_cover_are_not_taken():
    good = np.array([0.5, 1.0])
    assert OuterSpectrum(good, good, good).known
    for bad in (np.array([0.5, 0.0]), np.array([0.5, np.nan]), np.array([0.5, np.inf]), np.array([-1.0, 1.0])):
        assert not OuterSpectrum(bad, good, good).known and not OuterSpectrum(good, bad, good).known
        assert not OuterSpectrum(good, good, bad).known
    assert not OuterSpectrum(good, good, 2 * good).known
    even = regime(ragged((4, 3)), "scaffold", {}, 2.0, 4)  # The client's response f_K is 0 at the largest eigenvalue.
    assert not even.round.outer.known and even.rate == pytest.approx(np.abs(even.spectrum[-1]), rel=1e-12)


def test_a_residual_that_stays_has_rate_one():
    slow = regime(ragged((3, 4), repeated=True), "scaffold", {"server_rate": 0.5}, 0.5, 3)
    assert agrees(slow) and slow.rate == pytest.approx(1, abs=1e-12) and not slow.stable


def test_a_regime_takes_it_where_its_state_map_is_not_small(monkeypatch):
    problem = ragged((9, 4, 12), d=30)
    dense = regime(problem, "scaffold", {"server_rate": 0.1}, 0.5, 3)
    whole = dense.rate
    monkeypatch.setattr("ntkfl.limit.linear_regime.CHOLESKY_ABOVE", 0)
    large = regime(problem, "scaffold", {"server_rate": 0.1}, 0.5, 3)
    assert large.rate == large.round.outer.largest(large.gram, large._clients) == pytest.approx(whole, rel=1e-12)
    assert "round_map" in vars(dense) and "round_map" not in vars(large)


def test_an_interrupt_is_noticed(monkeypatch):
    monkeypatch.setattr("ntkfl.limit.linear_regime.CHOLESKY_ABOVE", 0)

    monkeypatch.setattr(interruption, "check", Mock(side_effect=KeyboardInterrupt))
    with pytest.raises(KeyboardInterrupt):
        _ = regime(ragged((4, 3)), "scaffold", {"server_rate": 0.1}, 0.5, 2).rate


@pytest.mark.parametrize("pole", [0.5 * np.ones(5), np.linspace(0.4, 0.6, 5)], ids=["one pole", "unlike poles"])
def test_what_no_float64_encloses_is_left_to_others(pole):
    """If no float64 encloses the eigenvalue, another computation is used.

    The search for an upper end of the enclosure exceeds the largest float64 and stops. An earlier version never
    stopped.
    """
    base = algorithm1_limit(ragged((2, 3), seed=1), Setup())
    outer = OuterSpectrum(np.full(5, 1e-300), np.full(5, 1e-3), pole)
    assert outer.known and outer.largest(1e12 * base.gram, base.blocks.clients) is None


def feddyn(sizes, alpha, share=0.5, steps=3, **options):
    base = algorithm1_limit(ragged(sizes, **options), Setup())
    setup = Setup(eta_local=share / base.blocks.clients.values.max(), local_steps=steps)
    return of_method(base.at(setup), "feddyn", {"alpha": alpha})


def quadratic(regime):
    """Returns D and A of the regime's state map."""
    outer = regime.round.outer
    root = outer.scale**-0.5
    between = regime._clients.turned(regime.gram) / regime.problem.n_clients * root * root[:, None]
    between = (between + between.T) / 2
    return between + np.diag(outer.zero), outer.pole[0] * between


def zeros(damping, stiffness):
    """Returns all zeros and vectors of w^2 + w D + A by a dense solver, outermost first."""
    n = len(damping)
    w, states = np.linalg.eig(np.block([[np.zeros((n, n)), np.eye(n)], [-stiffness, -damping]]))
    order = np.argsort(-np.abs(1 + w))
    return w[order], states[:n, order]


def proved(damping, stiffness, w, vectors, chosen, extra):
    """Says whether the outermost chosen zero is proved to be farther out than all zeros that are not chosen.

    The complex conjugates of the chosen zeros count as chosen too.
    """
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
    assert not proved(damping, stiffness, w, vectors, above[[0, 0, 1]], 0.1)  # One pair is given twice.


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


def test_an_interrupt_of_a_search_for_pairs_is_noticed(monkeypatch):
    monkeypatch.setattr(outer_spectrum, "ROWS", 2)

    monkeypatch.setattr(interruption, "check", Mock(side_effect=KeyboardInterrupt))
    with pytest.raises(KeyboardInterrupt):
        pair_radius(*quadratic(feddyn((20, 17, 23), 0.01, d=60)))


@pytest.mark.parametrize("mixed", [1e-5, 1e-4, 1e-3, 1e-2])
def test_a_zero_found_twice_does_not_hide_its_neighbour(mixed):
    """A zero that is found twice does not hide its neighbour.

    Both vectors contain a little of the neighbour's vector. The neighbour is farther out and was not found.
    """
    inner, outer = -0.2 + 0.3j, -0.2 + (0.3 + 1e-9) * 1j
    w = np.array([inner, outer, *(-0.6 + 0.1j * np.arange(1, 7))])
    vectors = np.zeros((len(w), 2), complex)
    vectors[0], vectors[1] = 1, (mixed, -mixed)
    radius = np.abs(1 + inner) - MARGIN
    assert np.abs(1 + outer) > radius + MARGIN
    zeros, damping, stiffness = np.full(2, inner), np.diag(-2 * w.real), np.diag(np.abs(w) ** 2)
    assert not others_within(radius, damping, stiffness, zeros, vectors, 0.01)
    apart = np.delete(np.arange(len(w)), 1)  # If the neighbour did not exist, the bound would be proved.
    once = np.ix_(apart, apart)
    assert others_within(radius, damping[once], stiffness[once], zeros[:1], vectors[apart, :1], 0.01)
