"""Tests of planes, curves and grids through networks: coordinates reproduce the networks.

Values on a grid are those of single points.
"""

import numpy as np
import pytest
from hypothesis import given, settings, strategies as st

from ntkfl.connectivity.barrier import loss_barrier
from ntkfl.connectivity.curves import (
    grid_accuracy_barrier,
    grid_barrier,
    interpolation_curve,
)
from ntkfl.connectivity.network import TwoLayer, between, combination
from ntkfl.connectivity.planes import plane_grid, plane_losses, plane_through


def networks(seed, count=3, h=7, features=4, outputs=None):
    rng = np.random.default_rng(seed)
    readout = (h,) if outputs is None else (outputs, h)
    return [TwoLayer(rng.normal(size=(h, features)), rng.normal(size=readout)) for _ in range(count)]


@settings(deadline=None, max_examples=30)
@given(st.integers(0, 10**6), st.integers(2, 40), st.floats(-6, 6))
def test_the_coordinates_reproduce_the_three_points_and_the_axes_are_orthonormal(seed, size, log_scale):
    points = 10.0**log_scale * np.random.default_rng(seed).normal(size=(3, size))
    plane = plane_through(list(points))
    assert np.isclose(plane.first @ plane.first, 1) and np.isclose(plane.second @ plane.second, 1)
    assert abs(plane.first @ plane.second) < 1e-9
    for point, corner in zip(points, plane.corners, strict=True):
        scale = np.abs(points).max()
        assert np.allclose(plane.point(*corner), point, rtol=0, atol=1e-12 * scale)
        assert np.allclose(plane.coordinates(point), corner, rtol=0, atol=1e-8 * scale)
    mean = plane.coordinates(points.mean(axis=0))
    assert np.allclose(mean, plane.corners.mean(axis=0), rtol=0, atol=1e-8 * np.abs(points).max())


@pytest.mark.parametrize("loss", ["squared", "absolute", "logistic", "cross-entropy"])
def test_the_losses_of_the_plane_are_those_of_each_of_its_networks(loss):
    rng = np.random.default_rng(3)
    nets = networks(1, outputs=3 if loss == "cross-entropy" else None)
    x = rng.normal(size=(3000, 4))  # The samples fill more than one block.
    y = rng.integers(0, 3, size=3000) if loss == "cross-entropy" else rng.choice([-1.0, 1.0], size=3000)
    plane = plane_through([net.vector() for net in nets])
    s, t = plane.axes(4)
    losses = plane_losses(nets, x, y, s, t, loss)

    def mean_loss(vector):
        f = nets[0].at(vector).outputs(x)
        if loss == "cross-entropy":
            return float((np.log(np.exp(f).sum(axis=1)) - f[np.arange(len(y)), y]).mean())
        return float(
            {"squared": (f - y) ** 2, "absolute": abs(f - y), "logistic": np.logaddexp(0, -y * f)}[loss].mean()
        )

    assert losses.shape == (4, 4)
    assert np.allclose(losses, plane_grid(plane, mean_loss, s, t), rtol=1e-12)


def test_the_corners_have_the_losses_of_the_networks():
    nets = networks(5)
    x, y = np.random.default_rng(0).normal(size=(20, 4)), np.ones(20)
    corners = plane_through([net.vector() for net in nets]).corners
    for net, (s, t) in zip(nets, corners, strict=True):
        assert np.isclose(plane_losses(nets, x, y, [s], [t])[0, 0], np.mean((net.outputs(x) - y) ** 2), rtol=1e-11)
    s, t = corners.mean(axis=0)
    centre = np.mean((combination(nets).outputs(x) - y) ** 2)
    assert np.isclose(plane_losses(nets, x, y, [s], [t])[0, 0], centre, rtol=1e-11)


def test_the_axes_cover_the_corners():
    plane = plane_through([net.vector() for net in networks(2)])
    for axis, values in zip(plane.axes(9), plane.corners.T, strict=True):
        assert len(axis) == 9 and axis[0] < values.min() and values.max() < axis[-1]


def test_a_curve_reaches_outside_of_the_segment():
    first, second = networks(4, count=2)
    x = np.random.default_rng(1).normal(size=(6, 4))
    alphas = np.array([-0.25, 0.0, 0.4, 1.0, 1.25])

    def evaluate(vector):
        return float(first.at(vector).outputs(x).sum())

    curve = interpolation_curve(evaluate, first.vector(), second.vector(), alphas)
    expected = [between(first, second, alpha).outputs(x).sum() for alpha in alphas]
    assert np.allclose(curve, expected, rtol=1e-12)


@settings(deadline=None, max_examples=25)
@given(st.integers(0, 10**6), st.integers(3, 60))
def test_a_grid_never_exceeds_the_exact_barrier(seed, points):
    first, second = networks(seed, count=2)
    rng = np.random.default_rng(seed)
    x, y = rng.normal(size=(9, 4)), rng.normal(size=9)
    grid = grid_barrier(lambda a: float(np.mean((between(first, second, a).outputs(x) - y) ** 2)), points)
    exact = loss_barrier(first, second, x, y)
    assert 0 <= grid.value <= exact.value.hi + 1e-12
    assert "lower bound" in str(grid) and f"of {points} grid points" in str(grid)


def test_the_accuracy_grid_divides_at_each_alpha():
    values = {0.0: 0.5, 0.5: 0.6, 1.0: 1.0}
    barrier = grid_accuracy_barrier(values.__getitem__, 3)
    assert np.isclose(barrier.value, 1 - 0.6 / 0.75) and barrier.at == 0.5


BAD = {
    "two points": (lambda: plane_through([np.ones(3)] * 2), "goes through 3 points, got 2"),
    "lengths": (lambda: plane_through([np.ones(3), np.ones(3), np.ones(2)]), "must be vectors of one length"),
    "not finite": (
        lambda: plane_through([np.ones(2), np.array([0, np.inf]), np.zeros(2)]),
        r"point 1\[1\] is inf; every entry must be finite",
    ),
    "one line": (lambda: plane_through([np.zeros(3), np.ones(3), 2 * np.ones(3)]), "lie on one line"),
    "the same point twice": (lambda: plane_through([np.ones(3), np.ones(3), np.zeros(3)]), "lie on one line"),
    "ends that do not fit": (
        lambda: interpolation_curve(np.sum, np.ones(2), np.ones(3), np.ones(1)),
        r"shapes \(2,\) and \(3,\)",
    ),
    "a grid of two points": (lambda: grid_barrier(lambda a: a, 2), "the grid has 2 points"),
    "a value that is not finite": (
        lambda: grid_barrier(lambda a: np.nan if a == 0.5 else 0.0, 3),
        "at alpha = 0.5 is nan",
    ),
    "an accuracy of zero": (
        lambda: grid_accuracy_barrier(lambda a: a, 3),
        "alpha = 0 is 0: the barrier's ratio is und",
    ),
}


@pytest.mark.parametrize("name", BAD)
def test_bad_input_is_refused_with_the_value_found(name):
    call, message = BAD[name]
    with pytest.raises(ValueError, match=message):
        call()
