"""The infinite-width kernel of deep networks trained in every layer, in closed form, with a bound of its rounding."""

import math
from typing import NamedTuple

import numpy as np
from jaxtyping import Float

from ntkfl import interruption
from ntkfl.estimate import Estimate, Rigour
from ntkfl.gram.dual_kernels import Activation, Erf, Gelu, Relu, Rows, U, biased, biased_pairs
from ntkfl.gram.error_free import SMALLEST, products_scaled_back, row_exponents, row_norms, scaled_rows
from ntkfl.gram.limit import matrix_bytes, pair_of_inputs, signed_angles
from ntkfl.gram.mirror import mirrored
from ntkfl.memory import require
from ntkfl.messages import did_you_mean

DUALS: dict[str, Activation] = {"relu": Relu(), "erf": Erf(), "gelu": Gelu()}
ACTIVATIONS = tuple(DUALS)  #: names of the activations that `deep` knows
FAR = 500  # exponents of norms and of a bias up to which their squares stay within float64
_BLOCK = 2**14  # entries of a block, whose temporaries stay in cache


def deep(
    x: Float[np.ndarray, "n d"],
    z: Float[np.ndarray, "p d"] | None = None,
    depth: int = 3,
    activation: str = "relu",
    bias: float = 0.0,
) -> Float[np.ndarray, "n p"]:
    """Neural tangent kernel, at infinite width, of a fully connected network trained in all its layers.

    f(x) = w . phi(h_{L-1}) / m^(1/2), h_1 = W_1 x + bias b_1, h_{l+1} = (c/m)^(1/2) W_{l+1} phi(h_l) + bias b_{l+1},
    with standard Gaussian weights w, W and b, and c = 2 for ReLU, 1 for erf and GELU (x times the Gaussian
    distribution function). So depth 2 with ReLU is `infinite` plus the readout's part. Exactly symmetric when z is
    None. Without biases, ReLU's kernel is homogeneous in each row.

    The error is a few roundings of |x_i||z_j| (plus bias^2), also at angles near 0 and pi. With GELU, from depth 3 on,
    between rows of a large norm or with a large bias, it is larger by up to that norm or bias.

    Args:
        x: samples, shape (n, d).
        z: other samples, shape (p, d); default: `x`.
        depth: L, layers of weights, at least 2; 2 is one hidden layer; default 3.
        activation: one of `ACTIVATIONS`: "relu", "erf", "gelu"; default relu.
        bias: factor of the biases, which are trained as well, in every layer but the readout; 0: none.

    Raises:
        ValueError: what `infinite` refuses (rows of zeros only without biases), a depth below 2, an unknown
            activation, a bias that is negative or not finite, or with a bias, erf or GELU, norms beyond 2^500 or
            below 2^-500.
    Source: Jacot, Gabriel and Hongler 2018 (arXiv:1806.07572), Theorem 1, in the scaling above; deep/kernel.

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
    """As `deep`, with a bound on the rounding error of each entry, so that `smallest_eigenvalue` certifies.

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
    """A number of layers of weights.

    Raises:
        ValueError: not an integer of at least 2.
    """
    if not isinstance(depth, int | np.integer) or isinstance(depth, bool) or depth < 2:
        raise ValueError(f"depth is {depth!r}; it must be an integer of at least 2, the number of layers of weights")
    return int(depth)


def checked_activation(activation: str) -> str:
    """A name of `ACTIVATIONS`.

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
    """The kernel; its error is written to `error`. Only one triangle is computed if z is x."""
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
        error += 4 * network.depth * SMALLEST  # what underflow may have lost, layer by layer
    return out


def _directed(x: np.ndarray) -> np.ndarray:
    """The rows scaled; a row of zeros becomes a row of ones, since its angles are multiplied by its norm 0."""
    return np.where(x.any(axis=1, keepdims=True), scaled_rows(x), 1.0)


def _of_rows(network: _Network, x: np.ndarray) -> list[Rows]:
    """The norms of the rows at every layer, before the layer's bias."""
    rows = [Rows(row_norms(x), (x.shape[1] / 2 + 4) * U)]
    for _ in range(network.depth - 2):
        after = network.activation.rows(biased(rows[-1], network.bias) if network.bias else rows[-1])
        if network.homogeneous:
            rows.append(rows[0])  # He's factor makes up for the halved variance exactly
        else:
            rows.append(Rows(after.norm * math.sqrt(network.activation.gain), after.error + 2 * U))
    return rows


def _block(
    network: _Network, angle: np.ndarray, error: float, layers: list[tuple[Rows, Rows]]
) -> tuple[np.ndarray, np.ndarray]:
    """Theta of a block, and its error, from angles off by at most `error` (`infinite_estimate` derives it)."""
    activation, bias = network.activation, network.bias
    pairs = activation.start(angle, error)
    (left, right), cosine = layers[0], pairs.g - pairs.h
    size = left.norm * right.norm
    theta = size * cosine
    # d cos = sin times the error of the angle
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
        # roundings of all products: 4 u times the added terms
        off = dual.covariance_error + off * np.abs(dual.slope) + (np.abs(theta) + off) * dual.slope_error
        passed = theta * dual.slope
        off += 4 * U * (np.abs(dual.covariance) + np.abs(passed))
        theta, off = gain * (dual.covariance + passed), gain * off
    return theta, 1.01 * off
