"""The kernel of convolutional networks: against a recursion over pairs of pixels and against finite torch networks."""

from importlib import import_module

import jax
import numpy as np
import pytest
import torch

from ntkfl import gram, tangents
from ntkfl.memory import TooLittleMemory

TORCH = {"relu": torch.relu, "erf": torch.erf, "gelu": torch.nn.functional.gelu}


def images(n, shape=(2, 4, 3), seed=0):
    found = np.random.default_rng(seed).normal(size=(n, *shape))
    found[0, :, :, -1:] = 0  # where no pixel is, as at the border of digits
    return found


def patches(covariance):
    """The mean of a covariance of pixels, (h, w, h, w), over the nine shifts of both; nothing beyond the border."""
    h, w = covariance.shape[:2]
    wide = np.pad(covariance, 1)
    return sum(wide[i : i + h, j : j + w, i : i + h, j : j + w] for i in range(3) for j in range(3)) / 9


def moments(activation, a, b, c):
    """E[phi(u) phi(v)] and E[phi'(u) phi'(v)]."""
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
    """The kernel of two images, from the covariances of all pairs of their pixels."""
    gain, pairs = 2.0 if activation == "relu" else 1.0, {"xx": (x, x), "zz": (z, z), "xz": (x, z)}
    covariance = {k: patches(np.einsum("chw,cij->hwij", *pair)) for k, pair in pairs.items()}
    theta = covariance["xz"]
    for layer in range(2, depth + 1):
        variance = {k[0]: np.einsum("hwhw->hw", c) for k, c in covariance.items() if k[0] == k[1]}
        found = {
            k: moments(activation, variance[k[0]][:, :, None, None], variance[k[1]], c) for k, c in covariance.items()
        }
        passed, slope = found["xz"]
        if layer == depth:
            return (passed + theta * slope).mean()
        covariance = {k: gain * patches(c) for k, (c, _) in found.items()}
        theta = covariance["xz"] + gain * patches(theta * slope)


@pytest.mark.parametrize("depth", [2, 3, 4])
@pytest.mark.parametrize("activation", gram.ACTIVATIONS)
def test_the_recursion_over_pairs_of_pixels_agrees(activation, depth):
    x, z = images(3), images(2, seed=1)
    expected = np.array([[recursion(p, q, depth, activation) for q in z] for p in x])
    found = gram.convolutional(x, z, depth, activation)
    assert np.abs(found - expected).max() < 1e-12 * np.abs(expected).max()
    wrong = np.array([[recursion(p, q, depth + 1, activation) for q in z] for p in x])
    assert np.abs(found - wrong).max() > 0.01 * np.abs(expected).max()


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
    # the mean's own deviation falls as 1 / channels
    assert (np.abs(kernels.mean(axis=0) - limit) < 5 * standard_error + depth / channels / 3 * limit.max()).all()
    assert standard_error.max() < 0.04 * limit.max()


@pytest.mark.parametrize("activation", gram.ACTIVATIONS)
def test_neural_tangents_agrees(activation):
    stax = tangents.neural_tangents().stax
    phi = {"relu": stax.Relu(), "erf": stax.Erf(), "gelu": stax.Gelu()}[activation]
    x, gain = images(3), 2**0.5 if activation == "relu" else 1.0
    layers = [
        f for g in (2**0.5, gain) for f in (stax.Conv(1, (3, 3), padding="SAME", W_std=g, b_std=None), phi)
    ]  # its first layer divides by the two channels
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
    monkeypatch.setattr(import_module("ntkfl.gram.convolutional"), "_ENTRIES", 2 * 144)  # two images at a time
    assert np.array_equal(gram.convolutional(x, activation=activation), whole)
    assert np.allclose(gram.convolutional(x, x[1:], activation=activation), whole[:, 1:], rtol=1e-13)


@pytest.mark.parametrize("activation", gram.ACTIVATIONS)
def test_duplicates_and_near_duplicates_keep_their_digits(activation):
    x = np.random.default_rng(5).normal(size=(2, 7, 1, 1))
    x = np.concatenate([x, x, (1 + 2**-30) * x, x + 1e-9])
    ours = gram.convolutional(x, depth=4, activation=activation)
    shared = gram.deep(x[:, :, 0, 0] / 3, depth=4, activation=activation)
    if activation == "relu":  # homogeneous: eight of nine pixels are beyond the border, in every layer
        assert np.abs(9**2 * ours - shared)[:4, :4].max() < 1e-14 * shared.max()
        assert np.abs(9**2 * ours - shared).max() < 1e-11 * shared.max()
    assert np.array_equal(ours[:2, :2], ours[2:4, 2:4])
    assert np.array_equal(ours[:2, :2], ours[:2, 2:4])


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


def test_large_images_are_refused(monkeypatch):
    monkeypatch.setattr("ntkfl.memory.available", lambda: 2.0**27)
    with pytest.raises(TooLittleMemory, match=r"the kernel of two images takes 3.22 GB of memory.*pixels up to"):
        gram.convolutional(np.ones((1, 1, 64, 64)))
