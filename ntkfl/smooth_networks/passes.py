"""Enclosures of a forward and a backward pass through a network, of its tangent kernel and of its second derivatives.

The bounds of the second derivatives hold in a ball, for each output and for all outputs together.
Source: docs/proofs/smooth_networks.md#second-derivatives
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property, partial
from operator import mul
from typing import NamedTuple

import numpy as np
from jaxtyping import Bool, Float

from ntkfl import interruption
from ntkfl.any_order import rounding
from ntkfl.any_order.rounding import TINY, above, below, gamma, length
from ntkfl.estimate import Estimate, Rigour
from ntkfl.gram.spectrum import largest_eigenvalue
from ntkfl.smooth_networks.layers import Image, Layer, Smooth


class Sizes(NamedTuple):
    """Upper bounds of norms at the checkpoint, for g groups of outputs and for each of L layers.

    Layer k maps h_(k-1) to z_k and, with its activation, to h_k. The matrices B_k and b_k have the derivatives of the
    outputs by z_k and by h_k, with one row for each output.
    """

    each: list[Float[np.ndarray, " g"]]  # the largest |(scale h, bias_scale)| among the samples of the group
    together: list[Float[np.ndarray, " g"]]  # the spectral norm of the matrix of these vectors of the group's samples
    before: list[Float[np.ndarray, " g"]]  # the largest spectral norm of the B_k of one sample
    # the largest column norm of the b_k of one sample, for each layer but the last
    after: list[Float[np.ndarray, " g"]]
    # lower bounds of the least distance of an entry of z_k from the activation's kink
    clear: list[Float[np.ndarray, " g"]]


@dataclass(frozen=True, eq=False)
class Speeds:
    """Bounds of the derivatives of z_k and h_k by each layer's parameters, for one sample or for all samples."""

    before: list[Float[np.ndarray, "g L"]]  # derivatives of z_k, for each layer
    inputs: list[Float[np.ndarray, "g L"]]  # derivatives of h_(k-1), for each layer, and then of the outputs
    lengths: list[Float[np.ndarray, " g"]]  # |(scale h, bias_scale)|, for each layer


@dataclass(frozen=True, eq=False)
class Curvature:
    """Bounds of second derivatives in the trained parameters, for any ball about the checkpoint."""

    layers: tuple[Layer, ...]  # layers of the network
    norms: tuple[float, ...]  # spectral norms of scale W
    alone: Sizes  # sizes for each output of each sample, that is n C groups
    all: Sizes | None  # sizes for all outputs of all samples as one group; None if they are not needed

    def of_each(self, radius: float) -> Float[np.ndarray, " nC"]:
        """The numbers L_i, upper bounds of the norm of the Hessian of each output in the ball."""
        return self._bounds(self.alone, radius)

    def of_all(self, radius: float) -> float:
        """The number L_J, an upper bound of |J(t) - J(t')| / |t - t'| in the ball, where J is the Jacobian of all
        outputs of all samples.
        """
        return self.of_both(radius)[1]

    def of_both(self, radius: float) -> tuple[Float[np.ndarray, " nC"], float]:
        """The numbers L_i and L_J."""
        bounds = self._bounds(self._both, radius)
        return bounds[:-1], float(min(bounds[-1], length(bounds[:-1])))

    @cached_property
    def _both(self) -> Sizes:
        """The groups of `alone` followed by the group of `all`, so that one computation bounds both."""
        assert self.all is not None
        rows = (
            [np.append(*pair) for pair in zip(*lists, strict=True)] for lists in zip(self.alone, self.all, strict=True)
        )
        return Sizes(*rows)

    def grown(self, at: Sizes, radius: float) -> Sizes:
        """Bounds of these sizes in the whole ball, from the sizes at the checkpoint; the distances `clear` from kinks
        are unchanged.
        """
        return self._grown(at, radius, *self._tall_and_wide(at, radius))

    def _tall_and_wide(self, at: Sizes, radius: float) -> tuple[Speeds, Speeds]:
        """The `Speeds` of one sample, and of all samples of a group together."""
        tall = self._speeds(at.each, radius)
        return tall, tall if at.together is at.each else self._speeds(at.together, radius)

    def _grown(self, at: Sizes, radius: float, tall: Speeds, wide: Speeds) -> Sizes:
        # bounds of the change of z_k of a sample in the ball
        moved = [radius * np.linalg.norm(row, axis=1) for row in tall.before]
        turned = self.layers[-1].activation.bend * moved[-1]  # bound of the change of B_k in the ball
        before, after = [at.before[-1] + turned], list[np.ndarray]()
        carried = np.zeros_like(turned)  # bound of the change of b_k in the ball
        aside: list[np.ndarray] = []
        for k in range(len(self.layers) - 1, 0, -1):
            layer, below = self.layers[k], self.layers[k - 1].activation
            aside += [carried] * layer.closes
            carried = layer.gain * radius * before[0] * layer.trained + self.norms[k] * turned
            for _ in range(layer.opens):
                carried = carried + aside.pop()
            carried = carried / self._spread(k - 1)
            after.insert(0, at.after[k - 1] + carried)
            turned = below.bend * moved[k - 1] * at.after[k - 1] + below.slope * carried
            before.insert(0, at.before[k - 1] + turned)
        return Sizes(tall.lengths, wide.lengths, before, after, at.clear)

    def _bounds(self, at: Sizes, radius: float) -> Float[np.ndarray, " g"]:
        tall, wide = self._tall_and_wide(at, radius)
        sizes, top = self._grown(at, radius, tall, wide), self.layers[-1].activation.bend
        form = top * tall.before[-1][:, :, None] * wide.before[-1][:, None, :]
        for k in range(1, len(self.layers)):
            layer, below = self.layers[k], self.layers[k - 1].activation
            if layer.trained:
                form[:, k, :] += (2 * layer.gain * sizes.before[k])[:, None] * wide.inputs[k]
            peak = sizes.after[k - 1] * below.bend
            form += peak[:, None, None] * tall.before[k - 1][:, :, None] * wide.before[k - 1][:, None, :]
        return largest_nonnegative(above((form + form.transpose(0, 2, 1)) / 2))

    def lipschitz(self, radius: float) -> Float[np.ndarray, " nC"]:
        """Upper bounds of the Lipschitz constant of each output in the ball, valid on both sides of kinks; infinite if
        an activation jumps.
        """
        jumps = np.array([layer.activation.jumps for layer in self.layers])[:, None]
        jumped = (jumps & self.crossing(radius)).any(axis=0)
        return np.where(jumped, np.inf, above(np.linalg.norm(self._speeds(self.alone.each, radius).inputs[-1], axis=1)))

    def crossing(self, radius: float) -> Bool[np.ndarray, "L nC"]:
        """Whether some neuron of a layer may reach its kink in the ball, for each output of each sample.

        Until a path of the parameters reaches the first kink, pre-activations change no faster than with activations
        without kinks.
        """
        kinked = np.array([layer.activation.kink is not None for layer in self.layers])[:, None]
        if not kinked.any():
            return np.zeros((len(self.layers), len(self.alone.each[0])), bool)
        reach = above(radius * np.linalg.norm(np.array(self._speeds(self.alone.each, radius).before), axis=2))
        return kinked & (np.array(self.alone.clear) <= reach)

    def _speeds(self, start: list[Float[np.ndarray, " g"]], radius: float) -> Speeds:
        speeds = Speeds([], [np.zeros((len(start[0]), len(self.layers)))], [])
        aside: list[np.ndarray] = []
        for k, layer in enumerate(self.layers):
            h = speeds.inputs[-1]
            aside += [h] * layer.opens
            speeds.lengths.append(start[k] + layer.gain * np.linalg.norm(h, axis=1) * radius)
            row = self._norm(k, radius) * h
            row[:, k] = speeds.lengths[-1] * layer.trained
            speeds.before.append(row)
            h = layer.activation.slope * row
            for _ in range(layer.closes):
                h = h + aside.pop()
            speeds.inputs.append(h / self._spread(k))
        return speeds

    def _spread(self, layer: int) -> float:
        """If the layer is followed by a mean over pixels, the mean divides Euclidean lengths by at least this number.

        The number is 1 if no mean follows.
        """
        of = self.layers[layer]
        return float(np.sqrt(of.image.places)) if of.pools and of.image else 1.0

    def _norm(self, layer: int, radius: float) -> float:
        return self.norms[layer] + self.layers[layer].gain * radius * self.layers[layer].trained


def weight_norms(layers: tuple[Layer, ...]) -> tuple[float, ...]:
    """Upper bounds of the spectral norms of scale W as maps of h; 0 for the first layer, whose norm is not needed."""
    return 0.0, *(_map_norm(layer) for layer in layers[1:])


def _map_norm(layer: Layer) -> float:
    """An upper bound of |scale W|; for a convolution the smaller of gain |W| and scale sum_o |W_o|, where o runs over
    the places of the convolution's square.
    """
    if layer.stands_in:
        return layer.scale  # the norm of scale I; a JAX function may have a scale other than 1 here
    whole = float(above(layer.gain * spectral_norm(layer.weight)))
    if layer.image is None:
        return whole
    places = layer.weight.reshape(len(layer.weight), -1, layer.image.side**2)
    return min(whole, float(above(layer.scale * sum(spectral_norm(part) for part in np.moveaxis(places, 2, 0)))))


def sizes_of_each(done: Pass) -> Sizes:
    """The sizes of each output of each sample."""
    outputs = done.outputs.value.shape[1]
    lengths = [np.repeat(done.input_lengths(k), outputs) for k in range(len(done.layers))]
    before = [rows.lengths.reshape(-1) for rows in done.before]
    after = [(np.abs(rows.value) + rows.error).max(axis=2).reshape(-1) for rows in done.after]
    return Sizes(lengths, lengths, before, after, [np.repeat(clear, outputs) for clear in done.clear])


def sizes_of_all(done: Pass, products: list) -> Sizes:
    """The sizes of all outputs of all samples as one group; `products` has the `Pass.input_products` of each layer."""
    lengths = [done.input_lengths(k).max(keepdims=True) for k in range(len(done.layers))]
    together = [np.sqrt(above(np.maximum(largest_eigenvalue(product).hi, 0.0)))[None] for product in products]
    before = []
    # the squared spectral norm of C rows is at most the largest absolute row sum of their products
    for rows in done.before:
        inner = rows.products()
        before.append(np.sqrt(above((np.abs(inner.value) + inner.error).sum(axis=2).max(keepdims=True).reshape(1))))
    after = [rows.norm(axis=1).hi.max(keepdims=True).reshape(1) for rows in done.after]
    return Sizes(lengths, together, before, after, [clear.min(keepdims=True) for clear in done.clear])


def largest_nonnegative(forms: Float[np.ndarray, "g L L"]) -> Float[np.ndarray, " g"]:
    """Upper bounds of the largest eigenvalues of symmetric matrices without negative entries.

    Each bound is the smaller of two numbers: max_i (A v)_i / v_i for a positive v (Collatz and Wielandt), and the
    largest row sum.
    """
    sums = forms.sum(axis=2).max(axis=1)
    shift = np.linalg.eigvalsh(forms)[:, -1] * (1 + 1e-6) + 1e-12 * sums + 1e-300
    inverse = shift[:, None, None] * np.eye(forms.shape[1]) - forms
    v = np.linalg.solve(inverse, np.ones((*forms.shape[:2], 1)))[:, :, 0]
    good = ((v > 0) & np.isfinite(v)).all(axis=1, keepdims=True)
    v = np.where(good, v, 1.0)
    ratio = ((forms @ v[:, :, None])[:, :, 0] / v).max(axis=1)
    return above(np.minimum(ratio, sums))


# largest number of terms of one sum; longer sums are computed in blocks, which makes rounding errors smaller
BLOCK = 256


@dataclass(frozen=True, eq=False)
class Rows:
    """Vectors of m numbers, with an enclosure of every number and a bound of the length of each vector's error."""

    entries: Estimate  # (..., m)
    off: Float[np.ndarray, "*batch"]  # upper bounds of the Euclidean lengths of the errors

    @classmethod
    def of(cls, entries: Estimate, off: float | Float[np.ndarray, "*batch"] = np.inf) -> Rows:
        """Rows with these entries; the error of a vector is at most `off`, and at most the length of the vector of its
        entries' errors.
        """
        off = np.fmin(off, np.where(entries.error.any(axis=-1), _length(entries.error), 0.0))
        error = np.fmin(entries.error, off[..., None])
        return cls(Estimate(entries.value, error, entries.method, entries.rigour), off)

    @property
    def value(self) -> Float[np.ndarray, "*batch m"]:
        """The computed numbers."""
        return self.entries.value

    @property
    def lengths(self) -> Float[np.ndarray, "*batch"]:
        """Upper bounds of the Euclidean lengths of the exact vectors."""
        with np.errstate(over="ignore"):
            return above(_length(self.value) + self.off)

    def reshaped(self, shape: tuple[int, ...]) -> Rows:
        """The same vectors in an array of another shape."""
        entries = reshaped(self.entries, shape)
        return Rows(entries, self.off.reshape(entries.value.shape[:-1]))

    def through(
        self, matrix: Float[np.ndarray, "p m"], scale: float, norm: float, ended: Callable[[Estimate], Estimate]
    ) -> Rows:
        """The function `ended` applied to the products of the vectors with the rows of the matrix.

        The function `ended` multiplies the products by the scale and may add exact numbers. `norm` is the norm of scale
        times the matrix.
        """
        rows = _length(matrix)
        with np.errstate(over="ignore", invalid="ignore"):  # errors may be infinite, and so may a norm
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
        """The function phi applied to every number."""
        alone = phi.values(Estimate.exact(self.value))
        return Rows.of(phi.values(self.entries), above(phi.slope * self.off + _length(alone.error)))

    def times(self, factors: Estimate, most: float) -> Rows:
        """The entrywise products with these factors; `most` bounds the absolute values of the exact factors."""
        alone = Estimate.exact(self.value) * factors
        return Rows.of(self.entries * factors, above(most * self.off + _length(alone.error)))

    def plus(self, other: Rows) -> Rows:
        """The sums of the vectors."""
        entries = self.entries + other.entries
        return Rows.of(entries, above(self.off + other.off + rounding.UNIT * _length(entries.value)))

    def products(self) -> Estimate:
        """The inner products of all pairs of n vectors, (..., n, n), for vectors (..., n, m)."""
        value, size = self.value, _length(self.value)
        with np.errstate(over="ignore", invalid="ignore"):
            inner = value @ np.swapaxes(value, -1, -2)
            mixed = size[..., :, None] * self.off[..., None, :]
            rounded = gamma(value.shape[-1]) * size[..., :, None] * size[..., None, :]
            both = self.off[..., :, None] * self.off[..., None, :]
            error = above(rounded + mixed + np.swapaxes(mixed, -1, -2) + both)
        return Estimate(inner, _known(error), "rounding bound", max(self.entries.rigour, Rigour.ENCLOSED))


def block_sums(a: Float[np.ndarray, "*batch m"], matrix: Float[np.ndarray, "p m"]) -> Float[np.ndarray, "*batch p"]:
    """The product a @ matrix.T, computed as the sum of the products of blocks of columns."""
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
    with np.errstate(over="ignore"):  # the length may be infinite
        return rounding.length(vectors, -1)


@dataclass(frozen=True, eq=False)
class Pass:
    """The inputs of each layer k for n samples, and the derivatives of the C outputs by z_k and h_k."""

    layers: tuple[Layer, ...]  # layers of the network
    outputs: Estimate  # (n, C)
    # h_(k-1), (n, m_(k-1)), for each layer; for a convolution the squares of pixels, `unfolded`
    inputs: tuple[Rows, ...]
    # B_k, derivatives of the outputs by z_k, before the activation, (n, C, m_k), for each layer
    before: tuple[Rows, ...]
    # b_k, derivatives of the outputs by h_k, after the activation, (n, C, m_k), for each layer but the last
    after: tuple[Estimate, ...]
    # for each layer and sample, the least distance of a neuron's pre-activation from the kink, (n,); infinite without
    # kinks
    clear: tuple[Float[np.ndarray, " n"], ...]

    def input_lengths(self, layer: int) -> Float[np.ndarray, " n"]:
        """Upper bounds of |(scale h, bias_scale)| for each sample; this vector multiplies W and b of the layer.

        For a convolution the bound is of the spectral norm of the matrix of these vectors at all pixels.
        """
        of = self.layers[layer]
        if of.image is None:
            return above(np.hypot(of.scale * self.inputs[layer].lengths, of.shift))
        return np.array([_top(self.scaled_inputs(layer)[i]) for i in range(len(self.outputs.value))])

    def scaled_inputs(self, layer: int) -> Estimate:
        """The vectors (scale h, bias_scale) of a convolution for each of P pixels, (n, P, side^2 c + 1), where h has c
        channels.
        """
        of, h = self.layers[layer], self.inputs[layer].entries * self.layers[layer].scale
        ones = np.full((*h.value.shape[:2], 1), of.shift)
        value, error = np.concatenate([h.value, ones], axis=2), np.concatenate([h.error, 0 * ones], axis=2)
        return Estimate(value, error, h.method, h.rigour)

    def input_products(self, layer: int) -> Estimate:
        """The matrix scale^2 h_i.h_j + bias_scale^2, (n, n); for a convolution a matrix with the same largest
        eigenvalue as the matrix of the products between all pixels of all samples.
        """
        of = self.layers[layer]
        if of.image is None:
            return self.inputs[layer].products() * of.scale * of.scale + Estimate.exact(of.shift).squared()
        rows = self.scaled_inputs(layer)
        return _small_product(reshaped(rows, (-1, rows.value.shape[2])))

    def gradients(self, layer: int) -> Estimate:
        """The gradients of all outputs by the W and b of a convolution with c channels, (n, C, m (side^2 c + 1))."""
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
        """The kernel J J' of the trained parameters, (n C, n C), ordered by sample, from the `input_products` of each
        layer.
        """
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
    """The square of pixels about each place, (n, places, c side^2), ordered by channel, from h with c channels, (n, P
    c).
    """
    n, side = len(h.value), image.side
    edge = side // 2

    def squares(a: np.ndarray) -> np.ndarray:
        padded = np.pad(a.reshape(n, image.height, image.width, -1), ((0, 0), (edge, edge), (edge, edge), (0, 0)))
        windows = np.lib.stride_tricks.sliding_window_view(padded, (side, side), axis=(1, 2))
        return windows[:, :: image.stride, :: image.stride].reshape(n, image.places, -1)

    return Estimate(squares(h.value), squares(h.error), h.method, h.rigour)


def folded(b: Estimate, image: Image) -> Estimate:
    """The transpose of the map `unfolded`, from (n, C, places, c side^2) to (n, C, P c), with c channels."""
    n, outputs = b.value.shape[:2]
    side, edge = image.side, image.side // 2
    squares = reshaped(b, (n, outputs, *image.output_shape, -1, side, side))
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
    return reshaped(total[:, :, edge : edge + image.height, edge : edge + image.width], (n, outputs, -1))


def passed(layers: tuple[Layer, ...], x: Float[np.ndarray, "n d"], norms: Sequence[float] | None = None) -> Pass:
    """The forward and the backward pass of these samples.

    `norms` has the norms of the layers, as `weight_norms` returns them; by default they are unknown. With known norms
    the error bounds of fully connected layers are smaller.
    """
    norms = (np.inf,) * len(layers) if norms is None else norms
    n, first = len(x), layers[0].image
    if first is not None:  # each row is ordered by channel
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
    """The `norm` for `Rows.through`; infinite, that is unknown, for a convolution.

    For a convolution `weight_norms` has the norm of the map of all places together, while `Rows.through` maps one
    square at a time.
    """
    return norm if layer.image is None else np.inf


def _scaled(product: Estimate, layer: Layer) -> Estimate:
    """The values scale W h + bias_scale b, computed from W h."""
    z = product * layer.scale
    return z if layer.bias is None else z + Estimate.exact(layer.bias) * layer.bias_scale


def _share(layer: Layer) -> Estimate:
    """1 / P, where P is the number of pixels."""
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

    The rounding error of A A' is at most gamma |A|^2, in Frobenius norms. This bound is cheaper than a product of
    absolute values.
    """
    small = matrix if len(matrix) <= matrix.shape[1] else matrix.T
    with np.errstate(over="ignore", invalid="ignore"):  # `largest_eigenvalue` refuses numbers that overflowed
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
