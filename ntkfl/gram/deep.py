"""The infinite-width kernels of deep and of convolutional networks trained in every layer, in closed form.

The kernels of deep networks come with a bound of their rounding errors. The kernels of convolutional networks, which
end in global average pooling, are computed from all pairs of pixels of two images.
"""

import math
from typing import Any, NamedTuple

import numpy as np
from jaxtyping import Float

from ntkfl import interruption
from ntkfl.estimate import Estimate, Rigour
from ntkfl.gram.dual_kernels import Activation, Erf, Gelu, Pairs, Relu, Rows, U, biased, biased_pairs
from ntkfl.gram.limit import matrix_bytes, pair_of_inputs, signed_angles
from ntkfl.gram.mirror import mirrored
from ntkfl.memory import require
from ntkfl.messages import did_you_mean
from ntkfl.problem import checked_inputs, real_array
from ntkfl.rounding import SMALLEST, products_scaled_back, row_exponents, row_norms, scaled_rows

DUALS: dict[str, Activation] = {"relu": Relu(), "erf": Erf(), "gelu": Gelu()}
ACTIVATIONS = tuple(DUALS)  #: names of the activations that `deep` knows
FAR = 500  # largest absolute binary exponent of norms and of a bias whose squares stay within float64
_BLOCK = 2**14  # number of entries of a block; temporary arrays of this size stay in cache


def deep(
    x: Float[np.ndarray, "n d"],
    z: Float[np.ndarray, "p d"] | None = None,
    depth: int = 3,
    activation: str = "relu",
    bias: float = 0.0,
) -> Float[np.ndarray, "n p"]:
    """Neural tangent kernel, at infinite width, of a fully connected network trained in all its layers.

    f(x) = w . phi(h_{L-1}) / m^(1/2), h_1 = W_1 x + bias b_1, h_{l+1} = (c/m)^(1/2) W_{l+1} phi(h_l) + bias b_{l+1},
    with the width m, standard Gaussian weights w, W and b, and c = 2 for ReLU, c = 1 for erf and GELU (x times the
    Gaussian distribution function). So the kernel of depth 2 with ReLU is `infinite` plus the contribution of the
    readout. The kernel is exactly symmetric when z is None. Without biases the kernel of ReLU is homogeneous in each
    row, that is, it scales with the norm of the row.

    The error of an entry is a few roundings of |x_i||z_j| (plus bias^2), also at angles near 0 and pi. With GELU, from
    depth 3 on, between rows of a large norm or with a large bias, this error is larger by a factor of up to about that
    norm or bias.

    Args:
        x: samples, shape (n, d).
        z: other samples, shape (p, d); default: `x`.
        depth: L, layers of weights, at least 2; 2 is one hidden layer; default 3.
        activation: one of `ACTIVATIONS`: "relu", "erf", "gelu"; default relu.
        bias: factor of the biases, which every layer but the readout has and which are trained as well; default 0, no
            biases.

    Raises:
        ValueError: what `infinite` refuses (but rows of zeros are refused only without biases), a depth below 2, an
            unknown activation, a bias that is negative or not finite, or norms beyond 2^500 or below 2^-500 with erf,
            with GELU or with a bias.
    Source: Jacot, Gabriel and Hongler 2018 (arXiv:1806.07572), Theorem 1, in the scaling above; the statement
        deep/kernel.

    Example:
        >>> from ntkfl.gram import deep
        >>> deep([[1.0, 0.0]], depth=3).round(6)
        array([[1.5]])
    """
    network, x, z, alone = _arguments(x, z, depth, activation, bias)
    require("the kernel of a deep network", matrix_bytes(1.4, x, z), n=len(x))
    return _kernel(network, x, z, alone)


def deep_estimate(
    x: Float[np.ndarray, "n d"],
    z: Float[np.ndarray, "p d"] | None = None,
    depth: int = 3,
    activation: str = "relu",
    bias: float = 0.0,
) -> Estimate:
    """As `deep`, with a bound on the rounding error of each entry.

    `smallest_eigenvalue` needs these bounds for a rigorous result.

    Args:
        x: samples, shape (n, d).
        z: other samples, shape (p, d); default: `x`.
        depth: layers of weights; default 3.
        activation: one of `ACTIVATIONS`; default relu.
        bias: factor of the biases; default 0.

    Raises:
        ValueError: as `deep`.
    """
    network, x, z, alone = _arguments(x, z, depth, activation, bias)
    require("the kernel of a deep network with its error", matrix_bytes(4.4, x, z), n=len(x))
    error = np.empty((len(x), len(z)))
    value = _kernel(network, x, z, alone, error)
    return Estimate(value, error, "rounding bound", Rigour.ENCLOSED)


class _Network(NamedTuple):
    depth: int
    activation: Activation
    bias: float

    @property
    def homogeneous(self) -> bool:
        return self.activation.homogeneous and not self.bias


def checked_depth(depth: int) -> int:
    """The given number of layers of weights, as an int.

    Raises:
        ValueError: not an integer of at least 2.
    """
    if not isinstance(depth, int | np.integer) or isinstance(depth, bool) or depth < 2:
        raise ValueError(f"depth is {depth!r}; it must be an integer of at least 2, the number of layers of weights")
    return int(depth)


def checked_activation(activation: str) -> str:
    """The given name, which must be one of `ACTIVATIONS`.

    Raises:
        ValueError: an unknown name; the message says the nearest known one.
    """
    if activation not in ACTIVATIONS:
        hint = did_you_mean(str(activation), ACTIVATIONS)
        raise ValueError(f"there is no activation {activation!r} here.{hint} There are {', '.join(ACTIVATIONS)}")
    return activation


def _arguments(x, z, depth, activation, bias) -> tuple[_Network, np.ndarray, np.ndarray, bool]:
    x, z, alone = pair_of_inputs(x, z, zeros=not isinstance(bias, int | float | np.number) or bias != 0)
    if isinstance(bias, bool) or not isinstance(bias, int | float | np.number) or not 0 <= bias < math.inf:
        raise ValueError(f"bias is {bias!r}; it must be a finite number of at least 0, the factor of all biases")
    network = _Network(checked_depth(depth), DUALS[checked_activation(activation)], float(bias))
    if not network.homogeneous:
        for name, rows in (("x", x), ("z", z)):
            far = np.abs(row_exponents(rows)) > FAR
            if far.any():
                raise ValueError(
                    f"row {np.argmax(far)} of {name} has entries of about 2^{row_exponents(rows)[far][0]}; with a "
                    f"bias, and with erf and gelu, they must be from 2^-{FAR} to 2^{FAR}: rescale the rows"
                )
        if bias >= 2.0**FAR:
            raise ValueError(f"bias is {bias:g}; it must be below 2^{FAR}: rescale it and the rows")
    return network, x, z, alone


def _kernel(
    network: _Network, x: np.ndarray, z: np.ndarray, alone: bool, error: np.ndarray | None = None
) -> np.ndarray:
    """The kernel; a bound of its error is written to `error`. Only one triangle is computed if z is x."""
    out = signed_angles(_directed(x), None if alone else _directed(z))
    left, right = (_of_rows(network, scaled_rows(rows) if network.homogeneous else rows) for rows in (x, z))
    step = max(1, _BLOCK // len(z))
    for start in range(0, len(x), step):
        interruption.check()
        at = slice(start, start + step)
        for first in range(start if alone else 0, len(z), _BLOCK):
            columns = slice(first, first + _BLOCK)
            layers = [
                (Rows(a.norm[at, None], a.error), Rows(b.norm[columns], b.error))
                for a, b in zip(left, right, strict=True)
            ]
            out[at, columns], off = _block(network, out[at, columns], (4.6 * x.shape[1] + 40) * U, layers)
            if error is not None:
                error[at, columns] = off
    for matrix in (out,) if error is None else (out, error):
        if alone:
            mirrored(matrix)
        if network.homogeneous:
            products_scaled_back(matrix, row_exponents(x), row_exponents(z))
    if error is not None:
        error += 4 * network.depth * SMALLEST  # what underflow may have lost in all layers
    return out


def _directed(x: np.ndarray) -> np.ndarray:
    """The rows, scaled; a row of zeros becomes a row of ones, whose angles do not matter since they are multiplied by
    the norm 0.
    """
    return np.where(x.any(axis=1, keepdims=True), scaled_rows(x), 1.0)


def _of_rows(network: _Network, x: np.ndarray) -> list[Rows]:
    """The norms of the rows at every layer, before the layer's bias."""
    rows = [Rows(row_norms(x), (x.shape[1] / 2 + 4) * U)]
    for _ in range(network.depth - 2):
        after = network.activation.rows(biased(rows[-1], network.bias) if network.bias else rows[-1])
        if network.homogeneous:
            rows.append(rows[0])  # c = 2 exactly compensates that ReLU halves the mean square
        else:
            rows.append(Rows(after.norm * math.sqrt(network.activation.gain), after.error + 2 * U))
    return rows


def _block(
    network: _Network, angle: np.ndarray, error: float, layers: list[tuple[Rows, Rows]]
) -> tuple[np.ndarray, np.ndarray]:
    """A block of the kernel Theta, and its error, from angles that are off by at most `error`.

    A comment of `infinite_estimate` derives such a bound for the angles.
    """
    activation, bias = network.activation, network.bias
    pairs = activation.start(angle, error)
    (left, right), cosine = layers[0], pairs.g - pairs.h
    size = left.norm * right.norm
    theta = size * cosine
    # the cosine is off by at most the sine times the error of the angle
    off = size * ((np.sqrt(pairs.h * pairs.g) * 2 + error) * error + 40 * U + left.error + right.error)
    for layer, (left, right) in enumerate(layers, start=2):
        if bias:
            pairs = biased_pairs(pairs, left, right, bias, activation)
            left, right = biased(left, bias), biased(right, bias)
            theta += bias * bias
            off += U * (np.abs(theta) + 2 * bias * bias)
        dual = activation.dual(pairs, left, right)
        pairs = dual.pairs
        gain = activation.gain if layer < network.depth else 1.0
        # roundings of all products are at most 4 u times the added terms, u = 2^-53
        off = dual.covariance_error + off * np.abs(dual.slope) + (np.abs(theta) + off) * dual.slope_error
        passed = theta * dual.slope
        off += 4 * U * (np.abs(dual.covariance) + np.abs(passed))
        theta, off = gain * (dual.covariance + passed), gain * off
    return theta, 1.01 * off


TINY = 450  # minus the binary exponent of the smallest pixels for which the error is bounded
# largest absolute binary exponent of an image's largest pixel for which squares lose no bits
FAR_PIXEL = 400
_ENTRIES = 2**15  # pairs of pixels computed at a time; temporary arrays of this size stay in cache
_BORDER = ((0, 0), *((1, 1),) * 4)
_COPIES = 24  # the largest number of entries held for each pair of pixels; 1.5 times as many if errors are bounded too
# relative rounding error of a result of `_sums` (a sum of nine terms, times 1/9) and of the product of such a result
# with a gain
_SUMMED = 13 * U


def convolutional(
    x: Float[np.ndarray, "n channels height width"],
    z: Float[np.ndarray, "p channels height width"] | None = None,
    depth: int = 3,
    activation: str = "relu",
) -> Float[np.ndarray, "n p"]:
    """Neural tangent kernel, at infinite width, of a convolutional network trained in all its layers, without biases.

    The network has `depth` - 1 convolutions of 3 x 3 pixels with zeros around the image (torch's padding=1), each
    followed by the activation. Then come the average over all pixels and a linear readout. The scaling is that of
    `deep`. The first layer sums over the channels, with weights of variance 1/9. Weights of later layers have variance
    c / (9 channels), with c = 2 for ReLU and 1 for erf and GELU. The readout is divided by the root of its fan-in.
    The result is exactly symmetric when z is None.

    The error of an entry is some roundings of |x_i||z_j| for each layer, if the norms of patches differ by a factor of
    at most 1e12. With GELU, from depth 3 on, at pixels of a large norm, this error is larger by a factor of up to about
    that norm. Time and memory grow with the square of the number of pixels.

    Args:
        x: images.
        z: other images; None: x.
        depth: layers of weights, at least 2; 2 is one convolution; default 3.
        activation: one of `ACTIVATIONS`; default relu.

    Raises:
        ValueError: arrays of another shape, an entry that is not finite, an image of zeros, pixels beyond 2^400 or
            all below 2^-400, a depth below 2, an unknown activation.
    Source: Arora et al. 2019 (arXiv:1904.11955), Section 4, in this scaling.
    """
    return _image_kernel(x, z, depth, activation, bounded=False)[0]


def convolutional_estimate(
    x: Float[np.ndarray, "n channels height width"],
    z: Float[np.ndarray, "p channels height width"] | None = None,
    depth: int = 3,
    activation: str = "relu",
) -> Estimate:
    """As `convolutional`, with a bound on the rounding error of each entry.

    `smallest_eigenvalue` needs these bounds for a rigorous result.

    Args:
        x: images.
        z: other images; None: x.
        depth: layers of weights; default 3.
        activation: one of `ACTIVATIONS`; default relu.

    Raises:
        ValueError: as `convolutional`; also a pixel that is below 2^-450 and not 0, in an image or after some layer.
    Source: docs/proofs/kernels.md#angles-of-patches.
    """
    value, error = _image_kernel(x, z, depth, activation, bounded=True)
    return Estimate(value, error, "rounding bound", Rigour.ENCLOSED)


def _image_kernel(x: Any, z: Any, depth: int, activation: str, bounded: bool) -> tuple[np.ndarray, np.ndarray]:
    """The kernel, and a bound of its error if `bounded`, else an empty array."""
    depth, phi = checked_depth(depth), DUALS[checked_activation(activation)]
    alone, x = z is None, _images("x", x)
    z = x if z is None else _images("z", z)
    if x.shape[1:] != z.shape[1:]:
        raise ValueError(f"z has images of shape {z.shape[1:]}, x of {x.shape[1:]}: they must agree")
    height, width = x.shape[2:]
    step, copies = max(1, _ENTRIES // (height * width) ** 2), 8 * _COPIES * (1.5 if bounded else 1)
    require("the kernel of two images", lambda pixels: copies * max(pixels**2, _ENTRIES), pixels=height * width)
    require("the kernel of all images", lambda n: 8 * n * len(z) * (2 if bounded else 1), n=len(x))
    left, right = (_norms(images, depth, phi) for images in (x, z))
    if bounded:
        _require_no_tiny("x", x, left)
        _require_no_tiny("z", z, right)
    out = np.empty((len(x), len(z)))
    error = np.empty_like(out) if bounded else np.empty(0)
    for i in range(len(x)):
        interruption.check()
        for first in range(i if alone else 0, len(z), step):
            columns = slice(first, first + step)
            norms = [
                (Rows(a.norm[i, None], a.error), Rows(b.norm[columns], b.error))
                for a, b in zip(left, right, strict=True)
            ]
            out[i, columns], off = _entries(x[i], z[columns], depth, phi, norms, bounded)
            if bounded:
                error[i, columns] = off + 4 * depth * SMALLEST
    if alone:
        mirrored(out)
        if bounded:
            mirrored(error)
    return out, error


def _entries(
    x: np.ndarray, z: np.ndarray, depth: int, phi: Activation, norms: list[tuple[Rows, Rows]], bounded: bool
) -> tuple[np.ndarray, np.ndarray | float]:
    """The kernel of one image with some others, and its error; arrays of pairs of pixels are (images, h, w, h, w)."""
    theta = _sums(np.pad(np.einsum("chw,pcij->phwij", x, z), _BORDER))
    s, t = (Rows(np.sqrt(np.einsum("nchw,nchw->nhw", images, images)), (len(x) / 2 + 2) * U) for images in (x[None], z))
    off: np.ndarray | float = 0.0
    if bounded:
        sizes = s.norm[..., None, None] * t.norm[:, None, None]
        off = (len(x) * U + _SUMMED) * _sums(np.pad(sizes, _BORDER))
    pairs = _patches(_between_pixels(x, z, s, t, phi), s, t, phi)
    for layer, (a, b) in enumerate(norms, start=2):
        left, right = Rows(a.norm[..., None, None], a.error), Rows(b.norm[:, None, None], b.error)
        layer_pairs = phi.dual(pairs, left, right)
        below = theta * layer_pairs.slope
        passed = layer_pairs.covariance + below
        if bounded:
            off = (
                layer_pairs.covariance_error
                + off * np.abs(layer_pairs.slope)
                + (np.abs(theta) + off) * layer_pairs.slope_error
            )
            off += 4 * U * (np.abs(layer_pairs.covariance) + np.abs(below))
        if layer < depth:
            theta = phi.gain * _sums(np.pad(passed, _BORDER))
            if bounded:
                off = phi.gain * _sums(np.pad(off + _SUMMED * np.abs(passed), _BORDER))
            pairs = _patches(layer_pairs.pairs, phi.rows(a), phi.rows(b), phi)
    if bounded:
        off = 1.01 * _mean(off + (sum(passed.shape[1:]) + 8) * U * np.abs(passed))
    return _mean(passed), off


def _mean(values: np.ndarray) -> np.ndarray:
    """The mean over all pairs of pixels, taken axis by axis so that its rounding error grows only with height and width
    of the images.
    """
    for _ in range(4):
        values = values.mean(axis=-1)
    return values


def _between_pixels(x: np.ndarray, z: np.ndarray, s: Rows, t: Rows, phi: Activation) -> Pairs:
    """The angles between the pixels of an image x, (c, h, w), and the pixels of images z, (p, c, h, w).

    The norms of the pixels are s and t. For two pixels, divided by their norms, the angle follows from a quarter of the
    squared norm of their difference and a quarter of the squared norm of their sum.
    """
    x, z = x / np.where(s.norm > 0, s.norm, 1), z / np.where(t.norm > 0, t.norm, 1)[:, None]
    both = [(p[None, :, :, None, None], q[:, None, None]) for p, q in zip(x, z.swapaxes(0, 1), strict=True)]
    apart, together = sum((p - q) ** 2 for p, q in both), sum((p + q) ** 2 for p, q in both)
    return _of_parts(apart, together, 0.0, 1.5 * (s.error + t.error) + (1.5 * len(x) + 12) * U, phi)


def _of_parts(
    apart: np.ndarray, together: np.ndarray, error: np.ndarray | float, angle: float, phi: Activation
) -> Pairs:
    """The angles whose halves have sin^2 : cos^2 = `apart` : `together`; 90 degrees where a pixel is 0.

    The result has two errors. For the first, `error` is the number that `Pairs` holds as its `error`. The second is a
    further error of the angles, which is at most `angle`.
    """
    whole = apart + together
    empty = whole == 0
    whole = np.where(empty, 1, whole)
    pairs = Pairs(np.where(empty, 0.5, apart / whole), np.where(empty, 0.5, together / whole), error)
    return pairs._replace(error=phi.turned(pairs, 1.0, angle))  # type: ignore[arg-type]


def _patches(pixels: Pairs, s: Rows, t: Rows, phi: Activation) -> Pairs:
    """The angles between patches of 3 x 3 pixels, where a pixel beyond the border is 0.

    The angle between a patch of zeros and any other patch counts as 90 degrees.

    Let a and b be the vectors of the norms of the pixels of the two patches, each divided by the norm of its patch.
    Then 1 - cos of the angle between the patches is |a - b|^2 / 2 plus the sum over the pixels of a b times 1 - cos of
    the angle between the pixels. Only positive terms are added, so an angle near 0 or near pi keeps its digits,
    whatever the norms. docs/proofs/kernels.md#angles-of-patches bounds the error.
    """
    (left, right), (h, w) = (_shares(norms.norm) for norms in (s, t)), s.norm.shape[1:]
    near, far = (np.pad(values, _BORDER) for values in (pixels.h, pixels.g))
    apart, together = np.zeros(pixels.h.shape), np.zeros(pixels.h.shape)
    moved = np.zeros(np.shape(pixels.error))
    errors = np.pad(pixels.error, _BORDER) if moved.ndim else moved
    for (i, j), a, b in zip(np.ndindex(3, 3), left, right, strict=True):
        a, b = a[..., None, None], b[:, None, None]
        shift = (slice(None), *(slice(i, i + h), slice(j, j + w)) * 2)
        gap, both = (a - b) ** 2 / 4, a * b
        apart += gap + both * near[shift]
        together += gap + both * far[shift]
        if moved.ndim:
            moved += both * errors[shift]
    error = moved if moved.ndim else pixels.error
    return _of_parts(apart, together, error, 2.1 * (s.error + t.error) + 48 * U, phi)


def _shares(norms: np.ndarray) -> list[np.ndarray]:
    """The norm of each of the nine pixels of a patch, divided by the norm of the patch, (n, h, w); 0 for a patch of
    zeros.
    """
    h, w = norms.shape[1:]
    wide = np.pad(norms, ((0, 0), (1, 1), (1, 1)))
    parts = np.stack([wide[:, i : i + h, j : j + w] for i, j in np.ndindex(3, 3)])
    whole = np.sqrt((parts**2).sum(axis=0))
    return list(parts / np.where(whole > 0, whole, 1))


def _norms(images: np.ndarray, depth: int, phi: Activation) -> list[Rows]:
    """Standard deviations of the pre-activations of every pixel, (n, h, w), for one layer after the other."""
    squares, gain, rows = np.einsum("nchw,nchw->nhw", images, images), 1.0, []
    error = images.shape[1] * U  # relative error of the sums of squares
    for _ in range(depth - 1):
        norms = np.sqrt(gain * _sums(np.pad(squares, ((0, 0), (1, 1), (1, 1)))))
        rows.append(Rows(norms, (error + _SUMMED) / 2 + 2 * U))
        after = phi.rows(rows[-1])
        squares, gain, error = after.norm**2, phi.gain, 2 * after.error + U
    return rows


def _require_no_tiny(name: str, images: np.ndarray, norms: list[Rows]) -> None:
    """Raise a ValueError where the square of a pixel that is not 0 may lose bits."""
    for sizes in (np.abs(images).max(axis=1), *(rows.norm for rows in norms)):
        tiny = np.argwhere((sizes > 0) & (sizes < 2.0**-TINY))
        if len(tiny):
            image, *pixel = map(int, tiny[0])
            raise ValueError(
                f"image {image} of {name} has at {pixel} a pixel of {sizes[tuple(tiny[0])]:.3g}; a pixel that is not 0 "
                f"must be at least 2^-{TINY}, here and after every layer, for the error to be bounded: make it 0"
            )


def _sums(wide: np.ndarray) -> np.ndarray:
    """One ninth of the sum of nine copies of `wide`, whose last two axes are shifted by -1, 0 or 1 pixel.

    If the two axes before the last two are for pixels too, each copy shifts them by the same numbers of pixels.
    """
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
    far = np.abs(row_exponents(rows)) > FAR_PIXEL
    if far.any():
        exponent = row_exponents(rows)[far][0]
        raise ValueError(
            f"image {np.argmax(far)} of {name} has pixels up to about 2^{exponent}; they must be from "
            f"2^-{FAR_PIXEL} to 2^{FAR_PIXEL}: rescale it"
        )
    return images
