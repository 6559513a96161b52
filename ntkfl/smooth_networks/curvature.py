"""Bounds of the second derivatives in a ball, for each output and for all outputs together.

Source: docs/proofs/smooth_networks.md#second-derivatives
"""

from dataclasses import dataclass
from functools import cached_property
from typing import NamedTuple

import numpy as np
from jaxtyping import Bool, Float

from ntkfl.any_order.rounding import above, length
from ntkfl.gram.spectrum import largest_eigenvalue
from ntkfl.smooth_networks.layers import Layer
from ntkfl.smooth_networks.passes import Pass, spectral_norm


class Sizes(NamedTuple):
    """Norms at the checkpoint, of g groups of outputs, for each of L layers; upper bounds."""

    each: list[Float[np.ndarray, " g"]]  # |(scale h, bias_scale)| of the longest sample of the group
    together: list[Float[np.ndarray, " g"]]  # the spectral norm of the matrix of these vectors of the group's samples
    before: list[Float[np.ndarray, " g"]]  # the spectral norm of the rows B_k of a sample
    # the largest column norm of the rows b_k of a sample, for each layer but the last
    after: list[Float[np.ndarray, " g"]]
    clear: list[Float[np.ndarray, " g"]]  # the least |z| at a kink, see `Pass.clear`; lower bounds


@dataclass(frozen=True, eq=False)
class Speeds:
    """Bounds of derivatives of layers' inputs and outputs by each layer's parameters, for one sample or for all."""

    before: list[Float[np.ndarray, "g L"]]  # z_k
    inputs: list[Float[np.ndarray, "g L"]]  # h_(k-1) of each layer, and then the outputs
    lengths: list[Float[np.ndarray, " g"]]  # |(scale h, bias_scale)|


@dataclass(frozen=True, eq=False)
class Curvature:
    """Bounds of second derivatives in the trained parameters, for any ball about the checkpoint."""

    layers: tuple[Layer, ...]  # layers of the network
    norms: tuple[float, ...]  # spectral norms of scale W
    alone: Sizes  # sizes for each output of each sample, n C groups
    all: Sizes | None  # sizes for all outputs of all samples together; None where they are not needed

    def of_each(self, radius: float) -> Float[np.ndarray, " nC"]:
        """L_i: at least the norm of the Hessian of each output in the ball."""
        return self._bounds(self.alone, radius)

    def of_all(self, radius: float) -> float:
        """L_J: at least |J(t) - J(t')| / |t - t'| in the ball, J the Jacobian of all outputs of all samples."""
        return self.of_both(radius)[1]

    def of_both(self, radius: float) -> tuple[Float[np.ndarray, " nC"], float]:
        """L_i and L_J."""
        bounds = self._bounds(self._both, radius)
        return bounds[:-1], float(min(bounds[-1], length(bounds[:-1])))

    @cached_property
    def _both(self) -> Sizes:
        """The groups of `alone`, then the group of `all`, to be bounded in one pass."""
        assert self.all is not None
        rows = (
            [np.append(*pair) for pair in zip(*lists, strict=True)] for lists in zip(self.alone, self.all, strict=True)
        )
        return Sizes(*rows)

    def grown(self, at: Sizes, radius: float) -> Sizes:
        """Bounds of these sizes in the whole ball, from the sizes at the checkpoint; `clear` is unchanged."""
        return self._grown(at, radius, *self._tall_and_wide(at, radius))

    def _tall_and_wide(self, at: Sizes, radius: float) -> tuple[Speeds, Speeds]:
        """The speeds of a sample, and of all samples of a group."""
        tall = self._speeds(at.each, radius)
        return tall, tall if at.together is at.each else self._speeds(at.together, radius)

    def _grown(self, at: Sizes, radius: float, tall: Speeds, wide: Speeds) -> Sizes:
        moved = [radius * np.linalg.norm(row, axis=1) for row in tall.before]  # bounds of z_k of a sample
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
        """At least the Lipschitz constant of each output in the ball, on both sides of kinks; infinite at jumps."""
        jumps = np.array([layer.activation.jumps for layer in self.layers])[:, None]
        jumped = (jumps & self.crossing(radius)).any(axis=0)
        return np.where(jumped, np.inf, above(np.linalg.norm(self._speeds(self.alone.each, radius).inputs[-1], axis=1)))

    def crossing(self, radius: float) -> Bool[np.ndarray, "L nC"]:
        """Whether some neuron of a layer may reach its kink in the ball, for each output of each sample.

        Until the first kink on a path of the parameters, neurons move no faster than with activations without kinks.
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
        """A lower bound of the factor by which a mean over pixels after the layer shrinks Euclidean lengths."""
        of = self.layers[layer]
        return float(np.sqrt(of.image.places)) if of.pools and of.image else 1.0

    def _norm(self, layer: int, radius: float) -> float:
        return self.norms[layer] + self.layers[layer].gain * radius * self.layers[layer].trained


def weight_norms(layers: tuple[Layer, ...]) -> tuple[float, ...]:
    """Upper bounds of the spectral norms of scale W as maps of h; 0 for the first layer, whose norm is not needed."""
    return 0.0, *(_map_norm(layer) for layer in layers[1:])


def _map_norm(layer: Layer) -> float:
    """A bound of a convolution's norm: the smaller of the matrix norm of W and a sum over the places of the square."""
    if layer.stands_in:
        return layer.scale  # the norm of the scale times I; a JAX function may have a factor there
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
    """The sizes of all outputs of all samples, one group; products: `Pass.input_products` of each layer."""
    lengths = [done.input_lengths(k).max(keepdims=True) for k in range(len(done.layers))]
    together = [np.sqrt(above(np.maximum(largest_eigenvalue(product).hi, 0.0)))[None] for product in products]
    before = []
    for rows in done.before:  # the spectral norm of C rows is bounded by the largest absolute row sum of their products
        inner = rows.products()
        before.append(np.sqrt(above((np.abs(inner.value) + inner.error).sum(axis=2).max(keepdims=True).reshape(1))))
    after = [rows.norm(axis=1).hi.max(keepdims=True).reshape(1) for rows in done.after]
    return Sizes(lengths, together, before, after, [clear.min(keepdims=True) for clear in done.clear])


def largest_nonnegative(forms: Float[np.ndarray, "g L L"]) -> Float[np.ndarray, " g"]:
    """Upper bounds of the largest eigenvalues of symmetric matrices without negative entries.

    The smaller of max_i (A v)_i / v_i for a positive v (Collatz and Wielandt) and the largest row sum.
    """
    sums = forms.sum(axis=2).max(axis=1)
    shift = np.linalg.eigvalsh(forms)[:, -1] * (1 + 1e-6) + 1e-12 * sums + 1e-300
    inverse = shift[:, None, None] * np.eye(forms.shape[1]) - forms
    v = np.linalg.solve(inverse, np.ones((*forms.shape[:2], 1)))[:, :, 0]
    good = ((v > 0) & np.isfinite(v)).all(axis=1, keepdims=True)
    v = np.where(good, v, 1.0)
    ratio = ((forms @ v[:, :, None])[:, :, 0] / v).max(axis=1)
    return above(np.minimum(ratio, sums))
