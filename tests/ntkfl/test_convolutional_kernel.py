"""Tests of the kernel of convolutional networks.

The kernel is compared with a recursion over pairs of pixels and with finite torch networks.
"""

from importlib import import_module

import jax
import numpy as np
import pytest
import torch
from hypothesis import given, settings, strategies as st
from mpmath import acos, asin, fdot, mp, mpf, pi, sin, sqrt

from experiments.benchmarks import neural_tangents_import
from ntkfl import gram
from ntkfl.memory import TooLittleMemory

TORCH = {"relu": torch.relu, "erf": torch.erf, "gelu": torch.nn.functional.gelu}


def images(n, shape=(2, 4, 3), seed=0):
    pixels = np.random.default_rng(seed).normal(size=(n, *shape))
    pixels[0, :, :, -1:] = 0  # Some pixels are zero, as at the border of digits.
    return pixels


def patches(covariance):
    """Returns the mean of a covariance of pixels, (h, w, h, w), over nine shifts of both images, with 0 beyond the
    border.
    """
    h, w = covariance.shape[:2]
    wide = np.pad(covariance, 1)
    return sum(wide[i : i + h, j : j + w, i : i + h, j : j + w] for i in range(3) for j in range(3)) / 9


def moments(activation, a, b, c):
    """Returns E[phi(u) phi(v)] and E[phi'(u) phi'(v)]."""
    if activation == "relu":
        norms = np.sqrt(a * b)
        angle = np.arccos(np.clip(c / np.where(norms > 0, norms, 1), -1, 1))
        return norms * (np.sin(angle) + (np.pi - angle) * np.cos(angle)) / (2 * np.pi), (np.pi - angle) / (2 * np.pi)
    if activation == "erf":
        d = (1 + 2 * a) * (1 + 2 * b)
        return 2 / np.pi * np.arcsin(2 * c / np.sqrt(d)), 4 / np.pi / np.sqrt(d - 4 * c * c)
    p, q = 1 + a, 1 + b
    d, arcsine = p * q - c * c, np.arcsin(c / np.sqrt(p * q))
    even = c * arcsine + (c * c + a * b * d) / (p * q * np.sqrt(d))
    return c / 4 + even / (2 * np.pi), 0.25 + (arcsine + c * (1 / p + 1 / q + 1 / d) / np.sqrt(d)) / (2 * np.pi)


def recursion(x, z, depth, activation):
    """Returns the kernel of two images, from the covariances of all pairs of their pixels."""
    gain, pairs = 2.0 if activation == "relu" else 1.0, {"xx": (x, x), "zz": (z, z), "xz": (x, z)}
    covariance = {k: patches(np.einsum("chw,cij->hwij", *pair)) for k, pair in pairs.items()}
    theta = covariance["xz"]
    for layer in range(2, depth + 1):
        variance = {k[0]: np.einsum("hwhw->hw", c) for k, c in covariance.items() if k[0] == k[1]}
        kernels = {
            k: moments(activation, variance[k[0]][:, :, None, None], variance[k[1]], c) for k, c in covariance.items()
        }
        passed, slope = kernels["xz"]
        if layer == depth:
            return (passed + theta * slope).mean()
        covariance = {k: gain * patches(c) for k, (c, _) in kernels.items()}
        theta = covariance["xz"] + gain * patches(theta * slope)


@pytest.mark.parametrize("depth", [2, 3, 4])
@pytest.mark.parametrize("activation", gram.ACTIVATIONS)
def test_the_recursion_over_pairs_of_pixels_agrees(activation, depth):
    x, z = images(3), images(2, seed=1)
    expected = np.array([[recursion(p, q, depth, activation) for q in z] for p in x])
    kernel = gram.convolutional(x, z, depth, activation)
    assert np.abs(kernel - expected).max() < 1e-12 * np.abs(expected).max()
    wrong = np.array([[recursion(p, q, depth + 1, activation) for q in z] for p in x])
    assert np.abs(kernel - wrong).max() > 0.01 * np.abs(expected).max()


@pytest.mark.parametrize(("activation", "depth"), [("relu", 2), ("relu", 3), ("erf", 3), ("gelu", 3)])
def test_finite_networks_have_it_as_their_mean(activation, depth):
    x, channels, draws = images(3, (2, 4, 4)), 64, 100
    gain, phi, inputs = 2.0 if activation == "relu" else 1.0, TORCH[activation], torch.tensor(x)
    kernels = []
    for seed in range(draws):
        generator = torch.Generator().manual_seed(seed)
        shapes = [(channels, 2, 3, 3), *[(channels, channels, 3, 3)] * (depth - 2), (channels,)]
        params = [torch.randn(s, generator=generator, dtype=torch.float64).requires_grad_() for s in shapes]
        h = inputs
        for layer, weights in enumerate(params[:-1]):
            scale = 1 / 3 if layer == 0 else (gain / (9 * channels)) ** 0.5
            h = phi(scale * torch.nn.functional.conv2d(h, weights, padding=1))
        outputs = h.mean(dim=(2, 3)) @ params[-1] / channels**0.5
        rows = [torch.cat([g.ravel() for g in torch.autograd.grad(f, params, retain_graph=True)]) for f in outputs]
        jacobian = torch.stack(rows)
        kernels.append((jacobian @ jacobian.T).numpy())
    kernels = np.array(kernels)
    standard_error = kernels.std(axis=0, ddof=1) / np.sqrt(draws)
    limit = gram.convolutional(x, depth=depth, activation=activation)
    # The deviation of the mean falls as 1 / channels.
    assert (np.abs(kernels.mean(axis=0) - limit) < 5 * standard_error + depth / channels / 3 * limit.max()).all()
    assert standard_error.max() < 0.04 * limit.max()


@pytest.mark.parametrize("activation", gram.ACTIVATIONS)
def test_neural_tangents_agrees(activation):
    stax = neural_tangents_import.neural_tangents().stax
    phi = {"relu": stax.Relu(), "erf": stax.Erf(), "gelu": stax.Gelu()}[activation]
    x, gain = images(3), 2**0.5 if activation == "relu" else 1.0
    layers = [
        f for g in (2**0.5, gain) for f in (stax.Conv(1, (3, 3), padding="SAME", W_std=g, b_std=None), phi)
    ]  # Our first layer divides by the two channels, and neural-tangents' first layer does not.
    kernel = stax.serial(*layers, stax.GlobalAvgPool(), stax.Dense(1, W_std=1.0, b_std=None))[2]
    theirs = np.asarray(jax.jit(lambda x: kernel(x, None, "ntk"))(x.transpose(0, 2, 3, 1)))
    ours = gram.convolutional(x, activation=activation)
    assert np.abs(theirs - ours).max() < 1e-7 * ours.max()
    assert np.abs(theirs - ours)[0, 1:].max() < 1e-13 * ours.max()


@pytest.mark.parametrize("activation", gram.ACTIVATIONS)
def test_symmetric_and_the_same_in_blocks(activation, monkeypatch):
    x = images(7)
    whole = gram.convolutional(x, activation=activation)
    assert np.array_equal(whole, whole.T)
    assert np.linalg.eigvalsh(whole)[0] > 0
    monkeypatch.setattr(import_module("ntkfl.gram.deep"), "_ENTRIES", 2 * 144)  # Two images are computed at a time.
    assert np.array_equal(gram.convolutional(x, activation=activation), whole)
    assert np.allclose(gram.convolutional(x, x[1:], activation=activation), whole[:, 1:], rtol=1e-13)


@pytest.mark.parametrize("activation", gram.ACTIVATIONS)
def test_duplicates_and_near_duplicates_keep_their_digits(activation):
    x = np.random.default_rng(5).normal(size=(2, 7, 1, 1))
    x = np.concatenate([x, x, (1 + 2**-30) * x, x + 1e-9])
    ours = gram.convolutional(x, depth=4, activation=activation)
    shared = gram.deep(x[:, :, 0, 0] / 3, depth=4, activation=activation)
    # ReLU is homogeneous, and in every layer eight of the nine pixels of a patch are beyond the border.
    if activation == "relu":
        assert np.abs(9**2 * ours - shared)[:4, :4].max() < 1e-14 * shared.max()
        assert np.abs(9**2 * ours - shared).max() < 1e-11 * shared.max()
    assert np.array_equal(ours[:2, :2], ours[2:4, 2:4])
    assert np.array_equal(ours[:2, :2], ours[:2, 2:4])


def precise_moments(activation, a, b, c):
    """Returns `moments` computed in mpmath."""
    if activation == "relu":
        size = sqrt(a * b)
        cosine = max(mpf(-1), min(mpf(1), c / size)) if size else mpf(0)
        angle = acos(cosine)
        return size * (sin(angle) + (pi - angle) * cosine) / (2 * pi), (pi - angle) / (2 * pi)
    if activation == "erf":
        d = (1 + 2 * a) * (1 + 2 * b)
        return 2 / pi * asin(2 * c / sqrt(d)), 4 / pi / sqrt(d - 4 * c * c)
    p, q = 1 + a, 1 + b
    d, arcsine = p * q - c * c, asin(c / sqrt(p * q))
    even = c * arcsine + (c * c + a * b * d) / (p * q * sqrt(d))
    return c / 4 + even / (2 * pi), mpf(1) / 4 + (arcsine + c * (1 / p + 1 / q + 1 / d) / sqrt(d)) / (2 * pi)


def precise(x, z, depth, activation):
    """Returns the kernel of two rows of pixels, (w, channels), in mpmath, by the recursion over all pairs of pixels."""
    gain, w = 2 if activation == "relu" else 1, range(len(x))

    def patches(c):
        shifts = [(i, j, e) for i in w for j in w for e in (-1, 0, 1) if i + e in w and j + e in w]
        return {(i, j): sum(c[i + e, j + e] for k, m, e in shifts if (k, m) == (i, j)) / 9 for i in w for j in w}

    x, z = ([[mpf(float(value)) for value in np.atleast_1d(pixel)] for pixel in row] for row in (x, z))
    pairs = {"xx": (x, x), "zz": (z, z), "xz": (x, z)}
    covariance = {k: patches({(i, j): fdot(p[i], q[j]) for i in w for j in w}) for k, (p, q) in pairs.items()}
    theta = covariance["xz"]
    for layer in range(2, depth + 1):
        variance = {k: covariance[2 * k] for k in "xz"}
        kernels = {
            k: {(i, j): precise_moments(activation, variance[k[0]][i, i], variance[k[1]][j, j], c[i, j]) for i, j in c}
            for k, c in covariance.items()
        }
        passed = {at: value + theta[at] * slope for at, (value, slope) in kernels["xz"].items()}
        if layer == depth:
            return sum(passed.values()) / len(passed)
        covariance = {
            k: patches({at: gain * value for at, (value, _) in entries.items()}) for k, entries in kernels.items()
        }
        theta = patches({at: gain * value for at, value in passed.items()})


@settings(deadline=None, max_examples=25)
@given(
    seed=st.integers(0, 2**16),
    depth=st.integers(2, 6),
    activation=st.sampled_from(gram.ACTIVATIONS),
    ratio=st.floats(0, 12),
    near=st.floats(-16, 0),
    sign=st.sampled_from([-1, 1]),
    channels=st.sampled_from([1, 3]),
)
def test_patches_of_any_norms_keep_their_digits(seed, depth, activation, ratio, near, sign, channels):
    """For patches of any norms the error is a few rounding errors in each layer.

    The rows of pixels are nearly parallel or antipodal, and their norms have ratios of up to 1e12.
    """
    rng = np.random.default_rng(seed)
    x = rng.standard_normal((3, channels)) * 10.0 ** -rng.uniform(0, ratio, (3, 1))
    x[0] *= rng.choice([0.0, 1.0])
    z = sign * 10**ratio * (x + 10**near * rng.standard_normal(x.shape) * np.abs(x))
    if activation != "relu":
        x, z = x / 10 ** (ratio / 2), z / 10 ** (ratio / 2)
    kernel = gram.convolutional_estimate(*map(image, (x, z)), depth, activation)
    assert np.array_equal(kernel.value, gram.convolutional(*map(image, (x, z)), depth, activation))
    with mp.workdps(60):
        off = abs(precise(x, z, depth, activation) - mpf(kernel.value[0, 0]))
        unit = mpf(2) ** -53 * sqrt(precise(x, x, depth, activation) * precise(z, z, depth, activation))
        stiff = max(1.0, np.abs(z).max(), np.abs(x).max()) if activation == "gelu" and depth > 2 else 1.0
        assert off <= 10 * depth * stiff * unit
        assert off <= kernel.error[0, 0] <= 600 * depth**2 * stiff * unit


def image(row):
    return row.reshape(len(row), -1).T[None, :, None]


@pytest.mark.parametrize("activation", gram.ACTIVATIONS)
def test_the_bound_is_symmetric_and_certifies_an_eigenvalue(activation):
    x = images(4)
    x[1] = 0
    x[1, 0, 2, 1] = 3.0  # Patches of zeros have no angle.
    kernel = gram.convolutional_estimate(x, activation=activation)
    assert np.array_equal(kernel.value, gram.convolutional(x, activation=activation))
    assert np.array_equal(kernel.error, kernel.error.T)
    assert gram.smallest_eigenvalue(kernel).lo > 0
    other = gram.convolutional_estimate(x, x[2:], activation=activation)
    assert (np.abs(other.value - kernel.value[:, 2:]) <= other.error + kernel.error[:, 2:]).all()


def test_pixels_whose_squares_lose_bits_have_no_bound():
    x = images(2)
    x[1, :, 2, 1] = 1e-150
    with pytest.raises(
        ValueError, match=r"image 1 of z has at \[2, 1\] a pixel of 1e-150; a pixel that is not 0 must be"
    ):
        gram.convolutional_estimate(images(1), x)
    x[1, :, 2, 1] = 0
    assert np.isfinite(gram.convolutional_estimate(images(1), x).error).all()


def test_the_kernel_of_two_pixels_whose_sizes_differ_by_1e8_is_accurate():
    """Two images of one pixel have an accurate kernel if one pixel is a hundred million times as large as the other.

    The kernel was once off by 2.7e-3 of itself, because the squares of such norms hide the angle between the patches.
    """
    x, z = np.array([0.7, 0.7 * (1e8 + 0.7)])[:, None]
    kernel = gram.convolutional(image(x), image(z), depth=6)[0, 0]
    with mp.workdps(60):
        assert kernel == pytest.approx(float(precise(x, z, 6, "relu")), rel=1e-14)


@pytest.mark.parametrize("activation", gram.ACTIVATIONS)
def test_patches_of_zeros_add_nothing(activation):
    x = np.zeros((2, 1, 1, 7))
    x[0, ..., 0], x[1, ..., 1] = 1, 2
    kernel = gram.convolutional(x, activation=activation)
    with mp.workdps(30):
        expected = [[float(precise(p, q, 3, activation)) for q in x[:, 0, 0]] for p in x[:, 0, 0]]
    assert kernel == pytest.approx(np.array(expected), rel=1e-14)


def test_reflected_images_have_the_same_kernel():
    x = images(4)
    turned = gram.convolutional(x[:, :, ::-1, ::-1].transpose(0, 1, 3, 2).copy())
    assert np.allclose(turned, gram.convolutional(x), rtol=1e-12)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"x": np.ones((2, 3))}, r"x has shape \(2, 3\); it must be \(n, channels, height, width\)"),
        ({"z": np.ones((1, 2, 3, 3))}, r"z has images of shape \(2, 3, 3\), x of \(2, 4, 3\): they must agree"),
        ({"z": np.zeros((1, 2, 4, 3))}, "row 0 of z is zero"),
        ({"x": np.full((1, 2, 4, 3), np.nan)}, "is nan; every entry must be finite"),
        ({"x": np.full((1, 2, 4, 3), 1e200)}, r"image 0 of x has pixels up to about 2\^665; they must be from 2\^-400"),
        ({"depth": 1}, "depth is 1; it must be an integer of at least 2"),
        ({"activation": "relo"}, "Did you mean 'relu'"),
    ],
)
def test_bad_input_is_named(arguments, message):
    with pytest.raises(ValueError, match=message):
        gram.convolutional(**{"x": images(2), **arguments})


@pytest.mark.parametrize("kernel", [gram.convolutional, gram.convolutional_estimate])
def test_what_is_no_array_or_too_many_images_is_named(kernel):
    with pytest.raises(ValueError, match=r"x has shape \(\); it must be \(n, channels, height, width\)"):
        kernel(5)
    many = np.broadcast_to(1.0, (3 * 10**6, 1, 1, 1))
    with pytest.raises(TooLittleMemory, match=r"the kernel of all images takes .* TB of memory"):
        kernel(many)


def test_large_images_are_refused(monkeypatch):
    monkeypatch.setattr("ntkfl.memory.available", lambda: 2.0**27)
    with pytest.raises(TooLittleMemory, match=r"the kernel of two images takes 3.22 GB of memory.*pixels up to"):
        gram.convolutional(np.ones((1, 1, 64, 64)))
