"""The base of all exact regimes: outputs, residuals and predictions at any rounds, and their shapes."""

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from functools import cached_property
from itertools import chain
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np
from jaxtyping import Float
from numpy.typing import ArrayLike

from ntkfl.gram import infinite
from ntkfl.limit.linear_round import Blocks
from ntkfl.limit.round_modes import EXACT_INTEGERS, ClientModes
from ntkfl.problem import Problem, Setup, finite_array, number_array

STREAMED = 2**25  # entries of the kernel between new points and samples that are held at a time
Kernel = Callable[[np.ndarray, np.ndarray | None], np.ndarray]  # (p, d) and (n, d) -> (p, n); None: x again

RENAMED = {"state_map": "it is called round_map"}


@dataclass(frozen=True, eq=False)
class Regime(ABC):
    """Training that is linear in the weights: f(x, t) = f(x, 0) + h(x) . c_t, with coefficients c_t of the samples."""

    problem: Problem  # data; y (n,) or (n, C)
    setup: Setup  # the steps
    gram: Float[np.ndarray, "n n"]  # H, (n, n), symmetric and positive semi-definite
    # (x, z) -> (p, n), the kernel of H; None: H was given as a matrix, and kernel values at other points must be given
    # too
    kernel: Kernel | None = infinite
    # names that this regime lacks, each with the reason and the regime that has the name
    no_answer: ClassVar[dict[str, str]] = {}

    if TYPE_CHECKING:  # each class has `method` as a field, a property or an attribute

        @property
        def method(self) -> str:
            """The name of the method."""

    else:  # hidden from the type checker, which then refuses unknown names

        def __getattr__(self, name: str) -> Any:
            """Raise an AttributeError; for a name that only other regimes have, the error says why this regime lacks
            it."""
            if why := (self.no_answer | RENAMED).get(name):
                raise AttributeError(f"{type(self).__name__} has no {name}: {why}")
            return super().__getattribute__(name)  # raises Python's error, also where a property raised the error

    def __repr__(self) -> str:
        return f"<{type(self).__name__} of {self.method}: {self.problem!r}, {self.setup!r}>"

    @property
    @abstractmethod
    def step_warning(self) -> str | None:
        """The sentence that the steps pass the stability limit, with the limit; None if they do not."""

    @abstractmethod
    def _both(self, initial: Float[np.ndarray, "n C"], t: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """r(t) of these rounds, (T, n, C), for r(0) = `initial`, and c_t of the same shape: y(t) - y(0) = H c_t."""

    def _residuals(self, initial: Float[np.ndarray, "n C"], t: np.ndarray) -> Float[np.ndarray, "T n C"]:
        return self._both(initial, t)[0]

    def _coefficients(self, initial: Float[np.ndarray, "n C"], t: np.ndarray) -> Float[np.ndarray, "T n C"]:
        return self._both(initial, t)[1]

    def outputs(self, rounds: ArrayLike, initial_outputs: ArrayLike | None = None) -> np.ndarray:
        """y(t) at each of T rounds, (T, n) or (T, n, C); for one integer (n,) or (n, C).

        Args:
            rounds: numbers of rounds t >= 0, an integer or an array.
            initial_outputs: outputs y(0) before training, shape (n,) or (n, C); default 0.

        Raises:
            ValueError: rounds that are not integers from 0 to 2^53, initial outputs of the wrong shape.
            OverflowError: the outputs pass the largest float64, as only steps beyond the limit make them do.
        """
        t = checked_rounds(rounds)
        return self._shaped(self._labels - self._residual(t, initial_outputs), np.shape(rounds))

    def residual(self, rounds: ArrayLike, initial_outputs: ArrayLike | None = None) -> np.ndarray:
        """r(t) = y - y(t), in the shape of `outputs`, with the digits that y - outputs(t) loses as r(t) -> 0.

        These digits are kept if P is positive, as it is for steps below the clients' limit, or if H is not singular.
        Raises: as `outputs`.

        Args:
            rounds: numbers of rounds t >= 0, an integer or an array.
            initial_outputs: outputs y(0) before training, shape (n,) or (n, C); default 0.
        """
        return self._shaped(self._residual(checked_rounds(rounds), initial_outputs), np.shape(rounds))

    def predict(
        self,
        x: ArrayLike | None,
        rounds: ArrayLike,
        initial_outputs: ArrayLike | None = None,
        initial_prediction: ArrayLike | None = None,
        cross_gram: ArrayLike | None = None,
    ) -> np.ndarray:
        """f(x, t) = f(x, 0) + h(x)^T H^{-1} (y(t) - y(0)), (len(rounds), n'[, C]). Source: fl-ntk/X.8.

        H is not inverted: the coefficients H^{-1} (y(t) - y(0)) are the sum of the clients' steps, also for a singular
        H.

        Args:
            x: points, (n', d); a problem `per_output` has n' C predictions.
            rounds: as in `outputs`.
            initial_outputs: y(0), 0 unless given.
            initial_prediction: f(x, 0), (n'[, C]), 0 unless given.
            cross_gram: h, the kernel between x and the training points, (n', n). Default: by the regime's kernel;
                needed if H was given as a matrix (x is then not used and may be None).

        Raises:
            ValueError: as `outputs`; a cross_gram that is missing or of the wrong shape.
            OverflowError: as `outputs`.
        """
        t, initial = checked_rounds(rounds), self._initial_residual(initial_outputs)
        kernels = self._cross_grams(x, cross_gram)  # refuses wrong inputs before the rounds are computed
        change = self._predicted(self._coefficients(initial, t), kernels)
        start = self._columns("initial_prediction", initial_prediction, change.shape[1])
        return self._shaped(start + change, np.shape(rounds))

    def outputs_and_predictions(
        self,
        x: ArrayLike | None,
        rounds: ArrayLike,
        initial_outputs: ArrayLike | None = None,
        initial_prediction: ArrayLike | None = None,
        cross_gram: ArrayLike | None = None,
    ) -> tuple[np.ndarray, np.ndarray]:
        """`outputs` and `predict` at these rounds; where rounds run one by one, both come from one run.

        Args:
            x: points, (n', d), as in `predict`.
            rounds: as in `outputs`.
            initial_outputs: y(0), 0 unless given.
            initial_prediction: f(x, 0), (n'[, C]), 0 unless given.
            cross_gram: as in `predict`.

        Returns:
            The outputs, (T, n[, C]), and the predictions, (T, n'[, C]), of T rounds; for one integer without T.

        Raises:
            ValueError: as `predict`.
            OverflowError: as `outputs`.
        """
        t, initial = checked_rounds(rounds), self._initial_residual(initial_outputs)
        kernels = self._cross_grams(x, cross_gram)
        residual, moved = self._both(initial, t)
        change = self._predicted(moved, kernels)
        start = self._columns("initial_prediction", initial_prediction, change.shape[1])
        outputs = self._labels - self._from_start(residual, initial, t)
        return self._shaped(outputs, np.shape(rounds)), self._shaped(start + change, np.shape(rounds))

    def movement(self, rounds: ArrayLike, initial_outputs: ArrayLike | None = None) -> np.ndarray:
        """|U(t) - U(0)|_F, in the shape of `rounds`: sqrt(c_t^T H c_t), where H c_t = y(t) - y(0). Source: fl-ntk/X.8.

        Args:
            rounds: numbers of rounds t >= 0, an integer or an array.
            initial_outputs: outputs y(0) before training, shape (n,) or (n, C); default 0.
        """
        c = self._coefficients(self._initial_residual(initial_outputs), checked_rounds(rounds))
        squared = np.array([np.vdot(moved, self.gram @ moved) for moved in c])
        return np.sqrt(np.maximum(self._finite(squared), 0)).reshape(np.shape(rounds))

    def _predicted(self, c: Float[np.ndarray, "T n C"], kernels: Iterable[np.ndarray]) -> Float[np.ndarray, "T p C"]:
        """h . c_t for the points of these kernels, one kernel after the other."""
        rows = c.swapaxes(1, 2).reshape(-1, c.shape[1])  # copied once for all kernels
        values = np.concatenate([rows @ h.T for h in kernels], axis=1)
        return self._finite(values.reshape(len(c), c.shape[2], -1).swapaxes(1, 2))

    def _cross_grams(self, x: ArrayLike | None, cross_gram: ArrayLike | None) -> Iterator[Float[np.ndarray, "p n"]]:
        """h for few points at a time; the first block is computed at once, to refuse bad input early."""
        pieces = [x] if x is None or cross_gram is not None else self._pieces(finite_array("x", x))
        first = self._cross_gram(pieces[0], cross_gram)
        return chain([first], (self._cross_gram(piece, None) for piece in pieces[1:]))

    def _pieces(self, x: np.ndarray) -> list[np.ndarray]:
        """Blocks of the points, small enough for their kernel with the samples."""
        step = max(1, STREAMED // self.problem.n)
        return [x[s : s + step] for s in range(0, max(1, len(x)), step)] if x.ndim == 2 else [x]

    def _cross_gram(self, x: ArrayLike | None, cross_gram: ArrayLike | None) -> Float[np.ndarray, "p n"]:
        """h, the kernel between new points and the samples, computed unless given."""
        if cross_gram is None:
            if self.kernel is None or x is None:
                raise ValueError(
                    "cross_gram is missing: with x absent or a Gram matrix of your own, give the kernel's "
                    f"values between the new and the training points, shape (n', {self.problem.n})"
                )
            cross_gram = self.problem.of_outputs(self.kernel(finite_array("x", x), self.problem.samples))
        h = finite_array("cross_gram", cross_gram)
        if h.ndim != 2 or h.shape[1] != self.problem.n:
            raise ValueError(f"cross_gram has shape {h.shape}; it must be (n', {self.problem.n})")
        return h

    @property
    def _labels(self) -> Float[np.ndarray, "n C"]:
        return self.problem.y.reshape(self.problem.n, -1)

    @cached_property
    def _clients(self) -> ClientModes:
        return ClientModes.of(self.gram, self.problem.members)

    @cached_property
    def _eigen(self) -> tuple[np.ndarray, np.ndarray]:
        """Eigenvalues of H, ascending, and its eigenvectors."""
        values, vectors = np.linalg.eigh(self.gram)
        return values, vectors

    @property
    def _decomposed(self) -> dict[str, object]:
        """Cached decompositions that regimes of the same H share, whatever their steps and methods."""
        return {"_clients": self._clients} | {
            name: vars(self)[name]
            for name in ("_eigen", "_spaces", "_responses", "_block_errors", "_tops")
            if name in vars(self)
        }

    @property
    def blocks(self) -> Blocks:
        """The parts of a linear method's round at these steps."""
        return Blocks(self.gram, self._clients, self.setup.eta_local, self.setup.local_steps)

    def _local_limit(self, pull: float = 0.0) -> float:
        largest = float(self._clients.values.max()) + pull
        return 2 / largest if largest else np.inf

    def _first_round(
        self,
        eps: float,
        initial_outputs: ArrayLike | None,
        search: Callable[[np.ndarray, float], int],
        what: str = "every residual",
    ) -> int:
        """The round that `search` finds, given r(0) and eps |r(0)|; 0 if no round is needed.

        Raises:
            ValueError: eps not positive, a step beyond the stability limit; as `search`.
        """
        if not eps > 0:
            raise ValueError(f"eps is {eps!r}; it must be positive")
        initial = self._initial_residual(initial_outputs)
        norm = float(np.linalg.norm(initial))
        if eps >= 1 or norm == 0:
            return 0
        if self.step_warning:
            raise ValueError(f"no number of rounds brings {what} to {eps:g} of its start: {self.step_warning}")
        return search(initial, eps * norm)

    def _residual(self, t: np.ndarray, initial_outputs: ArrayLike | None) -> Float[np.ndarray, "T n C"]:
        initial = self._initial_residual(initial_outputs)
        return self._from_start(self._residuals(initial, t), initial, t)

    def _from_start(self, residual: np.ndarray, initial: np.ndarray, t: np.ndarray) -> Float[np.ndarray, "T n C"]:
        residual = self._finite(residual)
        residual[t == 0] = initial  # an eigenbasis returns `initial` only up to rounding
        return residual

    def _initial_residual(self, initial_outputs: ArrayLike | None) -> Float[np.ndarray, "n C"]:
        return self._labels - self._columns("initial_outputs", initial_outputs, self.problem.n)

    def _columns(self, name: str, array: ArrayLike | None, rows: int) -> np.ndarray:
        """An optional start as (rows, C); zeros if it is None."""
        shape = (rows, *self.problem.y.shape[1:])
        values = np.zeros(shape) if array is None else finite_array(name, array)
        if values.shape != shape:
            raise ValueError(f"{name} has shape {values.shape}; it must be {shape}")
        return values.reshape(rows, -1)

    def _shaped(self, values: np.ndarray, leading: tuple[int, ...]) -> np.ndarray:
        """(..., n', C) with the given leading axes; without the last axis if y has none."""
        return values.reshape(*leading, values.shape[-2], *self.problem.y.shape[1:])

    def _finite(self, values: np.ndarray) -> np.ndarray:
        if not np.isfinite(values).all():
            raise OverflowError(f"the run overflows float64: {self.step_warning or 'the inputs are too large'}")
        return values


def checked_rounds(rounds: ArrayLike) -> np.ndarray:
    """Rounds as a vector of float64 integers."""
    t = number_array("rounds", rounds)
    if t.ndim > 1 or not (np.issubdtype(t.dtype, np.integer) or t.size == 0):
        raise ValueError(f"rounds has dtype {t.dtype} and shape {t.shape}; it must be an integer or a list of integers")
    if t.size and not 0 <= t.min() <= t.max() <= EXACT_INTEGERS:
        raise ValueError(f"rounds contains {t.min() if t.min() < 0 else t.max()}; rounds run from 0 to 2^53")
    return np.atleast_1d(t).astype(np.int64)
