"""Tests of activations, of passes through networks, and of bounds on second derivatives.

Computed values are compared with torch's derivatives and with ball arithmetic, whose numbers are intervals that contain
the exact values.
"""

from dataclasses import replace
from fractions import Fraction

import numpy as np
import pytest
import torch
from flint import arb
from hypothesis import example, given, settings, strategies as st
from small_networks import BALLS, TORCH, convolutional, hessians, jacobian, network, outputs, trained

import ntkfl.any_order.rounding
import ntkfl.rounding
import ntkfl.smooth_networks.passes
from ntkfl.balls import precision
from ntkfl.estimate import Estimate
from ntkfl.smooth_networks.layers import LIBRARY, SMOOTH, Image
from ntkfl.smooth_networks.passes import (
    Curvature,
    folded,
    largest_nonnegative,
    passed,
    sizes_of_all,
    sizes_of_each,
    spectral_norm,
    unfolded,
    weight_norms,
)

NAMES = [name for name in SMOOTH if name != "identity"]


@pytest.mark.parametrize("name", SMOOTH)
def test_derivatives_of_an_activation_are_bounded_and_the_bounds_are_sharp(name):
    z = torch.linspace(-12, 12, 20001, dtype=torch.float64)
    first = torch.func.vmap(torch.func.grad(TORCH[name]))(z)
    second = torch.func.vmap(torch.func.grad(torch.func.grad(TORCH[name])))(z)
    for derivative, bound in ((first, SMOOTH[name].slope), (second, SMOOTH[name].bend)):
        assert bound * (1 - 1e-4) <= derivative.abs().max() <= bound
    np.testing.assert_allclose(SMOOTH[name].derivative(z.numpy()), first, rtol=0, atol=1e-14)


@pytest.mark.parametrize("name", SMOOTH)
def test_the_library_is_a_hundred_times_closer_than_it_is_taken_to_be(name):
    z = np.random.default_rng(0).normal(0, 4, 500)
    values = SMOOTH[name].function(z)
    with precision():
        off = [abs(BALLS[name](arb(at)) - arb(value)) for at, value in zip(z.tolist(), values.tolist(), strict=True)]
        assert all(distance < LIBRARY / 100 * (1 + abs(at)) for distance, at in zip(off, z.tolist(), strict=True))


@pytest.mark.parametrize("name", NAMES)
def test_an_activation_of_an_interval_contains_that_of_its_points(name):
    z = np.linspace(-3, 3, 101)
    inside = np.clip(z + 0.3 * np.sin(7 * z), z - 0.3, z + 0.3)
    for of, exact in ((SMOOTH[name].values, SMOOTH[name].function), (SMOOTH[name].slopes, SMOOTH[name].derivative)):
        image = of(Estimate(z, np.full(z.shape, 0.3)))
        assert (image.lo <= exact(inside)).all() and (exact(inside) <= image.hi).all()


def bounds(layers, x):
    norms = weight_norms(layers)
    done = passed(layers, x, norms)
    products = [done.input_products(k) for k in range(len(layers))]
    return done, products, Curvature(layers, norms, sizes_of_each(done), sizes_of_all(done, products))


NETWORKS = st.tuples(
    st.integers(0, 2**31),
    st.one_of(
        st.lists(st.integers(1, 4), min_size=2, max_size=5),
        st.builds(lambda width, count: [width] * count, st.integers(1, 4), st.integers(2, 5)),
    ),
    st.lists(st.sampled_from(NAMES), min_size=4, max_size=4),
    st.booleans(),
    st.sampled_from([(), (0,), (1,)]),
)


def drawn(made, last):
    """Returns a drawn network; `last` says whether its outputs have an activation too."""
    seed, widths, activations, biases, frozen = made
    frozen = frozen if len(widths) > 2 else ()
    count = len(widths) - 1 if last else len(widths) - 2
    return network(seed, widths, activations[:count], biases, frozen, blocks_of(seed, widths))


def blocks_of(seed, widths):
    """Returns up to three residual blocks, side by side or nested, for every second network."""
    rng, blocks = np.random.default_rng([seed, 5]), []
    pairs = [(i, j) for i in range(len(widths) - 1) for j in range(i, len(widths) - 1) if widths[i] == widths[j + 1]]
    for i, j in rng.permutation(pairs).tolist() if seed % 2 and pairs else []:
        apart = all(j < k or m < i or (k <= i and j <= m) or (i <= k and m <= j) for k, m in blocks)
        blocks += [(i, j)] * (apart and len(blocks) < 3)
    return tuple(blocks)


@settings(max_examples=15, deadline=None)
@given(NETWORKS, st.booleans())
def test_passes_enclose_outputs_gradients_and_the_kernel(made, last):
    layers = drawn(made, last)
    x = np.random.default_rng(made[0]).standard_normal((3, made[1][0]))
    done, products, _ = bounds(layers, x)
    theta = trained(layers)
    j = jacobian(layers, theta, x).numpy()
    for enclosure, exact in (
        (done.outputs, outputs(layers, theta, x).numpy().reshape(3, -1)),
        (done.kernel(products), j @ j.T),
    ):
        assert (np.abs(enclosure.value - exact) <= enclosure.error + 1e-13).all()
        assert enclosure.error.max() < 1e-10 * (1 + np.abs(exact).max())
    lengths = np.linalg.norm(j, axis=1)
    assert (lengths <= done.gradient_lengths().ravel() + 1e-14).all()
    np.testing.assert_allclose(done.gradient_lengths().ravel(), lengths, rtol=1e-8, atol=1e-10)


COARSE = 1e-4  # a unit of rounding that is so large that errors become visible


def worst(a, matrix, block):
    """Returns the most by which coarse rounding moves a product that is summed in blocks.

    The bound is (terms of a block + blocks) unit |a||b|.
    """
    terms = min(a.shape[-1], block) + -(-a.shape[-1] // block)
    return terms * COARSE * (np.abs(a) @ np.abs(matrix))


@settings(max_examples=25, deadline=None)
@given(NETWORKS, st.booleans(), st.integers(1, 12), st.sampled_from([4, 256]), st.booleans())
def test_passes_stay_within_their_errors_if_every_sum_is_rounded_the_worst_way(made, last, factor, block, longer):
    """Passes stay within their error bounds if every sum is rounded in the worst way.

    Every layer's sums are moved by a coarse rounding error in the direction that moves an output most. The sums of the
    backward pass and of the kernel are moved so that derivatives grow, or at random.
    """
    seed, widths, *others = made
    layers = drawn((seed, [factor * width for width in widths], *others), last)
    rng = np.random.default_rng(seed)
    x = rng.standard_normal((3, layers[0].weight.shape[1]))
    norms = weight_norms(layers)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(ntkfl.smooth_networks.passes, "BLOCK", block)
        for module in (ntkfl.rounding, ntkfl.any_order.rounding):
            patch.setattr(module, "UNIT", COARSE)
        apart, done = passed(layers, x), passed(layers, x, norms)
        kernel = done.kernel([done.input_products(k) for k in range(len(layers))])
    exact = passed(layers, x)
    h, aside, inputs, sums = x, [], [], []
    for layer, input_, before in zip(layers, exact.inputs, exact.before, strict=True):
        aside += [h] * layer.opens
        inputs.append(h)
        size = worst(input_.value, layer.weight.T, block)
        z = layer.scale * (h @ layer.weight.T + np.sign(before.value[:, 0]) * size)
        sums.append(z if layer.bias is None else z + layer.bias_scale * layer.bias)
        h = layer.activation.function(sums[-1])
        for _ in range(layer.closes):
            h = h + aside.pop()
    moved = np.abs(h - exact.outputs.value)
    assert (moved <= done.outputs.error).all() and (done.outputs.error <= apart.outputs.error).all()
    assert moved[:, 0].max() > 0

    b, of_kernel = np.broadcast_to(np.eye(h.shape[1]), (3, h.shape[1], h.shape[1])), 0
    for k in range(len(layers) - 1, -1, -1):
        layer = layers[k]
        aside += [b] * layer.closes
        b = b * layer.activation.derivative(sums[k])[:, None]
        assert (np.abs(b - exact.before[k].value) <= done.before[k].entries.error + 1e-13).all()
        assert (np.linalg.norm(b - exact.before[k].value, axis=2) <= done.before[k].off + 1e-13).all()
        if layer.trained:
            flat, rows = b.reshape(-1, b.shape[2]), np.repeat(inputs[k], h.shape[1], axis=0)
            inner = layer.scale**2 * rows @ rows.T + layer.shift**2
            of_kernel = of_kernel + (flat @ flat.T + flat.shape[1] * COARSE * np.abs(flat) @ np.abs(flat).T) * inner
        signs = np.sign(b @ layer.weight) if longer else rng.choice([-1, 1], (*b.shape[:2], layer.weight.shape[1]))
        b = layer.scale * (b @ layer.weight + signs * worst(b, layer.weight, block))
        for _ in range(layer.opens):
            b = b + aside.pop()
    moved = np.abs(of_kernel - exact.kernel([exact.input_products(k) for k in range(len(layers))]).value)
    assert (moved <= kernel.error + 1e-12).all() and moved.max() > 1e-6


def test_errors_of_deep_wide_networks_grow_by_the_norms_of_layers():
    """Error bounds of deep wide networks grow by the norms of their layers.

    For six layers of tanh, outputs and the kernel in float64 are within the bounds, which are at most a hundredth of
    the bounds without the layers' norms.
    """
    layers = network(0, [4, *[200] * 5, 1], ["tanh"] * 5)
    x = np.random.default_rng(0).standard_normal((2, 4))
    done, apart = passed(layers, x, weight_norms(layers)), passed(layers, x)
    kernels = [of.kernel([of.input_products(k) for k in range(6)]) for of in (done, apart)]
    h, inputs, slopes = x.astype(np.longdouble), [], []
    for layer in layers:
        inputs.append(h)
        z = (layer.scale * (h[:, None, :] * layer.weight)).sum(axis=2) + layer.bias_scale * layer.bias
        h = np.tanh(z) if layer is not layers[-1] else z
        slopes.append(1 - h**2 if layer is not layers[-1] else 1 + 0 * h)
    b, kernel = np.ones_like(h), 0
    for layer, before, slope in zip(reversed(layers), reversed(inputs), reversed(slopes), strict=True):
        b = b * slope
        kernel = kernel + (b @ b.T) * (np.longdouble(layer.scale) ** 2 * before @ before.T + layer.shift**2)
        b = layer.scale * (b @ layer.weight)
    for within, without, exact in ((done.outputs, apart.outputs, h), (*kernels, kernel)):
        assert (np.abs(exact - within.value) <= within.error).all()
        assert within.error.max() < 0.01 * without.error.min()
    assert (np.isinf(passed(layers, x, (np.inf,) * 6).outputs.error) == np.isinf(apart.outputs.error)).all()


@settings(max_examples=20, deadline=None)
@given(NETWORKS, st.booleans(), st.floats(0.01, 2))
def test_no_sampled_hessian_is_above_its_bound(made, last, radius):
    layers = drawn(made, last)
    rng = np.random.default_rng(made[0])
    x = rng.standard_normal((3, made[1][0]))
    _, _, curvature = bounds(layers, x)
    (separate, together), theta = curvature.of_both(radius), trained(layers)
    np.testing.assert_allclose(separate, curvature.of_each(radius), rtol=1e-12)
    for share in (0, 0.5, 1):
        step = torch.tensor(rng.standard_normal(len(theta)))
        matrices = hessians(layers, theta + share * radius * step / step.norm(), x)
        assert (torch.linalg.matrix_norm(matrices, 2).numpy() <= separate * (1 + 1e-12) + 1e-13).all()
        mixes = torch.tensor(rng.standard_normal((8, len(matrices))))
        mixed = torch.einsum("ki,ipq->kpq", mixes / mixes.norm(dim=1, keepdim=True), matrices)
        assert torch.linalg.matrix_norm(mixed, 2).max() <= together * (1 + 1e-12) + 1e-13


CONVOLUTIONS = st.builds(
    lambda seed, height, width, side, stride, channels, activations, pools, biases: (
        np.random.default_rng(seed),
        convolutional(seed, Image(height, width, side, stride), channels, activations, pools, biases=biases),
    ),
    st.integers(0, 2**31),
    st.integers(1, 3),
    st.integers(2, 3),
    st.sampled_from([1, 3]),
    st.integers(1, 3),
    st.one_of(st.lists(st.integers(1, 3), min_size=2, max_size=3), st.just([1, 2, 2]), st.just([2, 1, 1, 1])),
    st.lists(st.sampled_from(NAMES), min_size=3, max_size=3),
    st.booleans(),
    st.booleans(),
)


@settings(max_examples=15, deadline=None)
@given(CONVOLUTIONS, st.floats(0.01, 3))
@example(
    (np.random.default_rng(1), convolutional(1, Image(2, 3, 3), [1, 2, 2], ["tanh", "gelu"], True, ((1, 1),))), 0.5
)
@example((np.random.default_rng(3), convolutional(3, Image(5, 4, 3, 2), [2, 2, 1], ["tanh", "gelu"], True)), 0.5)
@example((np.random.default_rng(2), convolutional(2, Image(3, 3, 3), [1, 1, 1], ["sin", "erf"], False, ((0, 1),))), 2.0)
def test_convolutions_keep_to_their_bounds(made, radius):
    """For convolutions, bounds hold for outputs, gradients and kernel at the checkpoint.

    Bounds also hold for Hessians and sizes in the ball around the checkpoint.
    """
    rng, layers = made
    x, theta = rng.standard_normal((2, layers[0].n_inputs)), trained(layers)
    done, products, curvature = bounds(layers, x)
    j = jacobian(layers, theta, x).numpy()
    for enclosure, exact in (
        (done.outputs, outputs(layers, theta, x).numpy().reshape(2, -1)),
        (done.kernel(products), j @ j.T),
    ):
        assert (np.abs(enclosure.value - exact) <= enclosure.error + 1e-12).all()
        assert enclosure.error.max() < 1e-10 * (1 + np.abs(exact).max())
    np.testing.assert_allclose(done.gradient_lengths().ravel(), np.linalg.norm(j, axis=1), rtol=1e-8, atol=1e-10)
    together, in_ball = curvature.of_all(radius), curvature.grown(curvature.alone, radius)
    for share in (0, 0.5, 1):
        step = torch.tensor(rng.standard_normal(len(theta)))
        at = theta + share * radius * step / step.norm()
        exact = hessians(layers, at, x)
        assert (torch.linalg.matrix_norm(exact, 2).numpy() <= curvature.of_each(radius) * (1 + 1e-12) + 1e-13).all()
        mixes = torch.tensor(rng.standard_normal((8, 2)))
        mixed = torch.einsum("ki,ipq->kpq", mixes / mixes.norm(dim=1, keepdim=True), exact)
        assert torch.linalg.matrix_norm(mixed, 2).max() <= together * (1 + 1e-12) + 1e-13
        there = sizes_of_each(passed(weighted(layers, at), x))
        for name in ("each", "before", "after"):
            for now, bound in zip(getattr(there, name), getattr(in_ball, name), strict=True):
                assert (now <= bound * (1 + 1e-8) + 1e-12).all(), name


def weighted(layers, theta):
    """Returns the layers with these trained parameters."""
    values, moved = theta.numpy(), []
    for layer in layers:
        weight, values = values[: layer.weight.size].reshape(layer.weight.shape), values[layer.weight.size :]
        bias = None if layer.bias is None else values[: len(layer.bias)]
        values = values[0 if bias is None else len(bias) :]
        moved.append(replace(layer, weight=weight, bias=bias))
    return tuple(moved)


@pytest.mark.parametrize("pools", [True, False])
@pytest.mark.parametrize("radius", [0.0, 2.0, 20.0])
def test_bounds_of_convolutions_are_nearly_reached(pools, radius):
    """Bounds of convolutions are nearly attained.

    The curvature of linear layers of ones on an image of ones exceeds a third of the bound. Each pixel is in up to a^2
    squares of side a, and a bound that does not count this would be wrong. A bound divided by the root of the number of
    pixels would be wrong too. With an untrained readout the curvature exceeds 3/4 of the bound in the whole ball.
    """
    made = convolutional(0, Image(6, 6, 3), [1, 1, 1], ["identity", "identity"], pools, biases=False)
    x = np.ones((1, 36))
    for frozen, share in (((), 0.35), ((2,), 0.75)):
        layers = tuple(
            replace(layer, weight=np.ones_like(layer.weight), scale=0.1, trained=k not in frozen)
            for k, layer in enumerate(made)
        )
        _, _, curvature = bounds(layers, x)
        theta = trained(layers)
        exact = hessians(layers, theta + radius / np.sqrt(len(theta)), x)
        ratio = float(torch.linalg.matrix_norm(exact, 2)[0]) / curvature.of_each(radius)[0]
        assert share < ratio <= 1 + 1e-9


@given(st.integers(0, 2**31), st.integers(1, 4), st.integers(1, 4), st.sampled_from([1, 3, 5]), st.integers(1, 5))
def test_squares_are_gathered_as_they_are_added_up(seed, height, width, side, stride):
    """Unfolding and folding are adjoint, <unfolded h, b> = <h, folded b>.

    No pixel is in more squares than the bound counts.
    """
    rng, image = np.random.default_rng(seed), Image(height, width, side, stride)
    h = rng.standard_normal((2, image.pixels * 2))
    b = rng.standard_normal((2, 1, image.places, 2 * side**2))
    gathered, added = unfolded(Estimate.exact(h), image), folded(Estimate.exact(b), image)
    np.testing.assert_allclose((gathered.value * b[:, 0]).sum(), (h * added.value[:, 0]).sum(), atol=1e-12)
    ones = folded(Estimate.exact(np.ones_like(b)), image).value
    most = image.overlap
    assert ones.max() <= most**2 and np.linalg.norm(gathered.value) <= most * np.linalg.norm(h) * (1 + 1e-12)


@pytest.mark.parametrize(("side", "stride", "most"), [(3, 1, 9), (3, 2, 4), (3, 3, 1), (5, 2, 9), (1, 2, 1)])
def test_some_pixel_is_in_as_many_squares_as_is_said(side, stride, most):
    image = Image(11, 11, side, stride)
    ones = folded(Estimate.exact(np.ones((1, 1, image.places, side**2))), image).value
    assert ones.max() == most == image.overlap**2


@pytest.mark.parametrize("name", NAMES)
def test_a_neuron_comes_close_to_its_bound(name):
    """For one neuron f = phi(w x) the bound is nearly attained, so that half of the bound would be wrong.

    For f = v phi(w x) the largest norm of the Hessian at points of a ball exceeds .3 of the bound for the ball. A bound
    that does not grow with the ball would be wrong.
    """
    theta = torch.linspace(-12, 12, 4001, dtype=torch.float64)
    second = torch.func.vmap(torch.func.grad(torch.func.grad(TORCH[name])))(theta)
    layers = network(0, [1, 1], [name], biases=False)
    _, _, curvature = bounds(layers, np.array([[3.0]]))
    assert 9 * second.abs().max() >= 0.999 * curvature.of_each(0.0)[0]
    two = network(1, [1, 1, 1], [name], biases=False)
    _, _, curvature = bounds(two, np.array([[3.0]]))
    at = [torch.tensor([w, v], dtype=torch.float64) for w in theta[::40].tolist() for v in (-2.0, 2.0)]
    start, radius = trained(two), 2.0
    near = [t for t in at if (t - start).norm() <= radius]
    largest = max(torch.linalg.matrix_norm(hessians(two, t, np.array([[3.0]])), 2).max() for t in near)
    assert largest > 0.3 * curvature.of_each(radius)[0]


@settings(max_examples=15, deadline=None)
@given(
    st.integers(0, 2**31),
    st.lists(st.sampled_from(["identity", "erf", "tanh", "sin", "gelu"]), min_size=1, max_size=3),
    st.lists(st.sampled_from([0.05, 1.0, 3.0]), min_size=4, max_size=4),
    st.booleans(),
    st.sampled_from([0.5, 2.0, 4.0]),
    st.sampled_from([(), (1,), (2,)]),
)
@example(0, ["erf"], [3.0, 1.0, 1.0, 1.0], False, 4.0, (1,))
@example(1, ["tanh", "erf", "tanh"], [3.0, 1.0, 1.0, 1.0], False, 2.0, ())
def test_the_bound_grows_with_the_ball_as_chains_of_neurons_do(seed, activations, sizes, last, radius, frozen):
    """With one neuron in each layer the bounds hold at hundreds of points that fill the ball.

    The bound grows most if the pre-activations start near 0 or in saturation.
    """
    widths = [1] * (len(activations) + 2 - last)
    layers = tuple(
        replace(layer, weight=np.array([[size]]), scale=1.0)
        for layer, size in zip(
            network(seed, widths, activations, False, frozen, blocks_of(seed, widths)), sizes, strict=False
        )
    )
    x = np.array([[1.0]])
    _, _, curvature = bounds(layers, x)
    theta = trained(layers)
    rng = np.random.default_rng(seed)
    steps = torch.tensor(rng.standard_normal((300, len(theta))))
    lengths = torch.tensor(radius * rng.uniform(size=(300, 1)) ** (1 / len(theta)))
    points = theta + lengths * steps / steps.norm(dim=1, keepdim=True)
    matrices = torch.func.vmap(lambda t: hessians(layers, t, x)[0])(points)
    assert torch.linalg.matrix_norm(matrices, 2).max() <= curvature.of_each(radius)[0] * (1 + 1e-12)
    in_ball = curvature.grown(curvature.alone, radius)
    axes = radius * torch.eye(len(theta), dtype=torch.float64)
    for point in torch.cat([theta + axes, theta - axes]):
        there = sizes_of_each(passed(moved(layers, point), x))
        for name in ("each", "before", "after"):
            for now, bound in zip(getattr(there, name), getattr(in_ball, name), strict=True):
                assert (now <= bound * (1 + 1e-8) + 1e-12).all(), name


def moved(layers, point):
    """Returns the layers, of one neuron each, with these trained weights."""
    weights = iter(point.tolist())
    return tuple(replace(layer, weight=np.array([[next(weights)]])) if layer.trained else layer for layer in layers)


def test_a_kink_is_reached_when_it_can_be():
    """The first layer's neurons reach their kinks at the distance |z| / |(x, bias)|, neither earlier nor later."""
    layers = network(0, [3, 4, 1], ["relu"])
    x = np.random.default_rng(0).standard_normal((1, 3))
    z = x @ layers[0].weight.T / np.sqrt(3) + 0.3 * layers[0].bias
    radius = np.abs(z).min() / np.hypot(np.linalg.norm(x) / np.sqrt(3), 0.3)
    _, _, curvature = bounds(layers, x)
    assert curvature.crossing(1.0001 * radius).any() and not curvature.crossing(0.9999 * radius).any()


def test_frozen_patterns_bend_by_products_of_layers_alone():
    """For two layers of ReLU, both trained, the Hessian's norm is exactly |(x, bias)| over the roots of the widths."""
    layers = network(3, [3, 5, 1], ["relu"])
    x = np.random.default_rng(3).standard_normal((4, 3))
    _, _, curvature = bounds(layers, x)
    norms = torch.linalg.matrix_norm(hessians(layers, trained(layers), x), 2).numpy()
    np.testing.assert_allclose(curvature.of_each(0.0), norms, rtol=1e-5)
    np.testing.assert_allclose(norms, np.hypot(np.linalg.norm(x, axis=1) / np.sqrt(3), 0.3) / np.sqrt(5), rtol=1e-12)


@settings(max_examples=20, deadline=None)
@given(st.integers(0, 2**31), st.lists(st.integers(1, 4), min_size=3, max_size=4), st.floats(0.001, 2))
def test_no_pattern_changes_where_no_kink_is_reached_and_outputs_are_lipschitz(seed, widths, radius):
    layers = network(seed, widths, ["relu"] * (len(widths) - 2), blocks=blocks_of(seed, widths))
    rng = np.random.default_rng(seed)
    x = rng.standard_normal((5, widths[0]))
    _, _, curvature = bounds(layers, x)
    safe = ~curvature.crossing(radius).any(axis=0)
    theta = trained(layers)
    step = torch.tensor(rng.standard_normal(len(theta)))
    moved = theta + radius * step / step.norm()
    change = (outputs(layers, moved, x) - outputs(layers, theta, x)).abs().numpy()
    assert (change <= radius * curvature.lipschitz(radius) * (1 + 1e-12)).all()
    before, after = (patterns(layers, t, x) for t in (theta, moved))
    assert (before == after).all(axis=1)[safe.reshape(5, -1).all(axis=1)].all()


def patterns(layers, theta, x):
    """Returns which hidden neurons are active, (n, neurons)."""
    active, first, h, aside = [], 0, torch.tensor(x), []
    for layer in layers[:-1]:
        aside += [h] * layer.opens
        weight = theta[first : first + layer.weight.size].reshape(layer.weight.shape)
        bias = theta[first + layer.weight.size : first + layer.weight.size + len(layer.bias)]
        first += layer.weight.size + len(layer.bias)
        z = layer.scale * h @ weight.T + layer.bias_scale * bias
        h = torch.relu(z)
        active.append(z.numpy() > 0)
        for _ in range(layer.closes):
            h = h + aside.pop()
    return np.concatenate(active, axis=1)


def test_the_bound_of_all_outputs_together_is_below_that_of_each():
    x = np.random.default_rng(0).standard_normal((40, 10))
    _, _, curvature = bounds(network(0, [10, 200, 200, 2], ["erf", "erf"]), x)
    assert curvature.of_all(0.1) < 0.8 * np.linalg.norm(curvature.of_each(0.1))


@given(st.integers(0, 2**31), st.integers(1, 6), st.sampled_from([0.0, 0.5]))
def test_the_largest_eigenvalue_without_negative_entries_is_bounded_sharply(seed, size, zeros):
    rng = np.random.default_rng(seed)
    form = rng.uniform(0, 1, (size, size)) * (rng.uniform(size=(size, size)) >= zeros)
    form = form + form.T
    exact = np.linalg.eigvalsh(form)[-1]
    largest = largest_nonnegative(form[None])[0]
    assert exact * (1 - 1e-13) <= largest <= exact * (1 + 1e-4) + 1e-280


# With 4 rows the norm is decided in ball arithmetic, with 300 rows by Cholesky's factorisation.
@pytest.mark.parametrize("rows", [4, 300])
@pytest.mark.parametrize("scale", [1.0, 2.0**-1060, 2.0**450])
def test_the_norm_of_a_matrix_is_bounded_from_above_and_sharply(rows, scale):
    rng = np.random.default_rng(rows)
    u, v = rng.integers(-9, 10, rows), rng.integers(-9, 10, 2 * rows)
    # The matrix u v^T `scale` has rank one, and `known` is the square of its norm.
    known = Fraction(int(u @ u) * int(v @ v)) * Fraction(scale) ** 2
    for matrix in (np.outer(u, v) * scale, np.outer(v, u) * scale):
        bound = spectral_norm(matrix)
        assert Fraction(bound) ** 2 >= known
        assert bound <= float(u @ u) ** 0.5 * float(v @ v) ** 0.5 * scale * (1 + 1e-8) + 1e-144


def test_the_norm_of_a_matrix_beyond_float64_is_refused():
    with pytest.raises(ValueError, match="must be finite"):
        spectral_norm(np.full((3, 3), 1e200))
