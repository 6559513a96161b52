"""The outer eigenvalues of a round that remembers one vector, as all zeros of a symmetric matrix function.

The round maps of SCAFFOLD and FedDyn have 2n rows and are not symmetric. Eliminating the residual leaves n rows: z is
an eigenvalue where

    T(w) = H / N + s w (w + p) / (w + b),   w = z - 1,

is singular; s > 0, p > 0 and 0 < b <= 1 are functions of H_D.

Beyond `radius` every eigenvalue of the round map is real. T has as many negative eigenvalues at z > radius, or positive
eigenvalues at z < -radius, as the round map has eigenvalues beyond z. A Cholesky factorisation shows whether there are
any. If there are none, and b is one number, `complex_pairs` looks for a complex pair.
Proof: docs/proofs/linear_methods.md#outer-eigenvalues.
"""

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from jaxtyping import Float
from scipy.linalg import LinAlgError, solve_triangular

from ntkfl import interruption, lapack
from ntkfl.limit.complex_pairs import pair_radius
from ntkfl.limit.round_modes import ClientModes

CLOSE = 1e-15  # width of the eigenvalue's enclosure, times w if w > 1; 1 - z may be as small as 1e-10
ROUNDING = 1e-14  # relative error of b and of p; if b - p cancels, the root of this error decides the radius
MARGIN = 1e-9  # an eigenvalue at most this far beyond `radius` is left out of the search
NEAR = 1e-3  # the next factor is tried at this share of the interval, from its lower end
INVERSE = 3  # steps of inverse iteration from one eigenvector to the next


@dataclass(frozen=True, eq=False)
class OuterSpectrum:
    """T of a round, given by s, p and b at the clients' eigenvalues."""

    scale: Float[np.ndarray, " n"]  # s, (n,)
    zero: Float[np.ndarray, " n"]  # p, (n,)
    pole: Float[np.ndarray, " n"]  # b, (n,)

    @property
    def known(self) -> bool:
        """Whether s, p and b are in the ranges that T needs; local steps beyond the clients' limit may break them."""
        numbers = np.stack([self.scale, self.zero, self.pole])
        return bool(np.isfinite(numbers).all() and numbers.min() > 0 and self.pole.max() <= 1)

    @property
    def evened(self) -> Float[np.ndarray, " n"]:
        """(2 - p) / (2 - b): divided by this number, the second term of T is -2 s at w = -2."""
        return (2 - self.zero) / (2 - self.pole)

    def radius(self, turned: Float[np.ndarray, "n n"]) -> float:
        """A radius beyond which all eigenvalues of the round map are real."""
        lost = ROUNDING * (self.pole + self.zero)
        discs = np.sqrt(self.pole * np.maximum(self.pole - self.zero + lost, 0))
        largest = float((1 - self.pole + discs).max())
        if np.ptp(self.pole) > 0:
            return largest
        product = (1 - self.pole[0]) * self._between_roots(turned)
        product[np.diag_indices(len(product))] += self.zero
        trace = float(np.trace(product))  # an upper bound of the norm of the product
        least = lapack.smallest_eigenvalue(np.asfortranarray(product))
        least -= len(product) * np.finfo(float).eps * trace
        return min(largest, max(float(np.sqrt(max(1 - least, 0))), float(1 - self.pole[0])))

    def largest(self, gram: Float[np.ndarray, "n n"], clients: ClientModes) -> float | None:
        """The spectral radius of the round map; None if it is not proved.

        Beyond `radius` it is enclosed to 1e-15, or 1e-15 |w| if |w| > 1. Rounding moves it about as much as n roundings
        of H, or a dense solver, would. Near 1 this error is some n eps cond(H) of 1 - z; if H is singular, 1 - z has no
        correct digit.
        """
        if not self.known:
            return None
        turned = clients.turned(gram) / len(clients.members)
        with np.errstate(over="ignore", invalid="ignore"):
            try:
                edge = 1 + MARGIN + self.radius(turned)
                positive = _last_zero(turned, self.values, edge - 2, 0.0)  # T(0) = H / N: no eigenvalue is above 1
                edge = edge if positive is None else 2 + positive
                negative = _last_zero(-turned, lambda v: -self.values(-v), edge, edge)
            except (OverflowError, LinAlgError):
                return None
        if negative is not None:
            return negative - 1
        return self._pair_radius(turned) if positive is None else 1 + positive

    def side_of_one(self, gram: Float[np.ndarray, "n n"], clients: ClientModes) -> int | None:
        """-1 where the radius of the round map is known to be below 1, for a positive definite H; 1: at least 1.

        No eigenvalue is 1 or above. All eigenvalues are above -1 exactly if -T(-2) is positive definite. The result is
        0 where rounding leaves this open, and None where complex eigenvalues may be as large.
        """
        if not self.known:
            return None
        turned = clients.turned(gram) / len(clients.members)
        try:
            if not self.radius(turned) < 1 - MARGIN:
                return None
        except (OverflowError, LinAlgError):
            return None
        size = float(np.linalg.norm(turned)) + 2 * float((self.scale * (2 + self.zero)).max())
        error = (len(turned) * np.finfo(float).eps + 4 * ROUNDING) * size
        if _factor(-turned, lambda w: -self.values(w) - error, -2.0) is not None:
            return -1
        return 1 if _factor(-turned, lambda w: -self.values(w) + error, -2.0) is None else 0

    def _pair_radius(self, turned: Float[np.ndarray, "n n"]) -> float | None:
        if np.ptp(self.pole) > 0:
            return None
        damping = self._between_roots(turned)
        stiffness = self.pole[0] * damping
        damping[np.diag_indices(len(damping))] += self.zero
        radius = pair_radius(damping, stiffness)
        return None if radius is None or radius <= 1 - self.pole[0] else radius

    def _between_roots(self, turned: Float[np.ndarray, "n n"]) -> Float[np.ndarray, "n n"]:
        """s^-1/2 H / N s^-1/2."""
        root = 1 / np.sqrt(self.scale)
        product = turned * root * root[:, None]
        return (product + product.T) / 2

    def values(self, w: float) -> Float[np.ndarray, " n"]:
        """s w (w + p) / (w + b)."""
        return self.scale * w * ((w + self.zero) / (w + self.pole))


def _last_zero(
    matrix: Float[np.ndarray, "n n"], values: Callable[[float], np.ndarray], low: float, first: float
) -> float | None:
    """The largest w > low at which matrix + diag(values(w)), increasing in w, is singular; None: there is none.

    At the upper end of the enclosing interval the matrix has a Cholesky factor; at the lower end it has none, or a
    Rayleigh quotient is 0.

    Raises:
        OverflowError: no float64 is an upper end.
    """
    if _factor(matrix, values, low) is not None:
        return None
    high, step, near = max(first, low + CLOSE), CLOSE, NEAR
    vector = np.random.default_rng(0).standard_normal(len(matrix))
    while (factor := _factor(matrix, values, high)) is None:
        interruption.check()
        low, high, step = high, high + step, 8 * step
        if not np.isfinite(high):
            raise OverflowError("there is no Cholesky factor at any float64")
    while high - low > (close := CLOSE * max(1.0, high)):
        interruption.check()
        if factor is not None:
            vector = _towards_smallest(factor, vector)
            below = _rayleigh_zero(matrix, values, vector, low, high)
            low, near = max(low, below), NEAR if below > low else 0.5
        middle = low + max(near * (high - low), close / 2)
        factor = _factor(matrix, values, middle)
        low, high, near = (middle, high, 0.5) if factor is None else (low, middle, near)
    return (low + high) / 2


def _factor(matrix: np.ndarray, values: Callable[[float], np.ndarray], w: float) -> np.ndarray | None:
    """The Cholesky factor at w, or None."""
    interruption.check()
    shifted = np.array(matrix, order="F")
    shifted[np.diag_indices(len(shifted))] += values(w)
    return shifted if lapack.cholesky(shifted) else None


def _towards_smallest(factor: np.ndarray, vector: np.ndarray) -> np.ndarray:
    for _ in range(INVERSE):
        vector = solve_triangular(factor, vector, lower=True, check_finite=False)
        vector = solve_triangular(factor, vector, lower=True, trans="T", check_finite=False)
        vector = vector / np.linalg.norm(vector)
    return vector


def _rayleigh_zero(
    matrix: np.ndarray, values: Callable[[float], np.ndarray], vector: np.ndarray, low: float, high: float
) -> float:
    """The zero of the vector's Rayleigh quotient between `low` and `high`; `low` if it does not go from - to +."""
    constant, weights = vector @ matrix @ vector, vector**2

    def quotient(w: float) -> float:
        return float(constant + weights @ values(w))

    if not quotient(low) < 0 < quotient(high):
        return low
    from scipy.optimize import brentq  # here, since the import takes a third of a second

    return float(brentq(quotient, low, high, xtol=CLOSE / 100))
