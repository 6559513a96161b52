"""Tests of the kernel of deep networks against ball arithmetic with 180 digits, neural-tangents and finite networks.

The symmetries of the kernel are tested too.
"""

import numpy as np
import pytest
import torch
from flint import arb
from hypothesis import example, given, settings, strategies as st
from neural_kernels import deep_kernel

from experiments.benchmarks import neural_tangents_import
from ntkfl.balls import precision
from ntkfl.gram import ACTIVATIONS, deep, deep_estimate, infinite, infinite_estimate, limit, smallest_eigenvalue
from ntkfl.memory import TooLittleMemory

U = 2.0**-53
BITS = 600  # With so many bits, ab - c^2 of rows that are 1e-16 apart keeps more than 60 digits, layer after layer.
MANY_BITS = 4000  # bits for rows of norm 1e140
TORCH = {"relu": torch.relu, "erf": torch.erf, "gelu": torch.nn.functional.gelu}


def moments(activation, a, b, c):
    """Returns E[phi(u) phi(v)] and E[phi'(u) phi'(v)] by the textbooks' formulas.

    (u, v) is Gaussian with the covariance ((a, c), (c, b)).
    """
    pi = arb.pi()
    if activation == "relu":
        norms, square = (a * b).sqrt(), a * b - c * c
        angle = arb.atan2(square.sqrt() if square > 0 else arb(0), c)
        return norms * (angle.sin() + (pi - angle) * angle.cos()) / (2 * pi), (pi - angle) / (2 * pi)
    if activation == "erf":
        p, q = 1 + 2 * a, 1 + 2 * b
        return 2 / pi * (2 * c / (p * q).sqrt()).asin(), 4 / pi / (p * q - 4 * c * c).sqrt()
    p, q = 1 + a, 1 + b
    d, arcsine = p * q - c * c, (c / (p * q).sqrt()).asin()
    even = c * arcsine + (c * c + a * b * d) / (p * q * d.sqrt())
    return c / 4 + even / (2 * pi), arb(1) / 4 + (arcsine + c * (1 / p + 1 / q + 1 / d) / d.sqrt()) / (2 * pi)


def exact(x, z, depth, activation, bias):
    """Returns Theta(x, z) of the given float64 numbers."""
    a, b, c = (
        sum((arb(float(u)) * arb(float(v)) for u, v in zip(*p, strict=True)), arb(0)) for p in [(x, x), (z, z), (x, z)]
    )
    square = arb(float(bias)) ** 2
    a, b, c = a + square, b + square, c + square
    theta = c
    for _ in range(depth - 2):
        gain = 2 if activation == "relu" else 1
        covariance, slope = moments(activation, a, b, c)
        a, b = (gain * moments(activation, v, v, v)[0] + square for v in (a, b))
        c = gain * covariance + square
        theta = c + gain * theta * slope
    covariance, slope = moments(activation, a, b, c)
    return covariance + theta * slope


def near_and_far(rng, d):
    """Returns a row x, and rows of several norms at angles from 1 to 1e-16 to x and to -x."""
    x, e = rng.normal(size=(2, d))
    x /= np.linalg.norm(x)
    e -= x * (x @ e)
    e /= np.linalg.norm(e)
    angles = 10.0 ** -np.array([0.0, 0.3, 1, 3, 5, 7, 8, 9, 11, 13, 16])[:, None]
    rows = np.cos(angles) * x + np.sin(angles) * e
    stretched = rows * (1 + angles * rng.normal(size=angles.shape))
    return x[None], np.concatenate([x[None], rows, -rows, stretched, -2.7 * rows])


def compared(x, z, depth, activation, bias, bits=BITS):
    """Asserts that no error is beyond its bound, and returns the true errors and the bounds."""
    kernel = deep_estimate(x, z, depth, activation, bias)
    assert np.array_equal(kernel.value, deep(x, z, depth, activation, bias))
    with precision(bits):
        errors = [
            [abs(exact(p, q, depth, activation, bias) - arb(float(v))) for q, v in zip(z, row, strict=True)]
            for p, row in zip(x, kernel.value, strict=True)
        ]
        assert all(e.rad() < arb(10) ** -60 * (1 + e) for row in errors for e in row)
        errors = np.array([[float(e.upper()) for e in row] for row in errors])
    assert (errors <= kernel.error).all()
    return errors, kernel.error


def judged(x, z, depth, activation, bias, bits=BITS):
    """Returns true errors and their bounds, in units of 2^-53 (|x|^2 + b^2)^(1/2) (|z|^2 + b^2)^(1/2)."""
    errors, bounds = compared(x, z, depth, activation, bias, bits)
    units = U * np.outer(*(np.hypot(np.linalg.norm(rows, axis=1), bias) for rows in (x, z)))
    return errors / units, bounds / units


@pytest.mark.parametrize("bias", [0.0, 0.5])
@pytest.mark.parametrize("depth", [2, 3, 4, 5, 6])
@pytest.mark.parametrize("activation", ACTIVATIONS)
def test_roundings_are_few_at_every_angle_and_the_bound_covers_them(activation, depth, bias):
    rng = np.random.default_rng([depth, int(2 * bias)])
    for d, size in ((2, 1.0), (5, 1e-3), (20, 30.0), (5, 1e3)):
        x, z = near_and_far(rng, d)
        error, bound = judged(size * x, size * z, depth, activation, bias)
        # `stiff` is the factor that the docstring of `deep` states.
        stiff = size if activation == "gelu" and depth > 2 and size > 1 else 1.0
        # the factor by which a layer enlarges the kernel
        growth = {"relu": 1.0, "erf": 4 / np.pi, "gelu": 1.0}[activation]
        assert error.max() < 5 * depth**2 * growth**depth * stiff
        assert bound.max() < 600 * depth**2 * growth**depth * stiff * (1 + d / 10) * (2 if bias else 1)


@pytest.mark.parametrize("depth", [2, 4])
@pytest.mark.parametrize("sign", [-1, 1])
def test_of_erf_nearly_parallel_and_antipodal_rows_of_large_norms_keep_their_digits(sign, depth):
    """With erf, nearly parallel and antipodal rows of large norms have an accurate kernel.

    The kernel was once off by 4e-9 of itself near pi, since a float64 angle near pi is inexact.
    """
    rng = np.random.default_rng(depth)
    for power in (5, 9, 12):
        x = 10.0**power * rng.normal(size=(1, 3))
        z = sign * x * (1 + np.array([[1e-4], [1e-8], [1e-11]]) * rng.normal(size=(3, 3)))
        kernel = deep(x, z, depth, "erf")[0]
        with precision(MANY_BITS):
            off = [
                float(abs(exact(x[0], q, depth, "erf", 0.0) - arb(float(v)))) for q, v in zip(z, kernel, strict=True)
            ]
        size = np.sqrt(
            np.diagonal(deep(x, depth=depth, activation="erf")) * np.diagonal(deep(z, depth=depth, activation="erf"))
        )
        assert (np.array(off) <= 100 * U * size).all()


@pytest.mark.parametrize("bias", [1e2, 1e8])
def test_of_gelu_a_large_bias_multiplies_the_error_as_a_large_norm_does(bias):
    x, z = near_and_far(np.random.default_rng(0), 3)
    for depth, share in ((2, 0.0), (3, 1.0), (5, 5.0)):
        error, _ = judged(x, z, depth, "gelu", bias, MANY_BITS)
        assert error.max() <= 5 + share * bias
        # The error that the docstring of `deep` states does occur, up to a constant.
        assert error.max() >= 0.1 * share * bias


@settings(deadline=None, max_examples=60)
@given(
    seed=st.integers(0, 2**32 - 1),
    d=st.integers(1, 6),
    depth=st.integers(2, 6),
    activation=st.sampled_from(ACTIVATIONS),
    bias=st.sampled_from([0.0, 1e-200, 1e-9, 0.1, 3.0, 1e6, 1e140]),
    exponents=st.tuples(st.integers(-140, 140), st.integers(-140, 140)),
    near=st.sampled_from([0.0, 1e-15, 1e-8, 1e-2, 3.0]),
)
@example(0, 1, 2, "erf", 0.0, (-14, -140), 0.0)  # |x|^2 |z|^2 is below 2^-1022, the least normal float.
@example(0, 2, 2, "relu", 1e-200, (110, 0), 0.0)  # |x| divided by the bias is beyond float64.
def test_the_bound_covers_rows_of_any_norm(seed, d, depth, activation, bias, exponents, near):
    rng = np.random.default_rng(seed)
    x = rng.normal(size=(1, d))
    z = rng.choice([-1, 1]) * x + near * rng.normal(size=(2, d))
    x, z = x * 10.0 ** exponents[0], z * 10.0 ** exponents[1]
    if bias:  # With a bias, a row of zeros has a kernel too.
        x, z = np.concatenate([x, np.zeros((1, d))]), np.concatenate([z, np.zeros((1, d))])
    _, bounds = compared(x, z, depth, activation, bias, MANY_BITS)
    assert np.isfinite(bounds).all()


@pytest.mark.parametrize("n", [1, 7, 300])
@pytest.mark.parametrize("bias", [0.0, 0.5])
@pytest.mark.parametrize("activation", ACTIVATIONS)
def test_exactly_symmetric_and_the_same_in_blocks(activation, bias, n):
    x = np.random.default_rng(n).normal(size=(n, 4))
    estimate = deep_estimate(x, depth=4, activation=activation, bias=bias)
    assert np.array_equal(estimate.value, estimate.value.T)
    assert np.array_equal(estimate.error, estimate.error.T)
    few = x[:: max(1, n // 5)]
    other = deep_estimate(x, few, 4, activation, bias)
    assert (np.abs(other.value - estimate.value[:, :: max(1, n // 5)]) <= 2 * other.error).all()
    assert np.array_equal(deep(x, depth=4, activation=activation, bias=bias), estimate.value)


def test_depth_two_with_relu_is_the_two_layer_kernel_and_the_readouts_part():
    rng = np.random.default_rng(4)
    x = rng.normal(size=(20, 5)) * 10 ** rng.uniform(-3, 3, (20, 1))
    x[1] = x[0] * (1 + 1e-9)
    norms = np.outer(*[np.linalg.norm(x, axis=1)] * 2)
    angle = limit.angles(x)
    readout = norms * (np.sin(angle) + (np.pi - angle) * np.cos(angle)) / (2 * np.pi)
    bound = infinite_estimate(x).error + deep_estimate(x, depth=2).error
    assert (np.abs(deep(x, depth=2) - infinite(x) - readout) <= bound).all()


@pytest.mark.parametrize("depth", [2, 3, 6])
def test_neural_tangents_agrees_away_from_small_angles(depth):
    x, z = (np.random.default_rng(k).normal(size=(k, 7)) for k in (6, 4))
    error = deep_estimate(x, z, depth).error
    assert (np.abs(deep_kernel(x, z, depth) - deep(x, z, depth)) <= error).all()
    norms = np.outer(*[np.linalg.norm(x, axis=1)] * 2)  # neural-tangents loses half the digits on its diagonal
    assert (np.abs(deep_kernel(x, depth=depth) - deep(x, depth=depth)) <= 1e-6 * norms).all()


@pytest.mark.parametrize("bias", [0.0, 0.7])
@pytest.mark.parametrize(("depth", "name"), [(2, "erf"), (4, "erf"), (4, "relu"), (2, "gelu"), (4, "gelu")])
def test_neural_tangents_agrees_with_biases_and_other_activations(depth, name, bias):
    stax = neural_tangents_import.neural_tangents().stax
    phi = {"relu": stax.Relu(), "erf": stax.Erf(), "gelu": stax.Gelu()}[name]
    x, z = (np.random.default_rng(k).normal(size=(k, 3)) for k in (6, 4))
    hidden = {"relu": 2**0.5}.get(name, 1.0)
    layers = [stax.Dense(1, W_std=3**0.5, b_std=bias)]  # stax divides inputs by the root of their 3 features
    layers += [f for _ in range(depth - 2) for f in (phi, stax.Dense(1, W_std=hidden, b_std=bias))]
    kernel = stax.serial(*layers, phi, stax.Dense(1, W_std=1.0))[2](x, z, "ntk")
    assert np.abs(np.asarray(kernel) - deep(x, z, depth, name, bias)).max() < 1e-12 * (1 + np.abs(kernel).max())


@settings(deadline=None, max_examples=40)
@given(seed=st.integers(0, 2**32 - 1), n=st.integers(1, 8), d=st.integers(1, 6), depth=st.integers(2, 6))
def test_relu_without_biases_is_homogeneous_in_each_row(seed, n, d, depth):
    rng = np.random.default_rng(seed)
    x, scales = rng.normal(size=(n, d)), 2.0 ** rng.integers(-300, 300, n)
    with np.errstate(over="ignore", under="ignore"):
        expected = np.ldexp(deep(x, depth=depth), np.add.outer(*[np.log2(scales).astype(int)] * 2))
    assert np.array_equal(deep(x * scales[:, None], depth=depth), expected)


@settings(deadline=None, max_examples=40)
@given(
    seed=st.integers(0, 2**32 - 1),
    n=st.integers(2, 8),
    d=st.integers(1, 6),
    depth=st.integers(2, 6),
    activation=st.sampled_from(ACTIVATIONS),
    bias=st.sampled_from([0.0, 0.5]),
)
def test_positive_semidefinite_and_unmoved_by_rotations(seed, n, d, depth, activation, bias):
    rng = np.random.default_rng(seed)
    x = rng.normal(size=(n, d))
    known = deep_estimate(x, depth=depth, activation=activation, bias=bias)
    assert smallest_eigenvalue(known).hi > 0
    twice = smallest_eigenvalue(deep_estimate(np.concatenate([x, x[:1]]), None, depth, activation, bias))
    assert twice.lo <= 0 <= twice.hi
    turned = deep(x @ np.linalg.qr(rng.normal(size=(d, d)))[0], depth=depth, activation=activation, bias=bias)
    assert np.allclose(turned, known.value, rtol=0, atol=1e-12 * known.value.max())
    if d > 1 and activation == "relu":  # If no rows are parallel, the kernel is proved to be definite.
        assert smallest_eigenvalue(known).lo > 0


def finite_kernels(x, depth, activation, bias, width, draws):
    """Returns kernels of drawn networks of that width, (draws, n, n), as the docstring of `deep` defines them.

    All layers are trained.
    """
    phi, gain = TORCH[activation], 2.0 if activation == "relu" else 1.0
    inputs = torch.tensor(x)
    kernels = []
    for seed in range(draws):
        generator = torch.Generator().manual_seed(seed)
        sizes = [x.shape[1]] + [width] * (depth - 1)
        params = [
            part
            for m, n in zip(sizes[1:], sizes, strict=False)
            for part in (
                torch.randn(m, n, generator=generator, dtype=torch.float64),
                torch.randn(m, generator=generator, dtype=torch.float64),
            )
        ]
        readout = torch.randn(width, generator=generator, dtype=torch.float64)
        for p in (*params, readout):
            p.requires_grad_()
        h = inputs
        for layer in range(depth - 1):
            scale = 1.0 if layer == 0 else (gain / width) ** 0.5
            h = phi(scale * h @ params[2 * layer].T + bias * params[2 * layer + 1])
        outputs = h @ readout / width**0.5
        trained = [p for k, p in enumerate(params) if bias or k % 2 == 0] + [readout]
        rows = [torch.cat([g.ravel() for g in torch.autograd.grad(f, trained, retain_graph=True)]) for f in outputs]
        jacobian = torch.stack(rows)
        kernels.append((jacobian @ jacobian.T).numpy())
    return np.array(kernels)


QUICK = [("relu", 2, 0.0), ("relu", 4, 0.0), ("erf", 3, 0.6), ("gelu", 4, 0.6)]
SLOW = [("relu", 2, 0.6), ("relu", 4, 0.6), ("erf", 3, 0.0), ("gelu", 3, 0.0), ("gelu", 3, 0.6), ("gelu", 4, 0.0)]


@pytest.mark.quick_rows(2)
@pytest.mark.parametrize(
    ("activation", "depth", "bias"), QUICK + [pytest.param(*case, marks=pytest.mark.slow) for case in SLOW]
)
def test_finite_networks_have_it_as_their_mean(activation, depth, bias):
    x = np.random.default_rng(6).normal(size=(4, 3))
    x[1] = x[0] + 0.1
    kernels = finite_kernels(x, depth, activation, bias, width=256, draws=120)
    standard_error = kernels.std(axis=0, ddof=1) / np.sqrt(len(kernels))
    # The deviation of the mean falls as 1 / width, faster than the standard error of so few draws.
    gap = np.abs(kernels.mean(axis=0) - deep(x, depth=depth, activation=activation, bias=bias))
    assert (gap < 5 * standard_error + depth / 400 * kernels.mean(axis=0).max()).all()
    assert standard_error.max() < 0.02 * kernels.mean(axis=0).max()


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"depth": 1}, "depth is 1; it must be an integer of at least 2, the number of layers of weights"),
        ({"depth": 2.5}, "depth is 2.5; it must be an integer"),
        ({"depth": True}, "depth is True; it must be an integer"),
        ({"activation": "rleu"}, "there is no activation 'rleu' here. Did you mean 'relu'. There are relu, erf, gelu"),
        ({"activation": "GELU"}, "Did you mean 'gelu'"),
        ({"activation": 3}, "there is no activation 3 here"),
        ({"bias": -1.0}, "bias is -1.0; it must be a finite number of at least 0"),
        ({"bias": np.nan}, "bias is nan; it must be a finite number"),
        ({"bias": "much"}, "bias is 'much'; it must be a finite number"),
        ({"bias": 1e300}, r"bias is 1e\+300; it must be below 2\^500"),
        ({"z": [[1.0, 0.0, 0.0]]}, "z has 3 features, x has 2: they must agree"),
        ({"z": [[0.0, 0.0]]}, "row 0 of z is zero"),
        ({"z": [[np.inf, 0.0]]}, r"z\[0, 0\] is inf; every entry must be finite"),
        (
            {"z": [[1.0, 0.0], [1e200, 0.0]], "activation": "erf"},
            r"row 1 of z has entries of about 2\^665; with a bias",
        ),
        ({"z": [[1e-200, 0.0]], "bias": 0.1}, r"they must be from 2\^-500 to 2\^500: rescale the rows"),
    ],
)
@pytest.mark.parametrize("function", [deep, deep_estimate])
def test_bad_input_is_named(function, options, message):
    with pytest.raises(ValueError, match=message):
        function(np.array([[1.0, 2.0]]), **{k: np.array(v) if k == "z" else v for k, v in options.items()})


def test_products_beyond_float64_are_refused():
    x = np.array([[1e200, 0.0], [1.0, 1e200]])
    with pytest.raises(ValueError, match="have a product beyond float64; rescale them"):
        deep(x)
    assert np.isfinite(deep(x[:1], 1e-200 * x)).all()


def test_rows_of_many_blocks_are_those_of_one():
    x, z = np.ones((1, 1)), np.linspace(-1, 1, 40_000)[:, None]
    assert np.array_equal(deep(x, z)[0, 30_000:], deep(x, z[30_000:])[0])
    assert np.array_equal(deep(z, x).T, deep(x, z))


def test_what_does_not_fit_is_refused_before_the_work(monkeypatch):
    monkeypatch.setattr("ntkfl.memory.available", lambda: 2.0**26)
    x = np.ones((5000, 2))
    with pytest.raises(TooLittleMemory, match=r"the kernel of a deep network takes 280 MB of memory.*n up to"):
        deep(x)
