"""The infinite-width kernel of convolutional networks with global average pooling, from pairs of pixels."""

from typing import Any

import numpy as np
from jaxtyping import Float

from ntkfl import interruption
from ntkfl.gram.deep import DUALS, checked_activation, checked_depth
from ntkfl.gram.dual_kernels import Activation, Pairs, Rows
from ntkfl.gram.error_free import row_exponents
from ntkfl.gram.mirror import mirrored
from ntkfl.memory import require
from ntkfl.problem import checked_inputs, real_array

FAR = 400  # exponents of the largest pixels up to which no square of theirs is lost
_ENTRIES = 2**15  # pairs of pixels of the images taken at a time, whose temporaries stay in cache
_BORDER = ((0, 0), *((1, 1),) * 4)
_COPIES = 24  # numbers held for each of them, at the most


def convolutional(
    x: Float[np.ndarray, "n channels height width"],
    z: Float[np.ndarray, "p channels height width"] | None = None,
    depth: int = 3,
    activation: str = "relu",
) -> Float[np.ndarray, "n p"]:
    """Neural tangent kernel, at infinite width, of a convolutional network trained in all its layers, without biases.

    `depth` - 1 convolutions of 3 x 3 pixels with zeros around the image (torch's padding=1), each followed by the
    activation; the average over all pixels; a linear readout. As in `deep`: the first layer sums over channels, with
    weights of variance 1/9; later ones have variance c / (9 channels), c = 2 for ReLU and 1 for erf and GELU; the
    readout is divided by the root of its fan-in. Exactly symmetric when z is None.

    The error is some roundings a layer of |x_i||z_j| (patches' norms, up to 1e12 times one another's, do not matter).
    Only GELU's, from depth 3 on and at pixels of a large norm, is up to that norm times larger. Time and memory grow
    with the square of the number of pixels.

    Args:
        x: images.
        z: other images; None: x.
        depth: layers of weights, at least 2; 2 is one convolution.
        activation: one of `ACTIVATIONS`.

    Raises:
        ValueError: arrays of another shape, an entry that is not finite, an image of zeros, pixels beyond 2^400 or
            all below 2^-400, a depth below 2, an unknown activation.
    Source: Arora et al. 2019 (On exact computation with an infinitely wide neural net), Section 4, in this scaling.
    """
    depth, phi = checked_depth(depth), DUALS[checked_activation(activation)]
    alone, x = z is None, _images("x", x)
    z = x if z is None else _images("z", z)
    if x.shape[1:] != z.shape[1:]:
        raise ValueError(f"z has images of shape {z.shape[1:]}, x of {x.shape[1:]}: they must agree")
    height, width = x.shape[2:]
    step = max(1, _ENTRIES // (height * width) ** 2)
    require("the kernel of two images", lambda pixels: 8 * _COPIES * max(pixels**2, _ENTRIES), pixels=height * width)
    require("the kernel of all images", lambda n: 8 * n * len(z), n=len(x))
    left, right = (_norms(images, depth, phi) for images in (x, z))
    out = np.empty((len(x), len(z)))
    for i in range(len(x)):
        interruption.check()
        for first in range(i if alone else 0, len(z), step):
            columns = slice(first, first + step)
            norms = [(a[i, None], b[columns]) for a, b in zip(left, right, strict=True)]
            out[i, columns] = _entries(x[i], z[columns], depth, phi, norms)
    return mirrored(out) if alone else out


def _entries(
    x: np.ndarray, z: np.ndarray, depth: int, phi: Activation, norms: list[tuple[np.ndarray, np.ndarray]]
) -> np.ndarray:
    """The kernel of one image with some others; arrays of pairs of pixels are (images, h, w, h, w)."""
    theta = _sums(np.pad(np.einsum("chw,pcij->phwij", x, z), _BORDER))
    s, t = _pixel_norms(x[None]), _pixel_norms(z)
    pairs = _patches(_between_pixels(x / np.where(s > 0, s, 1), z / np.where(t > 0, t, 1)[:, None]), s, t)
    for layer, (a, b) in enumerate(norms, start=2):
        left, right = Rows(a[..., None, None], 0.0), Rows(b[:, None, None], 0.0)
        found = phi.dual(pairs, left, right)
        passed = found.covariance + theta * found.slope
        if layer < depth:
            theta = phi.gain * _sums(np.pad(passed, _BORDER))
            pairs = _patches(found.pairs, phi.rows(left).norm[..., 0, 0], phi.rows(right).norm[:, 0, 0])
    return passed.mean(axis=(1, 2, 3, 4))


def _pixel_norms(images: np.ndarray) -> np.ndarray:
    return np.sqrt(np.einsum("nchw,nchw->nhw", images, images))


def _between_pixels(x: np.ndarray, z: np.ndarray) -> Pairs:
    """The angles between pixels of length 1, (c, h, w) and (p, c, h, w): |p - q|^2 / 4 and |p + q|^2 / 4."""
    both = [(p[None, :, :, None, None], q[:, None, None]) for p, q in zip(x, z.swapaxes(0, 1), strict=True)]
    return Pairs(sum((p - q) ** 2 for p, q in both) / 4, sum((p + q) ** 2 for p, q in both) / 4, 0.0)


def _patches(pixels: Pairs, s: np.ndarray, t: np.ndarray) -> Pairs:
    """The angles between patches of 3 x 3 pixels; beyond the border a pixel is 0; a patch of zeros is at 90 degrees.

    With a and b the norms of a patch's pixels over that of the patch, 1 - cos is |a - b|^2 / 2 and the sum of a b times
    the pixels' own 1 - cos. Only positive terms are added: of patches of any norms a small angle keeps its digits, and
    one near pi as well.
    """
    (left, right), (h, w) = (_shares(norms) for norms in (s, t)), s.shape[1:]
    near, far = (np.pad(each, _BORDER) for each in (pixels.h, pixels.g))
    apart, together = np.zeros(pixels.h.shape), np.zeros(pixels.h.shape)
    for (i, j), a, b in zip(np.ndindex(3, 3), left, right, strict=True):
        a, b = a[..., None, None], b[:, None, None]
        shift = (slice(None), *(slice(i, i + h), slice(j, j + w)) * 2)
        gap, both = (a - b) ** 2 / 4, a * b
        apart += gap + both * near[shift]
        together += gap + both * far[shift]
    empty = apart + together < 0.75  # 1/4 and 1/4 where one patch is zero; else 1
    return Pairs(np.where(empty, 0.5, apart), np.where(empty, 0.5, together), 0.0)


def _shares(norms: np.ndarray) -> list[np.ndarray]:
    """The norms of a patch's nine pixels over that of the patch, each (n, h, w); 0 where it is 0."""
    h, w = norms.shape[1:]
    wide = np.pad(norms, ((0, 0), (1, 1), (1, 1)))
    parts = np.stack([wide[:, i : i + h, j : j + w] for i, j in np.ndindex(3, 3)])
    whole = np.sqrt((parts**2).sum(axis=0))
    return list(parts / np.where(whole > 0, whole, 1))


def _norms(images: np.ndarray, depth: int, phi: Activation) -> list[np.ndarray]:
    """Root variances of the pre-activations of every pixel, (n, h, w), layer by layer."""
    squares, gain, found = np.einsum("nchw,nchw->nhw", images, images), 1.0, []
    for _ in range(depth - 1):
        found.append(np.sqrt(gain * _sums(np.pad(squares, ((0, 0), (1, 1), (1, 1))))))
        squares, gain = phi.rows(Rows(found[-1], 0.0)).norm ** 2, phi.gain
    return found


def _sums(wide: np.ndarray) -> np.ndarray:
    """A ninth of the sum over nine shifts of the last two axes, and of the two before by the same, if there are any."""
    pairs = wide.ndim // 2
    h, w = wide.shape[-2] - 2, wide.shape[-1] - 2
    total = np.zeros((len(wide), *(h, w) * pairs))
    for i in range(3):
        for j in range(3):
            total += wide[(slice(None), *(slice(i, i + h), slice(j, j + w)) * pairs)]
    return total / 9


def _images(name: str, images: Any) -> np.ndarray:
    images = real_array(name, images)
    if images.ndim != 4 or not images.size:
        raise ValueError(f"{name} has shape {images.shape}; it must be (n, channels, height, width), none of them 0")
    rows = images.reshape(len(images), -1)
    checked_inputs(name, rows)
    far = np.abs(row_exponents(rows)) > FAR
    if far.any():
        exponent = row_exponents(rows)[far][0]
        raise ValueError(
            f"image {np.argmax(far)} of {name} has pixels up to about 2^{exponent}; they must be from 2^-{FAR} to "
            f"2^{FAR}: rescale it"
        )
    return images
