"""Rate and stability of the residual's mean square under random rounds, from the modes of the mean round.

H = L L^T, where L has full column rank, and L^T u(H_D) L = Q diag(nu) Q^T. The modes are the columns of F = L Q: the
part of the residual that can change is r = F s, and the mean displacement u(H_D) r has the coordinates F^T u(H_D) r =
nu s. The server's rule is linear with constant coefficients, so it acts on every mode separately: z_i, the vector of
s_i and of the server's memory of mode i, becomes B_i z_i + j n_i with the noise n_i. With S = E s s^T, the noise has
the covariance N(S) = F^T Noise(F S F^T) F. The map N is linear and keeps positive matrices positive.

Let h_ij(l) = sum_t l^(-t-1) (B_i^t j)_0 (B_j^t j)_0: the response of later rounds to the noise of modes i and j. A
number l above max_i |B_i|^2 is an eigenvalue of the map of the second moments iff 1 is an eigenvalue of S -> h(l) N(S),
a product entry by entry. The gain is the spectral radius of this map, and falls as l grows. So the mean square falls
iff the mean falls and the gain at l = 1 is below 1.
Source: docs/proofs/random_rounds.md#server-memory.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from functools import cached_property
from typing import TYPE_CHECKING

import numpy as np
from jaxtyping import Float
from scipy.sparse.linalg import ArpackError, LinearOperator, eigs, gmres

from ntkfl import interruption
from ntkfl.limit.linear_round import Blocks, LinearRound
from ntkfl.limit.radius import EPSILON, side_of_one
from ntkfl.memory import require

if TYPE_CHECKING:
    from ntkfl.limit.random_regime import Noise

PRECISE = 1e-10  # relative, of rates and limits
GAIN_ERROR = 1e-9  # relative, of a gain by Arnoldi's method, beside the error of the slowest mode
ASIDE = 1e-9, 1e-7, 1e-5, 1e-3  # relative distances from the rate at which proofs of lower and upper bounds are tried
DENSE = 8  # most modes for which the map of their second moments is formed as a matrix
STATIONARY = 200  # restarts of the solver of the stationary equation
# most doublings of a level or factor until the gain is at most 1: they span the range of float64
DOUBLINGS = 2100
COLD, WARM = 20, 8  # vectors of a search for an eigenvalue, without and with a start
ESTIMATE = "ntkfl.sampled_rounds has estimates with their errors"  # advice where the exact moments do not fit
POWERS = 10_000  # iterations of the power method, if Arnoldi's method does not converge


@dataclass(frozen=True, eq=False)
class MeanSquare:
    """The long-run behaviour of the residual's mean square."""

    round: LinearRound  # the mean round, which has a `server`
    nu: Float[np.ndarray, " r"]  # eigenvalues of H u(H_D) at server rate 1, ascending, one for each mode
    modes: Float[np.ndarray, "n r"]  # F, (n, r)
    draws: Noise | None  # the noise of the mean displacement; None: the rounds are not random
    gains: dict[tuple[float, float], float] = field(default_factory=dict)  # gains computed so far
    warm: list[np.ndarray] = field(default_factory=list)  # the last eigenvector, where the next search starts

    @classmethod
    def of(cls, gram: np.ndarray, round: LinearRound, noise: Noise) -> MeanSquare:
        """The modes of a round."""
        values, basis = np.linalg.eigh(gram)
        kept = values > len(gram) * np.finfo(float).eps * values[-1]
        root = basis[:, kept] * np.sqrt(values[kept])
        product = root.T @ noise.blocks.apply(round.mean_response, root)
        nu, turned = np.linalg.eigh((product + product.T) / 2)
        return cls(round, nu, root @ turned, None if noise.nothing_drawn else noise)

    @property
    def rests(self) -> bool:
        """Whether part of the residual lies in the null space of H, and stays."""
        return len(self.nu) < len(self.modes)

    @cached_property
    def rate(self) -> float:
        """Root of the spectral radius of the map of second moments; at least 1 if part of the residual stays."""
        least = 1.0 if self.rests else 0.0
        if not len(self.nu):
            return least
        square = self._mean_radius**2
        if self.draws is not None:
            low = square * (1 + 1e-9)
            if self._gain(1.0, low) > 1:
                high = self._first_small(lambda level: self._gain(1.0, level), 2 * low if low >= 1 else 1.0, 2.0)
                from scipy.optimize import brentq  # here, since the import takes a third of a second

                square = float(brentq(lambda level: 1 - 1 / self._gain(1.0, level), low, high, rtol=PRECISE))
        return max(float(np.sqrt(square)), least)

    @cached_property
    def sides(self) -> tuple[float, float]:
        """Two numbers between which the rate is, rounding included: levels at which the mean square grows and falls."""
        least = 1.0 if self.rests else 0.0
        low, high = least, float("inf") if len(self.nu) else least
        for aside in ASIDE if len(self.nu) else ():
            if low == least and self._side((self.rate * (1 - aside)) ** 2) > 0:
                low = max(self.rate * (1 - aside), least)
            if high == float("inf") and self._side((self.rate * (1 + aside)) ** 2) < 0:
                high = max(self.rate * (1 + aside), least)
        return low, high

    @cached_property
    def _at_one(self) -> int:
        """`_side` at the level 1, for the part of the residual that can change."""
        if not len(self.nu):
            return -1
        return 1 if self.nu[0] < -self._nu_error else 0 if self.nu[0] <= self._nu_error else self._side(1.0)

    def _side(self, level: float) -> int:
        """-1 if the radius of the map of second moments is known to be below the level, 1: to be above, 0: unknown."""
        onward, jump = self._round_of_modes(1.0)
        error = self._nu_error * float(np.linalg.norm(jump)) + EPSILON * np.linalg.norm(onward, axis=(1, 2))
        of_mean = side_of_one(onward / level**0.5, error / level**0.5)
        if self.draws is None or of_mean.max() > 0:
            return int(of_mean.max())
        if of_mean.max() == 0 or self._mean_radius**2 >= level:
            return 0
        gain, error = self._gain(1.0, level), GAIN_ERROR + 4 * self._nu_error / abs(float(self.nu[0]))
        return -1 if gain * (1 + error) < 1 else 1 if gain * (1 - error) > 1 else 0

    @property
    def _nu_error(self) -> float:
        """Error of the eigenvalues nu, by rounding."""
        return len(self.modes) * EPSILON * float(np.abs(self.nu[[0, -1]]).max())

    @property
    def grows(self) -> bool:
        """Whether some mean square is known not to fall, except where H is 0."""
        return self._at_one > 0

    @property
    def stable(self) -> bool:
        """Whether every mean square is known to go to 0."""
        return not self.rests and self._at_one < 0

    @property
    def undecided(self) -> bool:
        """Whether rounding hides whether the part of the residual that can change falls."""
        return self._at_one == 0

    @cached_property
    def limit(self) -> float:
        """The factor on the server's step above which some mean square grows; 0: one grows at every factor."""
        if not len(self.nu):
            return float("inf")
        if self.nu[0] <= 0:
            return 0.0
        rate = 1.0 if self.round.server_rate is None else self.round.server_rate
        mean = self.round.limit / (rate * float(self.nu[-1]))
        if self.draws is None:
            return mean
        if not self.round.memory:  # C - g L1(C) + g^2 L2(C): the limit is 1 / radius(L1^-1 L2)
            both, pairs = np.outer(self.nu, self.nu), np.add.outer(self.nu, self.nu)
            return 1 / (rate * self._largest(lambda second: (both * second + self._noise(second)) / pairs))
        high = mean * (1 - 1e-9)
        if self._gain(high, 1.0) <= 1:
            return mean
        low = self._first_small(lambda factor: self._gain(factor, 1.0), high / 2, 0.5)
        from scipy.optimize import brentq

        return float(brentq(lambda factor: np.log(self._gain(factor, 1.0)), low, high, rtol=PRECISE))

    def _first_small(self, gain: Callable[[float], float], start: float, by: float) -> float:
        """The first of start, start * by, start * by^2, ... where the gain is at most 1."""
        level = start
        for _ in range(DOUBLINGS):
            interruption.check()
            if level == 0 or not np.isfinite(level):
                break
            if gain(level) <= 1:
                return level
            level *= by
        raise OverflowError("the mean square grows beyond float64; smaller steps may do")

    def resting(self, residual: Float[np.ndarray, " n"], blocks: Blocks) -> Float[np.ndarray, " n"]:
        """The limit of the mean of this residual, if the mean square does not grow."""
        if not self.rests:
            return np.zeros_like(residual)
        displacement = blocks.apply(self.round.mean_response, residual[:, None])[:, 0]
        return residual - self.modes @ ((self.modes.T @ displacement) / self.nu)

    def stationary_trace(self, rest: Float[np.ndarray, " n"], gaussian: float) -> float:
        """The trace of the covariance of the residual, as t goes to infinity.

        With F the modes, that covariance is F S F^T, S = h(1) (F^T Noise(F S F^T + rest rest^T) F + s^2 I), entry by
        entry. Source: docs/proofs/random_rounds.md#gaussian-noise.

        Raises:
            ValueError: the equation could not be solved to 1e-9, as happens where the rounds are nearly unstable.
        """
        if not len(self.nu):
            return 0.0
        becomes = self._response_to_noise(1.0, 1.0)
        source = gaussian**2 * np.eye(len(self.nu))
        if self.draws is None:
            return self._trace(becomes * source)
        source += self.modes.T @ self.draws.covariance(np.outer(rest, rest)) @ self.modes
        driven = becomes * source
        if not driven.any():
            return 0.0

        def remains(vector: np.ndarray) -> np.ndarray:
            interruption.check()
            second = vector.reshape(driven.shape)
            second = (second + second.T) / 2
            return (second - becomes * self._noise(second)).ravel()

        operator = LinearOperator((driven.size, driven.size), remains, dtype=float)
        second, failed = gmres(operator, driven.ravel(), x0=driven.ravel(), rtol=PRECISE, atol=0.0, maxiter=STATIONARY)
        if failed:
            raise ValueError(
                "the stationary mean square is not found: the draws of clients or batches are all but unstable"
            )
        return self._trace(second.reshape(driven.shape))

    def _trace(self, second: np.ndarray) -> float:
        """The trace of F second F^T."""
        return float(np.einsum("ni,ij,nj->", self.modes, (second + second.T) / 2, self.modes, optimize=True))

    def _noise(self, second: np.ndarray) -> np.ndarray:
        assert self.draws is not None
        return self.draws.in_modes(self.modes, self.nu, second)

    def _round_of_modes(self, factor: float) -> tuple[Float[np.ndarray, "r p p"], Float[np.ndarray, " p"]]:
        """B_i of every mode, and j, with the server's step times `factor`."""
        kept, jump = self.round.numbers
        farther = np.eye(len(jump))[0]
        kept, jump = kept + (factor - 1) * np.outer(farther, kept[0] - farther), jump + (factor - 1) * jump[0] * farther
        return kept + self.nu[:, None, None] * np.outer(jump, farther), jump

    @cached_property
    def _mean_radius(self) -> float:
        return float(np.abs(np.linalg.eigvals(self._round_of_modes(1.0)[0])).max())

    def _gain(self, factor: float, level: float) -> float:
        """The radius of S -> h(level) N(S) with the server's step times `factor`; needs level > max |B_i|^2."""
        if (factor, level) not in self.gains:
            becomes = self._response_to_noise(factor, level)
            self.gains[factor, level] = self._largest(lambda second: becomes * self._noise(second))
        return self.gains[factor, level]

    def _response_to_noise(self, factor: float, level: float) -> Float[np.ndarray, "r r"]:
        """h(level), the response to noise of the modes i and j."""
        onward, jump = self._round_of_modes(factor)
        parts, count = len(jump), len(self.nu)
        driven, unit = np.outer(jump, jump).reshape(-1, 1), level * np.eye(parts**2)
        becomes = np.empty((count, count))
        for row, mode in zip(becomes, onward, strict=True):  # for all pairs at once it is parts^4 matrices
            interruption.check()
            pairs = np.einsum("ab,jcd->jacbd", mode, onward).reshape(count, parts**2, parts**2)
            row[:] = np.linalg.solve(unit - pairs, np.broadcast_to(driven, (count, parts**2, 1)))[:, 0, 0]
        return becomes

    def _largest(self, function: Callable[[np.ndarray], np.ndarray]) -> float:
        """The radius of a map that keeps positive matrices positive: its largest eigenvalue, which is real."""
        count = len(self.nu)

        def product(vector: np.ndarray) -> np.ndarray:
            interruption.check()
            matrix = vector.reshape(count, count)
            return function((matrix + matrix.T) / 2).ravel()

        if count <= DENSE:
            columns = [product(unit) for unit in np.eye(count**2)]
            return float(np.linalg.eigvals(np.array(columns).T).real.max())
        start, basis = np.eye(count).ravel() + 1 / count, COLD
        if self.warm:
            start, basis = 1e-3 * start / np.linalg.norm(start) + self.warm.pop(), WARM
        require("what is stable in the mean square", lambda n: 8.0 * (basis + 8) * n**2, hint=ESTIMATE, n=count)
        operator = LinearOperator((count**2, count**2), product, dtype=float)
        try:
            values, vectors = eigs(operator, k=1, which="LR", v0=start, ncv=basis, tol=PRECISE / 10)
        except ArpackError:
            return _by_powers(product, start)
        self.warm.append(vectors[:, 0].real * np.sign(vectors[:: count + 1, 0].real.sum()))  # a positive matrix
        return float(values[0].real)


def _by_powers(product: Callable[[np.ndarray], np.ndarray], vector: np.ndarray) -> float:
    """The largest eigenvalue by the power method, from a vector that is not orthogonal to its eigenvector."""
    value = 0.0
    for _ in range(POWERS):
        vector = vector / np.linalg.norm(vector)
        following = product(vector)
        before, value = value, float(vector @ following)
        if abs(value - before) <= PRECISE / 10 * abs(value):
            break
        vector = following
    return value
