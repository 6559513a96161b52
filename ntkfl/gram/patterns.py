"""Which neurons are active on which samples: 1{u_r . x_i >= 0}, decided exactly for the float64 numbers given."""

from collections.abc import Iterator

import numpy as np
from jaxtyping import Bool, Float, Int

from ntkfl.problem import checked_inputs, finite_array, real_array
from ntkfl.rounding import dot_product, row_exponents, scaled_rows

EPSILON = 2.0**-52
TINY = 2.0**-1022  # smallest normal number of float64; smaller numbers have fewer bits
_ENTRIES = 2**22  # entries of a block of pre-activations (32 MiB)
CACHED = 2**18  # entries of a block of float32 products (1 MiB)
SINGLE = 1024  # number of features up to which a float32 product leaves few signs undecided
SAFE = 2.0**600  # squared norms between SAFE and 1 / SAFE are computed with full accuracy
FEW = 0.01  # if at most this share of all signs is undecided, these signs are computed one by one


def activations(x: Float[np.ndarray, "n d"], u: Float[np.ndarray, "m d"]) -> Bool[np.ndarray, "n m"]:
    """The pattern 1{u_r . x_i >= 0}.

    Signs that float32 cannot settle are computed in float64. Signs that float64 cannot settle either are computed by an
    exact sum. So the pattern depends only on the numbers, not on blocks, nor on the order of the neurons or samples.

    Args:
        x: samples, shape (n, d).
        u: hidden weights, shape (m, d).

    Raises:
        ValueError: x or u not finite, or of different numbers of features.
    """
    x, u = checked_network(x, u)
    out = np.empty((len(x), len(u)), bool)
    scaled, step = scaled_rows(x), max(64, CACHED // len(x))
    single = unit_rows(scaled)
    for block in (slice(start, start + step) for start in range(0, len(u), step)):
        out[:, block] = _signs(x, u[block], scaled, single)
    return out


def _signs(x: np.ndarray, u: np.ndarray, scaled: np.ndarray, single: np.ndarray) -> np.ndarray:
    """1{x_i . u_r >= 0}; `scaled` has the scaled rows of x, and `single` has the `unit_rows` of these, in float32."""
    d = x.shape[1]
    if d <= SINGLE:
        dot = single @ unit_rows(u).T
        undecided = np.abs(dot) <= unit_product_error(d)
        hit = np.flatnonzero(undecided.any(axis=1))  # most rows have no undecided sign
        i, r = np.nonzero(undecided[hit])
        if len(i) <= FEW * dot.size:
            active, i = dot >= 0, hit[i]
            active[i, r] = decided(x[i], u[r])
            return active
    dot, bound = _dots(scaled, scaled_rows(u))
    active, (i, r) = dot >= 0, np.nonzero(np.abs(dot) <= bound)
    active[i, r] = decided(x[i], u[r])
    return active


def unit_product_error(d: int, dtype: type[np.floating] = np.float32) -> np.floating:
    """The largest error of a product of two rows of `unit_rows`, summed in any order, up to a positive factor."""
    # The result bounds d roundings of the sum and two roundings of the factors of each term, half an eps each, times
    # sum_k |x_k u_k| <= 1. Two more roundings cover the errors of the norms, underflow and all products of these
    # errors. One more rounding covers the rounding of this line.
    return dtype((d + 5) * np.finfo(dtype).eps / 2)


def decided(x: Float[np.ndarray, "k d"], u: Float[np.ndarray, "k d"]) -> Bool[np.ndarray, " k"]:
    """1{x_k . u_k >= 0} for each k, decided exactly.

    A positive scale changes no sign, and no product of scaled rows overflows. But scaling may round entries that are
    tiny beside the largest entry of their row, so an exact sum uses the rows as given.
    """
    left, right = scaled_rows(x), scaled_rows(u)
    dot = np.einsum("ij,ij->i", left, right)
    bound = (x.shape[1] + 2) * EPSILON * np.linalg.norm(left, axis=1) * np.linalg.norm(right, axis=1)
    active = dot >= 0
    for k in np.flatnonzero(np.abs(dot) <= bound):
        active[k] = dot_product(x[k], u[k]) >= 0
    return active


def unit_rows(x: np.ndarray, dtype: type[np.floating] = np.float32) -> np.ndarray:
    """The rows divided by their norms; a zero row stays zero."""
    with np.errstate(over="ignore", under="ignore"):
        squares = np.einsum("ij,ij->i", x, x)
    if not ((squares > 1 / SAFE) & (squares < SAFE)).all():  # some squares may have overflowed or underflowed
        x = scaled_rows(x)
        squares = np.einsum("ij,ij->i", x, x)
    norms = np.sqrt(squares)[:, None]
    return (x / np.where(norms > 0, norms, 1.0)).astype(dtype, copy=False)


def doubtful(
    x: Float[np.ndarray, "n d"], u: Float[np.ndarray, "m d"], error: float | Float[np.ndarray, " m"] = 0.0
) -> Int[np.ndarray, " n"]:
    """For each sample, the number of neurons whose pre-activation may be 0 within its uncertainty, shape (n,).

    The uncertainty is the rounding bound (d + 2) eps |u_r| |x_i| of the float64 dot product plus error |x_i|. The
    weights of each neuron are known to within `error` in the Euclidean norm. `error` is a number, or an array of shape
    (m,).

    Args:
        x: samples, shape (n, d).
        u: hidden weights, shape (m, d).
        error: how far each neuron's weights may be from these; default 0.

    Raises:
        ValueError: as `activations`, or a negative or NaN error.
    """
    x, u = checked_network(x, u)
    error = np.broadcast_to(real_array("error", error), len(u))
    if not (error >= 0).all():
        raise ValueError(f"error is {error.min()}; the radius within which weights are known must be 0 or more")
    count = np.zeros(len(x), int)
    for block in neuron_blocks(len(x), len(u)):
        dot, bound, reach = _dots_and_reach(x, u[block], error[block])
        count += (np.abs(dot) <= bound + reach).sum(axis=1)
    return count


def safe_neurons(x: Float[np.ndarray, "n d"], u0: Float[np.ndarray, "m d"], radius: float) -> Bool[np.ndarray, "n m"]:
    """The set Q_i for each sample: the neurons whose pattern on x_i cannot change while |u_r - u0_r| <= radius.

    The complement of Q_i is the event A_ir: -R |x_i| <= u0_r . x_i < R |x_i|, where R is the radius. A neuron for which
    float64 cannot decide these inequalities is left out, so that every neuron in the result is safe.

    Args:
        x: samples, shape (n, d).
        u0: hidden weights at the start.
        radius: R, in the units of the weights.

    Raises:
        ValueError: as `activations`, or a negative or NaN radius.
    Source: FL-NTK, Definition of Q_i and Eq (11); fl-ntk/Eq11.
    """
    x, u0 = checked_network(x, u0, ("x", "u0"))
    if not radius >= 0:
        raise ValueError(f"radius is {radius!r}; it must be 0 or more")
    out = np.empty((len(x), len(u0)), bool)
    for block in neuron_blocks(len(x), len(u0)):
        dot, bound, reach = _dots_and_reach(x, u0[block], radius)
        out[:, block] = (dot >= reach + bound) | (dot < -reach - bound)
    return out


def neuron_blocks(n: int, width: int) -> Iterator[slice]:
    """Consecutive slices of the neurons; the pre-activations of a slice on n samples take at most 32 MiB."""
    step = min(max(1, _ENTRIES // n), 2**20)  # counts within a block are exact in float32 up to 2^24
    return (slice(start, min(start + step, width)) for start in range(0, width, step))


def checked_network(x, u, names: tuple[str, str] = ("x", "u")) -> tuple[np.ndarray, np.ndarray]:
    """Data (n, d) and hidden weights (m, d) as float64; raises a ValueError unless they are finite and fit together."""
    x, u = checked_inputs(names[0], x), finite_array(names[1], u)
    if u.ndim != 2 or u.shape[1] != x.shape[1] or not len(u):
        raise ValueError(f"the hidden weights have shape {u.shape}; they must be (m, {x.shape[1]}), as x is {x.shape}")
    return x, u


def _dots_and_reach(x: np.ndarray, u: np.ndarray, radius: np.ndarray | float) -> tuple[np.ndarray, ...]:
    """`_dots` of scaled rows, and an upper bound of radius |x_i| multiplied by the same scales."""
    exponents, x = row_exponents(u), scaled_rows(x)
    with np.errstate(over="ignore", under="ignore"):
        scaled = np.ldexp(np.broadcast_to(radius, exponents.shape), -exponents)
    scaled = np.where((np.asarray(radius) > 0) & (scaled < TINY), TINY, scaled)
    return *_dots(x, scaled_rows(u)), np.linalg.norm(x, axis=1)[:, None] * scaled * (1 + EPSILON)


def _dots(x: np.ndarray, u: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """The products x_i . u_r and bounds on their rounding errors, both (n, m); the bounds hold for every order of
    summation.
    """
    scale = (x.shape[1] + 2) * EPSILON
    return x @ u.T, scale * np.linalg.norm(x, axis=1)[:, None] * np.linalg.norm(u, axis=1)
