"""Gram matrices of finite networks, from exact integer counts of neurons, without the Jacobian.

Only blocks of neurons are held at a time.
"""

from collections.abc import Iterator, Sequence
from functools import partial
from typing import Any

import numpy as np
from jaxtyping import Bool, Float, Int

from ntkfl.estimate import Estimate, Rigour
from ntkfl.gram.error_free import SMALLEST, products_scaled_back, row_exponents, row_norms, scaled_rows
from ntkfl.gram.limit import FAR
from ntkfl.gram.mirror import mirrored
from ntkfl.gram.packing import BITS, active_words
from ntkfl.gram.pair_counts import Side, summed
from ntkfl.gram.patterns import EPSILON, activations, checked_network, doubtful
from ntkfl.initialisation import blocks
from ntkfl.memory import require
from ntkfl.problem import checked_inputs, checked_owner, finite_array, number_array, real_array

COUNTED = 27  # measured bytes that an entry takes until it is counted and multiplied
_PATTERNS = 2**23  # entries of a block: a megabyte of bits


def finite(
    x: Float[np.ndarray, "n d"],
    u: Float[np.ndarray, "m d"],
    w: Float[np.ndarray, "m d"] | None = None,
    z: Float[np.ndarray, "p d"] | None = None,
) -> Float[np.ndarray, "n p"]:
    """H_ij = x_i.z_j (1/m) sum_r 1{u_r.x_i >= 0} 1{w_r.z_j >= 0}; w is u and z is x unless they are given.

    Exactly symmetric if neither is given; in general asymmetric otherwise.

    Args:
        x: samples, shape (n, d).
        u: hidden weights, shape (m, d).
        w: other hidden weights, of the same width; default u.
        z: other samples; default x.

    Raises:
        ValueError: input that is not finite, a zero row, or shapes that do not agree.
    Source: FL-NTK, Definition 3.2 (with one client); fl-ntk/counts.

    Example:
        >>> from ntkfl.gram import finite
        >>> finite([[1.0, 0.0]], [[1.0, 0.0], [-1.0, 0.0]])
        array([[0.5]])
    """
    counts = _counts(x, u, w, z)
    return _inner_products(x, z) * (counts / len(u))


def jacobian_gram(
    x: Float[np.ndarray, "n d"], u: Float[np.ndarray, "m d"], w: Float[np.ndarray, "m d"] | None = None
) -> Float[np.ndarray, "n n"]:
    """J(u)^T J(w), where J (m d, n) is the Jacobian of all outputs by the hidden weights, with relu'(0) = 1 and signs
    +-1.

    The squares of the signs are 1, so this is `finite(x, u, w)`: m n^2 operations where J alone has m n d entries.

    Args:
        x: samples, shape (n, d).
        u: hidden weights of a network, shape (m, d).
        w: hidden weights of another network with the same signs; default: `u`.

    Raises:
        ValueError: as `finite`.
    Source: FL-NTK, Appendix C (the display of J); fl-ntk/C.7-J.
    """
    return finite(x, u, w)


def finite_estimate(
    x: Float[np.ndarray, "n d"], u: Float[np.ndarray, "m d"], error: float | Float[np.ndarray, " m"] = 0.0
) -> Estimate:
    """`finite(x, u)` with a bound on its error, shape (n, n).

    The patterns of the given float64 numbers are exact. If weights are known only to within `error` (Euclidean norm per
    neuron), every neuron that is `doubtful` for x_i or x_j may change entry ij by |x_i.x_j| / m.

    Args:
        x: samples, shape (n, d).
        u: hidden weights, shape (m, d).
        error: how far each neuron's weights may be from these; default 0.

    Raises:
        ValueError: as `finite`, or a negative or NaN error.
    """
    require("the Gram matrix with its error", lambda n: 73 * n * n, n=len(x))
    fraction = _counts(x, u, None, None) / len(u)
    x = np.asarray(x, float)
    inner, norms, exponents = _inner_products(x, None), row_norms(scaled_rows(x)), row_exponents(x)
    dot_error = products_scaled_back((x.shape[1] + 2) * EPSILON * np.outer(norms, norms), exponents, exponents)
    doubt = np.zeros_like(fraction)
    if np.any(real_array("error", error) != 0):
        count = doubtful(x, u, error)
        doubt = np.minimum(1, (count[:, None] + count) / len(u))
    bound = dot_error * fraction + (np.abs(inner) + dot_error) * doubt + 2 * EPSILON * np.abs(inner)
    underflow = 8 * SMALLEST  # the product, the value and each term of the bound underflow by at most half of SMALLEST
    error = bound * (1 + 4 * EPSILON) + underflow
    return Estimate(inner * fraction, error, "rounding bound", Rigour.ENCLOSED)


def initial(
    x: Float[np.ndarray, "n d"],
    width: int,
    seed: int,
    sigma: float = 1.0,
    block: int = 16,
    devices: Sequence[Any] = (),
) -> Float[np.ndarray, "n n"]:
    """H(0) of the network that `initialisation.draw` gives for this seed, of any width; the weights are never held.

    Bit for bit `finite(x, draw(width, d, seed).hidden)`, whatever the `block` and the `devices`. Memory O(n^2 + block).
    Only its rounding depends on sigma.

    Args:
        x: samples, shape (n, d).
        width: m.
        seed: the seed of the network.
        sigma: standard deviation of the weights, default 1.
        block: chunks of 1024 neurons drawn at a time; default 16.
        devices: JAX devices of this host, CPUs or GPUs, that count in place of this process. The process draws the
            weights, and decides the signs that float64 leaves open; default none.

    Raises:
        ValueError: as `finite` and `draw`, or a device that is a TPU.
    """
    x = checked_inputs("x", x)
    require("the Gram matrix", lambda n: COUNTED * n * n, n=len(x))
    drawn = blocks(width, x.shape[1], seed, sigma, block)
    pieces = (weights.hidden[part] for weights in drawn for part in _blocks(len(x), len(weights.hidden)))
    if devices:
        from ntkfl.gram.device_counts import summed_on_devices  # it imports JAX, which takes a second

        counts = summed_on_devices(x, pieces, devices)
    else:
        counts = summed((partial(_same, x, piece) for piece in pieces), (len(x), len(x)), width, same=True)
    return _inner_products(x, None) * (counts / width)


def local_gram(
    x: Float[np.ndarray, "n d"],
    owner: Int[np.ndarray, " n"],
    u: Float[np.ndarray, "m d"],
    w: Float[np.ndarray, "N m d"],
    neurons: Bool[np.ndarray, "n m"] | None = None,
) -> Float[np.ndarray, "n n"]:
    """H(t,k)_ij = x_i.x_j (1/m) sum_{r in neurons_i} 1{u_r.x_i >= 0} 1{w_{c(j),r}.x_j >= 0}, c(j) the owner of j.

    Args:
        x: samples, shape (n, d).
        owner: the client of each sample, 0..N-1.
        u: the global hidden weights u(t).
        w: the hidden weights of each client after k local steps.
        neurons: the set over which each i's sum runs; default all neurons. With ~safe_neurons(...) the result is
            H(t,k)^perp.

    Raises:
        ValueError: as `finite`, or an owner without weights, or neurons of another shape or type.
    Source: FL-NTK, Definition 3.2 and Eq (3)-(4); fl-ntk/counts.
    """
    (x, u), w = checked_network(x, u), finite_array("w", w)
    n, m = len(x), len(u)
    owner = checked_owner(owner, n)
    if w.ndim != 3 or w.shape[1:] != u.shape or owner.max() >= len(w):
        clients = f"clients {owner.min()}..{owner.max()}"
        raise ValueError(f"w has shape {w.shape}; it must be (N, *{u.shape}), a network for each of {clients}")
    neurons = None if neurons is None else number_array("neurons", neurons)
    if neurons is not None and (neurons.shape != (n, m) or neurons.dtype != bool):
        raise ValueError(
            f"neurons is {neurons.dtype} of shape {neurons.shape}; it must be a boolean array of shape {(n, m)}"
        )

    def patterns(block: slice, packed: bool) -> tuple[Side, Side]:
        rows, columns = activations(x, u[block]), np.empty((n, len(u[block])), bool)
        if neurons is not None:
            rows &= neurons[:, block]
        for c in np.unique(owner):
            columns[owner == c] = activations(x[owner == c], w[c, block])
        return rows, columns

    require("the Gram matrix", lambda n: COUNTED * n * n, n=n)
    counts = summed((partial(patterns, block) for block in _blocks(n, m)), (n, n), m)
    return _inner_products(x, None) * (counts / m)


def _counts(x, u, w, z) -> Int[np.ndarray, "n p"]:
    """Number of neurons active on both x_i (under u) and z_j (under w)."""
    x, u = checked_network(x, u)
    n, m, p = len(x), len(u), len(x if z is None else z)
    require("the Gram matrix", lambda n: COUNTED * n * (n if z is None else p), n=n)
    if w is None and z is None:
        return summed((partial(_same, x, u[block]) for block in _blocks(n, m)), (n, n), m, same=True)
    w, z = (u if w is None else real_array("w", w)), (x if z is None else real_array("z", z))
    if w.shape != u.shape:
        raise ValueError(f"w has shape {w.shape}, u has {u.shape}: they must be weights of one network, (m, d)")
    z, w = checked_network(z, w, ("z", "w"))

    def patterns(block: slice, packed: bool) -> tuple[Side, Side]:
        return _side(x, u[block], packed), _side(z, w[block], packed)

    return summed((partial(patterns, block) for block in _blocks(max(n, p), m)), (n, p), m)


def _blocks(n: int, width: int) -> Iterator[slice]:
    """Consecutive slices of the neurons: whole words, whose bits of n samples stay within a megabyte."""
    step = 1 << (max(BITS, min(_PATTERNS // n, 2**20)).bit_length() - 1)
    return (slice(start, min(start + step, width)) for start in range(0, width, step))


def _same(x: np.ndarray, u: np.ndarray, packed: bool) -> tuple[Side, None]:
    return _side(x, u, packed), None


def _side(x: np.ndarray, u: np.ndarray, packed: bool) -> Side:
    return active_words(x, u) if packed else activations(x, u)


def _inner_products(x, z) -> np.ndarray:
    """x_i.z_j; rows are scaled first if their products may underflow or overflow. ValueError for a product beyond
    float64."""
    x, alone = np.asarray(x, float), z is None
    z = x if alone else np.asarray(z, float)
    exponents = [row_exponents(rows) for rows in (x, z)]
    far = max(np.abs(e).max() for e in exponents) > FAR
    left = scaled_rows(x) if far else x
    right = left if alone else scaled_rows(z) if far else z
    products = mirrored(left @ right.T) if alone else left @ right.T
    return products_scaled_back(products, *exponents) if far else products
