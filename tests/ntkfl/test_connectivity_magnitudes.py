"""Tests of losses along segments between networks and of barriers of groups of networks, for numbers of any size.

A number whose square underflows is still enclosed.
"""

from fractions import Fraction
from itertools import pairwise

import numpy as np
from hypothesis import example, given, settings, strategies as st

from ntkfl.connectivity.barrier import connectivity_loss, group_barrier, largest_gap, largest_loss, loss_barrier
from ntkfl.connectivity.network import TwoLayer

GRID = [Fraction(k, 12) for k in range(13)]
LOSSES = st.sampled_from(["squared", "absolute"])
ONE = TwoLayer([[1.0]], [1e-162]), TwoLayer([[1.0]], [3e-162]), np.ones((1, 1)), np.zeros(1)


@st.composite
def problems(draw):
    """Draws two networks of h units and one output, inputs and labels.

    All numbers are small integers. The inputs are multiplied by one power of 2, and so are the labels, the hidden
    weights and the readouts, each by its own power.
    """
    h, d, n = draw(st.integers(1, 3)), draw(st.integers(1, 2)), draw(st.integers(1, 3))
    sizes = {part: draw(st.integers(-1070, 220)) for part in ("x", "hidden")}
    sizes["readout"] = draw(st.integers(-1070, max(-1069, 460 - max(0, sizes["x"]) - max(0, sizes["hidden"]))))
    sizes["y"] = draw(st.sampled_from([sum(sizes.values()), 0, -1060])) if sum(sizes.values()) > -1070 else -1070

    def array(part, *shape):
        size = int(np.prod(shape))
        digits = draw(st.lists(st.integers(-3, 3), min_size=size, max_size=size))
        return np.ldexp(np.array(digits, float), sizes[part]).reshape(shape)

    first, second = (TwoLayer(array("hidden", h, d), array("readout", h)) for _ in range(2))
    return first, second, array("x", n, d), array("y", n)


def weights(network):
    return [[Fraction(u) for u in row] for row in network.hidden.tolist()], [
        Fraction(v) for v in network.readout.tolist()
    ]


def mixed(networks, shares):
    parts = [weights(network) for network in networks]
    hidden = [
        [sum(p * u for p, u in zip(shares, column, strict=True)) for column in zip(*rows, strict=True)]
        for rows in zip(*(h for h, _ in parts), strict=True)
    ]
    readout = [
        sum(p * v for p, v in zip(shares, units, strict=True)) for units in zip(*(r for _, r in parts), strict=True)
    ]
    return hidden, readout


def outputs(network, x):
    hidden, readout = network
    rows = [[Fraction(value) for value in row] for row in x.tolist()]
    sums = [
        [sum((u * value for u, value in zip(unit, row, strict=True)), Fraction(0)) for unit in hidden] for row in rows
    ]
    return [sum((v * max(g, Fraction(0)) for v, g in zip(readout, units, strict=True)), Fraction(0)) for units in sums]


def loss_of(network, x, y, loss):
    gaps = [abs(f - Fraction(label)) for f, label in zip(outputs(network, x), y.tolist(), strict=True)]
    return sum((gap**2 if loss == "squared" else gap) for gap in gaps) / len(y)


def loss_at(first, second, x, y, loss, alpha):
    return loss_of(mixed([first, second], [alpha, 1 - alpha]), x, y, loss)


def kinks(first, second, x):
    """Returns the places on the segment where a unit changes its sign on a sample."""
    places = {Fraction(0), Fraction(1)}
    for left_unit, two in zip(weights(first)[0], weights(second)[0], strict=True):
        for row in x.tolist():
            a, c = (sum(u * Fraction(value) for u, value in zip(unit, row, strict=True)) for unit in (left_unit, two))
            if a * c < 0:
                places.add(c / (c - a))
    return sorted(places)


def integral(function, edges):
    """Returns the integral of a polynomial of degree at most 5 on each piece, by Boole's rule."""
    return sum(
        (right - left) / 90 * sum(w * function(left + (right - left) * k / 4) for k, w in enumerate((7, 32, 12, 32, 7)))
        for left, right in pairwise(edges)
    )


def within(estimate, exact):
    return abs(Fraction(float(estimate.value)) - exact) <= Fraction(float(estimate.error))


@settings(deadline=None, max_examples=40)
@given(problems(), LOSSES)
@example(ONE, "squared")
@example((ONE[1], ONE[1], *ONE[2:]), "squared")
def test_the_largest_loss_is_enclosed(problem, loss):
    largest = largest_loss(*problem, loss)
    taken = loss_at(*problem, loss, Fraction(largest.at))
    top = Fraction(float(largest.value.value)) + Fraction(float(largest.value.error))
    assert all(loss_at(*problem, loss, alpha) <= top for alpha in [*GRID, *kinks(*problem[:3])])
    low = Fraction(float(largest.value.value)) - Fraction(float(largest.value.error))
    assert low <= taken * (1 + Fraction(1, 10**9))  # `at` is the maximiser rounded to float64.
    excess = loss_barrier(*problem, loss).value
    top = Fraction(float(excess.value)) + Fraction(float(excess.error))
    ends = [loss_at(*problem, loss, Fraction(end)) for end in (0, 1)]
    assert all(loss_at(*problem, loss, a) - a * ends[1] - (1 - a) * ends[0] <= top for a in GRID)


@settings(deadline=None, max_examples=40)
@given(problems())
@example(ONE)
def test_the_connectivity_loss_is_enclosed(problem):
    exact = integral(lambda alpha: loss_at(*problem, "squared", alpha), kinks(*problem[:3]))
    assert within(connectivity_loss(*problem), exact)
    first, _, x, y = problem
    assert within(connectivity_loss(first, first, x, y, "absolute"), loss_of(weights(first), x, y, "absolute"))


@settings(deadline=None, max_examples=40)
@given(problems(), LOSSES)
@example(ONE, "squared")
def test_the_group_barrier_is_enclosed(problem, loss):
    first, second, x, y = problem
    networks = [first, second, first]
    centre = loss_of(mixed(networks, [Fraction(1, 3)] * 3), x, y, loss)
    exact = centre - sum(loss_of(weights(network), x, y, loss) for network in networks) / 3
    assert within(group_barrier(networks, x, y, loss), exact)


@settings(deadline=None, max_examples=60)
@given(problems())
def test_the_largest_gap_is_enclosed(problem):
    first, second, x, _ = problem
    gap = largest_gap(first, second, x).value
    ends = [outputs(weights(network), x) for network in (second, first)]
    for alpha in GRID:
        between = outputs(mixed([first, second], [alpha, 1 - alpha]), x)
        gaps = [abs(f - (1 - alpha) * c - alpha * a) for f, c, a in zip(between, *ends, strict=True)]
        assert sum(gaps) / len(gaps) <= Fraction(float(gap.value)) + Fraction(float(gap.error))
