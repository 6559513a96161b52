"""Passes over the neurons: patterns, sums of outputs, sums of pairs of patterns, and pairs near kinks."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from jaxtyping import Bool, Float, Int, UInt8

from ntkfl.any_order.rounding import TINY, above, gamma, length
from ntkfl.any_order.scaled_network import ScaledNetwork
from ntkfl.connectivity.paths.long_sums import LONG, LONG_EPS, long_product, long_product_error
from ntkfl.gram.mirror import mirrored

_ENTRIES = 2**20  # entries of a block of pre-activations


@dataclass(frozen=True, eq=False)
class Pass:
    """One pass over the neurons."""

    network: ScaledNetwork
    gram: Float[np.ndarray, "n n"]  # x x^T, (n, n), exactly symmetric, each entry to within gram_error
    gram_error: float
    # the patterns that the certificate guesses, the signs of w_r.x_i, packed along the samples, (m, n/8)
    bits: UInt8[np.ndarray, "m bytes"]
    # sum_r b_ar b_br s_ri s_rj, (C, C, n, n), to within pairs_error (C, C); integers for signs
    pairs: Float[np.ndarray, "C C n n"]
    pairs_error: Float[np.ndarray, "C C"]
    sums: np.ndarray  # sum_r b_ar s_ri w_r.x_i in long precision, (n, C), to within sums_error
    sums_error: Float[np.ndarray, "n C"]

    def patterns(self, neurons: Int[np.ndarray, " q"]) -> Bool[np.ndarray, "q n"]:
        """s_ri of these neurons on all samples."""
        return np.unpackbits(self.bits[neurons], axis=1, count=self.network.n).astype(bool)


def passed(network: ScaledNetwork) -> Pass:
    """The pass over all neurons, in blocks."""
    x, b, n = network.x, network.readout, network.n
    outputs = network.n_outputs
    bits = np.empty((network.width, -(-n // 8)), np.uint8)
    pairs = np.zeros((outputs, outputs, n, n))
    sums, sizes, errors = np.zeros((n, outputs), LONG), np.zeros((n, outputs)), np.zeros((n, outputs))
    for block in neuron_blocks(network):
        rows, readout = network.hidden[block], b[:, block]
        z, error = long_product(x, rows), long_product_error(x, rows)
        active = z >= 0
        bits[block] = np.packbits(active.T, axis=1)
        add_pairs(pairs, readout, active.T, 1.0)
        positive = np.where(active, z, LONG(0))
        sums += positive @ readout.T.astype(LONG)
        sizes += positive.astype(float) @ np.abs(readout).T
        errors += (error * active) @ np.abs(readout).T
    products = long_product(x, x).astype(float)
    gram_error = float(above((long_product_error(x, x) + gamma(0) * np.abs(products)).max()))
    # A sum of m products, block by block, and later corrections for held pairs: fewer than 4m roundings.
    absolute = np.abs(b) @ np.abs(b).T
    pairs_error = np.zeros((outputs, outputs)) if network.signs else above(gamma(4 * network.width) * absolute)
    return Pass(
        network,
        mirrored(products.T),
        gram_error,
        bits,
        pairs,
        pairs_error,
        sums,
        above(errors + (2 * network.width + 8) * LONG_EPS * sizes),
    )


def add_pairs(
    pairs: Float[np.ndarray, "C C n n"], readout: Float[np.ndarray, "C q"], active: Bool[np.ndarray, "q n"], sign: float
) -> None:
    """pairs_ab += sign sum_r b_ar b_br s_ri s_rj; exact where b is +-1: sums of integers.

    The sum is added in place; `sign` is 1.0 to add and -1.0 to take away.
    """
    for first, output_weight in enumerate(readout):
        for second in range(first, len(readout)):
            pairs[first, second] += sign * weighted_pairs(active, output_weight * readout[second])
            if second > first:
                pairs[second, first] = pairs[first, second].T


def weighted_pairs(active: Bool[np.ndarray, "q n"], weight: Float[np.ndarray, " q"]) -> Float[np.ndarray, "n n"]:
    """sum_r weight_r s_ri s_rj."""
    on = active.astype(float)
    return on.T @ (on * weight[:, None])


def neuron_blocks(network: ScaledNetwork) -> list[slice]:
    """Consecutive slices of the neurons, each with some 16 MB of pre-activations in long precision."""
    step = max(1, _ENTRIES // max(network.x.shape))
    return [slice(start, start + step) for start in range(0, network.width, step)]


@dataclass(frozen=True, eq=False)
class Pairs:
    """Pairs (neuron, row of x), (q,) each."""

    neuron: Int[np.ndarray, " q"]
    row: Int[np.ndarray, " q"]

    def __len__(self) -> int:
        return len(self.neuron)

    def __getitem__(self, index) -> Pairs:
        return Pairs(self.neuron[index], self.row[index])


NO_PAIRS = Pairs(np.zeros(0, int), np.zeros(0, int))


def near_pairs(neurons: Pass, reach: float, most: int) -> Pairs | None:
    """Every pair with |w_r.x_i| <= reach |x_i|, and perhaps others, nearest first; None if there are more than `most`.

    All pairs left out have |w_r.x_i| > reach |x_i|, and the sign that the pass gives.
    """
    network = neurons.network
    x, norms = network.x, np.linalg.norm(network.x, axis=1)
    parts, values = [], []
    for block in neuron_blocks(network):
        w = network.hidden[block]
        z = w @ x.T
        error = above(gamma(x.shape[1]) * length(w, axis=1)[:, None] * norms)
        bit = np.unpackbits(neurons.bits[block], axis=1, count=network.n).astype(bool)
        surely = (np.abs(z) > above(reach * norms) + error) & ((z >= 0) == bit)
        neuron, row = np.nonzero(~surely)
        parts.append(np.stack([neuron + block.start, row]))
        values.append(np.abs(z[neuron, row]))
        if sum(map(len, values)) > most:
            return None
    return Pairs(*np.concatenate(parts, axis=1))[np.argsort(np.concatenate(values), kind="stable")]


def preactivations(network: ScaledNetwork, pairs: Pairs) -> tuple[Float[np.ndarray, " q"], Float[np.ndarray, " q"]]:
    """w_r.x_i of these pairs from sums in long precision, and bounds on their errors."""
    value, error = np.empty(len(pairs)), np.empty(len(pairs))
    step = max(1, _ENTRIES // network.x.shape[1])
    for start in range(0, len(pairs), step):
        part = slice(start, start + step)
        w, x = network.hidden[pairs.neuron[part]], network.x[pairs.row[part]]
        value[part] = np.einsum("qd,qd->q", w.astype(LONG), x.astype(LONG)).astype(float)
        sizes = np.einsum("qd,qd->q", np.abs(w), np.abs(x))
        rounding = (x.shape[1] + 4) * LONG_EPS * sizes + gamma(0) * np.abs(value[part])
        error[part] = above(rounding) + x.shape[1] * TINY
    return value, error
