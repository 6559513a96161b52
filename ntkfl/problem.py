"""`Problem` has the data of a training run, and `Setup` its sizes and steps; both are validated once, here."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import NamedTuple

import numpy as np
from jaxtyping import Float, Int

from ntkfl.messages import refusing, require_number, require_seed, require_size

UNIT_TOLERANCE = 1e-12  # a row counts as a unit row (for the predicate `unit`) if |norm - 1| is below this
# squares of numbers between these sizes, and products of two such squares, stay well within float64
SMALL, LARGE = 1e-100, 1e100


class Weights(NamedTuple):
    """A two-layer network f(x) = signs . relu(hidden x) / sqrt(width): hidden (width, d), signs (width,) of +-1."""

    hidden: Float[np.ndarray, "m d"]
    signs: Float[np.ndarray, " m"]

    def outputs(self, x: Float[np.ndarray, "n d"]) -> Float[np.ndarray, " n"]:
        """f(x_i) of each row, (n,), in float64 without an error bound.

        Args:
            x: inputs, shape (n, d).
        """
        x, hidden, signs = finite_array("x", x), finite_array("hidden", self.hidden), finite_array("signs", self.signs)
        return np.maximum(x @ hidden.T, 0) @ signs / np.sqrt(len(signs))


@refusing({"clients": "n_clients is their number N, and members has the samples of each"})
@dataclass(frozen=True, eq=False)
class Problem:
    """Data split over clients.

    Args:
        x: inputs, one row each, shape (n, d), finite. A kernel of a network without biases refuses a row of zeros, and
            a statement that needs unit rows refuses rows of another norm.
        y: labels, shape (n,), or (n, C) for several outputs (kernel regime only).
        owner: client of each sample, shape (n,), the integers 0..N-1, every one of them used. Default: one client.
        x_test: inputs of test samples, shape (n', d); default none.
        y_test: labels of test samples, shape (n',) or (n', C); default none.
        name: name of the data in reports.
        outputs: number of consecutive rows with the same sample, one row for each output, as made by `per_output`;
            default 1.

    Raises:
        ValueError: the message says what is wrong, the value found and what would be right.
    """

    x: Float[np.ndarray, "n d"]
    y: np.ndarray
    owner: Int[np.ndarray, " n"] = None  # type: ignore[assignment]
    x_test: np.ndarray | None = None
    y_test: np.ndarray | None = None
    name: str = "data"
    outputs: int = 1

    def __post_init__(self) -> None:
        x, y = checked_rows("x", self.x), finite_array("y", self.y)
        owner = np.zeros(len(x), int) if self.owner is None else checked_owner(self.owner, len(x))
        if y.ndim not in (1, 2) or len(y) != len(x):
            raise ValueError(f"y has shape {y.shape}; it must be ({len(x)},) or ({len(x)}, C), one label per row of x")
        used = np.unique(owner)
        empty = np.flatnonzero(used != np.arange(len(used)))
        if len(empty):
            raise ValueError(f"client {empty[0]} owns no sample; every client 0..{owner.max()} must own at least one")
        require_size("outputs", self.outputs)
        if len(x) % self.outputs or (self.outputs > 1 and (x != np.repeat(x[:: self.outputs], self.outputs, 0)).any()):
            raise ValueError(f"outputs is {self.outputs}; x must have each row this many times, one after the other")
        fields = {"x": x, "y": y, "owner": owner}
        if (self.x_test is None) != (self.y_test is None):
            raise ValueError("x_test and y_test come together: one of them is missing")
        if self.x_test is not None:
            x_test, y_test = checked_rows("x_test", self.x_test), finite_array("y_test", self.y_test)
            if x_test.shape[1] != x.shape[1]:
                raise ValueError(f"x_test has {x_test.shape[1]} features, x has {x.shape[1]}: they must agree")
            if y_test.shape != (len(x_test), *y.shape[1:]):
                raise ValueError(f"y_test has shape {y_test.shape}; it must be {(len(x_test), *y.shape[1:])}")
            fields |= {"x_test": x_test, "y_test": y_test}
        for name, array in fields.items():
            array = np.array(array)
            array.flags.writeable = False
            object.__setattr__(self, name, array)

    def __repr__(self) -> str:
        tests = "" if self.x_test is None else f", x_test {self.x_test.shape}"
        outputs = f", y {self.y.shape}" if self.y.ndim == 2 else ""
        return f"<Problem {self.name}: x {self.x.shape}{outputs}, N = {self.n_clients}{tests}>"

    @property
    def n(self) -> int:
        """Number of training samples."""
        return len(self.x)

    @property
    def d(self) -> int:
        """Number of input features."""
        return self.x.shape[1]

    @property
    def n_clients(self) -> int:
        """Number N of clients."""
        return int(self.owner.max()) + 1

    @property
    def members(self) -> tuple[np.ndarray, ...]:
        """The index sets S_0..S_{N-1} of the clients' samples, one array of shape (n_c,) for each client."""
        return tuple(np.flatnonzero(self.owner == c) for c in range(self.n_clients))

    def mean_loss_rate(self, eta_local: float) -> float:
        """The `rate` with which training on mean losses takes the same full-batch steps as `eta_local` takes on sums.

        The rate is n_c eta_local. All clients must have the same number n_c of samples. The gradient of a mean of
        squares is 1/n_c times the gradient of the sum (docs/glossary.md#steps).

        Args:
            eta_local: a step on sums, as in `Setup`.

        Raises:
            ValueError: clients of several sizes, for which no single rate on means is right.

        Example:
            >>> import ntkfl
            >>> ntkfl.data.sphere(n=8, clients=2).mean_loss_rate(0.25)
            1.0
        """
        sizes = np.bincount(self.owner) // self.outputs
        if sizes.min() < sizes.max():
            raise ValueError(
                f"clients have from {sizes.min()} to {sizes.max()} samples, and no rate on mean losses takes the "
                "steps of eta_local with each: train with reduction='sum', whose rate is eta_local"
            )
        return float(sizes[0]) * eta_local

    def unit(self) -> Problem:
        """The same problem with every row of x (and x_test) divided by its norm.

        Raises:
            ValueError: a row of zeros.
        """
        self.require_no_zero_row()
        x_test = None if self.x_test is None else _normalised(self.x_test)
        return replace(self, x=_normalised(self.x), x_test=x_test)

    def standardised(self) -> Problem:
        """The same problem, with x mapped so that every column has mean 0 and standard deviation 1.

        x_test is mapped in the same way. A column without any spread is 0 everywhere.
        """
        mean, spread = self.x.mean(axis=0), self.x.std(axis=0)
        spread = np.where(np.ptp(self.x, axis=0) > 0, spread, np.inf)
        x_test = None if self.x_test is None else (self.x_test - mean) / spread
        return replace(self, x=(self.x - mean) / spread, x_test=x_test)

    def one_axis(self) -> Problem:
        """The same problem, with labels of shape (n,) if they had the shape (n, 1)."""
        if self.y.shape[1:] != (1,):
            return self
        return replace(self, y=self.y[:, 0], y_test=None if self.y_test is None else self.y_test[:, 0])

    def per_output(self) -> Problem:
        """The same problem with one row for each output of each sample, sample by sample, as in a kernel (n C, n C)."""
        outputs = self.y[0].size
        x_test = None if self.x_test is None else np.repeat(self.x_test, outputs, axis=0)
        y_test = None if self.y_test is None else self.y_test.ravel()
        x, owner = (np.repeat(values, outputs, axis=0) for values in (self.x, self.owner))
        together = self.outputs * outputs
        return replace(self, x=x, y=self.y.ravel(), owner=owner, x_test=x_test, y_test=y_test, outputs=together)

    @property
    def samples(self) -> Float[np.ndarray, "n d"]:
        """The rows of x with each sample once, also if `per_output` repeats them."""
        return self.x[:: self.outputs]

    def of_outputs(self, kernel: Float[np.ndarray, "p n"]) -> Float[np.ndarray, "pC nC"]:
        """The kernel of all rows, from the kernel of `samples`.

        The kernel of all rows is the same for each output, and 0 between two different outputs.

        Args:
            kernel: the kernel of one output, (p, n); or the kernel of all outputs, (p C, n C), sample by sample, which
                is returned unchanged.
        """
        kernel = finite_array("kernel", kernel)
        of_one = self.outputs > 1 and kernel.ndim == 2 and kernel.shape[1] * self.outputs == self.n
        return np.kron(kernel, np.eye(self.outputs)) if of_one else kernel

    @property
    def unit_deviation(self) -> float:
        """The largest | |x_i| - 1 | over the rows."""
        return float(np.abs(np.linalg.norm(self.x, axis=1) - 1).max())

    def require_no_zero_row(self) -> None:
        """Raise a ValueError that names the first row of zeros in x or x_test, if there is one."""
        checked_inputs("x", self.x)
        if self.x_test is not None:
            checked_inputs("x_test", self.x_test)

    def require_unit(self) -> None:
        """Raise unless all rows have unit norm to 1e-12; the message has the largest deviation and the remedy.

        Raises:
            ValueError: a row of another norm.
        """
        if self.unit_deviation > UNIT_TOLERANCE:
            raise ValueError(
                f"the rows of x must have unit norm; they are off by up to {self.unit_deviation:.3g}. "
                "Problem.unit() (on the command line: --unit) divides each row by its norm"
            )


@refusing(
    {
        "rate": "a step on sums of losses is eta_local; Problem.mean_loss_rate converts it (docs/glossary.md#steps)",
        "server_rate": "the server's step is eta_global here, and server_rate among the options of a method",
    }
)
@dataclass(frozen=True)
class Setup:
    """The sizes, steps and seed of one run of Algorithm 1 of FL-NTK ("the paper").

    Args:
        width: number m of hidden neurons.
        sigma: standard deviation of the initial hidden weights.
        eta_local: step size of the clients, on the SUM of losses over a client's samples, as in the paper. Training on
            mean losses has another step, `rate` (docs/glossary.md#steps).
        eta_global: step size of the server. For Algorithm 1 it multiplies the unweighted mean over clients, as in the
            paper; for other methods it is the server_rate on the method's own mean.
        local_steps: K.
        rounds: T.
        seed: the seed of the initial weights.

    Raises:
        ValueError: a size that is not a positive integer, or a step or sigma that is not positive and finite.
    """

    width: int = 4096
    sigma: float = 1.0
    eta_local: float = 0.3
    eta_global: float = 1.0
    local_steps: int = 2
    rounds: int = 100
    seed: int = 0

    def __post_init__(self) -> None:
        for name in ("width", "local_steps", "rounds"):
            require_size(name, getattr(self, name))
        for name in ("sigma", "eta_local", "eta_global"):
            require_number(name, getattr(self, name), "be a positive finite number")
        require_seed(self.seed)


def require_kind(name: str, value: object, kind: type, like: str) -> None:
    """Raise a ValueError unless the value is of class `kind`; `like` is an example for the message."""
    if not isinstance(value, kind):
        shape = getattr(value, "shape", None)
        given = type(value).__name__ + ("" if shape is None else f", with shape {tuple(shape)}")
        raise ValueError(f"{name} is of type {given}; it must be of type {kind.__name__}, such as {like}")


def require_problem(problem: Problem) -> None:
    """Raise a ValueError unless the value is a `Problem`."""
    require_kind("problem", problem, Problem, "ntkfl.Problem(x, y)")


def require_setup(setup: Setup) -> None:
    """Raise a ValueError unless the value is a `Setup`."""
    require_kind("setup", setup, Setup, "ntkfl.Setup(eta_local=0.1)")


def number_array(name: str, array, wanted: str = "every entry must be a real number") -> np.ndarray:
    """An array of real numbers in numpy's own dtype; a ValueError if a mask or an imaginary part would be lost."""
    if isinstance(array, np.ma.MaskedArray) and np.ma.is_masked(array):
        raise ValueError(f"{name} has {np.ma.count_masked(array)} masked entries; fill or remove them")
    if hasattr(array, "toarray") and not isinstance(array, np.ndarray):
        raise ValueError(f"{name} is sparse ({type(array).__name__}); give {name}.toarray()")
    # a torch tensor is converted first, since numpy knows no bfloat16, and refuses tensors that require gradients
    if hasattr(array, "detach"):
        if array.is_meta or array.is_quantized or str(array.layout) != "torch.strided":
            raise ValueError(f"{name} is a tensor without plain numbers (meta, quantised or sparse); give a dense one")
        array = array.detach().cpu()
        array = array.double() if array.is_floating_point() else array
    try:
        numbers = np.asarray(array)
    except ValueError as error:  # rows of different lengths
        raise ValueError(f"{name} is no array of real numbers: {error}") from error
    kind = numbers.dtype.kind
    if kind == "c":
        raise ValueError(f"{name} is complex; {wanted}")
    table = hasattr(array, "iloc")  # whether it is a table of pandas
    if kind == "f" and (table or isinstance(array, list | tuple)) and (np.abs(numbers) >= 2.0**53).any():
        numbers = np.asarray(array.astype(object) if table else array, object)  # integers may be mixed with floats
        kind = "O"
    if kind == "O":
        return _of_objects(name, numbers, wanted)
    if kind not in "fiub" and not (kind == "V" and str(numbers.dtype) == "bfloat16"):  # JAX's bfloat16
        raise ValueError(f"{name} has dtype {numbers.dtype}; {wanted}")
    return numbers


def _of_objects(name: str, objects: np.ndarray, wanted: str) -> np.ndarray:
    """Python's numbers as an array of one type.

    A ValueError names the first entry that is no number, such as a word.
    """
    for where, entry in np.ndenumerate(objects):
        try:
            if isinstance(entry, str | bytes | complex | np.datetime64 | np.timedelta64):
                raise TypeError
            float(entry)
        except (TypeError, ValueError):
            at = list(where) or ""
            raise ValueError(f"{name}{at} is {entry!r:.40}; {wanted}") from None
        except OverflowError:
            raise ValueError(_inexact(name, where, entry)) from None
        if isinstance(entry, int | np.integer) and float(entry) != int(entry):
            raise ValueError(_inexact(name, where, entry))
    return objects.astype(bool if objects.size and all(isinstance(e, bool | np.bool_) for e in objects.flat) else float)


def _inexact(name: str, where: tuple[int, ...], entry: int | np.integer) -> str:
    size = int(entry).bit_length()
    return (
        f"{name}{list(where) or ''} is an integer of {size} bits that no float64 equals; every entry must be exact in "
        "float64, as all up to 2^53 are: subtract a constant, or round to floats yourself"
    )


def real_array(name: str, array) -> np.ndarray:
    """The array as float64; a ValueError for an entry that is no number, or that float64 would change."""
    numbers = number_array(name, array)
    real = numbers.astype(float, copy=False)
    if numbers.dtype.kind in "iu" and numbers.size and max(-int(numbers.min()), int(numbers.max())) > 2**53:
        for where in map(tuple, np.argwhere(np.abs(real) >= 2.0**53)):
            if int(numbers[where]) != float(real[where]):
                raise ValueError(_inexact(name, tuple(map(int, where)), int(numbers[where])))
    return real


def finite_array(name: str, array) -> np.ndarray:
    """The array as float64; a ValueError names the first entry that is complex, infinite or NaN."""
    array = real_array(name, array)
    if not np.isfinite(array).all():
        where = tuple(int(i) for i in np.argwhere(~np.isfinite(array))[0])
        raise ValueError(f"{name}{list(where) or ''} is {array[where]}; every entry must be finite")
    return array


def checked_owner(owner, n: int) -> np.ndarray:
    """The client of each of n samples, as integers of at least 0; a ValueError if they are no such integers."""
    wanted = "it must hold the integers 0..N-1"
    owners = number_array("owner", owner, wanted)
    if owners.shape != (n,):
        raise ValueError(f"owner has shape {owners.shape}; it must name one client per sample, shape ({n},)")
    if owners.dtype.kind == "b":
        raise ValueError(f"owner has dtype {owners.dtype}; {wanted}")
    split = np.flatnonzero(~np.isfinite(owners) | (np.trunc(owners) != owners))
    if len(split):
        raise ValueError(f"owner[{split[0]}] is {owners[split[0]]}; {wanted}")
    if owners.min() < 0:
        raise ValueError(f"owner contains {owners.min()}; clients are numbered from 0")
    return owners.astype(int)


def checked_rows(name: str, array) -> np.ndarray:
    """The array as float64 (n, d); a ValueError unless it is finite and has n and d at least 1."""
    array = finite_array(name, array)
    if array.ndim != 2 or 0 in array.shape:
        raise ValueError(f"{name} has shape {array.shape}; it must be (n, d) with n and d at least 1")
    return array


def require_labels(problem: Problem) -> None:
    """Raise a ValueError if every label is 0.

    The outputs before training are 0 too, so that there is nothing to learn.
    """
    if not problem.y.any():
        raise ValueError("the labels are all 0, as the outputs are before training: there is nothing to learn")


def require_magnitudes(problem: Problem, rows: bool = True) -> None:
    """Refuse labels whose squares vanish or overflow, unless all labels are 0.

    If `rows` is true, rows of x are refused in the same way.
    """
    sizes = {"the largest label": np.abs(problem.y).max(keepdims=True)}
    if rows:
        sizes["the largest entry of a row of x"] = np.maximum(problem.x.max(axis=1), -problem.x.min(axis=1))
    for name, size in sizes.items():
        wrong = size[(size > 0) & ((size < SMALL) | (size > LARGE))]
        if len(wrong):
            raise ValueError(
                f"{name} is {wrong[0]:.3g} in size; its square must neither vanish nor overflow: rescale to within "
                f"{SMALL:.0e} and {LARGE:.0e}"
            )


def require_features(problem: Problem, features: int, network: str = "the network") -> None:
    """Raise a ValueError unless the network takes as many features as the problem has."""
    if features != problem.d:
        raise ValueError(f"{network} takes {features} features; {problem.name} has {problem.d}")


def checked_inputs(name: str, array) -> np.ndarray:
    """As `checked_rows`; in addition a ValueError for a row of zeros, which has no direction."""
    array = checked_rows(name, array)
    zero = np.flatnonzero(~array.any(axis=1))
    if len(zero):
        raise ValueError(
            f"row {zero[0]} of {name} is zero: it has no direction, and there a network without biases is 0 whatever "
            "its weights; remove it"
        )
    return array


def _normalised(x: np.ndarray) -> np.ndarray:
    x = x / np.abs(x).max(axis=1, keepdims=True)  # this avoids overflow and underflow in the squares
    return x / np.linalg.norm(x, axis=1, keepdims=True)
