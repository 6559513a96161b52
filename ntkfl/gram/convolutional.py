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
from ntkfl.problem import checked_inputs

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

    Exact to some roundings, except between patches of different norms that are nearly parallel, or antipodal: of such
    an angle the error is up to 1e-8. Time and memory grow with the square of the number of pixels.

    Args:
        x: images. z: other images; None: x. depth: layers of weights, at least 2; 2 is one convolution.
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
    distance = sum((p[:, :, None, None] - q[:, None, None]) ** 2 for p, q in zip(x, z.swapaxes(0, 1), strict=True))
    distance = _distances(distance, np.einsum("chw,chw->hw", x, x)[None], np.einsum("pchw,pchw->phw", z, z))
    for layer, (a, b) in enumerate(norms, start=2):
        left, right = Rows(a[..., None, None], 0.0), Rows(b[:, None, None], 0.0)
        found = phi.dual(_angles(distance, left.norm, right.norm), left, right)
        passed = found.covariance + theta * found.slope
        if layer < depth:
            theta = phi.gain * _sums(np.pad(passed, _BORDER))
            s, t = phi.rows(left).norm, phi.rows(right).norm
            apart = (s - t) ** 2 + 4 * (s * t) * found.pairs.h
            distance = phi.gain * _distances(apart, s[..., 0, 0] ** 2, t[:, 0, 0] ** 2)
    return passed.mean(axis=(1, 2, 3, 4))


def _distances(between: np.ndarray, left: np.ndarray, right: np.ndarray) -> np.ndarray:
    """Squared distances of patches from those of pixels; beyond the border a pixel is 0.

    Args:
        between: (p, h, w, h, w). left, right: the pixels' squares, (1, h, w) and (p, h, w).
    """
    left, right = (np.pad(squares, ((0, 0), (1, 1), (1, 1))) for squares in (left, right))
    wide = left[..., None, None] + right[:, None, None]
    wide[:, 1:-1, 1:-1, 1:-1, 1:-1] = between
    return _sums(wide)


def _angles(distance: np.ndarray, a: np.ndarray, b: np.ndarray) -> Pairs:
    """Of patches of these root variances and squared distances; a patch of zeros has any.

    Distances, unlike covariances, keep the digits of a small angle.
    """
    size = 4 * (a * b)
    h = np.divide(distance - (a - b) ** 2, size, out=np.full_like(distance, 0.5), where=size > 0)
    h = np.clip(h, 0, 1)
    return Pairs(h, 1 - h, 0.0)


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
    images = np.asarray(images, float)
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
