"""Rate and stability of the residual's mean square under random rounds, from the modes of the mean round.

The mean round is the expected round over all random choices. H_D holds the clients' own blocks of H and is 0 elsewhere,
and u(H_D) is the function of H_D that maps the residual r to the clients' mean displacement in the mean round. Let H =
L L^T, where L has full column rank, and L^T u(H_D) L = Q diag(nu) Q^T. The modes are the columns of F = L Q. The part
of the residual that weights can change is r = F s, and the mean displacement u(H_D) r has the coordinates F^T u(H_D) r
= nu s. The server's rule is linear with constant coefficients, so it acts on every mode separately. Let z_i consist of
s_i and of what the server remembers of mode i. A round takes z_i to B_i z_i + j n_i with a matrix B_i, a vector j and
the noise n_i. With S = E s s^T, the noise has the covariance N(S) = F^T Noise(F S F^T) F. The map N is linear and maps
positive matrices to positive matrices.

The response of later rounds to the noise of modes i and k is h_ik(l) = sum_t l^(-t-1) (B_i^t j)_0 (B_k^t j)_0. The
index 0 takes the first entry of a vector. A number l above max_i |B_i|^2 is an eigenvalue of the map of the second
moments iff 1 is an eigenvalue of S -> h(l) N(S), where the product is taken entry by entry. The gain is the spectral
radius of S -> h(l) N(S), and the gain falls as l grows. So the mean square of the residual falls iff the mean residual
falls and the gain at l = 1 is below 1.

There is a second case, in which M may be any matrix: the second moments of a state follow S -> M S M^T + N(S). In the
basis of the eigenvectors of M, the inverse of S -> l S - M S M^T divides each entry by a number; with the changes of
basis, the inverse takes four products. This inverse preconditions Davidson's method, which finds the radius, and GMRES,
which finds the limit of the moments.

Source: docs/proofs/random_rounds.md#server-memory.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, field
from functools import cached_property
from typing import TYPE_CHECKING

import numpy as np
from jaxtyping import Complex, Float
from scipy.linalg import LinAlgError, cholesky, eigvalsh, solve_discrete_lyapunov
from scipy.sparse.linalg import ArpackError, LinearOperator, eigs, gmres

from ntkfl import interruption
from ntkfl.limit.linear_round import Blocks, LinearRound
from ntkfl.limit.radius import EPSILON, radius_bounds, side_of_one
from ntkfl.memory import require

if TYPE_CHECKING:
    from ntkfl.limit.random_regime import Noise

# iterations and restarts of Arnoldi's search for the radius, which is used if the mean round has no good eigenvectors
BASIS, RESTARTS = 80, 40
# Davidson's search: the largest number of steps; the largest number of second moments that are combined; how many of
# them are kept when this number is reached
TURNS, MOMENTS, STAY = 200, 12, 4
FURTHER = 8  # number of further second moments that are tried for bounds of a radius, after the search for the radius
ASIDE_RADIUS = 1e-7, 1e-5, 1e-3  # relative distances from a radius at which bounds of the radius are tried
# single precision is used in the preconditioner if the radius exceeds the radius of S -> M S M^T by at least this share
SINGLE = 1e-4
SINGLE_RANGE = 1e-30, 1e30  # range of radii for which single precision neither vanishes nor overflows
RESTART = 20  # the smallest number of vectors that GMRES keeps; with so few, GMRES stalls if the radius is close to 1
# GMRES keeps vectors of up to this many entries in all before it restarts, or RESTART vectors if these are more
WHOLE = 2_000_000
EXACT = 1e-11  # largest error of the matrix rebuilt from its eigenvectors, relative to 1 plus the matrix's norm
LOOSE = 1e-4  # largest such error of eigenvectors that only precondition a search
MATRICES = 20  # number of matrices of the state's size in memory, besides the matrices that a search combines
# A radius is compared with 1. If part of the residual stays for ever, 1 is an eigenvalue of the map of the second
# moments, and the radius is compared with WITH_RESTS in place of 1.
WITH_RESTS = 1 + 1e-4
ROUNDED = 16  # number of rounding errors that are allowed for each row of the state

Second = Float[np.ndarray, "s s"]


@dataclass(frozen=True, eq=False)
class RealBasis:
    """The eigenvectors of a real matrix, in real columns; a complex pair of eigenvectors has two columns."""

    values: Complex[np.ndarray, " s"]
    columns: Float[np.ndarray, "s s"]
    inverse: Float[np.ndarray, "s s"]
    first: np.ndarray  # the first column of every pair
    off: float = 0.0  # distance of the rebuilt matrix from the given matrix, relative to 1 plus the given matrix's norm

    @classmethod
    def of(cls, matrix: Float[np.ndarray, "s s"]) -> RealBasis | None:
        """The basis of a matrix; None if its eigenvectors are so nearly dependent that they do not rebuild the
        matrix.
        """
        values, vectors = np.linalg.eig(matrix)
        first = np.flatnonzero(values.imag > 0)  # the next column is the complex conjugate
        columns = vectors.real.copy()
        columns[:, first + 1] = vectors.imag[:, first]
        with suppress(np.linalg.LinAlgError), np.errstate(over="ignore", invalid="ignore"):
            inverse = np.linalg.inv(columns)
            blocks = np.diag(values.real)
            blocks[first, first + 1], blocks[first + 1, first] = values.imag[first], -values.imag[first]
            missed = np.linalg.norm(columns @ blocks @ inverse - matrix) / (1 + np.linalg.norm(matrix))
            if missed <= LOOSE:
                return cls(values.astype(complex), columns, inverse, first, float(missed))
        return None

    def turned(self, second: Second) -> Complex[np.ndarray, "s s"]:
        """The entries of a symmetric matrix in the basis of eigenvectors."""
        second = second.astype(self.inverse.dtype, copy=False)
        turned, k = (self.inverse @ second @ self.inverse.T).astype(self.values.dtype), self.first
        turned[k], turned[k + 1] = (turned[k] - 1j * turned[k + 1]) / 2, (turned[k] + 1j * turned[k + 1]) / 2
        turned = turned.T
        turned[k], turned[k + 1] = (turned[k] + 1j * turned[k + 1]) / 2, (turned[k] - 1j * turned[k + 1]) / 2
        return turned.T

    def spread(self, turned: Complex[np.ndarray, "s s"], level: float) -> Second:
        """The X that solves level X - M X M^T = Y, from the entries of Y in the eigenvectors."""
        inner = self._untwisted(turned / (self.values.dtype.type(level) - self._products)).real
        spread = self.columns @ inner @ self.columns.T
        return (spread + spread.T) / 2

    @cached_property
    def single(self) -> RealBasis:
        """The same basis in single precision."""
        columns, inverse = self.columns.astype(np.float32), self.inverse.astype(np.float32)
        return RealBasis(self.values.astype(np.complex64), columns, inverse, self.first)

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


class Tried:
    """Second moments that were tried in a search: orthonormal, in packed form, with their images under the map.

    `settle` finds the largest eigenvalue of the map in the span of these moments.
    """

    def __init__(self, following: Callable[[Second], Second], size: int) -> None:
        self.following, self.used, self.radius = following, 0, 0.0
        self._before, self._after = np.zeros((2, MOMENTS + FURTHER, size * (size + 1) // 2))
        self.share = np.zeros(0)

    @property
    def before(self) -> Float[np.ndarray, "t d"]:
        """The second moments."""
        return self._before[: self.used]

    @property
    def after(self) -> Float[np.ndarray, "t d"]:
        """The images of the second moments."""
        return self._after[: self.used]

    def add(self, second: Second) -> None:
        """Add the part of these second moments that is orthogonal to all moments before."""
        new = _packed(second)
        for _ in range(2):
            new = new / np.linalg.norm(new)
            new -= (self.before @ new) @ self.before
        new /= np.linalg.norm(new)
        self._before[self.used], self._after[self.used] = new, _packed(self.following(_unpacked(new)))
        self.used += 1

    def settle(self) -> Second:
        """Find the largest eigenvalue of the map in the span of the moments, and return the residual of its
        eigenvector.

        The eigenvalue is stored as `radius`, and the combination of the moments that is the eigenvector as `share`.
        """
        values, vectors = np.linalg.eig(self.before @ self.after.T)
        order = values.real.argsort()[::-1]
        self.radius, share = float(values[order[0]].real), vectors[:, order[0]].real
        if self.used == MOMENTS:
            stay = np.linalg.qr(vectors[:, order[:STAY]].real)[0].T
            self._before[:STAY], self._after[:STAY], self.used = stay @ self.before, stay @ self.after, STAY
            share = stay @ share
        self.share = share / np.linalg.norm(share)
        return _unpacked(self.share @ self.after - self.radius * self.share @ self.before)


@dataclass(frozen=True, eq=False)
class StateMoments:
    """The map of the second moments of a state, its rate per round, and its limit."""

    mean: Float[np.ndarray, "s s"]  # M, the map of the mean
    noise: Callable[[Second], Second] | None  # N, the map from second moments to noise; None: 0
    # whether part of the residual stays for ever: in the null space of H, or at clients that never take part
    rests: bool
    rounds: int = 1  # number of rounds in the map
    # a function that computes the map, if that function takes less work than products with M
    onward: Callable[[Second], Second] | None = None
    # if `onward` applies a part of M as several factors: a bound of the product of the factors' norms
    between: float = 0.0

    def following(self, second: Second) -> Second:
        """The second moments after `rounds` rounds."""
        interruption.check()
        after = self.mean @ second @ self.mean.T if self.onward is None else self.onward(second)
        if self.noise is not None and self.onward is None:
            after += self.noise(second)
        return (after + after.T) / 2

    @cached_property
    def rate(self) -> float:
        """The factor per round of the root mean square; a ValueError if the search for this factor does not end.

        The search gives an estimate, which is moved to the nearest number within `rate_bounds`. The estimate must be
        moved because computed eigenvalues are far from exact where eigenvectors nearly coincide (a Jordan chain).
        """
        return float(np.clip(self._radius[0] ** (0.5 / self.rounds), *self.rate_bounds))

    @cached_property
    def rate_bounds(self) -> tuple[float, float]:
        """A lower and an upper bound of the rate, rounding included.

        The radius of the map is never below the radius of S -> M S M^T. If 1 is between the bounds found so far, the
        second moments that solve S = following(S) + I may show on which side of 1 the radius is. If part of the
        residual stays for ever, `WITH_RESTS` is used in place of 1.

        Source: docs/proofs/random_rounds.md#both-sides-of-a-radius.
        """
        least, most = 0.0, float("inf")
        if self.noise is not None:
            with suppress(ValueError):  # the search for the radius has not ended, or squares overflow float64
                tried = self._radius[1]
                least, most = (least, most) if tried is None else self._beside(tried)
        if least == 0:
            below, above = (float(side) ** 2 for side in radius_bounds(self.mean))
            least, most = below, above if self.noise is None else most
        level = WITH_RESTS if self.rests else 1.0
        if least <= level <= most:
            mean, noise = self.mean / level**0.5, self.noise
            at_level = None if noise is None else lambda second: noise(second) / level
            below, above = StateMoments(mean, at_level, False, between=self.between / level**0.5)._sides_of_rest
            least, most = max(least, level * below), min(most, level * above)
        return float(least ** (0.5 / self.rounds)), float(most ** (0.5 / self.rounds))

    @property
    def grows(self) -> bool:
        """Whether some mean square is known to grow.

        If no part of the residual stays for ever, `grows` is True also if some mean square is only known not to fall.
        """
        return self.rate_bounds[0] > 1 if self.rests else self.rate_bounds[0] >= 1

    @property
    def stable(self) -> bool:
        """Whether every mean square is known to go to 0."""
        return not self.rests and self.rate_bounds[1] < 1

    @property
    def undecided(self) -> bool:
        """True if it is unknown, because of rounding, whether every mean square goes to 0.

        It is False if part of the residual stays for ever.
        """
        return not (self.rests or self.stable or self.grows)

    def _beside(self, tried: Tried) -> tuple[float, float]:
        """A lower and an upper bound of the radius, rounding included; 0 and infinity where none is known.

        Let T be the map divided by the radius, and let Z be a combination of the tried moments for which Z - T(Z) is
        nearly the unit matrix minus a multiple of the eigenvector S. The radius of T is compared with a level. To test
        whether the radius is below a level that is above 1, let X = Z + c S. To test whether the radius is not below a
        level that is below 1, let X = Z - c S. For some c the matrix D = level X - T(X) is then near the unit matrix.
        The code tests whether D and X are positive definite.

        Source: docs/proofs/random_rounds.md#both-sides-of-a-radius.
        """
        unit, known, radius = _packed(np.eye(len(self.mean))), [0.0, float("inf")], tried.radius
        if radius <= 0:
            return known[0], known[1]
        for further in range(FURTHER + 1):
            direction, columns = tried.share @ tried.before, tried.before - tried.after / radius
            left, columns = tried.share @ columns, np.concatenate([columns, direction[None]])
            combined = np.linalg.lstsq(columns @ columns.T, columns @ unit, rcond=1e-14)[0]
            near, image = combined[:-1] @ tried.before, combined @ columns
            for side, sign in ((0, -1), (1, 1)):
                for aside in ASIDE_RADIUS if known[side] in (0.0, float("inf")) else ():
                    c = float(combined[-1]) / aside
                    moments = _unpacked(near + sign * c * direction)
                    driven = _unpacked(image + sign * (aside * near + c * left))
                    size = float(np.abs(combined[:-1]).sum() + abs(c) * np.abs(tried.share).sum())
                    off = self._rounding(radius) * size
                    positive = _definite(moments, off) if sign > 0 else np.diag(moments).min() > -off
                    if positive == (sign > 0) and _definite(driven, off):
                        known[side] = radius * (1 + sign * aside)
                        break
            if (known[0] > 0 and known[1] < float("inf")) or further == FURTHER:
                break
            tried.add(self._spread(_unpacked(unit - image), radius))
            tried.share = np.append(tried.share, 0.0)
        return known[0], known[1]

    def _spread(self, second: Second, level: float) -> Second:
        """A multiple of an X that solves level X - M X M^T = Y exactly or nearly, where Y is `second`."""
        assert self._nearly is not None
        apart = level > self._mean_radius**2 * (1 + SINGLE) and SINGLE_RANGE[0] < level < SINGLE_RANGE[1]
        basis = self._nearly.single if apart else self._nearly
        return basis.spread(basis.turned(second / np.linalg.norm(second)), level).astype(float)

    def _rounding(self, level: float) -> float:
        """The rounding error of X - T(X) / level, where X are second moments and T is their map.

        The error is relative to the norm of X.
        """
        return ROUNDED * len(self.mean) * EPSILON * (1 + self._length / level)

    @cached_property
    def _length(self) -> float:
        """An upper bound of the norm of the map, and of the terms in it that are rounded.

        N maps positive matrices to positive matrices, so the norm of N is the norm of N(I). M is known up to rounding.
        """
        of_noise = 0.0 if self.noise is None else float(np.linalg.norm(self.noise(np.eye(len(self.mean)))))
        return float(np.linalg.norm(self.mean)) ** 2 + self.between**2 + of_noise

    @property
    def _sides_of_rest(self) -> tuple[float, float]:
        """A lower and an upper bound of the radius: 0 and u < 1, or 1 and infinity, or 0 and infinity if neither is
        known.

        Let X be symmetric and D = X - T(X) positive definite, where T is the map. If X is positive definite, T(X) = X -
        D <= u X with u < 1, and the radius is at most u. If X is not, the radius is at least 1, since otherwise X would
        be a sum of T^k(D).
        """
        unknown = 0.0, float("inf")
        with suppress(ValueError, LinAlgError):  # there is too little memory, or no solution
            solved = self._driven_by(np.eye(len(self.mean)), 0.1 / len(self.mean) ** 0.5)
            error = self._rounding(1.0) * float(np.linalg.norm(solved))
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
        """NaN, since it is unknown up to which factor on the server's step the mean square falls."""
        return float("nan")

    def resting(self, driven: Second) -> Second:
        """The S with S = following(S) + driven, if the radius is below 1.

        Raises:
            ValueError: the equation could not be solved to 1e-10, which happens if the radius is close to 1.
        """
        return self._driven_by(driven, PRECISE)

    def _driven_by(self, driven: Second, precise: float) -> Second:
        """The S that solves S = following(S) + driven, up to the relative error `precise`.

        Raises:
            ValueError: the equation could not be solved.
        """
        self._require("what rests of random rounds", RESTART + MATRICES)
        solved, left = np.zeros_like(driven), driven
        for basis in (self._basis, self._basis, None):  # each turn solves for the remainder
            solved = solved + self._nearly_resting(left, basis, precise)
            left = driven + self.following(solved) - solved
            if np.linalg.norm(left) <= precise * np.linalg.norm(driven):
                return solved
        raise ValueError("the stationary mean square is not found: the rounds are nearly unstable")

    def _nearly_resting(self, driven: Second, basis: RealBasis | None, precise: float) -> Second:
        """The S that solves S = following(S) + driven, up to the errors of GMRES and of nearly dependent
        eigenvectors.
        """

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
        dimension = len(driven) * (len(driven) + 1) // 2
        vectors = max(RESTART, min(dimension, WHOLE // driven.size))
        # If the vectors span the whole space, one turn solves the equation. A second turn refines the solution, and
        # further turns would only repeat the rounding.
        turns = 2 if vectors >= dimension else -(-STATIONARY * RESTART // vectors)
        options = {
            "rtol": max(precise / 100, PRECISE),
            "atol": 0.0,
            "restart": vectors,
            "maxiter": turns,
        }
        second = gmres(operator, start, x0=start, **options)[0].reshape(driven.shape)
        return (second + second.T) / 2

    @cached_property
    def _nearly(self) -> RealBasis | None:
        self._require("the rate of random rounds", MATRICES)
        return RealBasis.of(self.mean)

    @property
    def _basis(self) -> RealBasis | None:
        return None if self._nearly is None or self._nearly.off > EXACT else self._nearly

    @cached_property
    def _mean_radius(self) -> float:
        values = np.linalg.eigvals(self.mean) if self.noise is None or self._basis is None else self._basis.values
        return float(np.abs(values).max())

    @cached_property
    def _radius(self) -> tuple[float, Tried | None]:
        """The radius, and the second moments that Davidson's method has tried.

        The second result is None if another method has found the radius.
        """
        size = len(self.mean)
        if self.noise is None:
            return self._mean_radius**2, None
        require_search(size)
        if size * (size + 1) // 2 <= BASIS + 2 or self._nearly is None:
            return self._by_arnoldi(), None
        least, tried = self._mean_radius**2 * (1 + PRECISE), Tried(self.following, size)
        new = np.eye(size)
        for _ in range(TURNS):
            interruption.check()
            tried.add(new)
            left = tried.settle()
            if np.linalg.norm(left) <= PRECISE / 100 * tried.radius:
                return tried.radius, tried
            new = self._spread(left, max(tried.radius, least))
        return self._by_arnoldi(), None

    def _by_arnoldi(self) -> float:
        """The radius by Arnoldi's method, which only applies the map."""
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
                    "the rate of these random rounds was not found, because many second moments fall nearly as slowly "
                    "as the slowest; root_mean_square gives the mean square of any round"
                ) from error
        return float(np.abs(values).max())

    def _require(self, what: str, matrices: int) -> None:
        require(what, lambda state: 8.0 * matrices * state**2, hint=ESTIMATE, state=len(self.mean))


def require_search(state: int) -> None:
    """Refuse the search for the rate of a state with this many numbers if it does not fit the memory."""
    needs = 8.0 * (MOMENTS + FURTHER + MATRICES)
    require("the rate of random rounds", lambda state: needs * state**2, hint=ESTIMATE, state=state)


def _packed(second: Second) -> Float[np.ndarray, " d"]:
    """The upper triangle of a symmetric matrix, row by row; entries off the diagonal are multiplied by the root
    of 2.
    """
    packed = 2**0.5 * np.concatenate([row[place:] for place, row in enumerate(second)])
    packed[np.cumsum([0, *range(len(second), 1, -1)])] = np.diag(second)
    return packed


def _unpacked(packed: Float[np.ndarray, " d"]) -> Second:
    size, start = int((2 * len(packed)) ** 0.5), 0
    second = np.zeros((size, size))
    for place, row in enumerate(second):
        row[place:] = packed[start : start + size - place]
        start += size - place
    diagonal = np.diag(second).copy()
    second *= 2**-0.5
    second += second.T
    second[np.diag_indices(size)] = diagonal
    return second


def _definite(matrix: Second, off: float) -> bool:
    """Whether every matrix that differs from this one by at most `off` in norm is known to be positive definite.

    A computed Cholesky factor is the exact factor of another matrix. The distance between the two matrices is at most
    the trace times (s + 1) rounding errors, where s is the number of rows.
    """
    size = len(matrix)
    off = off + (size + 2) * EPSILON * float(np.abs(np.diag(matrix)).sum())
    with suppress(LinAlgError, ValueError):
        cholesky(matrix - off * np.eye(size), lower=True, overwrite_a=True)
        return True
    return False


PRECISE = 1e-10  # relative error of rates and limits
GAIN_ERROR = 1e-9  # relative error of a gain by Arnoldi's method, in addition to the error of the slowest mode
ASIDE = 1e-9, 1e-7, 1e-5, 1e-3  # relative distances from the rate at which proofs of lower and upper bounds are tried
DENSE = 8  # the largest number of modes for which the map of their second moments is formed as a matrix
STATIONARY = 200  # number of restarts of the solver of the stationary equation
# the largest number of doublings of a level or factor until the gain is at most 1; this many doublings span the range
# of float64
DOUBLINGS = 2100
COLD, WARM = 20, 8  # number of vectors in a search for an eigenvalue: without a start vector, and with a start vector
ESTIMATE = "ntkfl.sampled_rounds has estimates with their errors"  # advice where the exact moments do not fit
POWERS = 10_000  # iterations of the power method, if Arnoldi's method does not converge


@dataclass(frozen=True, eq=False)
class MeanSquare:
    """The long-run behaviour of the residual's mean square, from the modes of a round."""

    round: LinearRound  # the mean round, which must have a `server`
    nu: Float[np.ndarray, " r"]  # eigenvalues of H u(H_D) at server rate 1, ascending, one for each mode
    modes: Float[np.ndarray, "n r"]  # F, (n, r)
    draws: Noise | None  # the noise of the mean displacement; None: the rounds are not random
    gains: dict[tuple[float, float], float] = field(default_factory=dict)  # gains computed so far
    # the last eigenvector that was found; the next search starts from it
    warm: list[np.ndarray] = field(default_factory=list)

    @classmethod
    def of(cls, gram: np.ndarray, round: LinearRound, noise: Noise) -> MeanSquare:
        """The mean square from the modes of a round."""
        values, basis = np.linalg.eigh(gram)
        kept = values > len(gram) * np.finfo(float).eps * values[-1]
        root = basis[:, kept] * np.sqrt(values[kept])
        product = root.T @ noise.blocks.apply(round.mean_response, root)
        nu, turned = np.linalg.eigh((product + product.T) / 2)
        return cls(round, nu, root @ turned, None if noise.nothing_drawn else noise)

    @property
    def rests(self) -> bool:
        """Whether part of the residual lies in the null space of H, where no round changes it."""
        return len(self.nu) < len(self.modes)

    @cached_property
    def rate(self) -> float:
        """Root of the spectral radius of the map of second moments; at least 1 if part of the residual stays for
        ever.
        """
        least = 1.0 if self.rests else 0.0
        if not len(self.nu):
            return least
        square = self._mean_radius**2
        if self.draws is not None:
            low = square * (1 + 1e-9)
            if self._gain(1.0, low) > 1:
                high = self._first_small(lambda level: self._gain(1.0, level), 2 * low if low >= 1 else 1.0, 2.0)
                from scipy.optimize import brentq  # imported here, since it takes a third of a second

                square = float(brentq(lambda level: 1 - 1 / self._gain(1.0, level), low, high, rtol=PRECISE))
        return max(float(np.sqrt(square)), least)

    @cached_property
    def rate_bounds(self) -> tuple[float, float]:
        """A lower and an upper bound of the rate, rounding included.

        The radius of the map of second moments is known to be at least the square of the lower bound, and at most the
        square of the upper bound.
        """
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
        """The result of `_side` at the level 1, for the part of the residual that weights can change."""
        if not len(self.nu):
            return -1
        return 1 if self.nu[0] < -self._nu_error else 0 if self.nu[0] <= self._nu_error else self._side(1.0)

    def _side(self, level: float) -> int:
        """-1 if the radius of the map of second moments is known to be below the level, 1 if it is known to be at least
        the level, and 0 if neither is known.
        """
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
        """Whether some mean square is known not to fall, for the part of the residual that weights can change."""
        return self._at_one > 0

    @property
    def stable(self) -> bool:
        """Whether every mean square is known to go to 0."""
        return not self.rests and self._at_one < 0

    @property
    def undecided(self) -> bool:
        """True if it is unknown, because of rounding, whether the mean square falls.

        The answer is about the part of the residual that weights can change.
        """
        return self._at_one == 0

    @cached_property
    def limit(self) -> float:
        """The factor on the server's step above which some mean square grows.

        It is 0 if some mean square grows at every factor.
        """
        if not len(self.nu):
            return float("inf")
        if self.nu[0] <= 0:
            return 0.0
        rate = 1.0 if self.round.server_rate is None else self.round.server_rate
        mean = self.round.limit / (rate * float(self.nu[-1]))
        if self.draws is None:
            return mean
        # with the factor g, a round maps the second moments C to C - g L1(C) + g^2 L2(C), and the limit is g = 1 /
        # radius(L1^-1 L2)
        if not self.round.memory:
            both, pairs = np.outer(self.nu, self.nu), np.add.outer(self.nu, self.nu)
            return 1 / (rate * self._largest(lambda second: (both * second + self._noise(second)) / pairs))
        high = mean * (1 - 1e-9)
        if self._gain(high, 1.0) <= 1:
            return mean
        low = self._first_small(lambda factor: self._gain(factor, 1.0), high / 2, 0.5)
        from scipy.optimize import brentq

        return float(brentq(lambda factor: np.log(self._gain(factor, 1.0)), low, high, rtol=PRECISE))

    def _first_small(self, gain: Callable[[float], float], start: float, by: float) -> float:
        """The first of start, start * by, start * by^2, ... for which the gain is at most 1."""
        level = start
        for _ in range(DOUBLINGS):
            interruption.check()
            if level == 0 or not np.isfinite(level):
                break
            if gain(level) <= 1:
                return level
            level *= by
        raise OverflowError("the mean square grows beyond float64; try smaller steps")

    def resting(self, residual: Float[np.ndarray, " n"], blocks: Blocks) -> Float[np.ndarray, " n"]:
        """The limit of the mean of this residual, if the mean square does not grow."""
        if not self.rests:
            return np.zeros_like(residual)
        displacement = blocks.apply(self.round.mean_response, residual[:, None])[:, 0]
        return residual - self.modes @ ((self.modes.T @ displacement) / self.nu)

    def stationary_trace(self, rest: Float[np.ndarray, " n"], gaussian: float) -> float:
        """The trace of the covariance of the residual, as t goes to infinity.

        With the modes F, this covariance is F S F^T, where S = h(1) (F^T Noise(F S F^T + rest rest^T) F + s^2 I), with
        the product by h(1) taken entry by entry. Here `rest` is the part of the residual that no round changes, and s
        is `gaussian`.

        Source: docs/proofs/random_rounds.md#gaussian-noise.

        Raises:
            ValueError: the equation could not be solved to 1e-10, which happens if the rounds are nearly unstable.
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
                "the stationary mean square is not found: with these random draws the rounds are nearly unstable"
            )
        return self._trace(second.reshape(driven.shape))

    def _trace(self, second: np.ndarray) -> float:
        """The trace of F S F^T, where S is `second`."""
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
        """The gain at this level: the radius of S -> h(level) N(S), with the server's step times `factor`.

        The level must be above max |B_i|^2.
        """
        if (factor, level) not in self.gains:
            becomes = self._response_to_noise(factor, level)
            self.gains[factor, level] = self._largest(lambda second: becomes * self._noise(second))
        return self.gains[factor, level]

    def _response_to_noise(self, factor: float, level: float) -> Float[np.ndarray, "r r"]:
        """h(level), the response to the noise of each pair of modes."""
        onward, jump = self._round_of_modes(factor)
        parts, count = len(jump), len(self.nu)
        driven, unit = np.outer(jump, jump).reshape(-1, 1), level * np.eye(parts**2)
        becomes = np.empty((count, count))
        for row, mode in zip(becomes, onward, strict=True):  # all pairs at once would need parts^4 matrices
            interruption.check()
            pairs = np.einsum("ab,jcd->jacbd", mode, onward).reshape(count, parts**2, parts**2)
            row[:] = np.linalg.solve(unit - pairs, np.broadcast_to(driven, (count, parts**2, 1)))[:, 0, 0]
        return becomes

    def _largest(self, function: Callable[[np.ndarray], np.ndarray]) -> float:
        """The radius of a map that maps positive matrices to positive matrices.

        This radius is the map's largest eigenvalue, which is real.
        """
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
        # the sign is chosen so that the vector stands for a positive matrix
        self.warm.append(vectors[:, 0].real * np.sign(vectors[:: count + 1, 0].real.sum()))
        return float(values[0].real)


def _by_powers(product: Callable[[np.ndarray], np.ndarray], vector: np.ndarray) -> float:
    """The largest eigenvalue by the power method; `vector` must not be orthogonal to the eigenvector."""
    value = 0.0
    for _ in range(POWERS):
        vector = vector / np.linalg.norm(vector)
        following = product(vector)
        before, value = value, float(vector @ following)
        if abs(value - before) <= PRECISE / 10 * abs(value):
            break
        vector = following
    return value
