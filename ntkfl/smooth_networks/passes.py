"""Enclosures of a forward and a backward pass through a network, and of the tangent kernel that they give."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from operator import mul

import numpy as np
from jaxtyping import Float

from ntkfl import interruption
from ntkfl.any_order import rounding
from ntkfl.any_order.rounding import TINY, above, below, gamma
from ntkfl.estimate import Estimate, Rigour
from ntkfl.gram.spectrum import largest_eigenvalue
from ntkfl.smooth_networks.layers import Image, Layer, Smooth

BLOCK = 256  # most terms of one sum; longer sums are taken in blocks, with smaller rounding errors


@dataclass(frozen=True, eq=False)
class Rows:
    """Vectors of m numbers: an enclosure of every number, and bounds of the lengths of the vectors' errors."""

    entries: Estimate  # (..., m)
    off: Float[np.ndarray, "*batch"]  # at least the Euclidean lengths of the errors

    @classmethod
    def of(cls, entries: Estimate, off: float | Float[np.ndarray, "*batch"] = np.inf) -> Rows:
        """Rows whose length bound, which also bounds each entry, is the smaller of `off` and the entries' own."""
        off = np.fmin(off, np.where(entries.error.any(axis=-1), _length(entries.error), 0.0))
        error = np.fmin(entries.error, off[..., None])
        return cls(Estimate(entries.value, error, entries.method, entries.rigour), off)

    @property
    def value(self) -> Float[np.ndarray, "*batch m"]:
        """The computed numbers."""
        return self.entries.value

    @property
    def lengths(self) -> Float[np.ndarray, "*batch"]:
        """At least the Euclidean lengths of the exact vectors."""
        with np.errstate(over="ignore"):
            return above(_length(self.value) + self.off)

    def reshaped(self, shape: tuple[int, ...]) -> Rows:
        """The same vectors in an array of another shape."""
        entries = reshaped(self.entries, shape)
        return Rows(entries, self.off.reshape(entries.value.shape[:-1]))

    def through(
        self, matrix: Float[np.ndarray, "p m"], scale: float, norm: float, ended: Callable[[Estimate], Estimate]
    ) -> Rows:
        """The products of the vectors with the matrix's rows, after the function `ended`.

        `ended` multiplies the products by the scale and may add exact numbers; `norm` is the norm of scale times the
        matrix.
        """
        rows = _length(matrix)
        with np.errstate(over="ignore", invalid="ignore"):  # infinite errors, and an infinite norm without an error
            sums = block_sums(self.value, matrix)
            terms = min(matrix.shape[1], BLOCK) + -(-matrix.shape[1] // BLOCK)
            rounded = above(gamma(terms) * _length(self.value)[..., None] * rows)
            alone = ended(Estimate(sums, _known(rounded), "rounding bound", max(self.entries.rigour, Rigour.ENCLOSED)))
            some = self.off > 0
            carried = np.where(some[..., None], self.off[..., None] * (scale * rows), 0.0)
            error = _known(above(alone.error + carried))
            off = above(np.where(some, norm * self.off, 0.0) + _length(alone.error))
        return Rows.of(Estimate(alone.value, error, alone.method, alone.rigour), _known(off))

    def activated(self, phi: Smooth) -> Rows:
        """phi of every number."""
        alone = phi.values(Estimate.exact(self.value))
        return Rows.of(phi.values(self.entries), above(phi.slope * self.off + _length(alone.error)))

    def times(self, factors: Estimate, most: float) -> Rows:
        """The products with these factors, entry by entry; the exact factors are at most `most`."""
        alone = Estimate.exact(self.value) * factors
        return Rows.of(self.entries * factors, above(most * self.off + _length(alone.error)))

    def plus(self, other: Rows) -> Rows:
        """The sums of the vectors."""
        entries = self.entries + other.entries
        return Rows.of(entries, above(self.off + other.off + rounding.UNIT * _length(entries.value)))

    def products(self) -> Estimate:
        """The inner products of the vectors of the last axis but one, (..., n, n)."""
        value, size = self.value, _length(self.value)
        with np.errstate(over="ignore", invalid="ignore"):
            inner = value @ np.swapaxes(value, -1, -2)
            mixed = size[..., :, None] * self.off[..., None, :]
            rounded = gamma(value.shape[-1]) * size[..., :, None] * size[..., None, :]
            both = self.off[..., :, None] * self.off[..., None, :]
            error = above(rounded + mixed + np.swapaxes(mixed, -1, -2) + both)
        return Estimate(inner, _known(error), "rounding bound", max(self.entries.rigour, Rigour.ENCLOSED))


def block_sums(a: Float[np.ndarray, "*batch m"], matrix: Float[np.ndarray, "p m"]) -> Float[np.ndarray, "*batch p"]:
    """a @ matrix.T, the sum of products of blocks of columns."""
    flat, terms = a.reshape(-1, a.shape[-1]), a.shape[-1]
    total = flat[:, :BLOCK] @ matrix[:, :BLOCK].T
    for start in range(BLOCK, terms, BLOCK):
        total += flat[:, start : start + BLOCK] @ matrix[:, start : start + BLOCK].T
    return total.reshape(*a.shape[:-1], len(matrix))


def reshaped(h: Estimate, shape: tuple[int, ...]) -> Estimate:
    """The same numbers, in another shape."""
    return Estimate(h.value.reshape(shape), h.error.reshape(shape), h.method, h.rigour)


def _known(error: np.ndarray) -> np.ndarray:
    return np.where(np.isnan(error), np.inf, error)


def _length(vectors: np.ndarray) -> np.ndarray:
    with np.errstate(over="ignore"):  # an infinite length
        return rounding.length(vectors, -1)


@dataclass(frozen=True, eq=False)
class Pass:
    """The inputs of each layer k for n samples, and the derivatives of the C outputs by them."""

    layers: tuple[Layer, ...]  # layers of the network
    outputs: Estimate  # (n, C)
    inputs: tuple[Rows, ...]  # h_(k-1), (n, m_(k-1)), for each layer; a convolution's by pixels, `unfolded`
    # B_k, derivatives of the outputs by z_k, before the activation, (n, C, m_k), for each layer
    before: tuple[Rows, ...]
    # b_k, derivatives of the outputs by h_k, after the activation, (n, C, m_k), for each layer but the last
    after: tuple[Estimate, ...]
    # for each layer and sample the least distance of a neuron's z from its kink, (n,); infinite without kinks
    clear: tuple[Float[np.ndarray, " n"], ...]

    def input_lengths(self, layer: int) -> Float[np.ndarray, " n"]:
        """Upper bounds of |(scale h, bias_scale)| of each sample, the vector that multiplies W and b of this layer.

        For a convolution it is the spectral norm of the matrix of these vectors of all pixels.
        """
        of = self.layers[layer]
        if of.image is None:
            return above(np.hypot(of.scale * self.inputs[layer].lengths, of.shift))
        return np.array([_top(self.scaled_inputs(layer)[i]) for i in range(len(self.outputs.value))])

    def scaled_inputs(self, layer: int) -> Estimate:
        """(scale h, bias_scale) of a convolution, for each pixel, (n, P, side^2 k + 1)."""
        of, h = self.layers[layer], self.inputs[layer].entries * self.layers[layer].scale
        ones = np.full((*h.value.shape[:2], 1), of.shift)
        value, error = np.concatenate([h.value, ones], axis=2), np.concatenate([h.error, 0 * ones], axis=2)
        return Estimate(value, error, h.method, h.rigour)

    def input_products(self, layer: int) -> Estimate:
        """scale^2 h_i.h_j + bias_scale^2, (n, n); for a convolution a matrix with the same largest eigenvalue."""
        of = self.layers[layer]
        if of.image is None:
            return self.inputs[layer].products() * of.scale * of.scale + Estimate.exact(of.shift).squared()
        rows = self.scaled_inputs(layer)
        return _small_product(reshaped(rows, (-1, rows.value.shape[2])))

    def gradients(self, layer: int) -> Estimate:
        """The gradients of all outputs by the W and b of a convolution, (n, C, m (side^2 k + 1))."""
        of, b, rows = self.layers[layer], self.before[layer].entries, self.scaled_inputs(layer)
        n, outputs = self.outputs.value.shape
        assert of.image is not None
        by_pixel = reshaped(b, (n, outputs, of.image.places, len(of.weight)))
        product = transposed(by_pixel) @ reshaped(rows, (n, 1, *rows.value.shape[1:]))
        return reshaped(product, (n, outputs, -1))

    def gradient_lengths(self) -> Float[np.ndarray, "n C"]:
        """Upper bounds of the norms of the gradients of all outputs by all trained parameters."""
        total = np.zeros(self.outputs.value.shape)
        for k, layer in enumerate(self.layers):
            if layer.trained and layer.image is not None:
                total = total + self.gradients(k).norm(axis=2).hi ** 2
            elif layer.trained:
                total = total + (self.before[k].lengths * self.input_lengths(k)[:, None]) ** 2
        return np.sqrt(above(total))

    def kernel(self, products: Sequence[Estimate]) -> Estimate:
        """J J' of the trained parameters, (n C, n C), sample by sample, from the `input_products` of each layer."""
        n, outputs = self.outputs.value.shape
        row = np.repeat(np.arange(n), outputs)
        total = Estimate.exact(np.zeros((n * outputs, n * outputs)))
        for k, (layer, before, inner) in enumerate(zip(self.layers, self.before, products, strict=True)):
            interruption.check()
            if layer.trained:
                rows = before if layer.image is None else Rows.of(self.gradients(k))
                product = rows.reshaped((n * outputs, -1)).products()
                total = total + (product * inner[np.ix_(row, row)] if layer.image is None else product)
        return total


def unfolded(h: Estimate, image: Image) -> Estimate:
    """The square about each place of the convolution, (n, places, k side^2), channel by channel, from (n, P k)."""
    n, side = len(h.value), image.side
    edge = side // 2

    def squares(a: np.ndarray) -> np.ndarray:
        pixels = a.reshape(n, image.height, image.width, -1)
        padded = np.pad(pixels, ((0, 0), (edge, edge), (edge, edge), (0, 0)))
        windows = np.lib.stride_tricks.sliding_window_view(padded, (side, side), axis=(1, 2))
        return windows[:, :: image.stride, :: image.stride].reshape(n, image.places, -1)

    return Estimate(squares(h.value), squares(h.error), h.method, h.rigour)


def folded(b: Estimate, image: Image) -> Estimate:
    """The transpose of `unfolded`: (n, C, places, k side^2) to (n, C, P k)."""
    n, outputs = b.value.shape[:2]
    side, edge = image.side, image.side // 2
    squares = reshaped(b, (n, outputs, *image.gives, -1, side, side))
    total: Estimate | None = None
    for down, across in np.ndindex(side, side):
        part = squares[..., down, across]
        shape = (n, outputs, image.height + 2 * edge, image.width + 2 * edge, part.value.shape[-1])
        value, error = np.zeros(shape), np.zeros(shape)
        for to, of in ((value, part.value), (error, part.error)):
            to[:, :, down : down + image.height : image.stride, across : across + image.width : image.stride] = of
        placed = Estimate(value, error, part.method, part.rigour)
        total = placed if total is None else total + placed
    assert total is not None
    inside = total[:, :, edge : edge + image.height, edge : edge + image.width]
    return reshaped(inside, (n, outputs, -1))


def passed(layers: tuple[Layer, ...], x: Float[np.ndarray, "n d"], norms: Sequence[float] | None = None) -> Pass:
    """The forward and the backward pass of these samples.

    `norms`: the layers' norms, as `curvature.weight_norms` gives them; default unknown. They make the error bounds of
    fully connected layers smaller.
    """
    norms = (np.inf,) * len(layers) if norms is None else norms
    n, first = len(x), layers[0].image
    if first is not None:  # rows have one channel after the other
        x = x.reshape(n, -1, first.pixels).transpose(0, 2, 1).reshape(n, -1)
    h, aside = Rows.of(Estimate.exact(x)), list[Rows]()
    inputs, slopes, clear = [], [], []
    for k, layer in enumerate(layers):
        interruption.check()
        aside += [h] * layer.opens
        inputs.append(h if layer.image is None else Rows.of(unfolded(h.entries, layer.image)))
        z = inputs[-1].through(layer.weight, layer.scale, _norm(layer, norms[k]), partial(_scaled, layer=layer))
        if layer.image is not None:
            z = Rows.of(reshaped(z.entries, (n, -1)))
        kink = layer.activation.kink
        least = np.inf if kink is None else np.maximum(below(np.abs(z.value - kink)) - z.entries.error, 0).min(axis=1)
        clear.append(below(np.broadcast_to(least, n)))
        slopes.append(layer.activation.slopes(z.entries))
        h = z.activated(layer.activation)
        for _ in range(layer.closes):
            h = h.plus(aside.pop())
        if layer.pools:
            h = Rows.of(_mean(h.entries, layer))
    outputs = h.value.shape[1]
    b = Rows.of(Estimate.exact(np.broadcast_to(np.eye(outputs), (n, outputs, outputs))))
    before: list[Rows] = []
    after: list[Estimate] = []
    for k in range(len(layers) - 1, -1, -1):
        interruption.check()
        layer = layers[k]
        if layer.pools:
            assert layer.image is not None
            spread = Estimate.stacked([b.entries] * layer.image.places, 2) * _share(layer)
            b = Rows.of(reshaped(spread, (n, outputs, -1)))
        aside += [b] * layer.closes
        if k < len(layers) - 1:
            after.append(b.entries)
        before.append(b.times(slopes[k][:, None], layer.activation.slope))
        if k:
            b = before[-1]
            if layer.image is not None:
                b = Rows.of(reshaped(b.entries, (n, outputs, layer.image.places, -1)))
            b = b.through(layer.weight.T, layer.scale, _norm(layer, norms[k]), partial(mul, layer.scale))
            if layer.image is not None:
                b = Rows.of(folded(b.entries, layer.image))
            for _ in range(layer.opens):
                b = b.plus(aside.pop())
    return Pass(layers, h.entries, tuple(inputs), tuple(before[::-1]), tuple(after[::-1]), tuple(clear))


def _norm(layer: Layer, norm: float) -> float:
    """The norm with which a layer multiplies the lengths of errors; a convolution's acts on all places together."""
    return norm if layer.image is None else np.inf


def _scaled(product: Estimate, layer: Layer) -> Estimate:
    """scale W h + bias_scale b, from W h."""
    z = product * layer.scale
    return z if layer.bias is None else z + Estimate.exact(layer.bias) * layer.bias_scale


def _share(layer: Layer) -> Estimate:
    """1 / P, one over the number of pixels."""
    assert layer.image is not None
    return Estimate(1 / layer.image.places, 2.0**-53 / layer.image.places, "rounding bound", Rigour.ENCLOSED)


def _mean(h: Estimate, layer: Layer) -> Estimate:
    """The mean over pixels, (n, m) from (n, P m)."""
    assert layer.image is not None
    n, pixels = len(h.value), layer.image.places
    total = Estimate.exact(np.ones((1, pixels))) @ reshaped(h, (n, pixels, -1))
    return reshaped(total, (n, -1)) * _share(layer)


def spectral_norm(matrix: Float[np.ndarray, "m k"]) -> float:
    """An upper bound of the largest singular value.

    In the Frobenius norm the rounding of A A' is at most gamma |A|^2, which costs less than a product of absolute
    values.
    """
    small = matrix if len(matrix) <= matrix.shape[1] else matrix.T
    with np.errstate(over="ignore", invalid="ignore"):  # an overflow is refused with the eigenvalue
        square, length = small @ small.T, float(np.square(small).sum())
    rounding = 1.01 * gamma(small.shape[1]) * length + TINY
    return float(above(np.sqrt(above(max(float(largest_eigenvalue(square).hi), 0.0) + rounding))))


def _top(matrix: Estimate) -> float:
    return float(above(np.sqrt(np.maximum(largest_eigenvalue(_small_product(matrix)).hi, 0.0))))


def _small_product(matrix: Estimate) -> Estimate:
    """A A' or A' A, whichever is smaller."""
    small = matrix if matrix.value.shape[0] <= matrix.value.shape[1] else transposed(matrix)
    return small @ transposed(small)


def transposed(h: Estimate) -> Estimate:
    """The estimate with its last two axes exchanged."""
    return Estimate(np.swapaxes(h.value, -1, -2), np.swapaxes(h.error, -1, -2), h.method, h.rigour)
