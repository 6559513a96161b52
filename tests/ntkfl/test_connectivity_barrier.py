"""Tests of the exact computation of barriers between networks, which is compared with rational arithmetic.

The value of a barrier is attained, and no value on a grid exceeds it. A barrier keeps its value if the networks are
swapped, the inputs are repeated or a power of two is moved between the layers.
"""

from fractions import Fraction
from itertools import pairwise

import mpmath as mp
import numpy as np
import pytest
from hypothesis import given, settings, strategies as st

from ntkfl.connectivity.barrier import (
    accuracy_barrier,
    connectivity_loss,
    group_accuracy_barrier,
    group_barrier,
    largest_gap,
    largest_loss,
    loss_barrier,
)
from ntkfl.connectivity.network import TwoLayer, between
from ntkfl.connectivity.paths import convex_path
from ntkfl.connectivity.paths.accuracy_path import accuracy_path
from ntkfl.connectivity.paths.segment import Segment, squared_error

QUICK = settings(deadline=None, max_examples=25)
GRID = [Fraction(k, 24) for k in range(25)]
POLYNOMIAL = ("squared", "absolute")


def _numbers(whole):
    return st.integers(-3, 3).map(float) if whole else st.floats(-4, 4, allow_subnormal=False)


@st.composite
def pairs(draw, outputs=1):
    """Draws two networks, inputs and labels: small integers (ties, dead units, common kinks) or any floats."""
    h, d, n = draw(st.integers(1, 4)), draw(st.integers(1, 3)), draw(st.integers(1, 5))
    number = _numbers(draw(st.booleans()))

    def array(*shape):
        size = int(np.prod(shape))
        return np.array(draw(st.lists(number, min_size=size, max_size=size))).reshape(shape)

    readout = (h,) if outputs == 1 else (outputs, h)
    networks = [TwoLayer(array(h, d), array(*readout)) for _ in range(2)]
    return *networks, array(n, d), array(n) if outputs == 1 else array(n, outputs)


def drawn(seed, h=16, d=5, n=40):
    rng = np.random.default_rng(seed)
    nets = [TwoLayer(rng.normal(size=(h, d)) / np.sqrt(d), rng.normal(size=h) / np.sqrt(h)) for _ in range(2)]
    return *nets, rng.normal(size=(n, d)), rng.choice([-1.0, 1.0], size=n)


def exact_outputs(first, second, alpha, x):
    """Returns f at alpha w_1 + (1 - alpha) w_2 in rational arithmetic, [n][C]."""

    def mixed(a, b):
        return [
            [alpha * Fraction(p) + (1 - alpha) * Fraction(q) for p, q in zip(r, s, strict=True)]
            for r, s in zip(np.atleast_2d(a).tolist(), np.atleast_2d(b).tolist(), strict=True)
        ]

    hidden, readout = mixed(first.hidden, second.hidden), mixed(first.readout, second.readout)
    rows = [[Fraction(value) for value in row] for row in x.tolist()]
    active = [[max(sum(u * v for u, v in zip(unit, row, strict=True)), Fraction(0)) for unit in hidden] for row in rows]
    return [[sum(v * g for v, g in zip(out, gates, strict=True)) for out in readout] for gates in active]


def exact_loss(first, second, alpha, x, y, loss):
    labels = np.asarray(y).reshape(len(y), -1).tolist()
    total = Fraction(0)
    for outputs, label in zip(exact_outputs(first, second, alpha, x), labels, strict=True):
        gaps = [f - Fraction(t) for f, t in zip(outputs, label, strict=True)]
        total += sum(gap * gap for gap in gaps) if loss == "squared" else sum(abs(gap) for gap in gaps)
    return total / len(y)


def exact_excess(first, second, alpha, x, y, loss):
    ends = [exact_loss(first, second, Fraction(end), x, y, loss) for end in (0, 1)]
    return exact_loss(first, second, alpha, x, y, loss) - alpha * ends[1] - (1 - alpha) * ends[0]


@QUICK
@given(pairs(), st.sampled_from(POLYNOMIAL))
def test_the_enclosure_holds_the_exact_value_where_it_is_taken_and_no_grid_value_exceeds_it(pair, loss):
    barrier = loss_barrier(*pair, loss)
    taken = exact_excess(*pair[:2], Fraction(barrier.at), *pair[2:], loss)
    assert float(taken) <= barrier.value.hi
    # For these sizes |d/d alpha| of the loss is below `slope`. `at` is the maximiser rounded to float64.
    slope = 1e4
    assert float(taken) >= barrier.value.lo - slope * np.finfo(float).eps or barrier.value.value == 0
    assert all(float(exact_excess(*pair[:2], alpha, *pair[2:], loss)) <= barrier.value.hi for alpha in GRID)


@QUICK
@given(pairs(outputs=3))
def test_several_outputs(pair):
    barrier = loss_barrier(*pair)
    assert all(float(exact_excess(*pair[:2], alpha, *pair[2:], "squared")) <= barrier.value.hi for alpha in GRID)


@QUICK
@given(pairs(), st.sampled_from(POLYNOMIAL))
def test_swapping_the_networks_mirrors_the_segment(pair, loss):
    first, second, x, y = pair
    one, other = loss_barrier(first, second, x, y, loss), loss_barrier(second, first, x, y, loss)
    assert abs(one.value.value - other.value.value) <= one.value.error + other.value.error


@QUICK
@given(pairs(), st.sampled_from(POLYNOMIAL))
def test_a_network_and_itself_have_no_barrier(pair, loss):
    first, _, x, y = pair
    barrier = loss_barrier(first, first, x, y, loss)
    assert barrier.value.lo <= 0 <= barrier.value.value <= barrier.value.error
    assert barrier.pieces <= 1 + 2 * len(y) * (loss == "absolute")


@QUICK
@given(pairs())
def test_repeating_the_inputs_changes_nothing(pair):
    first, second, x, y = pair
    one = loss_barrier(first, second, x, y)
    twice = loss_barrier(first, second, np.concatenate([x, x]), np.concatenate([y, y]))
    assert abs(one.value.value - twice.value.value) <= one.value.error + twice.value.error


@QUICK
@given(pairs(), st.integers(-6, 6))
def test_moving_a_power_of_two_between_the_layers_of_both_networks_changes_a_linear_path_only(pair, power):
    """Moving a power of two between the layers keeps every barrier.

    The map u -> s u, v -> v / s of both networks is linear, so it commutes with interpolation.
    """
    first, second, x, y = pair
    scaled = [TwoLayer(net.hidden * 2.0**power, net.readout / 2.0**power) for net in (first, second)]
    one, other = loss_barrier(first, second, x, y), loss_barrier(*scaled, x, y)
    assert one.value.value == other.value.value and one.pieces == other.pieces


@QUICK
@given(pairs(), st.sampled_from(POLYNOMIAL))
def test_the_integral_is_that_of_every_piece(pair, loss):
    """For the squared loss the integral agrees with Boole's rule in rational arithmetic.

    The rule is applied to each piece of the path, which is an interval of alpha on which no unit turns on or off. For
    the absolute loss the test only asserts that the integral is not below 0.
    """
    first, second, x, y = pair
    integral = connectivity_loss(first, second, x, y, loss)
    assert integral.hi >= 0
    cuts = {Fraction(0), Fraction(1)}
    for row in x.tolist():
        for left_unit, two in zip(first.hidden.tolist(), second.hidden.tolist(), strict=True):
            a, c = (sum(Fraction(u) * Fraction(v) for u, v in zip(unit, row, strict=True)) for unit in (left_unit, two))
            if a * c < 0:
                cuts.add(-c / (a - c))
    edges = sorted(cuts)
    weights = (7, 32, 12, 32, 7)  # Boole's rule is exact to degree 5.
    if loss == "squared":
        total = Fraction(0)
        for left, right in pairwise(edges):
            nodes = [left + (right - left) * Fraction(k, 4) for k in range(5)]
            values = [exact_loss(first, second, node, x, y, loss) for node in nodes]
            total += (right - left) * sum(w * v for w, v in zip(weights, values, strict=True)) / 90
        assert integral.lo <= float(total) <= integral.hi


def integral_by_quadrature(first, second, x, y):
    """Returns the integral of the mean loss, by Gauss's rule between the kinks of each sample; correct to 1e-14."""
    nodes, weights = np.polynomial.legendre.leggauss(40)
    total = 0.0
    for row, label in zip(x, y.astype(int), strict=True):
        one, two = first.hidden @ row, second.hidden @ row
        cuts = [c / (c - a) for a, c in zip(one, two, strict=True) if a * c < 0]
        for left, right in pairwise(np.unique([*cuts, *np.linspace(0, 1, 9)])):
            alpha = (left + right + (right - left) * nodes)[:, None, None] / 2
            hidden = np.maximum(alpha * one + (1 - alpha) * two, 0)
            readout = alpha * np.atleast_2d(first.readout) + (1 - alpha) * np.atleast_2d(second.readout)
            out = (hidden * readout).sum(axis=2)
            logits = out - out[:, [label]] if len(readout[0]) > 1 else np.hstack([0 * out, -label * out])
            total += (right - left) / 2 * weights @ np.logaddexp.reduce(logits, axis=1)
    return total / len(y)


@pytest.mark.parametrize("outputs", [1, 3])
@pytest.mark.parametrize("scale", [0.1, 1.0, 6.0])
def test_the_integral_of_a_loss_that_is_no_polynomial(outputs, scale):
    rng = np.random.default_rng([outputs, int(10 * scale)])
    shape = (4,) if outputs == 1 else (outputs, 4)
    nets = [TwoLayer(scale * rng.normal(size=(4, 2)), scale * rng.normal(size=shape)) for _ in range(2)]
    x, y = rng.normal(size=(3, 2)), rng.choice([-1, 1], 3) if outputs == 1 else rng.integers(0, outputs, 3)
    integral = connectivity_loss(*nets, x, y, "logistic" if outputs == 1 else "cross-entropy")
    true = integral_by_quadrature(*nets, x, y)
    assert integral.error < 1e-10
    assert abs(true - float(integral.value)) <= float(integral.error)


def test_cross_entropy_of_two_classes_is_the_logistic_loss_of_the_difference():
    rng = np.random.default_rng(3)
    nets = [TwoLayer(rng.normal(size=(5, 3)), 3 * rng.normal(size=(2, 5))) for _ in range(2)]
    x, y = rng.normal(size=(7, 3)), rng.integers(0, 2, 7)
    single = [TwoLayer(net.hidden, net.readout[1] - net.readout[0]) for net in nets]
    one = connectivity_loss(*nets, x, y, "cross-entropy")
    other = connectivity_loss(*single, x, 2 * y - 1, "logistic")
    assert abs(one.value - other.value) <= one.error + other.error < 2e-10


@pytest.mark.parametrize("most", [1, 40])
def test_too_few_parts_widen_the_error_and_keep_the_truth(monkeypatch, most):
    first, second, x, y = drawn(9, n=6)
    nets = [TwoLayer(40 * net.hidden, net.readout) for net in (first, second)]
    fine = connectivity_loss(*nets, x, y, "logistic")
    monkeypatch.setattr(convex_path, "MOST_PARTS", most)
    coarse = connectivity_loss(*nets, x, y, "logistic")
    assert coarse.error > 10 * fine.error
    assert abs(coarse.value - fine.value) <= coarse.error + fine.error


@QUICK
@given(pairs(), st.integers(-60, 60), st.sampled_from(POLYNOMIAL))
def test_the_barrier_is_homogeneous_in_inputs_and_labels(pair, power, loss):
    first, second, x, y = pair
    one = loss_barrier(first, second, x, y, loss)
    scaled = loss_barrier(first, second, np.ldexp(x, power), np.ldexp(y, power), loss).value
    factor = 2.0 ** (power * (2 if loss == "squared" else 1))
    assert abs(scaled.value - factor * one.value.value) <= scaled.error + factor * one.value.error


@QUICK
@given(pairs(), st.sampled_from(POLYNOMIAL))
def test_the_largest_loss_is_taken_and_nothing_on_a_grid_exceeds_it(pair, loss):
    largest = largest_loss(*pair, loss)
    assert all(float(exact_loss(*pair[:2], alpha, *pair[2:], loss)) <= largest.value.hi for alpha in GRID)
    taken = float(exact_loss(*pair[:2], Fraction(largest.at), *pair[2:], loss))
    assert taken >= largest.value.lo - 1e4 * np.finfo(float).eps  # `at` is rounded, as in the test of barriers above.


def test_linear_networks_and_a_convex_loss_have_no_barrier():
    rng = np.random.default_rng(1)
    x = np.abs(rng.normal(size=(30, 4)))
    readout = rng.normal(size=6)
    # Every unit is active, and the two networks have the same readout.
    nets = [TwoLayer(np.abs(rng.normal(size=(6, 4))), readout) for _ in range(2)]
    for loss in ("squared", "absolute"):
        assert loss_barrier(*nets, x, np.ones(30), loss).value.value <= 1e-12


def test_a_permuted_copy_has_a_barrier_that_grids_miss():
    rng = np.random.default_rng(0)
    first = TwoLayer(rng.normal(size=(16, 5)), rng.normal(size=16) / 4)
    order = rng.permutation(16)
    second = TwoLayer(first.hidden[order], first.readout[order])
    x = rng.normal(size=(40, 5))
    y = first.outputs(x) + 0.1 * rng.normal(size=40)
    barrier = loss_barrier(first, second, x, y)
    ends = [np.mean((net.outputs(x) - y) ** 2) for net in (first, second)]
    assert np.isclose(*ends, rtol=1e-13)

    def grid(points):
        losses = [np.mean((between(first, second, a).outputs(x) - y) ** 2) for a in np.linspace(0, 1, points)]
        return max(losses) - ends[0]

    assert barrier.value.error < 1e-13
    # The error of the grid exceeds the error of the barrier.
    assert 1e-4 < barrier.value.value - grid(11) < 0.05 * barrier.value.value
    assert 0 < barrier.value.value - grid(1001) < 1e-5
    taken = exact_excess(first, second, Fraction(barrier.at), x, y, "squared")
    assert barrier.value.lo <= float(taken) <= barrier.value.hi


def test_many_samples_with_the_same_kink_are_one_corner():
    """Many samples with the same kink give one corner.

    f = relu((2 alpha - 1) x) with x > 0, so that every sample's unit turns on at alpha = 1/2.
    """
    first, second = TwoLayer([[1.0]], [1.0]), TwoLayer([[-1.0]], [1.0])
    x = np.arange(1.0, 6.0)[:, None]
    barrier = loss_barrier(first, second, x, np.zeros(5), "absolute")
    assert barrier.value.value <= barrier.value.error  # relu is convex in alpha, so there is no barrier.
    # |f - 10| = 10 - f is concave, with a corner at 1/2.
    above = loss_barrier(first, second, x, 10 * np.ones(5), "absolute")
    assert np.isclose(above.value.value, 1.5, atol=2 * above.value.error) and np.isclose(above.at, 0.5)


def test_a_double_root_and_a_residual_of_zero():
    """f = alpha^2 touches the label 0 at alpha = 0; |alpha^2 - 0| and (alpha^2)^2 are convex, so the barrier is 0."""
    first, second, x = TwoLayer([[1.0]], [1.0]), TwoLayer([[0.0]], [0.0]), np.ones((1, 1))
    for loss in POLYNOMIAL:
        assert loss_barrier(first, second, x, np.zeros(1), loss).value.value <= 1e-15
    same = loss_barrier(first, first, x, np.ones(1), "absolute")
    assert same.value.value == 0.0
    # |alpha^2 - 1/4| - (1/4 + alpha/2) is at most 0.
    half = loss_barrier(first, second, x, np.array([0.25]), "absolute")
    assert half.value.value <= half.value.error


def test_a_unit_that_turns_on_exactly_at_an_end():
    """If the pre-activation is 0 at one end, the sign at the other end decides whether the unit is active all
    the way.
    """
    x = np.ones((1, 1))
    for end, other, expected in ((0.0, 2.0, 1.0), (0.0, -2.0, 0.0), (2.0, 0.0, 1.0), (-2.0, 0.0, 0.0)):
        path = squared_error(Segment(TwoLayer([[other]], [1.0]), TwoLayer([[end]], [1.0]), x), np.zeros(1))
        assert len(path.coefficients) == 1
        assert np.isclose(np.sqrt(path.at(0.5)), expected)


def test_kinks_so_close_to_an_end_that_their_alpha_rounds_to_it():
    x = np.ones((1, 1))
    for tiny in (1e-300, 1e-17, 5e-324):
        for before, two in ((1.0, -tiny), (-tiny, 1.0), (-1.0, tiny), (tiny, -1.0)):
            barrier = loss_barrier(TwoLayer([[before]], [1.0]), TwoLayer([[two]], [1.0]), x, np.ones(1))
            taken = exact_excess(
                TwoLayer([[before]], [1.0]), TwoLayer([[two]], [1.0]), Fraction(barrier.at), x, np.ones(1), "squared"
            )
            assert barrier.value.lo <= float(taken) + 1e-15 and float(taken) <= barrier.value.hi


def test_dead_units_and_repeated_rows_are_no_pieces():
    first = TwoLayer([[-1.0, -1.0], [1.0, 0.0], [1.0, 0.0]], [3.0, 1.0, 1.0])
    second = TwoLayer([[-2.0, -1.0], [0.5, 0.0], [0.5, 0.0]], [1.0, 1.0, 1.0])
    x = np.abs(np.random.default_rng(3).normal(size=(7, 2)))
    assert loss_barrier(first, second, x, np.ones(7)).pieces == 1


def test_long_sums_keep_the_error_small_at_many_units():
    barrier = loss_barrier(*drawn(5, h=600, d=30, n=25))
    assert barrier.value.error < 1e-12


@settings(deadline=None, max_examples=10)
@given(pairs())
def test_the_logistic_barrier_encloses_a_grid(pair):
    first, second, x, y = pair
    y = np.where(y >= 0, 1.0, -1.0)
    barrier = loss_barrier(first, second, x, y, "logistic")
    assert barrier.value.error <= 1.1e-10
    alphas = np.linspace(0, 1, 201)
    losses = [np.logaddexp(0, -y * between(first, second, a).outputs(x)).mean() for a in alphas]
    excess = losses - (1 - alphas) * losses[0] - alphas * losses[-1]
    assert excess.max() <= barrier.value.hi + 1e-13
    # `steepest` is the largest |df/d alpha| times a grid step. A grid misses the supremum by at most this.
    steepest = 2 * 48 * 36 / 200
    assert barrier.value.lo <= excess.max() + steepest


def test_the_cross_entropy_barrier_encloses_a_grid():
    rng = np.random.default_rng(7)
    first, second = (TwoLayer(rng.normal(size=(8, 3)), rng.normal(size=(4, 8))) for _ in range(2))
    x, y = rng.normal(size=(12, 3)), rng.integers(0, 4, size=12)
    barrier = loss_barrier(first, second, x, y, "cross-entropy")
    alphas = np.linspace(0, 1, 2001)
    outputs = np.stack([between(first, second, a).outputs(x) for a in alphas])
    losses = (np.log(np.exp(outputs).sum(axis=2)) - outputs[:, np.arange(12), y]).mean(axis=1)
    best = (losses - (1 - alphas) * losses[0] - alphas * losses[-1]).max()
    assert best <= barrier.value.hi and barrier.value.lo <= best + 1e-4


@QUICK
@given(pairs())
def test_the_gap_encloses_a_grid_in_rational_arithmetic(pair):
    first, second, x, _ = pair
    largest = largest_gap(first, second, x)
    ends = [exact_outputs(first, second, Fraction(end), x) for end in (0, 1)]

    def gap(alpha):
        at = exact_outputs(first, second, alpha, x)
        rows = zip(at, *ends, strict=True)
        return sum(abs(f[0] - (1 - alpha) * zero[0] - alpha * full[0]) for f, zero, full in rows) / len(x)

    assert all(float(gap(alpha)) <= largest.value.hi for alpha in GRID)
    assert float(gap(Fraction(largest.at))) >= largest.value.lo - 1e-11


@QUICK
@given(pairs())
def test_the_accuracy_barrier_is_what_no_grid_point_exceeds(pair):
    first, second, x, y = pair
    y = np.where(y >= 0, 1.0, -1.0)

    def accuracy(alpha):
        outputs = exact_outputs(first, second, alpha, x)
        return Fraction(sum(f[0] * Fraction(t) > 0 for f, t in zip(outputs, y.tolist(), strict=True)), len(y))

    def tied(alpha):
        return any(f[0] == 0 for f in exact_outputs(first, second, alpha, x))

    ends = accuracy(Fraction(0)), accuracy(Fraction(1))
    if min(ends) == 0:
        with pytest.raises(ValueError, match="accuracy of 0 at an end"):
            accuracy_barrier(first, second, x, y)
        return
    barrier = accuracy_barrier(first, second, x, y)
    assert 0 <= barrier.value.value <= 1
    for alpha in GRID:
        # An output of 0 at a single alpha does not count, since the barrier is a supremum over open pieces.
        if not tied(alpha):
            drop = 1 - accuracy(alpha) / (alpha * ends[1] + (1 - alpha) * ends[0])
            assert float(drop) <= barrier.value.hi


def test_a_group_of_two_is_the_midpoint():
    first, second, x, y = drawn(2)
    group = group_barrier((first, second), x, y)
    exact = exact_excess(first, second, Fraction(1, 2), x, y, "squared")
    assert group.lo <= float(exact) <= group.hi and group.error < 1e-12
    assert group.value <= loss_barrier(first, second, x, y).value.hi


def test_groups_of_copies_have_no_barrier_and_linear_groups_gain_the_variance():
    first, _, x, y = drawn(4)
    assert group_barrier([first] * 5, x, y).lo <= 0 <= group_barrier([first] * 5, x, y).hi
    nets = [TwoLayer(np.array([[float(k)]]), np.array([1.0])) for k in (1, 2, 6)]  # f(1) = k, linear in the weight k
    group = group_barrier(nets, np.ones((1, 1)), np.zeros(1))
    assert group.lo <= -np.var([1, 2, 6]) <= group.hi


def test_the_group_accuracy_barrier_can_be_negative():
    """A group's accuracy barrier may be negative.

    Two half-plane classifiers are each right on one of two samples, and their mean is right on both.
    """
    nets = [
        TwoLayer([[1.0, 0.0], [0.0, 1.0]], [3.0, -1.0]),
        TwoLayer([[1.0, 0.0], [0.0, 1.0]], [-1.0, 3.0]),
    ]
    x, y = np.eye(2), np.ones(2)
    group = group_accuracy_barrier(nets, x, y)
    assert group.value == -1.0


def test_one_output_written_as_a_row_is_one_output():
    first, second, x, y = drawn(8)
    rows = [TwoLayer(net.hidden, net.readout[None]) for net in (first, second)]
    for loss in ("squared", "absolute", "logistic"):
        assert loss_barrier(*rows, x, y, loss).value.value == loss_barrier(first, second, x, y, loss).value.value
    assert accuracy_barrier(*rows, x, y).value.value == accuracy_barrier(first, second, x, y).value.value
    assert group_barrier(rows, x, y).value == group_barrier((first, second), x, y).value


def test_a_tie_that_floats_cannot_tell_is_decided_in_integers(monkeypatch):
    """A tie in floats is decided in integers.

    On the first sample 0.1 + 0.2 - 0.3 = 2^-54 > 0 exactly, for these floats. The two other samples are right either
    way.
    """
    net = TwoLayer([[0.1, 0.0], [0.2, 0.0], [0.3, 1.0]], [1.0, 1.0, -1.0])
    x = np.array([[1.0, 0.0], [0.0, -1.0], [0.0, 1.0]])
    labels = [np.array([label, 1.0, -1.0]) for label in (-1.0, 1.0)]
    shares = [accuracy_path(Segment(net, net, x), y) for y in labels]
    assert [(path.low[0], path.high[0]) for path in shares] == [(1 / 3, 1 / 3), (2 / 3, 2 / 3)]
    monkeypatch.setattr("ntkfl.connectivity.paths.accuracy_path.EXACT_WORK", 0)
    for y in labels:
        assert accuracy_barrier(net, net, x, y).value.error > 0.2
    with pytest.raises(ValueError, match="classifies any of the 1 samples correctly cannot be decided: 1 of them tie"):
        accuracy_barrier(net, net, x[:1], np.ones(1))


@mp.workdps(50)
def exact_accuracy_drop(first, second, x, y):
    """Returns the supremum of the accuracy drop over the open pieces, in rational arithmetic and 50 digits.

    Returns None if one of the two networks classifies no sample correctly.
    """

    def correct(row, label, alpha):
        out = exact_outputs(first, second, alpha, row[None])[0]
        margins = [out[0] * int(label)] if len(out) == 1 else [out[label] - v for k, v in enumerate(out) if k != label]
        return all(margin > 0 for margin in margins)

    cuts = {Fraction(0), Fraction(1)}
    for row in x.tolist():
        for left_unit, two in zip(first.hidden.tolist(), second.hidden.tolist(), strict=True):
            a, c = (sum(Fraction(u) * Fraction(v) for u, v in zip(unit, row, strict=True)) for unit in (left_unit, two))
            if a * c < 0:
                cuts.add(-c / (a - c))
    points = {mp.mpf(cut.numerator) / cut.denominator for cut in cuts}
    for left, right in pairwise(sorted(cuts)):
        nodes = [left + (right - left) * Fraction(k, 2) for k in range(3)]
        for values in zip(*(exact_outputs(first, second, node, x) for node in nodes), strict=True):
            outs = [list(column) for column in zip(*values, strict=True)]
            pairs_of = [(p, q) for k, p in enumerate(outs) for q in outs[k + 1 :]]
            heights = [outs[0]] if len(outs) == 1 else [[u - v for u, v in zip(*pq, strict=True)] for pq in pairs_of]
            # The three numbers are an output, or a difference of two outputs, at t = 0, 1/2 and 1 with
            # t = (alpha - left) / (right - left).
            for zero, half, full in heights:
                bend, slope = 2 * (zero + full - 2 * half), 4 * half - 3 * zero - full
                under = slope * slope - 4 * bend * zero
                tops = [mp.mpf(0)] if not bend and not slope else []
                if bend and under >= 0:
                    root = mp.sqrt(mp.mpf(under.numerator) / under.denominator)
                    start = mp.mpf(slope.numerator) / slope.denominator
                    tops = [
                        (-start + side * root) / (2 * mp.mpf(bend.numerator) / bend.denominator) for side in (-1, 1)
                    ]
                elif not bend and slope:
                    tops = [mp.mpf((-zero / slope).numerator) / (-zero / slope).denominator]
                low, wide = (mp.mpf(z.numerator) / z.denominator for z in (left, right - left))
                points |= {low + wide * t for t in tops if 0 < t < 1}
    ends = [sum(correct(r, t, Fraction(end)) for r, t in zip(x, y, strict=True)) for end in (0, 1)]
    if not min(ends):
        return None
    best = mp.mpf(0)
    for left, right in pairwise(sorted(points)):
        if right - left > mp.mpf(10) ** -40:
            man, exp = mp.frexp(left + (right - left) * mp.mpf("0.4142135"))
            middle = Fraction(int(man * 2**150), 2**150) * Fraction(2) ** int(exp)
            count = sum(correct(r, t, middle) for r, t in zip(x, y, strict=True))
            best = max(best, *(1 - count / (ends[0] + side * (ends[1] - ends[0])) for side in (left, right)))
    return float(best)


@QUICK
@given(pairs(), st.integers(1, 3), st.randoms(use_true_random=False))
def test_the_accuracy_barrier_is_the_supremum_over_open_pieces(pair, outputs, random):
    first, second, x, _ = pair
    if outputs > 1:
        rows = [[[random.randint(-3, 3) for _ in first.hidden] for _ in range(outputs)] for _ in range(2)]
        first, second = TwoLayer(first.hidden, rows[0]), TwoLayer(second.hidden, rows[1])
    x = np.concatenate([x, x])  # Each input occurs twice, and its labels may contradict each other.
    y = np.array([random.choice((-1, 1)) if outputs == 1 else random.randrange(outputs) for _ in x])
    true = exact_accuracy_drop(first, second, x, y)
    if true is None:
        return
    barrier = accuracy_barrier(first, second, x, y)
    assert 0 <= barrier.value.value <= 1
    assert barrier.value.lo - 1e-15 <= true <= barrier.value.hi + 1e-15
    assert barrier.value.error < 1e-6  # Every tie is decided, and so is the order of equal or close places of change.
    order = random.sample(range(len(x)), len(x))
    again = accuracy_barrier(first, second, x[order], y[order])
    assert (again.value.value, again.value.error, again.at) == (barrier.value.value, barrier.value.error, barrier.at)


@pytest.mark.parametrize("labels", ["+++++-----", "-----+++++", "+-+-+-+-+-"])
def test_changes_at_one_alpha_are_one_change_in_any_order(labels):
    """Changes of the accuracy at one alpha count as one change, in any order of the samples.

    f = (1 - 2 alpha) x, so that five samples are right before 1/2, and the five others after it.
    """
    y = np.array([1 if sign == "+" else -1 for sign in labels])
    # The samples are equal, or have the same direction.
    for x in (np.ones((10, 1)), np.arange(1.0, 11.0)[:, None] / 10):
        barrier = accuracy_barrier(TwoLayer([[1.0]], [-1.0]), TwoLayer([[1.0]], [1.0]), x, y)
        assert barrier.value.value == barrier.value.error == 0 and barrier.pieces == 2
    x = np.random.default_rng(0).normal(size=(10, 3))
    first = TwoLayer(np.random.default_rng(1).normal(size=(7, 3)), np.random.default_rng(2).normal(size=7))
    y = np.where(first.outputs(x) > 0, y, -y)
    barrier = accuracy_barrier(
        TwoLayer(first.hidden, -first.readout), first, x, y
    )  # All outputs change their sign at 1/2 only.
    assert barrier.value.hi < 1e-10


def test_changes_closer_than_floats_can_tell_are_put_in_order():
    """Changes of the accuracy are put in order even if they are closer than floats can distinguish.

    f = x_1 (1 - 2 alpha) + x_2 alpha changes its sign at 1/2 for x = (1, 0), and at 1/(2 - t) > 1/2 for (1, t).
    """
    first, second = TwoLayer([[1.0, 0.0], [0.0, 1.0]], [-1.0, 1.0]), TwoLayer([[1.0, 0.0], [0.0, 1.0]], [1.0, 0.0])
    x = np.array([[1.0, 0.0], [1.0, 2.0**-60], [0.0, 1.0]])
    # The first sample is classified correctly until alpha = 1/2, and the second sample from some 2^-62 later on.
    barrier = accuracy_barrier(first, second, x, np.array([1, -1, 1]))
    assert barrier.value.lo <= 1 / 3 <= barrier.value.hi  # Between the two changes only the third sample is right.
    # Here the first sample is classified correctly from alpha = 1/2 on, and the second sample until some 2^-62 later.
    # So the accuracy does not fall between the two changes.
    other = accuracy_barrier(first, second, x, np.array([-1, 1, 1]))
    assert other.value.hi < barrier.value.lo and barrier.value.error < 1e-14 and barrier.pieces == other.pieces == 3


def test_the_mean_of_three_networks_is_not_rounded():
    """The mean of three networks is not rounded, although thirds are no floats.

    The output of the mean is exactly 0, which is a tie and counts as wrong.
    """
    nets = [TwoLayer([[1.0], [0.0]], v) for v in ([1.0, 1.0], [1.0, 0.0], [-2.0, 0.0])]
    group = group_accuracy_barrier(nets, np.ones((2, 1)), np.ones(2))
    assert group.value == 1 and group.error == 0


def test_a_unit_that_is_dead_in_the_rounded_mean_alone_counts():
    """A unit that is dead only in the rounded mean counts as active.

    The mean's weight -1 - 2^-53 is rounded to -1. On x = (-1, -1) the exact unit is 2^-53 > 0, which gives class 0.
    """
    nets = [TwoLayer([[-1 - t, 1.0]], [[1.0], [0.0]]) for t in (2.0**-52, 0.0)]
    x, y = np.array([[-1.0, -1.0], [1.0, 2.0]]), np.array([0, 0])
    # The mean of the networks is right on both samples. One network is right on both samples too, and the other network
    # is right on one sample.
    group = group_accuracy_barrier(nets, x, y)
    assert group.lo <= 1 - 2 / 1.5 <= group.hi and group.error < 1e-14


def test_two_contradicting_classes_and_the_order_of_the_rows():
    rng = np.random.default_rng(0)
    nets = [TwoLayer(rng.normal(size=(6, 3)), rng.normal(size=(2, 6))) for _ in range(2)]
    x = np.repeat(rng.normal(size=(1, 3)), 2, axis=0)
    one, other = (accuracy_barrier(*nets, x, np.array(y)).value for y in ([0, 1], [1, 0]))
    assert one.value == other.value == one.error == other.error == 0


def test_the_value_is_taken_and_dead_stretches_are_no_doubt():
    for seed in range(10):
        first, second, x, _ = drawn(seed, h=3, d=8, n=60)
        y = np.where(first.outputs(x) + second.outputs(x) > 0, 1.0, -1.0)
        barrier = accuracy_barrier(first, second, x, y)
        assert barrier.value.error < 1e-12
        ends = [(net.outputs(x) * y > 0).mean() for net in (second, first)]
        drops = [
            1 - (between(first, second, a).outputs(x) * y > 0).mean() / (ends[0] + a * (ends[1] - ends[0]))
            for a in np.clip(barrier.at + np.array([-1e-12, 0, 1e-12]), 0, 1)
        ]
        assert max(drops) >= barrier.value.lo - 1e-10
        grid = [
            1 - (between(first, second, a).outputs(x) * y > 0).mean() / (ends[0] + a * (ends[1] - ends[0]))
            for a in np.linspace(0, 1, 301)
        ]
        assert max(grid) <= barrier.value.hi


@pytest.mark.filterwarnings("error")
@pytest.mark.parametrize("loss", ["squared", "absolute", "logistic"])
def test_weights_so_large_that_squares_overflow_are_refused(loss):
    first, second, x, y = drawn(0)
    nets = [TwoLayer(net.hidden * 1e150, net.readout * 1e150) for net in (first, second)]
    with pytest.raises(ValueError, match=r"outputs reach 1e30\d: their squares overflow; rescale the network"):
        loss_barrier(*nets, x, y, loss)
    if loss == "squared":
        with pytest.raises(ValueError, match="labels reach 1e\\+150: the squared loss overflows; rescale the labels"):
            loss_barrier(first, second, x, y * 1e150)


BAD = {
    "networks of different shapes": (
        lambda a, b, x, y: loss_barrier(a, TwoLayer(np.ones((3, 5)), np.ones(3)), x, y),
        r"network 1 has hidden and readout weights of shapes \(3, 5\) and \(3,\), network 0 has \(16, 5\)",
    ),
    "a NaN weight": (
        lambda a, b, x, y: TwoLayer(np.full((2, 5), np.nan), np.ones(2)),
        r"hidden\[0, 0\] is nan; every entry must be finite",
    ),
    "one network only": (lambda a, b, x, y: group_barrier([a], x, y), "needs at least 2 networks, got 1"),
    "no network": (lambda a, b, x, y: group_barrier([], x, y), "needs at least 2 networks, got 0"),
    "an accuracy of zero": (
        lambda a, b, x, y: accuracy_barrier(a, TwoLayer(0 * b.hidden, b.readout), x, y),
        "the second network classifies none of the 40 samples correctly.*undefined",
    ),
    "a group without a correct sample": (
        lambda a, b, x, y: group_accuracy_barrier([TwoLayer(0 * a.hidden, a.readout)] * 2, x, y),
        "none of the 2 networks classifies a sample correctly: the ratio is undefined",
    ),
    "inputs of another width": (lambda a, b, x, y: loss_barrier(a, b, x[:, :3], y), r"shape \(40, 3\).*takes \(n, 5\)"),
    "an infinite input": (
        lambda a, b, x, y: loss_barrier(a, b, x / 0.0, y),
        r"x\[0, 0\] is .*inf; every entry must be finite",
    ),
    "too few labels": (lambda a, b, x, y: loss_barrier(a, b, x, y[:3]), r"labels have shape \(3,\).*needs \(40,\)"),
    "an unknown loss": (lambda a, b, x, y: loss_barrier(a, b, x, y, "hinge"), "no loss 'hinge'; it is one of squared"),
    "labels that are no signs": (
        lambda a, b, x, y: loss_barrier(a, b, x, y + 1, "logistic"),
        "neither -1 nor 1; the logistic loss of one output needs ±1",
    ),
    "cross-entropy of one output": (
        lambda a, b, x, y: loss_barrier(a, b, x, 0 * y, "cross-entropy"),
        "needs two outputs or more; use logistic",
    ),
    "the largest logistic loss": (
        lambda a, b, x, y: largest_loss(a, b, x, y, "logistic"),
        "the largest logistic loss is not computed; it is for squared and absolute",
    ),
    "labels that are no classes": (
        lambda a, b, x, y: connectivity_loss(
            *[TwoLayer(n.hidden, np.ones((2, 16))) for n in (a, b)], x, y, "cross-entropy"
        ),
        r"label -1\.0 is no class; the cross-entropy loss of 2 outputs needs 0\.\.1",
    ),
    "the gap of several outputs": (
        lambda a, b, x, y: largest_gap(*[TwoLayer(net.hidden, np.ones((2, 16))) for net in (a, b)], x),
        "the networks have 2 outputs; the gap is computed for one",
    ),
}


@pytest.mark.parametrize("name", BAD)
@pytest.mark.filterwarnings("ignore:divide by zero")
def test_bad_input_is_refused_with_the_value_found(name):
    call, message = BAD[name]
    with pytest.raises(ValueError, match=message):
        call(*drawn(0))


@pytest.mark.parametrize("readout", [-8.0, 0.1])
def test_the_same_sample_many_times_has_the_barrier_of_one(readout):
    """The same sample many times has the barrier of one sample.

    A sum of many equal terms would drift if they were added one by one. The outputs are linear in alpha, so the true
    barrier is 0.
    """
    first, second = (TwoLayer(np.ones((1, 1)), np.array([v])) for v in (readout, readout * (1 + 1e-7)))
    barrier = loss_barrier(first, second, np.ones((20_000, 1)), np.ones(20_000), "logistic").value
    assert barrier.lo <= 0 <= barrier.hi and barrier.error < 1e-11


@pytest.mark.quick_rows(2)
@pytest.mark.parametrize("readout", [0.1, 0.7, 3.0])
def test_the_integral_of_many_equal_pieces_is_that_of_one(readout):
    """The integral between equal networks is their loss, even on more samples than one block holds."""
    network, n = TwoLayer(np.ones((1, 1)), np.array([readout])), 3 * convex_path.BLOCK // 2
    integral = connectivity_loss(network, network, np.ones((n, 1)), np.ones(n), "logistic")
    with mp.workdps(30):
        assert abs(mp.log1p(mp.exp(-mp.mpf(readout))) - float(integral.value)) <= float(integral.error)


def test_a_barrier_says_where_it_is_and_on_how_many_pieces():
    first, second, x, y = drawn(3)
    barrier = loss_barrier(first, second, x, y)
    assert str(barrier) == f"{barrier.value} at alpha = {barrier.at:.6g}, on {barrier.pieces} pieces"
    assert str(loss_barrier(first, first, x, y)).endswith(", on 1 piece")


@pytest.mark.parametrize("loss", ["logistic", "cross-entropy"])
def test_a_bound_that_ends_early_says_so_and_more_points_bring_it_closer(loss):
    rng = np.random.default_rng(0)
    outputs = (2, 16) if loss == "cross-entropy" else 16
    first = TwoLayer(rng.standard_normal((16, 4)), 300 * rng.standard_normal(outputs))
    second = TwoLayer(first.hidden[::-1].copy(), first.readout[..., ::-1].copy())
    x = rng.standard_normal((20, 4))
    values = np.maximum(x @ first.hidden.T, 0) @ first.readout.T
    y = np.sign(values) if loss == "logistic" else values.argmax(axis=1)
    rough, closer, done = (loss_barrier(first, second, x, y, loss, most) for most in (70, 2000, 10**6))
    assert rough.stopped.startswith("bounded to") and rough.stopped.endswith("by 70 points")
    assert rough.stopped in str(rough) and not done.stopped
    for earlier, other in ((rough, closer), (closer, done)):  # Each enclosure contains the next, up to rounding.
        assert earlier.value.lo <= other.value.lo + 1e-9 and other.value.hi <= earlier.value.hi + 1e-9
    assert done.value.error <= 1e-9 < rough.value.error and done.value.lo > 1
    with pytest.raises(ValueError, match="most_points"):
        loss_barrier(first, second, x, y, loss, 0)
