"""Federated training at infinite width: outputs, predictions and movement at any round from one eigendecomposition."""

from __future__ import annotations

import warnings
from bisect import bisect_left
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import cached_property
from typing import NamedTuple

import numpy as np
from jaxtyping import Float
from numpy.typing import ArrayLike

from ntkfl import interruption
from ntkfl.double_precision import in_float64
from ntkfl.gram import infinite
from ntkfl.limit.radius import EPSILON
from ntkfl.limit.regime import Kernel, Regime, checked_rounds
from ntkfl.limit.round_modes import EXACT_INTEGERS, RoundModes, decay, geometric_sum
from ntkfl.memory import require
from ntkfl.problem import Problem, Setup, finite_array, require_magnitudes
from ntkfl.trajectory import Trajectory, provenance

_CHUNK = 64  # rounds evaluated by one matrix product


def first_round_within(modes: RoundModes, initial: Float[np.ndarray, "n C"], target: float) -> int:
    """First t with |r(t)|_F <= target, up to the rounding of this comparison.

    In the notation of `RoundModes`, r(t+s) - r(t) = -outward (energy g_s d^t w), and the norm of this difference is at
    most gain |energy g_s d^t w|. This bound grows with s. Rounds in which this bound keeps the residual above the
    target are skipped; all others are evaluated. Every mode must have 0 <= rho nu < 2.

    Raises:
        ValueError: the norm never falls that far, or not within 2^53 rounds.
    """
    x, w, (least, gain) = modes.rho * modes.nu, modes.drive @ initial, modes.gain
    size, pace = np.linalg.norm(w, axis=1), np.minimum(x, 2 - x)
    start = None if modes.start is None else np.linalg.norm(modes.start @ initial, axis=1)

    def still_above(t: int) -> bool:  # if the modes span the residual, |r(t)| >= gain_min |d^t z|
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
    """The largest s <= 2^53 at which a monotone predicate (once false, always false) holds; 0 if the predicate is false
    at 1."""
    high = 1
    while high < EXACT_INTEGERS and holds(high):
        interruption.check()
        high *= 2
    return bisect_left(range(1, high + 1), True, key=lambda s: not holds(s))


class StepLimits(NamedTuple):
    """The steps below which the dynamics are stable.

    Args:
        eta_global: 2N / nu_max at this eta_local and K; 0 if some nu <= 0, since then no server step contracts every
            residual.
        eta_local: 2 / max_c |H_cc|; below it every eta_global <= 1 is stable, whatever N, K and the partition.
    """

    eta_global: float
    eta_local: float


@dataclass(frozen=True, eq=False, repr=False)
class KernelRegime(Regime):
    """Federated training at infinite width; made by `kernel_regime`, which validates. Source: fl-ntk/X.1 to X.4, X.8.

    The residual r(t) = y - y(t) follows r(t+1) = M r(t), M = I - (eta_g/N) H P, P = blockdiag_c f_K(H_cc), f_K(q) =
    eta_l sum_{k<K} (1 - eta_l q)^k. Unless given, `initial_outputs`, y(0), is 0, the mean of a wide network's outputs.
    Everything is float64. The eigendecomposition causes a rounding error of about n eps for every round that a mode
    lasts, as the recursion does. At and near eta_local q = 2 with an even K this error is larger, since f_K(q) is
    rounding noise there.
    """

    method = "fl-ntk"

    def at(self, setup: Setup) -> KernelRegime:
        """The regime of the same data and Gram matrix with other steps, for sweeps; decompositions are shared.

        The decomposition of the clients' blocks is always shared, and that of the round if eta_local and local_steps
        are the same. There is no warning of steps beyond the limit; see `stable` or `step_warning`.

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
        """M, the map from a round's residual to the next round's."""
        return np.eye(self.problem.n) - self._rho * self._clients.apply(self._response, self.gram).T

    @cached_property
    def nu(self) -> Float[np.ndarray, " n"]:
        """Eigenvalues of H P, ascending; real, since a symmetric matrix has the same eigenvalues. Source:
        fl-ntk/X.2."""
        return np.sort(np.append(self._modes.nu, np.zeros(self.problem.n - len(self._modes.nu))))

    @property
    def response_eigenvalues(self) -> Float[np.ndarray, " n"]:
        """(eta_g/N) nu, ascending: 1 minus the eigenvalues of M."""
        return self._rho * self.nu

    @property
    def spectrum(self) -> Float[np.ndarray, " n"]:
        """Eigenvalues of M, ascending."""
        return 1 - self.response_eigenvalues[::-1]

    @property
    def rate(self) -> float:
        """Spectral radius of M: the contraction per round of (r^T H^{-1} r)^(1/2); the Euclidean norm may grow."""
        return float(np.abs(self.spectrum).max())

    @property
    def stable(self) -> bool:
        """Whether 0 < (eta_g/N) nu < 2 for every nu, beyond rounding: the residual contracts to 0 from any start.

        Source: fl-ntk/X.3.
        """
        return bool(self.nu[0] > 0 and self._room > self._rounding)

    @property
    def undecided(self) -> bool:
        """Whether rounding hides the answer to `stable`, where H is not singular."""
        return bool(self.nu[0] > 0 and abs(self._room) <= self._rounding)

    @property
    def _room(self) -> float:
        """2 minus the largest (eta_g/N) nu."""
        return 2 - self._rho * float(self.nu[-1])

    @property
    def _rounding(self) -> float:
        """Error of the largest (eta_g/N) nu."""
        return self.problem.n * EPSILON * self._rho * float(self.nu[-1])

    @property
    def step_limits(self) -> StepLimits:
        """The largest stable server and client steps; 0 for the server where a round overflows float64."""
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
        if setup.eta_local < below and setup.eta_global <= 1:  # stable for any H by X.3, without a decomposition
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
        """First t with |r(t)|_2 <= eps |r(0)|_2. The norm may rise before; no round that could be the first is skipped.

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
        """y^{(k)}(t), k = 0..K: each sample's output by its client's model, (K+1, n[, C]). Source: fl-ntk/X.1.

        Args:
            t: the round, from 0.
            initial_outputs: outputs y(0) before training, shape (n,) or (n, C); default 0.

        Raises: as `outputs`.
        """
        residual = self._residual(checked_rounds(t), initial_outputs)
        return self._shaped(self._local_outputs(residual)[0], (self.setup.local_steps + 1,))

    def movement(self, rounds: ArrayLike, initial_outputs: ArrayLike | None = None) -> np.ndarray:
        """|U(t) - U(0)|_F at infinite width, in the shape of `rounds`: sqrt(c_t^T H c_t), where H c_t = y(t) - y(0).

        Args:
            rounds: numbers of rounds t >= 0, an integer or an array.
            initial_outputs: outputs y(0) before training, shape (n,) or (n, C); default 0.

        Raises: as `outputs`. Source: fl-ntk/X.8.
        """
        squared = self._modes.squared_movement(self._initial_residual(initial_outputs), checked_rounds(rounds))
        return np.sqrt(self._finite(squared)).reshape(np.shape(rounds))

    def trajectory(self, initial_outputs: ArrayLike | None = None) -> Trajectory:
        """The whole run of setup.rounds rounds, in the form that a simulated network returns.

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
        """f_K at the clients' eigenvalues: the eigenvalues of P."""
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


MATRICES = 8.5  # (n, n) matrices held until the round is decomposed, measured
GRAM_TOLERANCE = 1e-12  # asymmetry and negative eigenvalues, relative to the largest entry and to the norm


class UnstableSteps(UserWarning):
    """The steps are beyond the stability limit; the message gives the limits."""


def algorithm1_limit(problem: Problem, setup: Setup, gram: ArrayLike | Kernel | None = None) -> KernelRegime:
    """The regime of Algorithm 1 with the checks of `ntkfl.kernel_regime`, without a warning of unstable steps.

    `gram` is a matrix or a kernel, by default H_inf. For a problem `per_output` a kernel is called with the samples and
    may give one output or all of them.
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
    """Warn the caller's caller when the steps pass the stability limit at infinite width (or of `gram`).

    Args:
        problem: data.
        setup: eta_local, eta_global and local_steps.
        gram: H, (n, n); default: H_inf.

    Returns the warning's text, or None if the steps are stable. Raises: as `kernel_regime`. Source: fl-ntk/X.3.
    """
    if gram is None and setup.eta_global <= 1:
        traces = np.bincount(problem.owner, (problem.x**2).sum(axis=1)) / 2  # |H_cc| <= tr H_cc: needs no large H
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
