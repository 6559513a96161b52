"""Federated training at infinite width: outputs, predictions and movement at any round from one eigendecomposition.

`Regime` is the base class of all exact regimes. A regime gives outputs, residuals and predictions at any rounds.
"""

from __future__ import annotations

import warnings
from abc import ABC, abstractmethod
from bisect import bisect_left
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import chain
from typing import TYPE_CHECKING, Any, ClassVar, NamedTuple

import numpy as np
from jaxtyping import Float
from numpy.typing import ArrayLike

from ntkfl import interruption
from ntkfl.double_precision import in_float64
from ntkfl.gram import infinite
from ntkfl.limit.linear_round import Blocks
from ntkfl.limit.radius import EPSILON
from ntkfl.limit.round_modes import EXACT_INTEGERS, ClientModes, RoundModes, decay, geometric_sum
from ntkfl.memory import require
from ntkfl.problem import Problem, Setup, finite_array, number_array, require_magnitudes
from ntkfl.trajectory import Trajectory, provenance

STREAMED = 2**25  # the largest number of kernel values between new points and samples that are held at a time
# maps points (p, d) and (n, d) to kernel values (p, n); if the second argument is None, the first points stand in its
# place
Kernel = Callable[[np.ndarray, np.ndarray | None], np.ndarray]

RENAMED = {"state_map": "it is called round_map"}


@dataclass(frozen=True, eq=False)
class Regime(ABC):
    """Training that is linear in the weights: f(x, t) = f(x, 0) + h(x) . c_t.

    Here h(x) has the kernel values between x and the samples, and c_t has one coefficient for each sample.
    """

    problem: Problem  # the data; y has the shape (n,) or (n, C)
    setup: Setup  # the steps
    gram: Float[np.ndarray, "n n"]  # H, (n, n), symmetric and positive semi-definite
    # The kernel of H, which maps (x, z) to (p, n). None means that H was given as a matrix; kernel values at other
    # points must then be given too.
    kernel: Kernel | None = infinite
    # names that this regime lacks, each with a reason and with the name or call to use instead
    no_answer: ClassVar[dict[str, str]] = {}

    if TYPE_CHECKING:  # each class has `method` as a field, as a property or as a class attribute

        @property
        def method(self) -> str:
            """The name of the method."""

    else:  # hidden from the type checker, which therefore refuses unknown names

        def __getattr__(self, name: str) -> Any:
            """Raise an AttributeError.

            If only other regimes have the name, the error says why this regime lacks it.
            """
            if why := (self.no_answer | RENAMED).get(name):
                raise AttributeError(f"{type(self).__name__} has no {name}: {why}")
            # raises Python's own AttributeError, or once more the AttributeError that a property has raised
            return super().__getattribute__(name)

    def __repr__(self) -> str:
        return f"<{type(self).__name__} of {self.method}: {self.problem!r}, {self.setup!r}>"

    @property
    @abstractmethod
    def step_warning(self) -> str | None:
        """A warning that the steps pass the stability limit, with the limit; None if the steps do not pass it."""

    @abstractmethod
    def _both(self, initial: Float[np.ndarray, "n C"], t: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """r(t), (T, n, C), for r(0) = `initial`, and the coefficients c_t with y(t) - y(0) = H c_t, of the same
        shape.
        """

    def _residuals(self, initial: Float[np.ndarray, "n C"], t: np.ndarray) -> Float[np.ndarray, "T n C"]:
        return self._both(initial, t)[0]

    def _coefficients(self, initial: Float[np.ndarray, "n C"], t: np.ndarray) -> Float[np.ndarray, "T n C"]:
        return self._both(initial, t)[1]

    def outputs(self, rounds: ArrayLike, initial_outputs: ArrayLike | None = None) -> np.ndarray:
        """y(t) at each of T rounds, (T, n) or (T, n, C); for a single integer (n,) or (n, C).

        Args:
            rounds: numbers of rounds t >= 0, an integer or an array.
            initial_outputs: outputs y(0) before training, shape (n,) or (n, C); default 0.

        Raises:
            ValueError: rounds that are not integers from 0 to 2^53, initial outputs of the wrong shape.
            OverflowError: the outputs pass the largest float64, which happens only with steps beyond the limit.
        """
        t = checked_rounds(rounds)
        return self._shaped(self._labels - self._residual(t, initial_outputs), np.shape(rounds))

    def residual(self, rounds: ArrayLike, initial_outputs: ArrayLike | None = None) -> np.ndarray:
        """r(t) = y - y(t), in the shape of `outputs`.

        As r(t) -> 0, the difference y - outputs(t) loses digits. This method keeps these digits if H is not singular,
        or if P is positive. P maps the residual to the clients' displacements; P is positive for steps below the
        clients' limit.

        Args:
            rounds: numbers of rounds t >= 0, an integer or an array.
            initial_outputs: outputs y(0) before training, shape (n,) or (n, C); default 0.

        Raises: as `outputs`.
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
        """Predictions f(x, t) = f(x, 0) + h(x)^T H^{-1} (y(t) - y(0)), (len(rounds), n'[, C]).

        H is not inverted. The coefficients H^{-1} (y(t) - y(0)) are the sum of the clients' steps, and this sum exists
        for a singular H too.

        Source: fl-ntk/X.8.

        Args:
            x: points, (n', d); for a problem made by `per_output` there are n' C predictions.
            rounds: as in `outputs`.
            initial_outputs: y(0), 0 unless given.
            initial_prediction: f(x, 0), (n'[, C]), 0 unless given.
            cross_gram: h, the kernel between x and the training points, (n', n). By default the regime's kernel
                computes h. If H was given as a matrix, h must be given; x is then not used and may be None.

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
        """`outputs` and `predict` at these rounds; if rounds are computed one by one, both come from one run.

        Args:
            x: points, (n', d), as in `predict`.
            rounds: as in `outputs`.
            initial_outputs: y(0), 0 unless given.
            initial_prediction: f(x, 0), (n'[, C]), 0 unless given.
            cross_gram: as in `predict`.

        Returns:
            The outputs, (T, n[, C]), and the predictions, (T, n'[, C]), of T rounds; for a single integer the axis T is
            left out.

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
        """|U(t) - U(0)|_F, in the shape of `rounds`, computed as sqrt(c_t^T H c_t) where H c_t = y(t) - y(0).

        Source: fl-ntk/X.8.

        Args:
            rounds: numbers of rounds t >= 0, an integer or an array.
            initial_outputs: outputs y(0) before training, shape (n,) or (n, C); default 0.
        """
        c = self._coefficients(self._initial_residual(initial_outputs), checked_rounds(rounds))
        squared = np.array([np.vdot(moved, self.gram @ moved) for moved in c])
        return np.sqrt(np.maximum(self._finite(squared), 0)).reshape(np.shape(rounds))

    def _predicted(self, c: Float[np.ndarray, "T n C"], kernels: Iterable[np.ndarray]) -> Float[np.ndarray, "T p C"]:
        """h . c_t for the points of these kernel matrices; the matrices are used one after the other."""
        rows = c.swapaxes(1, 2).reshape(-1, c.shape[1])  # one copy serves all kernels
        values = np.concatenate([rows @ h.T for h in kernels], axis=1)
        return self._finite(values.reshape(len(c), c.shape[2], -1).swapaxes(1, 2))

    def _cross_grams(self, x: ArrayLike | None, cross_gram: ArrayLike | None) -> Iterator[Float[np.ndarray, "p n"]]:
        """Yields h for few points at a time; the first block is computed at once, so that bad input is refused
        early.
        """
        pieces = [x] if x is None or cross_gram is not None else self._pieces(finite_array("x", x))
        first = self._cross_gram(pieces[0], cross_gram)
        return chain([first], (self._cross_gram(piece, None) for piece in pieces[1:]))

    def _pieces(self, x: np.ndarray) -> list[np.ndarray]:
        """The points, divided into blocks so small that the kernel values of one block with the samples can be held."""
        step = max(1, STREAMED // self.problem.n)
        return [x[s : s + step] for s in range(0, max(1, len(x)), step)] if x.ndim == 2 else [x]

    def _cross_gram(self, x: ArrayLike | None, cross_gram: ArrayLike | None) -> Float[np.ndarray, "p n"]:
        """h, the kernel values between new points and the samples, which are computed if they are not given."""
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
        """Eigenvalues of H, ascending, and the eigenvectors of H."""
        values, vectors = np.linalg.eigh(self.gram)
        return values, vectors

    @property
    def _decomposed(self) -> dict[str, object]:
        """Cached decompositions that regimes of the same H share, whatever the steps and methods."""
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
        """The round that `search` returns for r(0) and the target eps |r(0)|; 0 if no round is needed.

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
        residual[t == 0] = initial  # computed in an eigenbasis, r(0) equals `initial` only up to rounding
        return residual

    def _initial_residual(self, initial_outputs: ArrayLike | None) -> Float[np.ndarray, "n C"]:
        return self._labels - self._columns("initial_outputs", initial_outputs, self.problem.n)

    def _columns(self, name: str, array: ArrayLike | None, rows: int) -> np.ndarray:
        """An optional array as (rows, C); zeros if it is None."""
        shape = (rows, *self.problem.y.shape[1:])
        values = np.zeros(shape) if array is None else finite_array(name, array)
        if values.shape != shape:
            raise ValueError(f"{name} has shape {values.shape}; it must be {shape}")
        return values.reshape(rows, -1)

    def _shaped(self, values: np.ndarray, leading: tuple[int, ...]) -> np.ndarray:
        """The values as (..., n', C) with the given leading axes; the last axis is left out if y has none."""
        return values.reshape(*leading, values.shape[-2], *self.problem.y.shape[1:])

    def _finite(self, values: np.ndarray) -> np.ndarray:
        if not np.isfinite(values).all():
            raise OverflowError(f"the run overflows float64: {self.step_warning or 'the inputs are too large'}")
        return values


def checked_rounds(rounds: ArrayLike) -> np.ndarray:
    """Checks numbers of rounds and returns them as a vector of integers."""
    t = number_array("rounds", rounds)
    if t.ndim > 1 or not (np.issubdtype(t.dtype, np.integer) or t.size == 0):
        raise ValueError(f"rounds has dtype {t.dtype} and shape {t.shape}; it must be an integer or a list of integers")
    if t.size and not 0 <= t.min() <= t.max() <= EXACT_INTEGERS:
        raise ValueError(f"rounds contains {t.min() if t.min() < 0 else t.max()}; rounds run from 0 to 2^53")
    return np.atleast_1d(t).astype(np.int64)


_CHUNK = 64  # number of rounds that are evaluated by one matrix product


def first_round_within(modes: RoundModes, initial: Float[np.ndarray, "n C"], target: float) -> int:
    """The first t with |r(t)|_F <= target, up to the rounding of this comparison.

    In the notation of `RoundModes`, r(t+s) - r(t) = -outward (energy g_s d^t w), and the norm of this difference is at
    most gain |energy g_s d^t w|. This bound grows with s. Rounds are skipped if this bound shows that the residual is
    above the target in them; all others are evaluated. Every mode must have 0 <= rho nu < 2.

    Raises:
        ValueError: the norm never falls that far, or not within 2^53 rounds.
    """
    x, w, (least, gain) = modes.rho * modes.nu, modes.drive @ initial, modes.gain
    size, pace = np.linalg.norm(w, axis=1), np.minimum(x, 2 - x)
    start = None if modes.start is None else np.linalg.norm(modes.start @ initial, axis=1)

    def still_above(t: int) -> bool:  # if the modes span the residual, |r(t)| is at least gain_min |d^t z|
        return start is not None and least * float(np.linalg.norm(decay(pace, t) * start)) > target * (1 + 1e-6)

    t = _last_true(still_above)
    while t < EXACT_INTEGERS:
        interruption.check()
        norms = np.linalg.norm(modes.residual(initial, t + np.arange(_CHUNK)), axis=(1, 2))
        hits = np.flatnonzero(norms <= target)
        if len(hits):
            return t + int(hits[0])
        left, slack = gain * np.abs(decay(x, t + _CHUNK - 1)) * size, float(norms[-1] - target) * (1 - 1e-6)

        def out_of_reach(s: int, left=left, slack=slack) -> bool:
            sums = np.where(x <= 1, geometric_sum(modes.nu, modes.rho, s), modes.rho)  # g_s <= (1 + |d|) / nu if d < 0
            return float(np.linalg.norm(modes.energy * sums * left)) < slack

        t += _CHUNK + _last_true(out_of_reach)
    raise ValueError(
        f"the residual norm does not fall to {target:.6g} in any number of rounds below 2^53: "
        f"{np.linalg.norm(_rest(modes, initial)):.6g} of it lies where the round changes nothing (where the "
        "Gram matrix is zero, or where an even number of local steps ends as it began) and stays for ever"
    )


def _rest(modes: RoundModes, initial: np.ndarray) -> np.ndarray:
    """The part of the residual that no round changes."""
    moving = modes.nu != 0
    if modes.start is not None:
        return modes.outward[:, ~moving] @ (modes.start[~moving] @ initial)
    return initial - modes.outward[:, moving] @ (modes.drive[moving] @ initial / modes.nu[moving, None])


def _last_true(holds: Callable[[int], bool]) -> int:
    """The largest s <= 2^53 for which a predicate holds; 0 if it does not hold for 1.

    The predicate must be monotone: once it is false, it stays false.
    """
    high = 1
    while high < EXACT_INTEGERS and holds(high):
        interruption.check()
        high *= 2
    return bisect_left(range(1, high + 1), True, key=lambda s: not holds(s))


class StepLimits(NamedTuple):
    """The steps below which the dynamics are stable.

    N is the number of clients and K the number of local steps. nu are the eigenvalues of H P, where P is as in
    `KernelRegime`, and nu_max is the largest nu.

    Args:
        eta_global: 2N / nu_max at this eta_local and K; 0 if some nu <= 0, since then no server step contracts every
            residual.
        eta_local: 2 / max_c |H_cc|; if eta_local is below this number, every eta_global <= 1 is stable, whatever N, K
            and the partition.
    """

    eta_global: float
    eta_local: float


@dataclass(frozen=True, eq=False, repr=False)
class KernelRegime(Regime):
    """Federated training at infinite width; made by `kernel_regime`, which checks its arguments.

    The residual r(t) = y - y(t) follows r(t+1) = M r(t) with M = I - (eta_g/N) H P, P = blockdiag_c f_K(H_cc) and
    f_K(q) = eta_l sum_{k<K} (1 - eta_l q)^k. Unless `initial_outputs` are given, y(0) is 0, the mean of a wide
    network's outputs.

    Everything is computed in float64. Until a mode has decayed, each round adds a rounding error of about n eps, both
    by the eigendecomposition and by the recursion. At and near eta_local q = 2 with an even K this error is larger,
    since f_K(q) is rounding noise there.

    Source: fl-ntk/X.1 to X.4, X.8.
    """

    method = "fl-ntk"

    def at(self, setup: Setup) -> KernelRegime:
        """The regime of the same data and Gram matrix with other steps, for sweeps over steps.

        The two regimes always share the decomposition of the clients' blocks. They share the decomposition of the round
        if eta_local and local_steps are the same. There is no warning of steps beyond the limit; see `stable` or
        `step_warning`.

        Args:
            setup: the steps.
        """
        other = replace(self, setup=setup)
        vars(other).update(self._decomposed)
        same_steps = (setup.eta_local, setup.local_steps) == (self.setup.eta_local, self.setup.local_steps)
        if same_steps and isinstance(self.gram, np.ndarray) and np.isfinite(self._response).all():
            vars(other)["_modes"] = replace(self._modes, rho=other._rho)
        return other

    @cached_property
    def round_map(self) -> Float[np.ndarray, "n n"]:
        """M, the map from a round's residual to the next round's residual."""
        return np.eye(self.problem.n) - self._rho * self._clients.apply(self._response, self.gram).T

    @cached_property
    def nu(self) -> Float[np.ndarray, " n"]:
        """Eigenvalues of H P, ascending; they are real, since a symmetric matrix has the same eigenvalues.

        Source: fl-ntk/X.2.
        """
        return np.sort(np.append(self._modes.nu, np.zeros(self.problem.n - len(self._modes.nu))))

    @property
    def response_eigenvalues(self) -> Float[np.ndarray, " n"]:
        """(eta_g/N) nu, ascending; the eigenvalues of M are 1 minus these numbers."""
        return self._rho * self.nu

    @property
    def spectrum(self) -> Float[np.ndarray, " n"]:
        """Eigenvalues of M, ascending."""
        return 1 - self.response_eigenvalues[::-1]

    @property
    def rate(self) -> float:
        """Spectral radius of M.

        A round multiplies (r^T H^{-1} r)^(1/2) by at most this radius, while the Euclidean norm of r may grow.
        """
        return float(np.abs(self.spectrum).max())

    @property
    def stable(self) -> bool:
        """Whether 0 < (eta_g/N) nu < 2 for every nu, beyond rounding, so that the residual contracts to 0 from any
        start.

        Source: fl-ntk/X.3.
        """
        return bool(self.nu[0] > 0 and self._room > self._rounding)

    @property
    def undecided(self) -> bool:
        """True if the answer to `stable` is unknown because of rounding, although H is not singular."""
        return bool(self.nu[0] > 0 and abs(self._room) <= self._rounding)

    @property
    def _room(self) -> float:
        """2 minus the largest (eta_g/N) nu."""
        return 2 - self._rho * float(self.nu[-1])

    @property
    def _rounding(self) -> float:
        """Rounding error of the largest (eta_g/N) nu."""
        return self.problem.n * EPSILON * self._rho * float(self.nu[-1])

    @property
    def step_limits(self) -> StepLimits:
        """The largest stable steps of server and clients; the server's step is 0 if a round overflows float64."""
        if not np.isfinite(self._response).all():
            return StepLimits(0.0, self._local_limit())
        slowest, fastest = self.nu[0], self.nu[-1]
        return StepLimits(float(2 / fastest * self.problem.n_clients) if slowest > 0 else 0.0, self._local_limit())

    @cached_property
    def step_warning(self) -> str | None:
        """A warning that the steps pass the stability limit, with the limits; None if the steps do not pass it.

        A residual that stays for ever because H is singular causes no warning.
        """
        setup, below = self.setup, self._local_limit()
        # by fl-ntk/X.3 these steps are stable for any H, so that no decomposition is needed
        if setup.eta_local < below and setup.eta_global <= 1:
            return None
        remedy = f"eta_local < {below:.6g} keeps every eta_global <= 1 stable"
        setting = f"eta_local = {setup.eta_local:g} with {setup.local_steps} local steps"
        if not np.isfinite(self._response).all():
            return f"{setting} overflows float64 within one round; {remedy}"
        if self.nu[0] < 0:
            return f"{setting} is unstable for every eta_global; {remedy}"
        if self._room >= -self._rounding:
            return None
        limit = 2 * self.problem.n_clients / self.nu[-1]
        return (
            f"eta_global = {setup.eta_global:g} is beyond the stability limit: at {setting} the rounds are stable for "
            f"eta_global < {limit:.6g}; {remedy}"
        )

    def rounds_to(self, eps: float, initial_outputs: ArrayLike | None = None) -> int:
        """The first t with |r(t)|_2 <= eps |r(0)|_2.

        The norm may rise before this round, and no round that could be the first is skipped.

        Args:
            eps: share of the first residual, positive.
            initial_outputs: outputs y(0) before training, shape (n,) or (n, C); default 0.

        Raises:
            ValueError: eps not positive, a step beyond the stability limit, or a residual that never falls so far
                because part of it lies where H is zero.
        """
        return self._first_round(
            eps, initial_outputs, lambda initial, target: first_round_within(self._modes, initial, target)
        )

    def local_outputs(self, t: int, initial_outputs: ArrayLike | None = None) -> np.ndarray:
        """y^{(k)}(t) for k = 0..K, the output of each sample by its client's model, (K+1, n[, C]).

        Source: fl-ntk/X.1.

        Args:
            t: the round, from 0.
            initial_outputs: outputs y(0) before training, shape (n,) or (n, C); default 0.

        Raises: as `outputs`.
        """
        residual = self._residual(checked_rounds(t), initial_outputs)
        return self._shaped(self._local_outputs(residual)[0], (self.setup.local_steps + 1,))

    def movement(self, rounds: ArrayLike, initial_outputs: ArrayLike | None = None) -> np.ndarray:
        """|U(t) - U(0)|_F at infinite width, in the shape of `rounds`.

        It is computed as sqrt(c_t^T H c_t), where H c_t = y(t) - y(0).

        Source: fl-ntk/X.8.

        Args:
            rounds: numbers of rounds t >= 0, an integer or an array.
            initial_outputs: outputs y(0) before training, shape (n,) or (n, C); default 0.

        Raises: as `outputs`.
        """
        squared = self._modes.squared_movement(self._initial_residual(initial_outputs), checked_rounds(rounds))
        return np.sqrt(self._finite(squared)).reshape(np.shape(rounds))

    def trajectory(self, initial_outputs: ArrayLike | None = None) -> Trajectory:
        """The whole run of setup.rounds rounds, as a `Trajectory`; a simulation of a network returns a `Trajectory`
        too.

        Args:
            initial_outputs: outputs y(0) before training, shape (n,) or (n, C); default 0.

        Raises: as `outputs`.
        """
        outputs, steps = self.problem.y.size, self.setup.local_steps
        require(
            "the record of the run", lambda rounds: 16 * outputs * (rounds + 1) * (steps + 2), rounds=self.setup.rounds
        )
        t = np.arange(self.setup.rounds + 1)
        residual = self._residual(t, initial_outputs)
        local = self._local_outputs(residual[:-1])
        return Trajectory(
            y=self.problem.y,
            n_clients=self.problem.n_clients,
            outputs=self._shaped(self._labels - residual, t.shape),
            local_outputs=self._shaped(local, local.shape[:2]),
            total_movement=self.movement(t, initial_outputs),
            provenance=provenance(),
        )

    @property
    def _rho(self) -> float:
        return self.setup.eta_global / self.problem.n_clients

    @cached_property
    def _response(self) -> Float[np.ndarray, " n"]:
        """f_K at the eigenvalues of the clients' blocks, which gives the eigenvalues of P."""
        return geometric_sum(self._clients.values, self.setup.eta_local, self.setup.local_steps)

    @cached_property
    def _modes(self) -> RoundModes:
        if not np.isfinite(self._response).all():
            raise OverflowError(self.step_warning)
        return RoundModes.of(self.gram, self._clients, self.setup.eta_local, self.setup.local_steps, self._rho)

    def _residuals(self, initial: np.ndarray, t: np.ndarray) -> Float[np.ndarray, "T n C"]:
        return self._modes.residual(initial, t)

    def _coefficients(self, initial: np.ndarray, t: np.ndarray) -> Float[np.ndarray, "T n C"]:
        return self._modes.coefficients_at(initial, t)

    def _both(self, initial: np.ndarray, t: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        return self._residuals(initial, t), self._coefficients(initial, t)

    def _local_outputs(self, residual: Float[np.ndarray, "T n C"]) -> Float[np.ndarray, "T k n C"]:
        local = self._clients.local_residuals(residual, self.setup.eta_local, self.setup.local_steps)
        return self._labels - self._finite(local)


MATRICES = 8.5  # number of (n, n) matrices that are held until the round is decomposed, measured
# the largest allowed asymmetry, relative to the largest entry, and the largest allowed size of a negative eigenvalue,
# relative to the largest size of an eigenvalue
GRAM_TOLERANCE = 1e-12


class UnstableSteps(UserWarning):
    """The steps are beyond the stability limit; the message gives the limits."""


def algorithm1_limit(problem: Problem, setup: Setup, gram: ArrayLike | Kernel | None = None) -> KernelRegime:
    """The regime of Algorithm 1 with the checks of `ntkfl.kernel_regime`, without a warning of unstable steps.

    `gram` is a matrix or a kernel, by default H_inf. For a problem made by `per_output`, a kernel is called with the
    samples, and may return the values of one output or of all outputs.
    """
    require_magnitudes(problem, rows=gram is None)
    require("the kernel regime", lambda n: 8 * MATRICES * n * n, n=problem.n)
    if gram is None:
        return KernelRegime(problem, setup, problem.of_outputs(infinite(problem.samples)))
    if callable(gram):
        kernel = in_float64(gram)
        return KernelRegime(
            problem, setup, _checked_gram(problem.of_outputs(kernel(problem.samples, None)), problem), kernel
        )
    return KernelRegime(problem, setup, _checked_gram(gram, problem), kernel=None)


def warn_if_unstable(problem: Problem, setup: Setup, gram: ArrayLike | Kernel | None = None) -> str | None:
    """Warn if the steps pass the stability limit that H sets; the warning names the line that called this function's
    caller.

    Args:
        problem: data.
        setup: eta_local, eta_global and local_steps.
        gram: H, (n, n); default: H_inf.

    Returns the text of the warning, or None if the steps are stable. Raises: as `kernel_regime`. Source: fl-ntk/X.3.
    """
    if gram is None and setup.eta_global <= 1:
        # |H_cc| is at most tr H_cc, and the trace needs no Gram matrix
        traces = np.bincount(problem.owner, (problem.x**2).sum(axis=1)) / 2
        if setup.eta_local * traces.max() < 2:
            return None
    message = algorithm1_limit(problem, setup, gram).step_warning
    if message:
        warnings.warn(message, UnstableSteps, stacklevel=3)
    return message


def _checked_gram(gram: ArrayLike, problem: Problem) -> Float[np.ndarray, "n n"]:
    h, n = finite_array("gram", gram), problem.n
    if h.shape != (n, n):
        outputs = h.shape[0] // n if h.ndim == 2 and h.shape[0] == h.shape[1] and h.shape[0] % n == 0 else 1
        labels = f"y of {outputs} columns, one-hot for classes, and then " if problem.y[0].size != outputs else ""
        more = f", or that of {outputs} outputs: give {labels}problem.per_output()" if outputs > 1 else ""
        raise ValueError(f"gram has shape {h.shape}; {n} samples need ({n}, {n}){more}")
    asymmetry, largest = np.abs(h - h.T).max(), np.abs(h).max()
    if asymmetry > GRAM_TOLERANCE * largest:
        raise ValueError(
            f"gram is not symmetric: entries differ from their mirror images by up to {asymmetry:.3g}, the largest "
            f"entry being {largest:.3g}; the kernel regime needs H = H^T"
        )
    h = (h + h.T) / 2
    eigenvalues = np.linalg.eigvalsh(h)
    if eigenvalues[0] < -GRAM_TOLERANCE * np.abs(eigenvalues).max():
        raise ValueError(
            f"gram has the eigenvalue {eigenvalues[0]:.6g}, the largest being {eigenvalues[-1]:.6g}; "
            "a Gram matrix is positive semi-definite"
        )
    return h
