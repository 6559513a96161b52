"""The spectral radius of a round that remembers one vector, where a complex pair is outermost: a search and a proof.

Let b be one number. The T of `outer_spectrum`, between two factors s^-1/2 and times w + b, is Q(w) = w^2 + w D + A with
D = p + G, A = b G and G = s^-1/2 (H / N) s^-1/2. Arnoldi's method finds zeros of Q and may miss some. The proof that no
zero is farther out first removes the zeros that were found. With X T^2 + D X T + A X = 0, L(w) = w X T - A X and any
symmetric Y, Q(w) - L(w) Y L(w)^T = w^2 M + w D' + A' has all other zeros of Q, and three positive definite matrices
show that it has none with |1 + w| >= r.

Any Y for which this succeeds is a proof. Y is chosen as friction, which moves zeros inward: with an orthonormal V near
X, D' should be D + c V V^T, and M and A' should not change. If X lay within V, Y = c W^-1 [[0, J], [J, 0]] W^-T would
do this, where W = [V^T X; V^T X T] and J = (V^T A V)^-1 / 2. This Y is taken.

Proof: docs/proofs/linear_methods.md#outer-eigenvalues. Such updates of symmetric quadratic polynomials without
spillover are due to Carvalho, Datta, Lin and Wang (2006); only a summary of their paper was read.
"""

from collections.abc import Callable

import numpy as np
from jaxtyping import Complex, Float
from scipy.linalg import LinAlgError, lu_factor, lu_solve
from scipy.sparse.linalg import ArpackError, LinearOperator, eigs

from ntkfl import interruption, lapack

ROWS = 16  # rows of Q for each zero that is looked for; with fewer a dense solver is as fast
NEAREST = (24, 64)  # numbers of zeros to search for; the proof removes the outer quarter, half or all of them
FRICTION = 1.5, 0.01  # c, as multiples of the outermost zero's friction less the least one, or of its whole friction
RESIDUAL = 1e-14  # residual of a zero and its vector, over the norm of D and 1
UNPROVED = 1e-12  # over the norm of D and 1: |R W^-1|, where R is the residual of X T^2 + D X T + A X
MARGIN = 1e-9  # relative margin by which all other zeros are proved to be farther in

Square = Float[np.ndarray, "n n"]


def pair_radius(damping: Square, stiffness: Square) -> float | None:
    """The largest |1 + w| over the zeros w of w^2 + w D + A, if a complex pair has it; None if that is not proved.

    The value has the accuracy of a dense solver. The proof cannot exclude a zero that lies farther out and within
    |R W^-1|, about 1e-12 (1 + |D|), of a zero that the search returned twice.
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
    """Whether all zeros of w^2 + w D + A but these and their conjugates have |1 + w| < radius.

    False means: not proved.
    """
    turned = vectors * np.exp(-0.5j * np.angle(np.sum(vectors**2, axis=0)))  # as real as a phase can make them
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
    """Whether the matrix is positive definite by a margin above the usual rounding."""
    interruption.check()
    matrix[np.diag_indices(len(matrix))] -= len(matrix) * np.finfo(float).eps * np.linalg.norm(matrix)
    return lapack.cholesky(np.asfortranarray(matrix))


def _inverse(damping: Square, stiffness: Square, shift: complex) -> Callable[[np.ndarray], np.ndarray]:
    """The map v -> Q(shift)^-1 v."""
    matrix = np.array(stiffness + shift * damping, order="F")
    matrix[np.diag_indices(len(matrix))] += shift**2
    factors = lu_factor(matrix, overwrite_a=True, check_finite=False)
    return lambda vector: lu_solve(factors, vector, check_finite=False)


def _nearest(
    damping: Square, stiffness: Square, shift: complex, inverse: Callable[[np.ndarray], np.ndarray], wanted: int
) -> tuple[np.ndarray, np.ndarray] | None:
    """The zeros above the real line that are nearest to the shift, with their vectors, outermost first."""
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
    w = w - (one * w**2 + two * w + three) / (2 * one * w + two)  # a step towards the zero of x^T Q(w) x
    above = w.imag > MARGIN
    w, vectors, rubbing, pulling = w[above], vectors[:, above], rubbing[:, above], pulling[:, above]
    residual = np.linalg.norm(vectors * w**2 + rubbing * w + pulling, axis=0)
    if len(w) == 0 or not residual.max() <= RESIDUAL * (1 + np.linalg.norm(damping)):
        return None
    outer = np.argsort(-np.abs(1 + w))
    return w[outer], vectors[:, outer]


def _product(matrix: np.ndarray, vectors: np.ndarray) -> np.ndarray:
    """A real matrix times complex vectors, without a complex copy of it."""
    return matrix @ vectors.real + 1j * (matrix @ vectors.imag)
