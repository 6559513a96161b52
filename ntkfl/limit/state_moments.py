"""Rate and limit of a state's second moments S -> M S M^T + N(S), where N maps positive matrices to positive matrices.

In the eigenvectors of M the inverse of S -> l S - M S M^T is a division, at the cost of four products. It preconditions
Davidson's method, which finds the radius, and GMRES, which finds the limit of the moments.
Source: docs/proofs/random_rounds.md#server-memory.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from jaxtyping import Complex, Float
from scipy.linalg import LinAlgError, eigvalsh, solve_discrete_lyapunov
from scipy.sparse.linalg import ArpackError, LinearOperator, eigs, gmres

from ntkfl import interruption
from ntkfl.limit.mean_square import ESTIMATE, PRECISE, STATIONARY
from ntkfl.limit.radius import EPSILON, sides
from ntkfl.memory import require

BASIS, RESTARTS = 80, 40  # iterations of Arnoldi's search for the radius, where the mean round has no good eigenvectors
TURNS, KEPT = 200, 24  # steps of Davidson's search, and the second moments that it combines
RESTART = 20  # fewest vectors that GMRES keeps; with so few it stalls where the radius is close to 1
WHOLE = 2_000_000  # most numbers that GMRES keeps before it starts again, if they are more than RESTART vectors
EXACT = 1e-11  # largest error of the matrix rebuilt from its eigenvectors, over its norm plus 1
MATRICES = 20  # matrices of the state's size in memory, beside those that a search combines
WITH_RESTS = 1 + 1e-4  # takes the place of 1 where part of the residual stays, since 1 is then an eigenvalue
ROUNDED = 16  # rounding errors that are allowed for each row of the state

Second = Float[np.ndarray, "s s"]


@dataclass(frozen=True, eq=False)
class RealBasis:
    """Eigenvectors of a real matrix, two real columns for a complex pair."""

    values: Complex[np.ndarray, " s"]
    columns: Float[np.ndarray, "s s"]
    inverse: Float[np.ndarray, "s s"]
    first: np.ndarray  # the first column of every pair

    @classmethod
    def of(cls, matrix: Float[np.ndarray, "s s"]) -> RealBasis | None:
        """The basis; None if the eigenvectors are too nearly dependent to rebuild the matrix."""
        values, vectors = np.linalg.eig(matrix)
        first = np.flatnonzero(values.imag > 0)  # LAPACK puts the conjugate next
        columns = vectors.real.copy()
        columns[:, first + 1] = vectors.imag[:, first]
        with suppress(np.linalg.LinAlgError), np.errstate(over="ignore", invalid="ignore"):
            basis = cls(values.astype(complex), columns, np.linalg.inv(columns), first)
            blocks = np.diag(values.real)
            blocks[first, first + 1], blocks[first + 1, first] = values.imag[first], -values.imag[first]
            if np.linalg.norm(columns @ blocks @ basis.inverse - matrix) <= EXACT * (1 + np.linalg.norm(matrix)):
                return basis
        return None

    def turned(self, second: Second) -> Complex[np.ndarray, "s s"]:
        """The entries of a symmetric matrix in the basis of eigenvectors."""
        turned, k = (self.inverse @ second @ self.inverse.T).astype(complex), self.first
        turned[k], turned[k + 1] = (turned[k] - 1j * turned[k + 1]) / 2, (turned[k] + 1j * turned[k + 1]) / 2
        turned = turned.T
        turned[k], turned[k + 1] = (turned[k] + 1j * turned[k + 1]) / 2, (turned[k] - 1j * turned[k + 1]) / 2
        return turned.T

    def spread(self, turned: Complex[np.ndarray, "s s"], level: float) -> Second:
        """The X of level X - M X M^T = Y, from the entries of Y in the eigenvectors."""
        inner = self._untwisted(turned / (level - self._products)).real
        spread = self.columns @ inner @ self.columns.T
        return (spread + spread.T) / 2

    @cached_property
    def _products(self) -> Complex[np.ndarray, "s s"]:
        return np.outer(self.values, self.values.conj())

    def _untwisted(self, turned: Complex[np.ndarray, "s s"]) -> Complex[np.ndarray, "s s"]:
        """The entries in the basis of real columns, from the entries in the basis of eigenvectors."""
        entries, k = turned.copy(), self.first
        entries[k], entries[k + 1] = entries[k] + entries[k + 1], 1j * (entries[k] - entries[k + 1])
        entries = entries.T
        entries[k], entries[k + 1] = entries[k] + entries[k + 1], 1j * (entries[k + 1] - entries[k])
        return entries.T


@dataclass(frozen=True, eq=False)
class StateMoments:
    """The map of second moments, its rate per round and its limit."""

    mean: Float[np.ndarray, "s s"]  # M
    noise: Callable[[Second], Second] | None  # N; None: 0
    rests: bool  # whether part of the residual stays: in the null space of H, or at clients that never take part
    rounds: int = 1  # number of rounds in the map

    def following(self, second: Second) -> Second:
        """The second moments after those rounds."""
        interruption.check()
        after = self.mean @ second @ self.mean.T
        if self.noise is not None:
            after += self.noise(second)
        return (after + after.T) / 2

    @cached_property
    def rate(self) -> float:
        """Factor per round of the root mean square; a ValueError where the search for it does not end.

        The search gives an estimate, which the bounds of `sides` correct: computed eigenvalues of a chain are far from
        exact.
        """
        return float(np.clip(self._radius[0] ** (0.5 / self.rounds), *self.sides))

    @cached_property
    def sides(self) -> tuple[float, float]:
        """Two numbers between which the rate is, rounding included.

        If l S <= S_+ <= u S for a positive definite S with next moments S_+, the radius is between l and u; it is never
        below the radius of the mean round. If 1 is between these bounds, the limit of a driven state decides on which
        side of 1 the radius is. `WITH_RESTS` takes the place of 1 where part of the residual stays.
        Source: docs/proofs/random_rounds.md#both-sides-of-a-radius.
        """
        least, most = (float(side) ** 2 for side in sides(self.mean))
        if self.noise is not None:
            most, second = float("inf"), None
            with suppress(ValueError):  # the search for S has not ended
                second = self._radius[1]
            if second is not None:
                below, above = self._ratios(self.following(second), second)
                least, most = max(least, below), min(most, above)
        level = WITH_RESTS if self.rests else 1.0
        if least <= level <= most:
            mean, noise = self.mean / level**0.5, self.noise
            at_level = None if noise is None else lambda second: noise(second) / level
            below, above = StateMoments(mean, at_level, False)._sides_of_rest
            least, most = max(least, level * below), min(most, level * above)
        return float(least ** (0.5 / self.rounds)), float(most ** (0.5 / self.rounds))

    @property
    def grows(self) -> bool:
        """Whether some mean square is known to grow; where no part stays, also whether one is known not to fall."""
        return self.sides[0] > 1 if self.rests else self.sides[0] >= 1

    @property
    def stable(self) -> bool:
        """Whether every mean square is known to go to 0."""
        return not self.rests and self.sides[1] < 1

    @property
    def undecided(self) -> bool:
        """Whether rounding hides whether every mean square goes to 0, where no part of the residual stays."""
        return not (self.rests or self.stable or self.grows)

    def _ratios(self, after: Second, before: Second) -> tuple[float, float]:
        """l and u with l S <= S_+ <= u S, rounding included; 0 and infinity where S is not known to be definite."""
        with suppress(LinAlgError):  # S is not positive definite beyond rounding
            lowest = float(eigvalsh(before, subset_by_index=(0, 0))[0])
            error = self._rounding * float(np.linalg.norm(before)) / lowest
            if 0 < lowest and error < 1:
                ratios = eigvalsh(after, before)
                return max(0.0, float(ratios[0]) - error), float(ratios[-1]) + error
        return 0.0, float("inf")

    @cached_property
    def _rounding(self) -> float:
        """The error of the next moments, over the norm of the present ones.

        N is positive, so that its norm is that of N(I), and M is known up to rounding.
        """
        size = len(self.mean)
        of_noise = 0.0 if self.noise is None else float(np.linalg.norm(self.noise(np.eye(size))))
        return ROUNDED * size * EPSILON * (1 + float(np.linalg.norm(self.mean)) ** 2 + of_noise)

    @property
    def _sides_of_rest(self) -> tuple[float, float]:
        """A lower and an upper bound of the radius; one of them is 1 where the side of 1 is known.

        Let X be symmetric and D = X - T(X) positive definite. If X is positive definite, T(X) = X - D <= u X with u < 1
        and the radius is at most u. If X is not, the radius is at least 1, since otherwise X would be a sum of T^k(D).
        """
        unknown = 0.0, float("inf")
        with suppress(ValueError, LinAlgError):  # too little memory, or no solution
            solved = self._driven_by(np.eye(len(self.mean)), 0.1 / len(self.mean) ** 0.5)
            error = self._rounding * float(np.linalg.norm(solved))
            left = float(eigvalsh(solved - self.following(solved), subset_by_index=(0, 0))[0]) - error
            if left > 0:
                ends = eigvalsh(solved)
                if ends[0] > error:
                    return 0.0, 1 - left / float(ends[-1] + error)
                if ends[0] < -error:
                    return 1.0, float("inf")
        return unknown

    @property
    def limit(self) -> float:
        """The largest factor on the server's step: unknown."""
        return float("nan")

    def resting(self, driven: Second) -> Second:
        """The S with S = following(S) + driven, if the radius is below 1.

        Raises:
            ValueError: the equation could not be solved to 1e-10, as happens where the radius is close to 1.
        """
        return self._driven_by(driven, PRECISE)

    def _driven_by(self, driven: Second, precise: float) -> Second:
        """The S of S = following(S) + driven, up to the relative error `precise`.

        Raises:
            ValueError: the equation could not be solved.
        """
        self._require("what rests of random rounds", RESTART + MATRICES)
        solved, left = np.zeros_like(driven), driven
        for basis in (self._basis, self._basis, None):  # solves for the remainder again
            solved = solved + self._nearly_resting(left, basis)
            left = driven + self.following(solved) - solved
            if np.linalg.norm(left) <= precise * np.linalg.norm(driven):
                return solved
        raise ValueError("the stationary mean square is not found: the rounds are all but unstable")

    def _nearly_resting(self, driven: Second, basis: RealBasis | None) -> Second:
        """The S with S = following(S) + driven, up to the errors of GMRES and of nearly dependent eigenvectors."""

        def spread(second: Second) -> Second:
            return second if basis is None else basis.spread(basis.turned(second), 1.0)

        noise = self.noise
        if noise is None:
            return solve_discrete_lyapunov(self.mean, driven) if basis is None else spread(driven)

        def remains(vector: np.ndarray) -> np.ndarray:
            second = vector.reshape(driven.shape)
            second = (second + second.T) / 2
            if basis is None:
                return (second - self.following(second)).ravel()
            interruption.check()
            return (second - spread(noise(second))).ravel()

        operator, start = LinearOperator((driven.size,) * 2, remains, dtype=float), spread(driven).ravel()
        vectors = max(RESTART, min(len(driven) * (len(driven) + 1) // 2, WHOLE // driven.size))
        options = {"rtol": PRECISE, "atol": 0.0, "restart": vectors, "maxiter": -(-STATIONARY * RESTART // vectors)}
        second = gmres(operator, start, x0=start, **options)[0].reshape(driven.shape)
        return (second + second.T) / 2

    @cached_property
    def _basis(self) -> RealBasis | None:
        self._require("the rate of random rounds", MATRICES)
        return RealBasis.of(self.mean)

    @cached_property
    def _mean_radius(self) -> float:
        values = np.linalg.eigvals(self.mean) if self.noise is None or self._basis is None else self._basis.values
        return float(np.abs(values).max())

    @cached_property
    def _radius(self) -> tuple[float, Second | None]:
        """The radius, and the S of Davidson's method if it converged."""
        size = len(self.mean)
        if self.noise is None:
            return self._mean_radius**2, None
        require_search(size)
        if size * (size + 1) // 2 <= BASIS + 2 or self._basis is None:
            return self._by_arnoldi(), None
        least = self._mean_radius**2 * (1 + PRECISE)
        tried, after = np.zeros((2, KEPT, size**2))
        new = (np.eye(size) / size**0.5).ravel()
        used = 0
        for _ in range(TURNS):
            interruption.check()
            tried[used], after[used] = new, self.following(new.reshape(size, size)).ravel()
            used += 1
            values, vectors = np.linalg.eig(tried[:used] @ after[:used].T)
            best = int(values.real.argmax())
            radius, share = float(values[best].real), vectors[:, best].real / np.linalg.norm(vectors[:, best].real)
            second, following = share @ tried[:used], share @ after[:used]
            left = following - radius * second
            if np.linalg.norm(left) <= PRECISE / 100 * radius:
                return radius, second.reshape(size, size) * np.sign(np.trace(second.reshape(size, size)))
            if used == KEPT:
                tried[0], after[0], used = second, following, 1
            turned = self._basis.turned(left.reshape(size, size))
            new = self._basis.spread(turned, max(radius, least)).ravel()
            for _ in range(2):
                new = new / np.linalg.norm(new)
                new = new - (tried[:used] @ new) @ tried[:used]
            new = new / np.linalg.norm(new)
        return self._by_arnoldi(), None

    def _by_arnoldi(self) -> float:
        """The radius by Arnoldi's method, which uses only the map."""
        size, upper = len(self.mean), np.triu_indices(len(self.mean))

        def following(entries: np.ndarray) -> np.ndarray:
            z = np.zeros((size, size))
            z[upper] = entries
            z += np.triu(z, 1).T
            return self.following(z)[upper]

        count = len(upper[0])
        if count <= BASIS + 2:
            values = np.linalg.eigvals(np.array([following(unit) for unit in np.eye(count)]))
        else:
            self._require("the rate of random rounds", BASIS + 10)
            operator = LinearOperator((count, count), matvec=following, dtype=float)
            options = {"k": 1, "ncv": BASIS, "maxiter": RESTARTS, "tol": PRECISE, "return_eigenvectors": False}
            try:
                values = eigs(operator, which="LM", v0=np.eye(size)[upper], **options)
            except ArpackError as error:
                raise ValueError(
                    "the rate of these random rounds was not found: many second moments fall nearly as slowly; "
                    "root_mean_square has any round"
                ) from error
        return float(np.abs(values).max())

    def _require(self, what: str, matrices: int) -> None:
        require(what, lambda state: 8.0 * matrices * state**2, hint=ESTIMATE, state=len(self.mean))


def require_search(state: int) -> None:
    """Refuse the search for the rate of a state with this many numbers if it does not fit the memory."""
    needs = 8.0 * (2 * KEPT + MATRICES)
    require("the rate of random rounds", lambda state: needs * state**2, hint=ESTIMATE, state=state)
