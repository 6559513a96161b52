"""Gram matrices of networks of finite width.

The Gram matrices of two-layer ReLU networks are computed from exact integer counts of active neurons. The Gram matrix
of any other network is computed from products of the network's gradients.

The counts need no Jacobian. Only one block of neurons, or a few gradients, are in memory at a time.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np
from jaxtyping import Bool, Float, Int, Num

from ntkfl import interruption
from ntkfl.estimate import Estimate, Rigour
from ntkfl.gram.limit import FAR
from ntkfl.gram.mirror import mirrored
from ntkfl.gram.packing import BITS, active_words
from ntkfl.gram.pair_counts import Side, summed
from ntkfl.gram.patterns import EPSILON, activations, checked_network, doubtful
from ntkfl.initialisation import blocks
from ntkfl.memory import available, require
from ntkfl.problem import checked_inputs, checked_owner, finite_array, number_array, real_array
from ntkfl.rounding import SMALLEST, products_scaled_back, row_exponents, row_norms, scaled_rows

if TYPE_CHECKING:
    import torch
    from torch import Tensor

    from ntkfl.training.model import Model


def in_float64(
    params: Mapping[str, Tensor | np.ndarray], device: torch.device | str | None = None
) -> dict[str, Tensor]:
    """The parameters as float64 tensors that record no gradients, made from tensors or from the arrays of a
    trajectory's `weights`.

    Raises:
        ValueError: no dict, an empty one, or a value that is no array of real numbers.
    """
    import torch  # imported here since torch is slow to load

    if not isinstance(params, Mapping) or not params:
        raise ValueError(f"params is {params!r:.60}; it must be a dict of tensors, as network.initial(0) gives")
    for name, value in params.items():
        real = isinstance(value, torch.Tensor) and value.is_floating_point()
        if not real and not (isinstance(value, np.ndarray) and value.dtype.kind == "f"):
            kind = value.dtype if isinstance(value, torch.Tensor | np.ndarray) else type(value).__name__
            raise ValueError(f"the parameter {name!r} is {kind}; it must be a tensor, or an array, of real numbers")
    tensors = {  # copied, since torch warns of read-only arrays
        name: value.detach()
        if isinstance(value, torch.Tensor)
        else torch.tensor(real_array(f"params[{name!r}]", value))
        for name, value in params.items()
    }
    return {name: value.to(device, torch.float64) for name, value in tensors.items()}


# largest distance from rank one, relative to the gradient's norm; rounding errors alone give about 2^-49
OF_RANK_ONE = 2.0**-47
HELD = 2**31  # largest number of bytes of gradients held in memory, if there is room for them
# gradients computed together have at most this many numbers, unless the gradient of one sample alone has more
FORMED = 2**22
ROWS = 1024  # rows of a tile of a product; the two temporary arrays of a tile are small compared with the result
COPIES = 5  # number of float64 copies of the gradients computed together, for the estimate of memory


def empirical(
    x: Num[np.ndarray, "n ..."],
    network: Model,
    params: Mapping[str, Tensor | np.ndarray],
    z: Num[np.ndarray, "p ..."] | None = None,
) -> Float[np.ndarray, "nC pC"]:
    """The empirical neural tangent kernel J(x) J(z)^T of a finite network in float64; J has the derivatives of all
    outputs by all parameters.

    Output c of sample i has row i C + c, where C is the number of outputs. The kernel is exactly symmetric when z is
    None. Parameters and inputs of float32 are converted to float64; integer inputs, such as tokens, are not.

    A weight matrix that is applied to a sample once has a gradient a b^T for this sample. Where a check finds this form
    for all samples, up to 2^-47 of the gradient's norm, a and b are held in place of the gradient, and the product of
    two gradients is (a.a')(b.b'). Other gradients are held for as many samples as fit into 2 GiB and into half of the
    free memory; for the rest they are computed again. Entries are off by at most 2^-46 |J_i| |J_j|, besides the
    rounding of products.

    Args:
        x: samples, of any shape that the network takes.
        network: a `Model`; `ntkfl.network` makes one of a torch module or a JAX function.
        params: the network's parameters by name, as tensors on the device that is to compute, or as arrays such as the
            arrays of `Trajectory.weights`.
        z: other samples, of the same shape each; default: `x`.

    Raises:
        TypeError: a network in the place of the samples, as in the argument order of earlier versions.
        ValueError: an argument that is no network, an input or output that is not finite, x and z of different shapes,
            and as `Model.checked_outputs`.
        TooLittleMemory: the kernel, or the gradients of one sample, need more memory than there is.
    Source: Jacot et al. 2018 (arXiv:1806.07572), Eq. (NTK); Novak et al. 2022 (arXiv:2206.08720), on the products of
    gradients of rank one.
    """
    import torch

    if callable(x) or hasattr(x, "checked_outputs"):
        raise TypeError("empirical takes the samples first, as all in ntkfl.gram do: empirical(x, network, params, z)")
    if not all(callable(getattr(network, name, None)) for name in ("checked_outputs", "outputs", "gradients")):
        raise ValueError(f"network is a {type(network).__name__}; ntkfl.network(...) makes one of a module or function")
    params = in_float64(params)
    like = next(iter(params.values()))
    alone = z is None
    left = _inputs("x", x, like)
    right = left if z is None else _inputs("z", z, like)
    if left.shape[1:] != right.shape[1:]:
        raise ValueError(f"z has samples of shape {tuple(right.shape[1:])}, x of {tuple(left.shape[1:])}")
    outputs = max(1, network.checked_outputs(params, left[:2])[0].numel())
    count = sum(value.numel() for value in params.values())
    on_device = like.device.type != "cpu"
    require(
        f"the kernel of {network.name}, {count} parameters,",
        lambda n: (
            8.0 * outputs**2 * n * (n if alone else len(right)) + (0 if on_device else _formed(n, outputs * count))
        ),
        n=len(left),
    )
    out = np.zeros((outputs * len(left), outputs * len(right)))
    free = torch.cuda.mem_get_info(like.device)[0] if on_device else available() - out.nbytes
    gradients = _Gradients(network, params, outputs, min(HELD, free / 2))
    while True:
        try:
            gradients.fill(out, left, None if alone else right)
            break
        except _NotOfRankOne as caught:  # in most cases this is raised after one or two samples
            gradients.whole.update(caught.names)
            out[:] = 0
    if not np.isfinite(out).all():
        row, column = (int(index[0]) for index in np.nonzero(~np.isfinite(out)))
        raise ValueError(
            f"the gradients of {network.name} have no finite product for samples {row // outputs} and "
            f"{column // outputs}; take parameters and inputs for which it is finite"
        )
    return mirrored(out) if alone else out


class _NotOfRankOne(Exception):
    """Raised if for some sample the gradients of these parameters are not of rank one."""

    def __init__(self, names: set[str]) -> None:
        self.names = names


@dataclass(frozen=True, eq=False)
class _Gradients:
    """The gradients of a network, for each parameter either whole or as two vectors."""

    network: Model
    params: dict[str, Tensor]
    outputs: int  # C
    held: float  # bytes available for held gradients
    # parameters whose gradients are kept whole; more are added during the run
    whole: set[str] = field(default_factory=set)

    def fill(self, out: np.ndarray, x: Tensor, z: Tensor | None) -> None:
        """Add the products of all gradients to the zeros in `out`; if z is None, at least in the upper triangle."""
        numbers = sum(sum(self._widths(name)) for name in self.params)
        fit = int(self.held / (8 * self.outputs * numbers))
        rows, columns = max(1, 3 * fit // 4), max(1, fit // 4)
        rows = len(x) if fit >= len(x) else rows
        others = x if z is None else z
        for start in range(0, len(x), rows):
            left, here = self.of("x", x, start, rows), self._part(start, rows)
            if z is None:
                self._add(out[here, here], left, left)
            for other in range(start + rows if z is None else 0, len(others), columns):
                right = self.of("x" if z is None else "z", others, other, columns)
                self._add(out[here, self._part(other, columns)], left, right)
                del right  # frees these gradients before the next are computed
            del left

    def of(self, which: str, x: Tensor, start: int, count: int) -> list[tuple[Tensor, ...]]:
        """For each parameter the gradients of C outputs at k samples: an array (k C, size), or two factors of k C rows
        each.

        Raises:
            ValueError: an output that is not finite; the message names its sample.
            _NotOfRankOne: gradients that are held as two vectors are not of rank one.
        """
        import torch

        samples = x[start : start + count]
        size = sum(value.numel() for value in self.params.values())
        together = max(1, min(len(samples), FORMED // (self.outputs * size)))
        widths = {name: self._widths(name) for name in self.params}
        held = [
            tuple(self.params[name].new_empty(self.outputs * len(samples), side) for side in sides)
            for name, sides in widths.items()
        ]
        largest = max((self.params[name].numel() for name, sides in widths.items() if len(sides) == 2), default=0)
        scratch = samples.new_empty(self.outputs * together * largest, dtype=torch.float64)
        for first in range(0, len(samples), together):
            interruption.check()
            some = samples[first : first + together]
            finite = torch.isfinite(self.network.outputs(self.params, some)).reshape(len(some), -1).all(1)
            if not finite.all():
                sample = start + first + int((~finite).nonzero()[0])
                raise ValueError(f"the output of {self.network.name} for sample {sample} of {which} is not finite")
            gradients, failed = self.network.gradients(self.params, some), set()
            place = slice(self.outputs * first, self.outputs * (first + len(some)))
            for (name, sides), kept in zip(widths.items(), held, strict=True):
                rows = gradients.pop(name).reshape(self.outputs * len(some), *sides)
                parts = _vectors(rows, scratch) if len(sides) == 2 else (rows,)
                if parts is None:
                    failed.add(name)
                    continue
                for where, part in zip(kept, parts, strict=True):
                    where[place] = part
            if failed:
                raise _NotOfRankOne(failed)
        return held

    def _add(self, out: np.ndarray, left: list[tuple[Tensor, ...]], right: list[tuple[Tensor, ...]]) -> None:
        for a, b in zip(left, right, strict=True):
            for tile in (slice(first, first + ROWS) for first in range(0, len(out), ROWS)):
                interruption.check()
                product = _products(a[0][tile], b[0])
                for more, others in zip(a[1:], b[1:], strict=True):
                    product *= _products(more[tile], others)
                out[tile] += product

    def _part(self, start: int, count: int) -> slice:
        return slice(self.outputs * start, self.outputs * (start + count))

    def _widths(self, name: str) -> tuple[int, ...]:
        """The lengths of the two vectors that hold a gradient, or the length of the whole gradient."""
        sides = _sides(self.params[name])
        return sides if name not in self.whole and min(sides) > 1 else (self.params[name].numel(),)


def _formed(samples: int, numbers: int) -> float:
    """Bytes needed to compute the gradients of these samples, which have `numbers` numbers each."""
    return COPIES * 8.0 * max(numbers, min(FORMED, samples * numbers))


def _sides(value: Tensor) -> tuple[int, int]:
    """The shape of the parameter as a matrix: the length of its first axis, and the product of the others."""
    rows = value.shape[0] if value.ndim > 1 else 1
    return rows, value.numel() // max(1, rows)


def _vectors(gradients: Tensor, scratch: Tensor) -> tuple[Tensor, Tensor] | None:
    """a (r, k) and b (r, l) whose products a b^T are these matrices (r, k, l); None if a matrix is not of rank one.

    The scratch array is overwritten, because allocating new memory would take most of the time.
    """
    import torch

    norm, index = torch.linalg.vector_norm, torch.arange(len(gradients), device=gradients.device)
    norms = norm(gradients, dim=2)
    b = gradients[index, norms.argmax(1)]
    column = b.abs().argmax(1)
    pivot = b[index, column, None]
    a = gradients[index, :, column] / torch.where(pivot == 0, 1, pivot)
    rest = scratch[: gradients.numel()].view(gradients.shape)
    torch.baddbmm(gradients, a[:, :, None], b[:, None, :], alpha=-1, out=rest)
    return (a, b) if (norm(rest, dim=(1, 2)) <= OF_RANK_ONE * norm(norms, dim=1)).all() else None


def _products(a: Tensor, b: Tensor) -> np.ndarray:
    """The product a b^T; on a CPU numpy computes it, in half the time if a and b are the same array."""
    return a.numpy() @ b.numpy().T if a.device.type == "cpu" else (a @ b.T).cpu().numpy()


def _inputs(name: str, given: np.ndarray, like: Tensor) -> Tensor:
    import torch

    array = number_array(name, given)
    if array.ndim < 1 or not len(array):
        raise ValueError(f"{name} is {array.dtype} of shape {array.shape}; it must be real numbers, one row a sample")
    kept = array if array.dtype.kind in "iu" else finite_array(name, array)
    return torch.tensor(kept, device=like.device)


# measured peak memory in bytes for each entry of H, up to the step that multiplies the entry's count of neurons by
# x_i.x_j
COUNTED = 27
_PATTERNS = 2**23  # largest number of 0/1 patterns of a block: a megabyte of bits


def finite(
    x: Float[np.ndarray, "n d"],
    u: Float[np.ndarray, "m d"],
    w: Float[np.ndarray, "m d"] | None = None,
    z: Float[np.ndarray, "p d"] | None = None,
) -> Float[np.ndarray, "n p"]:
    """The Gram matrix H_ij = x_i.z_j (1/m) sum_r 1{u_r.x_i >= 0} 1{w_r.z_j >= 0}; w is u and z is x unless they are
    given.

    The matrix is exactly symmetric if neither w nor z is given; otherwise it is in general not symmetric.

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
    counts = _counts(x, u, w, z)  # `checked_network` refuses what is no array of real numbers
    return _inner_products(x, z) * (counts / len(u))


def jacobian_gram(
    x: Float[np.ndarray, "n d"], u: Float[np.ndarray, "m d"], w: Float[np.ndarray, "m d"] | None = None
) -> Float[np.ndarray, "n n"]:
    """J(u)^T J(w), where J (m d, n) is the Jacobian of the outputs at all samples by the hidden weights.

    The readout has signs +-1, and relu'(0) = 1.

    The squares of the signs are 1, so the product J(u)^T J(w) is `finite(x, u, w)`. The product is computed in m n^2
    operations, while J alone has m n d entries.

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
    """H(0) of the network that `initialisation.draw` gives for this seed; any width is possible, since the weights are
    never all in memory.

    The result equals `finite(x, draw(width, d, seed).hidden)` bit for bit, whatever the `block` and the `devices`. The
    computation takes memory O(n^2 + block). Only the rounding of H(0) depends on sigma.

    Args:
        x: samples, shape (n, d).
        width: m.
        seed: the seed of the network.
        sigma: standard deviation of the weights, default 1.
        block: chunks of 1024 neurons drawn at a time; default 16.
        devices: JAX devices of this host, CPUs or GPUs, that count active neurons in place of this process. The process
            still draws the weights and computes the signs that float64 leaves undecided. Default: none.

    Raises:
        ValueError: as `finite` and `draw`, or a device that is a TPU.
    """
    x = checked_inputs("x", x)
    require("the Gram matrix", lambda n: COUNTED * n * n, n=len(x))
    drawn = blocks(width, x.shape[1], seed, sigma, block)
    pieces = (weights.hidden[part] for weights in drawn for part in _blocks(len(x), len(weights.hidden)))
    if devices:
        from ntkfl.gram.device_counts import summed_on_devices  # imported here since it loads JAX, which takes a second

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
    """H(t,k)_ij = x_i.x_j (1/m) sum_{r in neurons_i} 1{u_r.x_i >= 0} 1{w_{c(j),r}.x_j >= 0}, where client c(j) owns
    sample j.

    Args:
        x: samples, shape (n, d).
        owner: the client of each sample, 0..N-1.
        u: the global hidden weights u(t).
        w: the hidden weights of each client after k local steps.
        neurons: for each sample i, the neurons r over which the sum runs; default all neurons. With ~safe_neurons(...)
            the result is H(t,k)^perp.

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
    """Consecutive slices of the neurons; the length of every slice but the last is a multiple of the bits of a word.

    The patterns of a slice on n samples take at most a megabyte, or one word for each sample if that is more.
    """
    step = 1 << (max(BITS, min(_PATTERNS // n, 2**20)).bit_length() - 1)
    return (slice(start, min(start + step, width)) for start in range(0, width, step))


def _same(x: np.ndarray, u: np.ndarray, packed: bool) -> tuple[Side, None]:
    return _side(x, u, packed), None


def _side(x: np.ndarray, u: np.ndarray, packed: bool) -> Side:
    return active_words(x, u) if packed else activations(x, u)


def _inner_products(x, z) -> np.ndarray:
    """The products x_i.z_j; rows are scaled first if their products may underflow or overflow.

    A product beyond float64 raises a ValueError.
    """
    x, alone = np.asarray(x, float), z is None
    z = x if alone else np.asarray(z, float)
    exponents = [row_exponents(rows) for rows in (x, z)]
    far = max(np.abs(e).max() for e in exponents) > FAR
    left = scaled_rows(x) if far else x
    right = left if alone else scaled_rows(z) if far else z
    products = mirrored(left @ right.T) if alone else left @ right.T
    return products_scaled_back(products, *exponents) if far else products
