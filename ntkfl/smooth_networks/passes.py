"""One pass forward and one backward through a network, enclosed, and the tangent kernel that they give."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from jaxtyping import Float

from ntkfl import interruption
from ntkfl.any_order.rounding import above, below
from ntkfl.estimate import Estimate
from ntkfl.gram.spectrum import largest_eigenvalue
from ntkfl.smooth_networks.layers import Layer


@dataclass(frozen=True, eq=False)
class Pass:
    """What each layer k gets from n samples, and how the C outputs depend on what it gives."""

    layers: tuple[Layer, ...]  # of the network
    outputs: Estimate  # (n, C)
    inputs: tuple[Estimate, ...]  # h_(k-1), (n, m_(k-1)), for each layer
    # B_k, derivatives of the outputs in z_k, before the activation, (n, C, m_k), for each layer
    before: tuple[Estimate, ...]
    # b_k, derivatives in h_k, behind the activation, (n, C, m_k), for each layer but the last
    after: tuple[Estimate, ...]
    # of each layer and sample, the least |z| of its neurons where they have kinks, else infinite, (n,)
    clear: tuple[Float[np.ndarray, " n"], ...]

    def input_lengths(self, layer: int) -> Float[np.ndarray, " n"]:
        """At least |(scale h, bias_scale)| of each sample: what W and b of this layer are multiplied with."""
        of = self.layers[layer]
        return above(np.hypot(of.scale * self.inputs[layer].norm(axis=1).hi, of.shift))

    def input_products(self, layer: int) -> Estimate:
        """scale^2 h_i.h_j + bias_scale^2, (n, n)."""
        of, h = self.layers[layer], self.inputs[layer]
        return h @ _transposed(h) * of.scale * of.scale + Estimate.exact(of.shift).squared()

    def gradient_lengths(self) -> Float[np.ndarray, "n C"]:
        """At least the norms of the gradients of all outputs in all trained parameters."""
        total = np.zeros(self.outputs.value.shape)
        for k, layer in enumerate(self.layers):
            if layer.trained:
                total = total + (self.before[k].norm(axis=2).hi * self.input_lengths(k)[:, None]) ** 2
        return np.sqrt(above(total))

    def kernel(self, products: Sequence[Estimate]) -> Estimate:
        """J J' in the trained parameters, (n C, n C), sample by sample; products: `input_products` of each layer."""
        n, outputs = self.outputs.value.shape
        row = np.repeat(np.arange(n), outputs)
        total = Estimate.exact(np.zeros((n * outputs, n * outputs)))
        for layer, before, inner in zip(self.layers, self.before, products, strict=True):
            interruption.check()
            if layer.trained:
                flat = _reshaped(before, (n * outputs, -1))
                total = total + flat @ _transposed(flat) * inner[np.ix_(row, row)]
        return total


def passed(layers: tuple[Layer, ...], x: Float[np.ndarray, "n d"]) -> Pass:
    """Both passes for these samples."""
    h, aside = Estimate.exact(x), list[Estimate]()
    inputs, slopes, clear = [], [], []
    for layer in layers:
        interruption.check()
        aside += [h] * layer.opens
        inputs.append(h)
        z = h @ layer.weight.T * layer.scale
        if layer.bias is not None:
            z = z + Estimate.exact(layer.bias) * layer.bias_scale
        least = np.maximum(np.abs(z.value) - z.error, 0).min(axis=1) if layer.activation.kink else np.inf
        clear.append(below(np.broadcast_to(least, len(x))))
        h = layer.activation.values(z)
        slopes.append(layer.activation.slopes(z))
        for _ in range(layer.closes):
            h = h + aside.pop()
    n, outputs = h.value.shape
    b = Estimate.exact(np.broadcast_to(np.eye(outputs), (n, outputs, outputs)))
    before: list[Estimate] = []
    after: list[Estimate] = []
    for k in range(len(layers) - 1, -1, -1):
        interruption.check()
        aside += [b] * layers[k].closes
        if k < len(layers) - 1:
            after.append(b)
        before.append(b * slopes[k][:, None])
        if k:
            b = before[-1] @ layers[k].weight * layers[k].scale
            for _ in range(layers[k].opens):
                b = b + aside.pop()
    return Pass(layers, h, tuple(inputs), tuple(before[::-1]), tuple(after[::-1]), tuple(clear))


def spectral_norm(matrix: Float[np.ndarray, "m k"]) -> float:
    """At least the largest singular value."""
    small = Estimate.exact(matrix if matrix.shape[0] <= matrix.shape[1] else matrix.T)
    return float(above(np.sqrt(np.maximum(largest_eigenvalue(small @ _transposed(small)).hi, 0.0))))


def _transposed(h: Estimate) -> Estimate:
    return Estimate(h.value.T, h.error.T, h.method, h.rigour)


def _reshaped(h: Estimate, shape: tuple[int, ...]) -> Estimate:
    return Estimate(h.value.reshape(shape), h.error.reshape(shape), h.method, h.rigour)
