"""The outer eigenvalues of a round that remembers one vector, found as the outermost zeros of a symmetric matrix
function.

The round maps of SCAFFOLD and FedDyn have 2n rows and are not symmetric. Eliminating the residual leaves n rows: z is
an eigenvalue of the round map exactly where

    T(w) = H / N + s w (w + p) / (w + b),   w = z - 1,

is singular, for a positive definite H; at w = -b, (w + b) T(w) takes the place of T(w). Here s > 0, p > 0 and
0 < b <= 1 are functions of H_D, which holds the clients' own blocks of H and is 0 elsewhere.

A radius can be computed beyond which every eigenvalue of the round map is real (`OuterSpectrum.radius`). The number of
eigenvalues of the round map beyond z is the number of negative eigenvalues of T for z > radius, and the number of
positive eigenvalues of T for z < -radius. A Cholesky factorisation shows whether any eigenvalue of the round map is
beyond z. If none is beyond the radius, and b is one number, `pair_radius` looks for a complex pair.

Let b be one number, and let a complex pair be outermost. (w + b) s^-1/2 T(w) s^-1/2 is Q(w) = w^2 + w D + A with D = p
+ G, A = b G and G = s^-1/2 (H / N) s^-1/2. Arnoldi's method finds zeros of Q and may miss some. So a proof is needed
that no zero is farther out. The proof first removes the zeros that were found. These zeros are the eigenvalues of a
real matrix Theta, and a real matrix X is made of their vectors; then X Theta^2 + D X Theta + A X = 0. Let L(w) = w X
Theta - A X. With any symmetric Y, Q(w) - L(w) Y L(w)^T = w^2 M + w D' + A' has all other zeros of Q. Three positive
definite matrices then show that this polynomial has no zero with |1 + w| >= r.

Any Y for which this succeeds gives a proof. Y is chosen so that it acts as friction, which moves zeros inward: with an
orthonormal V near X, D' should be D + c V V^T, and M and A' should not change. If X lay within the span of V, Y = c
W^-1 [[0, J], [J, 0]] W^-T would have this effect, where W = [V^T X; V^T X Theta] and J = (V^T A V)^-1 / 2. The code
takes this Y.

Proof: docs/proofs/linear_methods.md#outer-eigenvalues. Such updates of symmetric quadratic polynomials without
spillover are due to Carvalho, Datta, Lin and Wang (2006); only a summary of their paper was read.
"""

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from jaxtyping import Complex, Float
from scipy.linalg import LinAlgError, lu_factor, lu_solve, solve_triangular
from scipy.sparse.linalg import ArpackError, LinearOperator, eigs

from ntkfl import interruption, lapack
from ntkfl.limit.round_modes import ClientModes

ROWS = 16  # smallest number of rows of Q for each zero that is looked for; with fewer rows a dense solver is as fast
NEAREST = (24, 64)  # numbers of zeros to search for; the proof removes the outer quarter of them, the outer half or all
# c is the first number times max(1 - r^2 - l, 0), plus the second number times 1 - r^2. Here r is the largest |1 + w|
# that was found, and l the smallest eigenvalue of D - A.
FRICTION = 1.5, 0.01
RESIDUAL = 1e-14  # largest residual of a zero and its vector, relative to 1 plus the norm of D
UNPROVED = 1e-12  # largest |R W^-1| relative to 1 plus the norm of D, where R = X Theta^2 + D X Theta + A X
# A search starts this far beyond `radius`. Zeros that a proof does not remove are at least this much farther in than
# the outermost pair.
MARGIN = 1e-9

Square = Float[np.ndarray, "n n"]


def pair_radius(damping: Square, stiffness: Square) -> float | None:
    """The largest |1 + w| over the zeros w of w^2 + w D + A, if a complex pair is proved to attain this value;
    otherwise None.

    The value has the accuracy of a dense solver. The proof leaves a gap: a zero that the search returned twice may hide
    another zero, within a distance of |R W^-1| and farther out. This distance is about 1e-12 (1 + |D|). R is the
    residual of the equation of X and Theta in the docstring of this module, which also defines W.
    """
    tried = [wanted for wanted in NEAREST if ROWS * wanted <= len(damping)]
    if not tried:
        return None
    slowest = lapack.lowest_vector(np.asfortranarray(damping - stiffness))
    half, squared = slowest @ damping @ slowest / 2, slowest @ stiffness @ slowest
    if squared <= half**2:
        return None
    shift = complex(-half, 1.001 * np.sqrt(squared - half**2))  # near a zero, but not equal to it
    inverse = _inverse(damping, stiffness, shift)
    for wanted in tried:
        nearest = _nearest(damping, stiffness, shift, inverse, wanted)
        if nearest is None:
            return None
        w, vectors = nearest
        radius = float(np.abs(1 + w[0]))
        excess = 1 - radius**2 - (2 * half - squared)
        extra = FRICTION[0] * max(excess, 0) + FRICTION[1] * (1 - radius**2)
        for count in (wanted // 4, wanted // 2, wanted):
            if others_within(radius - MARGIN, damping, stiffness, w[:count], vectors[:, :count], extra):
                return radius
    return None


def others_within(
    radius: float,
    damping: Square,
    stiffness: Square,
    w: Complex[np.ndarray, " m"],
    vectors: Complex[np.ndarray, "n m"],
    extra: float,
) -> bool:
    """Whether all other zeros of w^2 + w D + A have |1 + w| < radius.

    The other zeros are all but the given ones and their conjugates. The answer False only means that no proof
    succeeded.
    """
    # each vector times the phase that makes it as real as possible
    turned = vectors * np.exp(-0.5j * np.angle(np.sum(vectors**2, axis=0)))
    turned /= np.linalg.norm(turned, axis=0)
    count, moved = len(w), turned * w
    x, xt, xtt = (np.hstack([part.real, part.imag]) for part in (turned, moved, moved * w))
    v = np.linalg.svd(x, full_matrices=False)[0][:, :count]
    try:
        back = np.linalg.inv(np.vstack([v.T @ x, v.T @ xt]))
        middle = extra / 2 * np.linalg.inv(v.T @ stiffness @ v)
    except LinAlgError:
        return False
    left_over = xtt + damping @ xt + stiffness @ x
    if not np.linalg.norm(left_over @ back) <= UNPROVED * (1 + np.linalg.norm(damping)):
        return False
    middle = (middle + middle.T) / 2
    first, second = np.split(xt @ back, 2, axis=1)  # L(w) = first + w second
    first_rest, second_rest = np.split(stiffness @ (x @ back), 2, axis=1)
    mass = np.eye(len(damping)) - _both(first @ middle, second)
    damping = damping + _both(first_rest @ middle, second) + _both(first @ middle, second_rest)
    stiffness = stiffness - _both(first_rest @ middle, second_rest)
    return (
        _positive(damping - stiffness - (1 - radius**2) * mass)
        and _positive((radius - 1) ** 2 * mass + (radius - 1) * damping + stiffness)
        and _positive((radius + 1) ** 2 * mass - (radius + 1) * damping + stiffness)
    )


def _both(left: np.ndarray, right: np.ndarray) -> np.ndarray:
    product = left @ right.T
    return product + product.T


def _positive(matrix: np.ndarray) -> bool:
    """Whether the matrix is positive definite, by a margin that exceeds the usual rounding."""
    interruption.check()
    matrix[np.diag_indices(len(matrix))] -= len(matrix) * np.finfo(float).eps * np.linalg.norm(matrix)
    return lapack.cholesky(np.asfortranarray(matrix))


def _inverse(damping: Square, stiffness: Square, shift: complex) -> Callable[[np.ndarray], np.ndarray]:
    """Returns the function that maps v to Q(shift)^-1 v."""
    matrix = np.array(stiffness + shift * damping, order="F")
    matrix[np.diag_indices(len(matrix))] += shift**2
    factors = lu_factor(matrix, overwrite_a=True, check_finite=False)
    return lambda vector: lu_solve(factors, vector, check_finite=False)


def _nearest(
    damping: Square, stiffness: Square, shift: complex, inverse: Callable[[np.ndarray], np.ndarray], wanted: int
) -> tuple[np.ndarray, np.ndarray] | None:
    """The zeros above the real line that are nearest to the shift, and their vectors; the outermost zero is first."""
    n = len(damping)

    def solve(state: np.ndarray) -> np.ndarray:
        interruption.check()
        position, velocity = state[:n], state[n:]
        moved = -inverse(velocity + _product(damping, position) + shift * position)
        return np.concatenate([moved, position + shift * moved])

    start = np.random.default_rng(0).standard_normal(2 * n).astype(complex)
    try:
        distance, states = eigs(LinearOperator((2 * n, 2 * n), solve, dtype=complex), wanted, v0=start, tol=1e-13)
    except ArpackError:
        return None
    w, vectors = shift + 1 / distance, states[:n] / np.linalg.norm(states[:n], axis=0)
    rubbing, pulling = _product(damping, vectors), _product(stiffness, vectors)
    one, two, three = (np.sum(vectors * part, axis=0) for part in (vectors, rubbing, pulling))
    # a step towards the zero of x^T Q(w) x for each vector x
    w = w - (one * w**2 + two * w + three) / (2 * one * w + two)
    above = w.imag > MARGIN
    w, vectors, rubbing, pulling = w[above], vectors[:, above], rubbing[:, above], pulling[:, above]
    residual = np.linalg.norm(vectors * w**2 + rubbing * w + pulling, axis=0)
    if len(w) == 0 or not residual.max() <= RESIDUAL * (1 + np.linalg.norm(damping)):
        return None
    outer = np.argsort(-np.abs(1 + w))
    return w[outer], vectors[:, outer]


def _product(matrix: np.ndarray, vectors: np.ndarray) -> np.ndarray:
    """A real matrix times complex vectors, without a complex copy of the matrix."""
    return matrix @ vectors.real + 1j * (matrix @ vectors.imag)


# width of the interval that encloses an eigenvalue, times w if w > 1; the width is so small because 1 - z may be as
# small as 1e-10
CLOSE = 1e-15
ROUNDING = 1e-14  # relative error of b and of p; if b - p cancels, the root of this error decides the radius
NEAR = 1e-3  # the next Cholesky factor is tried at this share of the interval, from its lower end
INVERSE = 3  # steps of inverse iteration from one eigenvector to the next


@dataclass(frozen=True, eq=False)
class OuterSpectrum:
    """The function T of a round, given by s, p and b at the eigenvalues of the clients' blocks."""

    scale: Float[np.ndarray, " n"]  # s, (n,)
    zero: Float[np.ndarray, " n"]  # p, (n,)
    pole: Float[np.ndarray, " n"]  # b, (n,)

    @property
    def known(self) -> bool:
        """Whether s, p and b are in the ranges that T needs.

        Local steps beyond the clients' limit may leave these ranges.
        """
        numbers = np.stack([self.scale, self.zero, self.pole])
        return bool(np.isfinite(numbers).all() and numbers.min() > 0 and self.pole.max() <= 1)

    @property
    def evened(self) -> Float[np.ndarray, " n"]:
        """(2 - p) / (2 - b). The second term of T, divided by this number, is -2 s at w = -2."""
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
        trace = float(np.trace(product))  # an upper bound of the norm of `product`
        least = lapack.smallest_eigenvalue(np.asfortranarray(product))
        least -= len(product) * np.finfo(float).eps * trace
        return min(largest, max(float(np.sqrt(max(1 - least, 0))), float(1 - self.pole[0])))

    def largest(self, gram: Float[np.ndarray, "n n"], clients: ClientModes) -> float | None:
        """The spectral radius of the round map; None if no radius is proved.

        If the spectral radius is beyond `radius`, it is enclosed to 1e-15, or to 1e-15 |w| if |w| > 1. Rounding moves
        the spectral radius about as much as n roundings of H, or a dense solver, would. Near 1 this error is some n eps
        cond(H) times 1 - z. If H is singular, 1 - z has no correct digit.
        """
        if not self.known:
            return None
        turned = clients.turned(gram) / len(clients.members)
        with np.errstate(over="ignore", invalid="ignore"):
            try:
                edge = 1 + MARGIN + self.radius(turned)
                positive = _last_zero(turned, self.values, edge - 2, 0.0)  # T(0) is H / N, so no eigenvalue is above 1
                edge = edge if positive is None else 2 + positive
                negative = _last_zero(-turned, lambda v: -self.values(-v), edge, edge)
            except (OverflowError, LinAlgError):
                return None
        if negative is not None:
            return negative - 1
        return self._pair_radius(turned) if positive is None else 1 + positive

    def side_of_one(self, gram: Float[np.ndarray, "n n"], clients: ClientModes) -> int | None:
        """Which side of 1 the spectral radius of the round map is on, for a positive definite H.

        The result is -1 where the radius is known to be below 1, and 1 where it is at least 1. The result is 0 where
        rounding leaves the side open, and None where complex eigenvalues may be as large as 1.

        No eigenvalue is 1 or above. So the radius is below 1 exactly if all eigenvalues are above -1. All eigenvalues
        are above -1 exactly if -T(-2) is positive definite.
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
        """The matrix s^-1/2 (H / N) s^-1/2."""
        root = 1 / np.sqrt(self.scale)
        product = turned * root * root[:, None]
        return (product + product.T) / 2

    def values(self, w: float) -> Float[np.ndarray, " n"]:
        """The values s w (w + p) / (w + b) at the eigenvalues q."""
        return self.scale * w * ((w + self.zero) / (w + self.pole))


def _last_zero(
    matrix: Float[np.ndarray, "n n"], values: Callable[[float], np.ndarray], low: float, first: float
) -> float | None:
    """The largest w > low at which matrix + diag(values(w)) is singular; None if there is none.

    The matrix must increase in w. At the upper end of the enclosing interval it has a Cholesky factor. At the lower end
    it has none, or a Rayleigh quotient is 0.

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
    """The Cholesky factor of matrix + diag(values(w)), or None if there is none."""
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
    """The zero of the vector's Rayleigh quotient between `low` and `high`.

    Returns `low` if the quotient does not rise from a negative to a positive value.
    """
    constant, weights = vector @ matrix @ vector, vector**2

    def quotient(w: float) -> float:
        return float(constant + weights @ values(w))

    if not quotient(low) < 0 < quotient(high):
        return low
    from scipy.optimize import brentq  # imported here, since it takes a third of a second

    return float(brentq(quotient, low, high, xtol=CLOSE / 100))
